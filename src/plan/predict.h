#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct err;

/* predict - how long will it run?  Learned from every end, by signature.
 *
 * A signature is a list of keys from fine to coarse (program, arguments' shape,
 * model of device, input size, gang size ... down to "anything").  What is
 * known about the finest key with enough ends answers, blended with the next
 * coarser one while it has seen few.  Answers are quantiles, never a mean, and
 * a task nobody has seen before gets an honest wide range.
 *
 * Pure and deterministic.  Memory is bounded: so many keys, each of bounded
 * size; the one unseen for longest goes first.
 */
enum { PREDICT_KEYS = 4 };

struct predict_sig {
    uint64_t key[PREDICT_KEYS];        /* fine to coarse; 0: not given */
};
/* Hash of a text, for making keys; never 0. */
uint64_t predict_key(const char *text, uint64_t seed);

struct predict;
struct predict *predict_new(void);
void predict_free(struct predict *pr);

struct guess {
    uint64_t low_ms, mid_ms, high_ms;  /* quantiles 0.1, 0.5, 0.9 of it all */
    uint32_t seen;                     /* ends behind it; 0: a default */
};
/* Of the whole run time on a device of rating 1, given that it has run for
 * `age_ms` already and says (0 < progress <= 1, 0: says nothing) how far it is.
 */
void predict_guess(struct predict *pr, const struct predict_sig *sig,
                   uint64_t age_ms, double progress, struct guess *ret);
/* Any quantile of the same, 0 < q < 1. */
uint64_t predict_quantile(struct predict *pr, const struct predict_sig *sig,
                          uint64_t age_ms, double progress, double q);
/* ... as it is told to people.  What decides takes all that ended for the like
 * of one that nobody has seen, and is right on average; of that one task it says
 * little.  Here the coarsest key, and anything at all, count for half each.
 */
uint64_t predict_cautious(struct predict *pr, const struct predict_sig *sig,
                          uint64_t age_ms, double progress, double q);
/* What it has before it, on average; 0: nothing is known of its like. */
double predict_ahead(struct predict *pr, const struct predict_sig *sig,
                     uint64_t age_ms, double progress);
/* One ended by itself after run_ms (times the rating of its device), having
 * used `work` = device-milliseconds in all (0: no device).
 */
void predict_learn(struct predict *pr, const struct predict_sig *sig,
                   uint64_t run_ms, uint64_t work, uint64_t now_ms);

/* Whose turn: the smaller the sooner.  What has had `work` device-ms so far
 * belongs to the level returned; *ret_until is the work at which the level
 * changes (UINT64_MAX: never).  Two levels are a factor of 2 in the work that
 * one more end is expected to cost (see level.c).
 */
enum {
    PREDICT_GIVE_WAY = 4,              /* levels ahead of whom it asks to go */
};
uint32_t predict_level(const struct predict *pr, const struct predict_sig *sig,
                       uint64_t work, uint64_t *ret_until);
/* Grows whenever predict_level may answer otherwise. */
uint64_t predict_ranked(const struct predict *pr);
/* Device-ms that one more end of that level is expected to cost. */
double predict_cost(uint32_t level);

/* How good it is: share of ends below the guessed low, mid and high quantile,
 * and the median of |mid - actual| / actual.
 */
struct predict_quality {
    uint64_t ends;
    double below_low, below_mid, below_high, error;
};
void predict_quality(struct predict *pr, struct predict_quality *ret);

/* Rows for the store: each changed key once; body NULL: forgotten. */
typedef int (*predict_row_f)(const char *key, const json_t *body, void *arg);
int predict_rows(struct predict *pr, predict_row_f cb, void *arg);
int predict_load(struct predict *pr, const char *key, const json_t *body,
                 struct err *err);

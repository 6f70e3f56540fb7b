#pragma once

#include "base/heap.h"
#include "plan/predict.h"
#include "plan/sketch.h"

struct map;

/* predict_int - what predict.c, predict_rows.c and level.c share. */

enum { PREDICT_KEYS_KEPT = 4096 };
/* Milliseconds of a thousand centuries: no time of ours is later. */
#define PREDICT_TURN_MAX (UINT64_C(1) << 53)

/* What is known about one key. */
struct known {
    uint64_t key;                      /* 0: of anything at all */
    uint64_t turn;                     /* when it was last seen */
    uint32_t slot;                     /* in predict.oldest */
    uint32_t seen;                     /* ends */
    struct sketch run, work;
    /* level.c: by bucket of the work so far; as of `ranked` ends, 0: never. */
    uint8_t level[SKETCH_BUCKETS];
    uint32_t ranked;
    bool dirty, stored;                /* row to be written; has one */
    struct known *next, *prev;         /* in predict.dirty */
};

/* Counts fade like the sketches, so that they speak of late. */
struct quality {
    uint64_t ends;
    float weight, low, mid, high;
    struct sketch error;               /* millionths */
    bool dirty;
};

/* Mixes of run times as they were asked for last: good until something is
 * learned or forgotten.
 */
enum { PREDICT_MEMO = 32 };

enum { LATE_MASK = 255 };              /* of predict.late */

struct memo {
    struct predict_sig sig;
    uint64_t version;                  /* of the predict; 0: none */
    uint32_t seen;
    double ahead_ms;                   /* predict_ahead() from 0; < 0: not asked */
    struct mix mix;
};

struct predict {
    struct known all;
    struct map *by_key;
    struct heap oldest;                /* of by_key */
    uint64_t turn;
    struct known *dirty;
    uint64_t *forgotten;               /* keys whose rows are to be deleted */
    uint32_t nforgotten, forgotten_cap;
    struct quality quality;
    uint64_t version;                  /* from 1; grows with all that is known */
    uint64_t ranked;                   /* ... with every change of levels */
    struct memo *memo;                 /* PREDICT_MEMO; by the first key */
    struct known **late;               /* of by_key, by the last bits of a hash */
};

struct known *predict_find(const struct predict *pr, uint64_t key);
struct known *predict_make(struct predict *pr, uint64_t key);
/* All that is known of the signature, finest first, as one distribution of run
 * times (or of work), not summed up yet; returns the ends behind the finest that
 * knows any.
 */
uint32_t predict_mix(struct predict *pr, const struct predict_sig *sig,
                     bool work, struct mix *ret);
/* level.c: work out the levels of the i-th key from it and the coarser ones. */
void level_learn(struct predict *pr, const struct predict_sig *sig, int i);
/* Runs of equal levels: [level, buckets, level, buckets, ...]. */
json_t *level_to_json(const struct known *k);
int level_from_json(const json_t *j, struct known *k, struct err *err);

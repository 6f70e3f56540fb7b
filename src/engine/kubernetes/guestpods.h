#pragma once

#include "core/spec.h"

#include <jansson.h>
#include <stdbool.h>

struct engine_lease;
struct engine_word;
struct err;
struct guestpods;
struct kube;

/* guestpods - pods of others that are ours to schedule.
 *
 * Those that wait are told, each once; a lease that has one as its guest is
 * bound to its node, watched, and deleted when it is stopped.  A pod that was
 * bound says for which lease, in an annotation, so that one that was bound just
 * before a crash is known again and never bound for another.
 */
enum {
    GUESTPODS_MAX = 200000,
    GUESTPODS_SOON_MS = 3000,          /* for room that the plan knows of */
    GUESTPODS_UNSURE_MS = 5000,        /* until the watch shows a binding */
    GUESTPODS_DROP_MS = 60000,         /* then it is deleted again */
    GUESTPODS_ASK_MS = 60000,          /* for a right that is not there */
};

struct guestpods_conf {
    const char *scheduler, *instance;  /* borrowed, as all here */
    const char *tenant, *tolerate;     /* or NULL */
    /* As the engine's events. */
    void (*came)(const json_t *guest, void *arg);
    void (*left)(const char *uid, void *arg);
    void (*all_told)(void *arg);
    void (*begun)(const char *runner, void *arg);
    void (*over)(const char *runner, enum spec_cause cause, int status,
                 const char *why, void *arg);
    void (*moved)(void *arg);          /* what runs where is another */
    void (*trouble)(const char *text, void *arg);
    const char *(*node_of)(const char *block, void *arg);  /* or NULL */
    bool (*room)(const char *node, const struct engine_lease *l, void *arg);
    void *arg;
};

struct guestpods *guestpods_open(struct kube *k,
                                 const struct guestpods_conf *conf);
void guestpods_close(struct guestpods *all);   /* NULL is fine */

/* Is this pod one of them?  And is it bound by us, for a lease? */
bool guestpods_is(const struct guestpods *all, const json_t *pod);
bool guestpods_own(const struct guestpods *all, const json_t *pod);

/* As in pods.h, of those alone. */
void guestpods_list(struct guestpods *all);
void guestpods_listed(struct guestpods *all);
void guestpods_ready(struct guestpods *all);
void guestpods_put(struct guestpods *all, const json_t *pod);
void guestpods_gone(struct guestpods *all, const json_t *pod);

int guestpods_start(struct guestpods *all, const struct engine_lease *l,
                    struct err *err);
/* False: no guest has this lease, as far as is known. */
bool guestpods_stop(struct guestpods *all, const char *runner);
void guestpods_tell(struct guestpods *all, const char *uid,
                    const struct engine_word *w);
void guestpods_find(const struct guestpods *all, json_t *list); /* adds */
bool guestpods_busy(const struct guestpods *all, const char *node);

#pragma once

#include "gpu/health.h"

/* health_log - the health of the devices, and its changes as they are told.
 *
 * Changes are numbered from the start; the last ones are kept for who takes
 * them slowly.  Each is a line of the log, too.
 */
enum { HEALTH_LOG = 256 };

/* What is kept of all devices with every rule raised and all its events. */
enum {
    HEALTH_KEPT_MAX = 4096 + DEVICE_MAX *
        (512 + HEALTH_RULES * (256 + HEALTH_COUNT_MAX * 64)),
};

struct health_log {
    struct health *health;
    uint64_t n;                        /* ever */
    struct health_change last[HEALTH_LOG];
    char *path;                        /* NULL: it is not kept */
    char boot[37];
};

/* NULL: the rules that are shipped. */
struct health_log *health_log_new(const struct health_rules *rules,
                                  uint64_t every_ms);
void health_log_free(struct health_log *l);        /* NULL is fine */
/* Keep what a later start must know in a file of this folder, which is there,
 * and begin with what is in it, if it is of this boot.  What cannot be read is
 * a line of the log.
 */
int health_log_keep(struct health_log *l, const char *dir, struct err *err);
void health_log_look(struct health_log *l, const struct node_report *r,
                     uint64_t now_ms);
/* As health_was_reset; it is kept before it is told. */
unsigned health_log_was_reset(struct health_log *l, const char *uuid);
/* The change *next, which is counted up, or NULL when there is none yet.
 * *ret_missed is how many before it are no longer there.
 */
const struct health_change *health_log_next(const struct health_log *l,
                                            uint64_t *next,
                                            uint64_t *ret_missed);

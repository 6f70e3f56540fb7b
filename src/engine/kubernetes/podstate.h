#pragma once

#include "core/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* podstate - what a Pod of ours says of itself, as the cluster shows it. */
enum podstate_kind {
    PODSTATE_COMING,                   /* its task's container has not begun */
    PODSTATE_RUNNING,
    PODSTATE_OVER,                     /* nothing of it runs any more */
};

struct podstate {
    enum podstate_kind kind;
    /* Why it is over; or, of what is not over, why it is about to be (it is
     * leaving), or what holds it up.  NONE: nothing does.
     */
    enum spec_cause cause;
    int status;                        /* exit status or -signal; 0: unknown */
    char why[300];                     /* one sentence; "" with NONE */
    bool by_itself;                    /* the container ended, nobody ended it:
                                        * its runner may have said more */
    bool stuck;                        /* what holds it up does not go away */
    bool leaving;                      /* somebody told it to end */
    uint32_t grace_s;                  /* then: as long may it take */
};

/* Any JSON is read; what makes no sense says nothing. */
void podstate_read(const json_t *pod, struct podstate *ret);
/* The object is gone, and this was read of it last: then it is over. */
void podstate_gone(struct podstate *s);

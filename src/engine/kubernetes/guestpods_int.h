#pragma once

#include "engine/engine.h"
#include "engine/kubernetes/guestpods.h"
#include "engine/kubernetes/podstate.h"
#include "kube/backoff.h"

struct map;
struct watch;
struct words;

/* Of guestpods.c, which decides, and guestask.c, which asks the API server. */
enum guest_want {
    GUEST_FREE,                        /* it has no lease */
    GUEST_FOUND,                       /* bound for one that nobody has asked
                                        * for yet */
    GUEST_WANTED,
    GUEST_LEAVING,                     /* the lease is to end */
    GUEST_TOLD,                        /* it is over, as was told */
};

struct guest {
    struct guestpods *of;
    char *uid, *space, *name;          /* space NULL: it was not seen yet */
    char *node;                        /* that it is bound to; or NULL */
    char *by;                          /* for which of our leases; or NULL */
    struct podstate state;
    json_t *waits;                     /* to be told, once we may; or NULL */
    bool there, told, unfit;           /* told: it waits, as control knows */
    bool gated;                        /* others keep it from being bound */
    bool drop, dropped;                /* it is not to run any more */
    bool unsure;                       /* a binding may still come to something */
    bool binds;                        /* `call` does */
    bool said;                         /* that it runs */
    enum guest_want want;
    struct engine_lease lease;         /* numbers alone, and ... */
    char runner[RUNNER_NAME_SIZE];     /* ... whose; "": nobody's */
    char block[48];
    uint32_t seen;                     /* number of the list */
    uint64_t since_ms;                 /* waits for room since; 0: it does not */
    struct kube_call *call;
    struct watch *timer;
    struct backoff backoff;
    struct guest *next_soon;
    bool soon;
};

struct guestpods {
    struct kube *kube;
    struct loop *loop;
    struct guestpods_conf conf;
    struct map *all, *leases;          /* by uid; by runner */
    struct words *words;
    bool listed, ready, forbidden;
    int binding;                       /* of them, on the way */
    bool may, asking;                  /* bind pods; is that being asked? */
    struct kube_call *asked;
    struct watch *ask;
    struct backoff asks;
    uint32_t lists;
    struct guest *first_soon, *last_soon;
    struct watch *look;
};

void guest_step(struct guest *g);      /* what is to be done? */
void guest_later(struct guest *g, uint64_t ms);
void guest_over(struct guest *g, enum spec_cause cause, int status,
                const char *why);
/* It is not there, as the API server says. */
void guest_absent(struct guest *g);

/* May pods be bound by us?  guestpods_allowed, once it is so. */
void guestpods_ask(struct guestpods *all);
void guestpods_allowed(struct guestpods *all);

/* One request each, if none is under way; its answer makes a step. */
void guest_bind(struct guest *g, const char *node);
void guest_delete(struct guest *g);
void guest_binding(struct guest *g, bool binds);   /* it is on the way */

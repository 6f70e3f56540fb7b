#pragma once

#include "engine/engine.h"
#include "engine/kubernetes/name.h"
#include "engine/kubernetes/pods.h"
#include "engine/kubernetes/podstate.h"
#include "kube/backoff.h"

struct loop;
struct map;
struct watch;

/* Of pods.c, which decides, and podask.c, which asks the API server. */
enum pod_want {
    POD_FOUND,                         /* seen, and nobody has asked for it */
    POD_WANTED,
    POD_TOLD,                          /* over, as was told */
    POD_UNWANTED,
};

struct pod {
    struct pods *of;
    struct engine_lease lease;         /* its texts are owned; of one that was
                                        * found, runner alone */
    char runner[RUNNER_NAME_SIZE], name[NAME_POD];
    char *node;                        /* where it is or is to be; or NULL */
    enum pod_want want;
    struct podstate state;
    char *uid;                         /* NULL: it is not known to be there */
    bool shown;                        /* by the watch, to the inventory too */
    bool fresh;                        /* made by us just now */
    bool given;                        /* its Secret is there */
    bool asked;                        /* for one to be made */
    bool dropped;                      /* it was told to go */
    bool absent;                       /* it is not there, as was said */
    bool unsure;                       /* a request to make it may still come
                                        * to something */
    bool waits;                        /* for its place */
    bool denied;                       /* as if nobody had any right, ... */
    uint64_t denied_ms;                /* ... since then */
    uint32_t seen;                     /* number of the list */
    uint64_t since_ms;                 /* of what is waited for, and ... */
    int waited;                        /* ... what that is */
    struct kube_call *call;
    struct watch *timer;
    struct backoff backoff;
};

struct pods {
    struct kube *kube;
    struct loop *loop;
    struct pods_conf conf;
    struct map *all;                   /* by runner */
    bool listed, ready;
    uint32_t lists;
    struct watch *soon;
};

/* Look again at what is to be done for it: now, later. */
void pod_step(struct pod *p);
void pod_later(struct pod *p, uint64_t ms);
void pod_over(struct pod *p, enum spec_cause cause, int status,
              const char *why);
/* What the server shows nothing of, though it says that it is there. */
void pod_met(struct pod *p);
/* Not there, as the API server says. */
void pod_absent(struct pod *p);

/* One request each, if none is under way; its answer makes a step. */
void pod_make(struct pod *p);
void pod_give(struct pod *p);
void pod_drop(struct pod *p, bool at_once);

#pragma once

#include "control/guests.h"

struct gang;

/* Of guests.c and guestwords.c. */
struct guest {
    struct reached *of;                /* NULL: its engine has not told of it */
    char *uid;
    json_t *told;                      /* what the engine said; or NULL */
    struct gang *gang;                 /* that it waits in; or NULL */
    uint64_t workload;                 /* 0: not submitted */
    uint32_t task;
    bool gone;                         /* as the engine said */
    bool stuck;                        /* refused, and tried again now and then */
    /* What it was told last, without numbers, and when, by the loop's time. */
    uint64_t hash, told_ms, look_ms;
    struct guest *next_look, *prev_look;
    bool looks;
};

/* Some of one gang, that wait for the others. */
struct gang {
    char *name;
    uint32_t size, count;
    struct guest **list;
};

struct guests {
    struct control *c;
    struct map *all;                   /* uid -> struct guest */
    struct map *tasks;                 /* workload and task -> struct guest */
    struct map *gangs;                 /* "POOL/NAMESPACE/GANG" -> struct gang */
    struct guest *first, *last;        /* those that are looked at, in turn */
    struct watch *look, *again;
    size_t stuck;
};

/* guestwords.c: tell those that wait why.  It waits from now on. */
void guest_look(struct guests *all, struct guest *g);
void guest_look_not(struct guests *all, struct guest *g);
/* At once, if it is new; with other numbers alone only where they count. */
void guest_say(struct guests *all, struct guest *g, const char *code,
               const char *text, bool numbers);
void guest_drop(struct guest *g);

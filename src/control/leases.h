#pragma once

#include "control/control_int.h"

/* leases - what leases.c, settle.c and blocks.c share; the table at the top of
 * leases.c says what they do together.
 */
enum use_kind {              /* of devices: what it was, or why it counts so */
    USE_START, USE_LAUNCH, USE_COPY, USE_SYNC, USE_MEMORY, USE_RESUME,
};

/* What a task has done with its devices, as told last.  See idle.c. */
struct use {
    uint64_t last_ms;                  /* 0: nothing was told yet */
    enum use_kind kind;
    bool asked;                        /* to leave them, since then */
    uint32_t wanting;                  /* threads that wait for them */
    uint32_t inside;                   /* ... for work there: it is in use */
    uint64_t launches, copies, syncs, bytes;
};

struct held {
    uint32_t gen;
    uint64_t epoch;
    bool unstarted;                    /* the last hello said: ordered, not claimed */
    uint64_t said_ms;                  /* its newest word about itself */
    uint64_t again_at_ms, again_ms;    /* moving.c: the loop's time; 0: not */
    struct use use;
};

struct held *held_get(const struct control *c, const struct lease_key *k);
/* A new one, or another generation of it. */
struct held *held_set(struct control *c, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch);
void held_del(struct control *c, const struct lease_key *k);

/* The lease of that very generation, or NULL. */
struct lease *leases_find(const struct control *c, const struct lease_key *k,
                          uint32_t gen);
struct lease_key leases_key(const struct lease *l);
bool leases_over(const struct lease *l);
/* Each lease of a block; `f` may end the one it is given. */
typedef void leases_f(struct control *c, struct lease *l, const void *arg);
void leases_each(struct control *c, const char *block, leases_f *f,
                 const void *arg);

/* Is its runner here? */
bool leases_here(const struct control *c, const struct lease *l);
/* Messages to the runner of a block, or of the lease that the message is about
 * where it has one of its own.  One that is away settles when it says hello;
 * anything else is worth a line in the log.
 */
void leases_say(struct control *c, const char *block,
                const struct wire_msg *m);
void leases_say_short(struct control *c, const char *block,
                      enum wire_kind kind, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch, bool yes);
/* Order a planned lease whose runner is here; of a gang that is apart all of
 * them, once all are.  One that can never be told ends here, refused: the lease
 * may be gone afterwards.
 */
void leases_order(struct control *c, struct lease *l);
/* Stop a lease; what its runner never heard of ends here. */
void leases_stop(struct control *c, struct lease *l);
/* An end that no runner reports: nothing of it runs.  `why` may be NULL. */
void leases_end(struct control *c, const struct lease *l,
                enum spec_cause cause, int status, const char *why);

/* An event about one lease, as its runner reports it. */
void leases_event(struct event *e, enum event_type type,
                  const struct lease_key *k, uint32_t gen, const char *block);

/* staged.c: tasks that stand ready.  Order one that is staged. */
void staged_order(struct control *c, const struct effect *f);
/* A claim, or an end, of one; false: it is not. */
bool staged_claim(struct control *c, const char *block,
                  const struct wire_msg *m);
bool staged_ended(const struct control *c, const struct wire_msg *m);
/* Its attempt is planned: what has started is claimed for it.  False: it cannot
 * be, and is ended.
 */
bool staged_planned(struct control *c, struct lease *l);
/* Its claim is durable: its device is its own. */
void staged_open(struct control *c, const char *block,
                 const struct lease_key *k, uint32_t gen);
/* What a hello says of one, or of a planned lease that was one; false: neither. */
bool staged_hello(struct control *c, const char *block,
                  const struct wire_lease *w, const struct lease *l);
/* After a hello: order those that the runner has not. */
void staged_settle(struct control *c, const char *block);
void staged_gone(struct control *c, const char *block);
/* Take back those that have stood there too long. */
void staged_age(struct control *c);
/* Stop those that are not wanted any more. */
void staged_sweep(struct control *c);
void staged_clear(struct control *c);

/* moving.c: off their devices and back.  Ask for what a task was told. */
void moving_act(struct control *c, const struct task *t);
/* After a hello that has the lease. */
void moving_settle(struct control *c, const struct lease *l,
                   const struct wire_lease *w);
/* The runner's answer. */
void moving_moved(struct control *c, const char *block,
                  const struct wire_msg *m);
void moving_clear(struct control *c);

/* idle.c: devices that are not used.  A runner's word about a lease. */
void idle_heard(struct control *c, const struct lease *l,
                const struct wire_msg *m);
/* It is back on its devices. */
void idle_back(struct control *c, const struct lease_key *k);
/* Let go who is idle, and recall who wants its devices. */
void idle_look(struct control *c);
void idle_close(struct control *c);

/* settle.c */
/* One lease of a hello. */
void settle_told(struct control *c, const char *block,
                 const struct wire_lease *w);
/* What follows from a hello for a lease of the world's. */
void settle_lease(struct control *c, struct lease *l, const void *hello);
void settle_message(const char *name, const struct wire_msg *m, void *arg);

/* blocks.c */
bool blocks_admit(const char *runner, const char *token, void *arg);

#pragma once

#include "control/control_int.h"

/* leases - what leases.c, settle.c and blocks.c share; the table at the top of
 * leases.c says what they do together.
 */
struct held {
    uint32_t gen;
    uint64_t epoch;
    bool unstarted;                    /* the last hello said: ordered, not claimed */
    uint64_t said_ms;                  /* its newest word about itself */
};

struct held *held_get(const struct control *c, const struct lease_key *k);
/* A new one, or another generation of it. */
struct held *held_set(struct control *c, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch);

/* The lease of that very generation, or NULL. */
struct lease *leases_find(const struct control *c, const struct lease_key *k,
                          uint32_t gen);
struct lease_key leases_key(const struct lease *l);
bool leases_over(const struct lease *l);
/* Each lease of a block; `f` may end the one it is given. */
typedef void leases_f(struct control *c, struct lease *l, const void *arg);
void leases_each(struct control *c, const char *block, leases_f *f,
                 const void *arg);

/* Messages to a runner.  One that is away settles when it says hello; anything
 * else is worth a line in the log.
 */
void leases_say(struct control *c, const char *block,
                const struct wire_msg *m);
void leases_say_short(struct control *c, const char *block,
                      enum wire_kind kind, const struct lease_key *k,
                      uint32_t gen, uint64_t epoch, bool yes);
/* Order a planned lease.  One that can never be told ends here, refused: the
 * lease may be gone afterwards.
 */
void leases_order(struct control *c, struct lease *l);
/* Stop a lease; what its runner never heard of ends here. */
void leases_stop(struct control *c, struct lease *l);
/* An end that no runner reports: nothing of it runs. */
void leases_end(struct control *c, const struct lease *l,
                enum spec_cause cause, int status);

/* An event about one lease, as its runner reports it. */
void leases_event(struct event *e, enum event_type type,
                  const struct lease_key *k, uint32_t gen, const char *block);

/* settle.c */
void settle_message(const char *block, const struct wire_msg *m, void *arg);

/* blocks.c */
bool blocks_admit(const char *block, const char *token, void *arg);

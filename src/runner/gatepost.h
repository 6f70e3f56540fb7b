#pragma once

#include "runner/gatepage.h"
#include "runner/order.h"

struct err;
struct gatepost;
struct loop;

/* gatepost - where the gates in a task's processes find the runner: a page and
 * a socket for each lease, named after its record.
 *
 * Both are the task's user's alone (0600), in a folder that is ours: who may
 * not connect or map cannot, and nobody can put something else in their place.
 * What comes over the socket is bounded: so many at a time, each with so long
 * to say its line; the others wait to be let in.
 */
enum {
    GATEPOST_GUESTS = 64,              /* of a lease, at a time */
    GATEPOST_QUIET_MS = 5000,          /* to say a line, and to leave after */
};

struct gateposts {
    struct loop *loop;
    const char *dir;                   /* made with the first post */
    const char *above;                 /* or NULL: a folder to make before it */
    /* A process of that lease says that it wants its device. */
    void (*wants)(void *owner);
};

struct gatepost_conf {
    const struct lease_id *id;
    const char *lease;                 /* what hello must name; borrowed */
    const struct order_gate *grant;
    uid_t uid;                         /* who the task runs as */
    gid_t gid;
    bool found;                        /* by a runner that was started again */
    bool shut;                         /* and it may be off its devices */
    void *owner;
};

/* With `found` the page is taken up as it is, if it is one, else made anew; the
 * socket is made anew.  With `shut` the page says suspended either way.
 * *ret: gatepost_close.
 */
int gatepost_open(const struct gateposts *all,
                  const struct gatepost_conf *conf, struct gatepost **ret,
                  struct err *err);
/* Hangs up; page and socket stay where they are.  NULL is fine. */
void gatepost_close(struct gatepost *p);
/* Their lease is over: removes the two. */
void gatepost_forget(const struct gateposts *all, const struct lease_id *id);

const char *gatepost_socket(const struct gatepost *p);
int gatepost_set(struct gatepost *p, enum gate_state state, struct err *err);
/* As it was found or set here: what the task writes into its page since then
 * does not count, neither here nor in what gatepost_look says.
 */
enum gate_state gatepost_state(const struct gatepost *p);
int gatepost_look(const struct gatepost *p, struct gatepage_seen *ret,
                  struct err *err);

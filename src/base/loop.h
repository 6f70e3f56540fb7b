#pragma once

#include <stdint.h>

struct err;

/* loop - the one place where a program waits.
 *
 * Single-threaded.  A callback may add or remove any watcher, also itself and
 * also one that is ready in this same turn: a removed watcher is never called
 * again, and its memory lives until the turn is over.  Timers sit in a heap:
 * adding and removing one is O(log n).
 */
struct loop;
struct watch;

enum { LOOP_READ = 1, LOOP_WRITE = 2 };

typedef void (*loop_fd_f)(struct watch *w, int fd, unsigned ready, void *arg);
typedef void (*loop_timer_f)(struct watch *w, void *arg);

int loop_open(struct loop **ret, struct err *err);
void loop_close(struct loop *l);                   /* NULL is fine */

/* A watcher of a descriptor stays until removed; remove it before closing the
 * descriptor.  A hang-up or an error is shown as ready for what was asked.
 */
int loop_fd(struct loop *l, int fd, unsigned want, loop_fd_f cb, void *arg,
            struct watch **ret, struct err *err);
void watch_want(struct watch *w, unsigned want);   /* 0 is allowed: sleep */

/* Fires once, then it is gone (the pointer is dead after the callback). */
struct watch *loop_timer(struct loop *l, uint64_t after_ms, loop_timer_f cb,
                         void *arg);
void watch_remove(struct watch *w);                /* NULL is fine */

/* Called once at the end of this turn, in order of the calls; from within such
 * a call, or outside of a turn: at the end of the next, which does not wait.
 */
struct watch *loop_soon(struct loop *l, loop_timer_f cb, void *arg);

/* Signals as watchers: blocks `sig` for the process and calls back from the
 * loop, once for signals that come together.  Call before threads start; a
 * child must unblock what it does not want blocked before it execs.
 */
typedef void (*loop_signal_f)(int sig, void *arg);
int loop_signal(struct loop *l, int sig, loop_signal_f cb, void *arg,
                struct err *err);

/* Monotonic milliseconds, read once a turn.  Tests set their own clock. */
uint64_t loop_now(const struct loop *l);
void loop_set_clock(struct loop *l, uint64_t (*now_ms)(void *), void *arg);

/* One wait, at most max_wait_ms (negative: as long as it takes), and all the
 * callbacks that are due.  Not to be called from a callback.
 */
int loop_turn(struct loop *l, int max_wait_ms, struct err *err);
int loop_run(struct loop *l, struct err *err);     /* until loop_stop */
void loop_stop(struct loop *l);

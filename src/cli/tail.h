#pragma once

#include <stdbool.h>
#include <stdint.h>

struct cli;

/* tail - the log of one rank of one attempt, to standard output.
 *
 * With `follow` it goes on until the attempt ends, across lost connections:
 * it knows which byte comes next.  With a prefix, lines leave whole, so that
 * several tails can share the output.  With -o json each line is an object.
 */
struct tail;

struct tail_conf {
    const char *workload, *task;       /* copied */
    uint32_t rank;
    uint32_t attempt;                  /* 0: the newest */
    bool follow;
    const char *prefix;                /* copied; "" for none */
};

/* `done` comes once, from the loop, with 0 or an exit status; `text` says what
 * is wrong and is not printed yet.  The tail stays until tail_close.
 */
typedef void (*tail_done_f)(struct tail *t, int code, const char *text,
                            void *arg);

int tail_open(struct cli *c, const struct tail_conf *conf, tail_done_f done,
              void *arg, struct tail **ret);
void tail_close(struct tail *t);       /* NULL is fine */

/* Turn the loop until this one is done: 0, or an exit status after saying
 * why.
 */
int tail_all(struct cli *c, const struct tail_conf *conf);

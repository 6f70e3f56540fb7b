#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct err;
struct health_rules;
struct loop;

/* serve - weir-gpud's socket: who asks is answered from the last look at the
 * devices, which is at most one period old, or that of a driver that does not
 * answer.
 *
 * A client that reads slowly gets the newest sample when it has read the last
 * one; XIDs and changes of health wait for it, up to a number, and are counted
 * beyond that.  Its next
 * request is read when it has taken the answer to the one before; that of a
 * suspend or a resume comes when it is over.
 */
struct serve_conf {
    const char *socket;                /* borrowed for the call */
    mode_t mode;
    uint64_t every_ms;                 /* between two looks */
    uint64_t stuck_ms;                 /* no answer for this long: stuck */
    const char *state;                 /* folder of records (record.h); NULL:
                                        * nobody is suspended; borrowed */
    uint64_t hung_ms;                  /* for a job, beside its locks */
    uint64_t spare;                    /* bytes of host memory to stay free */
    const struct health_rules *rules;  /* NULL: those shipped; borrowed for the
                                        * call */
};

enum { SERVE_CLIENTS = 64, SERVE_XIDS = 256 };

struct serve;
int serve_open(struct loop *l, const struct serve_conf *conf,
               struct serve **ret, struct err *err);
/* Take no more suspends and resumes, and stop the loop when those under way are
 * over: cut short, a task's threads would run while its memory is moved.
 */
void serve_end(struct serve *s);
bool serve_hangs(const struct serve *s);           /* see jobs_hang */
void serve_close(struct serve *s);                 /* NULL is fine */

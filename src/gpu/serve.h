#pragma once

#include <stdint.h>
#include <sys/types.h>

struct err;
struct loop;

/* serve - weir-gpud's socket: who asks is answered from the last look at the
 * devices, which is at most one period old, or that of a driver that does not
 * answer.
 *
 * A client that reads slowly gets the newest sample when it has read the last
 * one; XIDs wait for it, up to a number, and are counted beyond that.  Its next
 * request is read when it has taken the answer to the one before.
 */
struct serve_conf {
    const char *socket;                /* borrowed for the call */
    mode_t mode;
    uint64_t every_ms;                 /* between two looks */
    uint64_t stuck_ms;                 /* no answer for this long: stuck */
};

enum { SERVE_CLIENTS = 64, SERVE_XIDS = 256 };

struct serve;
int serve_open(struct loop *l, const struct serve_conf *conf,
               struct serve **ret, struct err *err);
void serve_close(struct serve *s);                 /* NULL is fine */

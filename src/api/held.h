#pragma once

#include <stdint.h>

struct call;
struct held;

/* held - answers that show what is not on disk yet.
 *
 * The world is ahead of the disk by the events of a batch.  Whoever is shown
 * one of them and finds it gone after a crash was told something that never was,
 * so such an answer is made at once, and sent when what it shows is durable.
 * They wait in order, as the world only goes on.
 */
struct held_list {
    struct held *first, *last;
    uint64_t durable;                  /* as far as was told */
};

/* Answer with this text (taken), now or when it is durable. */
void held_reply(struct call *c, unsigned status, char *text);
/* Everything up to that event is on disk. */
void held_durable(struct held_list *l, uint64_t seq);
/* What they show is lost: they are answered with that instead. */
void held_fail(struct held_list *l, unsigned status, const char *why);
/* Nobody is answered: the server is being closed, which does. */
void held_clear(struct held_list *l);

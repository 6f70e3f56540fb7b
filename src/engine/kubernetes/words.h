#pragma once

#include <stdbool.h>

struct kube;
struct words;

/* words - what is said of a pod to whoever looks at it: its condition
 * PodScheduled, and an Event as Kubernetes' own scheduler makes one.
 *
 * WORDS_AT_ONCE are on the way at a time, so that they never fill the line of
 * what matters more.  Of a pod the newest is said alone.
 */
enum { WORDS_AT_ONCE = 2, WORDS_TRIES = 5 };

struct word {
    const char *uid, *space, *name;    /* borrowed for the call, as all here */
    const char *text;
    bool good;                         /* it is bound: an Event alone */
};

/* `trouble` hears once of words that the server does not take. */
struct words *words_open(struct kube *k,
                         void (*trouble)(const char *text, void *arg),
                         void *arg);
void words_close(struct words *w);     /* NULL is fine */
void words_say(struct words *w, const struct word *word);
/* Until it is let go, nobody is told that it is bound. */
void words_hold(struct words *w, bool hold);
/* Nothing that waits to be said of it is said any more. */
void words_forget(struct words *w, const char *uid);

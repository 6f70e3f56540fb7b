#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;
struct kube;

/* track - all objects of one kind, and then every change of one.
 *
 * A list, page by page, gives what there is and its version; a watch from that
 * version on gives the changes.  A watch that ends is taken up where it was; one
 * that is told that its version is too old begins with a list again.  Whatever
 * fails is tried again, later and later, and said once.
 */
enum {
    TRACK_PAGE = 500,                  /* objects of a list at a time */
    TRACK_WATCH_S = 300,               /* a watch lasts that to twice that */
    TRACK_STEADY_MS = 1000,            /* one that lasted that long was sound */
    TRACK_ODD_MS = 60000,              /* between words about odd objects */
};

struct track;

struct track_ops {
    /* A list begins, anew perhaps in the midst of one.  What is put from here
     * to `listed` is all there is.
     */
    void (*list)(void *arg);
    void (*listed)(void *arg);
    /* An object that cannot be understood is passed over, and said by `odd`. */
    int (*put)(const json_t *object, void *arg, struct err *err);
    int (*gone)(const json_t *object, void *arg, struct err *err);
    void (*odd)(const char *text, void *arg);      /* one line, now and then */
    /* One line; the same is said once until all is well again. */
    void (*trouble)(const char *text, void *arg);
    void (*well)(void *arg);           /* after trouble */
};

/* `name` is for messages ("pods"), `path` the collection ("/api/v1/pods"),
 * `query` what it is narrowed by, escaped, or "".
 */
struct track *track_open(struct kube *k, const char *name, const char *path,
                         const char *query, const struct track_ops *ops,
                         void *arg);
void track_close(struct track *t);     /* not from its callbacks; NULL is fine */

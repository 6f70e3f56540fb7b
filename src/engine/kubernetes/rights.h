#pragma once

struct err;
struct kube;
struct rights;

/* rights - may we do there what we are to do?
 *
 * The API server is asked, verb by verb, as soon as there is one to ask, and
 * again every RIGHTS_AGAIN_MS while something is missing.  One that does not
 * say is taken at its word later, when it refuses.
 */
enum { RIGHTS_AGAIN_MS = 15000 };

struct rights_ops {
    /* `missing` names all that is not allowed, in one sentence, or is "".
     * Said once it is known, and when it changes.
     */
    void (*told)(const char *missing, void *arg);
};

struct rights *rights_open(struct kube *k, const char *space,
                           const struct rights_ops *ops, void *arg);
void rights_close(struct rights *r);   /* NULL is fine */

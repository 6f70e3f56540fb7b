#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <time.h>

/* account - who a task runs as.  The runner is static and asks no name
 * service: /etc/passwd and /etc/group, else the numbers alone.
 */
struct account {
    char *asked;               /* the name that was asked for */
    char *name, *home, *shell;
    uid_t uid;
    gid_t gid;
    gid_t *groups;
    size_t ngroups;
    struct account *next;
};

/* Those looked up so far, until one of the two files changes. */
struct accounts {
    struct account *list;
    size_t n;
    struct timespec passwd, group;
};

/* Never NULL; borrowed until the next call. */
const struct account *accounts_get(struct accounts *a, uid_t uid, gid_t gid,
                                   const char *name);
void accounts_clear(struct accounts *a);

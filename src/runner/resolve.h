#pragma once

#include <stddef.h>
#include <sys/socket.h>

struct err;
struct loop;

/* resolve - the addresses of a name, by c-ares on the loop: the runner is static
 * and so has no name service of the C library.  What /etc/resolv.conf and
 * /etc/hosts say is read anew each time.
 */
enum { RESOLVE_MAX = 16 };             /* addresses of a name; the first */

struct resolve;
/* From the loop, once: the addresses, or NULL and why.  `r` is gone after it. */
typedef void (*resolve_f)(const struct sockaddr_storage *list, size_t count,
                          const struct err *err, void *arg);

/* An address is its own name. */
int resolve_start(struct loop *l, const char *name, resolve_f cb, void *arg,
                  struct resolve **ret, struct err *err);
void resolve_cancel(struct resolve *r);            /* no callback; NULL is fine */

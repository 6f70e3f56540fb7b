#pragma once

#include <stdint.h>

struct err;

/* listen - listening sockets, non-blocking and close-on-exec. */

/* A Unix socket at `path` with `mode`.  A file that nobody answers at is
 * replaced; -EADDRINUSE when somebody does.
 */
int listen_unix(const char *path, uint32_t mode, int *ret, struct err *err);
/* "127.0.0.1:8443", "[::1]:8443", "localhost:8443". */
int listen_tcp(const char *address, int *ret, struct err *err);
/* Raise the soft limit of descriptors to the hard one; what it is then. */
unsigned listen_max_files(void);

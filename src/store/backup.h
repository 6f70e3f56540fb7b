#pragma once

#include <stdatomic.h>

struct err;
struct sql;
struct store;

/* backup - copies of a store, online and from file to file. */

/* One view of `from`, whatever is written meanwhile, as the new file `to` of
 * mode 0600 that needs no log beside it; not yet synced.  Ends with -ECANCELED
 * once *stop (may be NULL) is set.  On failure there is no file.
 */
int backup_copy(struct sql *from, const char *to, const atomic_bool *stop,
                struct err *err);
/* The file and its name in its folder, onto the disk. */
int backup_sync(const char *path, struct err *err);
/* Stop the backup under way, if there is one; its callback is not called. */
void backup_end(struct store *s);

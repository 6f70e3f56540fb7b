#pragma once

#include "store/schema.h"

#include <stdbool.h>
#include <stdint.h>

struct batch;
struct err;
struct sql;

/* writer - the transactions: the only code that changes a store.
 *
 * Used by one thread at a time.  A call that fails has changed nothing, and
 * the next one may be tried on the same writer.
 */
struct writer;

/* `sql` is taken, whatever comes of it. */
int writer_open(struct sql *sql, struct writer **ret, struct err *err);
void writer_close(struct writer *w);               /* NULL is fine */

/* All batches of the list in one transaction, on disk when this returns 0. */
int writer_write(struct writer *w, const struct batch *list, struct err *err);

/* One slice, of bounded size, of forgetting what ended before `before_ms`:
 * a piece of the oldest ended workload's events and tasks, then its row; when
 * no such workload is left, audit events older than that.  The newest event
 * and its workload stay.  1: there is more; *ret_gone is set when a workload
 * went with this slice; 0: nothing left.
 */
int writer_trim(struct writer *w, uint64_t before_ms, bool *ret_gone,
                struct err *err);

/* Is the write-ahead log long enough to be worth moving into the database
 * now (`idle`: or when there is nothing better to do)?
 */
bool writer_due(const struct writer *w, bool idle);
int writer_checkpoint(struct writer *w, struct err *err);

/* As of the last transaction. */
struct schema_head writer_head(const struct writer *w);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;
struct sql;

/* schema - the tables, their versions, and whether a file holds them.
 *
 * A store says that it is one by its application id and which version it has
 * by its user version.  An empty file is version 0: making a store and
 * bringing an old one up to date are the same walk over one table of steps.
 */
enum {
    SCHEMA_APPLICATION = 0x57656972,   /* "Weir" */
    SCHEMA_VERSION = 1,
};

/* A step brings version n, its place in the table, to n + 1. */
struct schema_step {
    const char *text;                  /* SQL, run whole */
};

/* Make the file a store of the newest version, in one transaction: all steps
 * or none.  -EPROTONOSUPPORT: it is newer than this program; -EBADMSG: it is
 * something else.
 */
int schema_migrate(struct sql *s, struct err *err);
/* The same with other steps (for tests of the walk itself). */
int schema_migrate_with(struct sql *s, const struct schema_step *list,
                        unsigned nsteps, struct err *err);
/* Is it a store of exactly this version?  For those that may not write:
 * -EROFS when it is older.
 */
int schema_expect(struct sql *s, struct err *err);
/* May it be put in place of a store: one of ours, not empty, not newer, and
 * whole by SQLite's own full check?  An older version may.
 */
int schema_sound(struct sql *s, struct err *err);

/* What the journal's newest transaction says about the whole. */
struct schema_head {
    uint64_t seq, time_ms;             /* of the newest event; 0: none yet */
    uint64_t events;                   /* in the table */
    uint64_t live;                     /* workloads that have not ended */
};
int schema_head(struct sql *s, struct schema_head *ret, struct err *err);

/* Is it whole?  Three depths:
 *   - bounded: tables and indexes are the ones of this version; the head
 *     agrees with the newest event and with the number of live workloads;
 *     the newest thousand events are readable and in order of time; SQLite's
 *     quick check of the tables of bounded size.  Its time does not grow with
 *     the history.
 *   - quick: that, and SQLite's quick check of every page.
 *   - full: that, and every index against its table, and the count of events.
 * -EBADMSG, with what is wrong.
 */
enum schema_depth { SCHEMA_BOUNDED, SCHEMA_QUICK, SCHEMA_FULL };
int schema_check(struct sql *s, enum schema_depth depth, struct err *err);

#pragma once

#include "gpu/suspend.h"

#include <pthread.h>

/* jobs - suspends and resumes under way, each in a thread of its own.
 *
 * One for a task at a time.  A job waits for the next look at the devices, so
 * that it knows how much is on them now.  All functions are the loop's.
 *
 * A call into the driver may never return, and its thread cannot be ended.  After
 * a time a job like that is hung: who asked is told, and who asks for that task
 * again is refused until the call returns, if it does; it takes nobody's place
 * and no memory, for as long as there are not too many.
 *
 * A task that a job leaves neither running nor suspended is recovered, again and
 * again, after 1 s, 2 s and up to 60 s; a resume that is asked for meanwhile
 * comes in place of the next try.
 */
enum { JOBS_MAX = 16, JOBS_HUNG_MAX = 16 };

struct job {
    struct job *next, *prev;
    struct suspend_ask ask;
    bool recover;                      /* what a record of before asks for */
    void *who;                         /* gets the answer; NULL: nobody */
    struct suspend_result result;
    /* Private. */
    struct jobs *jobs;
    struct node_report *now;           /* NULL: it waits */
    uint64_t begun_us;
    uint64_t after_us, pause_us;       /* of a recovery that failed before: it
                                        * waits until then; else 0 */
    bool hung, over;
    pthread_t thread;
};

const char *job_what(const struct job *b);         /* "suspend", ... */

struct jobs;
/* Those that were cut short last time begin with the first look. */
int jobs_open(const char *dir, uint64_t spare, struct jobs **ret,
              struct err *err);
/* From now on none is taken and no recovery begun. */
void jobs_end(struct jobs *j);
/* Is one under way that is not hung, or about to begin? */
bool jobs_busy(const struct jobs *j);
/* Does a thread hang in the driver?  The process must not be ended by exit then:
 * the driver's library would be taken apart under it.
 */
bool jobs_hang(const struct jobs *j);
/* Waits a moment for those under way; the rest is as after a crash.  NULL is
 * fine.
 */
void jobs_close(struct jobs *j);

int jobs_fd(const struct jobs *j);                 /* readable: one is over */
/* -EAGAIN, -EBUSY: to be asked again; -EIO: the one before is hung. */
int jobs_add(struct jobs *j, const struct suspend_ask *a, void *who,
             struct err *err);
/* Begin those that wait. */
void jobs_start(struct jobs *j, const struct node_report *now);
/* One that is over, no longer on the list; NULL: none.  Caller frees. */
struct job *jobs_take(struct jobs *j);
/* One that has just turned out to be hung, after `limit_ms` beside the time for
 * its locks: its `who` is for the caller to answer, and is forgotten.  NULL:
 * none.
 */
struct job *jobs_hung(struct jobs *j, uint64_t limit_ms, void **ret_who);
/* [{task, what, ms}] of those that are hung; caller owns. */
json_t *jobs_hung_json(const struct jobs *j);
void jobs_forget(struct jobs *j, const void *who); /* the asker is gone */

#include "gpu/suspend_in.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <string.h>
#include <time.h>

/* The way back: of a suspend that did not work, of one that a crash cut short,
 * and of one that is over.  Each process is brought from whatever state the
 * driver says it is in, so that it may be begun anew at any point.
 */

static int ask_state(struct op *o, struct one *p)
{
    int state = CUDA_FAILED;
    int rc = o->s->cuda.cuCheckpointProcessGetState(p->proc.pid, &state);

    if (rc != CUDA_RC_OK)
        return op_refuse_rc(o, p, "cuCheckpointProcessGetState", rc);
    p->known = true;
    p->at = (enum cuda_state) state;
    return 0;
}

/* Where it is; of one that was taken threads are held then, and the driver's
 * thread runs, whatever was before.
 *
 * The driver is asked first, with everything running: a lock that was under way
 * when weir-gpud died waits for calls that threads are in, and the question
 * waits for the lock.  Of one that is stopped nothing can be asked before its
 * driver's thread runs.
 */
static int ready(struct op *o, struct one *p)
{
    struct err err = { 0 };
    bool parked = hold_state(p->proc.pid, p->tid) == 'T';
    int rc = p->known || parked ? 0 : ask_state(o, p);

    if (!rc && !parked && p->at != CUDA_TAKEN)
        return 0;
    if (!rc && !p->hold.pid)
        rc = op_hold(o, p);
    if (rc)
        return rc;
    if (hold_unpark(&p->hold, &err) < 0)
        return op_refuse_err(o, SUSPEND_THREADS, &err);
    return p->known ? 0 : ask_state(o, p);
}

/* After a call that failed, while the driver's thread runs: where is it now? */
static void look_again(struct op *o, struct one *p)
{
    int state = CUDA_FAILED;

    if (p->known || !procs_alive(&p->proc))
        return;
    p->known = o->s->cuda.cuCheckpointProcessGetState(p->proc.pid, &state) ==
               CUDA_RC_OK;
    p->at = (enum cuda_state) state;
}

static int refuse_failed(struct op *o, const struct one *p)
{
    return op_refuse(o, SUSPEND_DRIVER, "process %d: the driver has given it"
                     " up", (int) p->proc.pid);
}

static const char *target(const struct op *o, unsigned i)
{
    const struct record_device *d = &o->rec.devices[i];

    return d->to[0] ? d->to : d->uuid;
}

/* Of one that goes elsewhere; else none.  A process may be elsewhere than the
 * others are: see record_place.
 */
static int make_pairs(struct op *o, const struct one *p,
                      struct cuda_pair *pairs, unsigned *ret)
{
    bool any = false;

    for (unsigned i = 0; i < o->rec.ndevices; i++)
        any = any || strcmp(record_place(&o->rec, p->rec, i),
                            target(o, i)) != 0;
    *ret = 0;
    for (unsigned i = 0; any && i < o->rec.ndevices; i++) {
        const char *from = record_place(&o->rec, p->rec, i);

        if (!cuda_uuid_read(from, &pairs[i].from) ||
            !cuda_uuid_read(target(o, i), &pairs[i].to))
            return op_refuse(o, SUSPEND_UNLIKE, "device %s is not named by a"
                             " UUID the driver takes", from);
        *ret = i + 1;
    }
    return 0;
}

/* It is where it was to go: that is on disk before it is taken off again. */
static int note_place(struct op *o, const struct one *p)
{
    struct err err = { 0 };

    for (unsigned i = 0; i < o->rec.ndevices; i++)
        if (!record_put(&o->rec, p->rec, i, target(o, i)))
            return op_refuse(o, SUSPEND_NODE, "process %d was on too many"
                             " devices", (int) p->proc.pid);
    return record_save(o->s->dir, &o->rec, &err) < 0
         ? op_refuse_err(o, SUSPEND_NODE, &err) : 0;
}

static int restore(struct op *o, struct one *p)
{
    struct cuda_pair pairs[RECORD_DEVICES];
    struct cuda_restore_args args = { .pairs = pairs };
    uint64_t begun = clock_mono_us();
    int rc;

    memset(pairs, 0, sizeof pairs);
    if (make_pairs(o, p, pairs, &args.count))
        return -1;
    rc = procs_alive(&p->proc)
       ? o->s->cuda.cuCheckpointProcessRestore(p->proc.pid,
                                               args.count ? &args : NULL)
       : CUDA_RC_INVALID;
    o->res->restore_us += clock_mono_us() - begun;
    p->known = rc == CUDA_RC_OK;
    if (rc != CUDA_RC_OK)
        return op_refuse_rc(o, p, "cuCheckpointProcessRestore", rc);
    p->at = CUDA_LOCKED;
    return args.count ? note_place(o, p) : 0;
}

/* Back on its device; its threads go on, and then its calls. */
static int let_go(struct op *o, struct one *p)
{
    uint64_t begun = clock_mono_us();
    int rc = CUDA_RC_OK;

    hold_let_go(&p->hold);
    if (p->at == CUDA_LOCKED && procs_alive(&p->proc))
        rc = o->s->cuda.cuCheckpointProcessUnlock(p->proc.pid, NULL);
    o->res->unlock_us += clock_mono_us() - begun;
    p->known = rc == CUDA_RC_OK;
    if (rc != CUDA_RC_OK)
        return op_refuse_rc(o, p, "cuCheckpointProcessUnlock", rc);
    p->at = CUDA_RUNNING;
    return 0;
}

/* What was told before stays the reason; the figures are those of now. */
static void keep_reason(struct op *o, const struct suspend_result *why)
{
    o->res->reason = why->reason;
    memcpy(o->res->text, why->text, sizeof why->text);
}

/* One process of an undo. */
static bool bring_back(struct op *o, struct one *p)
{
    const struct suspend_result why = *o->res;
    char text[sizeof why.text];
    int rc = 0;

    if (!procs_alive(&p->proc))
        return true;                   /* nothing to be brought back */
    if (!p->known || p->at != CUDA_RUNNING)
        rc = ready(o, p);
    if (!rc && p->at == CUDA_FAILED)
        rc = refuse_failed(o, p);
    p->was_back = p->was_back || (!rc && p->at != CUDA_RUNNING);
    if (!rc && p->at == CUDA_TAKEN)
        rc = restore(o, p);
    if (!rc)
        rc = let_go(o, p);
    if (!rc)
        return true;
    if (!procs_alive(&p->proc)) {
        keep_reason(o, &why);
        return true;
    }
    memcpy(text, o->res->text, sizeof text);
    look_again(o, p);
    if (p->hold.pid)
        (void) op_settle(o, p);
    if (why.reason == SUSPEND_DONE)
        return false;
    keep_reason(o, &why);
    op_also(o, "and it could not be undone, ask for a resume: %s", text);
    return false;
}

enum { LANDING_MS = 20 };              /* between two looks for a late lock */

/* A lock that a dead weir-gpud asked for may be granted after all. */
static bool watch_locks(struct op *o)
{
    const struct timespec t = { .tv_nsec = LANDING_MS * 1000000L };
    bool all = true;

    while (all && clock_mono_ms() < o->rec.locks_end_ms) {
        bool runs = false;

        for (unsigned i = o->n; i-- > 0;) {
            struct one *p = &o->all[i];

            if (!procs_alive(&p->proc) || p->was_back)
                continue;
            p->known = false;
            all = bring_back(o, p) && all;
            runs = runs || !p->was_back;
        }
        if (!runs)
            break;
        (void) nanosleep(&t, NULL);
    }
    return all;
}

bool op_undo(struct op *o)
{
    bool all = true;

    for (unsigned i = o->n; i-- > 0;)
        all = bring_back(o, &o->all[i]) && all;
    return all && (o->ask || watch_locks(o));
}

/* Off the devices again, those that a resume had restored; a failure here
 * leaves one locked, on its device, and a later resume lets it go.
 */
static void put_back(struct op *o)
{
    struct suspend_result why = *o->res;

    for (unsigned i = 0; i < o->n; i++) {
        struct one *p = &o->all[i];
        int rc = 0;

        if (!p->hold.pid || !procs_alive(&p->proc))
            continue;
        if (p->at == CUDA_LOCKED)
            rc = op_take(o, p);
        look_again(o, p);
        if (op_settle(o, p) || rc) {
            keep_reason(o, &why);
            op_also(o, "process %d stays locked", (int) p->proc.pid);
            why = *o->res;
        }
    }
}

/* A process that ended meanwhile keeps nobody else from coming back. */
static int unless_gone(struct op *o, struct one *p, int rc)
{
    if (!rc || !procs_ends(&p->proc, ENDING_MS))
        return rc;
    o->res->gone++;
    o->res->reason = SUSPEND_DONE;
    o->res->text[0] = '\0';
    p->known = true;
    p->at = CUDA_RUNNING;              /* nothing more is to be done */
    return 0;
}

int op_resume(struct op *o)
{
    int rc = 0;

    for (unsigned i = 0; !rc && i < o->n; i++) {
        rc = unless_gone(o, &o->all[i], ready(o, &o->all[i]));
        if (!rc && o->all[i].at == CUDA_FAILED)
            rc = refuse_failed(o, &o->all[i]);
    }
    if (!rc)
        rc = op_fits(o);
    for (unsigned i = 0; !rc && i < o->n; i++)
        if (o->all[i].at == CUDA_TAKEN)
            rc = unless_gone(o, &o->all[i], restore(o, &o->all[i]));
    if (rc) {
        put_back(o);
        return rc;
    }
    for (unsigned i = 0; i < o->n; i++)
        if (unless_gone(o, &o->all[i], let_go(o, &o->all[i])))
            rc = -1;
    if (!rc && o->res->gone == o->res->processes)
        (void) op_refuse(o, SUSPEND_GONE, "all processes of the task ended");
    return rc;
}

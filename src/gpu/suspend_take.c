#include "gpu/suspend_in.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The way off the devices: who of the task is on one, whether there is room for
 * what is there, and one step after the other, each for all of them.
 */

static int list_task(struct op *o, struct procs *ret)
{
    struct err err = { 0 };
    int rc = o->ask->cgroup[0]
           ? procs_of_cgroup(o->ask->cgroup, ret, &err)
           : procs_of_pid(o->ask->pid, ret, &err);

    return rc ? op_refuse_err(o, rc == -ESRCH || rc == -ENOENT ? SUSPEND_GONE :
                              SUSPEND_NODE, &err) : 0;
}

_Static_assert((int) RECORD_DEVICES == (int) DEVICE_MAX, "devices");

static int refuse_untold(struct op *o, const struct one *p)
{
    return op_refuse(o, SUSPEND_MEMORY, "the driver does not tell how much of"
                     " process %d is on its device: whether host memory takes"
                     " it is not known", (int) p->proc.pid);
}

/* Where the driver does not tell, it may have all there is on what answers. */
static int suppose(struct op *o, struct one *p, bool used[DEVICE_MAX])
{
    const struct node_report *r = o->now;
    bool any = false;

    for (unsigned i = 0; i < r->list.n; i++) {
        if (r->list.all[i].state != NVML_READY)
            continue;
        if (!r->sampled[i] ||
            !telemetry_has(&r->samples[i], TELEMETRY_MEMORY_USED))
            return refuse_untold(o, p);
        any = used[i] = true;
        p->bytes += r->samples[i].value[TELEMETRY_MEMORY_USED];
    }
    return any ? 0 : refuse_untold(o, p);
}

/* What the last look says of a process: its bytes and its devices.  -1: no. */
static int see(struct op *o, struct one *p, bool used[DEVICE_MAX])
{
    const struct node_report *r = o->now;
    bool seen = false;

    for (unsigned i = 0; i < r->list.n; i++) {
        const struct telemetry *t = &r->samples[i];

        for (unsigned k = 0; r->sampled[i] && t->has_processes &&
             k < t->nprocesses && k < TELEMETRY_PROCESSES; k++) {
            const struct telemetry_process *q = &t->processes[k];

            if ((pid_t) q->pid != p->proc.pid)
                continue;
            if (q->mps)
                return op_refuse(o, SUSPEND_MPS, "process %u is a client of"
                                 " MPS: it cannot be suspended", q->pid);
            if (q->gpu_instance != ~0u)
                return op_refuse(o, SUSPEND_MIG, "process %u is on a MIG"
                                 " instance: it cannot be suspended", q->pid);
            if (!q->has_bytes && !telemetry_has(t, TELEMETRY_MEMORY_USED))
                return refuse_untold(o, p);
            seen = used[i] = true;
            p->on[i] = q->has_bytes ? q->bytes : 0;
            p->bytes += q->has_bytes ? q->bytes :
                        t->value[TELEMETRY_MEMORY_USED];
        }
    }
    return seen ? 0 : suppose(o, p, used);
}

static int add_one(struct op *o, struct proc *p, bool used[DEVICE_MAX])
{
    struct one *q;
    int tid = 0, rc = CUDA_RC_NOT_SUPPORTED;

    if (o->n == RECORD_PROCS)
        return op_refuse(o, SUSPEND_NODE, "the task has more than %d processes"
                         " with a context", RECORD_PROCS);
    o->all = mem_more(o->all, o->n, sizeof *o->all);
    q = &o->all[o->n];
    *q = (struct one) { .proc = *p, .known = true, .rec = o->n++ };
    p->fd = -1;                        /* it is q's now */
    if (o->s->cuda.cuCheckpointProcessGetRestoreThreadId)
        rc = o->s->cuda.cuCheckpointProcessGetRestoreThreadId(q->proc.pid,
                                                              &tid);
    if (rc != CUDA_RC_OK || tid <= 0)
        return op_refuse_rc(o, q, "cuCheckpointProcessGetRestoreThreadId", rc);
    q->tid = tid;
    return see(o, q, used);
}

static bool known(const struct op *o, pid_t pid)
{
    for (unsigned i = 0; i < o->n; i++)
        if (o->all[i].proc.pid == pid)
            return true;
    return false;
}

/* Does the driver list it, on any device? */
static bool listed(const struct op *o, pid_t pid)
{
    for (unsigned i = 0; i < o->now->list.n; i++) {
        const struct telemetry *t = &o->now->samples[i];

        for (unsigned k = 0; o->now->sampled[i] && k < t->nprocesses &&
             k < TELEMETRY_PROCESSES; k++)
            if ((pid_t) t->processes[k].pid == pid)
                return true;
    }
    return false;
}

/* Are all processes told of every device that answers? */
static bool all_told(const struct node_report *r)
{
    for (unsigned i = 0; i < r->list.n; i++)
        if (r->list.all[i].state == NVML_READY &&
            (!r->sampled[i] || !r->samples[i].has_processes ||
             r->samples[i].nprocesses > TELEMETRY_PROCESSES))
            return false;
    return true;
}

/* The driver does not say how it is.  0: it has no context, for that is what the
 * answer means, or it is on no device or ends; else one that is on a device
 * would be left there.
 */
static int without(struct op *o, struct one *p, int rc)
{
    bool used[DEVICE_MAX] = { false };
    bool on = listed(o, p->proc.pid);

    if (rc != CUDA_RC_NOT_PERMITTED && !on &&
        (rc == CUDA_RC_INVALID || rc == CUDA_RC_NOT_INITIALIZED ||
         all_told(o->now)))
        return 0;
    if (rc != CUDA_RC_NOT_PERMITTED && op_ends(p))
        return 0;
    if (on && see(o, p, used))
        return -1;                     /* a client of MPS, or on a MIG */
    return op_refuse_rc(o, p, "cuCheckpointProcessGetState", rc);
}

/* 1: it has a context, 0: it has none. */
static int has_context(struct op *o, const struct proc *p)
{
    struct one q = { .proc = *p };
    char now = hold_state(p->pid, p->pid);
    int state = CUDA_RUNNING, rc;

    /* Nothing can be asked about it. */
    if ((now == 'T' || now == 't') && !listed(o, p->pid))
        return 0;
    if (now == 'T' || now == 't')
        return op_refuse(o, SUSPEND_STATE, "process %d is stopped by a signal"
                         " or a debugger", (int) p->pid);
    rc = o->s->cuda.cuCheckpointProcessGetState(p->pid, &state);

    if (rc != CUDA_RC_OK)
        return without(o, &q, rc);
    if (state != CUDA_RUNNING)
        return op_refuse(o, SUSPEND_STATE, "process %d is locked or"
                         " checkpointed already, by somebody else",
                         (int) p->pid);
    return 1;
}

/* Of the task's processes those that hold a context. */
static int find(struct op *o, bool used[DEVICE_MAX])
{
    struct procs l = { 0 };
    int rc = list_task(o, &l);

    for (unsigned i = 0; !rc && i < l.n; i++) {
        if (!op_allowed(o->ask, l.all[i].uid))
            rc = op_refuse(o, SUSPEND_DENIED, "process %d is another user's",
                           (int) l.all[i].pid);
        else if ((rc = has_context(o, &l.all[i])) == 1)
            rc = add_one(o, &l.all[i], used);
    }
    procs_free(&l);
    if (!rc && !o->n)
        rc = op_refuse(o, SUSPEND_IDLE, "no process of the task uses a"
                       " device");
    return rc;
}

/* After the locks: who came to a device meanwhile has not been counted. */
static int find_others(struct op *o)
{
    struct procs l = { 0 };
    int rc = list_task(o, &l);

    for (unsigned i = 0; !rc && i < l.n; i++) {
        if (known(o, l.all[i].pid))
            continue;
        rc = has_context(o, &l.all[i]);
        if (rc == 1)
            rc = op_refuse(o, SUSPEND_BUSY, "process %d came to a device"
                           " meanwhile: ask again", (int) l.all[i].pid);
    }
    procs_free(&l);
    return rc;
}

/* Between a record and its first lock, and for the last one to be granted. */
enum { LOCK_LATE_MS = 1000 };

static int make_record(struct op *o, const bool used[DEVICE_MAX])
{
    struct record *r = &o->rec;
    struct err err = { 0 };

    (void) snprintf(r->task, sizeof r->task, "%s", o->ask->task);
    r->phase = RECORD_SUSPENDING;
    r->uid = o->ask->uid;
    r->hold = o->ask->hold;
    r->locks_end_ms = clock_mono_ms() + o->ask->lock_ms + LOCK_LATE_MS;
    if (procs_boot(r->boot, &err) < 0)
        return op_refuse_err(o, SUSPEND_NODE, &err);
    for (unsigned i = 0; i < o->n; i++) {
        r->procs[i] = (struct record_proc) {
            .pid = o->all[i].proc.pid, .tid = o->all[i].tid,
            .start = o->all[i].proc.start, .bytes = o->all[i].bytes,
        };
        o->res->bytes += o->all[i].bytes;
    }
    r->nprocs = o->res->processes = o->n;
    for (unsigned i = 0; i < o->now->list.n; i++) {
        if (!used[i])
            continue;
        for (unsigned k = 0; k < o->n; k++)
            r->procs[k].on[r->ndevices] = o->all[k].on[i];
        (void) snprintf(r->devices[r->ndevices++].uuid, NVML_TEXT, "%s",
                        o->now->list.all[i].uuid);
    }
    return 0;
}

static void promise(struct suspend *s, const char *task,
                    const struct room_need *need)
{
    struct promise *p;

    s->promises = mem_more(s->promises, s->npromises, sizeof *s->promises);
    p = &s->promises[s->npromises++];
    (void) snprintf(p->task, sizeof p->task, "%s", task);
    p->need = *need;
}

/* Host memory for it, promised until it is in use. */
static int reserve(struct op *o)
{
    struct suspend *s = o->s;
    autofree struct room_need *all = mem_array(o->n, sizeof *all);
    autofree struct room_need *taken = NULL;
    struct err err = { 0 };
    int rc;

    for (unsigned i = 0; i < o->n; i++) {
        all[i].bytes = o->all[i].bytes;
        procs_cgroup(o->all[i].proc.pid, all[i].cgroup);
    }
    (void) pthread_mutex_lock(&s->lock);
    taken = mem_array(s->npromises + 1, sizeof *taken);
    for (unsigned i = 0; i < s->npromises; i++)
        taken[i] = s->promises[i].need;
    rc = room_check(all, o->n, taken, s->npromises, s->spare, &err);
    for (unsigned i = 0; !rc && i < o->n; i++)
        promise(s, o->ask->task, &all[i]);
    (void) pthread_mutex_unlock(&s->lock);
    return rc ? op_refuse_err(o, SUSPEND_MEMORY, &err) : 0;
}

void suspend_give_up(struct suspend *s, const char *task)
{
    unsigned n = 0;

    (void) pthread_mutex_lock(&s->lock);
    for (unsigned i = 0; i < s->npromises; i++)
        if (strcmp(s->promises[i].task, task) != 0)
            s->promises[n++] = s->promises[i];
    s->npromises = n;
    (void) pthread_mutex_unlock(&s->lock);
}

static int lock_all(struct op *o)
{
    uint64_t begun = clock_mono_us(), end_us = begun + o->ask->lock_ms * 1000;

    for (unsigned i = 0; i < o->n; i++) {
        struct one *p = &o->all[i];
        uint64_t now = clock_mono_us();
        struct cuda_lock_args args = {
            .timeout_ms = now < end_us ? (unsigned) ((end_us - now) / 1000) + 1
                                       : 1,
        };
        int rc = procs_alive(&p->proc)
               ? o->s->cuda.cuCheckpointProcessLock(p->proc.pid, &args)
               : CUDA_RC_INVALID;

        if (rc != CUDA_RC_OK) {
            p->known = rc == CUDA_RC_NOT_READY;    /* it runs then */
            return op_refuse_rc(o, p, "cuCheckpointProcessLock", rc);
        }
        p->at = CUDA_LOCKED;
    }
    o->res->lock_us = clock_mono_us() - begun;
    return find_others(o);
}

/* What cannot be stopped may be so because it ends. */
static int refuse_hold(struct op *o, struct one *p, const struct err *err)
{
    if (op_ends(p))
        return op_refuse(o, SUSPEND_GONE, "process %d ended",
                         (int) p->proc.pid);
    return op_refuse_err(o, SUSPEND_THREADS, err);
}

int op_hold(struct op *o, struct one *p)
{
    uint64_t begun = clock_mono_us();
    struct err err = { 0 };
    int rc;

    if (!procs_alive(&p->proc))
        return op_refuse(o, SUSPEND_GONE, "process %d ended",
                         (int) p->proc.pid);
    rc = hold_take(p->proc.pid, p->tid, &p->hold, &err);
    o->res->stop_us += clock_mono_us() - begun;
    return rc ? refuse_hold(o, p, &err) : 0;
}

int op_take(struct op *o, struct one *p)
{
    uint64_t begun = clock_mono_us();
    int rc = procs_alive(&p->proc)
           ? o->s->cuda.cuCheckpointProcessCheckpoint(p->proc.pid, NULL)
           : CUDA_RC_INVALID;

    o->res->checkpoint_us += clock_mono_us() - begun;
    p->known = rc == CUDA_RC_OK;
    if (rc != CUDA_RC_OK)
        return op_refuse_rc(o, p, "cuCheckpointProcessCheckpoint", rc);
    p->at = CUDA_TAKEN;
    return 0;
}

int op_settle(struct op *o, struct one *p)
{
    struct err err = { 0 };

    if (!o->rec.hold) {
        hold_let_go(&p->hold);
        return 0;
    }
    return hold_park(&p->hold, &err) < 0 ? refuse_hold(o, p, &err) : 0;
}

static int take_all(struct op *o)
{
    int rc = lock_all(o);

    for (unsigned i = 0; !rc && i < o->n; i++)
        rc = op_hold(o, &o->all[i]);
    for (unsigned i = 0; !rc && i < o->n; i++)
        rc = op_take(o, &o->all[i]);
    for (unsigned i = 0; !rc && i < o->n; i++)
        rc = op_settle(o, &o->all[i]);
    return rc;
}

/* With a record on disk and memory reserved. */
static void suspend_all(struct op *o)
{
    int rc = take_all(o);

    if (!rc)
        rc = op_save(o, RECORD_SUSPENDED);
    if (!rc)
        return;
    if (op_undo(o))
        op_forget(o);
    else
        op_save_left(o);
}

void op_suspend(struct op *o)
{
    bool used[DEVICE_MAX] = { false };

    if (op_begin(o) || find(o, used) || make_record(o, used) || reserve(o))
        return;
    if (!op_save(o, RECORD_SUSPENDING))
        suspend_all(o);
    suspend_give_up(o->s, o->ask->task);
}

#include "gpu/suspend_in.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A resume, from its record to the devices that are to be used. */

/* Open again who is in the record; the others are gone. */
int op_reopen(struct op *o)
{
    struct err err = { 0 };
    char boot[37];

    if (procs_boot(boot, &err) < 0)
        return op_refuse_err(o, SUSPEND_NODE, &err);
    o->all = mem_array(o->rec.nprocs, sizeof *o->all);
    o->res->processes = o->rec.nprocs;
    for (unsigned i = 0; i < o->rec.nprocs; i++) {
        const struct record_proc *r = &o->rec.procs[i];
        struct one p = { .tid = r->tid, .bytes = r->bytes, .rec = i };
        int rc;

        rc = strcmp(boot, o->rec.boot) ? -ESRCH
           : procs_open(r->pid, r->start, &p.proc, &err);
        if (rc == -ESRCH) {
            o->res->gone++;
            continue;
        }
        if (rc < 0)
            return op_refuse_err(o, SUSPEND_NODE, &err);
        o->all[o->n++] = p;
        o->res->bytes += r->bytes;
    }
    if (o->n)
        return 0;
    op_forget(o);
    return op_refuse(o, SUSPEND_GONE, "all processes of the task ended");
}

static const struct device *device_of(const struct op *o, const char *uuid)
{
    for (unsigned i = 0; i < o->now->list.n; i++)
        if (!strcmp(o->now->list.all[i].uuid, uuid))
            return &o->now->list.all[i];
    return NULL;
}

static int check_like(struct op *o, const struct record_device *d,
                      const struct device *to)
{
    const struct device *from = device_of(o, d->uuid);

    /* One that left the node cannot be compared: the driver decides. */
    if (from && (strcmp(from->model, to->model) != 0 ||
                 from->memory_bytes > to->memory_bytes))
        return op_refuse(o, SUSPEND_UNLIKE, "device %s (%s) is not like %s"
                         " (%s)", to->uuid, to->model, from->uuid,
                         from->model);
    return 0;
}

static int check_target(struct op *o, const struct record_device *d)
{
    const char *uuid = d->to[0] ? d->to : d->uuid;
    const struct device *to = device_of(o, uuid);

    if (!to)
        return op_refuse(o, SUSPEND_LOST, "there is no device %s on this"
                         " node", uuid);
    if (to->state != NVML_READY)
        return op_refuse(o, SUSPEND_LOST, "device %s: %s", uuid, to->why);
    return d->to[0] ? check_like(o, d, to) : 0;
}

/* Bytes that a restore puts on the device of that UUID. */
static uint64_t to_come(const struct op *o, const char *uuid)
{
    uint64_t sum = 0;

    for (unsigned k = 0; k < o->n; k++) {
        const struct one *p = &o->all[k];
        bool off = p->known ? p->at == CUDA_TAKEN
                            : o->rec.phase == RECORD_SUSPENDED;

        for (unsigned i = 0; off && i < o->rec.ndevices; i++) {
            const struct record_device *d = &o->rec.devices[i];

            if (!strcmp(d->to[0] ? d->to : d->uuid, uuid))
                sum += o->rec.procs[p->rec].on[i];
        }
    }
    return sum;
}

int op_fits(struct op *o)
{
    const struct node_report *r = o->now;

    for (unsigned i = 0; i < r->list.n; i++) {
        uint64_t bytes = to_come(o, r->list.all[i].uuid);
        const struct telemetry *t = &r->samples[i];

        if (!r->sampled[i] || !telemetry_has(t, TELEMETRY_MEMORY_FREE) ||
            bytes <= t->value[TELEMETRY_MEMORY_FREE])
            continue;
        return op_refuse(o, SUSPEND_MEMORY, "device memory is short: %llu MiB"
                         " come back, %llu MiB are free on %s",
                         (unsigned long long) (bytes >> 20),
                         (unsigned long long)
                         (t->value[TELEMETRY_MEMORY_FREE] >> 20),
                         r->list.all[i].uuid);
    }
    return 0;
}

/* The devices that were asked for, into the record. */
static int choose(struct op *o)
{
    int rc = 0;

    for (unsigned i = 0; i < o->ask->ndevices; i++) {
        const struct record_device *want = &o->ask->devices[i];
        unsigned k = 0;

        while (k < o->rec.ndevices &&
               strcmp(o->rec.devices[k].uuid, want->uuid) != 0)
            k++;
        if (k < o->rec.ndevices)
            o->rec.devices[k] = *want;
    }
    for (unsigned i = 0; !rc && i < o->rec.ndevices; i++)
        rc = check_target(o, &o->rec.devices[i]);
    return rc ? rc : op_fits(o);
}

void op_finish(struct op *o)
{
    if (!op_resume(o)) {
        op_forget(o);
        return;
    }
    op_save_left(o);
}

void op_resume_task(struct op *o)
{
    struct err err = { 0 };
    int rc = record_load(o->s->dir, o->ask->task, &o->rec, &err);

    if (rc == -ENOENT)
        (void) op_refuse(o, SUSPEND_STATE, "task %s is not suspended",
                         o->ask->task);
    else if (rc < 0)
        (void) op_refuse_err(o, SUSPEND_NODE, &err);
    else if (!op_allowed(o->ask, o->rec.uid))
        (void) op_refuse(o, SUSPEND_DENIED, "task %s is another user's",
                         o->ask->task);
    else if (!op_reopen(o) && !op_begin(o) && !choose(o) &&
             !op_save(o, RECORD_RESUMING))
        op_finish(o);
}

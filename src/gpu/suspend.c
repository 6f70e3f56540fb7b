#include "gpu/suspend_in.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>

enum { OPEN_WAIT_S = 30 };

static const char *const reasons[SUSPEND_REASON_COUNT] = {
#define X(name, text) [SUSPEND_##name] = text,
    SUSPEND_REASONS(X)
#undef X
};

const char *suspend_reason_name(enum suspend_reason r)
{
    assert(r < SUSPEND_REASON_COUNT);
    return reasons[r];
}

int op_refuse(struct op *o, enum suspend_reason why, const char *fmt, ...)
{
    va_list ap;

    o->res->reason = why;
    va_start(ap, fmt);
    (void) vsnprintf(o->res->text, sizeof o->res->text, fmt, ap);
    va_end(ap);
    return -1;
}

void op_also(struct op *o, const char *fmt, ...)
{
    size_t n = strlen(o->res->text);
    va_list ap;

    if (n + 2 >= sizeof o->res->text)
        return;
    (void) snprintf(o->res->text + n, sizeof o->res->text - n, "; ");
    n += 2;
    va_start(ap, fmt);
    (void) vsnprintf(o->res->text + n, sizeof o->res->text - n, fmt, ap);
    va_end(ap);
}

int op_refuse_err(struct op *o, enum suspend_reason why, const struct err *err)
{
    return op_refuse(o, why, "%s", err->text);
}

/* Held threads that were killed keep their process until they are reaped. */
bool op_ends(struct one *p)
{
    bool over = false;

    for (int i = 0; !over && i < ENDING_MS; i++) {
        hold_reap(&p->hold);
        over = procs_ends(&p->proc, 1);
    }
    return over;
}

int op_refuse_rc(struct op *o, struct one *p, const char *call, int rc)
{
    int pid = (int) p->proc.pid;
    char text[96];

    (void) cuda_rc_text(&o->s->cuda, rc, text, sizeof text);
    if (op_ends(p))
        return op_refuse(o, SUSPEND_GONE, "process %d ended", pid);
    switch (rc) {
    case CUDA_RC_NOT_READY:
        return op_refuse(o, SUSPEND_BUSY, "process %d: its kernels do not end"
                         " in time", pid);
    case CUDA_RC_NOT_SUPPORTED:
        return op_refuse(o, SUSPEND_UNSUPPORTED, "process %d cannot be"
                         " suspended: the driver answers %s to %s, as for"
                         " managed memory or memory shared by IPC", pid, text,
                         call);
    case CUDA_RC_MEMORY:
        return op_refuse(o, SUSPEND_MEMORY, "process %d: the driver has no"
                         " memory for the %s: %s", pid, call, text);
    case CUDA_RC_UNAVAILABLE:
    case CUDA_RC_NO_DEVICE:
    case CUDA_RC_INVALID_DEVICE:
        return op_refuse(o, SUSPEND_LOST, "process %d: its device does not"
                         " answer: %s to %s", pid, text, call);
    case CUDA_RC_NOT_PERMITTED:
        return op_refuse(o, SUSPEND_DENIED, "process %d: no permission: %s to"
                         " %s", pid, text, call);
    default:
        return op_refuse(o, SUSPEND_DRIVER, "process %d: the driver answers %s"
                         " to %s", pid, text, call);
    }
}

/* The library, loaded with the first operation. */
/* Whoever is first does it, and holds nothing that others need meanwhile. */
static int open_library(struct op *o)
{
    struct suspend *s = o->s;
    struct cuda c = { 0 };
    struct err err = { 0 };
    int rc;

    s->opening = true;
    (void) pthread_mutex_unlock(&s->lock);
    rc = cuda_open(&c, &err);
    (void) pthread_mutex_lock(&s->lock);
    s->opening = false;
    if (!rc)
        s->cuda = c;
    (void) pthread_cond_broadcast(&s->opened);
    return rc ? op_refuse_err(o, SUSPEND_DRIVER, &err) : 0;
}

int op_begin(struct op *o)
{
    struct suspend *s = o->s;
    struct timespec until;
    int rc = 0, late = 0;

    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += OPEN_WAIT_S;
    (void) pthread_mutex_lock(&s->lock);
    while (s->opening && !late)
        late = pthread_cond_timedwait(&s->opened, &s->lock, &until);
    if (s->opening)
        rc = op_refuse(o, SUSPEND_DRIVER, "the driver does not begin: cuInit"
                       " has not returned");
    else if (!s->cuda.lib)
        rc = open_library(o);
    (void) pthread_mutex_unlock(&s->lock);
    return rc;
}

static void end(struct op *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        hold_let_go(&o->all[i].hold);
        procs_close(&o->all[i].proc);
    }
    free(o->all);
}

/* May who asks do this to what is of `uid`? */
bool op_allowed(const struct suspend_ask *a, uid_t uid)
{
    return a->uid == 0 || a->uid == geteuid() || a->uid == uid;
}

int op_save(struct op *o, enum record_phase phase)
{
    struct err err = { 0 };

    o->rec.phase = phase;
    return record_save(o->s->dir, &o->rec, &err) < 0
         ? op_refuse_err(o, SUSPEND_NODE, &err) : 0;
}

void op_forget(struct op *o)
{
    struct err err = { 0 };

    if (record_remove(o->s->dir, o->rec.task, &err) < 0)
        op_also(o, "%s", err.text);
}

static enum record_phase phase_left(const struct op *o)
{
    for (unsigned i = 0; i < o->n; i++) {
        const struct one *p = &o->all[i];

        if (procs_alive(&p->proc) && (!p->known || p->at != CUDA_TAKEN))
            return RECORD_STUCK;
    }
    return RECORD_SUSPENDED;
}

/* Of what could not be brought back; why not is told already. */
void op_save_left(struct op *o)
{
    struct err err = { 0 };

    o->rec.phase = phase_left(o);
    /* One that is stuck is to be brought back where it was to be. */
    for (unsigned i = 0; i < o->rec.ndevices &&
         o->rec.phase == RECORD_SUSPENDED; i++)
        o->rec.devices[i].to[0] = '\0';
    if (record_save(o->s->dir, &o->rec, &err) < 0)
        op_also(o, "%s", err.text);
}

/* Where the task is, as the record has it. */
static void tell_where(const struct suspend *s, const char *task,
                       struct suspend_result *ret)
{
    autofree struct record *r = mem_new(sizeof *r);
    int rc = record_load(s->dir, task, r, NULL);

    ret->suspended = rc == 0 && r->phase == RECORD_SUSPENDED;
    ret->known = rc == -ENOENT || ret->suspended;
    ret->left = !ret->known;
}

/* What there is a record of is not to be suspended: it is, or is to be brought
 * back first.
 */
static void refuse_again(struct op *o)
{
    if (!op_allowed(o->ask, o->rec.uid))
        (void) op_refuse(o, SUSPEND_DENIED, "task %s is another user's",
                         o->ask->task);
    else if (o->rec.phase == RECORD_SUSPENDED)
        (void) op_refuse(o, SUSPEND_STATE, "task %s is suspended already",
                         o->ask->task);
    else
        (void) op_refuse(o, SUSPEND_STATE, "task %s could be neither"
                         " suspended nor brought back so far", o->ask->task);
}

static void do_it(struct op *o)
{
    struct err err = { 0 };
    int rc;

    if (o->now->list.state != NVML_READY) {
        (void) op_refuse(o, SUSPEND_DRIVER, "%s", o->now->list.why);
        return;
    }
    if (o->ask->resume) {
        op_resume_task(o);
        return;
    }
    rc = record_load(o->s->dir, o->ask->task, &o->rec, &err);
    if (rc == -ENOENT)
        op_suspend(o);
    else if (rc < 0)
        (void) op_refuse_err(o, SUSPEND_NODE, &err);
    else
        refuse_again(o);
}

void suspend_do(struct suspend *s, const struct suspend_ask *a,
                const struct node_report *now, struct suspend_result *ret)
{
    autofree struct op *o = mem_new(sizeof *o);

    memset(ret, 0, sizeof *ret);
    o->s = s;
    o->ask = a;
    o->now = now;
    o->res = ret;
    do_it(o);
    tell_where(s, a->task, ret);
    if (ret->reason == SUSPEND_DENIED)
        ret->known = false;            /* it is no matter of who asks */
    end(o);
}

void suspend_recover(struct suspend *s, const char *task,
                     const struct node_report *now,
                     struct suspend_result *ret)
{
    autofree struct op *o = mem_new(sizeof *o);
    struct err err = { 0 };

    memset(ret, 0, sizeof *ret);
    o->s = s;
    o->now = now;
    o->res = ret;
    if (record_load(s->dir, task, &o->rec, &err) < 0)
        (void) op_refuse_err(o, SUSPEND_NODE, &err);
    else if (op_reopen(o) || op_begin(o))
        ;                              /* the reason is told */
    else if (o->rec.phase == RECORD_RESUMING)
        op_finish(o);
    else if (op_undo(o))
        op_forget(o);
    else
        op_save_left(o);
    tell_where(s, task, ret);
    end(o);
}

static bool all_gone(const struct record *r)
{
    char boot[37];

    if (procs_boot(boot, NULL) < 0)
        return false;
    for (unsigned i = 0; !strcmp(boot, r->boot) && i < r->nprocs; i++) {
        struct proc p;
        int rc = procs_open(r->procs[i].pid, r->procs[i].start, &p, NULL);

        if (rc == 0)
            procs_close(&p);
        if (rc != -ESRCH)
            return false;
    }
    return true;
}

/* One that is suspended is left so, and forgotten if nothing of it is left; one
 * that cannot be read is not passed by.
 */
static bool stays(const struct suspend *s, const char *task)
{
    autofree struct record *r = mem_new(sizeof *r);

    if (record_load(s->dir, task, r, NULL) < 0 ||
        r->phase != RECORD_SUSPENDED)
        return false;
    if (all_gone(r))
        (void) record_remove(s->dir, task, NULL);  /* or when asked for */
    return true;
}

int suspend_left(struct suspend *s, void (*each)(const char *task, void *arg),
                 void *arg, struct err *err)
{
    DIR *dir = opendir(s->dir);
    const struct dirent *e;

    if (!dir)
        return err_set(err, errno, "'%s': %s", s->dir, strerror(errno));
    while ((e = readdir(dir))) {
        size_t n = strlen(e->d_name);
        autofree char *task = NULL;

        if (n <= 5 || strcmp(e->d_name + n - 5, ".json") != 0)
            continue;
        task = mem_strn(e->d_name, n - 5);
        if (record_task_ok(task) && !stays(s, task))
            each(task, arg);
    }
    (void) closedir(dir);
    return 0;
}

/* Two that recover the same tasks are in each other's way.  The descriptor. */
static int lock_folder(const char *dir, struct err *err)
{
    autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return err_set(err, errno, "'%s': %s", dir, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return errno == EWOULDBLOCK
             ? err_set(err, EADDRINUSE, "another weir-gpud has the folder '%s'",
                       dir)
             : err_set(err, errno, "'%s': %s", dir, strerror(errno));
    return take_fd(fd);
}

int suspend_open(const char *dir, uint64_t spare, struct suspend **ret,
                 struct err *err)
{
    struct suspend *s;
    int rc = fs_mkdir(dir, 0700, err);

    if (rc < 0)
        return rc;
    rc = lock_folder(dir, err);
    if (rc < 0)
        return rc;
    s = mem_new(sizeof *s);
    (void) pthread_mutex_init(&s->lock, NULL);
    (void) pthread_cond_init(&s->opened, NULL);
    s->dir = mem_str(dir);
    s->fd = rc;
    s->spare = spare;
    *ret = s;
    return 0;
}

void suspend_close(struct suspend *s)
{
    if (!s)
        return;
    (void) pthread_mutex_destroy(&s->lock);
    (void) pthread_cond_destroy(&s->opened);
    (void) close(s->fd);
    free(s->promises);
    free(s->dir);
    free(s);
}

json_t *suspend_result_json(const struct suspend_ask *a,
                            const struct suspend_result *r)
{
    json_t *o = json_object();
    bool done = r->reason == SUSPEND_DONE;

    json_put_str(o, "task", a->task);
    json_put_bool(o, "done", done);
    json_put_str(o, "reason", done ? NULL : suspend_reason_name(r->reason));
    json_put_str(o, "text", r->text[0] ? r->text : NULL);
    if (r->known)
        json_put_bool(o, "suspended", r->suspended);
    json_put_u64(o, "processes", r->processes);
    json_put_u64(o, "gone", r->gone);
    json_put_u64(o, "bytes", r->bytes);
    if (!a->resume)
        json_put_u64(o, "lock_us", r->lock_us);
    json_put_u64(o, "stop_us", r->stop_us);
    if (r->checkpoint_us)
        json_put_u64(o, "checkpoint_us", r->checkpoint_us);
    if (r->restore_us)
        json_put_u64(o, "restore_us", r->restore_us);
    if (r->unlock_us)
        json_put_u64(o, "unlock_us", r->unlock_us);
    return o;
}

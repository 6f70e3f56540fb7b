#include "gpu/jobs.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

enum { CLOSE_WAIT_S = 5 };
enum { AGAIN_US = 1000 * 1000, AGAIN_MAX_US = 60 * AGAIN_US };

struct jobs {
    struct suspend *suspend;
    int fd;
    pthread_mutex_t lock;              /* of `over` of each */
    struct job *all;
    bool ending;
};

static void *run(void *arg)
{
    struct job *b = arg;
    struct jobs *j = b->jobs;
    const uint64_t one = 1;

    if (b->recover)
        suspend_recover(j->suspend, b->ask.task, b->now, &b->result);
    else
        suspend_do(j->suspend, &b->ask, b->now, &b->result);
    (void) pthread_mutex_lock(&j->lock);
    b->over = true;
    (void) !write(j->fd, &one, sizeof one);
    (void) pthread_mutex_unlock(&j->lock);
    return NULL;
}

static struct job *push(struct jobs *j, const char *task)
{
    struct job *b = mem_new(sizeof *b);

    b->jobs = j;
    (void) snprintf(b->ask.task, sizeof b->ask.task, "%s", task);
    list_push(j->all, b);
    return b;
}

static void add_left(const char *task, void *arg)
{
    push(arg, task)->recover = true;
}

static void destroy(struct jobs *j)
{
    suspend_close(j->suspend);
    if (j->fd >= 0)
        (void) close(j->fd);
    (void) pthread_mutex_destroy(&j->lock);
    free(j);
}

int jobs_open(const char *dir, uint64_t spare, struct jobs **ret,
              struct err *err)
{
    struct jobs *j = mem_new(sizeof *j);
    int rc;

    (void) pthread_mutex_init(&j->lock, NULL);
    j->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = j->fd < 0 ? err_set(err, errno, "eventfd: %s", strerror(errno))
       : suspend_open(dir, spare, &j->suspend, err);
    if (!rc)
        rc = suspend_left(j->suspend, add_left, j, err);
    if (rc < 0) {
        jobs_close(j);
        return rc;
    }
    *ret = j;
    return 0;
}

static void drop(struct job *b)
{
    list_unlink(b->jobs->all, b);
    free(b->now);
    b->now = NULL;
}

void jobs_close(struct jobs *j)
{
    struct timespec until;
    struct job *next;

    if (!j)
        return;
    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    for (struct job *b = j->all; b; b = next) {
        next = b->next;
        if (b->hung)
            continue;
        if (b->now && pthread_timedjoin_np(b->thread, NULL, &until) != 0)
            continue;
        drop(b);
        free(b);
    }
    if (!j->all)                       /* else they use it */
        destroy(j);
}

int jobs_fd(const struct jobs *j)
{
    return j->fd;
}

/* One that failed, and waits to be tried again. */
static bool rests(const struct job *b)
{
    return b->after_us && !b->now;
}

static unsigned count(const struct jobs *j)
{
    unsigned n = 0;

    for (const struct job *b = j->all; b; b = b->next)
        n += !b->hung && !rests(b);
    return n;
}

static unsigned count_hung(const struct jobs *j)
{
    unsigned n = 0;

    for (const struct job *b = j->all; b; b = b->next)
        n += b->hung;
    return n;
}

void jobs_end(struct jobs *j)
{
    j->ending = true;
}

bool jobs_busy(const struct jobs *j)
{
    for (const struct job *b = j->all; b; b = b->next)
        if (!b->hung && (b->now || !b->recover))
            return true;
    return false;
}

bool jobs_hang(const struct jobs *j)
{
    return count_hung(j) > 0;
}

/* In place of the next try of a recovery. */
static void take_over(struct job *b, const struct suspend_ask *a, void *who)
{
    b->ask = *a;
    b->who = who;
    b->recover = false;
    b->after_us = 0;
}

int jobs_add(struct jobs *j, const struct suspend_ask *a, void *who,
             struct err *err)
{
    struct job *b;

    if (j->ending)
        return err_set(err, EAGAIN, "weir-gpud is about to end: ask the next"
                       " one");
    for (b = j->all; b && strcmp(b->ask.task, a->task) != 0; b = b->next)
        continue;
    if (b && !(rests(b) && a->resume))
        return b->hung ? err_set(err, EIO, "a call into the driver for task %s"
                                 " has not returned", a->task)
                       : err_set(err, EBUSY, "task %s is being suspended or"
                                 " resumed", a->task);
    if (count_hung(j) >= JOBS_HUNG_MAX)
        return err_set(err, EIO, "%d calls into the driver have not returned",
                       JOBS_HUNG_MAX);
    if (count(j) >= JOBS_MAX)
        return err_set(err, EAGAIN, "%d tasks are being suspended or resumed:"
                       " ask again", JOBS_MAX);
    if (b) {
        take_over(b, a, who);
        return 0;
    }
    b = push(j, a->task);
    b->ask = *a;
    b->who = who;
    return 0;
}

void jobs_start(struct jobs *j, const struct node_report *now)
{
    for (struct job *b = j->all; b; b = b->next) {
        int rc;

        if (b->now || b->after_us > clock_mono_us() ||
            (b->recover && j->ending))
            continue;
        b->now = mem_dup(now, sizeof *now);
        b->begun_us = clock_mono_us();
        rc = pthread_create(&b->thread, NULL, run, b);
        if (!rc)
            continue;
        free(b->now);                  /* the next look tries again */
        b->now = NULL;
    }
}

/* The record asks for more. */
static void try_again(struct jobs *j, const struct job *was)
{
    struct job *b = push(j, was->ask.task);
    uint64_t pause = was->pause_us ? was->pause_us * 2 : AGAIN_US;

    b->recover = true;
    b->pause_us = pause < AGAIN_MAX_US ? pause : AGAIN_MAX_US;
    b->after_us = clock_mono_us() + b->pause_us;
}

struct job *jobs_take(struct jobs *j)
{
    uint64_t n;
    struct job *b;

    (void) !read(j->fd, &n, sizeof n);
    (void) pthread_mutex_lock(&j->lock);
    for (b = j->all; b && !b->over; b = b->next)
        continue;
    (void) pthread_mutex_unlock(&j->lock);
    if (!b)
        return NULL;
    (void) pthread_join(b->thread, NULL);
    drop(b);
    if (b->result.left)
        try_again(j, b);
    return b;
}

static uint64_t age_ms(const struct job *b)
{
    return (clock_mono_us() - b->begun_us) / 1000;
}

/* One that is over will be taken in a moment. */
struct job *jobs_hung(struct jobs *j, uint64_t limit_ms, void **ret_who)
{
    struct job *b;

    (void) pthread_mutex_lock(&j->lock);
    for (b = j->all; b; b = b->next)
        if (b->now && !b->hung && !b->over &&
            age_ms(b) >= limit_ms + b->ask.lock_ms)
            break;
    (void) pthread_mutex_unlock(&j->lock);
    if (!b)
        return NULL;
    b->hung = true;
    suspend_give_up(j->suspend, b->ask.task);
    *ret_who = b->who;
    b->who = NULL;
    return b;
}

const char *job_what(const struct job *b)
{
    return b->recover ? "recover" : b->ask.resume ? "resume" : "suspend";
}

json_t *jobs_hung_json(const struct jobs *j)
{
    json_t *all = json_array();

    for (const struct job *b = j->all; b; b = b->next) {
        json_t *o;

        if (!b->hung)
            continue;
        o = json_object();
        json_put_str(o, "task", b->ask.task);
        json_put_str(o, "what", job_what(b));
        json_put_u64(o, "ms", age_ms(b));
        (void) json_array_append_new(all, o);
    }
    return all;
}

void jobs_forget(struct jobs *j, const void *who)
{
    for (struct job *b = j->all; b; b = b->next)
        if (b->who == who)
            b->who = NULL;
}

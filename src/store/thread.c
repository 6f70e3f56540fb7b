#include "store/store_int.h"

#include "base/clock.h"
#include "base/mem.h"
#include "store/batch.h"
#include "store/writer.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

/* Group commit: the writer takes everything that was handed over while it was
 * writing and writes it in one transaction, so that one fsync serves all of
 * it.  What waits longest comes first: batches, then one slice of forgetting,
 * then the checkpoint, which is due when the log is long or nothing happens.
 *
 * A failure ends in one place, fail(): what was handed over is dropped and
 * nothing is taken until store_resume.  Nobody was told that it is durable.
 */
enum { IDLE_MS = 200, SPARE_MAX = 4, LARGE = 1024 * 1024 };

static void wake_loop(const struct store *s)
{
    uint64_t one = 1;

    /* Full is fine: then the loop has not yet read what was there. */
    (void) !write(s->wake_fd, &one, sizeof one);
}

static void fail(struct store *s, const struct err *why)
{
    struct shared *h = s->shared;

    h->failed = true;
    h->why = *why;
    h->trim_left = 0;
    batch_free_all(h->first);
    h->first = NULL;
    h->end = &h->first;
}

/* Keep a few for their memory. */
static void give_back(struct shared *h, struct batch *list)
{
    while (list && h->nspare < SPARE_MAX) {
        struct batch *next = list->next;

        batch_clear(list);
        list->next = h->spare;
        h->spare = list;
        h->nspare++;
        list = next;
    }
    batch_free_all(list);
}

static struct batch *take_all(struct shared *h)
{
    struct batch *list = h->first;

    h->first = NULL;
    h->end = &h->first;
    return list;
}

/* Called and left with the lock held, which is let go while writing. */
static int write_all(struct store *s, struct err *err)
{
    struct shared *h = s->shared;
    struct batch *list = take_all(h);
    struct schema_head head;
    uint64_t began, took;
    int rc;

    (void) pthread_mutex_unlock(&h->lock);
    began = clock_mono_us();
    rc = writer_write(s->writer, list, err);
    took = clock_mono_us() - began;
    head = writer_head(s->writer);
    (void) pthread_mutex_lock(&h->lock);
    give_back(h, list);
    if (rc < 0)
        return rc;
    h->commits++;
    h->synced_us += took;
    h->events = head.events;
    h->durable = head.seq;
    return 0;
}

static int trim_slice(struct store *s, struct err *err)
{
    struct shared *h = s->shared;
    uint64_t before_ms = h->trim_before_ms;
    bool gone = false;
    int rc;

    (void) pthread_mutex_unlock(&h->lock);
    rc = writer_trim(s->writer, before_ms, &gone, err);
    (void) pthread_mutex_lock(&h->lock);
    if (rc < 0)
        return rc;
    h->events = writer_head(s->writer).events;
    if (rc == 0)
        h->trim_left = 0;
    else if (gone && h->trim_left > 0)
        h->trim_left--;
    return 0;
}

static void slim(struct shared *h)
{
    (void) pthread_mutex_unlock(&h->lock);
    batch_slim();
    (void) pthread_mutex_lock(&h->lock);
}

static int checkpoint(struct store *s, struct err *err)
{
    int rc;

    (void) pthread_mutex_unlock(&s->shared->lock);
    rc = writer_checkpoint(s->writer, err);
    (void) pthread_mutex_lock(&s->shared->lock);
    return rc;
}

/* Until there is something to do; false when nothing came for a while. */
static bool wait_work(struct store *s)
{
    struct shared *h = s->shared;
    bool idle = writer_due(s->writer, true) && !h->failed;
    struct timespec until;
    int rc = 0;

    (void) clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += IDLE_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    while (!h->first && !h->trim_left && !h->stop && rc != ETIMEDOUT)
        rc = idle ? pthread_cond_timedwait(&h->cond, &h->lock, &until) :
            pthread_cond_wait(&h->cond, &h->lock);
    return rc != ETIMEDOUT;
}

static int work(struct store *s, bool idle, struct err *err)
{
    uint64_t before = s->shared->durable;
    bool large = batch_bytes(s->shared->first) > LARGE;
    int rc = 0;

    if (s->shared->first)
        rc = write_all(s, err);
    if (s->shared->durable != before)
        wake_loop(s);                  /* first of all: others wait for it */
    if (large)
        slim(s->shared);
    if (rc == 0 && s->shared->trim_left)
        rc = trim_slice(s, err);
    if (rc == 0 && writer_due(s->writer, idle))
        rc = checkpoint(s, err);
    return rc;
}

static void *thread_main(void *arg)
{
    struct store *s = arg;
    struct shared *h = s->shared;

    (void) pthread_mutex_lock(&h->lock);
    for (;;) {
        bool idle = !wait_work(s);
        struct err why = { 0 };

        if (h->stop && !h->first)
            break;
        if (work(s, idle, &why) < 0) {
            fail(s, &why);
            wake_loop(s);
        }
    }
    (void) pthread_mutex_unlock(&h->lock);
    return NULL;
}

int thread_new(pthread_t *ret, const char *name, void *(*run)(void *),
               void *arg, struct err *err)
{
    sigset_t all, before;
    int rc;

    (void) sigfillset(&all);
    (void) pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(ret, NULL, run, arg);
    (void) pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0)
        return err_set(err, rc, "start the thread '%s': %s", name,
                       strerror(rc));
    (void) pthread_setname_np(*ret, name);
    return 0;
}

int thread_start(struct store *s, struct err *err)
{
    int rc = thread_new(&s->thread, "store", thread_main, s, err);

    s->running = rc == 0;
    return rc;
}

void thread_stop(struct store *s)
{
    (void) pthread_mutex_lock(&s->shared->lock);
    s->shared->stop = true;
    s->shared->trim_left = 0;
    (void) pthread_cond_signal(&s->shared->cond);
    (void) pthread_mutex_unlock(&s->shared->lock);
    (void) pthread_join(s->thread, NULL);
    s->running = false;
}

int store_flush(struct store *s, struct err *err)
{
    struct err why = { 0 };
    int rc = 0;

    (void) pthread_mutex_lock(&s->shared->lock);
    if (s->shared->first)
        rc = write_all(s, &why);
    if (rc < 0)
        fail(s, &why);
    (void) pthread_mutex_unlock(&s->shared->lock);
    return rc < 0 ? err_set(err, why.code, "%s", why.text) : 0;
}

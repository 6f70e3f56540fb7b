#include "gpu/probe.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

/* The node is the thread's alone while a question is under way, and the loop's
 * otherwise; `lock` guards the two flags that say which.
 */
struct probe {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t asked;
    bool ask, end;
    int fd;
    struct node *node;
};

enum { CLOSE_WAIT_S = 1 };

static void answer(const struct probe *p)
{
    const uint64_t one = 1;

    /* Fails only when it counts past 2^64. */
    (void) !write(p->fd, &one, sizeof one);
}

static void *run(void *arg)
{
    struct probe *p = arg;

    (void) pthread_mutex_lock(&p->lock);
    while (!p->end) {
        if (!p->ask) {
            (void) pthread_cond_wait(&p->asked, &p->lock);
            continue;
        }
        p->ask = false;
        (void) pthread_mutex_unlock(&p->lock);
        node_look(p->node, clock_mono_ms(), clock_wall_ms());
        answer(p);
        (void) pthread_mutex_lock(&p->lock);
    }
    (void) pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void destroy(struct probe *p)
{
    node_free(p->node);
    if (p->fd >= 0)
        (void) close(p->fd);
    (void) pthread_cond_destroy(&p->asked);
    (void) pthread_mutex_destroy(&p->lock);
    free(p);
}

int probe_open(struct probe **ret, struct err *err)
{
    struct probe *p = mem_new(sizeof *p);
    int rc;

    (void) pthread_mutex_init(&p->lock, NULL);
    (void) pthread_cond_init(&p->asked, NULL);
    p->node = node_new();
    p->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = p->fd < 0 ? errno : pthread_create(&p->thread, NULL, run, p);
    if (rc) {
        destroy(p);
        return err_set(err, rc, "start of the probe: %s", strerror(rc));
    }
    *ret = p;
    return 0;
}

void probe_close(struct probe *p)
{
    struct timespec until;

    if (!p)
        return;
    (void) pthread_mutex_lock(&p->lock);
    p->end = true;
    (void) pthread_cond_signal(&p->asked);
    (void) pthread_mutex_unlock(&p->lock);
    (void) clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_WAIT_S;
    if (pthread_timedjoin_np(p->thread, NULL, &until) == 0)
        destroy(p);
}

int probe_fd(const struct probe *p)
{
    return p->fd;
}

void probe_ask(struct probe *p)
{
    (void) pthread_mutex_lock(&p->lock);
    p->ask = true;
    (void) pthread_cond_signal(&p->asked);
    (void) pthread_mutex_unlock(&p->lock);
}

bool probe_take(struct probe *p, struct node_report *ret)
{
    uint64_t n;

    if (read(p->fd, &n, sizeof n) != (ssize_t) sizeof n)
        return false;
    *ret = *node_report(p->node);
    return true;
}

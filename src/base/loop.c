#include "base/loop.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

/* Every watcher is on one of four lists: a descriptor or a signal on `fds`, a
 * timer in the heap, a call for the end of the turn in `soon`, and what is
 * removed or done on `dead`, which is freed when the turn ends.  epoll holds
 * pointers to watchers; one that died in this turn is passed over.
 */
enum kind { KIND_FD, KIND_SIGNAL, KIND_TIMER, KIND_SOON };

struct watch {
    struct loop *loop;
    enum kind kind;
    bool dead;
    struct watch *next, *prev;   /* on fds or soon; dead uses next alone */
    void *arg;
    /* KIND_FD, KIND_SIGNAL */
    int fd;                      /* of a signal: ours */
    unsigned want;
    loop_fd_f on_fd;
    loop_signal_f on_signal;
    int sig;
    /* KIND_TIMER, KIND_SOON */
    loop_timer_f on_timer;
    uint64_t due_ms;
    uint64_t seq;                /* among those due at once: order of adding */
    size_t place;                /* in the heap */
};

struct list {
    struct watch *first, *last;
};

struct loop {
    int epfd;
    bool in_turn, stop;
    struct list fds, soon;
    struct watch *dead;
    struct watch **heap;
    size_t timers, heap_cap;
    uint64_t seq;
    uint64_t now_ms;
    uint64_t (*clock)(void *);
    void *clock_arg;
};

static uint64_t monotonic(void *arg)
{
    (void) arg;
    return clock_mono_ms();
}

/* Lists. */

static void list_add(struct list *list, struct watch *w)
{
    w->next = NULL;
    w->prev = list->last;
    if (list->last)
        list->last->next = w;
    else
        list->first = w;
    list->last = w;
}

static void list_del(struct list *list, struct watch *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        list->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
    else
        list->last = w->prev;
}

/* The heap of timers: the next one due stands first. */

static bool before(const struct watch *a, const struct watch *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->seq < b->seq;
}

static void heap_put(struct loop *l, size_t place, struct watch *w)
{
    l->heap[place] = w;
    w->place = place;
}

static void heap_up(struct loop *l, struct watch *w)
{
    size_t at = w->place;

    while (at > 0 && before(w, l->heap[(at - 1) / 2])) {
        heap_put(l, at, l->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    heap_put(l, at, w);
}

static void heap_down(struct loop *l, struct watch *w)
{
    size_t at = w->place;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= l->timers)
            break;
        if (child + 1 < l->timers &&
            before(l->heap[child + 1], l->heap[child]))
            child++;
        if (!before(l->heap[child], w))
            break;
        heap_put(l, at, l->heap[child]);
        at = child;
    }
    heap_put(l, at, w);
}

static void heap_add(struct loop *l, struct watch *w)
{
    if (l->timers == l->heap_cap) {
        l->heap_cap = l->heap_cap ? l->heap_cap * 2 : 16;
        l->heap = mem_grow(l->heap, l->heap_cap, sizeof(struct watch *));
    }
    heap_put(l, l->timers++, w);
    heap_up(l, w);
}

static void heap_del(struct loop *l, struct watch *w)
{
    struct watch *last = l->heap[--l->timers];

    if (last == w)
        return;
    heap_put(l, w->place, last);
    heap_up(l, last);
    heap_down(l, last);
}

/* Watchers. */

static struct watch *watch_new(struct loop *l, enum kind kind, void *arg)
{
    struct watch *w = mem_new(sizeof *w);

    w->loop = l;
    w->kind = kind;
    w->fd = -1;
    w->arg = arg;
    return w;
}

static void watch_free(struct watch *w)
{
    if (w->kind == KIND_SIGNAL)
        (void) close(w->fd);
    free(w);
}

static void bury(struct loop *l)
{
    while (l->dead) {
        struct watch *w = l->dead;

        l->dead = w->next;
        watch_free(w);
    }
}

void watch_remove(struct watch *w)
{
    struct loop *l;

    if (!w || w->dead)
        return;
    l = w->loop;
    if (w->kind == KIND_TIMER)
        heap_del(l, w);
    else if (w->kind == KIND_SOON)
        list_del(&l->soon, w);
    else {
        list_del(&l->fds, w);
        (void) epoll_ctl(l->epfd, EPOLL_CTL_DEL, w->fd, NULL);
    }
    w->dead = true;
    w->next = l->dead;
    l->dead = w;
}

/* epoll shows hang-ups and errors also to those who want nothing; on edges
 * alone a sleeper is woken at most once by each, and then passed over.
 */
static struct epoll_event interest(struct watch *w)
{
    return (struct epoll_event) {
        .events = w->want == 0 ? (unsigned) EPOLLET
                : ((w->want & LOOP_READ) ? (unsigned) EPOLLIN : 0u)
                | ((w->want & LOOP_WRITE) ? (unsigned) EPOLLOUT : 0u),
        .data.ptr = w,
    };
}

static int add_fd(struct watch *w, struct err *err)
{
    struct epoll_event ev = interest(w);

    if (epoll_ctl(w->loop->epfd, EPOLL_CTL_ADD, w->fd, &ev) < 0)
        return err_set(err, errno, "watch descriptor %d: %s", w->fd,
                       strerror(errno));
    list_add(&w->loop->fds, w);
    return 0;
}

int loop_fd(struct loop *l, int fd, unsigned want, loop_fd_f cb, void *arg,
            struct watch **ret, struct err *err)
{
    struct watch *w = watch_new(l, KIND_FD, arg);
    int rc;

    w->fd = fd;
    w->want = want;
    w->on_fd = cb;
    rc = add_fd(w, err);
    if (rc < 0)
        watch_free(w);
    else
        *ret = w;
    return rc;
}

void watch_want(struct watch *w, unsigned want)
{
    struct epoll_event ev;
    int rc;

    if (w->dead || w->want == want)
        return;
    w->want = want;
    ev = interest(w);
    rc = epoll_ctl(w->loop->epfd, EPOLL_CTL_MOD, w->fd, &ev);
    assert(rc == 0);                     /* else closed before removed */
    (void) rc;
}

struct watch *loop_timer(struct loop *l, uint64_t after_ms, loop_timer_f cb,
                         void *arg)
{
    struct watch *w = watch_new(l, KIND_TIMER, arg);

    if (!l->in_turn)                     /* the last turn may be long ago */
        l->now_ms = l->clock(l->clock_arg);
    if (__builtin_add_overflow(l->now_ms, after_ms, &w->due_ms))
        w->due_ms = UINT64_MAX;
    w->seq = l->seq++;
    w->on_timer = cb;
    heap_add(l, w);
    return w;
}

struct watch *loop_soon(struct loop *l, loop_timer_f cb, void *arg)
{
    struct watch *w = watch_new(l, KIND_SOON, arg);

    w->seq = l->seq++;
    w->on_timer = cb;
    list_add(&l->soon, w);
    return w;
}

int loop_signal(struct loop *l, int sig, loop_signal_f cb, void *arg,
                struct err *err)
{
    struct watch *w;
    sigset_t set;
    int fd, rc;

    (void) sigemptyset(&set);
    if (sigaddset(&set, sig) < 0 || sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return err_set(err, errno, "block signal %d: %s", sig, strerror(errno));
    fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return err_set(err, errno, "signalfd: %s", strerror(errno));
    w = watch_new(l, KIND_SIGNAL, arg);
    w->fd = fd;
    w->want = LOOP_READ;
    w->on_signal = cb;
    w->sig = sig;
    rc = add_fd(w, err);
    if (rc < 0)
        watch_free(w);
    return rc;
}

/* The loop. */

int loop_open(struct loop **ret, struct err *err)
{
    int epfd = epoll_create1(EPOLL_CLOEXEC);
    struct loop *l;

    if (epfd < 0)
        return err_set(err, errno, "epoll_create1: %s", strerror(errno));
    l = mem_new(sizeof *l);
    l->epfd = epfd;
    loop_set_clock(l, monotonic, NULL);
    *ret = l;
    return 0;
}

void loop_close(struct loop *l)
{
    if (!l)
        return;
    while (l->fds.first)
        watch_remove(l->fds.first);
    while (l->soon.first)
        watch_remove(l->soon.first);
    while (l->timers)
        watch_remove(l->heap[0]);
    bury(l);
    free(l->heap);
    (void) close(l->epfd);
    free(l);
}

uint64_t loop_now(const struct loop *l)
{
    return l->now_ms;
}

void loop_set_clock(struct loop *l, uint64_t (*now_ms)(void *), void *arg)
{
    l->clock = now_ms;
    l->clock_arg = arg;
    l->now_ms = now_ms(arg);
}

/* From the time of the call, not of the turn: callbacks may have been slow. */
static int wait_ms(const struct loop *l, int max_wait_ms)
{
    uint64_t now, left;

    if (l->soon.first)
        return 0;
    if (!l->timers)
        return max_wait_ms;
    now = l->clock(l->clock_arg);
    left = l->heap[0]->due_ms > now ? l->heap[0]->due_ms - now : 0;
    if (max_wait_ms >= 0 && left > (uint64_t) max_wait_ms)
        return max_wait_ms;
    return left > INT_MAX ? INT_MAX : (int) left;
}

static void call_signal(struct watch *w)
{
    struct signalfd_siginfo info;

    while (!w->dead && read(w->fd, &info, sizeof info) == sizeof info)
        w->on_signal(w->sig, w->arg);
}

static void call_fd(struct watch *w, unsigned events)
{
    unsigned ready = (events & (EPOLLHUP | EPOLLERR) ? w->want : 0u)
                   | (events & EPOLLIN ? LOOP_READ : 0u)
                   | (events & EPOLLOUT ? LOOP_WRITE : 0u);

    /* An earlier callback of this turn may have removed the watcher or
     * changed what it wants.
     */
    ready &= w->want;
    if (w->dead || !ready)
        return;
    if (w->kind == KIND_SIGNAL)
        call_signal(w);
    else
        w->on_fd(w, w->fd, ready, w->arg);
}

/* A timer or a call that is added from here on has a higher number and waits
 * for the next turn, so that no chain of them starves the descriptors.
 */
static void call_timers(struct loop *l)
{
    uint64_t end = l->seq;

    while (l->timers && l->heap[0]->due_ms <= l->now_ms &&
           l->heap[0]->seq < end) {
        struct watch *w = l->heap[0];

        watch_remove(w);                 /* fires once */
        w->on_timer(w, w->arg);
    }
}

static void call_soon(struct loop *l)
{
    uint64_t end = l->seq;

    while (l->soon.first && l->soon.first->seq < end) {
        struct watch *w = l->soon.first;

        watch_remove(w);
        w->on_timer(w, w->arg);
    }
}

int loop_turn(struct loop *l, int max_wait_ms, struct err *err)
{
    struct epoll_event ready[64];
    int n = epoll_wait(l->epfd, ready, array_size(ready),
                       wait_ms(l, max_wait_ms));

    assert(!l->in_turn);
    if (n < 0 && errno != EINTR)
        return err_set(err, errno, "epoll_wait: %s", strerror(errno));
    l->in_turn = true;
    l->now_ms = l->clock(l->clock_arg);
    for (int i = 0; i < n; i++)
        call_fd(ready[i].data.ptr, ready[i].events);
    call_timers(l);
    call_soon(l);
    bury(l);
    l->in_turn = false;
    return 0;
}

int loop_run(struct loop *l, struct err *err)
{
    int rc = 0;

    while (rc == 0 && !l->stop)
        rc = loop_turn(l, -1, err);
    l->stop = false;
    return rc;
}

void loop_stop(struct loop *l)
{
    l->stop = true;
}

#include "runner/resolve.h"

#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"

#include <ares.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* c-ares may answer from inside of any call, and must not be ended from its own
 * callback: the answer is kept until the turn's end.
 */
enum { SOCKETS_MAX = 16, TRY_MS = 1500, TRIES = 3 };

struct resolve {
    struct loop *loop;
    ares_channel channel;
    bool open;
    resolve_f cb;
    void *arg;
    char *name;
    struct {
        int fd;
        struct watch *watch;
    } sockets[SOCKETS_MAX];
    struct watch *timer, *soon;
    struct sockaddr_storage list[RESOLVE_MAX];
    size_t count;
    struct err err;
};

static void free_all(struct resolve *r)
{
    if (r->open)
        ares_destroy(r->channel);
    ares_library_cleanup();
    for (size_t i = 0; i < SOCKETS_MAX; i++)
        watch_remove(r->sockets[i].watch);
    watch_remove(r->timer);
    watch_remove(r->soon);
    free(r->name);
    free(r);
}

static void on_soon(struct watch *w, void *arg)
{
    struct resolve *r = arg;

    (void) w;
    r->soon = NULL;
    r->cb(r->count ? r->list : NULL, r->count, &r->err, r->arg);
    free_all(r);
}

static void answer(struct resolve *r)
{
    if (!r->soon)
        r->soon = loop_soon(r->loop, on_soon, r);
}

/* ---- c-ares on the loop ---- */

static void wind(struct resolve *r);

static void on_timer(struct watch *w, void *arg)
{
    struct resolve *r = arg;

    (void) w;
    r->timer = NULL;
    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    wind(r);
}

static void wind(struct resolve *r)
{
    struct timeval tv;
    struct timeval *next = ares_timeout(r->channel, NULL, &tv);

    watch_remove(take(r->timer));
    if (next)
        r->timer = loop_timer(r->loop, (uint64_t) next->tv_sec * 1000 +
                              (uint64_t) next->tv_usec / 1000 + 1, on_timer, r);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct resolve *r = arg;

    (void) w;
    ares_process_fd(r->channel, ready & LOOP_READ ? fd : ARES_SOCKET_BAD,
                    ready & LOOP_WRITE ? fd : ARES_SOCKET_BAD);
    wind(r);
}

static void on_socket(void *arg, ares_socket_t fd, int readable, int writable)
{
    unsigned want = (readable ? LOOP_READ : 0u) | (writable ? LOOP_WRITE : 0u);
    struct resolve *r = arg;
    size_t free_at = SOCKETS_MAX, i;

    for (i = 0; i < SOCKETS_MAX; i++) {
        if (r->sockets[i].watch && r->sockets[i].fd == fd)
            break;
        if (!r->sockets[i].watch && free_at == SOCKETS_MAX)
            free_at = i;
    }
    if (i < SOCKETS_MAX && !want) {
        watch_remove(take(r->sockets[i].watch));
    } else if (i < SOCKETS_MAX) {
        watch_want(r->sockets[i].watch, want);
    } else if (want && free_at < SOCKETS_MAX) {
        /* One that cannot be watched is answered by its time-out. */
        r->sockets[free_at].fd = fd;
        (void) loop_fd(r->loop, fd, want, on_ready, r,
                       &r->sockets[free_at].watch, NULL);
    }
}

/* ---- the answer ---- */

static void keep(struct resolve *r, const struct sockaddr *a, size_t len)
{
    if (r->count < RESOLVE_MAX && len <= sizeof r->list[0] &&
        (a->sa_family == AF_INET || a->sa_family == AF_INET6))
        memcpy(&r->list[r->count++], a, len);
}

static const char *why(int status)
{
    switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENODATA:
        return "no such name, or it has no address";
    case ARES_ETIMEOUT:
        return "no name server answers";
    case ARES_ECONNREFUSED:
        return "there is no name server";
    default:
        return ares_strerror(status);
    }
}

static void on_answer(void *arg, int status, int timeouts,
                      struct ares_addrinfo *found)
{
    struct resolve *r = arg;

    (void) timeouts;
    if (status == ARES_EDESTRUCTION)
        return;
    for (struct ares_addrinfo_node *n = found ? found->nodes : NULL; n;
         n = n->ai_next)
        keep(r, n->ai_addr, (size_t) n->ai_addrlen);
    ares_freeaddrinfo(found);
    if (r->count == 0)
        (void) err_set(&r->err, ENOENT, "look up '%s': %s", r->name,
                       why(status == ARES_SUCCESS ? ARES_ENODATA : status));
    answer(r);
}

static bool literal(struct resolve *r)
{
    struct sockaddr_in four = { .sin_family = AF_INET };
    struct sockaddr_in6 six = { .sin6_family = AF_INET6 };

    if (inet_pton(AF_INET, r->name, &four.sin_addr) == 1)
        keep(r, (const struct sockaddr *) &four, sizeof four);
    else if (inet_pton(AF_INET6, r->name, &six.sin6_addr) == 1)
        keep(r, (const struct sockaddr *) &six, sizeof six);
    return r->count > 0;
}

static int ask(struct resolve *r, struct err *err)
{
    struct ares_addrinfo_hints hints = { .ai_family = AF_UNSPEC,
                                         .ai_socktype = SOCK_STREAM };
    struct ares_options o = { .sock_state_cb = on_socket,
                              .sock_state_cb_data = r, .timeout = TRY_MS,
                              .tries = TRIES };
    int rc = ares_init_options(&r->channel, &o, ARES_OPT_SOCK_STATE_CB |
                               ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES);

    if (rc != ARES_SUCCESS)
        return err_set(err, EIO, "look up '%s': %s", r->name,
                       ares_strerror(rc));
    r->open = true;
    ares_getaddrinfo(r->channel, r->name, NULL, &hints, on_answer, r);
    wind(r);
    return 0;
}

int resolve_start(struct loop *l, const char *name, resolve_f cb, void *arg,
                  struct resolve **ret, struct err *err)
{
    struct resolve *r;
    int rc = ares_library_init(ARES_LIB_INIT_NONE);

    if (rc != ARES_SUCCESS)
        return err_set(err, EIO, "c-ares: %s", ares_strerror(rc));
    r = mem_new(sizeof *r);
    r->loop = l;
    r->cb = cb;
    r->arg = arg;
    r->name = mem_str(name);
    rc = 0;
    if (literal(r))
        answer(r);
    else
        rc = ask(r, err);
    if (rc < 0)
        free_all(r);
    else
        *ret = r;
    return rc;
}

void resolve_cancel(struct resolve *r)
{
    if (r)
        free_all(r);
}

#include "net/http.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/http_int.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

/* libmicrohttpd parses and writes HTTP; it has one epoll descriptor, which the
 * loop watches, and wants MHD_run when that is readable or its timeout is
 * over.  A request that is not answered at once is suspended: MHD forgets its
 * socket until the answer resumes it.
 *
 * MHD's own timeout knows a client that is silent, not one that sends a byte
 * now and then.  So each connection has a deadline of its own for its head and
 * its body; a sweep every second shuts down those that passed it.
 */
enum {
    POOL_BYTES = 32 * 1024,            /* MHD's memory per connection */
    RUNS = 4,
    SWEEP_MS = 1000,
    CLOSE_MS = 300,                    /* what http_close waits for clients */
    PER_ADDRESS = 1024,                /* TCP connections of one address */
};
/* A body that is refused is read to its end all the same, up to here: a client
 * in the midst of writing does not see the answer otherwise.
 */
#define DISCARD_BYTES (UINT64_C(16) * 1024 * 1024)

static void run(struct http *h);

static void on_timer(struct watch *w, void *arg)
{
    struct http *h = arg;

    (void) w;
    h->timer = NULL;
    run(h);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    (void) w;
    (void) fd;
    (void) ready;
    run(arg);
}

/* MHD often wants a second look at what it has just begun (an answer is queued
 * in one, sent in the next); what is ready is finished before others get their
 * turn, within bounds.
 */
static void run(struct http *h)
{
    MHD_UNSIGNED_LONG_LONG ms = 0;
    enum MHD_Result more = MHD_YES;

    for (int i = 0; i < RUNS && more == MHD_YES && ms == 0; i++) {
        (void) MHD_run(h->mhd);
        more = MHD_get_timeout(h->mhd, &ms);
    }
    watch_remove(h->timer);
    h->timer = NULL;
    if (more != MHD_YES)
        return;
    if (ms == 0)
        h->timer = loop_soon(h->loop, on_timer, h);
    else
        h->timer = loop_timer(h->loop, ms, on_timer, h);
}

static void on_kick(struct watch *w, void *arg)
{
    struct http *h = arg;

    (void) w;
    h->kick = NULL;
    run(h);
}

void http_resume(struct http *h, struct MHD_Connection *c)
{
    MHD_resume_connection(c);
    if (!h->kick && !h->closing)
        h->kick = loop_soon(h->loop, on_kick, h);
}

/* The client has said all it will say.  When that comes together with half a
 * request MHD does not look again: it waits for an edge that has been.
 */
static bool is_at_end(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void sweep(struct watch *w, void *arg)
{
    struct http *h = arg;
    uint64_t now = loop_now(h->loop);

    (void) w;
    h->sweep = NULL;
    for (struct http_conn *c = h->conns; c; c = c->next) {
        /* MHD sees the end of the stream and closes. */
        if (!c->busy && (now >= c->deadline_ms || is_at_end(c->fd)))
            (void) shutdown(c->fd, SHUT_RDWR);
    }
    if (h->conns)
        h->sweep = loop_timer(h->loop, SWEEP_MS, sweep, h);
}

/* Connections. */

static void peer_read(const struct http *h, struct MHD_Connection *m, int fd,
                      struct http_peer *p)
{
    const union MHD_ConnectionInfo *info;
    struct ucred u;
    socklen_t len = sizeof u;
    char host[48];

    p->uid = p->gid = UINT32_MAX;
    if (h->local) {
        (void) snprintf(p->from, sizeof p->from, "unix");
        /* Without the kernel's word nobody is anybody: not local. */
        p->local = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &len) == 0;
        if (p->local) {
            p->uid = u.uid;
            p->gid = u.gid;
        }
        return;
    }
    info = MHD_get_connection_info(m, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    if (!info || getnameinfo(info->client_addr,
                             info->client_addr->sa_family == AF_INET6 ?
                             sizeof(struct sockaddr_in6) :
                             sizeof(struct sockaddr_in),
                             host, sizeof host, NULL, 0, NI_NUMERICHOST))
        (void) snprintf(host, sizeof host, "unknown");
    (void) snprintf(p->from, sizeof p->from, "%s", host);
}

static void conn_open(struct http *h, struct MHD_Connection *m, void **socket)
{
    struct http_conn *c = mem_new(sizeof *c);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(m, MHD_CONNECTION_INFO_CONNECTION_FD);

    c->fd = info->connect_fd;
    c->deadline_ms = loop_now(h->loop) + HTTP_HEAD_MS;
    peer_read(h, m, c->fd, &c->peer);
    list_push(h->conns, c);
    h->stat.connections++;
    if (!h->sweep)
        h->sweep = loop_timer(h->loop, SWEEP_MS, sweep, h);
    *socket = c;
}

static void conn_close(struct http *h, void **socket)
{
    struct http_conn *c = *socket;

    list_unlink(h->conns, c);
    h->stat.connections--;
    free(c);
    *socket = NULL;
}

static void on_connection(void *cls, struct MHD_Connection *m, void **socket,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        conn_open(cls, m, socket);
    else if (*socket)
        conn_close(cls, socket);
}

/* Requests. */

/* MHD would put the arguments into the connection's memory, and when there are
 * more than fit it stops without an answer.  They are read by url_parse, so it
 * need not see any.  The bytes are in its read buffer, which is not constant.
 */
static void hide_query(const char *target)
{
    char *query = strchr((char *) (intptr_t) target, '?');

    if (query)
        query[1] = '\0';
}

/* MHD knows the target and has not looked into it: the first moment there is
 * anything of a request.
 */
static void *on_target(void *cls, const char *target,
                       struct MHD_Connection *m)
{
    struct http *h = cls;
    struct http_req *r = mem_new(sizeof *r);
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(m, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    r->http = h;
    r->mhd = m;
    r->conn = info->socket_context;
    if (target && strnlen(target, URL_MAX + 1) <= URL_MAX)
        r->target = mem_str(target);
    if (target)
        hide_query(target);
    list_push(h->reqs, r);
    return r;
}

static void on_completed(void *cls, struct MHD_Connection *m, void **context,
                         enum MHD_RequestTerminationCode code)
{
    struct http *h = cls;
    struct http_req *r = *context;

    (void) m;
    (void) code;
    if (!r)
        return;
    *context = NULL;
    if (r->phase != HTTP_NEW)
        h->events.done(r, h->arg);
    list_unlink(h->reqs, r);
    r->conn->busy = false;
    r->conn->deadline_ms = loop_now(h->loop) + HTTP_HEAD_MS;
    http_answer_clear(r);
    url_clear(&r->url);
    buf_free(&r->body);
    free(r->target);
    free(r);
}

/* As the client says; a chunked body says nothing and has 0. */
static uint64_t content_length(const struct http_req *r)
{
    const char *s = http_header(r, "Content-Length");

    return s ? strtoull(s, NULL, 10) : 0;   /* MHD has checked the form */
}

static enum MHD_Result queue(struct http_req *r)
{
    enum MHD_Result ok;

    r->phase = HTTP_ANSWERED;
    r->http->stat.answers[r->status / 100 % 6]++;
    ok = MHD_queue_response(r->mhd, r->status, r->answer);
    MHD_destroy_response(r->answer);
    r->answer = NULL;
    return ok;
}

static enum MHD_Result on_head(struct http_req *r, const char *method,
                               const char *version)
{
    struct http *h = r->http;
    struct err err = { 0 };
    uint64_t length;
    unsigned status;

    r->phase = HTTP_BODY;
    r->conn->deadline_ms = loop_now(h->loop) + HTTP_BODY_MS;
    (void) snprintf(r->method, sizeof r->method, "%s", method);
    if (h->tls && !r->conn->checked) {
        r->conn->checked = true;
        http_tls_subject(r->mhd, r->conn->peer.subject,
                         sizeof r->conn->peer.subject);
    }
    status = http_head_check(r, version, &err);
    length = content_length(r);
    if (status) {
        http_add_header(r, "Connection", "close");
        http_problem(r, status, err.text);
    } else {
        r->body.max = h->events.head(r, h->arg);
    }
    if (!r->answer && length > r->body.max)
        r->too_much = true;
    if (r->too_much && !r->answer)
        http_problem(r, 413, "the body is larger than this may be");
    if (r->answer && length > DISCARD_BYTES)
        return queue(r);               /* and MHD closes */
    return MHD_YES;
}

static enum MHD_Result on_body(struct http_req *r, const char *data,
                               size_t *len)
{
    r->body_bytes += *len;
    if (r->body_bytes > DISCARD_BYTES)
        return MHD_NO;                 /* cut off */
    if (!r->answer && !buf_add(&r->body, data, *len)) {
        r->too_much = true;
        buf_free(&r->body);
        http_problem(r, 413, "the body is larger than this may be");
    }
    *len = 0;
    return MHD_YES;
}

static enum MHD_Result on_access(void *cls, struct MHD_Connection *m,
                                 const char *path, const char *method,
                                 const char *version, const char *data,
                                 size_t *len, void **context)
{
    struct http_req *r = *context;
    struct http *h = cls;

    (void) path;
    if (r->phase == HTTP_NEW)
        return on_head(r, method, version);
    if (*len)
        return on_body(r, data, len);
    if (r->phase == HTTP_BODY) {
        r->phase = HTTP_ASKED;
        r->conn->busy = true;
        if (!r->answer)
            h->events.request(r, h->arg);
    }
    if (r->answer)
        return queue(r);
    r->suspended = true;
    MHD_suspend_connection(m);
    return MHD_YES;
}

/* The request's side. */

const char *http_method(const struct http_req *r)
{
    return r->method;
}

const struct url *http_url(const struct http_req *r)
{
    return &r->url;
}

const char *http_target(const struct http_req *r)
{
    return r->target ? r->target : "";
}

const char *http_header(const struct http_req *r, const char *name)
{
    return MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

const char *http_body(const struct http_req *r, size_t *ret_len)
{
    *ret_len = r->body.len;
    return buf_text(&r->body);
}

const struct http_peer *http_peer(const struct http_req *r)
{
    return &r->conn->peer;
}

void http_set_context(struct http_req *r, void *context)
{
    r->context = context;
}

void *http_context(const struct http_req *r)
{
    return r->context;
}

void http_stat(const struct http *h, struct http_stat *ret)
{
    *ret = h->stat;
}

/* Open and close. */

static int start(struct http *h, const struct http_conf *conf, int fd,
                 struct err *err)
{
    struct MHD_OptionItem tls[] = {
        { MHD_OPTION_PER_IP_CONNECTION_LIMIT, PER_ADDRESS, NULL },
        { MHD_OPTION_HTTPS_MEM_CERT, 0, (void *) (intptr_t) conf->cert },
        { MHD_OPTION_HTTPS_MEM_KEY, 0, (void *) (intptr_t) conf->key },
        { MHD_OPTION_HTTPS_PRIORITIES, 0,
          (void *) (intptr_t) "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2" },
        { conf->client_ca ? MHD_OPTION_HTTPS_MEM_TRUST : MHD_OPTION_END, 0,
          (void *) (intptr_t) conf->client_ca },
        { MHD_OPTION_END, 0, NULL },
    };
    unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

    if (!h->tls)
        tls[0].option = MHD_OPTION_END;
    h->mhd = MHD_start_daemon(
        flags | (h->tls ? MHD_USE_TLS : 0), 0, NULL, NULL, on_access, h,
        MHD_OPTION_LISTEN_SOCKET, fd,
        MHD_OPTION_CONNECTION_LIMIT, conf->max_connections,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t) POOL_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned) HTTP_STALL_MS / 1000,
        MHD_OPTION_STRICT_FOR_CLIENT, 0,   /* http_head_check is */
        MHD_OPTION_URI_LOG_CALLBACK, on_target, h,
        MHD_OPTION_NOTIFY_COMPLETED, on_completed, h,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, h,
        MHD_OPTION_ARRAY, tls,
        MHD_OPTION_END);
    if (!h->mhd)
        return err_set(err, EINVAL, "the HTTP server does not start%s",
                       h->tls ? ": are certificate and key PEM, and do they "
                       "belong together?" : "");
    return 0;
}

int http_open(struct loop *l, const struct http_conf *conf,
              const struct http_events *events, void *arg, struct http **ret,
              struct err *err)
{
    struct http *h = mem_new(sizeof *h);
    const union MHD_DaemonInfo *info;
    int rc;

    h->loop = l;
    h->events = *events;
    h->arg = arg;
    h->local = conf->local;
    h->tls = conf->cert != NULL;
    rc = start(h, conf, conf->fd, err);
    if (rc) {
        /* Depending on how far it came MHD has closed the socket or not; its
         * number may be somebody else's by now and is left alone.
         */
        free(h);
        return rc;
    }
    info = MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    rc = loop_fd(l, info->epoll_fd, LOOP_READ, on_ready, h, &h->watch, err);
    if (rc) {
        http_close(h);
        return rc;
    }
    *ret = h;
    return 0;
}

void http_drain(struct http *h)
{
    MHD_socket fd;

    if (h->draining)
        return;
    h->draining = true;
    fd = MHD_quiesce_daemon(h->mhd);
    if (fd != MHD_INVALID_SOCKET)
        (void) close(fd);
}

/* Everything has its answer: run until it was sent, for a moment at most. */
static void flush(struct http *h)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(h->mhd, MHD_DAEMON_INFO_EPOLL_FD);
    uint64_t until = clock_mono_ms() + CLOSE_MS;
    uint64_t now = 0;

    while ((h->reqs || h->streams) && (now = clock_mono_ms()) < until) {
        struct pollfd p = { .fd = info->epoll_fd, .events = POLLIN };

        (void) MHD_run(h->mhd);
        (void) poll(&p, 1, (int) (until - now > 20 ? 20 : until - now));
    }
}

void http_close(struct http *h)
{
    if (!h)
        return;
    h->closing = true;
    for (struct http_req *r = h->reqs; r; r = r->next) {
        if (r->phase == HTTP_ASKED && !r->answer)
            http_problem(r, 503, "the control plane is going down");
    }
    http_streams_end(h);
    flush(h);
    watch_remove(h->watch);
    watch_remove(h->timer);
    watch_remove(h->sweep);
    watch_remove(h->kick);
    MHD_stop_daemon(h->mhd);
    free(h);
}

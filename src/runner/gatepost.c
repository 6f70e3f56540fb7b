#include "runner/gatepost.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/list.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "runner/gateline.h"
#include "runner/record.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum {
    GATEPOST_BACKLOG = 64,
    GATEPOST_AGAIN_MS = 100,           /* after no descriptor was to be had */
    GATEPOST_TAKE = 1024,              /* bytes read at once, kept at most */
};

struct guest {
    struct guest *next, *prev;
    struct gatepost *post;
    int fd;
    struct watch *watch;
    struct watch *quiet;               /* its time is up then; NULL: it waits */
    struct buf in;
    bool first;                        /* version 1: waits for "open" */
};

struct gatepost {
    const struct gateposts *all;
    void *owner;
    const char *lease;
    char *page_path, *socket_path, *answer;        /* owned */
    uid_t uid;
    enum gate_state state;             /* as it was found or set */
    int page, fd;
    struct watch *watch, *again;
    struct guest *guests;
    unsigned nguests;
    bool told;                         /* of guests that make no sense */
};

/* Guests. */

static void guest_drop(struct guest *g)
{
    struct gatepost *p = g->post;

    list_unlink(p->guests, g);
    p->nguests--;
    watch_remove(g->watch);
    watch_remove(g->quiet);
    (void) close(g->fd);
    buf_free(&g->in);
    free(g);
    if (p->watch && !p->again)
        watch_want(p->watch, LOOP_READ);
}

static void on_quiet(struct watch *w, void *arg)
{
    struct guest *g = arg;

    (void) w;
    g->quiet = NULL;
    guest_drop(g);
}

static void guest_hurry(struct guest *g, bool hurry)
{
    watch_remove(take(g->quiet));
    if (hurry)
        g->quiet = loop_timer(g->post->all->loop, GATEPOST_QUIET_MS, on_quiet,
                              g);
}

/* A whole answer fits a socket that was not written to before; a guest that
 * asks again and again and does not read is none.
 */
static bool guest_say(const struct guest *g, const char *text)
{
    size_t len = strlen(text);

    return send(g->fd, text, len, MSG_NOSIGNAL | MSG_DONTWAIT) ==
           (ssize_t) len;
}

/* Version 1 knows no page and no grant but "open". */
static bool hear_first(struct guest *g)
{
    g->first = true;
    guest_hurry(g, false);
    return g->post->state != GATE_ACTIVE || guest_say(g, "open\n");
}

static bool guest_hear(struct guest *g, const struct gateline *l)
{
    struct gatepost *p = g->post;

    if (l->kind == GATELINE_OTHER)
        return true;
    if (strcmp(l->lease, p->lease) != 0)
        return false;
    if (l->kind == GATELINE_WANTS) {
        guest_hurry(g, false);
        p->all->wants(p->owner);
        return true;
    }
    if (l->version == 1)
        return hear_first(g);
    if (l->version < 1 || l->version > GATE_VERSION + 1)
        return false;
    guest_hurry(g, true);
    return guest_say(g, p->answer);
}

static void guest_odd(struct gatepost *p)
{
    if (!p->told)
        log_say(LOG_WARN, "somebody at the gate makes no sense", "lease",
                p->lease, NULL);
    p->told = true;
}

static void on_guest(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct guest *g = arg;
    struct gateline line;
    char data[GATEPOST_TAKE];
    ssize_t n = recv(fd, data, sizeof data - g->in.len, MSG_DONTWAIT);
    int rc;

    (void) w;
    (void) ready;
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
        guest_drop(g);
        return;
    }
    (void) buf_add(&g->in, data, n > 0 ? (size_t) n : 0);
    while ((rc = gateline_next(&g->in, &line)) > 0)
        if (!guest_hear(g, &line))
            break;
    if (rc == 0)
        return;
    guest_odd(g->post);
    guest_drop(g);
}

/* The door. */

/* Ourselves too: whoever is root need not be asked. */
static bool may_enter(const struct gatepost *p, int fd)
{
    struct ucred c = { 0 };
    socklen_t size = sizeof c;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &size) == 0 &&
           (c.uid == p->uid || c.uid == geteuid());
}

static void let_in(struct gatepost *p, int conn)
{
    autoclose int fd = conn;
    struct guest *g;

    if (!may_enter(p, fd)) {
        guest_odd(p);
        return;
    }
    g = mem_new(sizeof *g);
    *g = (struct guest) { .post = p, .fd = fd,
                          .in = BUF_INIT(GATEPOST_TAKE) };
    if (loop_fd(p->all->loop, fd, LOOP_READ, on_guest, g, &g->watch,
                NULL) < 0) {
        free(g);
        return;
    }
    (void) take_fd(fd);
    list_push(p->guests, g);
    p->nguests++;
    guest_hurry(g, true);
}

static void on_again(struct watch *w, void *arg)
{
    struct gatepost *p = arg;

    (void) w;
    p->again = NULL;
    watch_want(p->watch, LOOP_READ);
}

static void on_door(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct gatepost *p = arg;

    (void) ready;
    while (p->nguests < GATEPOST_GUESTS) {
        int conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (conn >= 0) {
            let_in(p, conn);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            watch_want(w, 0);
            p->again = loop_timer(p->all->loop, GATEPOST_AGAIN_MS, on_again,
                                  p);
            return;
        }
    }
    watch_want(w, 0);                  /* until one leaves */
}

/* The runner's lock says that nobody else listens here. */
static int open_door(struct gatepost *p, gid_t gid, struct err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    mode_t mask;
    int rc;

    if (strlen(p->socket_path) >= sizeof a.sun_path)
        return err_set(err, ENAMETOOLONG,
                       "socket '%s': the path may have %zu bytes",
                       p->socket_path, sizeof a.sun_path - 1);
    memcpy(a.sun_path, p->socket_path, strlen(p->socket_path) + 1);
    p->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (p->fd < 0)
        return err_set(err, errno, "socket: %s", strerror(errno));
    (void) unlink(p->socket_path);
    mask = umask(0177);
    rc = bind(p->fd, (const struct sockaddr *) &a, sizeof a);
    (void) umask(mask);
    if (rc < 0 || (geteuid() == 0 &&
                   lchown(p->socket_path, p->uid, gid) < 0) ||
        listen(p->fd, GATEPOST_BACKLOG) < 0)
        return err_set(err, errno, "listen '%s': %s", p->socket_path,
                       strerror(errno));
    return loop_fd(p->all->loop, p->fd, LOOP_READ, on_door, p, &p->watch,
                   err);
}

/* Beginning and end. */

static char *make_answer(const struct gatepost *p,
                         const struct order_gate *grant)
{
    struct buf b = BUF_INIT(65536);

    (void) buf_printf(&b, "page %s\n", p->page_path);
    if (grant->memory)
        (void) buf_printf(&b, "memory %llu\n",
                          (unsigned long long) grant->memory);
    for (uint32_t i = 0; i < grant->nuuids; i++)
        (void) buf_printf(&b, "device %s\n", grant->uuid[i]);
    (void) buf_printf(&b, "lost %s\nready\n", grant->go ? "go" : "wait");
    return buf_take(&b);
}

/* One that is there; it is shut again if its task opened it meanwhile. */
static int take_page(struct gatepost *p, const struct gatepost_conf *c,
                     struct err *err)
{
    struct gatepage_seen seen = { 0 };
    int rc = gatepage_open(p->page_path, &p->page, err);

    if (rc == 0)
        rc = gatepage_read(p->page, &seen, err);
    p->state = c->shut ? GATE_SUSPENDED : seen.state;
    if (rc == 0 && p->state != seen.state)
        rc = gatepage_set(p->page, p->state, err);
    return rc;
}

/* A page that the task has spoilt is made anew, in the order's first state
 * unless it is to be shut: who has mapped the old one is its own business.
 */
static int open_page(struct gatepost *p, const struct gatepost_conf *c,
                     struct err *err)
{
    if (c->found) {
        int rc = take_page(p, c, err);

        if (rc != -ENOENT && rc != -EBADMSG)
            return rc;
        log_say(LOG_WARN, "its gate's page is made anew", "lease", c->lease,
                "why", err->text, NULL);
        if (p->page >= 0)
            (void) close(take_fd(p->page));
    }
    p->state = c->shut ? GATE_SUSPENDED : c->grant->state;
    return gatepage_make(p->page_path, c->uid, c->gid, p->state, &p->page,
                         err);
}

static int open_folder(const struct gateposts *all, struct err *err)
{
    int rc = all->above ? fs_mkdir(all->above, 0711, err) : 0;

    return rc < 0 ? rc : fs_mkdir(all->dir, 0711, err);
}

static char *path_of(const struct gateposts *all, const struct lease_id *id,
                     const char *what)
{
    char file[LEASE_NAME_SIZE];

    lease_id_file(id, file, sizeof file);
    return mem_printf("%s/w%llu.%s.%s", all->dir,
                      (unsigned long long) id->key.workload, file, what);
}

int gatepost_open(const struct gateposts *all,
                  const struct gatepost_conf *conf, struct gatepost **ret,
                  struct err *err)
{
    struct gatepost *p = mem_new(sizeof *p);
    int rc = open_folder(all, err);

    *p = (struct gatepost) {
        .all = all, .owner = conf->owner, .lease = conf->lease,
        .uid = conf->uid, .page = -1, .fd = -1,
        .page_path = path_of(all, conf->id, "page"),
        .socket_path = path_of(all, conf->id, "sock"),
    };
    p->answer = make_answer(p, conf->grant);
    if (rc == 0)
        rc = open_page(p, conf, err);
    if (rc == 0)
        rc = open_door(p, conf->gid, err);
    if (rc < 0) {
        gatepost_close(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void gatepost_close(struct gatepost *p)
{
    if (!p)
        return;
    watch_remove(take(p->watch));
    watch_remove(take(p->again));
    while (p->guests)
        guest_drop(p->guests);
    if (p->fd >= 0)
        (void) close(p->fd);
    if (p->page >= 0)
        (void) close(p->page);
    free(p->page_path);
    free(p->socket_path);
    free(p->answer);
    free(p);
}

void gatepost_forget(const struct gateposts *all, const struct lease_id *id)
{
    autofree char *page = path_of(all, id, "page");
    autofree char *sock = path_of(all, id, "sock");

    (void) unlink(page);
    (void) unlink(sock);
}

const char *gatepost_socket(const struct gatepost *p)
{
    return p->socket_path;
}

int gatepost_set(struct gatepost *p, enum gate_state state, struct err *err)
{
    int rc = gatepage_set(p->page, state, err);
    struct guest *next;

    if (rc == 0)
        p->state = state;
    if (rc < 0 || state != GATE_ACTIVE)
        return rc;
    for (struct guest *g = p->guests; g; g = next) {
        next = g->next;
        if (g->first && !guest_say(g, "open\n"))
            guest_drop(g);
    }
    return 0;
}

int gatepost_look(const struct gatepost *p, struct gatepage_seen *ret,
                  struct err *err)
{
    int rc = gatepage_read(p->page, ret, err);

    if (rc == 0)
        ret->state = p->state;
    return rc;
}

enum gate_state gatepost_state(const struct gatepost *p)
{
    return p->state;
}

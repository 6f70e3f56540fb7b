#include "engine/fake/fake.h"

#include "base/clock.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Runners that start nothing: of a block, or of one lease. */
enum state { NEW, RUNNING, ENDED };

struct lease {
    struct runner *runner;
    struct wire_msg m;         /* key, gen, epoch; the end, once ended */
    enum state state;
    uint64_t number;
    int status;
    bool stopped;
    struct watch *timer;
};

enum { REDIAL_MS = 20 };

static void on_dial(struct watch *w, void *arg);

/* Leases. */

static void lease_name(const struct wire_msg *m, char *buf, size_t size)
{
    char key[48];

    lease_key_print(&m->key, key, sizeof key);
    (void) snprintf(buf, size, "%s#%" PRIu32 "@%" PRIu64, key, m->gen,
                    m->epoch);
}

static struct lease *lease_get(struct runner *r, const struct wire_msg *m)
{
    char name[96];

    lease_name(m, name, sizeof name);
    return map_get(r->leases, name);
}

static struct lease *lease_new(struct runner *r, const struct wire_msg *m)
{
    struct lease *l = mem_new(sizeof *l);
    char name[96];

    *l = (struct lease) {
        .runner = r, .number = ++r->engine->leases,
        .m = { .key = m->key, .gen = m->gen, .epoch = m->epoch },
    };
    lease_name(m, name, sizeof name);
    (void) map_set(r->leases, name, l);
    return l;
}

static void lease_free(struct lease *l)
{
    char name[96];

    lease_name(&l->m, name, sizeof name);
    (void) map_del(l->runner->leases, name);
    watch_remove(l->timer);
    free(l);
}

/* The connection. */

void runner_hang_up(struct runner *r)
{
    watch_remove(take(r->watch));
    if (r->fd >= 0)
        (void) close(take_fd(r->fd));
    buf_free(&r->in);
    if (!r->dial && !r->given)
        r->dial = loop_timer(r->engine->loop, REDIAL_MS, on_dial, r);
}

static void send_msg(struct runner *r, const struct wire_msg *m)
{
    struct buf out = BUF_INIT(FRAME_MAX + 4);
    autojson json_t *j = wire_write(m);
    autofree char *body = json_text(j);

    if (r->fd < 0)
        return;
    frame_add(&out, body, strlen(body));
    /* Home reads in this same loop: what does not fit is a lost connection,
     * as on a bad network.
     */
    if (send(r->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t) out.len)
        runner_hang_up(r);
    buf_free(&out);
}

static void send_of(struct lease *l, enum wire_kind kind)
{
    struct wire_msg m = l->m;

    m.kind = kind;
    send_msg(l->runner, &m);
}

static const char *cause_of(const struct fake *e, const struct lease *l)
{
    if (fake_lies_at(e->lies.lose, l->number))
        return "lost";
    return l->stopped ? "signalled" : l->status ? "failed" : "none";
}

static void end(struct lease *l)
{
    struct fake *e = l->runner->engine;
    struct runner *r = l->runner;

    if (l->state == ENDED)
        return;
    watch_remove(take(l->timer));
    l->state = ENDED;
    l->m.status = l->stopped ? -15 : l->status;
    l->m.ended_ms = clock_wall_ms();
    (void) snprintf(l->m.cause, sizeof l->m.cause, "%s", cause_of(e, l));
    send_of(l, WIRE_ENDED);
    e->ends++;
    if (fake_lies_at(e->lies.twice, e->ends))
        send_of(l, WIRE_ENDED);
    if (fake_lies_at(e->lies.drop, e->ends))
        runner_hang_up(r);
}

/* What a task of one lease does not live to tell. */
static bool dies(struct runner *r)
{
    const struct lies *lies = &r->engine->lies;

    if (!r->of.alone)
        return false;
    if (fake_lies_at(lies->late, r->number))
        runner_over(r, SPEC_CAUSE_LOST, "its runner was lost");
    else if (fake_lies_at(lies->evicted, r->number))
        runner_over(r, SPEC_CAUSE_EVICTED, "the node was low on memory");
    else if (fake_lies_at(lies->node, r->number))
        runner_over(r, SPEC_CAUSE_NODE, "the node does not answer");
    else if (fake_lies_at(lies->deleted, r->number))
        runner_over(r, SPEC_CAUSE_DELETED, "somebody deleted it");
    return r->over != NULL;
}

static void on_end(struct watch *w, void *arg)
{
    struct lease *l = arg;

    (void) w;
    l->timer = NULL;
    if (!dies(l->runner))
        end(l);
}

static void send_part(struct lease *l, size_t from, size_t to)
{
    struct wire_msg m = { .kind = WIRE_OUTPUT, .key = l->m.key,
                          .gen = l->m.gen, .epoch = l->m.epoch,
                          .offset = from, .bytes = l->runner->printed + from,
                          .nbytes = to - from };

    send_msg(l->runner, &m);
}

/* In two parts, and all that was not heard yet. */
static void tell_output(struct lease *l)
{
    struct runner *r = l->runner;
    const struct lies *lies = &r->engine->lies;
    size_t len = r->printed ? strlen(r->printed) : 0;
    size_t middle = (r->heard + len) / 2;

    if (r->heard >= len)
        return;
    if (!fake_lies_at(lies->gap, r->number))
        send_part(l, r->heard, middle);
    send_part(l, middle, len);
    if (fake_lies_at(lies->echo, r->number))
        send_part(l, r->heard, len);
}

static void start(struct lease *l)
{
    if (l->state != NEW)
        return;
    l->state = RUNNING;
    l->m.started_ms = clock_wall_ms();
    l->m.pid = 1;
    send_of(l, WIRE_STARTED);
    tell_output(l);
    l->timer = loop_timer(l->runner->engine->loop,
                          l->runner->engine->lies.slow_ms, on_end, l);
}

/* Of "exit N", or of "exit N once": the first attempt's. */
static int status_of(const json_t *task)
{
    const char *run = json_get_str(task, "run", "");
    bool exits = strncmp(run, "exit ", 5) == 0;
    size_t len = strcspn(run + (exits ? 5 : 0), " ");
    autofree char *number = mem_strn(run + (exits ? 5 : 0), len);
    uint64_t n = 0;

    if (!exits || quantity_count(number, &n, NULL) < 0)
        return 0;
    if (strcmp(run + 5 + len, " once") == 0 &&
        json_get_u64(task, "attempt", 1) > 1)
        return 0;
    return (int) (n & 255);
}

/* One that has a runner of its own says what it was ordered. */
static void print_order(struct runner *r, const json_t *task)
{
    free(r->printed);
    r->printed = mem_printf("ran: %s\nrank %" PRIu64 " of %" PRIu64
        ", devices %zu, meet %s\n", json_get_str(task, "run", "?"),
        json_get_u64(task, "rank", 0), json_get_u64(task, "ranks", 1),
        json_array_size(json_object_get(task, "devices")),
        json_get_str(task, "rendezvous", "nobody"));
}

static void on_order(struct runner *r, const struct wire_msg *m)
{
    struct lease *l = lease_get(r, m);

    if (!l) {
        l = lease_new(r, m);
        l->status = status_of(m->task);
        if (r->of.alone)
            print_order(r, m->task);
    }
    if (r->of.alone && fake_lies_at(r->engine->lies.early, r->number)) {
        runner_over(r, SPEC_CAUSE_LOST, "its runner was lost before it began");
        return;
    }
    if (l->state == ENDED)
        send_of(l, WIRE_ENDED);
    else if (l->state == NEW)
        send_of(l, WIRE_CLAIM);
}

static void on_stop(struct runner *r, const struct wire_msg *m)
{
    struct lease *l = lease_get(r, m);

    if (!l)
        l = lease_new(r, m);
    l->stopped = true;
    end(l);
}

static void on_welcome(struct runner *r)
{
    struct lease *l;
    size_t pos = 0;

    while ((l = map_next(r->leases, &pos, NULL))) {
        if (l->state != NEW)
            tell_output(l);
        if (l->state == ENDED)
            send_of(l, WIRE_ENDED);
    }
}

/* One that has nothing to do comes no more. */
static void on_quit(struct runner *r)
{
    if (!r->of.alone || map_count(r->leases) > 0)
        return;
    r->given = true;
    runner_hang_up(r);
}

static void on_message(struct runner *r, const struct wire_msg *m)
{
    struct lease *l = lease_get(r, m);

    if (m->kind == WIRE_WELCOME)
        on_welcome(r);
    else if (m->kind == WIRE_ORDER)
        on_order(r, m);
    else if (m->kind == WIRE_STOP)
        on_stop(r, m);
    else if (m->kind == WIRE_QUIT)
        on_quit(r);
    else if (m->kind == WIRE_HEARD)
        r->heard = m->offset > r->heard ? m->offset : r->heard;
    else if (m->kind == WIRE_GRANT && l && m->ok)
        start(l);
    else if ((m->kind == WIRE_GRANT && l && l->state == NEW) ||
             (m->kind == WIRE_ACK && l && l->state == ENDED))
        lease_free(l);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct runner *r = arg;
    char data[65536];
    const char *body = NULL;
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    size_t len = 0;

    (void) w;
    (void) ready;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        runner_hang_up(r);
        return;
    }
    (void) buf_add(&r->in, data, (size_t) n);
    while (r->fd == fd && frame_next(&r->in, &body, &len, NULL) > 0) {
        struct wire_msg m;

        if (wire_read(body, len, &m, NULL) == 0) {
            buf_drop(&r->in, len + 4);
            on_message(r, &m);
            wire_clear(&m);
        } else {
            runner_hang_up(r);
        }
    }
}

static void say_hello(struct runner *r)
{
    static const char *const names[] = { "new", "running", "ended" };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION, .pid = 1 };
    struct lease *l;
    size_t pos = 0;

    (void) snprintf(m.block, sizeof m.block, "%s", r->name);
    (void) snprintf(m.token, sizeof m.token, "%s", r->token);
    if (r->of.alone)
        (void) snprintf(m.address, sizeof m.address, "127.1.%" PRIu64
                        ".%" PRIu64, r->number >> 8 & 255, r->number & 255);
    m.leases = mem_array(map_count(r->leases), sizeof *m.leases);
    while ((l = map_next(r->leases, &pos, NULL))) {
        struct wire_lease *to = &m.leases[m.nleases++];

        *to = (struct wire_lease) { .key = l->m.key, .gen = l->m.gen,
                                    .epoch = l->m.epoch };
        (void) snprintf(to->state, sizeof to->state, "%s", names[l->state]);
    }
    send_msg(r, &m);
    free(m.leases);
}

static void on_dial(struct watch *w, void *arg)
{
    struct runner *r = arg;
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    (void) w;
    r->dial = NULL;
    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", r->engine->home);
    r->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (r->fd < 0 ||
        connect(r->fd, (struct sockaddr *) &at, sizeof at) < 0 ||
        loop_fd(r->engine->loop, r->fd, LOOP_READ, on_ready, r, &r->watch,
                NULL) < 0)
        runner_hang_up(r);
    else
        say_hello(r);
}

void runner_dial(struct runner *r)
{
    if (r->fd < 0 && !r->dial)
        r->dial = loop_timer(r->engine->loop, 0, on_dial, r);
}

struct runner *runner_new(struct fake *e, const char *name, const char *token)
{
    struct runner *r = mem_new(sizeof *r);

    *r = (struct runner) { .engine = e, .fd = -1, .leases = map_new(),
                           .in = BUF_INIT(FRAME_MAX + 65540) };
    (void) snprintf(r->name, sizeof r->name, "%s", name);
    (void) snprintf(r->token, sizeof r->token, "%s", token);
    (void) runner_name_parse(name, &r->of, NULL);
    return r;
}

void runner_free(struct runner *r)
{
    struct lease *l;
    size_t pos;

    if (!r)
        return;
    r->given = true;
    watch_remove(r->dial);
    watch_remove(r->over);
    runner_hang_up(r);
    for (pos = 0; (l = map_next(r->leases, &pos, NULL)); pos = 0)
        lease_free(l);
    map_free(r->leases);
    free(r->printed);
    free(r);
}

#include "engine/engine.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/devices.h"
#include "engine/wire.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* fake - blocks without machines: each has a runner that lives in this very
 * loop, dials home like any other and starts nothing.  It lies on command:
 *
 *     fake:4xH100-80GB;slow=50;lose=7;double=3;cpus=64
 *
 *   slow=MS     a task takes that long (else it ends at once)
 *   lose=N      every Nth lease is reported lost
 *   double=N    every Nth end is told twice
 *   drop=N      the connection breaks after every Nth end
 *   cpus=N      of each block (8)
 *   away=MS     it cannot be reached for so long
 *
 * That is the conf's `devices`; its `nodes` is the number of blocks (1).
 *
 * A task ends with status 0, or with N where its command is "exit N".  What
 * ended is told again after each hello until it is acknowledged.
 */
struct fake;

struct block {
    struct fake *engine;
    char id[48], token[33];
    int fd;
    struct watch *watch, *dial, *up;
    struct buf in;
    struct map *leases;        /* text of key, generation and epoch -> lease */
    bool given;
};

enum state { NEW, RUNNING, ENDED };

struct lease {
    struct block *block;
    struct wire_msg m;         /* key, gen, epoch; the end, once ended */
    enum state state;
    uint64_t number;
    int status;
    bool stopped;
    struct watch *timer;
};

struct fake {
    struct engine base;
    struct loop *loop;
    const struct engine_events *events;
    void *arg;
    char *pool, *home;
    json_t *devices;
    char *block;
    struct watch *state;
    bool away, said;
    uint64_t away_ms, nodes;
    uint64_t slow_ms, lose, twice, drop, cpus;
    uint64_t leases, ends;     /* so far */
    struct map *blocks;
};

enum { REDIAL_MS = 20, NODES_MAX = 1000 };

static const char *const conf_keys[] = { "devices", "nodes", NULL };

static void on_dial(struct watch *w, void *arg);

/* Leases. */

static void lease_name(const struct wire_msg *m, char *buf, size_t size)
{
    char key[48];

    lease_key_print(&m->key, key, sizeof key);
    (void) snprintf(buf, size, "%s#%" PRIu32 "@%" PRIu64, key, m->gen,
                    m->epoch);
}

static struct lease *lease_get(struct block *b, const struct wire_msg *m)
{
    char name[96];

    lease_name(m, name, sizeof name);
    return map_get(b->leases, name);
}

static struct lease *lease_new(struct block *b, const struct wire_msg *m)
{
    struct lease *l = mem_new(sizeof *l);
    char name[96];

    *l = (struct lease) {
        .block = b, .number = ++b->engine->leases,
        .m = { .key = m->key, .gen = m->gen, .epoch = m->epoch },
    };
    lease_name(m, name, sizeof name);
    (void) map_set(b->leases, name, l);
    return l;
}

static void lease_free(struct lease *l)
{
    char name[96];

    lease_name(&l->m, name, sizeof name);
    (void) map_del(l->block->leases, name);
    watch_remove(l->timer);
    free(l);
}

/* The connection. */

static void hang_up(struct block *b)
{
    watch_remove(take(b->watch));
    if (b->fd >= 0)
        (void) close(take_fd(b->fd));
    buf_free(&b->in);
    if (!b->dial && !b->given)
        b->dial = loop_timer(b->engine->loop, REDIAL_MS, on_dial, b);
}

static void send_msg(struct block *b, const struct wire_msg *m)
{
    struct buf out = BUF_INIT(FRAME_MAX + 4);
    autojson json_t *j = wire_write(m);
    autofree char *body = json_text(j);

    if (b->fd < 0)
        return;
    frame_add(&out, body, strlen(body));
    /* Home reads in this same loop: what does not fit is a lost connection,
     * as on a bad network.
     */
    if (send(b->fd, out.data, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
        (ssize_t) out.len)
        hang_up(b);
    buf_free(&out);
}

static void send_of(struct lease *l, enum wire_kind kind)
{
    struct wire_msg m = l->m;

    m.kind = kind;
    send_msg(l->block, &m);
}

static const char *cause_of(const struct fake *e, const struct lease *l)
{
    if (e->lose && l->number % e->lose == 0)
        return "lost";
    return l->stopped ? "signalled" : l->status ? "failed" : "none";
}

static void end(struct lease *l)
{
    struct fake *e = l->block->engine;
    struct block *b = l->block;

    if (l->state == ENDED)
        return;
    watch_remove(take(l->timer));
    l->state = ENDED;
    l->m.status = l->stopped ? -15 : l->status;
    l->m.ended_ms = clock_wall_ms();
    (void) snprintf(l->m.cause, sizeof l->m.cause, "%s", cause_of(e, l));
    send_of(l, WIRE_ENDED);
    e->ends++;
    if (e->twice && e->ends % e->twice == 0)
        send_of(l, WIRE_ENDED);
    if (e->drop && e->ends % e->drop == 0)
        hang_up(b);
}

static void on_end(struct watch *w, void *arg)
{
    struct lease *l = arg;

    (void) w;
    l->timer = NULL;
    end(l);
}

static void start(struct lease *l)
{
    if (l->state != NEW)
        return;
    l->state = RUNNING;
    l->m.started_ms = clock_wall_ms();
    l->m.pid = 1;
    send_of(l, WIRE_STARTED);
    l->timer = loop_timer(l->block->engine->loop, l->block->engine->slow_ms,
                          on_end, l);
}

static int status_of(const json_t *task)
{
    const char *run = json_get_str(task, "run", "");
    uint64_t n = 0;

    if (strncmp(run, "exit ", 5) == 0 &&
        quantity_count(run + 5, &n, NULL) == 0)
        return (int) (n & 255);
    return 0;
}

static void on_order(struct block *b, const struct wire_msg *m)
{
    struct lease *l = lease_get(b, m);

    if (!l) {
        l = lease_new(b, m);
        l->status = status_of(m->task);
    }
    if (l->state == ENDED)
        send_of(l, WIRE_ENDED);
    else if (l->state == NEW)
        send_of(l, WIRE_CLAIM);
}

static void on_stop(struct block *b, const struct wire_msg *m)
{
    struct lease *l = lease_get(b, m);

    if (!l)
        l = lease_new(b, m);
    l->stopped = true;
    end(l);
}

static void on_welcome(struct block *b)
{
    struct lease *l;
    size_t pos = 0;

    while ((l = map_next(b->leases, &pos, NULL)))
        if (l->state == ENDED)
            send_of(l, WIRE_ENDED);
}

static void on_message(struct block *b, const struct wire_msg *m)
{
    struct lease *l = lease_get(b, m);

    if (m->kind == WIRE_WELCOME)
        on_welcome(b);
    else if (m->kind == WIRE_ORDER)
        on_order(b, m);
    else if (m->kind == WIRE_STOP)
        on_stop(b, m);
    else if (m->kind == WIRE_GRANT && l && m->ok)
        start(l);
    else if ((m->kind == WIRE_GRANT && l && l->state == NEW) ||
             (m->kind == WIRE_ACK && l && l->state == ENDED))
        lease_free(l);
}

static void on_ready(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct block *b = arg;
    char data[65536];
    const char *body = NULL;
    ssize_t n = recv(fd, data, sizeof data, MSG_DONTWAIT);
    size_t len = 0;

    (void) w;
    (void) ready;
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        hang_up(b);
        return;
    }
    (void) buf_add(&b->in, data, (size_t) n);
    while (b->fd == fd && frame_next(&b->in, &body, &len, NULL) > 0) {
        struct wire_msg m;

        if (wire_read(body, len, &m, NULL) == 0) {
            buf_drop(&b->in, len + 4);
            on_message(b, &m);
            wire_clear(&m);
        } else {
            hang_up(b);
        }
    }
}

static void say_hello(struct block *b)
{
    static const char *const names[] = { "new", "running", "ended" };
    struct wire_msg m = { .kind = WIRE_HELLO, .v = WIRE_VERSION, .pid = 1 };
    struct lease *l;
    size_t pos = 0;

    (void) snprintf(m.block, sizeof m.block, "%s", b->id);
    (void) snprintf(m.token, sizeof m.token, "%s", b->token);
    m.leases = mem_array(map_count(b->leases), sizeof *m.leases);
    while ((l = map_next(b->leases, &pos, NULL))) {
        struct wire_lease *to = &m.leases[m.nleases++];

        *to = (struct wire_lease) { .key = l->m.key, .gen = l->m.gen,
                                    .epoch = l->m.epoch };
        (void) snprintf(to->state, sizeof to->state, "%s", names[l->state]);
    }
    send_msg(b, &m);
    free(m.leases);
}

static void on_dial(struct watch *w, void *arg)
{
    struct block *b = arg;
    struct sockaddr_un at = { .sun_family = AF_UNIX };

    (void) w;
    b->dial = NULL;
    (void) snprintf(at.sun_path, sizeof at.sun_path, "%s", b->engine->home);
    b->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (b->fd < 0 ||
        connect(b->fd, (struct sockaddr *) &at, sizeof at) < 0 ||
        loop_fd(b->engine->loop, b->fd, LOOP_READ, on_ready, b, &b->watch,
                NULL) < 0)
        hang_up(b);
    else
        say_hello(b);
}

/* Blocks. */

/* The n-th: one is alone, "POOL"; of many it is "POOL/POOL-N". */
static void block_id(const struct fake *e, uint64_t n, char *buf, size_t size)
{
    if (e->nodes == 1)
        (void) snprintf(buf, size, "%s", e->block);
    else
        (void) snprintf(buf, size, "%s/%s-%" PRIu64, e->block, e->block, n);
}

static json_t *block_json(const struct fake *e, const char *id)
{
    const char *slash = strchr(id, '/');
    json_t *j = json_object();

    json_put_str(j, "pool", e->pool);
    json_put_str(j, "engine", "fake");
    json_put_str(j, "block", id);
    json_put_str(j, "node", slash ? slash + 1 : id);
    json_put_u64(j, "cpus_milli", e->cpus * 1000);
    json_put_u64(j, "memory", e->cpus << 30);
    json_put_str(j, "limits", "none");
    json_put_bool(j, "simulated", true);
    json_put(j, "devices", json_deep_copy(e->devices));
    return j;
}

static void on_up(struct watch *w, void *arg)
{
    struct block *b = arg;
    autojson json_t *j = block_json(b->engine, b->id);

    (void) w;
    b->up = NULL;
    if (b->engine->away)               /* on_state asks again */
        return;
    b->engine->events->block_up(b->id, b->token, j, b->engine->arg);
    if (b->fd < 0 && !b->dial)
        b->dial = loop_timer(b->engine->loop, 0, on_dial, b);
}

static int fake_get(struct engine *base, const char *id, struct err *err)
{
    struct fake *e = (struct fake *) base;
    struct block *b = map_get(e->blocks, id);

    if (strlen(id) >= sizeof b->id)
        return err_set(err, EINVAL, "block '%s': the name is too long", id);
    if (!b) {
        b = mem_new(sizeof *b);
        *b = (struct block) { .engine = e, .fd = -1, .leases = map_new(),
                              .in = BUF_INIT(FRAME_MAX + 65540) };
        (void) snprintf(b->id, sizeof b->id, "%s", id);
        fs_random_hex(b->token, 16);
        (void) map_set(e->blocks, b->id, b);
    }
    b->given = false;
    if (!b->up)
        b->up = loop_timer(e->loop, 0, on_up, b);
    return 0;
}

static void block_free(struct block *b)
{
    struct lease *l;
    size_t pos;

    b->given = true;
    watch_remove(take(b->dial));
    watch_remove(take(b->up));
    hang_up(b);
    for (pos = 0; (l = map_next(b->leases, &pos, NULL)); pos = 0)
        lease_free(l);
    map_free(b->leases);
    (void) map_del(b->engine->blocks, b->id);
    free(b);
}

static int fake_give(struct engine *base, const char *id, struct err *err)
{
    struct block *b = map_get(((struct fake *) base)->blocks, id);

    if (!b)
        return err_set(err, ENOENT, "no block '%s'", id);
    b->given = true;                   /* gone with its connection */
    return 0;
}

static json_t *fake_find(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    json_t *list = json_array();
    const char *id;
    size_t pos = 0;

    while (map_next(e->blocks, &pos, &id))
        (void) json_array_append_new(list, json_string(id));
    return list;
}

static json_t *fake_inventory(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    json_t *nodes = json_array();
    json_t *j = json_object();
    char id[48];

    for (uint64_t n = 1; n <= e->nodes && !e->away; n++) {
        block_id(e, n, id, sizeof id);
        (void) json_array_append_new(nodes, block_json(e, id));
    }
    json_put(j, "nodes", nodes);
    return j;
}

static int fake_log(struct engine *base, const char *block,
                    const char *lease_key, uint32_t gen, uint64_t epoch,
                    uint64_t offset, void *buf, size_t size,
                    struct engine_log *ret, struct err *err)
{
    (void) base;
    (void) block;
    (void) gen;
    (void) epoch;
    (void) offset;
    (void) buf;
    (void) size;
    (void) ret;
    return err_set(err, ENOENT, "lease %s has no log: nothing ran",
                   lease_key);
}

static json_t *fake_log_list(struct engine *base)
{
    (void) base;
    return json_array();
}

static int fake_log_drop(struct engine *base, uint64_t workload,
                         struct err *err)
{
    (void) base;
    (void) workload;
    (void) err;
    return 0;
}

/* Open and close. */

static int read_lie(struct fake *e, const char *word, struct err *err)
{
    const struct {
        const char *name;
        uint64_t *to;
    } lies[] = {
        { "slow=", &e->slow_ms }, { "lose=", &e->lose },
        { "double=", &e->twice }, { "drop=", &e->drop },
        { "cpus=", &e->cpus }, { "away=", &e->away_ms },
    };

    for (size_t i = 0; i < array_size(lies); i++) {
        size_t len = strlen(lies[i].name);

        if (strncmp(word, lies[i].name, len) == 0)
            return quantity_count(word + len, lies[i].to, err);
    }
    return err_set(err, EINVAL, "'%s': no such lie; known are slow, lose, "
                   "double, drop, cpus, away", word);
}

static int read_conf(struct fake *e, const char *text, struct err *err)
{
    autofree char *copy = mem_str(text);
    char *rest = copy;
    const char *devices = strsep(&rest, ";");
    const char *word;
    int rc = devices_parse(devices, "fake", &e->devices, err);

    while (rc == 0 && (word = strsep(&rest, ";")))
        rc = read_lie(e, word, err);
    return rc;
}

static int read_nodes(struct fake *e, const char *text, struct err *err)
{
    int rc = quantity_count(text, &e->nodes, err);

    if (rc < 0)
        return err_prefix(err, rc, "conf: nodes");
    if (e->nodes < 1 || e->nodes > NODES_MAX)
        return err_set(err, EINVAL, "conf: nodes: from 1 to %d are possible, "
                       "not '%.20s'", NODES_MAX, text);
    return 0;
}

static int read_all(struct fake *e, const json_t *conf, struct err *err)
{
    int rc = engine_conf_keys(conf, conf_keys, err);

    if (rc == 0)
        rc = read_conf(e, json_get_str(conf, "devices", "none"), err);
    if (rc == 0)
        rc = read_nodes(e, json_get_str(conf, "nodes", "1"), err);
    return rc;
}

static int fake_check(const json_t *conf, struct err *err)
{
    struct fake e = { .cpus = 8 };
    int rc = read_all(&e, conf, err);

    json_decref(e.devices);
    return rc;
}

/* The first word about it; and once it is no longer away, the second. */
static void on_state(struct watch *w, void *arg)
{
    struct fake *e = arg;
    bool over = e->said && e->away;
    struct block *b;
    size_t pos = 0;

    (void) w;
    e->away = e->away_ms > 0 && !e->said;
    e->said = true;
    e->state = e->away ? loop_timer(e->loop, e->away_ms, on_state, e) : NULL;
    while (over && (b = map_next(e->blocks, &pos, NULL)))
        if (!b->up)
            b->up = loop_timer(e->loop, 0, on_up, b);
    e->events->state(!e->away, e->away ? "it is told to be away" : "", e->arg);
    e->events->changed(e->arg);
}

static void fake_close(struct engine *base)
{
    struct fake *e = (struct fake *) base;
    struct block *b;
    size_t pos;

    if (!e)
        return;
    watch_remove(e->state);
    free(e->block);
    for (pos = 0; (b = map_next(e->blocks, &pos, NULL)); pos = 0)
        block_free(b);
    map_free(e->blocks);
    json_decref(e->devices);
    free(e->pool);
    free(e->home);
    free(e);
}

static int fake_open(struct loop *l, const struct engine_conf *conf,
                     const struct engine_events *events, void *arg,
                     struct engine **ret, struct err *err)
{
    struct fake *e = mem_new(sizeof *e);
    int rc;

    *e = (struct fake) {
        .base.ops = &engine_fake, .loop = l, .events = events, .arg = arg,
        .pool = mem_str(conf->pool), .home = mem_str(conf->home),
        .block = mem_str(conf->block), .cpus = 8, .blocks = map_new(),
    };
    rc = read_all(e, conf->conf, err);
    if (rc < 0) {
        fake_close(&e->base);
        return rc;
    }
    e->away = e->away_ms > 0;
    e->state = loop_timer(l, 0, on_state, e);
    *ret = &e->base;
    return 0;
}

const struct engine_ops engine_fake = {
    .name = "fake",
    .grain = ENGINE_GRAIN_DEVICE,
    .own = false,
    .check = fake_check,
    .open = fake_open,
    .close = fake_close,
    .inventory = fake_inventory,
    .history = engine_no_history,
    .get = fake_get,
    .give = fake_give,
    .start = engine_no_start,
    .stop = engine_no_stop,
    .output = engine_no_output,
    .find = fake_find,
    .log = fake_log,
    .log_list = fake_log_list,
    .log_drop = fake_log_drop,
};

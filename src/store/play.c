#include "store/play.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/random.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WAIT_MS = 30000 };

static void on_durable(uint64_t seq, void *arg)
{
    struct play *p = arg;

    p->durable = seq;
    p->told++;
    if (p->then)
        p->then(p);
}

static void on_failed(const struct err *err, void *arg)
{
    struct play *p = arg;

    p->failures++;
    p->why = *err;
}

int play_open(struct play *p, struct err *err)
{
    struct store_conf conf = { .path = p->path, .vfs = p->vfs };
    int rc = loop_open(&p->loop, err);

    if (rc == 0)
        rc = store_open(&conf, &p->store, err);
    if (rc == 0) {
        p->world = world_new();
        rc = store_load(p->store, p->world, err);
    }
    if (rc == 0)
        rc = store_attach(p->store, p->loop, on_durable, on_failed, p, err);
    if (rc < 0) {
        play_close(p);
        return rc;
    }
    if (p->durable < store_durable(p->store))
        p->durable = store_durable(p->store);      /* written while closing */
    if (p->now_ms < world_time_ms(p->world))
        p->now_ms = world_time_ms(p->world);
    return 0;
}

void play_close(struct play *p)
{
    store_close(take(p->store));
    world_free(take(p->world));
    loop_close(take(p->loop));
}

int play_recover(struct play *p, struct err *err)
{
    struct world *fresh = world_new();
    int rc = store_load(p->store, fresh, err);

    if (rc < 0) {
        world_free(fresh);
        return rc;
    }
    world_free(p->world);
    p->world = fresh;
    store_resume(p->store);
    return 0;
}

uint64_t play_draw(struct play *p, uint64_t below)
{
    return random_next(&p->rng) % below;
}

static const char *tenant_of(const struct play *p, const struct event *e)
{
    const struct workload *wl = world_workload(p->world, e->workload);

    if (e->tenant[0])
        return e->tenant;
    return wl ? wl->tenant_name : NULL;
}

int play_event(struct play *p, struct event *e, struct err *err)
{
    int rc;

    e->seq = world_seq(p->world) + 1;
    e->time_ms = p->now_ms;
    if (!e->who[0])
        (void) snprintf(e->who, sizeof e->who, "weir");
    rc = world_check(p->world, e, err);
    if (rc == 0) {
        store_event(p->store, e, tenant_of(p, e));
        rc = world_apply(p->world, e, err);
    }
    event_clear(e);
    return rc;
}

int play_simple(struct play *p, enum event_type type, uint64_t workload,
                struct err *err)
{
    struct event e;

    event_init(&e, type);
    e.workload = workload;
    e.task = EVENT_ALL;
    return play_event(p, &e, err);
}

int play_tenant(struct play *p, const char *name, struct err *err)
{
    struct event e;

    event_init(&e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof e.tenant, "%s", name);
    e.data = json_pack("{s:[s], s:s, s:i}", "members", "uid:1000",
                       "max_gpus_milli", "unlimited", "weight", 1);
    return play_event(p, &e, err);
}

static int block_up(struct play *p, const char *id, const char *pool,
                    struct err *err)
{
    json_t *devices = json_array();
    struct event e;

    for (int i = 0; i < 4; i++)
        json_array_append_new(devices, json_pack("{s:s, s:I}", "model", "H100",
                                                 "memory",
                                                 (json_int_t) 80 << 30));
    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof e.block, "%s", id);
    e.data = json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:b, s:o}",
                       "pool", pool, "engine", "fake", "node", "n1",
                       "cpus_milli", 16000, "memory", (json_int_t) 64 << 30,
                       "limits", "none", "simulated", 1, "devices", devices);
    return play_event(p, &e, err);
}

int play_block(struct play *p, const char *id, struct err *err)
{
    return block_up(p, id, "local", err);
}

static json_t *task_json(struct play *p, uint32_t i)
{
    json_t *t = json_object();
    char name[16];

    (void) snprintf(name, sizeof name, "t%u", i);
    json_put_str(t, "name", name);
    json_put_str(t, "run", "python train.py --lr 0.1 --epochs 3");
    if (i > 0 && play_draw(p, 2))
        json_put(t, "needs", json_pack("[i]", (int) play_draw(p, i)));
    if (play_draw(p, 3) == 0)
        json_put_u64(t, "gpu_milli", play_draw(p, 2) ? 1000 : 250);
    if (play_draw(p, 3) == 0)
        json_put_u64(t, "retry_count", 2);
    if (play_draw(p, 5) == 0)
        json_put_u64(t, "ranks", 2);
    return t;
}

static struct spec *make_spec(struct play *p, uint32_t ntasks, struct err *err)
{
    autojson json_t *j = json_object();
    json_t *tasks = json_array();
    struct spec *spec = NULL;

    json_put_str(j, "kind", ntasks == 1 ? "job" : "pipeline");
    json_put_str(j, "name", "train");
    for (uint32_t i = 0; i < ntasks; i++)
        json_array_append_new(tasks, task_json(p, i));
    json_put(j, "tasks", tasks);
    return spec_from_json(j, &spec, err) < 0 ? NULL : spec;
}

int play_submit(struct play *p, const char *tenant, const char *key,
                uint32_t ntasks, uint64_t *ret_id, struct err *err)
{
    struct event e;
    uint64_t id = world_next_workload(p->world);
    int rc;

    event_init(&e, EVENT_SUBMITTED);
    e.workload = id;
    (void) snprintf(e.who, sizeof e.who, "uid:1000");
    (void) snprintf(e.tenant, sizeof e.tenant, "%s", tenant);
    (void) snprintf(e.key, sizeof e.key, "%s", key);
    if (key[0])
        (void) snprintf(e.hash, sizeof e.hash, "%064" PRIx64, id);
    (void) snprintf(e.user.name, sizeof e.user.name, "ada");
    e.user.uid = e.user.gid = 1000;
    e.spec = make_spec(p, ntasks, err);
    if (!e.spec)
        return -EINVAL;
    rc = play_event(p, &e, err);
    if (rc == 0 && ret_id)
        *ret_id = id;
    return rc;
}

int play_commit(struct play *p, struct err *err)
{
    struct event e;
    int rc = 0;

    while (rc == 0 && world_step(p->world, p->now_ms, &e) > 0)
        rc = play_event(p, &e, err);
    return rc < 0 ? rc : store_commit(p->store, p->world, err);
}

/* A lease that has not ended, each as likely as any other. */
static struct lease *any_lease(struct play *p)
{
    struct lease *found = NULL;
    struct workload *wl;
    uint64_t seen = 0;

    for (size_t pos = 0; (wl = world_next(p->world, &pos));)
        for (uint32_t t = 0; t < wl->spec->ntasks; t++)
            for (uint32_t r = 0; wl->tasks[t].leases &&
                 r < wl->tasks[t].spec->ranks; r++) {
                struct lease *l = &wl->tasks[t].leases[r];

                if (l->state != LEASE_ENDED && l->state != LEASE_LOST &&
                    play_draw(p, ++seen) == 0)
                    found = l;
            }
    return found;
}

bool play_runner(struct play *p, struct err *err)
{
    struct lease *l = any_lease(p);
    struct event e;

    if (!l)
        return false;
    event_init(&e, l->state == LEASE_PLANNED && play_draw(p, 8) ?
               EVENT_CLAIMED : EVENT_LEASE_ENDED);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.rank = l->rank;
    e.gen = l->gen;
    (void) snprintf(e.who, sizeof e.who, "runner:local");
    if (e.type == EVENT_LEASE_ENDED) {
        if (play_draw(p, 4) == 0) {
            e.cause = SPEC_CAUSE_FAILED;
            e.status = 1;
        }
        e.started_ms = l->claimed_ms;
        e.ended_ms = p->now_ms;
        e.cpu_ms = play_draw(p, 1000);
        e.rss_bytes = play_draw(p, 1 << 30);
    }
    return play_event(p, &e, err) == 0;
}

static uint64_t any_workload(struct play *p)
{
    uint64_t next = world_next_workload(p->world);

    return next > 20 ? next - 1 - play_draw(p, 20) : 1 + play_draw(p, next);
}

static void random_token(struct play *p)
{
    struct event e;

    event_init(&e, play_draw(p, 3) ? EVENT_TOKEN_CREATED :
               EVENT_TOKEN_REVOKED);
    (void) snprintf(e.token, sizeof e.token, "k%" PRIu64, play_draw(p, 12));
    if (e.type == EVENT_TOKEN_CREATED) {
        (void) snprintf(e.tenant, sizeof e.tenant, "lab");
        e.data = json_pack("{s:s, s:s, s:s, s:i}", "name", "ci", "role",
                           "user", "hash", "00ff", "expires_ms", 0);
    }
    (void) play_event(p, &e, NULL);
}

static void random_operator(struct play *p)
{
    static const enum event_type types[] = {
        EVENT_NODE_DRAINED, EVENT_NODE_UNDRAINED, EVENT_BLOCK_LOST,
        EVENT_DENIED, EVENT_STARTED, EVENT_POOL_SEEN,
    };
    struct event e;

    event_init(&e, types[play_draw(p, array_size(types))]);
    (void) snprintf(e.node, sizeof e.node, "n1");
    (void) snprintf(e.block, sizeof e.block, "b1");
    if (e.type == EVENT_DENIED || e.type == EVENT_STARTED ||
        e.type == EVENT_POOL_SEEN)
        e.data = json_pack("{s:s, s:s}", "what", "abort w1", "from", "uid:7");
    (void) play_event(p, &e, NULL);
}

/* A pool with one block; the other blocks are in none that was added. */
static void random_pool(struct play *p)
{
    static const enum event_type types[] = {
        EVENT_POOL_SET, EVENT_POOL_SET, EVENT_POOL_REMOVED, EVENT_POOL_DRAINED,
        EVENT_POOL_UNDRAINED, EVENT_BLOCK_UP, EVENT_BLOCK_UP, EVENT_BLOCK_SHUT,
    };
    struct event e;

    event_init(&e, types[play_draw(p, array_size(types))]);
    if (e.type == EVENT_BLOCK_UP) {
        if (world_pool(p->world, "side"))
            (void) block_up(p, "side", "side", NULL);
        return;
    }
    if (e.type == EVENT_BLOCK_SHUT)
        (void) snprintf(e.block, sizeof e.block, "%s",
                        play_draw(p, 2) ? "side" : "b1");
    else
        e.data = json_pack("{s:s, s:s, s:{s:s}}", "name", "side", "engine",
                           "fake", "conf", "devices", "fake:4xH100");
    (void) play_event(p, &e, NULL);
}

static void random_user(struct play *p)
{
    static const enum event_type types[] = {
        EVENT_PAUSED, EVENT_UNPAUSED, EVENT_UNPAUSED, EVENT_ABORTING,
    };

    (void) play_simple(p, types[play_draw(p, array_size(types))],
                       any_workload(p), NULL);
}

static int random_submit(struct play *p, struct err *err)
{
    char key[32] = "";

    if (play_draw(p, 3) == 0)
        (void) snprintf(key, sizeof key, "key-%" PRIu64, p->rng);
    return play_submit(p, play_draw(p, 2) ? "lab" : "team", key,
                       1 + (uint32_t) play_draw(p, 5), NULL, err);
}

int play_random(struct play *p, struct err *err)
{
    uint64_t dice = play_draw(p, 100);
    int rc = 0;

    p->now_ms += play_draw(p, 500);
    if (!world_tenant(p->world, "lab"))
        rc = play_tenant(p, "lab", err);
    if (rc == 0 && !world_tenant(p->world, "team"))
        rc = play_tenant(p, "team", err);
    if (rc < 0)
        return rc;
    if (dice < 65 && play_runner(p, NULL))
        dice = 100;
    if (dice < 75 && world_waiting(p->world) < 50)
        rc = random_submit(p, err);
    else if (dice < 85)
        random_user(p);
    else if (dice < 90)
        (void) play_block(p, "b1", NULL);
    else if (dice < 94)
        random_operator(p);
    else if (dice < 97)
        random_pool(p);
    else if (dice < 100)
        random_token(p);
    return rc < 0 ? rc : play_commit(p, err);
}

int play_wait(struct play *p, struct err *err)
{
    uint64_t until = clock_mono_ms() + WAIT_MS, seq = world_seq(p->world);
    unsigned failures = p->failures;
    int rc = 0;

    while (rc == 0 && p->durable < seq && p->failures == failures) {
        if (clock_mono_ms() > until)
            return err_set(err, ETIMEDOUT, "event %" PRIu64 " does not become "
                           "durable", seq);
        rc = loop_turn(p->loop, 100, err);
    }
    if (rc == 0 && p->failures != failures)
        return err_set(err, EIO, "%s", p->why.text);
    return rc < 0 ? rc : 0;
}

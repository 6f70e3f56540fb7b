#include "api/test_service.h"

#include "api/api.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What waits for an event to be durable, or for the refusal to be told. */
struct effect {
    struct effect *next;
    uint64_t seq, workload;
    service_done_f done;
    void *arg;
    int rc;
    struct err err;
};

struct test_service {
    struct loop *loop;
    struct world *world;
    struct store *store;
    struct api *api;
    struct effect *first, **last;      /* in order of seq; refused: seq 0 */
    struct map *logs;                  /* struct buf by log_key */
    struct watch *flush, *refuse;
    struct effect *refused;
    char trouble[128];
    bool single, hold;
    uint64_t durable;
};

static void effect_done(struct effect *f)
{
    if (f->done)
        f->done(f->rc, f->seq, f->workload, &f->err, f->arg);
    free(f);
}

static void tell(struct test_service *t)
{
    while (t->first && t->first->seq <= t->durable) {
        struct effect *f = t->first;

        t->first = f->next;
        if (!t->first)
            t->last = &t->first;
        effect_done(f);
    }
    if (t->api)
        api_durable(t->api, t->durable);
}

static void on_durable(uint64_t seq, void *arg)
{
    struct test_service *t = arg;

    t->durable = seq;
    if (!t->hold)
        tell(t);
}

static void on_failed(const struct err *err, void *arg)
{
    (void) arg;
    (void) fprintf(stderr, "store: %s\n", err->text);
    abort();
}

static void on_refused(struct watch *w, void *arg)
{
    struct test_service *t = arg;

    (void) w;
    t->refuse = NULL;
    while (t->refused) {
        struct effect *f = t->refused;

        t->refused = f->next;
        effect_done(f);
    }
}

static void refuse(struct test_service *t, service_done_f done, void *arg,
                   int rc, const struct err *err)
{
    struct effect *f = mem_new(sizeof *f);

    *f = (struct effect) { .next = t->refused, .done = done, .arg = arg,
                           .rc = rc, .err = *err };
    t->refused = f;
    if (!t->refuse)
        t->refuse = loop_soon(t->loop, on_refused, t);
}

static int put(struct test_service *t, struct event *e, service_done_f done,
               void *arg, struct err *err);

static void on_flush(struct watch *w, void *arg)
{
    struct test_service *t = arg;
    struct err err = { 0 };
    struct event e;

    (void) w;
    t->flush = NULL;
    while (world_step(t->world, clock_wall_ms(), &e) > 0) {
        if (put(t, &e, NULL, NULL, &err) < 0)
            abort();
    }
    watch_remove(t->flush);
    t->flush = NULL;
    if (store_commit(t->store, t->world, &err) < 0) {
        (void) fprintf(stderr, "commit: %s\n", err.text);
        abort();
    }
}

/* Takes the event.  When it is refused nobody is told. */
static int put(struct test_service *t, struct event *e, service_done_f done,
               void *arg, struct err *err)
{
    const struct workload *wl = world_workload(t->world, e->workload);
    uint64_t now = clock_wall_ms(), last = world_time_ms(t->world);
    struct effect *f;
    int rc;

    e->seq = world_seq(t->world) + 1;
    e->time_ms = now > last ? now : last;
    if (!e->who[0])
        (void) snprintf(e->who, sizeof e->who, "weir");
    rc = world_check(t->world, e, err);
    if (rc < 0) {
        event_clear(e);
        return rc;
    }
    f = mem_new(sizeof *f);
    *f = (struct effect) { .seq = e->seq, .workload = e->workload,
                           .done = done, .arg = arg };
    *t->last = f;
    t->last = &f->next;
    store_event(t->store, e, e->tenant[0] ? e->tenant :
                wl ? wl->tenant_name : NULL);
    rc = world_apply(t->world, e, err);
    event_clear(e);
    if (!t->flush)
        t->flush = loop_soon(t->loop, on_flush, t);
    return rc;
}

static void serve_propose(struct event *e, service_done_f done,
                          void *done_arg, void *arg)
{
    struct test_service *t = arg;
    struct err err = { 0 };
    int rc;

    if (e->type == EVENT_SUBMITTED)
        e->workload = world_next_workload(t->world);
    rc = put(t, e, done, done_arg, &err);
    if (rc < 0)
        refuse(t, done, done_arg, rc, &err);
}

static const struct world *serve_world(void *arg)
{
    return ((struct test_service *) arg)->world;
}

static struct store *serve_store(void *arg)
{
    return ((struct test_service *) arg)->store;
}

static void log_key(char *key, size_t size, uint64_t workload, uint32_t task,
                    uint32_t rank, uint32_t gen)
{
    (void) snprintf(key, size, "%llu/%u/%u/%u", (unsigned long long) workload,
                    task, rank, gen);
}

static int serve_log(uint64_t workload, uint32_t task, uint32_t rank,
                     uint32_t gen, uint64_t offset, void *buf, size_t size,
                     struct service_log *ret, struct err *err, void *arg)
{
    struct test_service *t = arg;
    struct buf *b;
    char key[64];

    log_key(key, sizeof key, workload, task, rank, gen);
    b = map_get(t->logs, key);
    if (!b)
        return err_set(err, ENOENT, "no log %s", key);
    *ret = (struct service_log) { .start = offset, .end = b->len };
    if (offset < b->len) {
        ret->len = b->len - offset < size ? b->len - offset : size;
        memcpy(buf, b->data + offset, ret->len);
    }
    return 0;
}

static void serve_backup(const char *file, service_done_f done,
                         void *done_arg, void *arg)
{
    struct test_service *t = arg;
    struct err err = { 0 };
    int rc = service_backup(t->store, file, done, done_arg, &err);

    if (rc < 0)
        refuse(t, done, done_arg, rc, &err);
}

static const char *serve_trouble(void *arg)
{
    return ((struct test_service *) arg)->trouble;
}

static json_t *serve_stat(void *arg)
{
    (void) arg;
    return json_pack("{s:s}", "version", WEIR_VERSION);
}

static const json_t *serve_telemetry(const char *block, const char *uuid,
                                     void *arg)
{
    (void) block;
    (void) uuid;
    (void) arg;
    return NULL;
}

static const json_t *serve_strays(const char *block, void *arg)
{
    (void) block;
    (void) arg;
    return NULL;
}

static json_t *serve_use(const struct task *t, void *arg)
{
    (void) t;
    (void) arg;
    return NULL;
}

static int serve_pool_check(const char *name, const char *engine,
                            const json_t *conf, bool observe, struct err *err,
                            void *arg)
{
    (void) conf;
    (void) observe;
    (void) arg;
    if (strcmp(name, "local") == 0)
        return err_set(err, EEXIST, "the pool 'local' is taken");
    if (strcmp(engine, "fake") != 0)
        return err_set(err, EINVAL, "engine: there is no '%s'", engine);
    return 0;
}

static bool serve_pool(const char *name, struct service_pool *ret, void *arg)
{
    (void) arg;
    *ret = (struct service_pool) {
        .engine = "fake", .own = true, .known = true, .reachable = true,
        .why = "",
    };
    return strcmp(name, "local") == 0;
}

static json_t *serve_pool_seen(const char *name, void *arg)
{
    (void) name;
    (void) arg;
    return NULL;
}

static json_t *serve_pool_rows(const char *name, bool jobs, void *arg)
{
    (void) name;
    (void) jobs;
    (void) arg;
    return json_array();
}

static json_t *serve_pool_totals(const char *name, void *arg)
{
    (void) name;
    (void) arg;
    return NULL;
}

static bool serve_single_user(void *arg)
{
    return ((struct test_service *) arg)->single;
}

struct service test_service_get(struct test_service *t)
{
    static const struct service_ops ops = {
        .world = serve_world, .store = serve_store, .propose = serve_propose,
        .log = serve_log, .backup = serve_backup, .trouble = serve_trouble,
        .stat = serve_stat, .single_user = serve_single_user,
        .pool_check = serve_pool_check, .pool = serve_pool,
        .pool_seen = serve_pool_seen, .pool_rows = serve_pool_rows,
        .pool_totals = serve_pool_totals,
        .telemetry = serve_telemetry, .strays = serve_strays, .use = serve_use,
    };

    return (struct service) { .ops = &ops, .arg = t };
}

void test_service_attach(struct test_service *t, struct api *a)
{
    t->api = a;
}

/* The script. */

static const struct task *find_task(const struct test_service *t,
                                    uint64_t workload, uint32_t task,
                                    struct err *err)
{
    const struct workload *wl = world_workload(t->world, workload);

    if (wl && task < wl->spec->ntasks)
        return &wl->tasks[task];
    (void) err_set(err, ENOENT, "no live task %llu/%u",
                   (unsigned long long) workload, task);
    return NULL;
}

static int do_lease(struct test_service *t, enum event_type type,
                    uint64_t workload, uint32_t task, uint32_t rank, int status,
                    struct err *err)
{
    const struct task *k = find_task(t, workload, task, err);
    struct event e;

    if (!k)
        return -ENOENT;
    event_init(&e, type);
    e.workload = workload;
    e.task = task;
    e.rank = rank;
    e.gen = k->gen;
    if (type == EVENT_LEASE_ENDED) {
        e.status = status;
        e.cause = status ? SPEC_CAUSE_FAILED : SPEC_CAUSE_NONE;
        e.ended_ms = clock_wall_ms();
        e.started_ms = k->leases ? k->leases[rank].claimed_ms : e.ended_ms;
    }
    return put(t, &e, NULL, NULL, err);
}

static int do_progress(struct test_service *t, uint64_t workload,
                       uint32_t task, const char *said, struct err *err)
{
    const struct task *k = find_task(t, workload, task, err);
    struct event e;
    int rc;

    if (!k)
        return -ENOENT;
    event_init(&e, EVENT_PROGRESS);
    e.workload = workload;
    e.task = task;
    e.gen = k->gen;
    rc = json_read(said, strlen(said), 65536, &e.data, err);
    return rc < 0 ? rc : put(t, &e, NULL, NULL, err);
}

static int do_log(struct test_service *t, uint64_t workload, uint32_t task,
                  uint32_t rank, const char *text, struct err *err)
{
    const struct task *k = find_task(t, workload, task, err);
    struct buf *b;
    char key[64];

    if (!k)
        return -ENOENT;
    log_key(key, sizeof key, workload, task, rank, k->gen);
    b = map_get(t->logs, key);
    if (!b) {
        b = mem_new(sizeof *b);
        b->max = 64 * 1024 * 1024;
        (void) map_set(t->logs, key, b);
    }
    (void) buf_printf(b, "%s\n", text);
    return 0;
}

static int do_forget(struct test_service *t, uint64_t workload,
                     uint32_t task, uint32_t rank)
{
    for (unsigned gen = 0; gen < 8; gen++) {
        struct buf *b;
        char key[64];

        log_key(key, sizeof key, workload, task, rank, gen);
        b = map_del(t->logs, key);
        if (b)
            buf_free(b);
        free(b);
    }
    return 0;
}

static int do_audit(struct test_service *t, int n, struct err *err)
{
    int rc = 0;

    for (int i = 0; i < n && rc == 0; i++) {
        struct event e;

        event_init(&e, EVENT_DENIED);
        e.data = json_pack("{s:i}", "number", i);
        rc = put(t, &e, NULL, NULL, err);
    }
    return rc;
}

static int do_restored(struct test_service *t, struct err *err)
{
    struct event e;

    event_init(&e, EVENT_RESTORED);
    e.epoch = world_epoch(t->world) + 1;
    return put(t, &e, NULL, NULL, err);
}

static int do_flag(struct test_service *t, const char *line, bool value)
{
    if (line[0] == 's') {
        t->single = value;
        return 0;
    }
    t->hold = value;
    if (!t->hold)
        tell(t);
    return 0;
}

/* The numbers after the word; where they end. */
static const char *read_numbers(const char *s, uint64_t *ret, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char *end;

        ret[i] = strtoull(s, &end, 10);
        s = end;
    }
    return s;
}

static bool is_word(const char *line, const char *word)
{
    size_t len = strlen(word);

    return strncmp(line, word, len) == 0 && strchr(" ", line[len]);
}

/* The lines about one lease. */
static int do_one(struct test_service *t, const char *line, struct err *err)
{
    uint64_t n[3];
    const char *rest = read_numbers(line + strcspn(line, " "), n, 3);
    uint32_t task = (uint32_t) n[1], rank = (uint32_t) n[2];

    if (is_word(line, "claim"))
        return do_lease(t, EVENT_CLAIMED, n[0], task, rank, 0, err);
    if (is_word(line, "end"))
        return do_lease(t, EVENT_LEASE_ENDED, n[0], task, rank,
                        (int) strtol(rest, NULL, 10), err);
    if (is_word(line, "progress"))
        return do_progress(t, n[0], task, *rest ? rest + 1 : "{}", err);
    if (is_word(line, "log"))
        return do_log(t, n[0], task, rank, *rest ? rest + 1 : "", err);
    if (is_word(line, "forget"))
        return do_forget(t, n[0], task, rank);
    return err_set(err, EINVAL, "what is '%s'?", line);
}

int test_service_do(struct test_service *t, const char *line, struct err *err)
{
    const char *rest = line + strcspn(line, " ");
    uint64_t n = 0;

    (void) read_numbers(rest, &n, 1);
    if (is_word(line, "trouble")) {
        (void) snprintf(t->trouble, sizeof t->trouble, "%s",
                        *rest ? rest + 1 : "");
        return 0;
    }
    if (is_word(line, "single") || is_word(line, "hold"))
        return do_flag(t, line, n != 0);
    if (is_word(line, "audit"))
        return do_audit(t, (int) n, err);
    if (is_word(line, "restored"))
        return do_restored(t, err);
    return do_one(t, line, err);
}

/* Open and close. */

static int begin(struct test_service *t, struct err *err)
{
    struct event e;
    char member[32];
    int rc;

    event_init(&e, EVENT_TENANT_SET);
    (void) snprintf(e.tenant, sizeof e.tenant, "default");
    (void) snprintf(member, sizeof member, "uid:%u", (unsigned) geteuid());
    e.data = json_pack("{s:[s]}", "members", member);
    rc = put(t, &e, NULL, NULL, err);
    if (rc)
        return rc;
    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof e.block, "local");
    e.data = json_pack("{s:s, s:s, s:s, s:i, s:I, s:s, s:b, s:[{s:s, s:I}, "
                       "{s:s, s:I}, {s:s, s:I}, {s:s, s:I}]}",
                       "pool", "local", "engine", "fake", "node", "box",
                       "cpus_milli", 16000, "memory", (json_int_t) 1 << 36,
                       "limits", "none", "simulated", 1, "devices",
                       "model", "H100", "memory", (json_int_t) 1 << 36,
                       "model", "H100", "memory", (json_int_t) 1 << 36,
                       "model", "H100", "memory", (json_int_t) 1 << 36,
                       "model", "H100", "memory", (json_int_t) 1 << 36);
    return put(t, &e, NULL, NULL, err);
}

int test_service_open(struct loop *l, const char *folder,
                      struct test_service **ret, struct err *err)
{
    struct test_service *t = mem_new(sizeof *t);
    autofree char *path = mem_printf("%s/store.db", folder);
    struct store_conf conf = { .path = path };
    int rc;

    t->loop = l;
    t->last = &t->first;
    t->world = world_new();
    t->logs = map_new();
    rc = store_open(&conf, &t->store, err);
    if (!rc)
        rc = store_load(t->store, t->world, err);
    if (!rc)
        rc = store_attach(t->store, l, on_durable, on_failed, t, err);
    if (!rc && world_seq(t->world) == 0)
        rc = begin(t, err);
    if (rc) {
        test_service_close(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void test_service_close(struct test_service *t)
{
    struct buf *b;
    size_t pos = 0;

    if (!t)
        return;
    watch_remove(t->flush);
    watch_remove(t->refuse);
    store_close(t->store);
    while (t->first) {
        struct effect *f = t->first;

        t->first = f->next;
        f->rc = -ESHUTDOWN;
        effect_done(f);
    }
    on_refused(NULL, t);
    while ((b = map_next(t->logs, &pos, NULL))) {
        buf_free(b);
        free(b);
    }
    map_free(t->logs);
    world_free(t->world);
    free(t);
}

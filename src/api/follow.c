#include "api/follow.h"

#include "api/api_int.h"
#include "api/handlers.h"
#include "base/json.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

enum { POLL_MS = 100, WAKES = 256, CHECK_TICKS = 50 };

struct follower {
    struct followers *all;
    struct follower *next, *prev;
    struct http_stream *stream;
    struct who who;
    uint64_t workload;
    uint32_t task, rank, gen;          /* gen 0: the first attempt to come */
    uint64_t offset, end;              /* end: where to stop */
    bool follow;
};

struct followers {
    struct api *api;
    struct follower *list, *turn;      /* turn: who is next; NULL: the first */
    unsigned n;
    struct watch *timer;
    unsigned ticks;
};

struct followers *followers_new(struct api *a)
{
    struct followers *fs = mem_new(sizeof *fs);

    fs->api = a;
    return fs;
}

void followers_free(struct followers *fs)
{
    if (!fs)
        return;
    assert(!fs->list);
    watch_remove(fs->timer);
    free(fs);
}

/* Will nothing more be written to it? */
static bool is_over(const struct api *a, const struct follower *f)
{
    const struct workload *wl = world_workload(api_world(a), f->workload);
    const struct task *t = wl ? &wl->tasks[f->task] : NULL;
    enum lease_state state;

    if (!t || t->state == TASK_ENDED)
        return true;
    if (f->gen == 0)
        return false;
    if (t->gen != f->gen || !t->leases)
        return true;
    state = t->leases[f->rank].state;
    return state == LEASE_ENDED || state == LEASE_LOST;
}

/* The attempt it waits for may have come. */
static void find_attempt(const struct api *a, struct follower *f)
{
    const struct workload *wl = world_workload(api_world(a), f->workload);

    if (f->gen == 0 && wl)
        f->gen = wl->tasks[f->task].gen;
}

static int log_read(const struct api *a, const struct follower *f, char *buf,
                    size_t max, struct service_log *ret, struct err *err)
{
    return a->ops->log(f->workload, f->task, f->rank, f->gen, f->offset, buf,
                       max, ret, err, a->arg);
}

static ssize_t pull(char *buf, size_t max, void *arg)
{
    struct follower *f = arg;
    const struct api *a = f->all->api;
    struct service_log got = { 0 };
    bool over;
    int rc;

    find_attempt(a, f);
    over = is_over(a, f);              /* before reading: what was written
                                          until then is read */
    if (f->offset >= f->end)
        return -1;
    if (f->gen == 0)
        return over ? -1 : 0;
    if (max > f->end - f->offset)
        max = f->end - f->offset;
    rc = log_read(a, f, buf, max, &got, NULL);
    if (rc == -ENOENT && !over)
        return f->follow ? 0 : -1;
    if (rc < 0)
        return -1;
    if (got.len) {
        f->offset = got.start + got.len;
        return (ssize_t) got.len;
    }
    return over || !f->follow ? -1 : 0;
}

static void gone(void *arg)
{
    struct follower *f = arg;

    if (f->all->turn == f)
        f->all->turn = f->next;
    f->all->n--;
    list_unlink(f->all->list, f);
    free(f);
}

static void on_timer(struct watch *w, void *arg)
{
    struct followers *fs = arg;
    bool check = ++fs->ticks % CHECK_TICKS == 0;
    unsigned left = fs->n < WAKES ? fs->n : WAKES;

    (void) w;
    fs->timer = NULL;
    for (; left; left--) {
        struct follower *f = fs->turn ? fs->turn : fs->list;

        fs->turn = f->next;
        if (check && !auth_holds(fs->api, &f->who))
            f->end = 0;                /* ends at its next pull */
        http_stream_wake(f->stream);
    }
    if (fs->list)
        fs->timer = loop_timer(fs->api->loop, POLL_MS, on_timer, fs);
}

/* The newest attempt and the ranks of an ended workload's task. */
static int ended_attempt(uint64_t index, const char *body, size_t len,
                         void *arg)
{
    autojson json_t *o = json_loadb(body, len, 0, NULL);

    (void) index;
    if (!o)
        return -EBADMSG;
    *(uint32_t *) arg = (uint32_t) json_get_u64(o, "attempt", 0);
    return 0;
}

static int newest_attempt(const struct call *c, const struct target *t,
                          uint32_t task, uint32_t *ret, struct err *err)
{
    *ret = 0;
    if (t->live) {
        *ret = t->live->tasks[task].gen;
        return 0;
    }
    return store_tasks(api_store(c->api), t->id, task, 1, ended_attempt, ret,
                       err);
}

/* Which lease is meant; false: answered. */
static bool find_lease(struct call *c, struct follower *f)
{
    autotarget struct target t = { 0 };
    uint64_t rank = call_count(c, "rank", 0), attempt;
    const struct spec_task *task;
    const struct spec *spec;
    struct err err = { 0 };
    uint32_t newest, most;
    int rc;

    if (!target_find(c, c->param[0], true, &t) ||
        !target_task(c, &t, c->param[1], &f->task))
        return false;
    spec = t.live ? t.live->spec : t.spec;
    rc = newest_attempt(c, &t, f->task, &newest, &err);
    if (rc < 0) {
        reply_rc(c, rc, &err);
        return false;
    }
    attempt = call_count(c, "attempt", newest);
    task = &spec->tasks[f->task];
    most = task->ranks_max ? task->ranks_max : task->ranks;
    if (rank >= most || attempt > newest) {
        reply_error(c, 404, "there is no rank %llu of attempt %llu",
                    (unsigned long long) rank, (unsigned long long) attempt);
        return false;
    }
    f->workload = t.id;
    f->rank = (uint32_t) rank;
    f->gen = (uint32_t) attempt;
    return true;
}

/* How much there is now; false: answered. */
static bool probe(struct call *c, const struct follower *f,
                  struct service_log *ret)
{
    bool over = is_over(c->api, f);
    struct err err = { 0 };
    char byte;
    int rc;

    if (f->gen == 0 && (over || !f->follow)) {
        reply_error(c, 404, "%s/%s: no attempt was made yet", c->param[0],
                    c->param[1]);
        return false;
    }
    rc = f->gen ? log_read(c->api, f, &byte, 1, ret, &err) : -ENOENT;
    if (rc == 0)
        return true;
    if (rc == -ENOENT) {
        /* Nothing was written: logs go with their workload. */
        *ret = (struct service_log) { .start = f->offset };
        return true;
    }
    reply_rc(c, rc, &err);
    return false;
}

static void add_number(struct call *c, const char *name, uint64_t n)
{
    char text[24];

    (void) snprintf(text, sizeof text, "%llu", (unsigned long long) n);
    http_add_header(c->req, name, text);
}

void get_log(struct call *c)
{
    struct followers *fs = c->api->followers;
    struct follower f = { .all = fs, .who = c->who,
                          .follow = call_flag(c, "follow"),
                          .offset = call_count(c, "offset", 0) };
    uint64_t limit = call_count(c, "limit", UINT64_MAX);
    struct service_log now = { 0 };
    struct follower *kept;

    if (!find_lease(c, &f) || !probe(c, &f, &now))
        return;
    f.offset = now.start;
    f.end = f.follow ? UINT64_MAX : now.end > f.offset ? now.end : f.offset;
    if (limit < f.end - f.offset)
        f.end = f.offset + limit;
    add_number(c, "Weir-Log-Start", now.start);
    add_number(c, "Weir-Log-End", now.end);
    kept = mem_dup(&f, sizeof f);
    list_push(fs->list, kept);
    fs->n++;
    if (f.follow && !fs->timer)
        fs->timer = loop_timer(fs->api->loop, POLL_MS, on_timer, fs);
    kept->stream = http_stream(c->req, 200, "text/plain; charset=utf-8",
                               pull, gone, kept);
}

#include "api/handlers.h"

#include "api/api_int.h"
#include "api/strays.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/why.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Rows are our own: one that is no JSON is a damaged store. */
static int parse_row(const char *body, size_t len, json_t **ret)
{
    *ret = json_loadb(body, len, 0, NULL);
    return *ret ? 0 : -EBADMSG;
}

/* Workloads of one tenant or of several, newest first. */
struct row {
    uint64_t id;
    json_t *body;
};

struct rows {
    struct row *items;
    size_t count;
};

static int add_workload(uint64_t id, const char *body, size_t len, void *arg)
{
    struct rows *r = arg;
    json_t *o;
    int rc = parse_row(body, len, &o);

    if (rc)
        return rc;
    r->items = mem_grow(r->items, r->count + 1, sizeof *r->items);
    r->items[r->count++] = (struct row) { .id = id, .body = o };
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    const struct row *x = a, *y = b;

    return x->id < y->id ? 1 : x->id > y->id ? -1 : 0;
}

/* As many as asked for of each tenant that they see: the newest of these are
 * the newest of all.
 */
static int read_workloads(const struct call *c,
                          struct store_workload_query *q, struct rows *ret,
                          struct err *err)
{
    const struct tenant *t;
    size_t pos = 0;
    int rc = 0;

    if (q->tenant || auth_sees_all(&c->who))
        return store_workloads(api_store(c->api), q, add_workload, ret, err);
    while (rc == 0 && (t = world_next_tenant(api_world(c->api), &pos))) {
        if (!auth_sees(c->api, &c->who, t->name))
            continue;
        q->tenant = t->name;
        rc = store_workloads(api_store(c->api), q, add_workload, ret, err);
    }
    if (ret->count)
        qsort(ret->items, ret->count, sizeof *ret->items, newest_first);
    return rc;
}

/* The first `want`; one more tells that there are more. */
static void reply_workloads(struct call *c, const struct rows *r,
                            size_t want)
{
    json_t *items = json_array(), *next = NULL;
    char id[24];

    for (size_t i = 0; i < r->count && i < want; i++)
        (void) json_array_append_new(items,
                                     show(c, json_incref(r->items[i].body)));
    if (r->count > want) {
        workload_id_print(r->items[want - 1].id, id, sizeof id);
        next = json_string(id);
    }
    reply_items(c, items, next);
}

/* Somebody who asks for a tenant that is not theirs gets an empty list, as for
 * one that is not there.
 */
void get_workloads(struct call *c)
{
    uint32_t want = (uint32_t) call_count(c, "limit", 100);
    const char *before = call_arg(c, "before");
    const char *tenant = call_arg(c, "tenant");
    struct store_workload_query q = {
        .state = call_arg(c, "state"), .limit = want + 1,
        .tenant = tenant ? tenant : auth_single_tenant(c->api, &c->who),
    };
    struct rows r = { 0 };
    struct err err = { 0 };
    int rc = 0;

    if (before)
        (void) workload_id_parse(before, &q.before, NULL);
    if (!tenant || auth_sees(c->api, &c->who, tenant))
        rc = read_workloads(c, &q, &r, &err);
    else if (world_tenant(api_world(c->api), tenant))
        call_denied(c, 200);
    if (rc < 0)
        reply_rc(c, rc, &err);
    else
        reply_workloads(c, &r, want);
    for (size_t i = 0; i < r.count; i++)
        json_decref(r.items[i].body);
    free(r.items);
}

void get_workload(struct call *c)
{
    autotarget struct target t = { 0 };

    if (target_find(c, c->param[0], false, &t))
        reply_json(c, 200, show(c, target_view(&t)));
}

void get_spec(struct call *c)
{
    autotarget struct target t = { 0 };

    if (target_find(c, c->param[0], true, &t))
        reply_json(c, 200, spec_to_json(t.live ? t.live->spec : t.spec));
}

/* A page of tasks. */
struct page {
    struct call *call;
    json_t *items;
    uint32_t want;
    uint64_t last;                     /* index of the last one */
};

enum { PAGE_FULL = 1 };

static int add_task(uint64_t index, const char *body, size_t len, void *arg)
{
    struct page *p = arg;
    json_t *o;
    int rc;

    if (json_array_size(p->items) == p->want)
        return PAGE_FULL;
    rc = parse_row(body, len, &o);
    if (rc)
        return rc;
    p->last = index;
    (void) json_array_append_new(p->items, show(p->call, o));
    return 0;
}

static void live_tasks(struct call *c, const struct workload *wl,
                       uint64_t from, uint32_t want)
{
    json_t *items = json_array();
    uint64_t i = from;

    for (; i < wl->spec->ntasks && i - from < want; i++)
        (void) json_array_append_new(items, show(c, view_task(&wl->tasks[i])));
    reply_items(c, items, i < wl->spec->ntasks ? json_integer((json_int_t) i) :
                NULL);
}

void get_tasks(struct call *c)
{
    autotarget struct target t = { 0 };
    struct page p = { .call = c,
                      .want = (uint32_t) call_count(c, "limit", 1000) };
    uint64_t from = call_count(c, "from", 0);
    struct err err = { 0 };
    int rc;

    if (!target_find(c, c->param[0], false, &t))
        return;
    if (t.live) {
        live_tasks(c, t.live, from, p.want);
        return;
    }
    p.items = json_array();
    rc = store_tasks(api_store(c->api), t.id, (uint32_t) from, p.want + 1,
                     add_task, &p, &err);
    if (rc < 0) {
        json_decref(p.items);
        reply_rc(c, rc, &err);
        return;
    }
    reply_items(c, p.items, rc == PAGE_FULL ?
                json_integer((json_int_t) p.last + 1) : NULL);
}

static json_t *ended_why(const json_t *task)
{
    const char *reason = json_get_str(task, "reason", "");
    struct why y = { .code = WHY_ENDED };

    (void) snprintf(y.text, sizeof y.text, "it has ended: %s%s%s",
                    json_get_str(task, "outcome", "none"), *reason ? ": " : "",
                    reason);
    return why_json(&y);
}

static json_t *live_task(const struct call *c, const struct task *t)
{
    json_t *o = view_task(t), *use = c->api->ops->use(t, c->api->arg);
    struct why y;

    why_task(api_world(c->api), t, api_now(c->api), &y);
    json_put(o, "why", why_json(&y));
    if (use)
        json_put(o, "use", use);
    put_task_strays(c, t, o);
    return o;
}

void get_task(struct call *c)
{
    autotarget struct target t = { 0 };
    struct page p = { .call = c, .want = 1 };
    struct err err = { 0 };
    uint32_t index;
    json_t *o;
    int rc;

    if (!target_find(c, c->param[0], true, &t) ||
        !target_task(c, &t, c->param[1], &index))
        return;
    if (t.live) {
        reply_json(c, 200, show(c, live_task(c, &t.live->tasks[index])));
        return;
    }
    p.items = json_array();
    rc = store_tasks(api_store(c->api), t.id, index, 1, add_task, &p, &err);
    if (rc < 0 || json_array_size(p.items) == 0) {
        json_decref(p.items);
        reply_rc(c, rc < 0 ? rc : -EBADMSG, &err);
        return;
    }
    o = json_incref(json_array_get(p.items, 0));
    json_decref(p.items);
    if (!call_arg(c, "fields") || strstr(call_arg(c, "fields"), "why"))
        json_put(o, "why", ended_why(o));
    reply_json(c, 200, o);
}

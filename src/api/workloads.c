#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/why.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A reply's list, and the first thing that went wrong while it was made. */
struct page {
    struct call *call;
    json_t *items;
    uint32_t want, seen;
    uint64_t last;                     /* id or index of the last one seen */
};

/* Rows are our own: one that is no JSON is a damaged store. */
static int parse_row(const char *body, size_t len, json_t **ret)
{
    *ret = json_loadb(body, len, 0, NULL);
    return *ret ? 0 : -EBADMSG;
}

enum { PAGE_FULL = 1, SCAN_MAX = 20000 };

static int add_workload(uint64_t id, const char *body, size_t len, void *arg)
{
    struct page *p = arg;
    struct call *c = p->call;
    json_t *o;
    int rc;

    if (json_array_size(p->items) == p->want)
        return PAGE_FULL;
    rc = parse_row(body, len, &o);
    if (rc)
        return rc;
    p->last = id;
    p->seen++;
    if (auth_sees(c->api, &c->who, json_get_str(o, "tenant", NULL)))
        (void) json_array_append_new(p->items, show(c, o));
    else
        json_decref(o);
    return 0;
}

static void reply_page(struct call *c, json_t *items, json_t *next)
{
    json_t *o = json_object();

    json_put(o, "items", items);
    if (next)
        json_put(o, "next", next);
    reply_json(c, 200, o);
}

/* Somebody who asks for a tenant that is not theirs gets an empty list, as for
 * one that is not there.
 */
void get_workloads(struct call *c)
{
    struct page p = { .call = c, .items = json_array(),
                      .want = (uint32_t) call_count(c, "limit", 100) };
    const char *before = call_arg(c, "before");
    const char *tenant = call_arg(c, "tenant");
    struct store_workload_query q = {
        .state = call_arg(c, "state"),
        .tenant = tenant ? tenant : auth_single_tenant(c->api, &c->who),
    };
    struct err err = { 0 };
    char id[24];
    int rc;

    if (before)
        (void) workload_id_parse(before, &q.before, NULL);
    if (tenant && !auth_sees(c->api, &c->who, tenant)) {
        if (world_tenant(api_world(c->api), tenant))
            call_denied(c, 200);
        reply_page(c, p.items, NULL);
        return;
    }
    /* One more than wanted tells whether there are more; with tenants to be
     * passed over, as many as it takes.
     */
    q.limit = q.tenant || auth_sees_all(&c->who) ? p.want + 1 : SCAN_MAX;
    rc = store_workloads(api_store(c->api), &q, add_workload, &p, &err);
    if (rc < 0) {
        json_decref(p.items);
        reply_rc(c, rc, &err);
        return;
    }
    workload_id_print(p.last, id, sizeof id);
    reply_page(c, p.items, rc == PAGE_FULL || p.seen == SCAN_MAX ?
               json_string(id) : NULL);
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
    reply_page(c, items, i < wl->spec->ntasks ? json_integer((json_int_t) i) :
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
    reply_page(c, p.items, rc == PAGE_FULL ?
               json_integer((json_int_t) p.last + 1) : NULL);
}

static json_t *ended_why(const json_t *task)
{
    struct why y = { .code = WHY_ENDED };

    (void) snprintf(y.text, sizeof y.text, "it has ended: %s",
                    json_get_str(task, "outcome", "none"));
    return why_json(&y);
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
        struct why y;

        why_task(api_world(c->api), &t.live->tasks[index], api_now(c->api),
                 &y);
        o = view_task(&t.live->tasks[index]);
        json_put(o, "why", why_json(&y));
        reply_json(c, 200, show(c, o));
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

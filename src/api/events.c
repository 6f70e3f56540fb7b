#include "api/handlers.h"

#include "api/api_int.h"
#include "api/event_text.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/store.h"

#include <errno.h>
#include <string.h>

char *event_text(const struct store_event *e)
{
    autojson json_t *o = NULL;

    if (strcmp(e->type, event_type_name(EVENT_TOKEN_CREATED)) != 0)
        return mem_strn(e->body, e->len);
    o = json_loadb(e->body, e->len, 0, NULL);
    (void) json_object_del(json_object_get(o, "data"), "hash");
    return o ? json_text(o) : mem_str("{}");
}

/* The journal, page by page. */
enum { PAGE_BYTES = 8 * 1024 * 1024, SCAN_MAX = 10000, PAGE_FULL = 1 };

struct page {
    struct call *call;
    struct buf out;
    uint32_t want, count, seen;
    uint64_t last;
};

static int add(const struct store_event *e, void *arg)
{
    struct page *p = arg;
    autofree char *text = NULL;

    if (p->count == p->want || p->out.len > PAGE_BYTES)
        return PAGE_FULL;
    p->last = e->seq;
    p->seen++;
    if (!auth_sees(p->call->api, &p->call->who, e->tenant))
        return 0;
    text = event_text(e);
    if (p->count++)
        (void) buf_char(&p->out, ',');
    (void) buf_str(&p->out, text);
    return p->out.over ? -EMSGSIZE : 0;
}

bool since_read(struct call *c, const char *since, uint64_t *ret_seq)
{
    uint64_t epoch, seq, first = store_first_event(api_store(c->api));
    struct err err = { 0 };

    if (cursor_parse(since, &epoch, &seq, &err) < 0)
        reply_error(c, 400, "%s", err.text);
    else if (epoch != world_epoch(api_world(c->api)))
        reply_error(c, 410, "since: epoch %llu is over; this is epoch %llu: "
                    "read the state anew", (unsigned long long) epoch,
                    (unsigned long long) world_epoch(api_world(c->api)));
    else if (seq + 1 < first && seq > 0)
        reply_error(c, 410, "since: events before %llu are gone: read the "
                    "state anew", (unsigned long long) first);
    else if (seq > world_seq(api_world(c->api)))
        reply_error(c, 410, "since: there is no event %llu: this is another "
                    "history; read the state anew", (unsigned long long) seq);
    else {
        *ret_seq = seq;
        return true;
    }
    return false;
}

bool workload_arg_read(struct call *c, uint64_t *ret)
{
    const char *id = call_arg(c, "workload");
    autotarget struct target t = { 0 };

    *ret = 0;
    if (!id)
        return true;
    if (!target_find(c, id, false, &t))
        return false;
    *ret = t.id;
    return true;
}

void get_events(struct call *c)
{
    struct page p = { .call = c, .out = BUF_INIT(2 * PAGE_BYTES),
                      .want = (uint32_t) call_count(c, "limit", 100) };
    struct store_event_query q = {
        .limit = SCAN_MAX, .type = call_arg(c, "type"),
        .tenant = auth_single_tenant(c->api, &c->who),
    };
    const char *since = call_arg(c, "since");
    struct err err = { 0 };
    size_t len;
    int rc;

    if ((since && !since_read(c, since, &q.after)) ||
        !workload_arg_read(c, &q.workload))
        return;
    (void) buf_str(&p.out, "{\"items\":[");
    rc = store_events(api_store(c->api), &q, add, &p, &err);
    if (rc < 0) {
        buf_free(&p.out);
        reply_rc(c, rc, &err);
        return;
    }
    (void) buf_char(&p.out, ']');
    if (rc == PAGE_FULL || p.seen == SCAN_MAX) {
        char next[48];

        cursor_print(world_epoch(api_world(c->api)), p.last, next,
                     sizeof next);
        (void) buf_printf(&p.out, ",\"next\":\"%s\"", next);
    }
    (void) buf_char(&p.out, '}');
    len = p.out.len;
    http_reply(c->req, 200, "application/json", buf_take(&p.out), len);
}

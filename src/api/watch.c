#include "api/watch.h"

#include "api/api_int.h"
#include "api/event_text.h"
#include "api/handlers.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/mem.h"
#include "core/world.h"
#include "store/store.h"

#include <assert.h>
#include <string.h>

/* The ring holds every event with ring_from < seq <= read_seq.
 *
 * A turn: read what is new into the ring, then go round the watchers from
 * where the last turn stopped, and wake those for whom there is something.
 * Waking is cheap; what costs is that each then pulls and a system call sends
 * it, so their number is what is bounded.  Between turns there is a pause: who
 * was just answered, and has to run on the same machine, gets to do so.
 */
enum {
    RING_MAX = 8192,                   /* events */
    RING_BYTES = 32 * 1024 * 1024,
    READ_MAX = 512,                    /* events read in a turn */
    WAKES = 256,                       /* watchers woken in a turn */
    LOOKS = 2048,                      /* and looked at */
    PAUSE_MS = 3,                      /* to the next turn, if there is one */
    PAGES = 4,                         /* of the store read for laggards */
    PAGE_EVENTS = 256,
    PAGE_BYTES = 65536,
    BEAT_MS = 15000,                   /* without a word: a comment is sent */
    TICK_MS = 1000,
};

struct entry {
    unsigned refs;
    uint64_t seq, workload;
    char *tenant;                      /* NULL: operators only */
    size_t len;
    char *text;                        /* as it is sent */
};

struct watcher {
    struct watchers *all;
    struct watcher *next, *prev;
    struct http_stream *stream;
    struct who who;
    uint64_t workload;                 /* 0: all */
    uint64_t cursor;                   /* the last event sent or passed over */
    struct entry *entry;               /* being sent, from `at` on */
    size_t at;
    struct buf page;                   /* of a laggard */
    uint64_t sent_ms;
    bool beat;                         /* a comment is due */
};

struct watchers {
    struct api *api;
    struct entry *ring[RING_MAX];
    size_t first, count, bytes;
    uint64_t ring_from, read_seq, durable;
    struct watcher *list, *turn;       /* turn: who is next; NULL: the first */
    unsigned n, left;                  /* left: still to be looked at */
    unsigned pages;
    struct watch *soon, *tick;
};

struct watchers *watchers_new(struct api *a)
{
    struct watchers *ws = mem_new(sizeof *ws);

    ws->api = a;
    return ws;
}

unsigned watchers_count(const struct watchers *ws)
{
    return ws->n;
}

/* The ring. */

static struct entry *slot(const struct watchers *ws, size_t i)
{
    return ws->ring[(ws->first + i) % RING_MAX];
}

static void entry_unref(struct entry *e)
{
    if (!e || --e->refs)
        return;
    free(e->tenant);
    free(e->text);
    free(e);
}

static void ring_drop(struct watchers *ws)
{
    struct entry *e = slot(ws, 0);

    ws->ring_from = e->seq;
    ws->bytes -= e->len;
    ws->first = (ws->first + 1) % RING_MAX;
    ws->count--;
    entry_unref(e);
}

static char *render(const struct watchers *ws, const struct store_event *e,
                    size_t *ret_len)
{
    autobuf struct buf b = BUF_INIT(64 * 1024 * 1024);
    autofree char *text = event_text(e);
    char id[48];

    cursor_print(world_epoch(api_world(ws->api)), e->seq, id, sizeof id);
    (void) buf_printf(&b, "id: %s\nevent: %s\ndata: ", id, e->type);
    (void) buf_str(&b, text);
    (void) buf_str(&b, "\n\n");
    *ret_len = b.len;
    return buf_take(&b);
}

static int ring_add(const struct store_event *se, void *arg)
{
    struct watchers *ws = arg;
    struct entry *e = mem_new(sizeof *e);

    if (ws->count == RING_MAX)
        ring_drop(ws);
    e->refs = 1;
    e->seq = se->seq;
    e->workload = se->workload;
    e->tenant = mem_str(se->tenant);
    e->text = render(ws, se, &e->len);
    ws->ring[(ws->first + ws->count++) % RING_MAX] = e;
    ws->bytes += e->len;
    while (ws->bytes > RING_BYTES && ws->count > 1)
        ring_drop(ws);
    ws->read_seq = se->seq;
    return 0;
}

/* The first entry after `seq`; ws->count when there is none. */
static size_t ring_after(const struct watchers *ws, uint64_t seq)
{
    size_t low = 0, high = ws->count;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (slot(ws, mid)->seq <= seq)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

/* One watcher. */

static bool wants(const struct watcher *w, uint64_t workload,
                  const char *tenant)
{
    return (!w->workload || w->workload == workload) &&
           auth_sees(w->all->api, &w->who, tenant);
}

static bool lags(const struct watcher *w)
{
    return w->cursor < w->all->ring_from;
}

/* Move the cursor to the next entry of the ring that it wants. */
static struct entry *next_entry(struct watcher *w)
{
    const struct watchers *ws = w->all;

    for (size_t i = ring_after(ws, w->cursor); i < ws->count; i++) {
        struct entry *e = slot(ws, i);

        w->cursor = e->seq;
        if (wants(w, e->workload, e->tenant))
            return e;
    }
    w->cursor = ws->read_seq > w->cursor ? ws->read_seq : w->cursor;
    return NULL;
}

static int page_add(const struct store_event *e, void *arg)
{
    struct watcher *w = arg;
    autofree char *text = NULL;
    size_t len;

    w->cursor = e->seq;
    if (!wants(w, e->workload, e->tenant))
        return 0;
    text = render(w->all, e, &len);
    (void) buf_add(&w->page, text, len);
    return w->page.len > PAGE_BYTES;   /* enough: stop here */
}

static void schedule(struct watchers *ws);

/* The next page for a laggard: false when it has to wait for its turn. */
static bool read_page(struct watcher *w)
{
    struct watchers *ws = w->all;
    struct store_event_query q = {
        .after = w->cursor, .limit = PAGE_EVENTS, .workload = w->workload,
        .tenant = auth_single_tenant(ws->api, &w->who),
    };
    uint64_t before = w->cursor, durable = store_durable(api_store(ws->api));
    int rc;

    if (ws->pages == 0) {
        schedule(ws);
        return false;
    }
    ws->pages--;
    buf_clear(&w->page);
    rc = store_events(api_store(ws->api), &q, page_add, w, NULL);
    /* Nothing more for it up to what was durable when it was asked. */
    if (rc == 0 && w->cursor == before && w->cursor < durable)
        w->cursor = durable;
    return rc >= 0;
}

static size_t copy(char *buf, size_t max, const char *from, size_t len)
{
    size_t n = len < max ? len : max;

    memcpy(buf, from, n);
    return n;
}

/* One piece of what is next; 0: nothing, or no more now. */
static size_t pull_piece(struct watcher *w, char *buf, size_t max)
{
    size_t n;

    if (w->entry) {
        n = copy(buf, max, w->entry->text + w->at, w->entry->len - w->at);
        w->at += n;
        if (w->at == w->entry->len) {
            entry_unref(w->entry);
            w->entry = NULL;
        }
        return n;
    }
    while (!w->page.len && lags(w)) {
        if (!read_page(w))
            return 0;
    }
    if (w->page.len) {
        n = copy(buf, max, w->page.data, w->page.len);
        buf_drop(&w->page, n);
        return n;
    }
    w->entry = next_entry(w);
    if (!w->entry)
        return 0;
    w->entry->refs++;
    w->at = 0;
    return pull_piece(w, buf, max);
}

static ssize_t pull(char *buf, size_t max, void *arg)
{
    struct watcher *w = arg;
    size_t n = 0, more;

    if (w->who.token[0] && !auth_holds(w->all->api, &w->who))
        return -1;                     /* revoked, or past its time */
    while (n < max && (more = pull_piece(w, buf + n, max - n)) > 0)
        n += more;
    if (n == 0 && w->beat)
        n = copy(buf, max, ":\n\n", 3);
    w->beat = false;
    if (n)
        w->sent_ms = loop_now(w->all->api->loop);
    return (ssize_t) n;
}

static void gone(void *arg)
{
    struct watcher *w = arg;
    struct watchers *ws = w->all;

    if (ws->turn == w)
        ws->turn = w->next;
    list_unlink(ws->list, w);
    ws->n--;
    ws->left = ws->left < ws->n ? ws->left : ws->n;
    entry_unref(w->entry);
    buf_free(&w->page);
    free(w);
}

/* All of them. */

static bool has_news(struct watcher *w)
{
    const struct watchers *ws = w->all;

    if (lags(w))
        return true;
    for (size_t i = ring_after(ws, w->cursor); i < ws->count; i++) {
        const struct entry *e = slot(ws, i);

        if (wants(w, e->workload, e->tenant))
            return true;
    }
    w->cursor = ws->read_seq > w->cursor ? ws->read_seq : w->cursor;
    return false;
}

static void fan_out(struct watchers *ws)
{
    unsigned wakes = 0, looks = 0;

    for (; ws->left && wakes < WAKES && looks < LOOKS; looks++, ws->left--) {
        struct watcher *w = ws->turn ? ws->turn : ws->list;

        ws->turn = w->next;
        if (http_stream_waits(w->stream) && has_news(w)) {
            http_stream_wake(w->stream);
            wakes++;
        }
    }
}

/* What is new, into the ring. */
static void read_news(struct watchers *ws)
{
    struct store_event_query q = { .after = ws->read_seq, .limit = READ_MAX };
    uint64_t before = ws->read_seq;
    int rc = store_events(api_store(ws->api), &q, ring_add, ws, NULL);

    if (ws->read_seq == before)        /* nothing there, or no reading it */
        ws->read_seq = ws->durable;
    if (rc < 0) {                      /* each asks the store for itself */
        while (ws->count)
            ring_drop(ws);
        ws->ring_from = ws->read_seq;
    }
    ws->left = ws->n;
}

static void on_soon(struct watch *watch, void *arg)
{
    struct watchers *ws = arg;

    (void) watch;
    ws->soon = NULL;
    ws->pages = PAGES;
    if (!ws->list)
        return;
    if (ws->read_seq < ws->durable)
        read_news(ws);
    fan_out(ws);
    if (!ws->soon && (ws->left || ws->read_seq < ws->durable))
        ws->soon = loop_timer(ws->api->loop, PAUSE_MS, on_soon, ws);
}

/* Everybody is to be looked at again. */
static void schedule(struct watchers *ws)
{
    ws->left = ws->n;
    if (!ws->soon)
        ws->soon = loop_soon(ws->api->loop, on_soon, ws);
}

void watchers_durable(struct watchers *ws, uint64_t seq)
{
    ws->durable = seq;
    if (ws->list)
        schedule(ws);
}

/* Those who heard nothing for a while get a comment: that is also how a client
 * that is gone is noticed.
 */
static void on_tick(struct watch *watch, void *arg)
{
    struct watchers *ws = arg;
    uint64_t now = loop_now(ws->api->loop);
    unsigned wakes = 0;

    (void) watch;
    ws->tick = NULL;
    for (struct watcher *w = ws->list; w && wakes < 4 * WAKES; w = w->next) {
        if (now - w->sent_ms < BEAT_MS || !http_stream_waits(w->stream))
            continue;
        w->beat = true;
        http_stream_wake(w->stream);
        wakes++;
    }
    if (ws->list)
        ws->tick = loop_timer(ws->api->loop, TICK_MS, on_tick, ws);
}

/* Nobody watched: what happened meanwhile is in the store. */
static void ring_restart(struct watchers *ws)
{
    while (ws->count)
        ring_drop(ws);
    ws->durable = store_durable(api_store(ws->api));
    ws->ring_from = ws->read_seq = ws->durable;
}

void get_watch(struct call *c)
{
    struct watchers *ws = c->api->watchers;
    const char *since = http_header(c->req, "Last-Event-ID");
    struct watcher *w;
    uint64_t workload, seq = store_durable(api_store(c->api));

    /* A client that connects again keeps its URL, with an older cursor. */
    if (!since)
        since = call_arg(c, "since");
    if ((since && !since_read(c, since, &seq)) ||
        !workload_arg_read(c, &workload))
        return;
    if (!ws->list)
        ring_restart(ws);
    w = mem_new(sizeof *w);
    *w = (struct watcher) {
        .all = ws, .who = c->who, .workload = workload,
        .cursor = seq, .page = BUF_INIT(64 * 1024 * 1024),
        .sent_ms = loop_now(c->api->loop),
    };
    list_push(ws->list, w);
    ws->n++;
    if (!ws->tick)
        ws->tick = loop_timer(ws->api->loop, TICK_MS, on_tick, ws);
    w->stream = http_stream(c->req, 200, "text/event-stream", pull, gone, w);
}

void watchers_free(struct watchers *ws)
{
    if (!ws)
        return;
    assert(!ws->list);
    while (ws->count)
        ring_drop(ws);
    watch_remove(ws->soon);
    watch_remove(ws->tick);
    free(ws);
}

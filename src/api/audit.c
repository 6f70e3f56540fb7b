#include "api/audit.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

enum { PER_SECOND = 5, CALLERS = 1024 };

struct bucket {
    uint64_t second;
    unsigned written;                  /* in that second */
    uint64_t left_out;                 /* since the last one written */
};

struct audit {
    struct api *api;
    struct map *buckets;               /* by who */
};

struct audit *audit_new(struct api *a)
{
    struct audit *u = mem_new(sizeof *u);

    u->api = a;
    u->buckets = map_new();
    return u;
}

static void forget(struct audit *u)
{
    struct bucket *b;
    size_t pos = 0;

    while ((b = map_next(u->buckets, &pos, NULL)))
        free(b);
    map_free(u->buckets);
}

void audit_free(struct audit *u)
{
    if (!u)
        return;
    forget(u);
    free(u);
}

static struct bucket *bucket_of(struct audit *u, const char *who)
{
    struct bucket *b = map_get(u->buckets, who);

    if (b)
        return b;
    if (map_count(u->buckets) >= CALLERS) {
        forget(u);
        u->buckets = map_new();
    }
    b = mem_new(sizeof *b);
    (void) map_set(u->buckets, who, b);
    return b;
}

/* May this one be written?  Counts it either way. */
static bool admit(struct bucket *b, uint64_t second)
{
    if (b->second != second) {
        b->second = second;
        b->written = 0;
    }
    if (b->written == PER_SECOND) {
        b->left_out++;
        return false;
    }
    b->written++;
    return true;
}

/* Nobody waits for it; that it could not be written (a full disk) is what
 * everybody hears already.
 */
static void on_done(int rc, uint64_t seq, uint64_t workload,
                    const struct err *err, void *arg)
{
    (void) rc;
    (void) seq;
    (void) workload;
    (void) err;
    (void) arg;
}

void audit_denied(struct audit *u, const struct who *w, const char *what,
                  const char *from, unsigned status)
{
    struct bucket *b = bucket_of(u, w->id);
    autofree char *clean = NULL;
    struct event e;

    if (!admit(b, loop_now(u->api->loop) / 1000) ||
        u->api->ops->trouble(u->api->arg)[0])
        return;
    event_init(&e, EVENT_DENIED);
    (void) snprintf(e.who, sizeof e.who, "%s", w->id);
    e.data = json_object();
    clean = utf8_clean(what, strnlen(what, 400));
    json_put_str(e.data, "what", clean);
    json_put_str(e.data, "from", from);
    json_put_u64(e.data, "status", status);
    if (b->left_out)
        json_put_u64(e.data, "left_out", b->left_out);
    b->left_out = 0;
    u->api->ops->propose(&e, on_done, NULL, u->api->arg);
}

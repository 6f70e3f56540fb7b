#include "kube/track.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/backoff.h"
#include "kube/kube.h"
#include "kube/object.h"
#include "kube/split.h"
#include "kube/status.h"
#include "net/client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/*     list page -> next page -> ... -> watch -> it ended -> watch
 *         ^                              |
 *         '------- the version is too old '
 *
 * `version` NULL: there is none yet, or it was too old; a list comes next.
 */
enum { PATH_MAX_BYTES = 16 * 1024, WATCH_SLACK_MS = 30000 };

struct track {
    struct kube *kube;
    struct loop *loop;
    char *name, *path, *query;
    const struct track_ops *ops;
    void *arg;
    char *version, *more;              /* more: the list goes on with it */
    char *listing;                     /* the version of the list under way */
    struct kube_call *call;
    struct watch *timer;
    struct backoff backoff;
    struct split split;
    uint64_t began_ms, odd_ms;
    bool running;                      /* the watch was let in */
    char said[512];                    /* the trouble; "": all is well */
};

static void go_on(struct track *t);

static void on_timer(struct watch *w, void *arg)
{
    struct track *t = arg;

    (void) w;
    t->timer = NULL;
    go_on(t);
}

static void later(struct track *t, uint64_t ms)
{
    watch_remove(t->timer);
    t->timer = loop_timer(t->loop, ms, on_timer, t);
}

static void trouble(struct track *t, const char *text)
{
    char line[sizeof t->said];

    (void) snprintf(line, sizeof line, "%.40s: %.460s", t->name, text);
    if (strcmp(line, t->said) == 0)
        return;
    memcpy(t->said, line, sizeof line);
    t->ops->trouble(line, t->arg);
}

static void well(struct track *t)
{
    if (!t->said[0])
        return;
    t->said[0] = '\0';
    t->ops->well(t->arg);
}

static void again(struct track *t, const struct kube_answer *a)
{
    trouble(t, a->text);
    later(t, backoff_next(&t->backoff, a->wait_ms, fs_random()));
}

/* One odd object is not the cluster's end; a thousand are not a thousand
 * lines.
 */
static void odd(struct track *t, const struct err *err)
{
    uint64_t now = loop_now(t->loop);
    char line[sizeof t->said];

    if (t->odd_ms && now - t->odd_ms < TRACK_ODD_MS)
        return;
    t->odd_ms = now;
    (void) snprintf(line, sizeof line, "%.40s: passed over: %.440s", t->name,
                    err->text);
    t->ops->odd(line, t->arg);
}

static void put(struct track *t, const json_t *object)
{
    struct err err = { 0 };

    if (t->ops->put(object, t->arg, &err) < 0)
        odd(t, &err);
}

/* ---- list ---- */

static void forget_list(struct track *t)
{
    free(take(t->version));
    free(take(t->more));
    free(take(t->listing));
}

static int no_page(const struct track *t, int rc, struct err *err)
{
    return err_prefix(err, rc, "%s does not answer as an API server does",
                      kube_name(t->kube));
}

static int read_page(struct track *t, const struct kube_answer *a,
                     struct err *err)
{
    autojson json_t *page = NULL;
    const json_t *items, *o;
    const char *version, *more;
    size_t i;
    int rc = object_read(a->body, a->len, KUBE_BODY_MAX, &page, err);

    if (rc < 0)
        return no_page(t, rc, err);
    items = json_object_get(page, "items");
    version = object_str(page, "metadata", "resourceVersion", NULL);
    more = object_str(page, "metadata", "continue", NULL);
    if ((!json_is_array(items) && !json_is_null(items)) || !*version)
        return no_page(t, err_set(err, EPROTO, "no list of objects with a "
                                  "version"), err);
    if (!t->more)
        t->ops->list(t->arg);
    json_array_foreach(items, i, o)
        put(t, o);
    free(t->listing);
    t->listing = mem_str(version);
    free(t->more);
    t->more = *more ? mem_str(more) : NULL;
    return 0;
}

static void on_page(const struct kube_answer *a, void *arg)
{
    struct track *t = arg;
    struct err err = { 0 };
    struct kube_answer garbage = { .rc = -EPROTO, .text = err.text };

    t->call = NULL;
    if (a->rc == -ESTALE && t->more) {
        forget_list(t);                /* the list took too long: anew */
        later(t, backoff_next(&t->backoff, a->wait_ms, fs_random()));
        return;
    }
    if (a->rc < 0) {
        forget_list(t);
        again(t, a);
        return;
    }
    if (read_page(t, a, &err) < 0) {
        forget_list(t);
        again(t, &garbage);
        return;
    }
    if (!t->more) {
        t->version = take(t->listing);
        t->ops->listed(t->arg);
        well(t);
    }
    go_on(t);
}

/* ---- watch ---- */

static void keep_version(struct track *t, const json_t *object)
{
    const char *v = object_str(object, "metadata", "resourceVersion", NULL);

    if (!*v)
        return;
    free(t->version);
    t->version = mem_str(v);
}

static int on_event(enum split_kind kind, const json_t *object, void *arg,
                    struct err *err)
{
    struct track *t = arg;
    struct kube_status s;
    struct err why = { 0 };

    switch (kind) {
    case SPLIT_PUT:
        put(t, object);
        break;
    case SPLIT_GONE:
        if (t->ops->gone(object, t->arg, &why) < 0)
            odd(t, &why);
        break;
    case SPLIT_MARK:
        break;
    case SPLIT_ERROR:
        status_of(object, &s);
        return err_set(err, s.error, "%s", s.text);
    }
    keep_version(t, object);
    return 0;
}

static void on_head(void *arg)
{
    struct track *t = arg;

    t->running = true;
    well(t);
}

static int on_bytes(const char *p, size_t n, void *arg, struct err *err)
{
    struct track *t = arg;

    return split_feed(&t->split, p, n, on_event, t, err);
}

/* Watches end all the time, by the server's clock or by the network's whim:
 * that is no trouble.  Not to be let in is.
 */
static void on_end(const struct kube_answer *a, void *arg)
{
    struct track *t = arg;
    bool steady = t->running &&
                  loop_now(t->loop) - t->began_ms >= TRACK_STEADY_MS;
    bool cut = a->rc == 0 || a->rc == -ECONNRESET || a->rc == -ETIMEDOUT;

    t->call = NULL;
    split_clear(&t->split);
    if (steady)
        backoff_reset(&t->backoff);
    if (a->rc == -ESTALE) {
        forget_list(t);
        later(t, steady ? 0 : backoff_next(&t->backoff, a->wait_ms,
                                           fs_random()));
    } else if (t->running && cut) {
        later(t, steady ? 0 : backoff_next(&t->backoff, 0, fs_random()));
    } else {
        again(t, a);
    }
}

/* ---- the next step ---- */

static const struct kube_ops list_ops = { .done = on_page };
static const struct kube_ops watch_ops = {
    .head = on_head, .bytes = on_bytes, .done = on_end,
};

static void list_path(const struct track *t, struct buf *b)
{
    (void) buf_printf(b, "%s?limit=%d%s%s", t->path, TRACK_PAGE,
                      *t->query ? "&" : "", t->query);
    if (t->more) {
        (void) buf_str(b, "&continue=");
        client_escape(b, t->more);
    }
}

static void watch_path(const struct track *t, unsigned seconds, struct buf *b)
{
    (void) buf_printf(b, "%s?watch=true&allowWatchBookmarks=true&"
                      "timeoutSeconds=%u%s%s&resourceVersion=", t->path,
                      seconds, *t->query ? "&" : "", t->query);
    client_escape(b, t->version);
}

static void go_on(struct track *t)
{
    unsigned seconds = TRACK_WATCH_S +
                       (unsigned) (fs_random() % (TRACK_WATCH_S + 1));
    autobuf struct buf path = BUF_INIT(PATH_MAX_BYTES);
    struct kube_request q = { .method = "GET" };
    struct err err = { 0 };
    struct kube_answer failed = { .text = err.text };

    t->running = false;
    t->began_ms = loop_now(t->loop);
    if (t->version) {
        watch_path(t, seconds, &path);
        q.stream = true;
        q.timeout_ms = seconds * 1000 + WATCH_SLACK_MS;
    } else {
        list_path(t, &path);
    }
    q.path = buf_text(&path);
    if (path.over)
        failed.rc = err_set(&err, EPROTO, "the server's word for where the "
                            "list goes on is too long");
    else
        failed.rc = kube_start(t->kube, &q, t->version ? &watch_ops : &list_ops,
                               t, &t->call, &err);
    if (failed.rc < 0) {
        forget_list(t);
        again(t, &failed);
    }
}

struct track *track_open(struct kube *k, const char *name, const char *path,
                         const char *query, const struct track_ops *ops,
                         void *arg)
{
    struct track *t = mem_new(sizeof *t);

    t->kube = k;
    t->loop = kube_loop(k);
    t->name = mem_str(name);
    t->path = mem_str(path);
    t->query = mem_str(query);
    t->ops = ops;
    t->arg = arg;
    t->split = (struct split) SPLIT_INIT;
    later(t, 0);
    return t;
}

void track_close(struct track *t)
{
    if (!t)
        return;
    kube_cancel(t->call);
    watch_remove(t->timer);
    split_clear(&t->split);
    forget_list(t);
    free(t->name);
    free(t->path);
    free(t->query);
    free(t);
}

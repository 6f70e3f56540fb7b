#include "store/batch.h"

#include "base/json.h"
#include "base/mem.h"
#include "core/event.h"
#include "core/spec.h"
#include "core/world.h"

#include <malloc.h>
#include <string.h>

enum {
    BATCH_MAX = 768 * 1024 * 1024,     /* below SQLite's largest text */
    BATCH_KEEP = 256 * 1024,           /* memory worth keeping for the next */
};

struct batch *batch_new(void)
{
    struct batch *b = mem_new(sizeof *b);

    b->text = (struct buf) BUF_INIT(BATCH_MAX);
    return b;
}

void batch_free(struct batch *b)
{
    if (!b)
        return;
    buf_free(&b->text);
    free(b->ops);
    free(b);
}

void batch_free_all(struct batch *list)
{
    while (list) {
        struct batch *next = list->next;

        batch_free(list);
        list = next;
    }
}

void batch_clear(struct batch *b)
{
    b->nops = 0;
    b->next = NULL;
    b->seq = b->time_ms = 0;
    if (b->cap * sizeof *b->ops > BATCH_KEEP) {
        free(take(b->ops));
        b->cap = 0;
    }
    if (b->text.cap > BATCH_KEEP)
        buf_free(&b->text);
    else
        buf_clear(&b->text);
}

bool batch_empty(const struct batch *b)
{
    return b->nops == 0;
}

bool batch_whole(const struct batch *b)
{
    return !b->text.over;
}

const char *batch_text(const struct batch *b, struct span s)
{
    return s.there ? buf_text(&b->text) + s.at : NULL;
}

size_t batch_bytes(const struct batch *list)
{
    size_t bytes = 0;

    for (; list; list = list->next)
        bytes += list->text.len;
    return bytes;
}

void batch_slim(void)
{
#ifdef __GLIBC__
    (void) malloc_trim(0);
#endif
}

static struct op *add_op(struct batch *b, enum batch_op kind)
{
    struct op *op;

    if (b->nops == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 16;
        b->ops = mem_grow(b->ops, b->cap, sizeof *b->ops);
    }
    op = &b->ops[b->nops++];
    *op = (struct op) { .kind = kind };
    return op;
}

static struct span add_text(struct batch *b, const char *text)
{
    struct span s = { .at = b->text.len };

    if (!text)
        return s;
    s.len = strlen(text);
    s.there = buf_add(&b->text, text, s.len);
    return s;
}

/* An empty text says "none" in an event; in a table that is null. */
static struct span add_name(struct batch *b, const char *text)
{
    return add_text(b, text && *text ? text : NULL);
}

static int add_chunk(const char *p, size_t n, void *arg)
{
    return buf_add(arg, p, n) ? 0 : -1;
}

/* Written straight into the batch.  `j` is taken. */
static struct span add_json(struct batch *b, json_t *j)
{
    struct span s = { .at = b->text.len };

    s.there = json_dump_callback(j, add_chunk, &b->text,
                                 JSON_FORM | JSON_COMPACT) == 0;
    s.len = b->text.len - s.at;
    json_decref(j);
    return s;
}

static struct span add_spec(struct batch *b, const struct spec *spec)
{
    struct span s = { .at = b->text.len };

    s.there = spec_dump(spec, add_chunk, &b->text) == 0;
    s.len = b->text.len - s.at;
    return s;
}

static void add_submit(struct batch *b, const struct event *e,
                       const char *tenant)
{
    struct op *op = add_op(b, BATCH_SUBMIT);

    op->workload = e->workload;
    op->tenant = add_text(b, tenant ? tenant : "");
    op->who = add_text(b, e->who);
    op->key = add_name(b, e->key);
    op->hash = add_name(b, e->hash);
}

void batch_event(struct batch *b, const struct event *e, const char *tenant)
{
    struct op *op = add_op(b, BATCH_EVENT);

    op->seq = e->seq;
    op->time_ms = e->time_ms;
    op->workload = e->workload;
    op->type = add_text(b, event_type_name(e->type));
    op->tenant = add_name(b, tenant);
    op->body = add_json(b, event_to_json(e, true));
    b->seq = e->seq;
    b->time_ms = e->time_ms;
    if (e->type == EVENT_SUBMITTED) {
        add_submit(b, e, tenant);
    } else if (e->type == EVENT_WORKLOAD_ENDED) {
        op = add_op(b, BATCH_END);
        op->workload = e->workload;
        op->time_ms = e->time_ms;
    }
}

static enum batch_op row_kind(enum world_table table)
{
    static const enum batch_op kinds[TABLE_COUNT] = {
        [TABLE_WORKLOAD] = BATCH_WORKLOAD, [TABLE_TASK] = BATCH_TASK,
        [TABLE_BLOCK] = BATCH_BLOCK, [TABLE_TENANT] = BATCH_TENANT,
        [TABLE_TOKEN] = BATCH_TOKEN, [TABLE_META] = BATCH_META,
    };

    return kinds[table];
}

void batch_row(struct batch *b, const struct world_row *row)
{
    struct op *op = add_op(b, row_kind(row->table));

    op->live = row->live;
    op->workload = row->workload;
    op->task = row->task;
    op->key = add_text(b, row->key);
    op->tenant = add_text(b, row->tenant);
    op->body = add_text(b, row->body);
    if (row->spec)
        op->spec = add_spec(b, row->spec);
}

#include "spec/reader.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/utf8.h"
#include "core/spec.h"
#include "spec/template.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEPT = 100 };

struct quoted quoted(const char *text)
{
    struct quoted q = { "" };
    size_t len = strlen(text), at = 0;

    while (at < len) {
        size_t n = utf8_size(text + at, len - at);

        if (at + n + sizeof("...") > sizeof(q.s)) {
            memcpy(q.s + at, "...", sizeof("..."));
            break;
        }
        if (n > 1)
            memcpy(q.s + at, text + at, n);
        else if (n == 1 && (unsigned char) text[at] >= ' ' && text[at] != 0x7f)
            q.s[at] = text[at];
        else
            q.s[at] = '?';
        at += n > 1 ? n : 1;
    }
    return q;
}

/* -- where ---------------------------------------------------------------- */

void reader_push(struct reader *r, const char *key)
{
    assert(r->depth < READER_DEPTH);
    r->path[r->depth++] = (struct step) { .key = key };
}

void reader_push_index(struct reader *r, uint32_t index)
{
    assert(r->depth < READER_DEPTH);
    r->path[r->depth++] = (struct step) { .index = index };
}

void reader_pop(struct reader *r)
{
    assert(r->depth > 0);
    r->depth--;
}

static char *path_text(const struct reader *r)
{
    autobuf struct buf out = BUF_INIT(8192);

    for (unsigned i = 0; i < r->depth; i++) {
        const struct step *s = &r->path[i];

        if (s->key)
            buf_printf(&out, "%s%s", i ? "." : "", quoted(s->key).s);
        else
            buf_printf(&out, "[%u]", s->index);
    }
    return buf_take(&out);
}

/* -- what is wrong -------------------------------------------------------- */

static bool known_problem(const struct doc_problems *p, unsigned line,
                          unsigned column, const char *text)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].line == line && p->items[i].column == column &&
            strcmp(p->items[i].text, text) == 0)
            return true;
    return false;
}

static void add_problem(struct reader *r, unsigned line, unsigned column,
                        const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

static void add_problem(struct reader *r, unsigned line, unsigned column,
                        const char *fmt, va_list ap)
{
    struct doc_problems *p = r->problems;
    char text[2048];

    r->found++;
    (void) vsnprintf(text, sizeof(text), fmt, ap);
    if (known_problem(p, line, column, text))
        return;
    if (p->count == KEPT) {
        p->more++;
        return;
    }
    if (!p->items)
        p->items = mem_array(KEPT, sizeof(*p->items));
    p->items[p->count++] = (struct doc_problem) {
        .line = line,
        .column = column,
        .field = path_text(r),
        .text = mem_str(text),
    };
}

void reader_problem_at(struct reader *r, unsigned line, unsigned column,
                       const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_problem(r, line, column, fmt, ap);
    va_end(ap);
}

void reader_problem(struct reader *r, const struct node *n,
                    const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add_problem(r, n ? n->line : 0, n ? n->column : 0, fmt, ap);
    va_end(ap);
}

void reader_problem_near(struct reader *r, const struct node *n,
                         const struct near *near, const char *otherwise,
                         const char *fmt, ...)
{
    char text[1024];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (near->best)
        reader_problem(r, n, "%s; did you mean '%s'?", text, near->best);
    else
        reader_problem(r, n, "%s%s", text, otherwise);
}

void reader_expected(struct reader *r, const struct node *n,
                     const char *expected)
{
    if (n->kind != NODE_SCALAR)
        reader_problem(r, n, "expected %s, got %s %s", expected,
                       n->count ? "a" : "an empty",
                       n->kind == NODE_LIST ? "list" : "mapping");
    else if (node_is_null(n))
        reader_problem(r, n, "expected %s, got nothing", expected);
    else
        reader_problem(r, n, "expected %s, got '%s'", expected,
                       quoted(n->text).s);
}

size_t reader_problems(const struct reader *r)
{
    return r->found;
}

static int by_place(const void *a, const void *b)
{
    const struct doc_problem *x = a, *y = b;

    if (x->line != y->line)
        return x->line < y->line ? -1 : 1;
    if (x->column != y->column)
        return x->column < y->column ? -1 : 1;
    return strcmp(x->text, y->text);
}

void reader_sort(struct reader *r)
{
    struct doc_problems *p = r->problems;

    if (p->count)
        qsort(p->items, p->count, sizeof(*p->items), by_place);
}

bool reader_full(const struct reader *r)
{
    return r->problems->count == KEPT;
}

/* -- what is there -------------------------------------------------------- */

const char *reader_text(struct reader *r, const struct node *n,
                        const char *expected)
{
    if (n->kind != NODE_SCALAR || node_is_null(n)) {
        reader_expected(r, n, expected);
        return NULL;
    }
    if (!n->templated)
        return n->text;
    return template_expand(r, n) ? buf_text(&r->text) : NULL;
}

const char *reader_keep(struct reader *r, const struct node *n,
                        const char *text)
{
    size_t size = strlen(text) + 1;

    if (!n->templated)
        return text;                   /* of the node itself */
    return memcpy(spec_arena_alloc(r->scratch, size), text, size);
}

const char *reader_param(const struct reader *r, const char *name)
{
    return map_get(r->params, name);
}

/* Few keys are compared with each other; many go through a map. */
static const struct node *first_of_key(const struct node *n, uint32_t i,
                                       struct map *seen)
{
    const char *key = n->members[i].key->text;

    if (seen)
        return map_set(seen, key, (void *) (uintptr_t) n->members[i].key);
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(n->members[k].key->text, key) == 0)
            return n->members[k].key;
    return NULL;
}

bool reader_mapping(struct reader *r, const struct node *n,
                    const char *expected)
{
    struct map *seen = NULL;
    bool good = true;

    if (n->kind != NODE_MAPPING) {
        reader_expected(r, n, expected);
        return false;
    }
    if (n->count > 16)
        seen = map_new();
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *first = first_of_key(n, i, seen);

        if (!first)
            continue;
        good = false;
        reader_problem(r, n->members[i].key,
                       "duplicate key '%s'; the first is in line %u",
                       quoted(n->members[i].key->text).s, first->line);
    }
    map_free(seen);
    return good;
}

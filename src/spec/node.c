#include "spec/node.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "core/spec.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

struct open {
    struct node *node;                 /* its children are pending */
    size_t first;                      /* where in `pending` they begin */
    const char *anchor;
};

struct maker {
    struct spec_arena *arena;
    struct map *anchors;
    struct open stack[NODE_MAX_DEPTH];
    size_t depth;
    const struct node **pending;       /* children of all open collections */
    size_t npending, cap;
    uint64_t weight;                   /* of all so far, aliases written out */
    const struct node *root;
    struct node_fault *fault;
};

static int refuse(struct maker *m, yaml_mark_t at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct maker *m, yaml_mark_t at, const char *fmt, ...)
{
    va_list ap;

    m->fault->line = (unsigned) at.line + 1;
    m->fault->column = (unsigned) at.column + 1;
    va_start(ap, fmt);
    (void) vsnprintf(m->fault->text, sizeof(m->fault->text), fmt, ap);
    va_end(ap);
    return -EINVAL;
}

static char *arena_str(struct spec_arena *a, const void *s, size_t len)
{
    char *p = spec_arena_alloc(a, len + 1);

    memcpy(p, s, len);
    return p;
}

static struct node *node_new(struct maker *m, enum node_kind kind,
                             yaml_mark_t at)
{
    struct node *n = spec_arena_alloc(m->arena, sizeof(*n));

    n->kind = (unsigned char) kind;
    n->line = (uint32_t) at.line + 1;
    n->column = (uint32_t) at.column + 1;
    n->weight = 1;
    n->height = 1;
    return n;
}

static bool wants_key(const struct maker *m)
{
    const struct open *o;

    if (m->depth == 0)
        return false;
    o = &m->stack[m->depth - 1];
    return o->node->kind == NODE_MAPPING &&
           (m->npending - o->first) % 2 == 0;
}

/* Put a finished node where it belongs. */
static int attach(struct maker *m, const struct node *n, yaml_mark_t at)
{
    if (n->kind != NODE_SCALAR && wants_key(m))
        return refuse(m, at, "a key is a word, not a list or mapping");
    if (m->depth == 0) {
        m->root = n;
        return 0;
    }
    if (m->npending == m->cap) {
        m->cap *= 2;
        m->pending = mem_grow(m->pending, m->cap, sizeof(void *));
    }
    m->pending[m->npending++] = n;
    return 0;
}

static int weigh(struct maker *m, uint64_t more, yaml_mark_t at)
{
    m->weight += more;
    if (m->weight > NODE_MAX_WEIGHT)
        return refuse(m, at, "the document unfolds into more than 2000000 "
                      "values");
    return 0;
}

static int tagged(struct maker *m, const yaml_char_t *tag, yaml_mark_t at)
{
    if (tag && strcmp((const char *) tag, "!") != 0)
        return refuse(m, at, "tags such as '%.60s' are not used here",
                      (const char *) tag);
    return 0;
}

static int on_scalar(struct maker *m, const yaml_event_t *e)
{
    const yaml_char_t *value = e->data.scalar.value;
    size_t len = e->data.scalar.length;
    struct node *n;

    if (tagged(m, e->data.scalar.tag, e->start_mark) < 0 ||
        weigh(m, 1, e->start_mark) < 0)
        return -EINVAL;
    if (memchr(value, '\0', len))
        return refuse(m, e->start_mark, "a text may not hold a NUL");
    n = node_new(m, NODE_SCALAR, e->start_mark);
    n->text = arena_str(m->arena, value, len);
    n->count = (uint32_t) len;
    n->plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    n->templated = strstr(n->text, "{{") != NULL;
    if (e->data.scalar.anchor)
        map_set(m->anchors, (const char *) e->data.scalar.anchor, n);
    return attach(m, n, e->start_mark);
}

static int on_alias(struct maker *m, const yaml_event_t *e)
{
    const char *name = (const char *) e->data.alias.anchor;
    const struct node *n = map_get(m->anchors, name);

    if (!n)
        return refuse(m, e->start_mark, "alias '*%.60s' names no anchor above",
                      name);
    if (m->depth + n->height > NODE_MAX_DEPTH)
        return refuse(m, e->start_mark, "nested more than 32 deep");
    if (weigh(m, n->weight, e->start_mark) < 0)
        return -EINVAL;
    return attach(m, n, e->start_mark);
}

static int on_open(struct maker *m, enum node_kind kind,
                   const yaml_char_t *tag, const yaml_char_t *anchor,
                   yaml_mark_t at)
{
    if (tagged(m, tag, at) < 0 || weigh(m, 1, at) < 0)
        return -EINVAL;
    if (wants_key(m))
        return refuse(m, at, "a key is a word, not a list or mapping");
    if (m->depth == NODE_MAX_DEPTH)
        return refuse(m, at, "nested more than 32 deep");
    m->stack[m->depth++] = (struct open) {
        .node = node_new(m, kind, at),
        .first = m->npending,
        .anchor = anchor ? arena_str(m->arena, anchor,
                                     strlen((const char *) anchor)) : NULL,
    };
    return 0;
}

static void add_up(struct node *n, const struct node *const *v, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        n->weight += v[i]->weight;
        n->templated |= v[i]->templated;
        if (n->height < v[i]->height + 1)
            n->height = (unsigned char) (v[i]->height + 1);
    }
}

static int on_close(struct maker *m, const yaml_event_t *e)
{
    struct open *o = &m->stack[--m->depth];
    size_t count = m->npending - o->first;
    struct node *n = o->node;
    void *copy = spec_arena_alloc(m->arena, count * sizeof(void *));

    assert(n);                         /* libyaml closes what it opened */
    if (count)
        memcpy(copy, m->pending + o->first, count * sizeof(void *));
    m->npending = o->first;
    add_up(n, copy, count);
    if (n->kind == NODE_LIST) {
        n->items = copy;
        n->count = (uint32_t) count;
    } else {
        n->members = copy;             /* key, value, key, value */
        n->count = (uint32_t) (count / 2);
    }
    if (o->anchor)
        map_set(m->anchors, o->anchor, n);
    return attach(m, n, e->start_mark);
}

static int on_event(struct maker *m, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(m, e);
    case YAML_ALIAS_EVENT:
        return on_alias(m, e);
    case YAML_SEQUENCE_START_EVENT:
        return on_open(m, NODE_LIST, e->data.sequence_start.tag,
                       e->data.sequence_start.anchor, e->start_mark);
    case YAML_MAPPING_START_EVENT:
        return on_open(m, NODE_MAPPING, e->data.mapping_start.tag,
                       e->data.mapping_start.anchor, e->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return on_close(m, e);
    case YAML_DOCUMENT_START_EVENT:
        return !m->root ? 0 : refuse(m, e->start_mark, "a second document "
                                     "starts here; one file holds one");
    case YAML_STREAM_END_EVENT:
        return m->root ? 0 : refuse(m, e->start_mark, "the document is empty");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

/* libyaml counts bytes where it found no text; people count lines. */
static yaml_mark_t mark_of_byte(const char *text, size_t len, size_t offset)
{
    yaml_mark_t at = { 0 };

    for (size_t i = 0; i < len && i < offset; i++) {
        if (text[i] == '\n') {
            at.line++;
            at.column = 0;
        } else if ((text[i] & 0xc0) != 0x80) {
            at.column++;
        }
    }
    return at;
}

static int syntax_fault(struct maker *m, const yaml_parser_t *p,
                        const char *text, size_t len)
{
    char words[200];
    yaml_mark_t at = p->problem_mark;

    if (p->error == YAML_READER_ERROR)
        at = mark_of_byte(text, len, p->problem_offset);
    (void) snprintf(words, sizeof(words), "%s%s%s",
                    p->problem ? p->problem : "cannot be read",
                    p->context ? ", " : "", p->context ? p->context : "");
    return refuse(m, at, "not valid YAML: %s", words);
}

static int parse(struct maker *m, const char *text, size_t len)
{
    yaml_parser_t p;
    yaml_event_t e;
    bool end = false;
    int rc = 0;

    if (!yaml_parser_initialize(&p))
        return refuse(m, (yaml_mark_t) { 0 }, "out of memory");
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *) text, len);
    while (!end && !rc) {
        if (!yaml_parser_parse(&p, &e)) {
            rc = syntax_fault(m, &p, text, len);
            break;
        }
        rc = on_event(m, &e);
        end = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
    return rc;
}

static int hex4(const char *s)
{
    int v = 0;

    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *d = s[i] ? strchr(digits, s[i]) : NULL;

        if (!d)
            return -1;
        v = v * 16 + (int) (d - digits) % 16;
    }
    return v;
}

/* JSON writes characters past U+FFFF as two escapes, "\ud83d\ude00", which
 * YAML does not know: it has "\U0001f600".  Every backslash in JSON is inside
 * a text, so they can be rewritten without reading the rest.  Returns false,
 * with nothing written, when there is none.
 */
static bool join_surrogates(const char *text, size_t len, struct buf *out)
{
    size_t blank = 0, done = 0;

    while (blank < len && strchr(" \t\r\n", text[blank]) && text[blank])
        blank++;
    if (blank == len || (text[blank] != '{' && text[blank] != '['))
        return false;
    for (size_t i = blank; i + 1 < len; i++) {
        int high, low;

        if (text[i] != '\\')
            continue;
        if (i + 12 <= len && text[i + 1] == 'u' && text[i + 6] == '\\' &&
            text[i + 7] == 'u') {
            high = hex4(text + i + 2);
            low = hex4(text + i + 8);
            if (high >= 0xd800 && high < 0xdc00 && low >= 0xdc00 &&
                low < 0xe000) {
                buf_add(out, text + done, i - done);
                buf_printf(out, "\\U%08x", 0x10000u +
                           ((unsigned) (high - 0xd800) << 10) +
                           (unsigned) (low - 0xdc00));
                done = i + 12;
                i += 10;
            }
        }
        i++;
    }
    if (done)
        buf_add(out, text + done, len - done);
    return done > 0;
}

int node_read(const char *text, size_t len, struct spec_arena *arena,
              const struct node **ret, struct node_fault *fault)
{
    struct maker m = { .arena = arena, .fault = fault };
    autobuf struct buf joined = BUF_INIT(len + 1);
    int rc;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
        text += 3;
        len -= 3;
    }
    if (join_surrogates(text, len, &joined)) {
        text = joined.data;
        len = joined.len;
    }
    m.anchors = map_new();
    m.cap = 64;
    m.pending = mem_array(m.cap, sizeof(void *));
    rc = parse(&m, text, len);
    map_free(m.anchors);
    free(m.pending);
    if (!rc)
        *ret = m.root;
    return rc;
}

bool node_is_null(const struct node *n)
{
    static const char *const words[] = { "", "~", "null", "Null", "NULL" };

    for (size_t i = 0; i < array_size(words); i++)
        if (n->kind == NODE_SCALAR && n->plain &&
            strcmp(n->text, words[i]) == 0)
            return true;
    return false;
}

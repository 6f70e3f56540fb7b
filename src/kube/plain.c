#include "kube/plain.h"

#include "base/err.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

struct maker {
    json_t *stack[PLAIN_DEPTH];         /* borrowed: each is in the one below */
    char *keys[PLAIN_DEPTH];            /* of a mapping: the key that waits */
    unsigned depth;
    json_t *root;                      /* owned */
    struct err *err;
};

static int refuse(const struct maker *m, yaml_mark_t at, const char *why)
{
    return err_set(m->err, EINVAL, "line %zu: %s", at.line + 1, why);
}

static bool wants_key(const struct maker *m)
{
    return m->depth && json_is_object(m->stack[m->depth - 1]) &&
           !m->keys[m->depth - 1];
}

/* Takes the value, also when it fails. */
static int attach(struct maker *m, json_t *value, yaml_mark_t at)
{
    json_t *to = m->depth ? m->stack[m->depth - 1] : NULL;

    mem_there(value);
    if (!to) {
        m->root = value;
        return 0;
    }
    if (json_is_array(to)) {
        if (json_array_append_new(to, value) < 0)
            mem_none();
        return 0;
    }
    if (json_object_get(to, m->keys[m->depth - 1])) {
        json_decref(value);
        return refuse(m, at, "a key is there twice");
    }
    if (json_object_set_new(to, m->keys[m->depth - 1], value) < 0)
        mem_none();
    free(take(m->keys[m->depth - 1]));
    return 0;
}

static json_t *scalar(const char *text, size_t len, bool plain)
{
    if (plain && strcmp(text, "true") == 0)
        return json_true();
    if (plain && strcmp(text, "false") == 0)
        return json_false();
    if (plain && (!*text || strcmp(text, "~") == 0 ||
                  strcmp(text, "null") == 0))
        return json_null();
    return json_stringn(text, len);    /* libyaml has looked at the UTF-8 */
}

static int on_scalar(struct maker *m, const yaml_event_t *e)
{
    const char *text = (const char *) e->data.scalar.value;
    size_t len = e->data.scalar.length;
    json_t *value;

    if (e->data.scalar.tag)
        return refuse(m, e->start_mark, "tags are not used here");
    if (memchr(text, '\0', len))
        return refuse(m, e->start_mark, "a text may not hold a NUL");
    if (wants_key(m)) {
        m->keys[m->depth - 1] = mem_strn(text, len);
        return 0;
    }
    value = scalar(text, len,
                   e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE);
    if (!value)
        return refuse(m, e->start_mark, "not UTF-8");
    return attach(m, value, e->start_mark);
}

static int on_open(struct maker *m, json_t *value, const void *tag,
                   yaml_mark_t at)
{
    int rc;

    if (wants_key(m) || tag || m->depth == PLAIN_DEPTH) {
        json_decref(value);
        return refuse(m, at, tag ? "tags are not used here" :
                      m->depth == PLAIN_DEPTH ? "nested too deep" :
                      "a key is a word, not a list or mapping");
    }
    rc = attach(m, value, at);
    if (rc == 0)
        m->stack[m->depth++] = value;
    return rc;
}

static int on_event(struct maker *m, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return on_scalar(m, e);
    case YAML_ALIAS_EVENT:
        return refuse(m, e->start_mark, "aliases are not used here");
    case YAML_SEQUENCE_START_EVENT:
        return on_open(m, json_array(), e->data.sequence_start.tag,
                       e->start_mark);
    case YAML_MAPPING_START_EVENT:
        return on_open(m, json_object(), e->data.mapping_start.tag,
                       e->start_mark);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        m->depth--;
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        return m->root ? refuse(m, e->start_mark, "a second document starts "
                                "here; one file holds one") : 0;
    case YAML_STREAM_END_EVENT:
        return m->root ? 0 : refuse(m, e->start_mark, "the file is empty");
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int parse(struct maker *m, const char *text, size_t len)
{
    bool end = false;
    yaml_parser_t p;
    yaml_event_t e;
    int rc = 0;

    if (!yaml_parser_initialize(&p))
        mem_none();
    yaml_parser_set_encoding(&p, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&p, (const unsigned char *) text, len);
    while (!end && rc == 0) {
        if (!yaml_parser_parse(&p, &e)) {
            char line[128];
            const char *why = p.problem ? p.problem : "cannot be read";

            object_line(why, strlen(why), line, sizeof line);
            rc = err_set(m->err, EINVAL, "line %zu: not YAML: %s",
                         p.problem_mark.line + 1, line);
            break;
        }
        rc = on_event(m, &e);
        end = e.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&e);
    }
    yaml_parser_delete(&p);
    return rc;
}

int plain_read(const char *text, size_t len, json_t **ret, struct err *err)
{
    struct maker m = { .err = err };
    int rc = parse(&m, text, len);

    for (unsigned i = 0; i < PLAIN_DEPTH; i++)
        free(m.keys[i]);
    if (rc < 0) {
        json_decref(m.root);
        return rc;
    }
    *ret = m.root;
    return 0;
}

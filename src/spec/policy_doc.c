#include "spec/policy_doc.h"

#include "base/json.h"
#include "base/mem.h"
#include "core/spec.h"
#include "plan/policy.h"
#include "spec/reader.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

/* More nodes than any policy has: nobody unfolds aliases for long here. */
enum { MAX_WEIGHT = 10000 };

/* -- the tree as JSON ----------------------------------------------------- */

static json_t *to_json(struct reader *r, const struct node *n);

/* Is it one of the three ways in which YAML 1.2's core schema has a word? */
static bool is_word(const struct node *n, const char *const ways[3])
{
    for (size_t i = 0; i < 3; i++)
        if (strcmp(n->text, ways[i]) == 0)
            return true;
    return false;
}

/* A plain scalar is what it looks like, a quoted one is a text. */
static json_t *scalar(const struct node *n)
{
    static const char *const yes[] = { "true", "True", "TRUE" };
    static const char *const no[] = { "false", "False", "FALSE" };
    json_t *number = NULL;

    if (n->plain && node_is_null(n))
        return json_null();
    if (n->plain && is_word(n, yes))
        return json_true();
    if (n->plain && is_word(n, no))
        return json_false();
    if (n->plain && (isdigit((unsigned char) n->text[0]) ||
                     n->text[0] == '-'))
        number = json_loads(n->text, JSON_DECODE_ANY, NULL);
    if (json_is_number(number))
        return number;
    json_decref(number);
    return json_string(n->text);
}

static json_t *mapping(struct reader *r, const struct node *n)
{
    json_t *o = json_object();

    (void) reader_mapping(r, n, "a mapping");
    for (uint32_t i = 0; i < n->count; i++)
        json_put(o, n->members[i].key->text, to_json(r, n->members[i].value));
    return o;
}

static json_t *to_json(struct reader *r, const struct node *n)
{
    json_t *list;

    if (n->kind == NODE_MAPPING)
        return mapping(r, n);
    if (n->kind == NODE_SCALAR)
        return scalar(n);
    list = json_array();
    for (uint32_t i = 0; i < n->count; i++)
        (void) json_array_append_new(list, to_json(r, n->items[i]));
    return list;
}

/* -- where a fault stands ------------------------------------------------- */

struct place {
    struct reader *r;
    const struct node *root;
};

/* The member of a mapping, its name or its value; `n` itself when there is
 * none of that name.
 */
static const struct node *inside(const struct node *n, const char *key,
                                 bool name)
{
    if (!key || n->kind != NODE_MAPPING)
        return n;
    for (uint32_t i = 0; i < n->count; i++)
        if (strcmp(n->members[i].key->text, key) == 0)
            return name ? n->members[i].key : n->members[i].value;
    return n;
}

static void on_fault(const struct policy_fault *f, void *arg)
{
    const struct place *p = arg;
    const struct node *n = inside(p->root, f->key, f->unknown && f->row < 0);
    unsigned depth = p->r->depth;

    if (f->key)
        reader_push(p->r, f->key);
    if (f->row >= 0) {
        reader_push_index(p->r, (uint32_t) f->row);
        if (n->kind == NODE_LIST && (uint32_t) f->row < n->count)
            n = inside(n->items[f->row], f->member, f->unknown);
    }
    if (f->member)
        reader_push(p->r, f->member);
    reader_problem(p->r, n, "%s", f->text);
    p->r->depth = depth;
}

static void read_text(struct reader *r, const char *text, size_t len,
                      struct policy *ret)
{
    autojson json_t *j = NULL;
    struct place p = { .r = r };
    struct node_fault fault;
    struct policy got;

    if (node_read(text, len, r->scratch, &p.root, &fault) < 0) {
        reader_problem_at(r, fault.line, fault.column, "%s", fault.text);
        return;
    }
    if (p.root->weight > MAX_WEIGHT) {
        reader_problem(r, NULL, "more than %d values, aliases written out",
                       MAX_WEIGHT);
        return;
    }
    j = to_json(r, p.root);
    if (policy_read(j, &got, on_fault, &p) == 0 && reader_problems(r) == 0)
        *ret = got;
}

json_t *policy_doc_fields(struct reader *r, const struct node *n)
{
    struct place p = { .r = r, .root = n };
    size_t before = reader_problems(r);
    autojson json_t *whole = NULL;
    json_t *some;
    struct policy got;

    if (n->kind != NODE_MAPPING) {
        reader_expected(r, n, "a mapping of the policy's fields");
        return NULL;
    }
    some = to_json(r, n);
    whole = json_pack("{s:i, s:s}", "weir", 1, "kind", "policy");
    (void) json_object_update(whole, some);
    (void) policy_read(whole, &got, on_fault, &p);
    if (reader_problems(r) > before) {
        json_decref(some);
        return NULL;
    }
    return some;
}

int policy_doc_read(const char *text, size_t len, struct policy *ret,
                    struct doc_problems *problems)
{
    struct reader r = { .problems = problems };

    if (len > POLICY_DOC_MAX) {
        reader_problem(&r, NULL, "%zu bytes; a policy has at most %d", len,
                       POLICY_DOC_MAX);
        return -E2BIG;
    }
    r.scratch = spec_arena_new();
    read_text(&r, text, len, ret);
    spec_arena_free(r.scratch);
    reader_sort(&r);
    return reader_problems(&r) ? -EINVAL : 0;
}

/* -- the schema ----------------------------------------------------------- */

static json_t *field_schema(const struct policy_field *f)
{
    json_t *o = json_object(), *list;

    switch (f->kind) {
    case POLICY_TIME:
        json_put(o, "type", json_pack("[s, s]", "string", "number"));
        json_put_str(o, "pattern", "^[0-9]+([wdhms]|ms)?([0-9]+(d|h|m|s|ms))*"
                     "$");
        json_put(o, "minimum", json_real(f->min));
        json_put(o, "maximum", json_real(f->max));
        break;
    case POLICY_NUMBER:
    case POLICY_COUNT:
        json_put_str(o, "type", f->kind == POLICY_COUNT ? "integer" :
                     "number");
        json_put(o, "minimum", json_real(f->min));
        json_put(o, "maximum", json_real(f->max));
        break;
    case POLICY_FLAG:
        json_put_str(o, "type", "boolean");
        break;
    case POLICY_WORD:
        list = json_array();
        for (size_t i = 0; f->words[i]; i++)
            (void) json_array_append_new(list, json_string(f->words[i]));
        json_put(o, "enum", list);
        break;
    case POLICY_NAME:
        json_put_str(o, "type", "string");
        json_put_u64(o, "minLength", 1);
        json_put_u64(o, "maxLength", 31);
        break;
    }
    json_put_str(o, "description", f->help);
    return o;
}

static json_t *table_schema(const struct policy_table *t)
{
    json_t *o = json_object(), *members = json_object();

    for (size_t i = 0; i < t->count; i++)
        json_put(members, t->fields[i].name, field_schema(&t->fields[i]));
    json_put_str(o, "type", "object");
    json_put(o, "properties", members);
    json_put_bool(o, "additionalProperties", false);
    return o;
}

static char *schema_text;

static void make_schema(void)
{
    autojson json_t *o = table_schema(&policy_table);
    json_t *members = json_object_get(o, "properties");
    json_t *row = table_schema(&policy_model_table);

    json_put(row, "required", json_pack("[s]", "model"));
    json_put(members, "models",
             json_pack("{s:s, s:i, s:s, s:o}", "type", "array", "maxItems",
                       (int) POLICY_MODELS, "description",
                       "what models of devices are worth", "items", row));
    json_put(members, "weir", json_pack("{s:[i]}", "enum", 1));
    json_put(members, "kind", json_pack("{s:[s]}", "enum", "policy"));
    json_put(o, "required", json_pack("[s, s]", "weir", "kind"));
    json_put_str(o, "title", "A Weir policy");
    json_put_str(o, "$schema",
                 "https://json-schema.org/draft/2020-12/schema");
    schema_text = json_dumps(o, JSON_FORM | JSON_INDENT(2));
    assert(schema_text);
}

const char *policy_doc_schema(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void) pthread_once(&once, make_schema);
    return schema_text;
}

#include "spec/doc.h"

#include "base/err.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/utf8.h"
#include "core/spec.h"
#include "spec/reader.h"
#include "spec/task.h"
#include "spec/template.h"
#include "spec/type.h"

#include <errno.h>
#include <malloc.h>
#include <string.h>

/* The order of reading: the tree; version and kind, which say what keys may
 * stand where; parameters, which texts refer to; the rest of the head; tasks.
 */

enum { LARGE = 1024 * 1024 };          /* a document worth a malloc_trim */

static const struct node *member(const struct node *root, const char *key)
{
    for (uint32_t i = 0; i < root->count; i++)
        if (strcmp(root->members[i].key->text, key) == 0)
            return root->members[i].value;
    return NULL;
}

/* -- parameters ----------------------------------------------------------- */

static void declare(struct reader *r, const struct node_member *m)
{
    const struct node *v = m->value;

    if (!template_name_valid(m->key->text))
        reader_problem(r, m->key, "expected a name (a letter, then letters, "
                       "digits, '_' and '-'), got '%s'",
                       quoted(m->key->text).s);
    else if (v->kind != NODE_SCALAR)
        reader_expected(r, v, "a text, a number, or nothing");
    else if (v->templated)
        reader_problem(r, v, "a parameter's value cannot refer to another");
    else if (v->count > SPEC_MAX_TEXT)
        reader_problem(r, v, "%u bytes long; at most %d are allowed", v->count,
                       SPEC_MAX_TEXT);
    else
        map_set(r->params, m->key->text,
                (void *) (uintptr_t) (node_is_null(v) ? "" : v->text));
}

static void unknown_param(struct reader *r, const char *name)
{
    const char *known;
    struct near near;
    size_t pos = 0;

    near_init(&near, name);
    while (map_next(r->params, &pos, &known))
        near_try(&near, known);
    reader_problem_near(r, NULL, &near, " in this document",
                        "no parameter '%s'", quoted(name).s);
}

static void give(struct reader *r, struct map *given,
                 const struct doc_param *p)
{
    if (!utf8_valid(p->name, strlen(p->name)) || !reader_param(r, p->name))
        unknown_param(r, p->name);
    else if (map_set(given, p->name, &given))
        reader_problem(r, NULL, "parameter '%s' is given twice", p->name);
    else if (strlen(p->value) > SPEC_MAX_TEXT)
        reader_problem(r, NULL, "the value of parameter '%s' is longer than "
                       "%d bytes", p->name, SPEC_MAX_TEXT);
    else if (!utf8_valid(p->value, strlen(p->value)))
        reader_problem(r, NULL, "the value of parameter '%s' is not UTF-8",
                       p->name);
    else
        map_set(r->params, p->name, (void *) (uintptr_t) p->value);
}

/* False when a value is missing, without which the rest cannot be read. */
static bool read_parameters(struct reader *r, const struct node *n,
                            const struct doc_param *params, size_t nparams)
{
    struct map *given = map_new();
    bool whole = true;

    reader_push(r, "parameters");
    if (n && reader_mapping(r, n, "a mapping of names to values")) {
        if (n->count > SPEC_MAX_LIST)
            reader_problem(r, n, "%u entries; at most %d are allowed",
                           n->count, SPEC_MAX_LIST);
        for (uint32_t i = 0; i < n->count && i < SPEC_MAX_LIST; i++)
            declare(r, &n->members[i]);
    }
    for (size_t i = 0; i < nparams; i++)
        give(r, given, &params[i]);
    for (uint32_t i = 0; n && n->kind == NODE_MAPPING && i < n->count; i++) {
        const char *name = n->members[i].key->text;

        if (!node_is_null(n->members[i].value) || map_get(given, name))
            continue;
        whole = false;
        reader_problem(r, n->members[i].key, "'%s' has no value; give one "
                       "with -p %s=VALUE", quoted(name).s, quoted(name).s);
    }
    reader_pop(r);
    map_free(given);
    return whole;
}

/* -- the head ------------------------------------------------------------- */

static void read_top(struct reader *r, const struct node *root,
                     const char *key, const char *missing)
{
    const struct field *f = field_find(&table_document, key, ~0u);
    const struct node *n = member(root, key);

    if (n)
        field_read(r, f, n, r->spec);
    else
        reader_problem(r, root, "missing key '%s'; %s", key, missing);
}

/* A document of no known kind is read as what it looks like, so that one try
 * shows all that is wrong with it.
 */
static enum spec_kind read_kind(struct reader *r, const struct node *root)
{
    size_t before;

    read_top(r, root, "weir", "a document starts with 'weir: 1'");
    before = reader_problems(r);
    read_top(r, root, "kind", "expected 'kind: pipeline' or 'kind: job'");
    if (reader_problems(r) != before)
        r->spec->kind = member(root, "tasks") ? SPEC_PIPELINE : SPEC_JOB;
    return r->spec->kind;
}

static void read_head(struct reader *r, const struct node *root, unsigned use)
{
    for (uint32_t i = 0; i < root->count; i++) {
        const struct node *key = root->members[i].key;
        const struct field *f = field_find(&table_document, key->text, use);

        if (f && f->type->read && f->type != &type_version &&
            f->type != &type_kind)
            field_read(r, f, root->members[i].value, r->spec);
        else if (!f && !(use == USE_JOB &&
                         field_find(&table_task, key->text, use)))
            field_unknown(r, key, &table_document,
                          use == USE_JOB ? &table_task : NULL, use);
    }
    if (!r->spec->name)
        r->spec->name = use == USE_JOB ? "job" : "pipeline";
}

static void read_root(struct reader *r, const struct node *root,
                      const struct doc_param *params, size_t nparams)
{
    unsigned use;

    if (root->kind != NODE_MAPPING) {
        reader_expected(r, root, "a mapping that starts with 'weir: 1'");
        return;
    }
    (void) reader_mapping(r, root, "a mapping");
    use = read_kind(r, root) == SPEC_JOB ? USE_JOB : USE_PIPELINE;
    if (!read_parameters(r, member(root, "parameters"), params, nparams))
        return;
    read_head(r, root, use);
    if (use == USE_JOB)
        tasks_read_job(r, root);
    else if (member(root, "tasks"))
        tasks_read(r, member(root, "defaults"), member(root, "tasks"));
    else
        reader_problem(r, root, "missing key 'tasks'; a pipeline has at least "
                       "one task");
}

/* -- the whole ------------------------------------------------------------ */

static void read_text(struct reader *r, const char *text, size_t len,
                      const struct doc_param *params, size_t nparams)
{
    const struct node *root;
    struct node_fault fault;
    struct err err = { 0 };

    if (node_read(text, len, r->scratch, &root, &fault) < 0) {
        reader_problem_at(r, fault.line, fault.column, "%s", fault.text);
        return;
    }
    read_root(r, root, params, nparams);
    /* Everything it finds should have been said above, with its place. */
    if (reader_problems(r) == 0 && spec_check(r->spec, &err) < 0)
        reader_problem(r, NULL, "%s", err.text);
}

int doc_read(const char *text, size_t len, const struct doc_param *params,
             size_t nparams, uint64_t now_ms, struct spec **ret,
             struct doc_problems *problems)
{
    struct reader r = {
        .problems = problems,
        .now_ms = now_ms,
        .text = BUF_INIT(SPEC_MAX_TEXT),
    };

    if (len > SPEC_MAX_BYTES) {
        reader_problem(&r, NULL, "%zu bytes; a document has at most %d", len,
                       SPEC_MAX_BYTES);
        return -E2BIG;
    }
    r.spec = spec_new();
    r.scratch = spec_arena_new();
    r.params = map_new();
    read_text(&r, text, len, params, nparams);
    spec_arena_free(r.scratch);
    map_free(r.params);
    buf_free(&r.text);
    if (reader_problems(&r) > 0) {
        spec_free(r.spec);
        r.spec = NULL;
        reader_sort(&r);
    }
    /* The tree of a large document is larger than what it leaves behind. */
    if (len > LARGE)
        (void) malloc_trim(0);
    if (!r.spec)
        return -EINVAL;
    *ret = r.spec;
    return 0;
}

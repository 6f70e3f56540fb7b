#include "sim/whatif_int.h"

#include "base/mem.h"
#include "base/quantity.h"
#include "core/spec.h"
#include "spec/doc.h"
#include "spec/field.h"
#include "spec/policy_doc.h"
#include "spec/reader.h"

#include <errno.h>
#include <string.h>

/* The changes are read by rows, as workloads are: what is not in a row, has
 * another type or stands there twice is refused with its place.  All that is
 * kept lives in the arena of the document's tree.
 */
enum {
    VALUES_MAX = 10000,                /* nobody unfolds aliases for long */
    MORE_NODES = 10000,
    WEIGHT_MAX = 1000000,              /* as `weir tenant set` has it */
    GPUS_MAX = 1000000,
    MILLI = 1000,
};

#define IN(s, m) \
    offsetof(struct s, m), sizeof(__typeof__(((struct s *) 0)->m))
#define FIELD(name, type, s, m, help) \
    { name, type, USE_PART, IN(s, m), 0, NULL, NULL, help }

/* ---- values ---- */

/* NULL after a problem was noted. */
static const char *text_of(struct reader *r, const struct field *f,
                           const struct node *n)
{
    if (n->kind == NODE_SCALAR && !node_is_null(n) && n->text[0])
        return n->text;
    reader_expected(r, n, f->type->expected);
    return NULL;
}

static void read_name(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const char *s = text_of(r, f, n);

    if (s)
        *(const char **) field_member(f, base) = s;
}

static void read_number(struct reader *r, const struct field *f,
                        const struct node *n, uint64_t most, void *base)
{
    const char *s = text_of(r, f, n);
    uint64_t v = 0;

    if (s && (quantity_count(s, &v, NULL) < 0 || v == 0 || v > most))
        reader_expected(r, n, f->type->expected);
    else if (s)
        *(uint32_t *) field_member(f, base) = (uint32_t) v;
}

static void read_count(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    read_number(r, f, n, MORE_NODES, base);
}

static void read_weight(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    read_number(r, f, n, WEIGHT_MAX, base);
}

static void read_quota(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    struct whatif_amount *at = field_member(f, base);
    const char *s = text_of(r, f, n);
    uint64_t v = 0;

    if (s && (quantity_milli(s, &v, NULL) < 0 ||
              v > (uint64_t) GPUS_MAX * MILLI))
        reader_expected(r, n, f->type->expected);
    else if (s)
        *at = (struct whatif_amount) { .said = true, .milli = v };
}

static void read_max(struct reader *r, const struct field *f,
                     const struct node *n, void *base)
{
    struct whatif_amount *at = field_member(f, base);

    if (n->kind == NODE_SCALAR && strcmp(n->text, "unlimited") == 0)
        *at = (struct whatif_amount) { .said = true,
                                       .milli = PLAN_UNLIMITED };
    else
        read_quota(r, f, n, base);
}

static const struct type type_node = {
    .expected = "the name of a node", .read = read_name,
};
static const struct type type_tenant = {
    .expected = "the name of a tenant", .read = read_name,
};
static const struct type type_more = {
    .expected = "a whole number from 1 to 10000", .read = read_count,
};
static const struct type type_weight = {
    .expected = "a whole number from 1 to 1000000", .read = read_weight,
};
static const struct type type_quota = {
    .expected = "a number of GPUs from 0 to 1000000", .read = read_quota,
};
static const struct type type_max = {
    .expected = "a number of GPUs from 0 to 1000000, or unlimited",
    .read = read_max,
};

/* ---- rows of lists ---- */

static const struct field node_fields[] = {
    FIELD("like", &type_node, whatif_more, like, "which one"),
    FIELD("count", &type_more, whatif_more, count, "how many; 1 unless said"),
};
static const struct table table_node = {
    "a row of nodes", node_fields, array_size(node_fields)
};

static const struct field tenant_fields[] = {
    FIELD("name", &type_tenant, whatif_tenant, name, "whose"),
    FIELD("quota", &type_quota, whatif_tenant, quota, "guaranteed GPUs"),
    FIELD("weight", &type_weight, whatif_tenant, weight, "of its share"),
    FIELD("max_gpus", &type_max, whatif_tenant, max, "at most so many"),
};
static const struct table table_tenant = {
    "a row of tenants", tenant_fields, array_size(tenant_fields)
};

/* Zeroed, and room for one at least; NULL after a problem was noted. */
static void *list_of(struct reader *r, const struct field *f,
                     const struct node *n, size_t size)
{
    if (n->kind == NODE_LIST)
        return spec_arena_alloc(r->scratch, (n->count + 1) * size);
    reader_expected(r, n, f->type->expected);
    return NULL;
}

/* The first member of a row is its name, without which it says nothing. */
static bool read_row(struct reader *r, const struct table *t,
                     const struct node *n, void *row)
{
    const char *const *name = field_member(&t->fields[0], row);
    size_t before = reader_problems(r);

    field_read_table(r, t, n, row);
    if (!*name && reader_problems(r) == before)
        reader_problem(r, n, "missing key '%s'", t->fields[0].name);
    return *name != NULL;
}

static void read_nodes(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    struct whatif_changes *c = base;
    uint32_t sum = 0;

    c->nmore = 0;
    c->more = list_of(r, f, n, sizeof(*c->more));
    for (uint32_t i = 0; c->more && i < n->count; i++) {
        struct whatif_more *row = &c->more[c->nmore++];

        row->count = 1;
        reader_push_index(r, i);
        (void) read_row(r, &table_node, n->items[i], row);
        reader_pop(r);
        sum += row->count;
        if (sum > MORE_NODES) {
            reader_problem(r, n->items[i], "more than %d nodes in all",
                           MORE_NODES);
            return;
        }
    }
}

static void read_without(struct reader *r, const struct field *f,
                         const struct node *n, void *base)
{
    const struct field item = FIELD("", &type_node, whatif_more, like, "");
    struct whatif_changes *c = base;

    c->nwithout = 0;
    c->without = list_of(r, f, n, sizeof(*c->without));
    for (uint32_t i = 0; c->without && i < n->count; i++) {
        const char *name;

        reader_push_index(r, i);
        name = text_of(r, &item, n->items[i]);
        for (uint32_t k = 0; name && k < c->nwithout; k++)
            if (strcmp(c->without[k], name) == 0)
                reader_problem(r, n->items[i], "'%s' goes already",
                               quoted(name).s);
        if (name)
            c->without[c->nwithout++] = name;
        reader_pop(r);
    }
}

static void read_tenants(struct reader *r, const struct field *f,
                         const struct node *n, void *base)
{
    struct whatif_changes *c = base;

    c->ntenants = 0;
    c->tenants = list_of(r, f, n, sizeof(*c->tenants));
    for (uint32_t i = 0; c->tenants && i < n->count; i++) {
        struct whatif_tenant *row = &c->tenants[c->ntenants];

        reader_push_index(r, i);
        if (read_row(r, &table_tenant, n->items[i], row)) {
            if (whatif_tenant_find(c, row->name))
                reader_problem(r, n->items[i], "'%s' has a row already",
                               quoted(row->name).s);
            c->ntenants++;
        }
        reader_pop(r);
    }
}

static void read_policy(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    struct whatif_changes *c = base;

    (void) f;
    json_decref(c->policy);
    c->policy = policy_doc_fields(r, n);
}

static const struct type type_nodes = {
    .expected = "a list such as [{like: NODE, count: 2}]", .read = read_nodes,
};
static const struct type type_without = {
    .expected = "a list of nodes", .read = read_without,
};
static const struct type type_tenants = {
    .expected = "a list such as [{name: TENANT, quota: 8}]",
    .read = read_tenants,
};
static const struct type type_policy = {
    .expected = "fields of the policy", .read = read_policy,
};

static const struct field fields[] = {
    FIELD("nodes", &type_nodes, whatif_changes, more, "so many more"),
    FIELD("without", &type_without, whatif_changes, without, "these go"),
    FIELD("tenants", &type_tenants, whatif_changes, tenants, "these differ"),
    FIELD("policy", &type_policy, whatif_changes, policy, "and these fields"),
};
static const struct table table_changes = {
    "the changes", fields, array_size(fields)
};

/* ---- the whole ---- */

const struct whatif_tenant *whatif_tenant_find(const struct whatif_changes *c,
                                               const char *name)
{
    for (uint32_t i = 0; c && i < c->ntenants; i++)
        if (strcmp(c->tenants[i].name, name) == 0)
            return &c->tenants[i];
    return NULL;
}

void whatif_changes_free(struct whatif_changes *c)
{
    if (!c)
        return;
    json_decref(c->policy);
    spec_arena_free(c->arena);
    free(c);
}

static void read_text(struct reader *r, const char *text, size_t len,
                      struct whatif_changes *c)
{
    const struct node *root;
    struct node_fault fault;

    if (node_read(text, len, c->arena, &root, &fault) < 0)
        reader_problem_at(r, fault.line, fault.column, "%s", fault.text);
    else if (root->weight > VALUES_MAX)
        reader_problem(r, NULL, "more than %d values, aliases written out",
                       VALUES_MAX);
    else
        field_read_table(r, &table_changes, root, c);
}

int whatif_read(const char *name, const char *text, size_t len,
                struct whatif_changes **ret, struct err *err)
{
    struct whatif_changes *c = mem_new(sizeof(*c));
    struct doc_problems problems = { 0 };
    struct reader r = { .problems = &problems };
    int rc = 0;

    r.scratch = c->arena = spec_arena_new();
    read_text(&r, text, len, c);
    reader_sort(&r);
    if (reader_problems(&r) > 0) {
        rc = doc_problems_err(&problems, name, EINVAL, err);
        whatif_changes_free(c);
    } else {
        *ret = c;
    }
    doc_problems_free(&problems);
    return rc;
}

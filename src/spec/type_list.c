#include "spec/type.h"

#include "base/mem.h"
#include "spec/reader.h"
#include "spec/template.h"

#include <string.h>

enum { MAX_WORD = 128, MAX_LABEL = 256, MAX_MODELS = 64 };

#define ITEM "{\"type\":[\"string\",\"number\",\"boolean\"]}"
#define ITEM_OR_LIST \
    "{\"anyOf\":[" ITEM ",{\"type\":\"array\",\"minItems\":1,\"items\":" \
    ITEM "}]}"
#define MAPPING \
    "{\"type\":\"object\",\"additionalProperties\":" ITEM "}"

static void put_list(const struct field *f, void *base, const void *v,
                     uint32_t n)
{
    *(const void **) field_member(f, base) = v;
    *(uint32_t *) (void *) ((char *) base + f->count_at) = n;
}

static bool short_enough(struct reader *r, const struct node *n,
                         const char *s, size_t max)
{
    if (strlen(s) <= max)
        return true;
    reader_problem(r, n, "%zu bytes long; at most %zu are allowed", strlen(s),
                   max);
    return false;
}

static bool few_enough(struct reader *r, const struct node *n, uint32_t max)
{
    if (n->count <= max)
        return true;
    reader_problem(r, n, "%u entries; at most %u are allowed", n->count, max);
    return false;
}

/* A list of texts, or where `single` one text for a list of one.  The list
 * ends with NULL.  NULL is returned after a problem.
 */
static const char **read_texts(struct reader *r, const struct field *f,
                               const struct node *n, bool single,
                               size_t max_len, uint32_t max, uint32_t *ret_n)
{
    const struct node *const one[] = { n };
    const struct node *const *items = n->kind == NODE_LIST ? n->items : one;
    uint32_t count = n->kind == NODE_LIST ? n->count : 1;
    size_t before = reader_problems(r);
    const char **v;

    if ((n->kind != NODE_LIST && !single) || count == 0) {
        reader_expected(r, n, f->type->expected);
        return NULL;
    }
    if (n->kind == NODE_LIST && !few_enough(r, n, max))
        return NULL;
    v = spec_alloc(r->spec, (count + 1) * sizeof(*v));
    for (uint32_t i = 0; i < count; i++) {
        const char *s;

        if (n->kind == NODE_LIST)
            reader_push_index(r, i);
        s = reader_text(r, items[i], n->kind == NODE_LIST ? "a text"
                                                         : f->type->expected);
        if (s && short_enough(r, items[i], s, max_len))
            v[i] = spec_str(r->spec, s, strlen(s));
        if (n->kind == NODE_LIST)
            reader_pop(r);
    }
    *ret_n = count;
    return reader_problems(r) == before ? v : NULL;
}

static void read_argv(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    uint32_t count;
    const char **v = read_texts(r, f, n, false, SPEC_MAX_TEXT, SPEC_MAX_LIST,
                                &count);

    if (v && !v[0][0])
        reader_problem(r, n, "the first entry names the program and is empty");
    else if (v)
        *(const char ***) field_member(f, base) = v;
}

static void read_names(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    uint32_t count;
    const char **v = read_texts(r, f, n, true, MAX_WORD, MAX_MODELS, &count);

    for (uint32_t i = 0; v && i < count; i++)
        if (!v[i][0]) {
            reader_problem(r, n, "a name is empty");
            return;
        }
    if (v)
        put_list(f, base, v, count);
}

const struct type type_argv = {
    .expected = "a list of texts such as [python3, train.py]",
    .read = read_argv,
    .schema = "{\"type\":\"array\",\"minItems\":1,\"items\":" ITEM "}",
};
const struct type type_names = {
    .expected = "a name or a list of names",
    .read = read_names,
    .schema = ITEM_OR_LIST,
};

/* -- mappings of texts ---------------------------------------------------- */

static void read_pairs(struct reader *r, const struct field *f,
                       const struct node *n, void *base, size_t max_len,
                       bool (*valid)(const char *), const char *key_expected)
{
    size_t before = reader_problems(r);
    struct spec_pair *v;

    if (!reader_mapping(r, n, f->type->expected) ||
        !few_enough(r, n, SPEC_MAX_LIST))
        return;
    v = spec_alloc(r->spec, n->count * sizeof(*v));
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *key = n->members[i].key;
        const struct node *value = n->members[i].value;
        const char *s;

        if (!valid(key->text))
            reader_problem(r, key, "expected %s, got '%s'", key_expected,
                           quoted(key->text).s);
        reader_push(r, key->text);
        s = reader_text(r, value, "a text (\"\" for an empty one)");
        if (s && short_enough(r, value, s, max_len)) {
            v[i].key = spec_str(r->spec, key->text, key->count);
            v[i].value = spec_str(r->spec, s, strlen(s));
        }
        reader_pop(r);
    }
    if (reader_problems(r) == before)
        put_list(f, base, n->count ? v : NULL, n->count);
}

static void read_env(struct reader *r, const struct field *f,
                     const struct node *n, void *base)
{
    read_pairs(r, f, n, base, SPEC_MAX_TEXT, spec_env_valid,
               "the name of a variable (letters, digits and '_'; not WEIR_... "
               "or CUDA_VISIBLE_DEVICES, which Weir sets)");
}

static void read_labels(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    read_pairs(r, f, n, base, MAX_LABEL, spec_name_valid, "a name");
}

const struct type type_env = {
    .expected = "a mapping of names to texts",
    .read = read_env,
    .schema = MAPPING,
};
const struct type type_labels = {
    .expected = "a mapping of names to texts",
    .read = read_labels,
    .schema = MAPPING,
};

/* -- mounts --------------------------------------------------------------- */

static void read_mounts(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    size_t before = reader_problems(r);
    struct spec_pair *v;

    if (n->kind != NODE_LIST) {
        reader_expected(r, n, f->type->expected);
        return;
    }
    if (!few_enough(r, n, SPEC_MAX_LIST))
        return;
    v = spec_alloc(r->spec, n->count * sizeof(*v));
    for (uint32_t i = 0; i < n->count; i++) {
        size_t mine = reader_problems(r);

        reader_push_index(r, i);
        field_read_table(r, f->table, n->items[i], &v[i]);
        if (reader_problems(r) == mine && (!v[i].key || !v[i].value))
            reader_problem(r, n->items[i], "missing key '%s'",
                           v[i].key ? "target" : "source");
        reader_pop(r);
    }
    if (reader_problems(r) == before)
        put_list(f, base, n->count ? v : NULL, n->count);
}

const struct type type_mounts = {
    .expected = "a list of mappings with source and target",
    .read = read_mounts,
};

/* -- mappings with known keys --------------------------------------------- */

static void read_object(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    field_read_table(r, f->table, n, base);
}

static void read_checkpoint(struct reader *r, const struct field *f,
                            const struct node *n, void *base)
{
    bool signal = false, command = false;

    field_read_table(r, f->table, n, base);
    for (uint32_t i = 0; n->kind == NODE_MAPPING && i < n->count; i++) {
        signal |= strcmp(n->members[i].key->text, "signal") == 0;
        command |= strcmp(n->members[i].key->text, "command") == 0;
    }
    if (signal && command)
        reader_problem(r, n, "has both 'signal' and 'command'; write one of "
                       "them");
}

static void read_stop(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const struct spec_task *t = &((const struct draft *) base)->task;
    size_t before = reader_problems(r);

    field_read_table(r, f->table, n, base);
    if (reader_problems(r) == before && (!t->still_metric || !t->still_ms))
        reader_problem(r, n, "missing key '%s'",
                       t->still_metric ? "still_for" : "metric");
}

/* `retries: 3` is short for `retries: {count: 3}`. */
static void read_retries(struct reader *r, const struct field *f,
                         const struct node *n, void *base)
{
    const struct field *count = field_find(f->table, "count", USE_PART);

    if (n->kind == NODE_MAPPING)
        field_read_table(r, f->table, n, base);
    else if (n->kind == NODE_LIST)
        reader_expected(r, n, f->type->expected);
    else
        count->type->read(r, count, n, base);
}

/* `ranks: 4` is short for `ranks: {min: 4}`. */
static void read_gang(struct reader *r, const struct field *f,
                      const struct node *n, void *base)
{
    const struct field *min = field_find(f->table, "min", USE_PART);
    const struct spec_task *t = &((const struct draft *) base)->task;
    size_t before = reader_problems(r);

    if (n->kind == NODE_MAPPING)
        field_read_table(r, f->table, n, base);
    else if (n->kind == NODE_LIST)
        reader_expected(r, n, f->type->expected);
    else
        min->type->read(r, min, n, base);
    if (reader_problems(r) == before && t->ranks_max &&
        t->ranks_max < t->ranks)
        reader_problem(r, n, "'max' is %u and 'min' is %u; the most cannot be "
                       "fewer than the least", t->ranks_max, t->ranks);
}

const struct type type_gang = {
    .expected = "a number of ranks, or a mapping of min and max",
    .read = read_gang,
};
const struct type type_object = { .expected = "a mapping",
                                  .read = read_object };
const struct type type_checkpoint = { .expected = "a mapping",
                                      .read = read_checkpoint };
const struct type type_stop = {
    .expected = "a mapping such as {metric: loss, still_for: 20m}",
    .read = read_stop,
};
const struct type type_retries = {
    .expected = "a number, or a mapping of count, backoff and on",
    .read = read_retries,
};

/* -- of tasks only -------------------------------------------------------- */

static void read_needs(struct reader *r, const struct field *f,
                       const struct node *n, void *base)
{
    const struct node *const one[] = { n };
    const struct node *const *items = n->kind == NODE_LIST ? n->items : one;
    uint32_t count = n->kind == NODE_LIST ? n->count : 1;
    struct needs *needs = spec_arena_alloc(r->scratch, sizeof(*needs));

    if (n->kind == NODE_MAPPING) {
        reader_expected(r, n, f->type->expected);
        return;
    }
    needs->names = spec_arena_alloc(r->scratch, count * sizeof(*needs->names));
    needs->at = spec_arena_alloc(r->scratch, count * sizeof(void *));
    for (uint32_t i = 0; i < count; i++) {
        const char *s = reader_text(r, items[i], f->type->expected);

        if (!s)
            continue;
        needs->names[needs->count] = reader_keep(r, items[i], s);
        needs->at[needs->count++] = items[i];
    }
    *(struct needs **) field_member(f, base) = needs;
}

const struct type type_needs = {
    .expected = "the name of a task or a list of them",
    .read = read_needs,
    .schema = "{\"anyOf\":[" ITEM ",{\"type\":\"array\",\"items\":" ITEM "}]}",
};

static bool twice(const struct axis *axis, const char *value)
{
    for (uint32_t i = 0; i < axis->count; i++)
        if (strcmp(axis->values[i], value) == 0)
            return true;
    return false;
}

static void read_axis(struct reader *r, const struct field *f,
                      const struct node *n, struct axis *axis)
{
    if (n->kind != NODE_LIST || n->count == 0) {
        reader_expected(r, n, "a list of values");
        return;
    }
    axis->values = spec_arena_alloc(r->scratch,
                                    n->count * sizeof(*axis->values));
    for (uint32_t i = 0; i < n->count; i++) {
        const char *s = reader_text(r, n->items[i], f->type->expected);

        if (!s)
            continue;
        /* Comparing few values is enough: two tasks of one name are refused
         * in any case, only in less clear words.
         */
        if (i < 256 && twice(axis, s))
            reader_problem(r, n->items[i], "the value '%s' is there twice",
                           quoted(s).s);
        axis->values[axis->count++] = reader_keep(r, n->items[i], s);
    }
}

static bool axis_name(struct reader *r, const struct node *key)
{
    if (!template_name_valid(key->text)) {
        reader_problem(r, key, "expected a name (a letter, then letters, "
                       "digits, '_' and '-'), got '%s'", quoted(key->text).s);
        return false;
    }
    if (reader_param(r, key->text)) {
        reader_problem(r, key, "'%s' is a parameter already", key->text);
        return false;
    }
    return true;
}

static void read_matrix(struct reader *r, const struct field *f,
                        const struct node *n, void *base)
{
    struct matrix *m = spec_arena_alloc(r->scratch, sizeof(*m));
    size_t before = reader_problems(r);

    if (!reader_mapping(r, n, f->type->expected))
        return;
    if (n->count == 0 || n->count > READER_MATRIX) {
        reader_problem(r, n, "%u names; expected 1 to %d", n->count,
                       READER_MATRIX);
        return;
    }
    for (uint32_t i = 0; i < n->count; i++) {
        struct axis *axis = &m->axes[m->naxes++];

        axis->name = n->members[i].key->text;
        reader_push(r, axis->name);
        if (axis_name(r, n->members[i].key))
            read_axis(r, f, n->members[i].value, axis);
        reader_pop(r);
    }
    if (reader_problems(r) == before)
        *(struct matrix **) field_member(f, base) = m;
}

const struct type type_matrix = {
    .expected = "a mapping of names to lists of values, such as "
                "{lr: [0.1, 0.01]}",
    .read = read_matrix,
    .schema = "{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":16,"
              "\"additionalProperties\":{\"type\":\"array\",\"minItems\":1,"
              "\"items\":" ITEM "}}",
};

#include "sim/openb.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "sim/csv.h"
#include "sim/pack.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 4, CPU_MAX = 1000000000, MEMORY_MAX = 1000000000 };

/* ---- nodes ---- */

static int find_model(struct pack_list *l, const char *name, uint8_t *ret)
{
    size_t i = 0;

    while (i < l->nmodels && strcmp(l->models[i], name) != 0)
        i++;
    if (i == PACK_MODELS)
        return -E2BIG;
    if (i == l->nmodels)
        l->models[l->nmodels++] = mem_str(name);
    *ret = (uint8_t) i;
    return 0;
}

static int add_node(const struct csv *c, const int *at, struct pack_list *l,
                    struct err *err)
{
    struct pack_node n = { 0 };
    uint64_t cpu = 0, memory = 0, gpus = 0;
    int rc = csv_count(c, at[0], CPU_MAX, &cpu, err);

    if (rc == 0)
        rc = csv_count(c, at[1], MEMORY_MAX, &memory, err);
    if (rc == 0)
        rc = csv_count(c, at[2], PACK_GPUS, &gpus, err);
    if (rc < 0)
        return rc;
    if (l->nnodes == PACK_NODES)
        return err_set(err, E2BIG, "%s: more than %d nodes", c->name,
                       PACK_NODES);
    if (find_model(l, c->value[at[3]], &n.model) < 0)
        return err_set(err, E2BIG, "%s:%zu: more than %d models", c->name,
                       c->line, PACK_MODELS);
    n.cpu = (int64_t) cpu;
    n.memory = (int64_t) memory;
    n.gpus = (uint8_t) gpus;
    for (unsigned g = 0; g < gpus; g++)
        n.left[g] = PACK_WHOLE;
    n.free = (int32_t) gpus * PACK_WHOLE;
    l->nodes = mem_more(l->nodes, l->nnodes, sizeof *l->nodes);
    l->nodes[l->nnodes++] = n;
    return 0;
}

static int open_columns(struct csv *c, const char *name, char *text,
                        size_t len, const char *const names[COLUMNS],
                        int at[COLUMNS], struct err *err)
{
    int rc = csv_open(c, name, text, len, err);

    for (size_t i = 0; rc == 0 && i < COLUMNS; i++)
        rc = csv_need(c, names[i], &at[i], err);
    return rc;
}

static int read_nodes(const char *name, char *text, size_t len,
                      struct pack_list *l, struct err *err)
{
    static const char *const names[COLUMNS] = { "cpu_milli", "memory_mib", "gpu",
                                         "model" };
    int at[COLUMNS] = { 0 };
    struct csv c;
    int rc = open_columns(&c, name, text, len, names, at, err);

    if (rc < 0)
        return rc;
    while ((rc = csv_next(&c, err)) > 0) {
        rc = add_node(&c, at, l, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && l->nnodes == 0)
        rc = err_set(err, EINVAL, "%s has no nodes", name);
    return rc;
}

/* ---- pods ---- */

/* "P100|T4" as bits; a model that no node has is no bit. */
static uint64_t model_bits(const struct pack_list *l, const char *spec)
{
    uint64_t bits = 0;

    if (!*spec)
        return UINT64_MAX;
    for (const char *s = spec; *s; s += *s == '|') {
        size_t n = strcspn(s, "|");

        for (size_t i = 0; i < l->nmodels; i++)
            if (strncmp(l->models[i], s, n) == 0 && !l->models[i][n])
                bits |= UINT64_C(1) << i;
        s += n;
    }
    return bits;
}

/* The place of this shape, made when it is new.  `seen` maps to places + 1. */
static uint32_t find_shape(struct pack_list *l, struct map *seen,
                           const struct pack_shape *s, const char *spec)
{
    autofree char *key = mem_printf("%lld,%u,%u,%s", (long long) s->cpu,
                                    s->gpus, s->milli, spec);
    size_t at = (size_t) (uintptr_t) map_get(seen, key);

    if (at)
        return (uint32_t) (at - 1);
    l->shapes = mem_more(l->shapes, l->nshapes, sizeof *l->shapes);
    l->shapes[l->nshapes] = *s;
    l->shapes[l->nshapes].spec = mem_str(spec);
    l->shapes[l->nshapes].models = model_bits(l, spec);
    l->nshapes++;
    (void) map_set(seen, key, (void *) (uintptr_t) l->nshapes);
    return (uint32_t) (l->nshapes - 1);
}

static int check_gpus(const struct csv *c, uint64_t gpus, uint64_t milli,
                      struct err *err)
{
    if (gpus > 1 && milli != PACK_WHOLE)
        return err_set(err, EINVAL, "%s:%zu: more than one GPU are whole "
                       "GPUs: gpu_milli must be %d", c->name, c->line,
                       PACK_WHOLE);
    if (gpus == 1 && milli == 0)
        return err_set(err, EINVAL, "%s:%zu: gpu_milli of one GPU is 1 to %d",
                       c->name, c->line, PACK_WHOLE);
    return 0;
}

static int add_pod(const struct csv *c, const int *at, int spec,
                   struct pack_list *l, struct map *seen, struct err *err)
{
    uint64_t cpu = 0, memory = 0, gpus = 0, milli = 0;
    int rc = csv_count(c, at[0], CPU_MAX, &cpu, err);

    if (rc == 0)
        rc = csv_count(c, at[1], MEMORY_MAX, &memory, err);
    if (rc == 0)
        rc = csv_count(c, at[2], PACK_GPUS, &gpus, err);
    if (rc == 0)
        rc = csv_count(c, at[3], PACK_WHOLE, &milli, err);
    if (rc == 0)
        rc = check_gpus(c, gpus, milli, err);
    if (rc == 0 && l->npods == PACK_PODS)
        rc = err_set(err, E2BIG, "%s: more than %d pods", c->name, PACK_PODS);
    if (rc < 0)
        return rc;

    struct pack_shape s = {
        .cpu = (int64_t) cpu, .gpus = (uint8_t) gpus,
        .milli = gpus ? (uint16_t) milli : 0,
    };
    uint32_t shape = find_shape(l, seen, &s, spec < 0 ? "" : c->value[spec]);

    l->pods = mem_more(l->pods, l->npods, sizeof *l->pods);
    l->pods[l->npods++] = (struct pack_pod) { .memory = (int64_t) memory,
                                              .shape = shape };
    assert(shape < l->nshapes && l->shapes);
    l->shapes[shape].count++;
    return 0;
}

static int read_pods(const char *name, char *text, size_t len,
                     struct pack_list *l, struct map *seen, struct err *err)
{
    static const char *const names[COLUMNS] = { "cpu_milli", "memory_mib", "num_gpu",
                                         "gpu_milli" };
    int at[COLUMNS] = { 0 }, spec;
    struct csv c;
    int rc = open_columns(&c, name, text, len, names, at, err);

    if (rc < 0)
        return rc;
    spec = csv_find(&c, "gpu_spec");
    while ((rc = csv_next(&c, err)) > 0) {
        rc = add_pod(&c, at, spec, l, seen, err);
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && l->npods == 0)
        rc = err_set(err, EINVAL, "%s has no pods", name);
    return rc;
}

int openb_read(const char *nodes_name, char *nodes, size_t nodes_len,
               const char *pods_name, char *pods, size_t pods_len,
               struct pack_list *ret, struct err *err)
{
    struct pack_list l = { 0 };
    struct map *seen = map_new();
    int rc = read_nodes(nodes_name, nodes, nodes_len, &l, err);

    if (rc == 0)
        rc = read_pods(pods_name, pods, pods_len, &l, seen, err);
    map_free(seen);
    if (rc < 0) {
        pack_list_free(&l);
        return rc;
    }
    *ret = l;
    return 0;
}

/* ---- order ---- */

/* The next word of a line, terminated; NULL at its end. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \r");
    size_t n = strcspn(word, " \r");

    if (n == 0)
        return NULL;
    *at = word + n;
    if (**at)
        *(*at)++ = '\0';
    return word;
}

static int next_count(char **at, uint64_t *ret, struct err *err)
{
    const char *word = next_word(at);

    if (!word)
        return err_set(err, EINVAL, "a number is missing");
    return quantity_count(word, ret, err);
}

/* "SEED N I...": the N numbers, each below `below`. */
static int read_numbers(char *line, size_t most, uint64_t below,
                        uint32_t **ret, size_t *ret_n, struct err *err)
{
    autofree uint32_t *list = NULL;
    uint64_t n = 0, v = 0;
    int rc = next_count(&line, &n, err);

    if (rc < 0)
        return rc;
    if (n > most)
        return err_set(err, E2BIG, "more than %zu places", most);
    list = mem_array(n ? n : 1, sizeof *list);
    for (size_t i = 0; i < n; i++) {
        rc = next_count(&line, &v, err);
        if (rc < 0)
            return rc;
        if (v >= below)
            return err_set(err, ERANGE, "%llu is beyond the list",
                           (unsigned long long) v);
        list[i] = (uint32_t) v;
    }
    if (next_word(&line))
        return err_set(err, EINVAL, "more than %llu places",
                       (unsigned long long) n);
    free(*ret);
    *ret = take(list);
    *ret_n = n;
    return 0;
}

/* One line: taken when it is of this seed. */
static int order_line(char *line, uint64_t seed, const struct pack_list *l,
                      struct pack_order *o, size_t *nodes, struct err *err)
{
    const char *word = next_word(&line);
    uint64_t s = 0;
    bool pods;
    int rc;

    if (!word || word[0] == '#')
        return 0;
    pods = strcmp(word, "pods") == 0;
    if (!pods && strcmp(word, "nodes") != 0)
        return err_set(err, EINVAL, "'%.20s' is neither 'pods' nor 'nodes'",
                       word);
    rc = next_count(&line, &s, err);
    if (rc < 0 || s != seed)
        return rc;
    if (pods)
        return read_numbers(line, PACK_PODS, l->npods, &o->pods, &o->npods,
                            err);
    return read_numbers(line, PACK_NODES, UINT32_MAX, &o->first, nodes, err);
}

int openb_order(const char *name, char *text, size_t len, uint64_t seed,
                const struct pack_list *l, struct pack_order *ret,
                struct err *err)
{
    struct pack_order o = { 0 };
    char *end = text + len;
    size_t nodes = 0;
    int rc = 0;

    for (size_t n = 1; rc == 0 && text < end; n++) {
        char *stop = memchr(text, '\n', (size_t) (end - text));

        if (!stop)
            stop = end;
        *stop = '\0';
        rc = order_line(text, seed, l, &o, &nodes, err);
        if (rc < 0)
            (void) err_prefix(err, rc, "%s:%zu", name, n);
        text = stop + 1;
    }
    if (rc == 0 && (!o.pods || !o.first))
        rc = err_set(err, ENOENT, "%s has no order for seed %llu", name,
                     (unsigned long long) seed);
    if (rc == 0 && nodes != l->nnodes)
        rc = err_set(err, EINVAL, "%s ranks %zu nodes where there are %zu",
                     name, nodes, l->nnodes);
    if (rc < 0) {
        pack_order_free(&o);
        return rc;
    }
    *ret = o;
    return 0;
}

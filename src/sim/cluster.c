#include "sim/cluster.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static uint64_t *level_of(const struct cluster *c, unsigned gpus)
{
    return c->level + gpus * c->words;
}

static void set_free(struct cluster *c, size_t node, unsigned gpus)
{
    uint64_t bit = UINT64_C(1) << node % 64;

    c->idle = c->idle - c->free[node] + gpus;
    c->idle_of[node / c->each] += gpus - c->free[node];
    level_of(c, c->free[node])[node / 64] &= ~bit;
    level_of(c, gpus)[node / 64] |= bit;
    c->free[node] = (uint8_t) gpus;
}

static void make(struct cluster *c)
{
    c->words = (c->nodes + 63) / 64;
    c->each = c->nodes / c->clusters;
    c->idle_of = mem_array(c->clusters, sizeof *c->idle_of);
    c->free = mem_array(c->nodes, sizeof *c->free);
    c->level = mem_array((c->gpus + 1) * c->words, sizeof *c->level);
    cluster_clear(c);
}

/* A count and what comes after it: an 'x', or the end. */
static int parse_count(const char **at, uint64_t *ret, struct err *err)
{
    size_t n = strcspn(*at, "x");
    autofree char *part = mem_strn(*at, n);
    int rc = quantity_count(part, ret, err);

    if (rc == 0 && *ret == 0)
        return err_set(err, EINVAL, "0");
    *at += n + ((*at)[n] == 'x');
    return rc;
}

/* One of the parts between '+': clusters, nodes, GPUs of each. */
static int parse_counts(const char *text, const char *spec, uint64_t *v,
                        struct err *err)
{
    const char *at = text;
    size_t counts = 1;

    for (const char *s = text; *s; s++)
        counts += *s == 'x';
    v[0] = 1;
    for (size_t i = counts == 3 ? 0 : 1; i < 3; i++)
        if ((counts != 2 && counts != 3) || parse_count(&at, &v[i], err) < 0)
            return err_set(err, EINVAL, "'%.40s' is neither NODESxGPUS nor "
                           "CLUSTERSxNODESxGPUS", spec);
    if (v[2] > CLUSTER_GPUS || v[0] > CLUSTER_NODES ||
        v[1] > CLUSTER_NODES / v[0])
        return err_set(err, E2BIG, "'%.40s': at most %d nodes of %d GPUs",
                       spec, CLUSTER_NODES, CLUSTER_GPUS);
    return 0;
}

static int add_part(struct cluster *c, char *text, const char *spec,
                    struct err *err)
{
    struct cluster_model *m = &c->models[c->nmodels];
    char *model = strchr(text, ':');
    uint64_t v[3];
    int rc;

    if (model)
        *model++ = '\0';
    rc = parse_counts(text, spec, v, err);
    if (rc < 0)
        return rc;
    if (model && (*model == '\0' || strlen(model) >= sizeof m->name ||
                  strpbrk(model, ",:\"")))
        return err_set(err, EINVAL, "'%.40s': a model has 1 to %zu letters, "
                       "none of them a comma, a colon or a quote", spec,
                       sizeof m->name - 1);
    if (c->nmodels > 0 && (v[0] > 1 || c->clusters > 1 || v[2] != c->gpus))
        return err_set(err, EINVAL, "'%.40s': nodes of several models have as "
                       "many GPUs each and are one cluster", spec);
    c->clusters = (unsigned) v[0];
    c->nodes += (unsigned) (v[0] * v[1]);
    c->gpus = (unsigned) v[2];
    (void) strncpy(m->name, model ? model : "simulated", sizeof m->name - 1);
    m->until = c->nodes;
    c->nmodels++;
    return 0;
}

int cluster_parse(const char *spec, struct cluster *ret, struct err *err)
{
    autofree char *text = mem_str(spec);
    struct cluster c = { 0 };
    char *at = text;
    int rc;

    do {
        if (c.nmodels == CLUSTER_MODELS)
            return err_set(err, E2BIG, "'%.40s': at most %d models", spec,
                           CLUSTER_MODELS);
        rc = add_part(&c, strsep(&at, "+"), spec, err);
        if (rc < 0)
            return rc;
    } while (at);
    if (c.nodes > CLUSTER_NODES)
        return err_set(err, E2BIG, "'%.40s': at most %d nodes", spec,
                       CLUSTER_NODES);
    make(&c);
    *ret = c;
    return 0;
}

const char *cluster_model(const struct cluster *c, unsigned node)
{
    unsigned k = 0;

    while (node >= c->models[k].until)
        k++;
    return c->models[k].name;
}

void cluster_free(struct cluster *c)
{
    free(c->free);
    free(c->level);
    free(c->idle_of);
    *c = (struct cluster) { 0 };
}

void cluster_clear(struct cluster *c)
{
    size_t bytes = c->words * sizeof *c->level;

    memset(c->level, 0, (c->gpus + 1) * bytes);
    memset(c->free, (int) c->gpus, c->nodes);
    for (size_t i = 0; i < c->nodes; i++)
        level_of(c, c->gpus)[i / 64] |= UINT64_C(1) << i % 64;
    c->idle = c->nodes * c->gpus;
    for (size_t k = 0; k < c->clusters; k++)
        c->idle_of[k] = c->each * c->gpus;
}

void cluster_copy(struct cluster *to, const struct cluster *from)
{
    if (!to->free) {
        *to = *from;
        make(to);
    }
    memcpy(to->free, from->free, from->nodes);
    memcpy(to->level, from->level,
           (from->gpus + 1) * from->words * sizeof *to->level);
    memcpy(to->idle_of, from->idle_of,
           from->clusters * sizeof *to->idle_of);
    to->idle = from->idle;
}

size_t cluster_span(const struct cluster *c, unsigned gpus)
{
    return (gpus + c->gpus - 1) / c->gpus;
}

/* The bits of a word that are nodes from..to-1. */
static uint64_t window(size_t word, size_t from, size_t to)
{
    uint64_t bits = UINT64_MAX;

    if (from > word * 64)
        bits = from >= word * 64 + 64 ? 0 : bits << from % 64;
    if (to < word * 64 + 64)
        bits &= to <= word * 64 ? 0 : ~(UINT64_MAX << to % 64);
    return bits;
}

/* The lowest of the nodes from..to-1 with exactly, or with at least, so many
 * free; `to` when there is none.
 */
static size_t lowest(const struct cluster *c, unsigned low, unsigned high,
                     size_t from, size_t to)
{
    for (size_t w = from / 64; w * 64 < to; w++) {
        uint64_t bits = 0;

        for (unsigned f = low; f <= high; f++)
            bits |= level_of(c, f)[w];
        bits &= window(w, from, to);
        if (bits)
            return w * 64 + (size_t) __builtin_ctzll(bits);
    }
    return to;
}

static size_t find_node(const struct cluster *c, unsigned gpus, size_t from,
                        size_t to)
{
    if (c->first_fit)
        return lowest(c, gpus, c->gpus, from, to);
    for (unsigned f = gpus; f <= c->gpus; f++) {
        size_t node = lowest(c, f, f, from, to);

        if (node < to)
            return node;
    }
    return to;
}

static unsigned whole_nodes(const struct cluster *c, size_t from, size_t to)
{
    unsigned n = 0;

    for (size_t w = from / 64; w * 64 < to; w++)
        n += (unsigned) __builtin_popcountll(level_of(c, c->gpus)[w] &
                                             window(w, from, to));
    return n;
}

/* Whether the nodes from..to-1 have room for a gang larger than a node. */
static bool has_room(const struct cluster *c, unsigned gpus, size_t from,
                     size_t to)
{
    unsigned whole = gpus / c->gpus, rest = gpus % c->gpus;
    unsigned there = whole_nodes(c, from, to);

    if (there < whole)
        return false;
    return rest == 0 || there > whole ||
           (rest < c->gpus &&
            lowest(c, rest, c->gpus - 1, from, to) < to);
}

static bool fits_in(const struct cluster *c, unsigned gpus, size_t k)
{
    size_t from = k * c->each, to = from + c->each;

    if (gpus > c->idle_of[k])
        return false;
    if (gpus > c->gpus)
        return has_room(c, gpus, from, to);
    return lowest(c, gpus, c->gpus, from, to) < to;
}

/* The cluster to use; their number when none has room. */
static size_t find_cluster(const struct cluster *c, unsigned gpus, int only)
{
    size_t best = c->clusters;

    if (only != CLUSTER_ANY)
        return fits_in(c, gpus, (size_t) only) ? (size_t) only : best;
    for (size_t k = 0; k < c->clusters; k++)
        if ((best == c->clusters || c->idle_of[k] > c->idle_of[best]) &&
            fits_in(c, gpus, k))
            best = k;
    return best;
}

bool cluster_fits(const struct cluster *c, unsigned gpus, int only)
{
    return gpus <= c->idle && find_cluster(c, gpus, only) < c->clusters;
}

static unsigned part_of(const struct cluster *c, unsigned gpus)
{
    return gpus < c->gpus ? gpus : c->gpus;
}

bool cluster_take(struct cluster *c, unsigned gpus, int only,
                  uint32_t *nodes)
{
    size_t k = gpus > c->idle ? c->clusters : find_cluster(c, gpus, only);
    size_t from = k * c->each, to = from + c->each;

    if (k == c->clusters)
        return false;
    for (; gpus > 0; gpus -= part_of(c, gpus)) {
        size_t node = find_node(c, part_of(c, gpus), from, to);

        assert(node < to);
        set_free(c, node, c->free[node] - part_of(c, gpus));
        *nodes++ = (uint32_t) node;
    }
    return true;
}

void cluster_give(struct cluster *c, unsigned gpus, const uint32_t *nodes)
{
    for (; gpus > 0; gpus -= part_of(c, gpus), nodes++) {
        assert(c->free[*nodes] + part_of(c, gpus) <= c->gpus);
        set_free(c, *nodes, c->free[*nodes] + part_of(c, gpus));
    }
}

bool cluster_fits_at(const struct cluster *c, unsigned gpus,
                     const uint32_t *nodes)
{
    for (; gpus > 0; gpus -= part_of(c, gpus), nodes++)
        if (c->free[*nodes] < part_of(c, gpus))
            return false;
    return true;
}

void cluster_take_at(struct cluster *c, unsigned gpus, const uint32_t *nodes)
{
    for (; gpus > 0; gpus -= part_of(c, gpus), nodes++) {
        assert(c->free[*nodes] >= part_of(c, gpus));
        set_free(c, *nodes, c->free[*nodes] - part_of(c, gpus));
    }
}

#include "plan/plan_int.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Equal needs are one shape: found by a hash of everything that counts, and
 * compared in full, as two may have the same hash.
 */

/* ---- hash and compare ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_texts(uint64_t h, const char *const *list, uint32_t n)
{
    h = mix(h, n);
    for (uint32_t i = 0; i < n; i++) {
        for (const char *c = list[i]; *c; c++)
            h = (h ^ (unsigned char) *c) * UINT64_C(0x100000001b3);
        h = mix(h, 0xff);
    }
    return h;
}

/* What is to be interned: `had`: with exactly so many ranks of each part, or
 * none at all; NULL: as the parts say.  `settled`: see struct shape.
 */
struct wanted {
    const struct plan_part *parts;
    uint32_t nparts;
    enum plan_near near;
    bool one_pool, settled;
    const uint32_t *had;
};

/* At least one rank; no fewer at most than at least. */
static uint32_t least(const struct wanted *w, uint32_t k)
{
    if (w->had)
        return w->had[k];
    return w->parts[k].count ? w->parts[k].count : 1;
}

static uint32_t most(const struct wanted *w, uint32_t k)
{
    if (w->had)
        return w->had[k];
    return w->parts[k].max > least(w, k) ? w->parts[k].max : least(w, k);
}

static uint64_t hash_of(const struct wanted *w)
{
    uint64_t h = mix(mix(w->near, w->one_pool), w->settled);

    for (uint32_t k = 0; k < w->nparts; k++) {
        const struct plan_need *n = &w->parts[k].need;

        h = mix(mix(mix(h, least(w, k)), most(w, k)), n->gpu_milli);
        h = mix(mix(mix(h, n->cpu_milli), n->memory), n->gpu_memory);
        h = mix_texts(h, n->models, n->nmodels);
        h = mix_texts(h, n->labels, n->nlabels);
    }
    return h;
}

static bool same_texts(const char *const *a, uint32_t na,
                       const char *const *b, uint32_t nb)
{
    if (na != nb)
        return false;
    for (uint32_t i = 0; i < na; i++)
        if (strcmp(a[i], b[i]) != 0)
            return false;
    return true;
}

static bool same_need(const struct plan_need *a, const struct plan_need *b)
{
    return a->gpu_milli == b->gpu_milli && a->cpu_milli == b->cpu_milli &&
           a->memory == b->memory && a->gpu_memory == b->gpu_memory &&
           same_texts(a->models, a->nmodels, b->models, b->nmodels) &&
           same_texts(a->labels, a->nlabels, b->labels, b->nlabels);
}

static bool same(const struct shape *s, const struct wanted *w)
{
    if (s->nparts != w->nparts || s->near != w->near ||
        s->one_pool != w->one_pool || s->settled != w->settled)
        return false;
    for (uint32_t k = 0; k < s->nparts; k++)
        if (s->parts[k].count != least(w, k) ||
            s->parts[k].max != most(w, k) ||
            !same_need(&s->parts[k].need, &w->parts[k].need))
            return false;
    return true;
}

/* ---- models ---- */

static bool names_model(const struct part *q, const char *model)
{
    for (uint32_t i = 0; i < q->need.nmodels; i++)
        if (strcasecmp(q->need.models[i], model) == 0)
            return true;
    return q->need.nmodels == 0;
}

static void part_models(const struct plan *p, struct part *q)
{
    q->models = 0;
    for (uint32_t m = 0; m < p->nmodels; m++)
        if (names_model(q, p->models[m]))
            q->models |= UINT64_C(1) << (m < MODELS_LAST ? m : MODELS_LAST);
}

void shape_models(struct plan *p)
{
    for (uint32_t i = 0; i < p->nshapes; i++) {
        struct shape *s = p->shapes[i];

        score_count(p, s, -(int) s->refs);
        for (uint32_t k = 0; k < s->nparts; k++) {
            part_models(p, &s->parts[k]);
            s->parts[k].typical = NULL;
        }
        score_count(p, s, (int) s->refs);
    }
}

bool need_matches_device(const struct plan *p, const struct device *d,
                         const struct part *part)
{
    if (d->memory < part->need.gpu_memory)
        return false;
    if (part->need.nmodels == 0)
        return true;
    if (d->model < MODELS_LAST)
        return part->models >> d->model & 1;
    return names_model(part, p->models[d->model]);
}

bool need_has_labels(const struct plan_node *n, const struct part *part)
{
    for (uint32_t i = 0; i < part->need.nlabels; i++) {
        uint32_t k = 0;

        while (k < n->nlabels &&
               strcmp(n->labels[k], part->need.labels[i]) != 0)
            k++;
        if (k == n->nlabels)
            return false;
    }
    return true;
}

/* ---- make and free ---- */

static const char *const *copy_texts(const char *const *list, uint32_t n)
{
    char **ret = n ? mem_array(n, sizeof *ret) : NULL;

    for (uint32_t i = 0; i < n; i++)
        ret[i] = mem_str(list[i]);
    return (const char *const *) ret;
}

static void free_texts(const char *const *list, uint32_t n)
{
    union {
        const char *const *in;
        char **out;
    } u = { .in = list };

    for (uint32_t i = 0; i < n; i++)
        free(u.out[i]);
    free(u.out);
}

static void make_part(struct plan *p, struct part *q,
                      const struct wanted *w, uint32_t k)
{
    const struct plan_need *n = &w->parts[k].need;

    q->need = *n;
    q->need.models = copy_texts(n->models, n->nmodels);
    q->need.labels = copy_texts(n->labels, n->nlabels);
    q->count = least(w, k);
    q->max = most(w, k);
    if (n->gpu_milli >= 1000) {
        q->devices = n->gpu_milli / 1000;
        q->milli = 1000;
    } else if (n->gpu_milli > 0) {
        q->devices = 1;
        q->milli = n->gpu_milli;
    }
    part_models(p, q);
    if (q->devices == 0)
        q->home = mem_new(sizeof(*q->home));
}

static struct shape **bucket(const struct plan *p, uint64_t hash)
{
    return &p->buckets[hash & (p->nbuckets - 1)];
}

/* As many buckets as shapes, at least. */
static void link_shape(struct plan *p, struct shape *s)
{
    if (p->nshapes > p->nbuckets) {
        p->nbuckets = p->nbuckets ? 2 * p->nbuckets : 64;
        free(p->buckets);
        p->buckets = mem_array(p->nbuckets, sizeof(*p->buckets));
        for (uint32_t k = 0; k < p->nshapes; k++) {
            struct shape **at = bucket(p, p->shapes[k]->hash);

            p->shapes[k]->next = *at;
            *at = p->shapes[k];
        }
        return;
    }
    s->next = *bucket(p, s->hash);
    *bucket(p, s->hash) = s;
}

/* Where all have to be in one pool, those without a device go where the others
 * go, and who was suspended goes where its state can: there is no home to wait
 * for.
 */
static void set_homes(struct shape *s)
{
    struct home all = { 0 };

    for (uint32_t k = 0; k < s->nparts; k++) {
        const struct part *q = &s->parts[k];

        if (q->devices > 0)
            continue;
        all.ranks += q->count;
        if (q->need.cpu_milli > all.cpu_milli)
            all.cpu_milli = q->need.cpu_milli;
        if (q->need.memory > all.memory)
            all.memory = q->need.memory;
    }
    if ((s->one_pool && s->ranks > 1) || s->settled)
        all.ranks = UINT32_MAX;
    for (uint32_t k = 0; k < s->nparts; k++)
        if (s->parts[k].home)
            *s->parts[k].home = all;
}

/* Is a rank of the one harder to place than of the other? */
static bool is_harder(const struct part *a, const struct part *b)
{
    uint64_t ma = (uint64_t) a->devices * a->milli;
    uint64_t mb = (uint64_t) b->devices * b->milli;

    if (ma != mb)
        return ma > mb;
    if (!a->need.nmodels != !b->need.nmodels)
        return a->need.nmodels;
    if (!a->need.nlabels != !b->need.nlabels)
        return a->need.nlabels;
    if (a->need.gpu_memory != b->need.gpu_memory)
        return a->need.gpu_memory > b->need.gpu_memory;
    if (a->need.cpu_milli != b->need.cpu_milli)
        return a->need.cpu_milli > b->need.cpu_milli;
    return a->need.memory > b->need.memory;
}

/* Numbers of parts: the harder first, then the earlier. */
static int by_size(const void *va, const void *vb, void *arg)
{
    uint32_t a = *(const uint32_t *) va, b = *(const uint32_t *) vb;
    const struct part *parts = arg;

    if (is_harder(&parts[a], &parts[b]))
        return -1;
    return is_harder(&parts[b], &parts[a]) ? 1 : a < b ? -1 : a > b;
}

/* A set may have as many parts as a document has tasks. */
static void sort_parts(struct shape *s)
{
    s->by_size = mem_array(s->nparts, sizeof *s->by_size);
    for (uint32_t k = 0; k < s->nparts; k++)
        s->by_size[k] = k;
    qsort_r(s->by_size, s->nparts, sizeof *s->by_size, by_size, s->parts);
}

static struct shape *make(struct plan *p, const struct wanted *w,
                          uint64_t hash)
{
    struct shape *s = mem_new(sizeof *s);

    s->hash = hash;
    s->nparts = w->nparts;
    s->parts = mem_array(s->nparts, sizeof *s->parts);
    s->near = w->near;
    s->one_pool = w->one_pool;
    s->settled = w->settled;
    for (uint32_t k = 0; k < s->nparts; k++) {
        struct part *q = &s->parts[k];

        make_part(p, q, w, k);
        s->ranks += q->count;
        s->gpu_milli += (uint64_t) q->count * q->devices * q->milli;
        s->cpu_milli += q->count * q->need.cpu_milli;
        s->memory += q->count * q->need.memory;
        s->alone |= q->devices == 0;
    }
    set_homes(s);
    sort_parts(s);
    s->simple = s->nparts == 1 && s->parts[0].max == 1;
    if (p->nshapes == p->shapes_cap) {
        p->shapes_cap = p->shapes_cap ? 2 * p->shapes_cap : 16;
        p->shapes = mem_grow(p->shapes, p->shapes_cap, sizeof(*p->shapes));
    }
    s->index = p->nshapes;
    p->shapes[p->nshapes++] = s;
    link_shape(p, s);
    return s;
}

static void unmake(struct plan *p, struct shape *s)
{
    struct shape **at = bucket(p, s->hash);

    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    p->shapes[s->index] = p->shapes[--p->nshapes];
    p->shapes[s->index]->index = s->index;
    for (uint32_t k = 0; k < s->nparts; k++) {
        free_texts(s->parts[k].need.models, s->parts[k].need.nmodels);
        free_texts(s->parts[k].need.labels, s->parts[k].need.nlabels);
        free(s->parts[k].home);
        free(s->parts[k].scored);
    }
    free(s->parts);
    free(s->vain);
    free(s->by_size);
    free(s->rows);
    free(s);
}

static struct shape *intern(struct plan *p, const struct wanted *w)
{
    uint64_t hash = hash_of(w);
    struct shape *s = p->nbuckets ? *bucket(p, hash) : NULL;

    while (s && (s->hash != hash || !same(s, w)))
        s = s->next;
    if (!s)
        s = make(p, w, hash);
    s->refs++;
    score_count(p, s, 1);
    return s;
}

struct shape *shape_intern(struct plan *p, const struct plan_item_spec *spec)
{
    return intern(p, &(struct wanted) {
        spec->parts, spec->nparts, spec->near, spec->one_pool, false, NULL,
    });
}

struct shape *shape_of(struct plan *p, const struct shape *s,
                       const struct plan_place *places, uint32_t n)
{
    autofree struct plan_part *parts = mem_array(s->nparts, sizeof *parts);
    autofree uint32_t *had = mem_array(s->nparts, sizeof *had);

    for (uint32_t k = 0; k < s->nparts; k++)
        parts[k].need = s->parts[k].need;
    for (uint32_t k = 0; k < n; k++)
        had[places[k].part]++;
    return intern(p, &(struct wanted) {
        parts, s->nparts, s->near, s->one_pool, s->alone, had,
    });
}

void shape_put(struct plan *p, struct shape *s)
{
    score_count(p, s, -1);
    if (--s->refs == 0 && s->kept == 0)
        unmake(p, s);
}

void shape_keep(struct plan *p, struct shape *s)
{
    s->kept++;
    shape_put(p, s);
}

void shape_back(struct plan *p, struct shape *s)
{
    s->kept--;
    s->refs++;
    score_count(p, s, 1);
}

void shapes_free(struct plan *p)
{
    while (p->nshapes)
        unmake(p, p->shapes[p->nshapes - 1]);
    free(p->shapes);
    free(p->buckets);
}

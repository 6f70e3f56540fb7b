#include "plan/pool.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

enum { KEY_MAX = 1 << 20 };            /* of a kind: its labels are bounded */

/* ---- sets of bits ---- */

static void bits_set(struct bits *b, uint32_t at, uint32_t size)
{
    uint32_t words = size / 64 + 1, groups = words / 64 + 1;

    if (!b->words) {
        b->words = mem_array(words + groups, sizeof *b->words);
        b->groups = b->words + words;
    }
    b->words[at / 64] |= UINT64_C(1) << at % 64;
    b->groups[at / 4096] |= UINT64_C(1) << at / 64 % 64;
    b->count++;
}

static void bits_clear(struct bits *b, uint32_t at)
{
    b->words[at / 64] &= ~(UINT64_C(1) << at % 64);
    if (b->words[at / 64] == 0)
        b->groups[at / 4096] &= ~(UINT64_C(1) << at / 64 % 64);
    b->count--;
}

/* ---- buckets ---- */

static uint16_t whole_bucket(const struct plan_node *n)
{
    unsigned w = n->free_whole;

    if (!n->open)
        return 0;
    if (w >= POOL_WHOLE)
        w = POOL_WHOLE - 1;
    return (uint16_t) (1 + w * POOL_CPU + pool_cpu_class(n->cpu_free));
}

static uint16_t part_bucket(const struct plan_node *n)
{
    unsigned q = n->free_part * POOL_PART / 1000;

    if (!n->open || n->free_part == 0)
        return 0;
    return (uint16_t) (1 + q * POOL_CPU + pool_cpu_class(n->cpu_free));
}

/* From one bucket of the rows to another: counted from 1, as they stand in the
 * node.
 */
static void move_bit(struct bits (*rows)[POOL_CPU], uint8_t *any,
                     const struct plan_node *n, uint16_t from, uint16_t to)
{
    if (from) {
        unsigned row = (from - 1u) / POOL_CPU, c = (from - 1u) % POOL_CPU;

        bits_clear(&rows[row][c], n->slot);
        if (rows[row][c].count == 0)
            any[row] &= (uint8_t) ~(1u << c);
    }
    if (to) {
        unsigned row = (to - 1u) / POOL_CPU, c = (to - 1u) % POOL_CPU;

        bits_set(&rows[row][c], n->slot, n->family->nnodes);
        any[row] |= (uint8_t) (1u << c);
    }
}

static void rebucket(struct plan_node *n)
{
    struct family *f = n->family;
    uint16_t whole = whole_bucket(n), part = part_bucket(n);

    if (f->stale)
        return;
    if (whole != n->bucket_whole) {
        move_bit(f->whole, f->any_whole, n, n->bucket_whole, whole);
        n->bucket_whole = whole;
    }
    if (part != n->bucket_part) {
        move_bit(f->part, f->any_part, n, n->bucket_part, part);
        n->bucket_part = part;
    }
}

static int by_name(const void *va, const void *vb)
{
    const struct plan_node *a = *(const struct plan_node *const *) va;
    const struct plan_node *b = *(const struct plan_node *const *) vb;

    return strcmp(a->name, b->name);
}

static void drop_bits(struct family *f)
{
    memset(f->any_whole, 0, sizeof f->any_whole);
    memset(f->any_part, 0, sizeof f->any_part);
    for (unsigned c = 0; c < POOL_CPU; c++) {
        for (unsigned w = 0; w < POOL_WHOLE; w++) {
            free(f->whole[w][c].words);
            f->whole[w][c] = (struct bits) { 0 };
        }
        for (unsigned q = 0; q < POOL_PART; q++) {
            free(f->part[q][c].words);
            f->part[q][c] = (struct bits) { 0 };
        }
    }
}

void pool_ready(struct family *f)
{
    if (!f->stale)
        return;
    drop_bits(f);
    qsort(f->nodes, f->nnodes, sizeof(*f->nodes), by_name);
    f->stale = false;
    for (uint32_t k = 0; k < f->nnodes; k++) {
        f->nodes[k]->slot = k;
        f->nodes[k]->bucket_whole = f->nodes[k]->bucket_part = 0;
        rebucket(f->nodes[k]);
    }
}

void pool_gave(struct plan *p, const struct plan_node *n)
{
    struct pool *o = p->pool;

    o->ring[++o->gave % POOL_RING] = n->index;
}

/* What follows from the devices and from what is held.  Whatever changes on a
 * node comes here, so who has seen its stamp has seen it as it is.
 */
static void refresh(struct plan_node *n)
{
    n->free_whole = n->free_most = n->free_part = 0;
    n->free_milli = 0;
    for (uint32_t k = 0; k < n->ndevices; k++) {
        uint32_t left = n->devices[k].open ? n->devices[k].free_milli : 0;

        n->free_milli += left;
        n->free_whole += left == 1000;
        if (left > n->free_most)
            n->free_most = left;
        if (left < 1000 && left > n->free_part)
            n->free_part = left;
    }
    n->memory_free = n->memory_held + n->parked < n->memory ?
                     n->memory - n->memory_held - n->parked : 0;
    n->usable_at = 0;
    n->stamp = ++n->family->pool->stamps;
    rebucket(n);
}

/* ---- what is held ---- */

bool pool_has(const struct plan *p, const struct part *part,
              const struct plan_place *place, uint64_t gave)
{
    const struct plan_node *n = place->node;

    if (place->ndevices != part->devices ||
        n->cpu_free < part->need.cpu_milli ||
        (n->memory_free < part->need.memory && gave < part->need.memory))
        return false;
    for (uint32_t k = 0; k < place->ndevices; k++) {
        uint32_t d = place->device[k];

        if (d >= n->ndevices || (k > 0 && d <= place->device[k - 1]) ||
            n->devices[d].free_milli < part->milli ||
            !need_matches_device(p, &n->devices[d], part))
            return false;
    }
    return true;
}

void pool_take(struct plan *p, const struct shape *s,
               const struct plan_place *place)
{
    const struct part *q = &s->parts[place->part];
    struct plan_node *n = place->node;

    assert(n->cpu_free >= q->need.cpu_milli);
    meter_cpus(p, n, -1);
    n->cpu_free -= q->need.cpu_milli;
    n->cpu_alone += q->devices ? 0 : q->need.cpu_milli;
    n->memory_held += q->need.memory;
    meter_cpus(p, n, 1);
    for (uint32_t k = 0; k < place->ndevices; k++) {
        struct device *d = &n->devices[place->device[k]];

        assert(d->free_milli >= q->milli);
        meter_device(p, n, d, -1);
        d->free_milli -= q->milli;
        meter_device(p, n, d, 1);
    }
    refresh(n);
}

void pool_undo(struct plan *p, const struct shape *s,
               const struct plan_place *place)
{
    const struct part *q = &s->parts[place->part];
    struct plan_node *n = place->node;

    meter_cpus(p, n, -1);
    n->cpu_free += q->need.cpu_milli;
    n->cpu_alone -= q->devices ? 0 : q->need.cpu_milli;
    n->memory_held -= q->need.memory;
    meter_cpus(p, n, 1);
    assert(n->cpu_free <= n->cpu_milli);
    for (uint32_t k = 0; k < place->ndevices; k++) {
        struct device *d = &n->devices[place->device[k]];

        meter_device(p, n, d, -1);
        d->free_milli += q->milli;
        assert(d->free_milli <= 1000);
        meter_device(p, n, d, 1);
    }
    refresh(n);
}

void pool_give(struct plan *p, const struct shape *s,
               const struct plan_place *place)
{
    pool_undo(p, s, place);
    pool_gave(p, place->node);
}

void pool_lend(struct plan_node *n, int64_t bytes)
{
    n->parked += (uint64_t) bytes;
    refresh(n);
}

double pool_owed(const struct plan *p, const struct plan_node *n)
{
    const struct pool_sum *s = &p->pool->sums[n->pool_number];

    return (double) n->owed + (n->roams ? (double) s->owed / s->nodes : 0);
}

void pool_park(struct plan *p, struct plan_node *n, int64_t bytes,
               int64_t milli)
{
    if (n->roams)
        p->pool->sums[n->pool_number].owed += (uint64_t) milli;
    else
        n->owed += (uint64_t) milli;
    pool_lend(n, bytes);
    if (bytes < 0)
        pool_gave(p, n);
}

void pool_item_add(struct plan_node *n, struct plan_item *i)
{
    if (n->nitems == n->items_cap) {
        n->items_cap = n->items_cap ? 2 * n->items_cap : 4;
        n->items = mem_grow(n->items, n->items_cap, sizeof(*n->items));
    }
    n->items[n->nitems++] = i;
}

void pool_item_remove(struct plan_node *n, struct plan_item *i)
{
    for (uint32_t k = 0; k < n->nitems; k++) {
        if (n->items[k] != i)
            continue;
        n->items[k] = n->items[--n->nitems];
        return;
    }
}

void pool_fetch(const struct plan_node *n)
{
    for (uint32_t k = 0; k < n->nitems; k++)
        item_fetch(n->items[k]);
    for (uint32_t k = 0; k < n->nitems; k++)
        __builtin_prefetch(n->items[k]->places);
}

bool pool_met(const struct plan_node *n, uint32_t m)
{
    for (uint32_t k = 0; n->items[m]->nplaces > 1 && k < m; k++)
        if (n->items[k] == n->items[m])
            return true;
    return false;
}

bool pool_left(const struct plan_place *places, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (places[k].node->leaving > 0)
            return true;
    return false;
}

/* ---- kinds and families ---- */

static struct family *family_new(struct pool *o, const struct plan_node *n,
                                 const char *key)
{
    struct family *f = mem_new(sizeof *f);

    f->key = mem_str(key);
    f->pool = o;
    f->ndevices = n->ndevices;
    f->uniform = true;
    for (uint32_t k = 0; k < n->ndevices; k++) {
        uint16_t m = n->devices[k].model;

        f->uniform &= m == n->devices[0].model &&
                      n->devices[k].memory == n->devices[0].memory;

        f->models |= UINT64_C(1) << (m < MODELS_LAST ? m : MODELS_LAST);
        if (n->devices[k].memory > f->memory)
            f->memory = n->devices[k].memory;
    }
    (void) map_set(o->families_by_key, f->key, f);
    if (o->nfamilies == o->families_cap) {
        o->families_cap = o->families_cap ? 2 * o->families_cap : 8;
        o->families = mem_grow(o->families, o->families_cap,
                               sizeof(*o->families));
    }
    o->families[o->nfamilies++] = f;
    return f;
}

static void family_join(struct plan *p, struct plan_node *n)
{
    struct buf key = BUF_INIT(KEY_MAX);
    struct family *f;

    (void) buf_printf(&key, "%u", n->pool_number);
    for (uint32_t k = 0; k < n->ndevices; k++)
        (void) buf_printf(&key, " %u:%ju", n->devices[k].model,
                          (uintmax_t) n->devices[k].memory);
    f = map_get(p->pool->families_by_key, buf_text(&key));
    if (!f)
        f = family_new(p->pool, n, buf_text(&key));
    if (f->nnodes == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 8;
        f->nodes = mem_grow(f->nodes, f->cap, sizeof(*f->nodes));
    }
    f->nodes[f->nnodes++] = n;
    f->stale = true;
    n->family = f;
    buf_free(&key);
}

static void family_leave(struct plan_node *n)
{
    struct family *f = n->family;
    uint32_t k = 0;

    while (f->nodes[k] != n)
        k++;
    f->nodes[k] = f->nodes[--f->nnodes];
    f->stale = true;
}

/* An empty one like it. */
static void kind_copy(struct node_kind *k, const struct plan_node *n)
{
    struct plan_node *like = &k->like;

    like->open = true;
    like->suspends = n->suspends;
    like->roams = n->roams;
    like->pool_number = n->pool_number;
    like->family = n->family;
    like->kind = k;
    like->cpu_milli = like->cpu_free = n->cpu_milli;
    like->memory = like->memory_free = n->memory;
    like->ndevices = like->free_whole = n->ndevices;
    like->free_milli = UINT64_C(1000) * n->ndevices;
    like->free_most = n->ndevices ? 1000 : 0;
    like->devices = mem_dup(n->devices, n->ndevices * sizeof(*n->devices));
    for (uint32_t d = 0; d < n->ndevices; d++) {
        like->devices[d].open = true;
        like->devices[d].free_milli = 1000;
    }
    like->nlabels = n->nlabels;
    like->labels = mem_array(n->nlabels, sizeof(*like->labels));
    for (uint32_t l = 0; l < n->nlabels; l++)
        like->labels[l] = mem_str(n->labels[l]);
}

static void kind_free(struct node_kind *k)
{
    for (uint32_t l = 0; l < k->like.nlabels; l++)
        free(k->like.labels[l]);
    free(k->like.labels);
    free(k->like.devices);
    free(k->key);
    free(k);
}

static struct node_kind *kind_new(struct pool *o, const struct plan_node *n,
                                  const char *key)
{
    struct node_kind *k = mem_new(sizeof *k);

    k->key = mem_str(key);
    kind_copy(k, n);
    (void) map_set(o->kinds_by_key, k->key, k);
    if (o->nkinds == o->kinds_cap) {
        o->kinds_cap = o->kinds_cap ? 2 * o->kinds_cap : 8;
        o->kinds = mem_grow(o->kinds, o->kinds_cap, sizeof(*o->kinds));
    }
    k->index = o->nkinds;
    o->kinds[o->nkinds++] = k;
    return k;
}

static void kind_join(struct plan *p, struct plan_node *n)
{
    struct buf key = BUF_INIT(KEY_MAX);
    struct node_kind *k;

    (void) buf_printf(&key, "%s %d%d %ju %ju", n->family->key, n->suspends,
                      n->roams, (uintmax_t) n->cpu_milli,
                      (uintmax_t) n->memory);
    for (uint32_t i = 0; i < n->nlabels; i++)
        (void) buf_printf(&key, "\n%s", n->labels[i]);
    k = map_get(p->pool->kinds_by_key, buf_text(&key));
    if (!k)
        k = kind_new(p->pool, n, buf_text(&key));
    k->count++;
    n->kind = k;
    buf_free(&key);
}

static void kind_leave(struct plan *p, struct plan_node *n)
{
    struct pool *o = p->pool;
    struct node_kind *k = n->kind;

    if (--k->count > 0)
        return;
    (void) map_del(o->kinds_by_key, k->key);
    o->kinds[k->index] = o->kinds[--o->nkinds];
    o->kinds[k->index]->index = k->index;
    kind_free(k);
}

/* ---- nodes come and go ---- */

static uint16_t number_of(char ***list, uint32_t *count, const char *name)
{
    uint32_t k = 0;

    while (k < *count && strcmp((*list)[k], name) != 0)
        k++;
    if (k == *count) {
        assert(k < UINT16_MAX);
        *list = mem_grow(*list, k + 1, sizeof(**list));
        (*list)[(*count)++] = mem_str(name);
    }
    return (uint16_t) k;
}

static void pool_join(struct pool *o, struct plan_node *n)
{
    uint32_t before = o->npools;

    n->pool_number = number_of(&o->pools, &o->npools, n->pool);
    if (o->npools > before) {
        o->sums = mem_grow(o->sums, o->npools, sizeof(*o->sums));
        o->sums[before] = (struct pool_sum) { 0 };
    }
    o->sums[n->pool_number].nodes++;
}

uint16_t pool_model(struct plan *p, const char *name)
{
    uint32_t before = p->nmodels;
    uint16_t model = number_of(&p->models, &p->nmodels, name);

    if (p->nmodels != before)
        shape_models(p);
    return model;
}

static void add_devices(struct plan *p, struct plan_node *n,
                        const struct plan_node_spec *spec)
{
    n->ndevices = spec->ndevices;
    n->devices = mem_array(n->ndevices, sizeof(*n->devices));
    for (uint32_t k = 0; k < n->ndevices; k++) {
        const struct plan_device *d = &spec->devices[k];

        n->devices[k] = (struct device) {
            .model = pool_model(p, d->model),
            .cell = meter_cell(p, spec->pool, d->model),
            .open = true, .free_milli = 1000, .memory = d->memory,
        };
    }
}

/* The first that is not in use. */
static uint32_t free_index(struct plan *p)
{
    uint32_t k = 0;

    if (p->pool->live < p->nnodes) {
        while (p->nodes[k])
            k++;
        return k;
    }
    if (p->nnodes == p->nodes_cap) {
        p->nodes_cap = p->nodes_cap ? 2 * p->nodes_cap : 16;
        p->nodes = mem_grow(p->nodes, p->nodes_cap, sizeof(*p->nodes));
    }
    return p->nnodes++;
}

/* Its devices and CPUs count from now on, or no more. */
static void meter_all(struct plan *p, const struct plan_node *n, int sign)
{
    meter_cpus(p, n, sign);
    for (uint32_t k = 0; k < n->ndevices; k++)
        meter_device(p, n, &n->devices[k], sign);
}

struct plan_node *plan_node_add(struct plan *p,
                                const struct plan_node_spec *spec, void *owner)
{
    struct plan_node *n = mem_lines(sizeof *n);

    n->name = mem_str(spec->name);
    n->pool = mem_str(spec->pool);
    n->domain = mem_str(spec->domain ? spec->domain : "");
    n->owner = owner;
    n->open = true;
    n->suspends = spec->suspends;
    n->roams = spec->roams;
    n->stages = spec->stages;
    n->cpu_milli = n->cpu_free = spec->cpu_milli;
    n->memory = spec->memory;
    n->nlabels = spec->nlabels;
    n->labels = mem_array(n->nlabels, sizeof(*n->labels));
    for (uint32_t k = 0; k < n->nlabels; k++)
        n->labels[k] = mem_str(spec->labels[k]);
    pool_join(p->pool, n);
    n->domain_number = number_of(&p->pool->domains, &p->pool->ndomains,
                                 n->domain);
    add_devices(p, n, spec);
    n->index = free_index(p);
    p->nodes[n->index] = n;
    p->pool->live++;
    p->pool->roaming += n->roams;
    p->pool->changes++;
    family_join(p, n);
    kind_join(p, n);
    refresh(n);
    meter_all(p, n, 1);
    pool_gave(p, n);
    stage_node_new(p, n);
    line_room(p, n);
    return n;
}

/* Who counted on what is leaving there looks for another place. */
static void say_closed(struct plan *p, const struct plan_node *n)
{
    if (n->leaving > 0)
        line_room(p, NULL);
    else
        line_took(p, false);
}

void plan_node_open(struct plan *p, struct plan_node *n, bool open)
{
    if (n->open == open)
        return;
    meter_all(p, n, -1);
    n->open = open;
    meter_all(p, n, 1);
    refresh(n);
    stage_node(p, n);
    if (open) {
        pool_gave(p, n);
        line_room(p, n);
    } else {
        say_closed(p, n);
    }
}

void plan_device_open(struct plan *p, struct plan_node *n, uint32_t device,
                      bool open)
{
    struct device *d = &n->devices[device];

    assert(device < n->ndevices);
    if (d->open == open)
        return;
    meter_device(p, n, d, -1);
    d->open = open;
    meter_device(p, n, d, 1);
    refresh(n);
    stage_node(p, n);
    if (open) {
        pool_gave(p, n);
        line_room(p, n);
    } else {
        say_closed(p, n);
    }
}

static void node_free(struct plan_node *n)
{
    for (uint32_t k = 0; k < n->nlabels; k++)
        free(n->labels[k]);
    free(n->labels);
    free(n->name);
    free(n->pool);
    free(n->domain);
    free(n->devices);
    free(n->items);
    free(n->bound);
    free(n->ripe);
    free(n->staged);
    free(n);
}

void plan_node_remove(struct plan *p, struct plan_node *n)
{
    assert(n->nitems == 0 && n->parked == 0);
    room_node_gone(p, n);
    promise_node_gone(p, n);
    stage_node_gone(p, n);
    meter_all(p, n, -1);
    family_leave(n);
    kind_leave(p, n);
    p->nodes[n->index] = NULL;
    p->pool->stamps++;
    p->pool->live--;
    p->pool->roaming -= n->roams;
    p->pool->sums[n->pool_number].nodes--;
    p->pool->changes++;
    line_cpus(p);
    line_took(p, false);
    node_free(n);
}

int pool_order(const void *va, const void *vb)
{
    const struct plan_node *a = *(const struct plan_node *const *) va;
    const struct plan_node *b = *(const struct plan_node *const *) vb;
    int c = strcmp(a->pool, b->pool);

    return c != 0 ? c : strcmp(a->name, b->name);
}

struct plan_node *const *pool_sorted(struct plan *p)
{
    struct pool *o = p->pool;
    uint32_t n = 0;

    if (o->sorted_at == o->changes)
        return o->sorted;
    o->sorted = mem_grow(o->sorted, o->live + 1u, sizeof(struct plan_node *));
    for (uint32_t k = 0; k < p->nnodes; k++)
        if (p->nodes[k])
            o->sorted[n++] = p->nodes[k];
    qsort(o->sorted, n, sizeof(struct plan_node *), pool_order);
    o->sorted_at = o->changes;
    return o->sorted;
}

void *plan_node_owner(const struct plan_node *n)
{
    return n->owner;
}

void pool_init(struct plan *p)
{
    p->pool = mem_new(sizeof *p->pool);
    p->pool->changes = 1;
    p->pool->families_by_key = map_new();
    p->pool->kinds_by_key = map_new();
}

static void free_names(char **list, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        free(list[k]);
    free(list);
}

void pool_free(struct plan *p)
{
    struct pool *o = p->pool;

    for (uint32_t k = 0; k < p->nnodes; k++)
        if (p->nodes[k])
            node_free(p->nodes[k]);
    free(p->nodes);
    free_names(p->models, p->nmodels);
    for (uint32_t k = 0; k < o->nfamilies; k++) {
        drop_bits(o->families[k]);
        free(o->families[k]->nodes);
        free(o->families[k]->key);
        free(o->families[k]->soon);
        free(o->families[k]);
    }
    free(o->families);
    free(o->sorted);
    for (uint32_t k = 0; k < o->nkinds; k++)
        kind_free(o->kinds[k]);
    free(o->kinds);
    map_free(o->families_by_key);
    map_free(o->kinds_by_key);
    free_names(o->pools, o->npools);
    free(o->sums);
    free_names(o->domains, o->ndomains);
    free(o);
}

#include "plan/line.h"

#include "base/mem.h"

#include <string.h>

/* Bands and benches: see line.c. */

static struct band *get_band(struct line *l, int16_t priority)
{
    uint32_t at = 0;
    struct band *band;

    while (at < l->nbands && l->bands[at]->priority > priority)
        at++;
    if (at < l->nbands && l->bands[at]->priority == priority)
        return l->bands[at];
    if (l->nbands == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 4;
        l->bands = mem_grow(l->bands, l->cap, sizeof(struct band *));
    }
    memmove(l->bands + at + 1, l->bands + at,
            (l->nbands - at) * sizeof(struct band *));
    band = mem_new(sizeof(*band));
    band->priority = priority;
    l->bands[at] = band;
    l->nbands++;
    return band;
}

static void put_band(struct line *l, struct band *band)
{
    uint32_t at = 0;

    if (band->count > 0)
        return;
    while (l->bands[at] != band)
        at++;
    l->nbands--;
    memmove(l->bands + at, l->bands + at + 1,
            (l->nbands - at) * sizeof(struct band *));
    free(band->benches);
    free(band);
}

struct bench *line_bench(const struct plan *p, int16_t priority,
                         struct plan_tenant *t)
{
    struct band *band = get_band(p->line, priority);
    struct bench *bench;

    if (!p->fair)
        t = NULL;
    for (uint32_t k = 0; k < band->count; k++)
        if (band->benches[k]->tenant == t)
            return band->benches[k];
    if (band->count == band->cap) {
        band->cap = band->cap ? band->cap * 2 : 4;
        band->benches = mem_grow(band->benches, band->cap,
                                 sizeof(struct bench *));
    }
    bench = mem_new(sizeof(*bench));
    bench->tenant = t;
    bench->band = band;
    line_queues(&bench->queues);
    band->benches[band->count++] = bench;
    band->sorted = 0;
    return bench;
}

void line_bench_put(struct line *l, struct bench *bench)
{
    struct band *band = bench->band;
    uint32_t at = 0;

    if (bench->count > 0)
        return;
    while (band->benches[at] != bench)
        at++;
    band->count--;
    memmove(band->benches + at, band->benches + at + 1,
            (band->count - at) * sizeof(struct bench *));
    keyed_free(&bench->queues);
    free(bench->rows);
    free(bench->first);
    free(bench->shapes);
    free(bench);
    put_band(l, band);
}

/* They stand nearly as they should: few have changed since. */
void line_sort(const struct plan *p, struct band *band)
{
    if (band->sorted == p->shares)
        return;
    for (uint32_t k = 1; k < band->count; k++) {
        struct bench *b = band->benches[k];
        uint32_t at = k;

        while (at > 0 && tenant_order(p, b->tenant,
                                      band->benches[at - 1]->tenant) < 0) {
            band->benches[at] = band->benches[at - 1];
            at--;
        }
        band->benches[at] = b;
    }
    band->sorted = p->shares;
}

uint64_t line_ahead(const struct plan *p, const struct plan_item *i,
                    uint64_t enough)
{
    const struct bench *own = i->queue->bench;
    uint64_t sum = 0;

    for (uint32_t k = 0; k < p->line->nbands && sum < enough; k++) {
        struct band *band = p->line->bands[k];

        line_sort(p, band);
        for (uint32_t n = 0; n < band->count && sum < enough; n++) {
            if (band->benches[n] != own) {
                sum += band->benches[n]->wants;
                continue;
            }
            for (uint32_t l = 0; l < i->queue->level && l < WANT_LEVELS; l++)
                sum += own->level_wants[l];
            return sum;
        }
    }
    return sum;
}

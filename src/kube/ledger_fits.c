#include "kube/ledger_int.h"

#include "base/map.h"
#include "base/mem.h"
#include "kube/tally.h"

/* Who fits where.  A shape keeps one node that would take it; only when that
 * one does not any more are all looked at.  One that fits nowhere can only come
 * to fit on a node that has changed since.
 */
void place_stir(struct ledger *l, struct place *p)
{
    l->stirred = true;
    if (p->dirty)
        return;
    p->dirty = true;
    if (l->ndirty == l->room) {
        l->room = l->room ? 2 * l->room : 64;
        l->dirty = mem_grow(l->dirty, l->room, sizeof(*l->dirty));
    }
    l->dirty[l->ndirty++] = p;
}

void place_forget(struct ledger *l, struct place *p)
{
    struct shape *s;
    size_t pos = 0;

    while ((s = map_next(l->shapes, &pos, NULL)))
        if (s->at == p) {
            s->at = NULL;
            s->fresh = true;
        }
    for (size_t i = 0; p->dirty && i < l->ndirty; i++)
        if (l->dirty[i] == p)
            l->dirty[i] = l->dirty[--l->ndirty];
}

static bool has_left(uint64_t has, uint64_t taken, uint64_t wanted)
{
    return wanted == 0 || (taken <= has && has - taken >= wanted);
}

static bool would_take(const struct place *p, const struct shape *s)
{
    const struct facts *f = p->facts;

    if (!f || !f->open || !has_left(f->gpus, p->gpus_taken, s->gpus) ||
        !has_left(f->has.cpu_milli, p->taken.cpu_milli, s->takes.cpu_milli) ||
        !has_left(f->has.memory, p->taken.memory, s->takes.memory) ||
        (f->pods && p->pods >= f->pods))
        return false;
    for (size_t i = 0; i < s->takes.n; i++) {
        const struct resource *r = &s->takes.list[i];

        if (!has_left(resources_count(&f->has, r->name),
                      resources_count(&p->taken, r->name), r->count))
            return false;
    }
    return fit_may(s->fit, &f->at);
}

static struct place *look(const struct ledger *l, const struct shape *s)
{
    struct place *p;
    size_t pos = 0;

    if (s->fresh) {
        while ((p = map_next(l->places, &pos, NULL)))
            if (would_take(p, s))
                return p;
        return NULL;
    }
    for (size_t i = 0; i < l->ndirty; i++)
        if (would_take(l->dirty[i], s))
            return l->dirty[i];
    return NULL;
}

static enum tally_demand more(enum tally_demand so_far, const struct shape *s)
{
    return s->at ? TALLY_FITS : so_far == TALLY_FITS ? so_far : TALLY_STUCK;
}

void fits_find(struct ledger *l)
{
    enum tally_demand devices = TALLY_NONE, cpus = TALLY_NONE;
    struct shape *s;
    size_t pos = 0;

    if (!l->stirred)
        return;
    while ((s = map_next(l->shapes, &pos, NULL))) {
        if (s->waiting == 0)
            continue;
        if (s->at && !would_take(s->at, s)) {
            s->at = NULL;
            s->fresh = true;
        }
        if (!s->at)
            s->at = look(l, s);
        s->fresh = false;
        cpus = more(cpus, s);
        if (s->gpus)
            devices = more(devices, s);
    }
    for (size_t i = 0; i < l->ndirty; i++)
        l->dirty[i]->dirty = false;
    l->ndirty = 0;
    l->stirred = false;
    tally_demand(l->tally, devices, cpus);
}

void fits_pass(struct ledger *l, uint64_t seconds)
{
    struct shape *s;
    size_t pos = 0;

    while ((s = map_next(l->shapes, &pos, NULL)))
        if (s->waiting && s->at)
            s->fitted_s += seconds;
}

#include "plan/pool.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Where a shape has found no room.
 *
 * A node without room for a rank has none until some is made there: pool_gave
 * says so whenever something ends, is parked no more or opens.  So a search asks
 * no node again that it has asked in vain, but those where room was made since.
 * Whether CPUs are kept from ranks without a device also follows from all work
 * that is here: when that changes vain_forget is called.
 *
 * What was tried and taken back (pool_undo) makes no room: nobody searches while
 * it is tried.
 */
enum { VAIN_ROOM = 512 };              /* times of room looked at one by one */

struct vain {
    uint64_t changes;                  /* pool.changes; 0: nothing is known */
    uint64_t gave;                     /* pool.gave: room up to then counts */
    uint64_t bits[];                   /* by first_word and slot */
};

static void number_words(struct pool *o)
{
    if (o->words_at == o->changes)
        return;
    o->words = 0;
    for (uint32_t k = 0; k < o->nfamilies; k++) {
        o->families[k]->first_word = o->words;
        o->words += o->families[k]->nnodes / 64 + 1;
    }
    o->words_at = o->changes;
}

void vain_forget(struct shape *s)
{
    s->nowhere_at = s->somewhere_at = 0;
    if (s->vain)
        s->vain->changes = 0;
}

static uint64_t *word_of(struct vain *v, const struct plan_node *n)
{
    return &v->bits[n->family->first_word + n->slot / 64];
}

/* Nodes of a family that is not ready have no slot, and none of them is known. */
static void take_back(const struct plan *p, struct vain *v)
{
    const struct pool *o = p->pool;

    while (v->gave < o->gave) {
        const struct plan_node *n = p->nodes[o->ring[++v->gave % POOL_RING]];

        if (n && !n->family->stale)
            *word_of(v, n) &= ~(UINT64_C(1) << n->slot % 64);
    }
}

uint64_t *vain_of(struct plan *p, struct shape *s, const struct family *f)
{
    struct pool *o = p->pool;

    number_words(o);
    if (!s->vain || s->vain->changes != o->changes) {
        free(s->vain);
        s->vain = mem_new(sizeof(*s->vain) + o->words * sizeof(uint64_t));
        s->vain->changes = o->changes;
        s->vain->gave = o->gave;
    } else if (o->gave - s->vain->gave > VAIN_ROOM) {
        memset(s->vain->bits, 0, o->words * sizeof(uint64_t));
        s->vain->gave = o->gave;
    }
    take_back(p, s->vain);
    return &s->vain->bits[f->first_word];
}

static bool is_right(const struct plan *p, const struct shape *s,
                     const struct plan_node *n)
{
    if (n->family->stale ||
        !(*word_of(s->vain, n) >> n->slot % 64 & 1))
        return true;
    return !place_fits(p, n, &s->parts[0], 0, false);
}

int vain_check(const struct plan *p, struct err *err)
{
    for (uint32_t k = 0; k < p->nshapes; k++) {
        const struct shape *s = p->shapes[k];

        if (!s->vain || s->vain->changes != p->pool->changes ||
            p->pool->gave - s->vain->gave > VAIN_ROOM)
            continue;
        take_back(p, s->vain);
        for (uint32_t n = 0; n < p->nnodes; n++)
            if (p->nodes[n] && !is_right(p, s, p->nodes[n]))
                return err_set(err, EPROTO, "node %s has room for shape %u, "
                               "which does not know it", p->nodes[n]->name, k);
    }
    return 0;
}

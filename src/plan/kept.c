#include "plan/reserve.h"
#include "plan/room.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>

/* What the plan has promised, told anew by an owner that kept it. */

uint64_t plan_promised(const struct plan *p)
{
    return p->promised;
}

/* ---- claims ---- */

const struct plan_claim *plan_claims(const struct plan *p)
{
    return p->rooms->claims;
}

bool plan_counts_on(const struct plan *p, const struct plan_item *i,
                    const struct plan_item *victim)
{
    const struct plan_claim *c = room_claim(p, i);

    for (uint32_t k = 0; c && k < c->nvictims; k++)
        if (c->victims[k].item == victim)
            return true;
    return false;
}

static bool is_place(const struct shape *s, const struct plan_place *at)
{
    if (at->part >= s->nparts || at->ndevices > PLAN_DEVICES)
        return false;
    for (uint32_t d = 0; d < at->ndevices; d++)
        if (at->device[d] >= at->node->ndevices)
            return false;
    return true;
}

static int check_claim(const struct plan *p, const struct plan_claim *c,
                       struct err *err)
{
    if (c->claimant->state == ITEM_HELD || room_claim(p, c->claimant) ||
        c->nplaces == 0)
        return err_set(err, EINVAL, "room is made for nobody");
    for (uint32_t k = 0; k < c->nplaces; k++)
        if (!is_place(c->claimant->shape, &c->places[k]))
            return err_set(err, EINVAL, "room is made at no place");
    for (uint32_t k = 0; k < c->nvictims; k++)
        if (!item_runs(c->victims[k].item))
            return err_set(err, EINVAL, "room is made by one that is nowhere");
    return 0;
}

int plan_claim_load(struct plan *p, const struct plan_claim *c,
                    struct err *err)
{
    struct plan_claim *copy;
    int rc = check_claim(p, c, err);

    if (rc < 0)
        return rc;
    copy = mem_dup(c, sizeof(*c));
    copy->next = NULL;
    copy->places = mem_dup(c->places, c->nplaces * sizeof(*c->places));
    copy->victims = mem_array(c->nvictims + 1u, sizeof(*c->victims));
    for (uint32_t k = 0; k < c->nvictims; k++)
        copy->victims[k] = c->victims[k];
    room_add(p, copy);
    return 0;
}

/* ---- reservations ---- */

bool plan_reserved(const struct plan *p, uint32_t k,
                   struct plan_reservation *ret)
{
    const struct reservation *r;

    if (k >= p->promises->count)
        return false;
    r = p->promises->list[k];
    *ret = (struct plan_reservation) {
        .item = r->item, .places = r->places, .nplaces = r->nplaces,
        .made_ms = r->made_ms, .start_ms = r->start_ms, .firm_ms = r->firm_ms,
    };
    return true;
}

int plan_reserved_load(struct plan *p, const struct plan_reservation *r,
                       struct err *err)
{
    struct reservation *made;

    if (!item_waits(r->item) || r->item->reserved || r->nplaces == 0)
        return err_set(err, EINVAL, "places are kept for nobody");
    for (uint32_t k = 0; k < r->nplaces; k++)
        if (!is_place(r->item->shape, &r->places[k]))
            return err_set(err, EINVAL, "what is kept for later is no place");
    made = mem_new(sizeof(*made));
    made->item = r->item;
    made->places = mem_dup(r->places, r->nplaces * sizeof(*r->places));
    made->nplaces = r->nplaces;
    made->made_ms = r->made_ms;
    made->start_ms = r->start_ms;
    made->firm_ms = r->firm_ms;
    promise_add(p, made);
    return 0;
}

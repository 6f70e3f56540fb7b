#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* What the plan has promised, in a row: room that is being made, and places for
 * later.
 *
 * Whom room is made for, where, and who leaves for it was found in a state that
 * is past, and so was the time of a reservation.  No event tells of these; a
 * world that is loaded would find others.  So they are a row of their own,
 * which a replay of the journal need not come to.  Nobody only moves: no node
 * roams.
 */
static json_t *row_task(const struct plan_item *i)
{
    const struct task *t = plan_owner(i);
    json_t *j = json_object();

    json_put_u64(j, "workload", t->workload->id);
    json_put_u64(j, "task", t->index);
    return j;
}

static json_t *row_places(const struct plan_place *places, uint32_t n)
{
    json_t *all = json_array();

    for (uint32_t i = 0; i < n; i++) {
        const struct block *b = plan_node_owner(places[i].node);
        json_t *j = json_object(), *devices = json_array();

        json_put_str(j, "block", b->id);
        view_some(j, "part", places[i].part);
        for (uint32_t d = 0; d < places[i].ndevices; d++)
            json_array_append_new(devices,
                                  json_integer(places[i].device[d]));
        json_put(j, "devices", devices);
        json_array_append_new(all, j);
    }
    return all;
}

static json_t *row_claim(const struct plan_claim *c)
{
    json_t *j = row_task(c->claimant), *victims = json_array();

    json_put(j, "places", row_places(c->places, c->nplaces));
    view_flag(j, "loose", c->loose);
    for (uint32_t i = 0; i < c->nvictims; i++) {
        const struct plan_victim *v = &c->victims[i];
        json_t *one = row_task(v->item);

        json_put_u64(one, "cause", v->cause);
        json_put_u64(one, "how", v->how);
        json_array_append_new(victims, one);
    }
    json_put(j, "victims", victims);
    return j;
}

static json_t *row_reservation(const struct plan_reservation *r)
{
    json_t *j = row_task(r->item);

    json_put(j, "places", row_places(r->places, r->nplaces));
    json_put_u64(j, "made_ms", r->made_ms);
    json_put_u64(j, "start_ms", r->start_ms);
    json_put_u64(j, "firm_ms", r->firm_ms);
    return j;
}

json_t *promises_row(const struct world *w)
{
    json_t *j, *claims = json_array(), *reservations = json_array();
    struct plan_reservation r;

    for (const struct plan_claim *c = plan_claims(w->plan); c; c = c->next)
        json_array_append_new(claims, row_claim(c));
    for (uint32_t k = 0; plan_reserved(w->plan, k, &r); k++)
        json_array_append_new(reservations, row_reservation(&r));
    j = json_object();
    json_put(j, "claims", claims);
    json_put(j, "reservations", reservations);
    return j;
}

/* ---- and back ---- */

static int load_task_of(const struct world *w, const json_t *j,
                        struct task **ret)
{
    uint64_t index = json_get_u64(j, "task", UINT64_MAX);
    struct workload *wl = world_workload(w, json_get_u64(j, "workload", 0));

    if (!wl || index >= wl->spec->ntasks)
        return -EINVAL;
    *ret = &wl->tasks[index];
    return 0;
}

static int load_place(const struct world *w, const json_t *j,
                      struct plan_place *ret)
{
    const struct block *b = world_block(w, json_get_str(j, "block", ""));
    struct grant g = { 0 };

    if (!b || !b->plan_node || grant_load(j, &g) < 0)
        return -EINVAL;
    ret->node = b->plan_node;
    ret->part = (uint32_t) json_get_u64(j, "part", 0);
    ret->ndevices = g.ndevices;
    memcpy(ret->device, g.device, sizeof(ret->device));
    return 0;
}

static int load_places(const struct world *w, const json_t *list,
                       struct plan_place **ret, uint32_t *ret_n)
{
    size_t n = json_array_size(list);
    autofree struct plan_place *places = NULL;
    int rc = 0;

    if (n > SPEC_MAX_RANKS)
        return -EINVAL;
    places = mem_array(n + 1, sizeof(*places));
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = load_place(w, json_array_get(list, i), &places[i]);
    if (rc < 0)
        return rc;
    *ret = take(places);
    *ret_n = (uint32_t) n;
    return 0;
}

static int load_victim(const struct world *w, const json_t *j,
                       struct plan_victim *ret)
{
    uint64_t cause = json_get_u64(j, "cause", UINT64_MAX);
    uint64_t how = json_get_u64(j, "how", UINT64_MAX);
    struct task *t;

    if (load_task_of(w, j, &t) < 0 || !t->item || cause > EVICT_SLICE ||
        how > YIELD_NEVER)
        return -EINVAL;
    ret->item = t->item;
    ret->cause = (enum plan_cause) cause;
    ret->how = (enum plan_yield) how;
    return 0;
}

/* NULL: it is not in line.  Time may have brought it there since the newest
 * event, which is when this world is.
 */
static int load_item(const struct world *w, const json_t *j,
                     struct plan_item **ret)
{
    struct task *t;
    int rc = load_task_of(w, j, &t);

    if (rc == 0)
        *ret = t->in_line ? task_item(t) : NULL;
    return rc;
}

static int load_claim(struct world *w, const json_t *j, struct err *err)
{
    const json_t *list = json_object_get(j, "victims");
    autofree struct plan_place *places = NULL;
    autofree struct plan_victim *victims =
        mem_array(json_array_size(list) + 1, sizeof(*victims));
    struct plan_claim c = { .loose = json_get_bool(j, "loose", false) };
    int rc = load_item(w, j, &c.claimant);

    if (rc == 0)
        rc = load_places(w, json_object_get(j, "places"), &places, &c.nplaces);
    for (; c.nvictims < json_array_size(list) && rc == 0; c.nvictims++)
        rc = load_victim(w, json_array_get(list, c.nvictims),
                         &victims[c.nvictims]);
    if (rc < 0)
        return bad_row("promises", "for whom room is made is not known", err);
    c.places = places;
    c.victims = victims;
    return c.claimant ? plan_claim_load(w->plan, &c, err) : 0;
}

static int load_reservation(struct world *w, const json_t *j, struct err *err)
{
    autofree struct plan_place *places = NULL;
    struct plan_reservation r = {
        .made_ms = json_get_u64(j, "made_ms", 0),
        .start_ms = json_get_u64(j, "start_ms", 0),
        .firm_ms = json_get_u64(j, "firm_ms", 0),
    };
    int rc = load_item(w, j, &r.item);

    if (rc == 0)
        rc = load_places(w, json_object_get(j, "places"), &places, &r.nplaces);
    if (rc < 0)
        return bad_row("promises", "what is reserved is not known", err);
    r.places = places;
    return r.item ? plan_reserved_load(w->plan, &r, err) : 0;
}

int load_promises_done(struct world *w, struct err *err)
{
    const json_t *claims = json_object_get(w->promises, "claims");
    const json_t *reservations = json_object_get(w->promises, "reservations");
    int rc = 0;

    for (size_t i = 0; i < json_array_size(claims) && rc == 0; i++)
        rc = load_claim(w, json_array_get(claims, i), err);
    for (size_t i = 0; i < json_array_size(reservations) && rc == 0; i++)
        rc = load_reservation(w, json_array_get(reservations, i), err);
    json_decref(take(w->promises));
    w->promised = plan_promised(w->plan);
    return rc;
}

#include "core/world_int.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Tasks that stand ready: task.staged and task.unstaged.
 *
 * A task is staged while it waits, with the generation that its attempt will
 * have, on blocks that can stage.  It holds their memory, no device, and its
 * place in line.  task.planned on the same devices, rank by rank, makes it that
 * attempt: its process knows them from its start.  Planned elsewhere, out of
 * line for any reason, or with one of its blocks lost or changed, it is staged
 * no more, and the generation is used up: what was started for it can never be
 * taken for a later one.
 */
static bool same_place(const struct grant *a, const struct grant *b)
{
    return strcmp(a->block, b->block) == 0 && a->milli == b->milli &&
           a->ndevices == b->ndevices &&
           memcmp(a->device, b->device, a->ndevices * sizeof a->device[0]) == 0;
}

static bool stage_names(const struct task *t, const struct grant *grants,
                        uint32_t n)
{
    if (t->staged->ngrants != n)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!same_place(&t->staged->grants[i], &grants[i]))
            return false;
    return true;
}

uint32_t task_gen_at(const struct task *t, const struct grant *grants,
                     uint32_t n)
{
    uint32_t next = task_next_gen(t);

    return next + (t->staged && !stage_names(t, grants, n));
}

/* ---- may it be? ---- */

static int check_rank(const struct world *w, const struct task *t,
                      const struct event *e, uint32_t rank, struct err *err)
{
    const struct grant *g = &e->grants[rank];
    const struct block *b = world_block(w, g->block);
    uint64_t memory = 0;

    if (g->rank != rank)
        return err_set(err, EINVAL, "grant %u is not for rank %u", rank, rank);
    if (!b)
        return err_set(err, ENOENT, "there is no block '%s'", g->block);
    if (!block_open(b) || !b->stages)
        return err_set(err, EBUSY, "block '%s' stages nothing", g->block);
    for (uint32_t i = 0; i <= rank; i++)
        if (strcmp(e->grants[i].block, g->block) == 0)
            memory = add_capped(memory, t->spec->memory);
    if (add_capped(b->staged, memory) > block_memory_left(b))
        return err_set(err, EBUSY, "rank %u: block '%s' has no memory left",
                       rank, g->block);
    return room_size(b, t->spec, g, err);
}

/* Is it in line by itself then?  One that sleeps may be awake by that time. */
static bool in_line_at(const struct task *t, uint64_t at_ms)
{
    struct task awake = *t;

    awake.timer.asleep = t->timer.asleep && t->timer.due_ms > at_ms;
    return task_wants(&awake) && !graph_set(t->workload, t);
}

int check_staged(const struct world *w, const struct event *e,
                 const struct task *t, struct err *err)
{
    int rc;

    if (!in_line_at(t, e->time_ms) || t->staged)
        return err_set(err, ESTALE, "task '%s' is not one to be staged",
                       t->spec->name);
    if (e->gen != task_next_gen(t))
        return err_set(err, ESTALE, "task '%s': generation %u is not %u, the "
                       "next", t->spec->name, e->gen, task_next_gen(t));
    rc = check_ranks(t, e->ngrants, err);
    for (uint32_t i = 0; i < e->ngrants && rc == 0; i++)
        rc = check_rank(w, t, e, i, err);
    return rc;
}

int check_unstaged(const struct event *e, const struct task *t,
                   struct err *err)
{
    if (t->staged && t->staged->gen == e->gen)
        return 0;
    return err_set(err, ESTALE, "task '%s' is not staged with generation %u",
                   t->spec->name, e->gen);
}

/* ---- it is ---- */

static void hold_memory(const struct task *t, bool on)
{
    for (uint32_t i = 0; i < t->staged->ngrants; i++)
        t->staged->blocks[i]->staged += on ? t->spec->memory
                                           : 0 - t->spec->memory;
}

int task_tell_staged(struct world *w, const struct task *t, struct err *err)
{
    const struct task_stage *s = t->staged;
    autofree struct plan_place *places = mem_array(s->ngrants,
                                                   sizeof(*places));

    for (uint32_t i = 0; i < s->ngrants; i++) {
        const struct grant *g = &s->grants[i];

        places[i].node = s->blocks[i]->plan_node;
        places[i].ndevices = g->ndevices;
        memcpy(places[i].device, g->device, sizeof(places[i].device));
    }
    return plan_staged(w->plan, t->item, places, s->ngrants, err);
}

/* Takes the grants. */
static void set_staged(const struct world *w, struct task *t,
                       struct grant *grants, uint32_t n)
{
    struct task_stage *s = t->staged = mem_new(sizeof(*s));

    s->ngrants = n;
    s->grants = grants;
    s->blocks = mem_array(n, sizeof(*s->blocks));
    for (uint32_t i = 0; i < n; i++)
        s->blocks[i] = world_block(w, grants[i].block);
    hold_memory(t, true);
}

void apply_staged(struct world *w, struct task *t, struct event *e)
{
    int rc;

    set_staged(w, t, take(e->grants), e->ngrants);
    e->ngrants = 0;
    t->staged->gen = e->gen;
    t->staged->since_ms = e->time_ms;
    port_take(w, t, e->gen, t->staged->ngrants);
    rc = task_tell_staged(w, t, NULL);
    assert(rc == 0);                   /* check_staged has looked */
    (void) rc;
    task_dirty(w, t);
}

void task_stage_free(struct task_stage *s)
{
    if (!s)
        return;
    free(s->blocks);
    free(s->grants);
    free(s);
}

void task_unstage(struct world *w, struct task *t)
{
    if (!t->staged)
        return;
    hold_memory(t, false);
    if (t->item)
        plan_unstaged(w->plan, t->item);
    t->gens_staged++;
    port_give(w, t);
    task_stage_free(take(t->staged));
    task_dirty(w, t);
}

/* Whatever stands there is gone, or was told of another block. */
void block_unstage(struct world *w, const struct block *b)
{
    struct plan_item *i;

    while (b->plan_node && (i = plan_node_staged(b->plan_node, 0)))
        task_unstage(w, plan_owner(i));
}

struct task *block_staged(const struct block *b, uint32_t k)
{
    struct plan_item *i = b->plan_node ? plan_node_staged(b->plan_node, k)
                                       : NULL;

    return i ? plan_owner(i) : NULL;
}

/* ---- decisions ---- */

void want_staged(const struct plan_decision *d, struct event *ret)
{
    const struct task *t = plan_owner(d->item);
    struct pending p = { 0 };

    item_grants(d, 0, t->spec, &p);
    event_init(ret, EVENT_STAGED);
    ret->workload = t->workload->id;
    ret->task = t->index;
    ret->gen = task_next_gen(t);
    ret->grants = p.grants;
    ret->ngrants = p.ngrants;
}

void want_unstaged(const struct plan_decision *d, struct event *ret)
{
    const struct task *t = plan_owner(d->item);

    event_init(ret, EVENT_UNSTAGED);
    ret->workload = t->workload->id;
    ret->task = t->index;
    ret->gen = t->staged->gen;
}

/* ---- rows ---- */

json_t *stage_view(const struct task_stage *s)
{
    json_t *j = json_object(), *list = json_array();

    view_time(j, "since", s->since_ms);
    for (uint32_t i = 0; i < s->ngrants; i++) {
        json_t *place = json_object(), *devices = json_array();

        json_put_u64(place, "rank", i);
        json_put_str(place, "block", s->blocks[i]->id);
        json_put_str(place, "node", s->blocks[i]->node);
        for (uint32_t k = 0; k < s->grants[i].ndevices; k++)
            json_array_append_new(devices,
                                  json_integer(s->grants[i].device[k]));
        json_put(place, "devices", devices);
        json_array_append_new(list, place);
    }
    json_put(j, "places", list);
    return j;
}

static int rank_load(const struct world *w, const struct task *t,
                     const json_t *place, struct grant *ret)
{
    const struct block *b = world_block(w, json_get_str(place, "block", ""));

    if (!b || grant_load(place, ret) < 0)
        return -EINVAL;
    memcpy(ret->block, b->id, sizeof(ret->block));
    if (ret->ndevices)
        ret->milli = t->spec->gpu_milli < 1000 ? t->spec->gpu_milli : 1000;
    return room_size(b, t->spec, ret, NULL);
}

/* The row has its blocks in full, and generation and time beside. */
int stage_load(const struct world *w, struct task *t, const json_t *row,
               const json_t *hidden)
{
    const json_t *list = json_object_get(row, "places");
    size_t n = json_array_size(list);
    struct grant *grants;

    if (!row)
        return 0;
    if (n > UINT32_MAX || check_ranks(t, (uint32_t) n, NULL) < 0)
        return -EINVAL;
    grants = mem_array(n, sizeof(*grants));
    for (size_t i = 0; i < n; i++) {
        if (rank_load(w, t, json_array_get(list, i), &grants[i]) < 0) {
            free(grants);
            return -EINVAL;
        }
        grants[i].rank = (uint32_t) i;
    }
    set_staged(w, t, grants, (uint32_t) n);
    t->staged->gen = (uint32_t) json_integer_value(json_array_get(hidden, 0));
    t->staged->since_ms =
        (uint64_t) json_integer_value(json_array_get(hidden, 1));
    return 0;
}

/* ---- checking ---- */

bool stage_right(const struct task *t)
{
    const struct plan_place *at;
    uint64_t since;
    uint32_t n = t->item ? plan_stage(t->item, &at, &since) : 0;

    if (!t->staged)
        return n == 0;
    if (n != t->staged->ngrants || !t->in_line ||
        t->staged->gen != task_next_gen(t))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (at[i].node != t->staged->blocks[i]->plan_node)
            return false;
    return true;
}

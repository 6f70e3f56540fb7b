#include "plan/cost.h"

#include "base/err.h"
#include "base/mem.h"

#include <string.h>

struct plan *plan_new(void)
{
    struct plan *p = mem_new(sizeof(*p));

    policy_init(&p->policy);
    p->predict = predict_new();
    p->room = p->shares = 1;
    items_init(p);
    pool_init(p);
    tenants_init(p);
    line_init(p);
    promises_init(p);
    room_init(p);
    stage_init(p);
    score_init(p);
    meter_init(p);
    return p;
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    while (p->all)
        plan_end(p, p->all, false);
    shapes_free(p);
    meter_free(p);
    score_free(p);
    stage_free(p);
    room_free(p);
    costs_free(p);
    promises_free(p);
    line_free(p);
    tenants_free(p);
    pool_free(p);
    timetable_free(&p->timetable);
    slab_free(&p->slab);
    free(p->running);
    free(p->level_ends);
    predict_free(p->predict);
    free(p->next);
    free(p);
}

void plan_set_policy(struct plan *p, const struct policy *policy)
{
    p->policy = *policy;
    score_policy(p);
    for (struct plan_item *i = p->all; i; i = i->next)
        item_policy(p, i);
    tenants_changed(p);
    promises_changed(p);
    stage_policy(p);
    line_room(p, NULL);
}

const struct policy *plan_policy(const struct plan *p)
{
    return &p->policy;
}

struct predict *plan_predict(struct plan *p)
{
    return p->predict;
}

uint64_t plan_now(const struct plan *p)
{
    return p->now_ms;
}

void plan_tick(struct plan *p, uint64_t now_ms)
{
    if (now_ms <= p->now_ms)
        return;
    meter_advance(p, now_ms);
    p->now_ms = now_ms;
    p->shares++;
    items_tick(p);
    promises_tick(p);
    line_tick(p);
}

/* Evictions already decided on go first: their claimant is before everybody
 * who could start now on what they leave.  Memory that a decision needs and
 * somebody staged has is got back before it.
 */
bool plan_next(struct plan *p, struct plan_decision *ret)
{
    free(p->next);
    p->next = NULL;
    memset(ret, 0, sizeof(*ret));
    items_tick(p);                     /* what was added may be due already */
    if (stage_relieve(p, ret))
        return true;
    if (!room_next(p, ret) && !line_next(p, ret) && !slice_next(p, ret))
        return stage_next(p, ret);
    (void) stage_before(p, ret);
    return true;
}

uint64_t plan_wake_ms(const struct plan *p)
{
    uint64_t at = promises_wake_ms(p), timer = items_wake_ms(p);
    uint64_t stage = stage_wake_ms(p), slice = slice_wake_ms(p);

    at = stage < at ? stage : at;
    at = slice < at ? slice : at;
    return p->waiting > 0 && timer < at ? timer : at;
}

size_t plan_waiting(const struct plan *p)
{
    return p->waiting;
}

const char *plan_cause_name(enum plan_cause c)
{
    static const char *const names[] = {
        [EVICT_PRIORITY] = "priority", [EVICT_QUOTA] = "quota",
        [EVICT_TURN] = "turn", [EVICT_MOVE] = "move",
        [EVICT_SLICE] = "slice",
    };

    return names[c];
}

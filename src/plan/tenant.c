#include "plan/plan_int.h"

#include "base/map.h"
#include "base/mem.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* The tree of tenants: who holds how much, and whose turn it is.
 *
 * What a tenant used counts half after each half-life.  What it holds now
 * counts as if it had always held it: the two have one unit, device-ms, and a
 * tenant that begins to take devices is seen to do so at once.  The sum over
 * the weight is its share; among siblings the smaller share goes first, and
 * before all of them who holds less than its guaranteed quota.  Tenants that
 * stand apart in the tree are compared where their ancestors part.
 *
 * Where no tenant has a weight or a quota there is nothing to be fair by: all
 * are one, unless the policy says otherwise.
 */

void tenants_init(struct plan *p)
{
    p->tenants_by_name = map_new();
}

static void tenant_free(struct plan_tenant *t)
{
    free(t->name);
    free(t);
}

void tenants_free(struct plan *p)
{
    for (uint32_t i = 0; i < p->ntenants; i++)
        tenant_free(p->tenants[i]);
    free(p->tenants);
    map_free(p->tenants_by_name);
}

/* ---- usage ---- */

/* Device-ms that one device gives in all, held for ever, half-life decayed. */
static double full_usage(const struct plan *p)
{
    return (double) p->policy.half_life_ms / M_LN2;
}

static double usage_at(const struct plan *p, const struct plan_tenant *t)
{
    double left = exp2(-(double) (p->now_ms - t->usage_ms) /
                       (double) p->policy.half_life_ms);

    return t->usage * left + (double) t->held_milli / 1000 *
                             full_usage(p) * (1 - left);
}

double plan_tenant_usage(const struct plan *p, const struct plan_tenant *t,
                         uint64_t *ret_ms)
{
    (void) p;
    *ret_ms = t->usage_ms;
    return t->usage;
}

static void fold(struct plan *p, struct plan_tenant *t)
{
    t->usage = usage_at(p, t);
    t->usage_ms = p->now_ms;
    t->share_ms = UINT64_MAX;
    p->shares++;
}

void plan_tenant_load(struct plan *p, struct plan_tenant *t, double usage,
                      uint64_t at_ms)
{
    t->usage = usage;
    t->usage_ms = at_ms < p->now_ms ? at_ms : p->now_ms;
    t->share_ms = UINT64_MAX;
    p->shares++;
    line_tenant(p, t);
}

static void hold(struct plan *p, struct plan_tenant *t, int64_t milli)
{
    for (; t; t = t->parent) {
        fold(p, t);
        t->held_milli += (uint64_t) milli;
    }
}

void tenant_took(struct plan *p, struct plan_tenant *t, uint64_t milli)
{
    hold(p, t, (int64_t) milli);
}

void tenant_gave(struct plan *p, struct plan_tenant *t, uint64_t milli)
{
    hold(p, t, -(int64_t) milli);
}

/* ---- what stood idle while it waited ---- */

void tenant_wants(struct plan *p, struct plan_tenant *t, int64_t more)
{
    struct plan_meter m;
    uint64_t now;

    plan_meter(p, &m);
    now = meter_blocked(&m);
    for (; t; t = t->parent) {
        if (t->wanting == 0)
            t->idle_mark = now;
        t->wanting = (uint32_t) (t->wanting + more);
        if (t->wanting == 0)
            t->idle += now - t->idle_mark;
    }
}

void plan_tenant_waited(const struct plan_tenant *t, struct plan_waited *ret)
{
    *ret = (struct plan_waited) {
        .idle = t->idle, .mark = t->wanting ? t->idle_mark : 0,
        .waits = t->wanting > 0,
    };
}

void plan_tenant_waited_load(struct plan_tenant *t,
                             const struct plan_waited *w)
{
    t->idle = w->idle;
    t->idle_mark = w->mark;
}

uint64_t plan_waited_idle(const struct plan_waited *w,
                          const struct plan_meter *m)
{
    return w->idle + (w->waits ? meter_blocked(m) - w->mark : 0);
}

/* ---- limits and order ---- */

const struct plan_tenant *tenant_barred(const struct plan_tenant *t,
                                        uint64_t milli)
{
    for (; t; t = t->parent)
        if (t->stopped || (t->max_milli != PLAN_UNLIMITED && milli > 0 &&
                           t->held_milli + milli > t->max_milli))
            return t;
    return NULL;
}

static double share(const struct plan *p, struct plan_tenant *t)
{
    if (t->share_ms != p->now_ms) {
        t->share = (usage_at(p, t) + (double) t->held_milli / 1000 *
                    full_usage(p)) / (t->weight ? t->weight : 1);
        t->share_ms = p->now_ms;
    }
    return t->share;
}

/* off: what b holds less than it does. */
static int siblings(const struct plan *p, struct plan_tenant *a,
                    struct plan_tenant *b, uint64_t off)
{
    bool a_within = a->held_milli < a->quota_milli;
    bool b_within = b->held_milli - off < b->quota_milli;
    double as, bs;

    if (a_within != b_within)
        return a_within ? -1 : 1;
    as = share(p, a);
    bs = share(p, b);
    if (off > 0)
        bs -= (double) off / 1000 * full_usage(p) / (b->weight ? b->weight : 1);
    if (as < bs || as > bs)
        return as < bs ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Where one is above the other, the one above has waited on its own account:
 * it goes first.
 */
int tenant_order_off(const struct plan *p, struct plan_tenant *a,
                     struct plan_tenant *b, uint64_t off)
{
    if (a == b || !p->fair)
        return 0;
    while (a->depth > b->depth) {
        if (a->parent == b)
            return 1;
        a = a->parent;
    }
    while (b->depth > a->depth) {
        if (b->parent == a)
            return -1;
        b = b->parent;
    }
    while (a->parent != b->parent) {
        a = a->parent;
        b = b->parent;
    }
    return siblings(p, a, b, off);
}

int tenant_order(const struct plan *p, struct plan_tenant *a,
                 struct plan_tenant *b)
{
    return tenant_order_off(p, a, b, 0);
}

/* ---- the tree ---- */

static bool is_fair(const struct plan *p)
{
    if (p->policy.fair)
        return true;
    for (uint32_t i = 0; i < p->ntenants; i++)
        if (p->tenants[i]->weight > 0 || p->tenants[i]->quota_milli > 0)
            return true;
    return false;
}

void tenants_changed(struct plan *p)
{
    bool fair = is_fair(p);

    p->shares++;
    if (fair != p->fair) {
        p->fair = fair;
        line_rebuild(p);
    }
}

static struct plan_tenant *add(struct plan *p, const char *name)
{
    struct plan_tenant *t = mem_new(sizeof(*t));

    t->name = mem_str(name);
    t->usage_ms = p->now_ms;
    t->share_ms = UINT64_MAX;
    t->max_milli = PLAN_UNLIMITED;
    t->index = p->ntenants;
    if (p->ntenants == p->tenants_cap) {
        p->tenants_cap = p->tenants_cap ? p->tenants_cap * 2 : 8;
        p->tenants = mem_grow(p->tenants, p->tenants_cap,
                              sizeof(struct plan_tenant *));
    }
    p->tenants[p->ntenants++] = t;
    map_set(p->tenants_by_name, name, t);
    return t;
}

static void set_depth(struct plan *p, struct plan_tenant *t)
{
    t->depth = t->parent ? t->parent->depth + 1 : 0;
    for (uint32_t i = 0; i < p->ntenants; i++)
        if (p->tenants[i]->parent == t)
            set_depth(p, p->tenants[i]);
}

static void move(struct plan *p, struct plan_tenant *t,
                 struct plan_tenant *parent)
{
    for (const struct plan_tenant *up = parent; up; up = up->parent)
        assert(up != t);
    if (t->parent) {
        hold(p, t->parent, -(int64_t) t->held_milli);
        tenant_wants(p, t->parent, -(int64_t) t->wanting);
        t->parent->children--;
    }
    t->parent = parent;
    if (parent) {
        hold(p, parent, (int64_t) t->held_milli);
        tenant_wants(p, parent, t->wanting);
        parent->children++;
    }
    set_depth(p, t);
}

struct plan_tenant *plan_tenant_set(struct plan *p,
                                    const struct plan_tenant_spec *spec)
{
    struct plan_tenant *t = map_get(p->tenants_by_name, spec->name);

    if (!t)
        t = add(p, spec->name);
    if (t->parent != spec->parent)
        move(p, t, spec->parent);
    t->weight = spec->weight;
    t->quota_milli = spec->quota_milli;
    t->max_milli = spec->max_milli;
    t->stopped = spec->stopped;
    t->share_ms = UINT64_MAX;
    tenants_changed(p);
    line_tenant(p, t);
    return t;
}

void plan_tenant_remove(struct plan *p, struct plan_tenant *t)
{
    assert(t->items == 0 && t->children == 0);
    if (t->parent)
        move(p, t, NULL);
    map_del(p->tenants_by_name, t->name);
    p->tenants[t->index] = p->tenants[--p->ntenants];
    p->tenants[t->index]->index = t->index;
    promise_tenant_gone(p, t);
    tenant_free(t);
    tenants_changed(p);
}

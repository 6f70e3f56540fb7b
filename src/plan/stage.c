#include "plan/pool.h"
#include "plan/stage.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Look-ahead: what is kept for it.  stage_pick.c decides.
 *
 * Whoever is staged stays in line, holds no device, and holds the memory of its
 * need on its nodes.  That memory is nobody's hindrance: all who look for a
 * place take it for free, and a decision that needs it is preceded by the
 * order to unstage (stage_before).
 *
 * A running item is near its end when it may be over within the policy's
 * look-ahead: the low end of the guessed range (0.1), the one that `why` shows
 * as well.  A stage in vain costs memory that nobody else wanted and the CPU
 * time of a start, a missed one costs that time of the devices, which are worth
 * ten times as much and more; so a chance of one in ten is taken.  Once near it
 * stays so while the guess is within twice the look-ahead.  Of one whose like
 * was never seen nothing is thought.
 *
 * A guess is good until the time it names, and is made again then, not sooner
 * than a quarter of the look-ahead later: no tick looks at all that runs.
 */
static const double EARLY = 0.1;

static bool near_before(const void *a, const void *b)
{
    return strcmp(((const struct plan_node *) a)->name,
                  ((const struct plan_node *) b)->name) < 0;
}

void stage_init(struct plan *p)
{
    struct stager *g = p->stager = mem_new(sizeof(*p->stager));

    g->looks.slot = offsetof(struct plan_item, look_slot);
    g->near.slot = offsetof(struct plan_node, near_slot);
    g->near.before = near_before;
    g->due.slot = offsetof(struct stage, slot);
    g->expected.slot = offsetof(struct plan_item, look_slot);
}

void stage_free(struct plan *p)
{
    keyed_free(&p->stager->looks);
    keyed_free(&p->stager->near);
    keyed_free(&p->stager->due);
    keyed_free(&p->stager->expected);
    free(p->stager->touched);
    free(p->stager);
}

/* ---- nodes ---- */

static void touch(struct plan *p, struct plan_node *n)
{
    struct stager *g = p->stager;

    if (!n->stages || n->touched)
        return;
    if (g->ntouched == g->touched_cap) {
        g->touched_cap = g->touched_cap ? 2 * g->touched_cap : 16;
        g->touched = mem_grow(g->touched, g->touched_cap,
                              sizeof(struct plan_node *));
    }
    g->touched[g->ntouched++] = n;
    n->touched = true;
}

void stage_node(struct plan *p, struct plan_node *n)
{
    touch(p, n);
    for (uint32_t k = 0; !n->open && k < n->nstaged; k++)
        keyed_set(&p->stager->due, n->staged[k], p->now_ms,
                  n->staged[k]->item->order);
}

void stage_node_new(struct plan *p, const struct plan_node *n)
{
    p->stager->nodes += n->stages;
}

void stage_node_gone(struct plan *p, struct plan_node *n)
{
    struct stager *g = p->stager;
    uint32_t kept = 0;

    while (n->nstaged > 0)
        stage_drop(p, n->staged[0]->item);
    g->nodes -= n->stages;
    keyed_remove(&g->near, n);
    for (uint32_t k = 0; k < g->ntouched; k++)
        if (g->touched[k] != n)
            g->touched[kept++] = g->touched[k];
    g->ntouched = kept;
}

static uint64_t milli_on(const struct shape *s,
                         const struct plan_place *places, uint32_t nplaces,
                         const struct plan_node *n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < nplaces; k++)
        if (places[k].node == n)
            sum += s->parts[places[k].part].need.gpu_milli;
    return sum;
}

/* When something there may end, and whether there will be more of its devices
 * than those want who are staged; UINT64_MAX: no.
 */
static uint64_t near_ms(const struct plan_node *n)
{
    uint64_t at = UINT64_MAX, comes = n->free_milli, wanted = 0;

    for (uint32_t k = 0; k < n->nitems; k++) {
        const struct plan_item *i = n->items[k];

        if (i->near_ms == 0 || pool_met(n, k))
            continue;
        at = i->near_ms < at ? i->near_ms : at;
        comes += milli_on(i->shape, i->places, i->nplaces, n);
    }
    for (uint32_t k = 0; k < n->nstaged; k++)
        wanted += milli_on(n->staged[k]->item->shape, n->staged[k]->places,
                           n->staged[k]->nplaces, n);
    return n->stages && n->open && comes > wanted ? at : UINT64_MAX;
}

static void settle_node(struct stager *g, struct plan_node *n)
{
    uint64_t at = near_ms(n);

    n->touched = false;
    if (at == UINT64_MAX)
        keyed_remove(&g->near, n);
    else
        keyed_set(&g->near, n, at, 0);
}

/* ---- what runs ---- */

static void look(struct plan *p, struct plan_item *i)
{
    uint64_t ahead = p->policy.lookahead_ms, now = p->now_ms;
    uint64_t end = item_end_ms(p, i, EARLY), was = i->near_ms, at;
    uint64_t least = now + (ahead > 4000 ? ahead / 4 : 1000);

    if (end <= now + (was ? 2 * ahead : ahead) && item_seen(p, i)) {
        i->near_ms = at = end;
    } else {
        i->near_ms = 0;
        at = end > ahead ? end - ahead : 0;
    }
    keyed_set(&p->stager->looks, i, at > least ? at : least, i->order);
    for (uint32_t k = 0; i->near_ms != was && k < i->nplaces; k++)
        touch(p, i->places[k].node);
}

static bool on_such(const struct plan_item *i)
{
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node->stages && i->places[k].ndevices > 0)
            return true;
    return false;
}

void stage_running(struct plan *p, struct plan_item *i, bool runs)
{
    struct stager *g = p->stager;

    if (g->nodes == 0 && i->look_slot == 0)
        return;
    for (uint32_t k = 0; k < i->nplaces; k++)
        touch(p, i->places[k].node);
    if (runs && on_such(i)) {
        keyed_set(&g->looks, i, p->now_ms, i->order);
    } else {
        i->near_ms = 0;
        keyed_remove(&g->looks, i);
    }
}

void stage_settle(struct plan *p)
{
    struct stager *g = p->stager;

    while (g->looks.count > 0 && g->looks.list[0].key[0] <= p->now_ms)
        look(p, keyed_top(&g->looks));
    while (g->ntouched > 0)
        settle_node(g, g->touched[--g->ntouched]);
}

/* All is guessed again under another policy. */
void stage_policy(struct plan *p)
{
    for (uint32_t k = 0; p->stager->nodes > 0 && k < p->nrunning; k++)
        stage_running(p, p->running[k], p->running[k]->state == ITEM_RUNNING);
}

uint64_t stage_wake_ms(const struct plan *p)
{
    const struct stager *g = p->stager;
    uint64_t at = UINT64_MAX, ahead = p->policy.lookahead_ms;

    if (g->nodes == 0)
        return at;
    if (g->looks.count > 0 && ahead > 0 &&
        (p->waiting > 0 || g->expected.count > 0))
        at = g->looks.list[0].key[0];
    if (g->due.count > 0 && g->due.list[0].key[0] < at)
        at = g->due.list[0].key[0];
    if (g->expected.count > 0 && ahead > 0 &&
        g->expected.list[0].key[0] > p->now_ms + ahead &&
        g->expected.list[0].key[0] - ahead < at)
        at = g->expected.list[0].key[0] - ahead;
    return at;
}

/* ---- what is staged ---- */

bool stage_on(const struct plan_item *i, const struct plan_node *n)
{
    for (uint32_t k = 0; i->stage && k < i->stage->nplaces; k++)
        if (i->stage->places[k].node == n)
            return true;
    return false;
}

uint64_t stage_memory(const struct plan_item *i, const struct plan_node *n)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; i->stage && k < i->stage->nplaces; k++)
        if (i->stage->places[k].node == n)
            sum += i->shape->parts[i->stage->places[k].part].need.memory;
    return sum;
}

bool stage_crowded(const struct plan_node *n)
{
    return n->memory_held + n->parked + n->staged_memory > n->memory;
}

static bool first_on(const struct stage *s, uint32_t k)
{
    for (uint32_t m = 0; m < k; m++)
        if (s->places[m].node == s->places[k].node)
            return false;
    return true;
}

/* By number: what is thought of them must not depend on who came when. */
static void add_to_node(struct plan *p, struct stage *s, struct plan_node *n)
{
    uint32_t at = n->nstaged;

    n->staged = mem_grow(n->staged, n->nstaged + 1u, sizeof(struct stage *));
    for (; at > 0 && n->staged[at - 1]->item->order > s->item->order; at--)
        n->staged[at] = n->staged[at - 1];
    n->staged[at] = s;
    n->nstaged++;
    n->staged_memory += stage_memory(s->item, n);
    touch(p, n);
}

static void remove_from_node(struct plan *p, const struct stage *s,
                             struct plan_node *n)
{
    uint32_t k = 0;

    while (n->staged[k] != s)
        k++;
    n->nstaged--;
    memmove(&n->staged[k], &n->staged[k + 1],
            (n->nstaged - k) * sizeof(struct stage *));
    n->staged_memory -= stage_memory(s->item, n);
    touch(p, n);
}

/* Could a rank of the item be staged and start there, as far as it goes by
 * numbers?
 */
static bool is_place(const struct plan_item *i, const struct plan_place *at)
{
    if (!at->node->stages || at->part >= i->shape->nparts ||
        at->ndevices != i->shape->parts[at->part].devices)
        return false;
    for (uint32_t d = 0; d < at->ndevices; d++)
        if (at->device[d] >= at->node->ndevices)
            return false;
    return true;
}

static int may_stage(const struct plan_item *i,
                     const struct plan_place *places, uint32_t n,
                     struct err *err)
{
    for (uint32_t k = 0; k < n; k++) {
        const struct plan_node *node = places[k].node;
        uint64_t memory = 0;

        if (!is_place(i, &places[k]))
            return err_set(err, EBUSY, "node %s stages no such rank",
                           node->name);
        for (uint32_t m = 0; m <= k; m++)
            if (places[m].node == node)
                memory += i->shape->parts[places[m].part].need.memory;
        if (node->memory_held + node->parked + node->staged_memory + memory >
            node->memory)
            return err_set(err, EBUSY, "node %s: no memory to stage rank %u",
                           node->name, k);
    }
    if (!i->stage && n > 0 && !i->places &&
        (i->state == ITEM_WAITING || i->state == ITEM_HELD))
        return 0;
    return err_set(err, EBUSY, "only what waits or is held can be staged");
}

int plan_staged(struct plan *p, struct plan_item *i,
                const struct plan_place *places, uint32_t n, struct err *err)
{
    int rc = may_stage(i, places, n, err);
    uint64_t due_ms = p->now_ms + 2 * p->policy.lookahead_ms;
    struct stage *s;

    if (rc < 0)
        return rc;
    s = mem_new(sizeof(*s));
    s->item = i;
    s->places = mem_dup(places, n * sizeof(*places));
    s->nplaces = n;
    s->since_ms = p->now_ms;
    i->stage = s;
    if (i->state == ITEM_WAITING)
        i->state = ITEM_STAGED;
    i->stagings += i->stagings < UINT8_MAX;
    for (uint32_t k = 0; k < n; k++) {
        if (first_on(s, k))
            add_to_node(p, s, s->places[k].node);
        if (!s->places[k].node->open)
            due_ms = p->now_ms;        /* not for long: see stage_node */
    }
    keyed_set(&p->stager->due, s, due_ms, i->order);
    return 0;
}

void stage_drop(struct plan *p, struct plan_item *i)
{
    struct stage *s = i->stage;

    for (uint32_t k = 0; k < s->nplaces; k++)
        if (first_on(s, k))
            remove_from_node(p, s, s->places[k].node);
    keyed_remove(&p->stager->due, s);
    i->stage = NULL;
    if (i->state == ITEM_STAGED)
        i->state = ITEM_WAITING;
    free(s->places);
    free(s);
}

void plan_unstaged(struct plan *p, struct plan_item *i)
{
    if (i->stage)
        stage_drop(p, i);
}

/* ---- what is expected ---- */

void plan_expect(struct plan *p, struct plan_item *i, uint64_t ready_ms)
{
    if (i->state != ITEM_HELD || i->places)
        return;
    i->near_ms = item_ms(ready_ms);
    if (ready_ms > 0)
        keyed_set(&p->stager->expected, i, i->near_ms, i->order);
    else
        keyed_remove(&p->stager->expected, i);
}

void stage_ready(struct plan *p, struct plan_item *i)
{
    keyed_remove(&p->stager->expected, i);
    i->near_ms = 0;
}

uint32_t plan_stage(const struct plan_item *i, const struct plan_place **ret,
                    uint64_t *ret_ms)
{
    if (!i->stage)
        return 0;
    *ret = i->stage->places;
    *ret_ms = i->stage->since_ms;
    return i->stage->nplaces;
}

struct plan_item *plan_node_staged(const struct plan_node *n, uint32_t k)
{
    return k < n->nstaged ? n->staged[k]->item : NULL;
}

/* ---- checking ---- */

static int check_stage(const struct plan *p, const struct plan_item *i,
                       struct err *err)
{
    const struct stager *g = p->stager;
    bool right;

    if ((i->state == ITEM_STAGED) != (i->stage && i->state != ITEM_HELD))
        return err_set(err, EPROTO, "item %ju: staged or not?",
                       (uintmax_t) i->order);
    if (i->near_ms > 0 && i->look_slot == 0)
        return err_set(err, EPROTO, "item %ju: near its end, and not looked "
                       "at", (uintmax_t) i->order);
    if (!i->stage)
        return 0;
    right = i->stage->item == i && i->stage->slot > 0 &&
            g->due.list[i->stage->slot - 1].item == i->stage;
    for (uint32_t k = 0; k < i->stage->nplaces; k++) {
        const struct plan_node *n = i->stage->places[k].node;
        uint32_t m = 0;

        while (m < n->nstaged && n->staged[m] != i->stage)
            m++;
        right &= m < n->nstaged;
    }
    return right ? 0 : err_set(err, EPROTO, "item %ju: staged in no place",
                               (uintmax_t) i->order);
}

static int check_node(const struct plan_node *n, struct err *err)
{
    uint64_t memory = 0;

    for (uint32_t k = 0; k < n->nstaged; k++)
        memory += stage_memory(n->staged[k]->item, n);
    if (memory != n->staged_memory)
        return err_set(err, EPROTO, "node %s: %ju bytes are staged and not "
                       "%ju", n->name, (uintmax_t) memory,
                       (uintmax_t) n->staged_memory);
    if (!n->touched && (near_ms(n) != UINT64_MAX) != (n->near_slot > 0))
        return err_set(err, EPROTO, "node %s: near or not?", n->name);
    return 0;
}

int stage_check(const struct plan *p, struct err *err)
{
    const struct stager *g = p->stager;
    size_t staged = 0, looked_at = 0;
    int rc = 0;

    for (const struct plan_item *i = p->all; i && rc == 0; i = i->next) {
        rc = check_stage(p, i, err);
        staged += i->stage != NULL;
        looked_at += i->look_slot > 0;
    }
    for (uint32_t k = 0; k < p->nnodes && rc == 0; k++)
        if (p->nodes[k])
            rc = check_node(p->nodes[k], err);
    if (rc == 0 && staged != g->due.count)
        rc = err_set(err, EPROTO, "%zu are staged, kept are %u", staged,
                     g->due.count);
    if (rc == 0 && looked_at != (size_t) g->looks.count + g->expected.count)
        rc = err_set(err, EPROTO, "%zu are looked at, kept are %u and %u",
                     looked_at, g->looks.count, g->expected.count);
    return rc;
}

#include "plan/pool.h"
#include "plan/victim.h"

#include "base/mem.h"

#include <string.h>

/* Claims: room that is being made.
 *
 * The claimant is the first in line who does not fit.  search.c finds who
 * would have to go; the claim holds the claimant's places from the first order
 * to leave until it starts there, so that nobody leaves for nothing.  One that
 * is only moved has a claim of its own on the place it moves to.
 *
 * A claim comes into being when a victim is told to leave, not when that is
 * decided: a plan that replays what another one decided has the same claims.
 */

void room_init(struct plan *p)
{
    p->rooms = mem_new(sizeof(*p->rooms));
}

void room_claim_free(struct plan_claim *c)
{
    if (!c)
        return;
    free(c->places);
    free(c->victims);
    free(c);
}

void room_free(struct plan *p)
{
    room_claim_free(p->rooms->draft);
    for (uint32_t k = 0; k < p->rooms->nsets; k++)
        keyed_free(&p->rooms->sets[k].items);
    free(p->rooms->sets);
    free(p->rooms);
}

bool room_moves(const struct plan *p)
{
    return p->policy.move && p->pool->live <= ROOM_NODES;
}

/* ---- claims ---- */

struct plan_claim *room_claim(const struct plan *p, const struct plan_item *i)
{
    struct plan_claim *c = p->rooms->claims;

    while (c && c->claimant != i)
        c = c->next;
    return c;
}

static void promise_at(const struct plan_place *places, uint32_t n, bool on)
{
    for (uint32_t k = 0; k < n; k++)
        places[k].node->promised += on ? 1 : UINT32_MAX;
}

/* Where it is suspended there has to be memory for its state, also where no
 * room is made for the claimant.
 */
static void promise_victim(const struct plan_victim *v, bool on)
{
    if (v->how == YIELD_SUSPEND)
        promise_at(v->item->places, v->item->nplaces, on);
}

static void promise(const struct plan_claim *c, bool on)
{
    promise_at(c->places, c->nplaces, on);
    for (uint32_t k = 0; k < c->nvictims; k++)
        promise_victim(&c->victims[k], on);
}

void room_add(struct plan *p, struct plan_claim *c)
{
    struct plan_claim **at = &p->rooms->claims;

    while (*at)
        at = &(*at)->next;
    *at = c;
    promise(c, true);
    p->promised++;
}

static void unlink_claim(struct plan *p, struct plan_claim *c)
{
    struct plan_claim **at = &p->rooms->claims;

    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    promise(c, false);
    p->promised++;
}

static void say_free(struct plan *p, const struct plan_place *places,
                     uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (k == 0 || places[k].node != places[k - 1].node)
            line_room(p, places[k].node);
}

static bool leaves_for_nobody(const struct plan_item *v)
{
    return v->state == ITEM_LEAVING && !v->claimant;
}

/* What it leaves is nobody's from now on. */
static void let_go(struct plan *p, struct plan_item *v)
{
    bool was = leaves_for_nobody(v);

    v->claimant = NULL;
    if (!was && leaves_for_nobody(v))
        p->rooms->leaving_milli += v->held_milli;
}

/* Who was to move and has not been told to stays where it is. */
static void drop_claim(struct plan *p, struct plan_claim *c)
{
    unlink_claim(p, c);
    for (uint32_t k = 0; k < c->nvictims; k++) {
        struct plan_item *v = c->victims[k].item;
        struct plan_claim *own = room_claim(p, v);

        let_go(p, v);
        if (own && v->state == ITEM_RUNNING) {
            unlink_claim(p, own);
            room_claim_free(own);
        }
    }
    say_free(p, c->places, c->nplaces);
    for (uint32_t k = 0; k < c->nvictims; k++)
        if (c->victims[k].how == YIELD_SUSPEND ||
            leaves_for_nobody(c->victims[k].item))
            say_free(p, c->victims[k].item->places,
                     c->victims[k].item->nplaces);
    room_claim_free(c);
}

static uint32_t find_victim(const struct plan_claim *c,
                            const struct plan_item *v)
{
    uint32_t k = 0;

    while (k < c->nvictims && c->victims[k].item != v)
        k++;
    return k;
}

static struct plan_claim *claim_alone(struct plan_item *claimant,
                                      const struct plan_place *places,
                                      uint32_t n)
{
    struct plan_claim *c = mem_new(sizeof(*c));

    c->claimant = claimant;
    c->places = mem_dup(places, n * sizeof(*places));
    c->nplaces = n;
    return c;
}

static struct plan_claim *search_for(struct plan *p, struct plan_item *claimant,
                                     const struct plan_item *v)
{
    struct plan_claim *c = room_search(p, claimant);

    if (p->policy.slice_ms == 0 || (c && find_victim(c, v) < c->nvictims))
        return c;
    room_claim_free(c);
    return room_search_slice(p, claimant);
}

/* The claim that a search from here gives; where that has no use for v any
 * more (v was told anew, or the journal is of another plan), a loose one.
 */
static struct plan_claim *make_claim(struct plan *p,
                                     struct plan_item *claimant,
                                     struct plan_item *v)
{
    struct plan_claim *c = take(p->rooms->draft);

    if (!c || c->claimant != claimant) {
        room_claim_free(c);
        c = search_for(p, claimant, v);
    }
    if (c && find_victim(c, v) < c->nvictims)
        return c;
    room_claim_free(c);
    c = claim_alone(claimant, NULL, 0);
    c->loose = true;
    return c;
}

/* Of that v's own places, with those of others who leave for it as well. */
static void add_loose(struct plan *p, struct plan_claim *c,
                      struct plan_item *v)
{
    promise(c, false);
    c->places = mem_grow(c->places, c->nplaces + v->nplaces,
                         sizeof(*c->places));
    for (uint32_t k = 0; k < v->nplaces; k++) {
        c->places[c->nplaces] = v->places[k];
        c->places[c->nplaces++].part = 0;      /* of the claimant, not of v */
    }
    c->victims = mem_grow(c->victims, c->nvictims + 1u, sizeof(*c->victims));
    c->victims[c->nvictims++] = (struct plan_victim) { .item = v };
    promise(c, true);
    p->promised++;
}

/* The claim that v is told to leave for; returns as room_leaving does. */
static bool leave_for(struct plan *p, struct plan_item *v,
                      struct plan_item *claimant)
{
    struct plan_claim *c = room_claim(p, claimant);
    bool left = false;

    if (!c) {
        c = make_claim(p, claimant, v);
        room_add(p, c);
        left = pool_left(c->places, c->nplaces);
        for (uint32_t k = 0; k < c->nvictims; k++) {
            const struct plan_place *to = &c->victims[k].to;

            if (!c->victims[k].moves)
                continue;
            room_add(p, claim_alone(c->victims[k].item, to, 1));
            left |= pool_left(to, 1);
        }
    }
    if (c->loose && find_victim(c, v) == c->nvictims)
        add_loose(p, c, v);
    if (find_victim(c, v) < c->nvictims)       /* else it counts on others */
        v->claimant = claimant;
    return left;
}

bool room_leaving(struct plan *p, struct plan_item *v,
                  struct plan_item *claimant)
{
    bool left = claimant && item_waits(claimant) && leave_for(p, v, claimant);

    if (!v->claimant)
        p->rooms->leaving_milli += v->held_milli;
    return left;
}

/* The victim is off its places, or over; more than one may count on it. */
void room_gone(struct plan *p, struct plan_item *v)
{
    if (leaves_for_nobody(v))
        p->rooms->leaving_milli -= v->held_milli;
    v->claimant = NULL;
    for (struct plan_claim *c = p->rooms->claims; c; c = c->next) {
        uint32_t k = find_victim(c, v);

        if (k == c->nvictims)
            continue;
        p->promised++;
        promise_victim(&c->victims[k], false);
        memmove(&c->victims[k], &c->victims[k + 1],
                (--c->nvictims - k) * sizeof(*c->victims));
    }
}

void room_gave(struct plan *p, const struct plan_item *v, uint32_t place)
{
    const struct plan_place *at = &v->places[place];

    if (leaves_for_nobody(v))
        p->rooms->leaving_milli -=
            v->shape->parts[at->part].need.gpu_milli;
    for (const struct plan_claim *c = p->rooms->claims; c; c = c->next) {
        uint32_t k = find_victim(c, v);

        if (k < c->nvictims && c->victims[k].how == YIELD_SUSPEND)
            promise_at(at, 1, false);
    }
}

void room_over(struct plan *p, struct plan_item *i)
{
    struct plan_claim *c = room_claim(p, i);

    if (c)
        drop_claim(p, c);
    if (p->rooms->draft) {
        room_claim_free(p->rooms->draft);
        p->rooms->draft = NULL;
    }
}

/* Is it for a place there, or does somebody move there for it? */
static bool claim_needs(const struct plan_claim *c, const struct plan_node *n)
{
    for (uint32_t k = 0; k < c->nplaces; k++)
        if (c->places[k].node == n)
            return true;
    for (uint32_t k = 0; k < c->nvictims; k++)
        if (c->victims[k].moves && c->victims[k].to.node == n)
            return true;
    return false;
}

void room_node_gone(struct plan *p, const struct plan_node *n)
{
    struct plan_claim *c = p->rooms->claims;

    while (c) {
        if (!claim_needs(c, n)) {
            c = c->next;
            continue;
        }
        drop_claim(p, c);
        c = p->rooms->claims;
    }
    room_claim_free(p->rooms->draft);
    p->rooms->draft = NULL;
}

bool room_taken(const struct plan *p, const struct plan_item *claimant,
                const struct plan_node *n)
{
    const struct plan_claim *c;

    if (p->pool->live <= ROOM_NODES)
        return false;
    c = room_claim(p, claimant);
    for (uint32_t k = 0; c && c->nvictims == 0 && k < c->nplaces; k++)
        if (c->places[k].node == n)
            return true;
    return false;
}

/* ---- what claims mean to others ---- */

bool room_own_node(const struct plan_item *i, const struct plan_node *n)
{
    if (!i->places)
        return true;
    if (!place_bound(i))
        return n->roams && n->pool_number == i->places[0].node->pool_number;
    for (uint32_t k = 0; k < i->nplaces; k++)
        if (i->places[k].node == n)
            return true;
    return false;
}

bool room_left_to(const struct plan_item *leaving, const struct plan_item *i)
{
    return !leaving->claimant || leaving->claimant == i;
}

static void count_need(const struct shape *s, const struct plan_place *places,
                       uint32_t nplaces, const struct plan_node *n,
                       int64_t *cpu, int64_t *memory)
{
    *cpu = *memory = 0;
    for (uint32_t k = 0; k < nplaces; k++)
        if (places[k].node == n) {
            *cpu += (int64_t) s->parts[places[k].part].need.cpu_milli;
            *memory += (int64_t) s->parts[places[k].part].need.memory;
        }
}

/* CPUs and memory that the claim lacks on the node beyond what its victims
 * there leave, who may leave their state in its memory.
 */
static void claim_lacks(const struct plan_claim *c, const struct plan_node *n,
                        int64_t *ret_cpu, int64_t *ret_memory)
{
    count_need(c->claimant->shape, c->places, c->nplaces, n, ret_cpu,
               ret_memory);
    for (uint32_t k = 0; k < c->nvictims; k++) {
        const struct plan_item *v = c->victims[k].item;
        int64_t cpu, memory;

        count_need(v->shape, v->places, v->nplaces, n, &cpu, &memory);
        *ret_cpu -= cpu;
        *ret_memory -= memory;
        for (uint32_t m = 0; c->victims[k].how == YIELD_SUSPEND &&
                             m < v->nplaces; m++)
            if (v->places[m].node == n)
                *ret_memory += (int64_t) item_bytes(v, &v->places[m]);
    }
    *ret_cpu = *ret_cpu > 0 ? *ret_cpu : 0;
    *ret_memory = *ret_memory > 0 ? *ret_memory : 0;
}

static uint32_t count_milli(const struct shape *s,
                            const struct plan_place *places, uint32_t nplaces,
                            const struct plan_node *n, uint32_t device)
{
    uint32_t sum = 0;

    for (uint32_t k = 0; k < nplaces; k++)
        for (uint32_t d = 0; places[k].node == n && d < places[k].ndevices;
             d++)
            if (places[k].device[d] == device)
                sum += s->parts[places[k].part].milli;
    return sum;
}

/* ... and of a device.  Several claims may have shares of one. */
static uint32_t claim_lacks_of(const struct plan_claim *c,
                               const struct plan_node *n, uint32_t device)
{
    uint32_t want = count_milli(c->claimant->shape, c->places, c->nplaces, n,
                                device), left = 0;

    for (uint32_t k = 0; want > left && k < c->nvictims; k++) {
        const struct plan_item *v = c->victims[k].item;

        left += count_milli(v->shape, v->places, v->nplaces, n, device);
    }
    return want > left ? want - left : 0;
}

static bool is_among(const struct plan_place *places, uint32_t nplaces,
                     const struct plan_node *n)
{
    for (uint32_t k = 0; k < nplaces; k++)
        if (places[k].node == n)
            return true;
    return false;
}

/* Does it want anything there, if only memory for the state of a victim's other
 * ranks?
 */
static bool claim_names(const struct plan_claim *c, const struct plan_node *n)
{
    if (is_among(c->places, c->nplaces, n))
        return true;
    for (uint32_t k = 0; k < c->nvictims; k++)
        if (c->victims[k].how == YIELD_SUSPEND &&
            is_among(c->victims[k].item->places, c->victims[k].item->nplaces,
                     n))
            return true;
    return false;
}

static void take_on_paper(const struct plan_claim *c, struct paper_node *at)
{
    int64_t cpu, memory;

    claim_lacks(c, at->node, &cpu, &memory);
    at->cpu -= cpu;
    at->memory -= memory;
    for (uint32_t d = 0; d < at->node->ndevices; d++) {
        uint32_t lacks = claim_lacks_of(c, at->node, d);

        at->left[d] -= lacks < at->left[d] ? lacks : at->left[d];
    }
}

void room_on_paper(struct plan *p, const struct plan_item *i,
                   struct paper *pa)
{
    for (const struct plan_claim *c = p->rooms->claims; c; c = c->next)
        for (uint32_t k = 0; c->claimant != i && k < pa->count; k++)
            if (claim_names(c, pa->nodes[k].node))
                take_on_paper(c, &pa->nodes[k]);
}

/* What all others claim there is left to them. */
bool room_allows(const struct plan *p, const struct plan_item *i,
                 const struct plan_node *n, const struct part *part,
                 const struct plan_place *place)
{
    uint64_t cpu = part->need.cpu_milli, memory = part->need.memory;
    uint32_t milli[PLAN_DEVICES] = { 0 };
    bool any = false;

    for (const struct plan_claim *c = p->rooms->claims; c; c = c->next) {
        int64_t lacks_cpu, lacks_memory;

        if (c->claimant == i || !claim_names(c, n))
            continue;
        any = true;
        claim_lacks(c, n, &lacks_cpu, &lacks_memory);
        cpu += (uint64_t) lacks_cpu;
        memory += (uint64_t) lacks_memory;
        for (uint32_t d = 0; d < place->ndevices; d++)
            milli[d] += claim_lacks_of(c, n, place->device[d]);
    }
    if (any && (cpu > n->cpu_free || memory > n->memory_free))
        return false;
    for (uint32_t d = 0; any && d < place->ndevices; d++)
        if (milli[d] + part->milli > n->devices[place->device[d]].free_milli)
            return false;
    return true;
}

bool room_keeps(const struct plan *p, const struct plan_item *i,
                const struct plan_node *n, uint16_t *ret)
{
    bool any = false;

    for (const struct plan_claim *c = p->rooms->claims; c; c = c->next) {
        if (c->claimant == i || !claim_names(c, n))
            continue;
        for (uint32_t d = 0; d < n->ndevices; d++) {
            uint32_t lacks = claim_lacks_of(c, n, d);

            ret[d] = (uint16_t) (ret[d] + lacks);
            any |= lacks > 0;
        }
    }
    return any;
}

/* ---- decisions ---- */

/* A node or a device may have closed since. */
static bool is_open(const struct plan_place *at)
{
    for (uint32_t d = 0; d < at->ndevices; d++)
        if (!at->node->devices[at->device[d]].open)
            return false;
    return at->node->open;
}

/* May all go who are asked next, each when those before it are gone?  If the last
 * may not, the first would go in vain.
 */
static bool may_all_go(const struct plan *p, const struct plan_claim *c)
{
    struct ask a = { .p = p, .i = c->claimant };
    bool may = true;
    uint32_t k;

    for (k = 0; k < c->nvictims && may; k++) {
        const struct plan_victim *v = &c->victims[k];

        if (v->item->state == ITEM_RUNNING)
            may = victim_still(p, c->claimant, v);
        victim_off(&a, v->item, true);
    }
    while (k-- > 0)
        victim_off(&a, c->victims[k].item, false);
    return may;
}

/* Would it be decided again?  Nobody more is told to leave for one that may not
 * start then, or by a rule that holds no more.
 */
static bool still_holds(const struct plan *p, const struct plan_claim *c)
{
    for (uint32_t k = 0; k < c->nplaces; k++)
        if (!is_open(&c->places[k]))
            return false;
    if (c->nvictims > 0 && item_waits(c->claimant) &&
        tenant_barred(c->claimant->tenant, c->claimant->shape->gpu_milli))
        return false;
    return may_all_go(p, c);
}

/* What its state holds of its nodes' memory is free when it goes on. */
static void lend(const struct plan_item *i, bool back)
{
    for (uint32_t k = 0; item_waits(i) && k < i->nplaces; k++) {
        int64_t bytes = (int64_t) item_bytes(i, &i->places[k]);

        pool_lend(i->places[k].node, back ? bytes : -bytes);
    }
}

bool room_has_all(struct plan *p, const struct plan_item *i,
                  const struct plan_place *places, uint32_t n)
{
    const struct shape *s = i->shape;
    uint32_t k = 0;
    bool all;

    lend(i, false);
    while (k < n) {
        const struct plan_place *at = &places[k];
        const struct part *q = &s->parts[at->part];

        if (!is_open(at) || !pool_has(p, q, at, 0) ||
            !promise_allows(p, i, at->node, q, at))
            break;
        pool_take(p, s, &places[k++]);
    }
    all = k == n;
    while (k > 0)
        pool_undo(p, s, &places[--k]);
    lend(i, true);
    return all;
}

/* What was made for it is there: it goes where it is best now, which a plan
 * that does not remember the search finds as well; or, where others claim that,
 * to the places that the search found.
 */
static bool start_claimant(struct plan *p, const struct plan_claim *c,
                           struct plan_decision *ret)
{
    static const struct place_opts none;

    if (c->nvictims > 0 || c->loose || !item_waits(c->claimant) ||
        tenant_barred(c->claimant->tenant, c->claimant->shape->gpu_milli))
        return false;
    if (!place_find(p, c->claimant, &none, &p->next, &ret->nplaces,
                    &ret->score)) {
        if (!room_has_all(p, c->claimant, c->places, c->nplaces))
            return false;
        p->next = mem_dup(c->places, c->nplaces * sizeof(*c->places));
        ret->nplaces = c->nplaces;
    }
    ret->what = PLAN_START;
    ret->item = c->claimant;
    ret->places = p->next;
    return true;
}

static void evict(struct plan_item *claimant, const struct plan_victim *v,
                  struct plan_decision *ret)
{
    ret->what = PLAN_EVICT;
    ret->item = v->item;
    ret->claimant = claimant;
    ret->cause = v->cause;
    ret->how = v->how;
}

bool room_next(struct plan *p, struct plan_decision *ret)
{
    struct plan_claim *c = p->rooms->claims, *next;

    for (; c; c = next) {
        next = c->next;
        if (!still_holds(p, c)) {
            drop_claim(p, c);
            next = p->rooms->claims;   /* others may have gone with it */
            continue;
        }
        if (start_claimant(p, c, ret))
            return true;
        for (uint32_t k = 0; k < c->nvictims; k++)
            if (c->victims[k].item->state == ITEM_RUNNING) {
                evict(c->claimant, &c->victims[k], ret);
                return true;
            }
        if (c->nvictims == 0 && item_waits(c->claimant))
            drop_claim(p, c);
    }
    return false;
}

bool room_for(struct plan *p, struct plan_item *i, struct plan_node *only,
              struct plan_decision *ret)
{
    if (room_claim(p, i))
        return false;
    room_claim_free(p->rooms->draft);
    p->rooms->draft = only ? room_search_on(p, i, only) : room_search(p, i);
    if (!p->rooms->draft)
        return false;
    evict(i, &p->rooms->draft->victims[0], ret);
    return true;
}

bool room_for_slice(struct plan *p, struct plan_item *i,
                    struct plan_decision *ret)
{
    room_claim_free(p->rooms->draft);
    p->rooms->draft = room_search_slice(p, i);
    if (!p->rooms->draft)
        return false;
    evict(i, &p->rooms->draft->victims[0], ret);
    return true;
}

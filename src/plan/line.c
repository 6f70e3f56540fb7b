#include "plan/burst.h"
#include "plan/line.h"
#include "plan/pool.h"
#include "plan/reserve.h"
#include "plan/room.h"

#include "base/list.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

/* Who is next.
 *
 * Items alike in shape, tenant, priority and level stand in one queue: if its
 * head does not fit, none of it does.  (A suspended one that must go on where
 * it was has a queue of its own, those that go on in one pool share one, and so
 * do those who could start but wait for a better device, see burst.c.)  A band
 * holds all of one priority, a bench all of one tenant in it, or of all tenants
 * where they do not share by weight.  So the next item is the head of the first
 * queue of the first bench of the highest band:
 *
 *     priority - tenant - level - deadline near - others wait for it, by the
 *     length of the way below it - ready since - order
 *
 * One that has waited past its patience counts as of the first level, and goes
 * before all others of it; before that one who has waited twice as long, and so
 * on.  Among those who have waited about as long the widest goes first: the
 * narrow ones find holes beside it, and it finds none beside them.
 *
 * A queue whose head does not fit, and cannot make room, is parked, and out of
 * its bench until something happens that may help it: room on a node that its
 * shape could use (line_room), a limit of its tenant (line_tenant), a running
 * item that may be made to give way now (line_chance).
 *
 * Parked queues of a shape in a bench stand in a row, the first one at its
 * head.  Room opens the shape: the heads of its rows compete again, and when
 * the shape turns out to fit nowhere it is closed as a whole.  So room costs a
 * look at each shape in line, and nothing for each queue.  Adding, removing and
 * parking are O(log).
 */

/* ---- order ---- */

static uint8_t level_of(const struct plan_item *i)
{
    return i->promoted ? 0 : i->level;
}

/* One that goes on only where it was competes for no other place. */
static uint64_t width(const struct plan_item *i)
{
    return place_bound(i) ? 0 : i->shape->gpu_milli;
}

/* Of the same priority and tenant, or where tenants do not matter; past their
 * patience as told.
 */
static bool ranks_before(const struct plan_item *a, uint8_t a_promoted,
                         const struct plan_item *b, uint8_t b_promoted)
{
    if (level_of(a) != level_of(b))
        return level_of(a) < level_of(b);
    if (a_promoted != b_promoted)
        return a_promoted > b_promoted;
    if (a->urgent != b->urgent)
        return a->urgent;
    if (a->urgent && a->deadline_ms != b->deadline_ms)
        return a->deadline_ms < b->deadline_ms;
    if (!a->promoted && a->below_ms != b->below_ms)
        return a->below_ms > b->below_ms;
    if (a->promoted && width(a) != width(b))
        return width(a) > width(b);
    if (a->ready_ms != b->ready_ms)
        return a->ready_ms < b->ready_ms;
    return a->order < b->order;
}

static bool rank_before(const struct plan_item *a, const struct plan_item *b)
{
    return ranks_before(a, a->promoted, b, b->promoted);
}

bool item_before(const struct plan *p, const struct plan_item *a,
                 const struct plan_item *b)
{
    int share;

    if (a->priority != b->priority)
        return a->priority > b->priority;
    share = tenant_order(p, a->tenant, b->tenant);
    return share != 0 ? share < 0
                      : ranks_before(a, item_promoted(p, a),
                                     b, item_promoted(p, b));
}

/* The first number of the order above; the second is `ready_ms`, or 0 where
 * more comes before that.
 */
static uint64_t rank_key(const struct plan_item *i)
{
    uint64_t low = 0;

    if (i->urgent)
        low = i->deadline_ms;
    else if (i->promoted)
        low = ITEM_MS_MAX - width(i);
    else
        low = ITEM_MS_MAX - i->below_ms;
    return (uint64_t) level_of(i) << 56 |
           (uint64_t) (UINT8_MAX - i->promoted) << 48 |
           (uint64_t) !i->urgent << 47 | low;
}

static uint64_t rank_second(const struct plan_item *i)
{
    return i->urgent ? 0 : i->ready_ms;
}

static bool items_before(const void *a, const void *b)
{
    return rank_before(a, b);
}

static bool queue_before(const void *a, const void *b)
{
    const struct queue *x = a, *y = b;

    return rank_before(x->items.list[0].item, y->items.list[0].item);
}

void line_queues(struct keyed *ret)
{
    *ret = (struct keyed) {
        .before = queue_before, .slot = offsetof(struct queue, slot),
    };
}

static void add_item(struct queue *q, struct plan_item *i)
{
    if (q->aged)
        keyed_set(&q->items, i, i->ready_ms, i->order);
    else
        keyed_set(&q->items, i, rank_key(i), rank_second(i));
}

/* It stands where its head does. */
static void add_queue(struct keyed *h, struct queue *q)
{
    const struct keyed_entry *head = q->items.list;

    if (q->aged)
        keyed_set(h, q, rank_key(head->item), rank_second(head->item));
    else
        keyed_set(h, q, head->key[0], head->key[1]);
}

/* ---- rows ---- */

static struct row *find_row(const struct shape *s, const struct bench *bench)
{
    for (uint32_t k = 0; k < bench->nrows; k++)
        if (bench->shapes[k] == s)
            return bench->rows[k];
    return NULL;
}

static struct row *get_row(struct shape *s, struct bench *bench)
{
    struct row *r = find_row(s, bench);

    if (!r) {
        r = mem_new(sizeof(*r));
        r->shape = s;
        r->bench = bench;
        line_queues(&r->queues);
        s->rows = mem_more(s->rows, s->nrows, sizeof(struct row *));
        r->of_shape = s->nrows;
        s->rows[s->nrows++] = r;
        bench->rows = mem_more(bench->rows, bench->nrows,
                               sizeof(struct row *));
        bench->first = mem_more(bench->first, bench->nrows,
                                sizeof(*bench->first));
        bench->shapes = mem_more(bench->shapes, bench->nrows,
                                 sizeof(*bench->shapes));
        r->at = bench->nrows;
        bench->shapes[r->at] = s;
        bench->first[r->at].queue = NULL;
        bench->rows[bench->nrows++] = r;
    }
    return r;
}

/* Competes when its shape is open and it has a queue. */
static void list_row(struct row *r)
{
    bool open = r->shape->open && r->queues.count > 0;

    if (open && !r->listed)
        list_push(r->bench->open, r);
    else if (!open && r->listed)
        list_unlink(r->bench->open, r);
    r->listed = open;
}

/* Another queue may be its first one now. */
static void row_changed(struct row *r)
{
    struct bound *first = &r->bench->first[r->at];
    struct queue *q = keyed_top(&r->queues);
    const struct plan_item *head = q ? keyed_top(&q->items) : NULL;

    list_row(r);
    first->queue = head ? q : NULL;
    if (!head)
        return;
    first->tenant = q->tenant;
    first->shape = q->shape;
    first->priority = q->priority;
    first->level = q->level;
    first->own = head->level;
}

static void put_row(struct row *r)
{
    struct shape *s = r->shape;
    struct bench *b = r->bench;

    if (--r->count > 0)
        return;
    s->rows[r->of_shape] = s->rows[--s->nrows];
    s->rows[r->of_shape]->of_shape = r->of_shape;
    b->rows[r->at] = b->rows[--b->nrows];
    b->first[r->at] = b->first[b->nrows];
    b->shapes[r->at] = b->shapes[b->nrows];
    b->rows[r->at]->at = r->at;
    keyed_free(&r->queues);
    free(r);
}

static void count_denied(struct queue *q, bool on)
{
    struct shape *s = q->shape;
    uint32_t *count = q->hopes ? &s->hoping : &s->denied;

    *count += on ? 1 : UINT32_MAX;
    if (on) {
        q->later = s->denials;
        q->sooner = NULL;
        s->denials = q;
    } else if (q->sooner) {
        q->sooner->later = q->later;
    } else {
        s->denials = q->later;
    }
    if (q->later)
        q->later->sooner = on ? q : q->sooner;
}

void line_open(struct shape *s, bool good)
{
    s->again = false;
    if (!s->open) {
        s->open = true;
        for (uint32_t k = 0; k < s->nrows; k++)
            list_row(s->rows[k]);
    }
    for (struct queue *q = s->denials, *later;
         q && (s->denied > 0 || (good && s->hoping > 0)); q = later) {
        later = q->later;
        if (q->hopes && !good)
            continue;
        count_denied(q, false);
        q->parked = PARKED_ROOM;
        add_queue(&q->row->queues, q);
        row_changed(q->row);
    }
}

static void close_shape(struct shape *s)
{
    s->open = false;
    for (uint32_t k = 0; k < s->nrows; k++)
        list_row(s->rows[k]);
}

/* ---- queues ---- */

/* A suspended one goes on where it was, unless it roams. */
static const struct plan_item *bound_to(const struct plan_item *i)
{
    return place_bound(i) ? i : NULL;
}

/* One that roams goes on in its pool: its number, and one more; 0: anywhere. */
static uint32_t pool_of(const struct plan_item *i)
{
    return i->state == ITEM_SUSPENDED ? i->places[0].node->pool_number + 1u
                                      : 0;
}

/* Past the policy's patience, no deadline near, and in line ever since it was
 * ready: of equal shape the one that has waited longest is the first of them at
 * all times.  So they have a queue where only the head follows how often its
 * wait has doubled; of a million the others would all do so at once.
 */
static bool is_aged(const struct plan *p, const struct plan_item *i)
{
    return i->promoted && !i->urgent && i->since_ms == i->ready_ms &&
           i->run_ms <= p->policy.patience_ms;
}

bool line_follows(const struct plan_item *i)
{
    return !i->queue || !i->queue->aged || keyed_top(&i->queue->items) == i;
}

static struct queue *new_queue(const struct plan *p, const struct plan_item *i,
                               struct row *r)
{
    struct queue *q = mem_new(sizeof(*q));

    q->shape = i->shape;
    q->tenant = i->tenant;
    q->bound = bound_to(i);
    q->pool = pool_of(i);
    q->priority = i->priority;
    q->level = level_of(i);
    q->hopes = i->look_ms > 0;
    q->aged = is_aged(p, i);
    q->items = (struct keyed) {
        .before = items_before, .slot = offsetof(struct plan_item, slot),
    };
    q->bench = r->bench;
    q->bench->count++;
    q->row = r;
    r->count++;
    if (q->bound) {
        q->links = mem_array(i->nplaces, sizeof(*q->links));
    } else {
        q->twin = r->all[q->level % ROW_LEVELS];
        r->all[q->level % ROW_LEVELS] = q;
    }
    q->next = q->shape->queues;
    if (q->next)
        q->next->prev = q;
    q->shape->queues = q;
    return q;
}

static struct queue *get_queue(struct plan *p, const struct plan_item *i)
{
    struct row *r = get_row(i->shape, line_bench(p, i->priority, i->tenant));
    struct queue *q = bound_to(i) ? NULL : r->all[level_of(i) % ROW_LEVELS];

    while (q && (q->level != level_of(i) || q->tenant != i->tenant ||
                 q->pool != pool_of(i) || q->hopes != (i->look_ms > 0) ||
                 q->aged != is_aged(p, i)))
        q = q->twin;
    return q ? q : new_queue(p, i, r);
}

static void forget_queue(const struct queue *q)
{
    struct queue **at = &q->row->all[q->level % ROW_LEVELS];

    while (!q->bound && *at != q)
        at = &(*at)->twin;
    if (!q->bound)
        *at = q->twin;
}

struct bound line_bound(struct queue *q, uint32_t k)
{
    const struct plan_place *at = &q->bound->places[k];

    return (struct bound) {
        .queue = q, .tenant = q->tenant, .shape = q->shape,
        .rank_milli = q->shape->parts[at->part].need.gpu_milli, .link = k,
        .priority = q->priority, .level = q->level, .own = q->bound->level,
    };
}

/* Among those that wait for the same nodes. */
static void link_bound(struct queue *q)
{
    for (uint32_t k = 0; k < q->bound->nplaces; k++) {
        struct plan_node *n = q->bound->places[k].node;

        if (n->nbound == n->bound_cap) {
            n->bound_cap = n->bound_cap ? 2 * n->bound_cap : 4;
            n->bound = mem_grow(n->bound, n->bound_cap, sizeof(*n->bound));
        }
        q->links[k] = n->nbound;
        n->bound[n->nbound++] = line_bound(q, k);
    }
}

static void unlink_bound(const struct queue *q)
{
    for (uint32_t k = 0; k < q->bound->nplaces; k++) {
        struct plan_node *n = q->bound->places[k].node;
        struct bound *at = &n->bound[q->links[k]];

        *at = n->bound[--n->nbound];
        at->queue->links[at->link] = q->links[k];
    }
}

/* Out of wherever it stands. */
static void take_out(struct plan *p, struct queue *q)
{
    switch ((enum parked) q->parked) {
    case PARKED_NOT:
        keyed_remove(&q->bench->queues, q);
        break;
    case PARKED_ROOM:
        keyed_remove(&q->row->queues, q);
        row_changed(q->row);
        break;
    case PARKED_DENIED:
        count_denied(q, false);
        break;
    case PARKED_TENANT:
        p->line->barred--;
        break;
    case PARKED_BOUND:
        unlink_bound(q);
        break;
    }
}

static void park(struct plan *p, struct queue *q, enum parked why)
{
    take_out(p, q);
    q->parked = (uint8_t) why;
    switch (why) {
    case PARKED_NOT:
        add_queue(&q->bench->queues, q);
        break;
    case PARKED_ROOM:
        add_queue(&q->row->queues, q);
        row_changed(q->row);
        break;
    case PARKED_DENIED:
        count_denied(q, true);
        break;
    case PARKED_TENANT:
        p->line->barred++;
        break;
    case PARKED_BOUND:
        link_bound(q);
        break;
    }
}

void line_unpark(struct plan *p, struct queue *q)
{
    if (q->parked != PARKED_NOT)
        park(p, q, PARKED_NOT);
}

/* Its item stands in line for that much from now on, or no more. */
static void count_want(struct queue *q, bool on)
{
    uint64_t milli = q->shape->gpu_milli, more = on ? milli : 0 - milli;

    q->bench->wants += more;
    q->bench->level_wants[q->level < WANT_LEVELS ? q->level
                                                 : WANT_LEVELS - 1] += more;
}

static void free_queue(struct plan *p, struct queue *q)
{
    struct bench *bench = q->bench;

    forget_queue(q);
    if (q->prev)
        q->prev->next = q->next;
    else
        q->shape->queues = q->next;
    if (q->next)
        q->next->prev = q->prev;
    put_row(q->row);
    bench->count--;
    line_bench_put(p->line, bench);
    keyed_free(&q->items);
    free(q->bound ? q->links : NULL);
    free(q);
}

/* ---- in and out ---- */

void line_init(struct plan *p)
{
    p->line = mem_new(sizeof(*p->line));
}

void line_free(struct plan *p)
{
    assert(p->line->nbands == 0);
    free(p->line->bands);
    free(p->line);
}

static bool goes_before(const struct queue *q, const struct plan_item *i,
                        const struct plan_item *head)
{
    if (!q->aged)
        return rank_before(i, head);
    return i->ready_ms < head->ready_ms ||
           (i->ready_ms == head->ready_ms && i->order < head->order);
}

static void new_head(struct plan *p, struct queue *q)
{
    if (q->aged)
        item_follow(p, keyed_top(&q->items));
    q->parked = PARKED_NOT;
    add_queue(&q->bench->queues, q);
}

/* A new head may have what the old one lacked (a shorter predicted time behind
 * a reservation), so a queue whose head changes is looked at again.
 */
void line_add(struct plan *p, struct plan_item *i)
{
    struct queue *q = get_queue(p, i);
    const struct plan_item *head = keyed_top(&q->items);

    i->queue = q;
    if (!head || goes_before(q, i, head)) {
        if (head)
            take_out(p, q);
        add_item(q, i);
        new_head(p, q);
        q->search_ms = 0;
    } else {
        add_item(q, i);
    }
    i->shape->waiting++;
    count_want(q, true);
}

void line_remove(struct plan *p, struct plan_item *i)
{
    struct queue *q = i->queue;
    bool head = keyed_top(&q->items) == i;
    bool looked = q->parked == PARKED_NOT;

    if (head)
        take_out(p, q);
    if (q->bound && looked)
        wake_next_bound(p, q);
    keyed_remove(&q->items, i);
    count_want(q, false);
    i->queue = NULL;
    p->line->hopers -= i->look_ms > 0;
    i->look_ms = 0;
    i->shape->waiting--;
    if (q->items.count == 0) {
        free_queue(p, q);
    } else if (head) {
        new_head(p, q);
    }
}

void line_rebuild(struct plan *p)
{
    for (struct plan_item *i = p->all; i; i = i->next)
        if (i->queue)
            line_remove(p, i);
    for (struct plan_item *i = p->all; i; i = i->next)
        if (item_waits(i))
            line_add(p, i);
}

/* ---- the walk ---- */

static struct bench *first_bench(const struct plan *p, struct band *band)
{
    line_sort(p, band);
    for (uint32_t k = 0; k < band->count; k++)
        if (band->benches[k]->queues.count > 0 || band->benches[k]->open)
            return band->benches[k];
    return NULL;
}

static struct queue *first_queue(const struct plan *p)
{
    for (uint32_t k = 0; k < p->line->nbands; k++) {
        const struct bench *b = first_bench(p, p->line->bands[k]);
        const struct keyed_entry *best;

        if (!b)
            continue;
        best = b->queues.count ? b->queues.list : NULL;
        for (const struct row *r = b->open; r; r = r->next)
            if (!best || keyed_before(&r->queues, r->queues.list, best))
                best = r->queues.list;
        if (best)
            return best->item;
    }
    return NULL;
}

/* Of those alike one stands ready where this one would start: it does. */
static void start_ready(struct plan *p, struct plan_decision *ret)
{
    struct place_opts there = { .only = ret->places[0].node };
    struct plan_item *i = stage_instead(p, ret->item, there.only);
    struct plan_place *places;
    uint32_t n;
    double score;

    if (!i || !place_find(p, i, &there, &places, &n, &score))
        return;
    free(p->next);
    ret->places = p->next = places;
    ret->nplaces = n;
    ret->score = score;
    ret->item = i;
}

static bool start(struct plan *p, struct plan_item *i,
                  struct plan_decision *ret)
{
    static const struct place_opts none;

    if (!place_find(p, i, &none, &p->next, &ret->nplaces, &ret->score))
        return false;
    ret->what = PLAN_START;
    ret->item = i;
    ret->places = p->next;
    if (ret->nplaces == 1)
        start_ready(p, ret);
    return true;
}

/* ---- those that wait for something better ---- */

/* It could start, and waits: who is behind it in the queue is asked next. */
static void hope(struct plan *p, struct plan_item *i, uint64_t free_ms)
{
    uint64_t least = p->now_ms + SEARCH_MS;

    line_remove(p, i);
    item_hopes(p, i, free_ms > least ? free_ms : least);
    line_add(p, i);
    p->line->hopers++;
    if (keyed_top(&i->queue->items) == i)
        park(p, i->queue, PARKED_DENIED);
}

/* Is it worth waiting still?  The queue may be gone then.  In a large pool only
 * the first one looks, and the next one when that has started; each at its own
 * time in any case.
 */
void line_look_again(struct plan *p, struct queue *q)
{
    uint32_t most = p->pool->live > ROOM_NODES ? 1 : q->items.count;

    for (uint32_t n = most; n > 0; n--) {
        struct plan_item *i = keyed_top(&q->items);

        line_remove(p, i);
        line_add(p, i);
    }
}

/* Does it start there, or wait?  Asked when a place was found. */
static bool takes(struct plan *p, struct plan_item *i,
                  struct plan_decision *ret)
{
    struct burst b;

    if (!burst_waits(p, i, ret->places, ret->nplaces, &b))
        return true;
    free(p->next);
    p->next = NULL;
    memset(ret, 0, sizeof(*ret));
    hope(p, i, b.free_ms);
    return false;
}

/* Its head does not start: where does it stand from now on? */
static void stand_back(struct plan *p, struct queue *q, bool fits)
{
    if (!fits)
        close_shape(q->shape);
    if (q->bound) {
        wake_next_bound(p, q);
        park(p, q, PARKED_BOUND);
    } else if (fits) {
        park(p, q, PARKED_DENIED);
    } else if (q->parked == PARKED_NOT) {
        park(p, q, PARKED_ROOM);
    }
}

/* In a large pool a search in vain is not repeated for a while, but where
 * somebody may newly give way; on an item's own node not before that at all.
 */
static bool make_room(struct plan *p, struct queue *q,
                      struct plan_decision *ret)
{
    uint32_t chance = q->chance;

    q->chance = 0;
    if (p->pool->live > ROOM_NODES && p->now_ms < q->search_ms)
        return chance > 0 && p->nodes[chance - 1] &&
               room_for(p, keyed_top(&q->items), p->nodes[chance - 1], ret);
    if (room_for(p, keyed_top(&q->items), NULL, ret))
        return true;
    q->search_ms = q->bound ? UINT64_MAX : p->now_ms + VAIN_MS;
    return false;
}

/* Does it fit nowhere, all being empty?  Good until nodes come or go. */
bool line_never(const struct plan *p, struct shape *s)
{
    if (s->never_at != p->pool->changes) {
        s->never = never_shape(p, s) != REASON_NONE;
        s->never_at = p->pool->changes;
    }
    return s->never;
}

/* Where ranks of several sorts go well together may not be found again: then it
 * goes where it was promised.
 */
static bool start_there(struct plan *p, const struct reservation *r,
                        struct plan_decision *ret)
{
    if (r->item->places || !room_has_all(p, r->item, r->places, r->nplaces))
        return false;
    p->next = mem_dup(r->places, r->nplaces * sizeof(*r->places));
    ret->what = PLAN_START;
    ret->item = r->item;
    ret->places = p->next;
    ret->nplaces = r->nplaces;
    return true;
}

/* Others of its queue may stand before one that was promised a place, and bar
 * the queue by not fitting beside that very promise: it is asked by itself.
 */
static bool start_promised(struct plan *p, struct plan_decision *ret)
{
    for (uint32_t k = 0; k < p->promises->count; k++) {
        struct reservation *r = p->promises->list[k];
        const struct shape *s = r->item->shape;

        if (r->tried == p->room)
            continue;
        if (!tenant_barred(r->item->tenant, s->gpu_milli) &&
            (start(p, r->item, ret) || start_there(p, r, ret)))
            return true;
        r->tried = p->room;
    }
    return false;
}

bool line_next(struct plan *p, struct plan_decision *ret)
{
    struct queue *q;

    if (score_changed(p))
        line_cpus(p);
    wake_hopers(p);
    while ((q = first_queue(p))) {
        struct plan_item *head = keyed_top(&q->items);
        bool fits, promised;

        if (q->hopes) {
            line_look_again(p, q);
            continue;
        }
        if (tenant_barred(q->tenant, q->shape->gpu_milli)) {
            park(p, q, PARKED_TENANT);
            continue;
        }
        fits = q->bound || place_may_fit(p, q->shape);
        if (fits && start(p, head, ret)) {
            if (takes(p, ret->item, ret))
                return true;
            continue;
        }
        if (q->parked == PARKED_NOT && make_room(p, q, ret))
            return true;
        promised = !(q->parked == PARKED_ROOM && q->shape->again) &&
                   head->promoted && !line_never(p, q->shape) &&
                   promise_for(p, head);
        stand_back(p, q, fits);
        if (promised)
            wake_promised(p, head->reserved->places,
                          head->reserved->nplaces);
    }
    return start_promised(p, ret);
}

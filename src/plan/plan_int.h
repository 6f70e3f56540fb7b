#pragma once

#include "base/keyed.h"
#include "base/mem.h"
#include "base/slab.h"
#include "plan/plan.h"
#include "plan/timetable.h"

struct map;
struct paper;

/* plan_int - what the files of the plan share; nobody else includes it.
 *
 *     plan.c      the calls of plan.h that belong to no other file; plan_next
 *     pool.c      nodes and devices: what is free, and the indexes over it
 *     shape.c     needs, interned: shapes and parts
 *     place.c     where a shape fits now, and the best place of these
 *     vain.c      ... not where it did not fit before
 *     burst.c     ... or wait for a better one?
 *     score.c     how much a place costs: fragmentation (frag.c), rating, price
 *     scored.c    ... where that was worked out before
 *     gang.c      ... of several ranks together
 *     tenant.c    the tree: held, quota, decayed usage, order
 *     line.c      who is next: queues, and bands and benches of them (bench.c)
 *     wake.c      who looks again, and when
 *     demand.c    ... and does anybody wait for what is free?
 *     room.c      room being made: claims
 *     ripe.c      who may be asked to leave
 *     victim.c    who may be made to give way
 *     search.c    who does (paper.c: what if)
 *     slice.c     time slices, where the policy has them
 *     cost.c      what suspending costs, learned
 *     reserve.c   reservations, earmarks and windows (slots.c: free when?)
 *     stage.c     look-ahead: what is staged, what may end soon
 *     stage_pick.c ... who is staged where
 *     kept.c      claims and reservations told anew
 *     reason.c    why one waits
 *     never.c     ... for ever
 *     ends.c      when one that runs will end, as predicted
 *     timetable.c what time alone changes
 *     meter.c     where device-time went
 *     check.c     the invariants, worked out from nothing
 *     predict.c, level.c, policy.c
 */

/* ---- needs, interned ---- */

/* score.c: are there nodes where ranks without a device starve none?  All those
 * of the shape have to find a place there.
 */
struct home {
    uint64_t at;                       /* when that was found out */
    bool there;
    uint32_t ranks;                    /* of the shape that have no device */
    uint64_t cpu_milli, memory;        /* ... the most of any of them */
};

/* From this number on models share one bit, and their names are compared. */
enum { MODELS_LAST = 63 };

struct part {
    struct plan_need need;             /* owned */
    uint32_t count, max;
    uint32_t devices;                  /* wanted by a rank */
    uint32_t milli;                    /* of each: 1000, or the fraction */
    uint64_t models;                   /* bit k: model k will do; see shape.c */
    struct typical *typical;           /* score.c: what it counts as */
    struct home *home;                 /* of a rank without a device */
    struct scored *scored;             /* scored.c: of a simple shape, or NULL */
};

/* What an item needs, all of it.  Items of equal needs share one. */
struct shape {
    uint64_t hash;
    struct shape *next;                /* in the same bucket */
    uint32_t refs;                     /* items that have it */
    uint32_t kept;                     /* ... that will have it again */
    uint32_t nparts;
    struct part *parts;
    uint32_t *by_size;                 /* parts: the hardest to place first */
    enum plan_near near;
    bool one_pool;
    bool settled;                      /* of the suspended: some rank has no
                                          device, and waits for no home */
    uint32_t ranks;                    /* least, of all parts */
    uint64_t gpu_milli, cpu_milli, memory;     /* least, of all ranks */
    bool simple;                       /* one part, one rank */
    bool alone;                        /* some rank has no device */
    uint32_t waiting;                  /* items in line */
    struct queue *queues;              /* line.c: of its items in line */
    struct row **rows;                 /* ... one for each bench of these */
    uint32_t nrows;
    uint32_t denied;                   /* queues for whom room is promised away */
    uint32_t hoping;                   /* ... who wait for something better */
    struct queue *denials;             /* both */
    bool open;                         /* parked ones compete for room again */
    bool again;                        /* ... for what there was; see wake.c */
    bool never;                        /* ... start, when pool.changes was so */
    uint64_t never_at;
    uint32_t index;                    /* in plan.shapes */
    /* place.c: fitted nowhere when pool.gave was this; 0: not known. */
    uint64_t nowhere_at;
    /* ... somewhere when pool.stamps was this; 0: not known. */
    uint64_t somewhere_at;
    struct vain *vain;                 /* vain.c: nodes without room, or NULL */
};

/* ---- nodes ---- */

struct device {
    uint16_t model;                    /* number in plan.models */
    uint16_t cell;                     /* meter.c: of its pool and model */
    bool open;
    uint32_t free_milli;
    uint64_t memory;
};

/* Nodes with the same pool, devices, CPUs, memory and labels, for plan_never:
 * see pool.h.
 */
struct node_kind;
struct family;                         /* pool.h: indexed together */

/* The first line of the cache is for who asks whether something fits, the second
 * for who is there or waits to be, the third for what a place costs.
 */
struct plan_node {
    bool open, suspends, roams, stages;
    bool touched;                      /* stage.c: to be looked at again */
    uint32_t ndevices;
    uint32_t free_whole;               /* open devices wholly free */
    uint32_t free_most;                /* largest free share of an open one */
    uint32_t nlabels;
    uint64_t cpu_free, memory;
    uint64_t memory_held;              /* by ranks that run */
    uint64_t parked;                   /* by the suspended */
    struct family *family;

    struct device *devices;
    uint64_t free_milli;               /* of open devices */
    struct plan_item **items;          /* that hold a place here */
    uint32_t nitems, items_cap;
    struct ripe *ripe;                 /* ripe.c: who there may be asked to go */
    uint32_t nripe, ripe_cap;
    struct bound *bound;               /* line.c: suspended ones that wait for it */
    uint32_t nbound, bound_cap;

    double usable;                     /* score.c, good for usable_at */
    uint64_t usable_at;
    uint64_t stamp;                    /* pool.c: another one for each change of
                                          what is free, held or owed here */
    uint64_t cpu_milli;
    uint64_t cpu_alone;                /* held by ranks without a device */
    uint64_t owed;                     /* thousandths of devices: what they had
                                          here, where they must go on here */
    uint32_t promised;                 /* reservations and windows that name it */
    uint32_t leaving;                  /* ranks of those told to go */
    uint32_t on_paper;                 /* paper.c: its place there, from 1 */
    uint32_t free_part;                /* free_most of those partly used */
    uint16_t bucket_whole, bucket_part; /* pool.c: 0: in none */
    uint32_t slot;                     /* in its family */

    uint64_t memory_free;
    uint32_t index;                    /* in plan.nodes */
    uint16_t pool_number, domain_number;
    char *name, *pool, *domain;
    char **labels;
    void *owner;
    struct node_kind *kind;
    struct stage **staged;             /* stage.c: who stands ready here */
    uint32_t nstaged, near_slot;
    uint64_t staged_memory;            /* theirs; nobody is refused for it */
};

/* ---- tenants ---- */

struct plan_tenant {
    char *name;
    struct plan_tenant *parent;
    uint32_t weight, depth;
    uint64_t quota_milli, max_milli;
    bool stopped;
    uint64_t held_milli;               /* of it and all below */
    uint64_t off_milli;                /* victim.c: ... gone on paper */
    uint32_t wanting;                  /* likewise: items in line for devices */
    uint64_t idle, idle_mark;          /* see struct plan_waited */
    double usage;                      /* decayed device-ms, at usage_ms */
    uint64_t usage_ms;
    double share;                      /* tenant.c: at share_ms */
    uint64_t share_ms;
    uint64_t asked;                    /* victim.c: by that claimant ... */
    uint8_t may;                       /* ... and what it may */
    uint32_t items, children;
    uint32_t index;
};

/* ---- items ---- */

/* No time told by others, nor work, is more: line.c has it beside other things in
 * a word, and sums of some cannot overflow.  To a sketch all beyond is as much.
 */
#define ITEM_MS_MAX ((UINT64_C(1) << 47) - 1)
static inline uint64_t item_ms(uint64_t told_ms)
{
    return told_ms < ITEM_MS_MAX ? told_ms : ITEM_MS_MAX;
}

/* Four lines of a cache, and begins with one, as a slab has it: of a million
 * items few are in any cache, so each line has what is wanted together.  The
 * first is for heaps, timers and the search for victims, the second for what it
 * has done and how long it may run, the third for the line.
 */
struct plan_item {
    uint32_t slot;                     /* in its queue's heap */
    uint32_t timer_slot;               /* in plan.timetable, where timer_of says */
    uint32_t room_slot;                /* ripe.c: in a set, or 0 */
    int16_t priority;
    uint8_t state, yield;              /* enum plan_state, plan_yield */
    uint8_t level;
    uint8_t promoted;                  /* past its patience; 2: past twice
                                          that, 3: past four times ...;
                                          see line_follows */
    uint8_t stagings;                  /* stage.c: in this wait */
    uint8_t timer_of : 3;              /* enum timer_of */
    bool urgent : 1;                   /* its deadline is near */
    bool resumes : 1;                  /* it was suspended when it started */
    bool picked : 1;                   /* search.c: a victim on paper */
    bool cold : 1;                     /* never staged */
    bool tied : 1;                     /* some node of its places does not roam */
    float progress;
    uint32_t nplaces;
    uint32_t run_slot;                 /* in plan.running, when running */
    struct plan_place *places;         /* while it holds any; suspended: where */
    struct shape *shape;
    struct plan_tenant *tenant;
    uint64_t order;

    uint64_t since_ms;                 /* it runs, or waits, since then */
    uint64_t held_milli;               /* devices, while it holds any */
    uint64_t work, run_ms;             /* device-ms and run time before `since` */
    struct predict_sig sig;

    struct queue *queue;               /* in line there, or NULL */
    uint64_t ready_ms, deadline_ms, urgent_ms, below_ms;
    uint64_t look_ms;                  /* it waits for a better device, and looks
                                          again then; 0: it does not */
    uint64_t near_ms;                  /* it may end, is to be ready, then; or 0 */
    struct stage *stage;               /* where it stands ready, or NULL */

    uint32_t look_slot;                /* stage.c: while it runs or is expected */
    uint32_t off_ms;                   /* resumes: which took so long */
    uint64_t bytes;
    void *owner;
    struct plan_item *claimant;        /* it leaves for that one, or NULL */
    struct reservation *reserved;      /* for it, or NULL */
    struct shape *whole;               /* suspended: what it began with, if it
                                          goes on as another one; or NULL */
    struct plan_item *next, *prev;     /* in plan.all */
};
_Static_assert(sizeof(struct plan_item) % MEM_LINE == 0, "lines of a cache");

/* ---- promises: reservations, earmarks for a claimant, windows ---- */

struct reservation;

struct plan {
    struct policy policy;
    struct predict *predict;
    uint64_t now_ms;
    uint64_t room;                     /* grows whenever room is made */
    uint64_t promised;                 /* ... what is promised changes */

    struct plan_node **nodes;          /* NULL where one was removed */
    uint32_t nnodes, nodes_cap;
    char **models;
    uint32_t nmodels;

    struct shape **buckets;            /* by hash */
    uint32_t nbuckets;                 /* a power of two */
    struct shape **shapes;
    uint32_t nshapes, shapes_cap;

    struct map *tenants_by_name;
    struct plan_tenant **tenants;
    uint32_t ntenants, tenants_cap;

    struct plan_item **running;        /* RUNNING and LEAVING, in no order */
    uint64_t *level_ends;              /* ... with so much work, as it was when
                                          the level was worked out */
    uint32_t nrunning, running_cap;
    struct timetable timetable;             /* of items */
    struct plan_item *all;
    struct slab slab;                  /* of items */
    size_t waiting, items;
    bool fair;                         /* tenants share by weight */
    uint64_t shares;                   /* grows when their order may have changed */
    struct plan_place *next;           /* of the decision given last */

    struct line *line;                 /* line.c */
    struct pool *pool;                 /* pool.c */
    struct promises *promises;         /* reserve.c */
    struct scorer *scorer;             /* score.c */
    struct meters *meters;             /* meter.c */
    struct rooms *rooms;               /* room.c: evictions under way */
    struct stager *stager;             /* stage.c */
    struct cost *costs;                /* cost.c: of the first models */
    uint32_t ncosts;
};

/* pool.c: change what is free, keep every index.  The only ones that do. */
void pool_init(struct plan *p);
void pool_free(struct plan *p);
void pool_take(struct plan *p, const struct shape *s,
               const struct plan_place *place);
void pool_give(struct plan *p, const struct shape *s,
               const struct plan_place *place);
uint16_t pool_model(struct plan *p, const char *name);   /* its number */
/* A suspended rank leaves so many bytes, and had so much of its devices. */
void pool_park(struct plan *p, struct plan_node *n, int64_t bytes,
               int64_t milli);
/* Is there that much, right now?  gave: memory that its own state was in; who
 * takes no more than that has it.
 */
bool pool_has(const struct plan *p, const struct part *part,
              const struct plan_place *place, uint64_t gave);
/* An item came to, or left, the list of those that hold a place on the node. */
void pool_item_add(struct plan_node *n, struct plan_item *i);
void pool_item_remove(struct plan_node *n, struct plan_item *i);
/* Does somebody leave one of those nodes? */
bool pool_left(const struct plan_place *places, uint32_t n);

/* Wanted soon, and far away: on the way from memory while something else is done,
 * and many of them together take about as long as one.
 */
static inline void item_fetch(const struct plan_item *i)
{
    mem_fetch(i, 2 * MEM_LINE);
}

static inline void node_fetch(const struct plan_node *n)
{
    mem_fetch(n, 3 * MEM_LINE);
}

/* ... all who are there, with their places. */
void pool_fetch(const struct plan_node *n);
/* ... the lists of who may be asked to go there, or waits for it. */
void room_fetch(const struct plan_node *n);

/* shape.c */
struct shape *shape_intern(struct plan *p, const struct plan_item_spec *spec);
/* ... with exactly these ranks, no more and no fewer of any part, to go on. */
struct shape *shape_of(struct plan *p, const struct shape *s,
                       const struct plan_place *places, uint32_t n);
void shape_put(struct plan *p, struct shape *s);
/* The item has another one for now, and will want this one back. */
void shape_keep(struct plan *p, struct shape *s);
void shape_back(struct plan *p, struct shape *s);
void shapes_free(struct plan *p);
void shape_models(struct plan *p);                 /* plan.models has grown */
bool need_matches_device(const struct plan *p, const struct device *d,
                         const struct part *part);
bool need_has_labels(const struct plan_node *n, const struct part *part);

static inline bool need_matches_node(const struct plan_node *n,
                                     const struct part *part)
{
    return part->need.nlabels == 0 || need_has_labels(n, part);
}

/* place.c: the best places for all ranks of the item, on what is free now and
 * not promised to others; for a suspended one, on its own node unless it
 * roams.  Elastic parts get as many ranks as fit, up to max.  *ret is from
 * mem_array, caller frees.  O(candidates looked at), bounded: see place.c.
 */
struct place_opts {
    bool ignore_promises;              /* what if nothing were promised? */
    bool ignore_closed;
    const struct plan_node *only;      /* or NULL */
};
bool place_find(struct plan *p, const struct plan_item *i,
                const struct place_opts *o, struct plan_place **ret,
                uint32_t *ret_n, double *ret_score);
/* Quick and exact for simple shapes, quick and hopeful for others: false means
 * that place_find fails.
 */
bool place_may_fit(const struct plan *p, const struct shape *s);
/* Suspended, and its state cannot be moved: rank by rank to its own nodes. */
static inline bool place_bound(const struct plan_item *i)
{
    return i->state == ITEM_SUSPENDED && i->tied && i->nplaces > 0;
}
/* Could room made on this node help the shape? */
bool place_helps(const struct plan *p, const struct plan_node *n,
                 const struct shape *s);

/* vain.c: where the shape fits is another question now, on any node. */
void vain_forget(struct shape *s);
int vain_check(const struct plan *p, struct err *err);

/* score.c: what the place costs; smaller is better.  It chooses the devices,
 * beside what is kept of each (thousandths; NULL: nothing).
 */
void score_init(struct plan *p);
void score_free(struct plan *p);
void score_count(struct plan *p, struct shape *s, int more); /* items of it */
double score_place(const struct plan *p, struct plan_node *n,
                   const struct part *part, const uint16_t *kept,
                   struct plan_place *place);
/* Grows with all that scores depend on but the node and the part. */
uint64_t score_version(const struct plan *p);
/* Are CPUs of that node kept for its devices from a rank without one?  alone:
 * what all such ranks would have there, with this one.
 */
bool score_keeps(const struct plan *p, const struct plan_node *n,
                 const struct part *part, uint64_t alone);
bool score_changed(struct plan *p);                /* ... was that, since? */
void score_policy(struct plan *p);                 /* ratings may have changed */
double score_rating(const struct plan *p, uint16_t model); /* by its number */
/* Is model a better than b: faster, or as fast and cheaper? */
bool score_better(const struct plan *p, uint16_t a, uint16_t b);
/* The best rating there is, if some device here is better; else 0. */
double score_best(const struct plan *p, uint16_t model);

/* scored.c: what score_place says with nothing kept, but for the devices. */
double scored_place(const struct plan *p, struct plan_node *n, struct part *part);
int scored_check(const struct plan *p, struct err *err);

/* tenant.c */
void tenants_init(struct plan *p);
void tenants_free(struct plan *p);
void tenant_took(struct plan *p, struct plan_tenant *t, uint64_t milli);
void tenant_gave(struct plan *p, struct plan_tenant *t, uint64_t milli);
/* So many more (fewer) of its items stand in line for devices. */
void tenant_wants(struct plan *p, struct plan_tenant *t, int64_t more);
/* NULL: it may hold that much more; else the tenant whose limit says no. */
const struct plan_tenant *tenant_barred(const struct plan_tenant *t,
                                        uint64_t milli);
static inline bool tenant_within_quota(const struct plan_tenant *t,
                                       uint64_t milli)
{
    return t->quota_milli > 0 && t->held_milli + milli <= t->quota_milli;
}
/* <0, 0, >0: a goes before b by fair share over the tree. */
int tenant_order(const struct plan *p, struct plan_tenant *a,
                 struct plan_tenant *b);
/* ... if b, and those above it, held so much less than they do. */
int tenant_order_off(const struct plan *p, struct plan_tenant *a,
                     struct plan_tenant *b, uint64_t off);
void tenants_changed(struct plan *p);              /* or the policy did */

/* never.c: does it fit nowhere, all being open and empty?  REASON_NONE: no. */
enum plan_reason_code never_shape(const struct plan *p,
                                  const struct shape *s);

/* line.c, wake.c, demand.c */
void line_init(struct plan *p);
void line_free(struct plan *p);
void line_add(struct plan *p, struct plan_item *i);
void line_remove(struct plan *p, struct plan_item *i);
void line_rebuild(struct plan *p);                 /* how tenants share changed */
void line_room(struct plan *p, const struct plan_node *n); /* made there; NULL: anywhere */
/* There is less room; `leaving`: where somebody leaves, so that who waits for
 * that may wait in vain.
 */
void line_took(struct plan *p, bool leaving);
/* It has started, and taken memory that others beside it would leave their
 * state in.
 */
void line_fills(struct plan *p, const struct plan_item *i);
/* Does somebody in line want more memory than is free on nodes where the item's
 * state is?
 */
bool line_lacks_memory(const struct plan *p, const struct plan_item *i);
void line_tenant(struct plan *p, struct plan_tenant *t);   /* its order changed */
/* The next start, or the next eviction for one that cannot start otherwise.
 * Its places are p->next.
 */
bool line_next(struct plan *p, struct plan_decision *ret);
void line_tick(struct plan *p);                    /* time has passed */
void line_cpus(struct plan *p);                    /* other ones are kept */
void line_chance(struct plan *p, struct plan_item *i); /* may now give way */
bool item_before(const struct plan *p, const struct plan_item *a,
                 const struct plan_item *b);
/* Does `promoted` follow the time?  Not of one behind others that wait past
 * their patience: it is known when it is the first of them.
 */
bool line_follows(const struct plan_item *i);
uint32_t line_position(struct plan *p, const struct plan_item *i);
/* Does some item that wants devices (cpus) wait, and does one fit now? */
enum demand { DEMAND_NONE, DEMAND_STUCK, DEMAND_FITS };
enum demand line_demand(struct plan *p, bool cpus);

/* reserve.c */
void promises_init(struct plan *p);
void promises_free(struct plan *p);
void promises_tick(struct plan *p);                /* time passed */
void promises_changed(struct plan *p);             /* the policy did */
uint64_t promises_wake_ms(const struct plan *p);
/* May the item use the place, given what is promised on that node? */
bool promise_allows(struct plan *p, const struct plan_item *i,
                    const struct plan_node *n, const struct part *part,
                    const struct plan_place *place);
/* What of each device is kept from the item by claims and reservations,
 * thousandths; false: of none.
 */
bool promise_keeps(const struct plan *p, const struct plan_item *i,
                   const struct plan_node *n, uint16_t *ret);
/* Reserve for it; true: something was. */
bool promise_for(struct plan *p, struct plan_item *i);
void promise_drop(struct plan *p, struct plan_item *i);
/* Its priority is another one, and with that whom its promise binds. */
void promise_moved(struct plan *p, const struct plan_item *i);
/* Is the node kept from the item by somebody's reservation or a window? */
bool promise_bars(struct plan *p, const struct plan_item *i,
                  const struct plan_node *n);
void promise_node_gone(struct plan *p, const struct plan_node *n);
void promise_tenant_gone(struct plan *p, const struct plan_tenant *t);

/* room.c, ripe.c, search.c, victim.c */
void room_init(struct plan *p);
void room_free(struct plan *p);
/* The next thing to do for those whom room is made for, or false. */
bool room_next(struct plan *p, struct plan_decision *ret);
/* The first eviction that lets it start, or false; `only`: on that node, or
 * NULL.
 */
bool room_for(struct plan *p, struct plan_item *i, struct plan_node *only,
              struct plan_decision *ret);
/* ... by those whose slice is over: see slice.c. */
bool room_for_slice(struct plan *p, struct plan_item *i,
                    struct plan_decision *ret);
void room_running(struct plan *p, struct plan_item *i, bool runs);
/* May v be made to go for i? */
bool room_may_go(const struct plan *p, const struct plan_item *i,
                 struct plan_item *v);
void room_moved(struct plan *p, struct plan_item *i, uint8_t was); /* its level */
void room_node_gone(struct plan *p, const struct plan_node *n); /* no claim on it */
/* Told to leave, for that one; comes before its state changes.  Returns whether
 * what is claimed now is where others leave.
 */
bool room_leaving(struct plan *p, struct plan_item *v,
                  struct plan_item *claimant);
void room_gone(struct plan *p, struct plan_item *v);     /* off its places */
/* It gives up that place, and stays on the others. */
void room_gave(struct plan *p, const struct plan_item *v, uint32_t place);
void room_over(struct plan *p, struct plan_item *i);     /* claims no more */
/* In a large pool: is all room made, and is that on the node the claimant's?
 * It starts next, and what it leaves there is said then.
 */
bool room_taken(const struct plan *p, const struct plan_item *claimant,
                const struct plan_node *n);
/* Do moves join what is free?  Only so large a pool: in a larger one room of
 * every size comes and goes by itself.
 */
bool room_moves(const struct plan *p);
/* The places, found before, are free and open to the item. */
bool room_has_all(struct plan *p, const struct plan_item *i,
                  const struct plan_place *places, uint32_t n);
/* A suspended one that does not roam goes on where it was. */
bool room_own_node(const struct plan_item *i, const struct plan_node *n);
/* What leaves: does its room go to the item?  (Or to nobody yet.) */
bool room_left_to(const struct plan_item *leaving, const struct plan_item *i);
bool room_allows(const struct plan *p, const struct plan_item *i,
                 const struct plan_node *n, const struct part *part,
                 const struct plan_place *place);
bool room_keeps(const struct plan *p, const struct plan_item *i,
                const struct plan_node *n, uint16_t *ret); /* adds to it */
void room_on_paper(struct plan *p, const struct plan_item *i,
                   struct paper *pa);

/* slice.c: after all else; see there. */
bool slice_next(struct plan *p, struct plan_decision *ret);
uint64_t slice_wake_ms(const struct plan *p);

/* stage.c */
void stage_init(struct plan *p);
void stage_free(struct plan *p);
void stage_drop(struct plan *p, struct plan_item *i);    /* it is staged */
/* Held no more: it is not expected; where it stands ready it still does. */
void stage_ready(struct plan *p, struct plan_item *i);
/* It runs from now on, or no more, or elsewhere; its places are still known. */
void stage_running(struct plan *p, struct plan_item *i, bool runs);
void stage_node(struct plan *p, struct plan_node *n);    /* opened, closed */
void stage_node_new(struct plan *p, const struct plan_node *n);
void stage_node_gone(struct plan *p, struct plan_node *n);
void stage_policy(struct plan *p);
uint64_t stage_wake_ms(const struct plan *p);
int stage_check(const struct plan *p, struct err *err);

/* stage_pick.c */
bool stage_next(struct plan *p, struct plan_decision *ret);
/* Somebody has to be unstaged first, for its memory: *ret is that instead. */
bool stage_before(struct plan *p, struct plan_decision *ret);
bool stage_relieve(struct plan *p, struct plan_decision *ret);
/* The item could start there: one alike that stands ready there, or NULL. */
struct plan_item *stage_instead(const struct plan *p,
                                const struct plan_item *i,
                                const struct plan_node *n);

/* ends.c */
/* Of its first device, 1 without one. */
double item_rating(const struct plan *p, const struct plan_item *i);
uint64_t item_end_ms(const struct plan *p, const struct plan_item *i,
                     double quantile);                   /* predicted, of a running one */
uint64_t item_end_at_ms(const struct plan *p, const struct plan_item *i,
                        uint64_t now_ms, double quantile);   /* as of then */
/* ... as it is told to people: see predict_cautious. */
uint64_t item_end_told_ms(const struct plan *p, const struct plan_item *i,
                          uint64_t now_ms, double quantile);
/* Is anything known of its like? */
bool item_seen(const struct plan *p, const struct plan_item *i);

/* item.c */
static inline bool item_runs(const struct plan_item *i)  /* holds its places */
{
    return i->state == ITEM_RUNNING || i->state == ITEM_LEAVING;
}

static inline bool item_waits(const struct plan_item *i) /* in line */
{
    return i->state == ITEM_WAITING || i->state == ITEM_SUSPENDED ||
           i->state == ITEM_STAGED;
}

void items_init(struct plan *p);
void items_tick(struct plan *p);                         /* what is due */
uint64_t items_wake_ms(const struct plan *p);            /* ... next */
/* Held now, of devices, by its places. */
uint64_t places_milli(const struct shape *s, const struct plan_place *places,
                      uint32_t n);

void item_policy(struct plan *p, struct plan_item *i);   /* it has changed */
/* It waits for a better device, and looks again then. */
void item_hopes(struct plan *p, struct plan_item *i, uint64_t look_ms);
uint64_t item_ripe_ms(const struct plan *p, const struct plan_item *i);
/* ... for a turn. */
uint64_t item_turn_ms(const struct plan *p, const struct plan_item *i);
/* Who has held its place since then has had its turn, as one that waits past
 * its patience sees it; 0: nobody.
 */
uint64_t item_due_ms(const struct plan *p, const struct plan_item *i);
/* As `promoted` is now. */
uint8_t item_promoted(const struct plan *p, const struct plan_item *i);
/* It leads its queue: `promoted` follows the time from now on; see
 * line_follows.
 */
void item_follow(struct plan *p, struct plan_item *i);
/* It is suspended and goes on with the ranks that it has, not with those that
 * it began with: some may have ended, and an elastic one may have had more.  One
 * without a device goes on where it can.
 */
void item_shrink(struct plan *p, struct plan_item *i);
void item_restore(struct plan *p, struct plan_item *i);    /* and undone */
/* Its state is in the memory of its nodes from now on, or no more. */
void item_park(struct plan *p, const struct plan_item *i, bool on);
/* Bytes that the rank leaves in the node's memory when it is suspended. */
uint64_t item_bytes(const struct plan_item *i, const struct plan_place *at);
/* ... all ranks of one that is, there: free once it goes on. */
uint64_t item_parked(const struct plan_item *i, const struct plan_node *n);

/* meter.c: before anything changes, time up to now is counted as it was. */
void meter_init(struct plan *p);
void meter_free(struct plan *p);
void meter_advance(struct plan *p, uint64_t to_ms);
uint64_t meter_idle(const struct plan *p);         /* devices, thousandths */
/* ... times milliseconds, so far, while somebody waited for devices. */
uint64_t meter_blocked(const struct plan_meter *m);
/* Of what is used: thousandths of devices times ms of getting off and on. */
void meter_suspending(struct plan *p, uint64_t milli_ms);
uint16_t meter_cell(struct plan *p, const char *pool, const char *model);
/* What is held and idle there counts from now on (1), or no more (-1). */
void meter_device(struct plan *p, const struct plan_node *n,
                  const struct device *d, int sign);
void meter_cpus(struct plan *p, const struct plan_node *n, int sign);
int meter_check(const struct plan *p, struct err *err);

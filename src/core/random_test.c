#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"
#include "plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Random lives.  Whatever happens, in whatever order:
 *
 *   - the world's invariants hold after every event (testing.c);
 *   - the journal replays to the same tables, and they load to the same world;
 *   - a world that was loaded is the same, and decides, step by step, as the
 *     one it was saved from: so the plan depends on the state and not on how it
 *     came about.  But for what is made from predictions: who could give way is
 *     looked for when room changes, and a reservation keeps the time that it
 *     was made for; a world that was loaded makes both anew, and guesses anew
 *     what ends soon.  So lives with an even seed have a policy without them,
 *     and blocks that do not stage;
 *   - the meter's shares make up the whole, and usage adds up;
 *   - every task that waits has a reason;
 *   - when nothing hinders any more, all comes to an end.
 *
 * A seed as argument runs that one alone; with a second argument, on blocks
 * that suspend.
 */
/* Those that an attempt may end with by itself; a stray is stopped. */
enum { CAUSES = SPEC_CAUSE_COUNT };

struct random {
    uint64_t state;
    bool limits;                       /* some workloads have them */
};

static uint32_t below(struct random *r, uint32_t n)
{
    assert(n > 0);
    return (uint32_t) (random_next(&r->state) % n);
}

static bool chance(struct random *r, uint32_t percent)
{
    return below(r, 100) < percent;
}

static void random_task(struct random *r, struct spec *s, uint32_t i)
{
    static const uint32_t gpus[] = { 0, 0, 250, 500, 1000, 1000, 2000, 9000 };
    struct spec_task *t = &s->tasks[i];

    t->gpu_milli = gpus[below(r, array_size(gpus))];
    t->cpu_milli = 500 + 500 * below(r, 4);
    t->memory = chance(r, 30) ? (uint64_t) (1 + below(r, 40)) << 30 : 0;
    t->ranks = chance(r, 20) ? 1 + below(r, 4) : 1;
    t->when = (enum spec_when) (chance(r, 70) ? 0 : below(r, 3));
    t->together = chance(r, 15) ? 1 : 0;
    t->retry_count = below(r, 3);
    t->retry_on = below(r, 1u << CAUSES) & ~1u;
    t->retry_backoff_ms = below(r, 3) * 500;
    t->timeout_ms = chance(r, 20) ? 1 + below(r, 5000) : 0;
    t->limit_wall_ms = chance(r, 10) ? 1 + below(r, 9000) : 0;
    t->limit_gpu_ms = chance(r, 10) ? 1 + below(r, 9000) : 0;
    t->limit_cost_micro = chance(r, 10) ? 1 + below(r, 9000) : 0;
    t->ranks_max = chance(r, 10) ? t->ranks + below(r, 3) : 0;
    t->near = (enum spec_near) (chance(r, 80) ? 0 : below(r, 3));
    if (t->gpu_milli && chance(r, 20))
        sim_model(s, i, chance(r, 50) ? "h100" : "A100");
    for (uint32_t k = 0; k < i; k++)
        if (chance(r, 25) && !t->together)
            sim_needs(s, i, k);
}

static void random_submit(struct random *r, struct sim *s)
{
    struct spec *spec = sim_spec(1 + below(r, 7));
    struct event e;

    for (uint32_t i = 0; i < spec->ntasks; i++)
        random_task(r, spec, i);
    spec->priority = (int) below(r, 3) - 1;
    if (chance(r, 10))
        spec->max_wait_ms = 1 + below(r, 60000);
    if (chance(r, 10))
        spec->deadline_ms = s->now + below(r, 60000);
    if (r->limits && chance(r, 20)) {
        spec->limit_gpu_ms = below(r, 2) * (1 + below(r, 20000));
        spec->limit_wall_ms = below(r, 2) * (1 + below(r, 60000));
        spec->limit_cost_micro = below(r, 2) * (1 + below(r, 9000));
    }
    event_init(&e, EVENT_SUBMITTED);
    e.workload = world_next_workload(s->w) + below(r, 2);
    memcpy(e.tenant, chance(r, 70) ? "t" : "u", 2);
    if (chance(r, 20))
        (void) snprintf(e.key, sizeof(e.key), "k%u", below(r, 20));
    if (chance(r, 10)) {
        e.done = mem_array(1, sizeof(*e.done));
        e.done[e.ndone++] = below(r, spec->ntasks);
    }
    e.spec = spec;
    (void) sim_do(s, &e);
}

static struct workload *random_workload(struct random *r, const struct sim *s)
{
    struct workload *wl, *pick = NULL;
    uint32_t n = 0;
    size_t pos = 0;

    while ((wl = world_next(s->w, &pos)))
        if (below(r, ++n) == 0)
            pick = wl;
    return pick;
}

static struct lease *random_lease(struct random *r, const struct sim *s)
{
    struct lease *pick = NULL;
    struct block *b;
    uint32_t n = 0;
    size_t pos = 0;

    while ((b = world_next_block(s->w, &pos)))
        for (struct lease *l = b->leases; l; l = l->next_on_block)
            if (below(r, ++n) == 0)
                pick = l;
    return pick;
}

static void random_progress(struct random *r, struct sim *s,
                            const struct lease *l)
{
    struct event e;

    event_init(&e, EVENT_PROGRESS);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.gen = l->gen;
    e.data = json_pack("{s:f,s:{s:i}}", "progress", below(r, 102) / 100.0,
                       "metrics", "loss", (int) below(r, 9));
    (void) sim_do(s, &e);
}

/* The runner's answer, or one that nobody asked for. */
static void random_moved(struct random *r, struct sim *s, const struct lease *l)
{
    static const enum event_type types[] = {
        EVENT_LEASE_SUSPENDED, EVENT_LEASE_RESUMED, EVENT_LEASE_KEPT,
    };
    enum event_type type = types[below(r, array_size(types))];
    struct event e;

    if (chance(r, 75))
        type = l->state == LEASE_RESUMING ? EVENT_LEASE_RESUMED
                                          : EVENT_LEASE_SUSPENDED;
    event_init(&e, type);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.rank = l->rank;
    e.gen = l->gen;
    e.data = json_pack("{s:I,s:i,s:s,s:s}", "bytes",
                       (json_int_t) below(r, 20) << 30, "ms",
                       (int) below(r, 9000), "reason", "busy", "text", "so");
    (void) sim_do(s, &e);
}

static void random_away(struct random *r, struct sim *s, const struct lease *l)
{
    struct event e;

    event_init(&e, chance(r, 60) ? EVENT_SUSPENDING : EVENT_RECALLED);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.gen = l->gen;
    if (e.type == EVENT_SUSPENDING && chance(r, 30))
        e.data = json_pack("{s:s,s:s,s:I,s:i}", "why", "idle", "kind",
                           "launch", "used_ms", (json_int_t) s->now - 5,
                           "grace_ms", 5);
    else if (chance(r, 50))
        e.until_ms = s->now + below(r, 60000);
    if (e.type == EVENT_SUSPENDING && !e.data)
        e.data = json_pack("{s:s}", "why", "asked");
    else if (e.type == EVENT_RECALLED && chance(r, 50))
        e.data = json_pack("{s:s}", "why", "wanted");
    (void) sim_do(s, &e);
}

static bool moves(const struct lease *l)
{
    return l->state == LEASE_SUSPENDING || l->state == LEASE_RESUMING;
}

static void random_report(struct random *r, struct sim *s)
{
    const struct lease *l = random_lease(r, s);
    struct event e;

    if (!l)
        return;
    if (s->suspends && (moves(l) ? chance(r, 90) : chance(r, 1))) {
        random_moved(r, s, l);
        return;
    }
    if (s->suspends && chance(r, l->state == LEASE_SUSPENDED ? 70 : 35)) {
        random_away(r, s, l);
        return;
    }
    if (chance(r, 5)) {
        random_progress(r, s, l);
        return;
    }
    event_init(&e, l->claimed_ms == 0 && chance(r, 90) ? EVENT_CLAIMED
                                                       : EVENT_LEASE_ENDED);
    e.workload = l->task->workload->id;
    e.task = l->task->index;
    e.rank = l->rank;
    e.gen = l->gen - (chance(r, 5) ? 1 : 0);
    if (e.type == EVENT_LEASE_ENDED) {
        e.started_ms = l->claimed_ms;
        e.ended_ms = s->now - (chance(r, 5) ? below(r, 9999) : 0);
        if (chance(r, 35))
            e.status = (int) below(r, 20) - 10;
        if (chance(r, 10))
            e.cause = (enum spec_cause) below(r, CAUSES);
        if (spec_cause_of_place(e.cause))
            e.data = json_pack("{s:s}", "why", "its place is gone");
    }
    (void) sim_do(s, &e);
}

static void random_workload_event(struct random *r, struct sim *s)
{
    static const enum event_type types[] = {
        EVENT_PAUSED, EVENT_UNPAUSED, EVENT_UNPAUSED, EVENT_ABORTING,
        EVENT_ABORTING, EVENT_RELEASED, EVENT_RELEASED, EVENT_PRIORITISED,
    };
    const struct workload *wl = random_workload(r, s);
    struct event e;

    if (!wl)
        return;
    event_init(&e, types[below(r, array_size(types))]);
    e.workload = wl->id;
    e.force = chance(r, 30);
    e.priority = (int) below(r, 5) - 2;
    e.task = chance(r, 50) ? EVENT_ALL : below(r, wl->spec->ntasks + 1);
    (void) sim_do(s, &e);
}

static void random_device_event(struct random *r, struct sim *s,
                                const char *node)
{
    uint32_t number = below(r, 3), at = 0;
    const struct block *b = node_device(s->w, node, number, &at);
    bool undrain = b && b->devices[at].drained ? chance(r, 90)
                                               : chance(r, 10);
    struct event e;

    event_init(&e, undrain ? EVENT_DEVICE_UNDRAINED : EVENT_DEVICE_DRAINED);
    (void) snprintf(e.node, sizeof(e.node), "%s", node);
    e.device = number;
    (void) sim_do(s, &e);
}

static void random_health(struct random *r, struct sim *s, const char *block)
{
    static const char *const states[] = { "raised", "probation", "cleared",
                                          "cleared" };
    static const char *const rules[] = { "hot", "too-hot", "ecc" };
    struct event e;

    event_init(&e, EVENT_DEVICE_HEALTH);
    (void) snprintf(e.block, sizeof(e.block), "%s", block);
    e.data = json_pack("{s:o,s:s,s:s,s:s}", "uuid",
                       json_sprintf("GPU-%s-%u", block, below(r, 3)), "rule",
                       rules[below(r, array_size(rules))], "state",
                       states[below(r, array_size(states))], "action",
                       remedy_name(1 + below(r, REMEDY_COUNT - 1)));
    (void) sim_do(s, &e);
}

/* The block b2 is in a pool of its own, while that is there. */
static void random_pool(struct random *r, struct sim *s)
{
    const char *name = chance(r, 70) ? "side" : "local";

    switch (below(r, 6)) {
    case 0:
        (void) sim_on_pool(s, EVENT_POOL_DRAINED, name, NULL);
        break;
    case 1:
    case 3:
        (void) sim_on_pool(s, EVENT_POOL_REMOVED, "side", NULL);
        break;
    case 2:
        (void) sim_on_pool(s, EVENT_POOL_SET, name,
                           json_pack("{s:s,s:{s:s},s:b}", "engine",
                                     chance(r, 90) ? "fake" : "slurm", "conf",
                                     "devices", "fake:2xH100", "observe",
                                     (int) chance(r, 20)));
        break;
    default:
        (void) sim_on_pool(s, EVENT_POOL_UNDRAINED, name, NULL);
        break;
    }
}

static void random_block(struct random *r, struct sim *s, const char *id)
{
    if (strcmp(id, "b2") == 0 && !world_pool(s->w, "side")) {
        (void) sim_on_pool(s, EVENT_POOL_SET, "side",
                           json_pack("{s:s}", "engine", "fake"));
        return;
    }
    s->pool = strcmp(id, "b2") == 0 ? "side" : "local";
    (void) sim_block(s, id, below(r, 5), chance(r, 70) ? "H100" : "A100",
                     1 + below(r, 8));
    s->pool = NULL;
}

static void random_pool_event(struct random *r, struct sim *s)
{
    char id[8], node[16];

    (void) snprintf(id, sizeof(id), "b%u", below(r, 3));
    (void) snprintf(node, sizeof(node), "node-%s", id);
    if (chance(r, 15)) {
        if (chance(r, 60))
            random_pool(r, s);
        else
            (void) sim_on_block(s, EVENT_BLOCK_SHUT, id);
        return;
    }
    switch (below(r, 9)) {
    case 7:
        random_health(r, s, id);
        break;
    case 6:
    case 8:
        random_device_event(r, s, node);
        break;
    case 0:
        (void) sim_on_block(s, EVENT_BLOCK_LOST, id);
        break;
    case 1:
        (void) sim_on_node(s, EVENT_NODE_DRAINED, node);
        break;
    case 2:
        (void) sim_on_node(s, EVENT_NODE_UNDRAINED, node);
        break;
    default:
        random_block(r, s, id);
        break;
    }
}

static void random_window(struct random *r, struct sim *s)
{
    uint64_t from = s->now + below(r, 9999);
    uint64_t to = s->now + 10000 + below(r, 999999);
    struct event e;
    char name[16], node[16];

    (void) snprintf(name, sizeof(name), "w%u", below(r, 2));
    (void) snprintf(node, sizeof(node), "node-b%u", below(r, 3));
    if (chance(r, 40)) {
        event_init(&e, EVENT_WINDOW_REMOVED);
        e.data = json_pack("{s:s}", "name", name);
    } else {
        event_init(&e, EVENT_WINDOW_SET);
        e.data = json_pack("{s:s,s:s,s:[s],s:I,s:I}", "name", name, "tenant",
                           chance(r, 50) ? "u" : "", "nodes", node, "from_ms",
                           (json_int_t) from, "to_ms", (json_int_t) to);
    }
    (void) sim_do(s, &e);
}

static void random_budget(struct random *r, struct sim *s, const char *tenant)
{
    if (chance(r, 50))
        (void) sim_tenant(s, tenant, json_pack("{s:n,s:s}", "budget",
                          "parent", chance(r, 50) ? "lab" : ""));
    else
        (void) sim_tenant(s, tenant, json_pack("{s:{s:I,s:s,s:I}}", "budget",
                          "amount_micro", (json_int_t) 1 + below(r, 999999),
                          "unit", chance(r, 50) ? "gpu_hours" : "money",
                          "period_ms", (json_int_t) 60000 + below(r, 999999)));
}

static void random_rare(struct random *r, struct sim *s)
{
    struct event e;

    switch (below(r, 6)) {
    case 0:
    case 1:
        (void) sim_quota(s, chance(r, 60) ? UINT32_MAX : below(r, 4000));
        break;
    case 2:
        random_window(r, s);
        break;
    case 3:
        random_budget(r, s, chance(r, 50) ? "u" : "lab");
        break;
    default:
        event_init(&e, EVENT_RESTORED);
        e.epoch = world_epoch(s->w) + 1;
        (void) sim_do(s, &e);
    }
}

static bool went_back(const struct plan_shares *from,
                      const struct plan_shares *to)
{
    return to->used < from->used || to->waste < from->waste ||
           to->idle_frag < from->idle_frag ||
           to->idle_nodemand < from->idle_nodemand;
}

/* What has gone by stays what it was. */
static void check_meter(struct sim *s, struct plan_meter *last)
{
    struct plan_meter m;

    world_meter(s->w, s->now, &m);
    if (went_back(&last->devices, &m.devices) ||
        went_back(&last->cpus, &m.cpus))
        fault(s, "meter", "a share of time went back");
    *last = m;
}

static void check_reasons(struct sim *s)
{
    struct workload *wl;
    struct why y;
    size_t pos = 0;

    while ((wl = world_next(s->w, &pos))) {
        for (uint32_t i = 0; i < wl->spec->ntasks; i++) {
            why_task(s->w, &wl->tasks[i], s->now, &y);
            if (!y.text[0] || y.code >= WHY_COUNT)
                fault(s, wl->tasks[i].spec->name, "has no reason");
            if (y.code == WHY_ORDER && !strstr(y.text, "comes before it"))
                fault(s, y.text, "fits, and was not planned");
            if (y.start_low_ms > y.start_ms || y.start_ms > y.start_high_ms)
                fault(s, y.text, "its predicted start is out of order");
        }
    }
}

/* Nothing stands in the way any more: every workload comes to its end. */
static void drain(struct sim *s)
{
    struct workload *wl;
    struct lease *l;
    struct random r = { 1, false };

    sim_quota(s, UINT32_MAX);
    for (int i = 0; i < 3; i++) {
        char node[16];

        (void) snprintf(node, sizeof(node), "node-b%d", i);
        (void) sim_on_node(s, EVENT_NODE_UNDRAINED, node);
    }
    (void) sim_on_pool(s, EVENT_POOL_UNDRAINED, "local", NULL);
    (void) sim_on_pool(s, EVENT_POOL_UNDRAINED, "side", NULL);
    if (world_pool(s->w, "side"))
        (void) sim_on_pool(s, EVENT_POOL_SET, "side",
                           json_pack("{s:s}", "engine", "fake"));
    (void) sim_tenant(s, "u", json_pack("{s:n}", "budget"));
    (void) sim_tenant(s, "lab", json_pack("{s:n}", "budget"));
    (void) sim_block(s, "zz", 16, "H100", 64);
    (void) sim_block(s, "zy", 16, "A100", 64);
    for (int round = 0; round < 20000 && (wl = random_workload(&r, s));
         round++) {
        uint64_t wake = world_wake_ms(s->w);

        if (wl->quarantined)
            (void) sim_on_workload(s, EVENT_RELEASED, wl->id, false);
        else if (wl->paused)
            (void) sim_on_workload(s, EVENT_UNPAUSED, wl->id, false);
        else if ((l = random_lease(&r, s)) && l->state == LEASE_PLANNED)
            (void) sim_claim(s, l->task->workload->id, l->task->index, l->rank,
                             l->gen);
        else if (l && l->task->state == TASK_SUSPENDED && chance(&r, 50))
            random_away(&r, s, l);
        else if (l && moves(l))
            random_moved(&r, s, l);
        else if (l)
            (void) sim_end(s, l->task->workload->id, l->task->index, l->rank,
                           0);
        else if (wake != UINT64_MAX)
            sim_wait(s, wake - s->now);
        else
            (void) sim_on_workload(s, EVENT_ABORTING, wl->id, true);
    }
    if (random_workload(&r, s))
        fault(s, "drain", "something never ends");
}

/* The sum over what was reported, from the journal alone. */
static void check_usage(struct sim *s)
{
    const struct tenant *t;
    uint64_t ended = 0, counted = 0;
    size_t pos = 0;

    for (size_t i = 0; i < json_array_size(s->journal); i++)
        ended += strcmp(json_get_str(json_array_get(s->journal, i), "type", ""),
                        "task.ended") == 0;
    for (size_t i = 0; i < json_array_size(s->journal); i++)
        ended += json_array_size(json_object_get(
                     json_array_get(s->journal, i), "done"));
    while ((t = world_next_tenant(s->w, &pos))) {
        counted += t->tasks_ended;
        if (t->used_gpu_milli != 0 || t->sum_milli != 0 || t->sum_price != 0)
            fault(s, "usage", "a device is held by nobody");
    }
    if (counted != ended)
        fault(s, "usage", "tasks that ended are not counted right");
}

/* What happened in all lives together, so that nobody believes in a rule that
 * was never asked for.
 */
static unsigned happened[EVENT_TYPE_COUNT], parts, limited;

static void count_events(const struct sim *s)
{
    const json_t *e;
    size_t i;

    for (unsigned t = 0; t < EVENT_TYPE_COUNT; t++)
        happened[t] += sim_count(s, (enum event_type) t);
    json_array_foreach(s->journal, i, e)
        limited += is(json_get_str(e, "type", ""), "workload.aborting") &&
                   is(json_get_str(e, "cause", ""), "limit");
}

static bool evicts(const struct sim *s)
{
    return world_policy(s->w)->min_run_ms < UINT64_C(1000) * 86400;
}

static void twin_now(struct sim *s)
{
    (void) sim_twin(s);
    if (!evicts(s))
        return;
    world_free(s->twin);
    s->twin = NULL;
}

/* A large round is journalled in pieces: a world that is loaded between two of
 * them goes on as the one that was not.  Sets are planned in one piece.
 */
static void part_of_round(struct random *r, struct sim *s)
{
    if (!chance(r, 10) || !sim_some(s, below(r, 5)) ||
        world_midway(s->w))
        return;
    twin_now(s);
    parts++;
}

static void one_life(uint64_t seed, unsigned events, bool suspends)
{
    struct random r = { seed, seed <= 8 }, other = { ~seed, false };
    struct plan_meter last = { 0 };
    struct sim s;
    unsigned replays = 0;

    sim_open(&s);
    s.stages = seed % 2;
    s.whole = seed % 5 == 0;
    s.suspends = suspends;
    (void) sim_tenant(&s, "lab", json_pack("{s:i}", "weight", 2));
    (void) sim_tenant(&s, "u", json_pack("{s:s,s:i,s:i}", "parent", "lab",
                                         "quota_gpus_milli", 2000,
                                         "interactive_priority", 7));
    (void) sim_policy(&s, 1, json_pack("{s:i,s:s,s:s,s:i,s:f}", "weir", 1,
                      "kind", "policy", "min_run", seed % 2 ? "5m" : "365d",
                      "reservations", seed % 2 ? 4 : 0, "price_hour", 1.5));
    for (unsigned i = 0; i < events && s.faults == 0; i++) {
        uint32_t what = below(&r, 100);

        if (chance(&r, 40))
            s.now += chance(&r, 5) ? 700000 : below(&r, 700);
        if (what < 12)
            random_submit(&r, &s);
        else if (what < 80 || (what < 97 && suspends && chance(&r, 80)))
            random_report(&r, &s);
        else if (what < 88)
            random_workload_event(&r, &s);
        else if (what < 97)
            random_pool_event(&r, &s);
        else if (what < 99)
            sim_round(&s);
        else
            random_rare(&r, &s);
        part_of_round(&other, &s);
        sim_round(&s);
        check_meter(&s, &last);
        if (chance(&r, 3))
            twin_now(&s);
        if (chance(&r, 3))
            check_reasons(&s);
        if (chance(&r, 1) && replays++ < 4)
            (void) sim_replays(&s);
    }
    drain(&s);
    check_usage(&s);
    (void) sim_twin(&s);
    (void) sim_replays(&s);
    ok(s.faults == 0, "seed %" PRIu64 "%s: %" PRIu64 " events", seed,
       suspends ? ", with blocks that suspend" : "", s.seq);
    count_events(&s);
    sim_close(&s);
}

int main(int argc, char **argv)
{
    /* Lives in which what stands in whose way once depended on the past. */
    static const uint64_t telling[] = { 121, 124, 126, 161, 247 };
    unsigned events = 1000;
    bool slow = getenv("WEIR_SLOW");

    if (argc > 1) {
        one_life(strtoull(argv[1], NULL, 10), events, argc > 2);
        return tap_done();
    }
    if (getenv("WEIR_VALGRIND")) {     /* which looks at memory alone */
        one_life(1, events, false);
        one_life(1, events, true);
        return tap_done();
    }
    for (uint64_t seed = 1; seed <= (slow ? 4 : 8); seed++)
        one_life(seed, events, false);
    for (size_t i = 0; i < array_size(telling); i++)
        one_life(telling[i], events, false);
    for (uint64_t seed = 1; seed <= (slow ? 4 : 14); seed++)
        one_life(seed, events, true);
    if (!slow)
        one_life(69, events, true);
    for (unsigned t = EVENT_SUBMITTED; t <= EVENT_TENANT_SET; t++)
        ok(happened[t] >= (slow ? 1u : 10u), "%s happened %u times",
           event_type_name((enum event_type) t), happened[t]);
    ok(happened[EVENT_WINDOW_SET] >= 10 && happened[EVENT_POLICY_SET] >= 10,
       "windows %u", happened[EVENT_WINDOW_SET]);
    ok(limited >= 10, "workloads past their limits %u", limited);
    ok(parts >= 10, "rounds in parts %u", parts);
    ok(happened[EVENT_RESTORED] >= 10 && happened[EVENT_RELEASED] >= 10,
       "restores %u, releases %u", happened[EVENT_RESTORED],
       happened[EVENT_RELEASED]);
    return tap_done();
}

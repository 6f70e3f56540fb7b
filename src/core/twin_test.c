#include "core/testing.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* A world that was loaded decides as the one that lived through the events.
 *
 * Each life is a small pool that is always too small: tasks of three priorities,
 * alone and in gangs, give way to each other, are suspended, could not be, end,
 * and come back, while blocks come and go.  In some, tasks leave devices that
 * they do not use, and devices fall ill.  Now and then a second world is loaded
 * from the tables, and from then on every decision of the two is compared
 * (testing.c), until the next one takes its place.
 *
 * Arguments are the first seed and how many: for long runs.
 */
enum { SECOND = 1000, MINUTE = 60 * SECOND, MOST = 64 };
#define GIB (UINT64_C(1) << 30)

struct life {
    struct sim sim;
    uint64_t random;
    bool flat;                         /* one priority: turns decide */
    bool plain;                        /* whole devices, one rank */
    bool ill;                          /* devices fall ill, or are not used */
};

static uint32_t below(struct life *l, uint32_t n)
{
    return (uint32_t) (random_next(&l->random) % n);
}

static void random_submit(struct life *l)
{
    struct spec *spec = sim_spec(1);
    struct spec_task *t = spec->tasks;

    if (!l->flat)
        spec->priority = (int) below(l, 3) * 50;
    t->gpu_milli = l->plain || below(l, 4) ? 1000 : 500;
    t->memory = (1 + below(l, 2)) * GIB / 4;
    t->ranks = l->plain ? 1 : 1 + below(l, 3);
    t->ranks_max = below(l, 10) ? 0 : t->ranks + 1;
    t->timeout_ms = below(l, 3) ? 0 : (10 + below(l, 60)) * MINUTE;
    t->retry_count = below(l, 2);
    t->retry_on = 1u << SPEC_CAUSE_FAILED | 1u << SPEC_CAUSE_LOST;
    t->stop_signal = below(l, 4) ? SIGTERM : SIGUSR1;
    (void) sim_submit(&l->sim, spec);
}

/* One that has leases, or NULL. */
static struct task *random_task(struct life *l)
{
    struct task *pick = NULL;
    struct workload *wl;
    size_t pos = 0;
    uint32_t n = 0;

    while ((wl = world_next(l->sim.w, &pos)))
        if (wl->tasks[0].leases_left > 0 && below(l, ++n) == 0)
            pick = &wl->tasks[0];
    return pick;
}

static void random_asks(struct life *l, const struct task *t)
{
    struct event e;
    bool off = below(l, 5) < 3;

    event_init(&e, off ? EVENT_SUSPENDING : EVENT_RECALLED);
    e.workload = t->workload->id;
    e.task = 0;
    if (off) {
        e.gen = t->gen;
        e.until_ms = below(l, 2) ? 0 : l->sim.now + below(l, 120) * SECOND + 1;
        e.data = json_pack("{s:s}", "why", "asked");
    }
    (void) sim_event(&l->sim, &e);
}

static void random_answer(struct life *l, const struct lease *lease)
{
    bool kept = below(l, 3) == 0;
    struct event e;

    event_init(&e, kept ? EVENT_LEASE_KEPT :
                   lease->state == LEASE_SUSPENDING ? EVENT_LEASE_SUSPENDED
                                                    : EVENT_LEASE_RESUMED);
    e.workload = lease->task->workload->id;
    e.task = 0;
    e.rank = lease->rank;
    e.gen = lease->gen;
    e.data = json_pack("{s:I,s:I}", "bytes",
                       (json_int_t) (below(l, 3) * GIB / 8), "ms",
                       (json_int_t) below(l, 3000));
    if (kept) {
        json_put_str(e.data, "reason", "busy");
        json_put_str(e.data, "text", "its kernels do not end");
    }
    (void) sim_event(&l->sim, &e);
}

/* It does not use its devices, or wants them again. */
static void random_idle(struct life *l, const struct task *t)
{
    bool off = below(l, 2);
    struct event e;

    event_init(&e, off ? EVENT_SUSPENDING : EVENT_RECALLED);
    e.workload = t->workload->id;
    e.task = 0;
    e.gen = t->gen;
    e.data = off ? json_pack("{s:s,s:s,s:I,s:i}", "why", "idle", "kind",
                             "launch", "used_ms", (json_int_t) l->sim.now,
                             "grace_ms", SECOND)
                 : json_pack("{s:s}", "why", "wanted");
    (void) sim_event(&l->sim, &e);
}

static void random_health(struct life *l)
{
    static const char *const actions[] = { "note", "cordon", "drain", "move",
                                           "restart" };
    static const char *const states[] = { "raised", "probation", "cleared",
                                          "cleared" };
    const char *id = below(l, 2) ? "a" : "b";
    struct event e;

    event_init(&e, EVENT_DEVICE_HEALTH);
    (void) snprintf(e.block, sizeof(e.block), "%s", id);
    e.data = json_pack("{s:o,s:s,s:s,s:s}", "uuid",
                       json_sprintf("GPU-%s-%u", id, below(l, 3)), "rule",
                       below(l, 2) ? "hot" : "ecc", "state",
                       states[below(l, array_size(states))], "action",
                       actions[below(l, array_size(actions))]);
    (void) sim_event(&l->sim, &e);
}

/* Who has run for long enough is another question under another policy. */
static void random_policy(struct life *l)
{
    static const char *const least[] = { "0s", "10s", "1m", "5m", "20m" };

    sim_policy(&l->sim, l->sim.w->policy_version + 1,
               json_pack("{s:i,s:s,s:s,s:s}", "weir", 1, "kind", "policy",
                         "min_run", least[below(l, array_size(least))],
                         "suspend_cost", below(l, 2) ? "500ms" : "5s"));
}

static bool moves(const struct lease *l)
{
    return l->state == LEASE_SUSPENDING || l->state == LEASE_RESUMING;
}

/* Some of those ranks that are on their way have arrived, or have not. */
static void random_answers(struct life *l)
{
    struct workload *wl;
    size_t pos = 0;

    while ((wl = world_next(l->sim.w, &pos))) {
        struct task *t = &wl->tasks[0];

        for (uint32_t i = 0; t->leases && i < t->ranks; i++)
            if (moves(&t->leases[i]) && below(l, 3) == 0)
                random_answer(l, &t->leases[i]);
    }
}

static void random_claims(struct life *l, const struct task *t)
{
    uint64_t id = t->workload->id;

    for (uint32_t i = 0; i < t->ranks; i++)
        if (t->leases[i].state == LEASE_PLANNED)
            (void) sim_claim(&l->sim, id, 0, i, t->gen);
}

static void random_end(struct life *l, const struct task *t)
{
    uint32_t rank = below(l, t->ranks);

    if (t->leases[rank].state != LEASE_ENDED &&
        t->leases[rank].state != LEASE_PLANNED)
        (void) sim_end(&l->sim, t->workload->id, 0, rank, below(l, 3) ? 0 : 1);
}

static void random_workload(struct life *l, const struct task *t)
{
    uint64_t id = t->workload->id;

    switch (below(l, 3)) {
    case 0:
        (void) sim_on_workload(&l->sim, EVENT_ABORTING, id, below(l, 2));
        break;
    case 1:
        (void) sim_on_workload(&l->sim, EVENT_PAUSED, id, false);
        break;
    default:
        (void) sim_on_workload(&l->sim, EVENT_UNPAUSED, id, false);
        break;
    }
}

static void random_pool(struct life *l)
{
    const char *id = below(l, 2) ? "a" : "b";
    uint32_t devices = id[0] == 'a' ? 3 : 2;

    switch (below(l, 8)) {
    case 0:
        (void) sim_on_block(&l->sim, EVENT_BLOCK_LOST, id);
        (void) sim_block(&l->sim, id, devices, "H100", 16);
        break;
    case 1:
    case 2:
        (void) sim_on_node(&l->sim, EVENT_NODE_DRAINED,
                           id[0] == 'a' ? "node-a" : "node-b");
        break;
    case 3:
    case 4:
    case 5:
        (void) sim_on_node(&l->sim, EVENT_NODE_UNDRAINED,
                           id[0] == 'a' ? "node-a" : "node-b");
        break;
    default:
        (void) sim_block(&l->sim, id, devices + below(l, 2), "H100", 16);
        break;
    }
}

static void random_wait(struct life *l)
{
    sim_wait(&l->sim, below(l, 3) ? below(l, 20) * SECOND
                                  : below(l, 20) * MINUTE);
}

static void one_step(struct life *l)
{
    uint32_t what = below(l, 100);
    struct task *t = random_task(l);

    if (l->ill && t && below(l, 8) == 0) {
        random_idle(l, t);
        return;
    }
    if (l->ill && below(l, 12) == 0) {
        random_health(l);
        return;
    }
    if (l->ill && below(l, 30) == 0) {
        random_policy(l);
        return;
    }
    if (what < 12 && world_next_workload(l->sim.w) < MOST)
        random_submit(l);
    else if (!t)
        sim_wait(&l->sim, below(l, 5) * SECOND);
    else if (what < 30)
        random_claims(l, t);
    else if (what < 48)
        random_asks(l, t);
    else if (what < 78)
        random_answers(l);
    else if (what < 83)
        random_end(l, t);
    else if (what < 86)
        random_workload(l, t);
    else if (what < 88)
        random_pool(l);
    else
        random_wait(l);
}

/* What happened in all lives together. */
static unsigned happened[EVENT_TYPE_COUNT], twins;

static void one_life(uint64_t seed, unsigned steps, bool ill)
{
    struct life l = {
        .random = seed, .flat = seed % 4 == 1, .plain = seed % 4 == 2,
        .ill = ill,
    };

    sim_open(&l.sim);
    l.sim.suspends = seed % 8 != 2;
    if (ill)
        (void) sim_tenant(&l.sim, "t", json_pack("{s:i}",
                          "interactive_priority", 70));
    (void) sim_block(&l.sim, "a", 3, "H100", 16);
    (void) sim_block(&l.sim, "b", 2, "H100", 16);
    if (seed % 8 == 5)                 /* flat, and slices decide */
        sim_policy(&l.sim, 1, json_pack("{s:i,s:s,s:s,s:s}", "weir", 1,
                                        "kind", "policy", "slice", "10s",
                                        "suspend_cost", "500ms"));
    for (unsigned i = 0; i < steps && l.sim.faults == 0; i++) {
        one_step(&l);
        if (l.sim.faults == 0 && below(&l, 6) == 0) {
            (void) sim_twin(&l.sim);
            twins++;
        }
    }
    if (l.sim.faults == 0)
        (void) sim_replays(&l.sim);
    for (unsigned t = 0; t < EVENT_TYPE_COUNT; t++)
        happened[t] += sim_count(&l.sim, (enum event_type) t);
    if (l.sim.faults > 0)
        ok(false, "seed %" PRIu64 "%s", seed, ill ? ", ill" : "");
    sim_close(&l.sim);
}

int main(int argc, char **argv)
{
    static const enum event_type wanted[] = {
        EVENT_PLANNED, EVENT_PREEMPTING, EVENT_SUSPENDING, EVENT_RESUMING,
        EVENT_RECALLED, EVENT_LEASE_SUSPENDED, EVENT_LEASE_RESUMED,
        EVENT_LEASE_KEPT, EVENT_LEASE_ENDED, EVENT_RETRYING, EVENT_PAUSED,
        EVENT_ABORTING, EVENT_NODE_DRAINED, EVENT_BLOCK_LOST,
        EVENT_DEVICE_HEALTH,
    };
    /* Lives in which the two once came to decide otherwise. */
    static const uint64_t telling[] = { 153, 916, 1219, 5532 };
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    uint64_t lives = argc > 2 ? strtoull(argv[2], NULL, 10) :
                     getenv("WEIR_SLOW") ? 20 : 150;

    if (getenv("WEIR_VALGRIND")) {     /* which looks at memory alone */
        for (size_t i = 0; i < array_size(telling); i++)
            one_life(telling[i], 120, i % 2);
        ok(twins > 0, "worlds loaded: %u", twins);
        return tap_done();
    }
    for (uint64_t seed = first; seed < first + lives; seed++) {
        one_life(seed, 120, false);
        one_life(seed, 120, true);
    }
    for (size_t i = 0; argc == 1 && i < array_size(telling); i++)
        one_life(telling[i], 120, false);
    for (size_t i = 0; argc == 1 && i < array_size(wanted); i++)
        ok(happened[wanted[i]] >= (getenv("WEIR_SLOW") ? 1 : 20),
           "%s happened %u times", event_type_name(wanted[i]),
           happened[wanted[i]]);
    ok(twins > lives, "worlds loaded in %" PRIu64 " lives: %u", lives, twins);
    return tap_done();
}

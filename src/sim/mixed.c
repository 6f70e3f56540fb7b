#include "sim/mixed.h"

#include "base/mem.h"
#include "base/random.h"

#include <math.h>

enum {
    NODE_GPUS = 8,
    GPU_CPUS = 4,                      /* beside each GPU in use */
    PREPARE_CPUS = 8, EVALUATE_CPUS = 4,
    MILLI = 1000,
};

const struct flow_nodes mixed_nodes[2] = {
    { .count = 8, .gpus = NODE_GPUS, .cpu_milli = 64 * MILLI },
    { .count = 2, .gpus = 0, .cpu_milli = 512 * MILLI },
};

static double draw_share(uint64_t *state)          /* 0 <= x < 1 */
{
    return (double) (random_next(state) >> 11) / 9007199254740992.0;
}

/* About normal, by twelve draws; within 6 of 0. */
static double draw_normal(uint64_t *state)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += draw_share(state);
    return sum;
}

static uint32_t draw_gpus(uint64_t *state)
{
    static const struct {
        uint32_t percent, gpus;
    } widths[] = { { 20, 1 }, { 25, 2 }, { 25, 4 }, { 18, 8 }, { 12, 16 } };
    uint32_t at = (uint32_t) (100 * draw_share(state)), i = 0;

    while (at >= widths[i].percent)
        at -= widths[i++].percent;
    return widths[i].gpus;
}

/* Nine tenths of the GPU work is training. */
static void draw_pipeline(uint64_t *state, double duty, uint32_t number,
                          struct flow_task *t)
{
    static const char *const names[] = { "prepare", "train", "evaluate",
                                         "infer" };
    double length = 30 * 60 * exp(0.25 * draw_normal(state));
    double own = duty * (0.9 + 0.2 * draw_share(state)), rest;
    uint32_t gpus = draw_gpus(state), few = (gpus + 3) / 4;
    uint32_t tenant = (uint32_t) (MIXED_TENANTS * draw_share(state));
    double train = 0.9 * own * length;
    double infer = 0.1 * own * length * gpus / few;

    rest = fmax(length - train - infer, 0.05 * length);
    double lengths[] = { 0.8 * rest, train, 0.2 * rest, infer };
    uint32_t use[] = { 0, gpus, 0, few };
    uint32_t cpus[] = { PREPARE_CPUS, gpus * GPU_CPUS, EVALUATE_CPUS,
                        few * GPU_CPUS };

    for (uint32_t i = 0; i < MIXED_STAGES; i++) {
        t[i] = (struct flow_task) {
            .length_ms = (uint64_t) (lengths[i] * MILLI) + 1,
            .cpu_milli = (uint64_t) cpus[i] * MILLI, .gpus = use[i],
            .tenant = tenant, .workload = number,
            .sig.key = { predict_key(names[i], (uint64_t) gpus * 8 + tenant),
                         predict_key(names[i], gpus),
                         predict_key(names[i], 0) },
        };
    }
}

void mixed_make(uint64_t seed, double duty, struct flow *ret)
{
    uint64_t state = seed;
    struct flow f = { .ntenants = MIXED_TENANTS,
                      .nworkloads = MIXED_PIPELINES };

    f.tasks = mem_array(MIXED_PIPELINES * MIXED_STAGES, sizeof(*f.tasks));
    f.edges = mem_array(MIXED_PIPELINES * MIXED_STAGES, sizeof(*f.edges));
    for (uint32_t w = 0; w < MIXED_PIPELINES; w++) {
        draw_pipeline(&state, duty, w, f.tasks + f.count);
        for (uint32_t i = 0; i < MIXED_STAGES; i++, f.count++) {
            f.tasks[f.count].first = f.nedges;
            if (i == 0)
                continue;
            f.tasks[f.count].nparents = 1;
            f.edges[f.nedges++] = f.count - 1;
        }
    }
    *ret = f;
}

void mixed_hold(const struct flow *f, struct flow *ret)
{
    struct flow h = { .ntenants = f->ntenants, .nworkloads = f->nworkloads };

    h.tasks = mem_array(f->nworkloads, sizeof(*h.tasks));
    for (uint32_t i = 0; i < f->count; i++) {
        const struct flow_task *t = &f->tasks[i];
        struct flow_task *all = &h.tasks[t->workload];

        if (all->length_ms == 0)
            *all = (struct flow_task) { .tenant = t->tenant,
                                        .workload = t->workload };
        all->length_ms += t->length_ms;
        if (t->gpus > all->gpus)
            all->gpus = t->gpus;
        if (t->cpu_milli > all->cpu_milli)
            all->cpu_milli = t->cpu_milli;
        all->sig.key[0] = predict_key("pipeline", all->gpus);
    }
    h.count = f->nworkloads;
    *ret = h;
}

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "plan/plan.h"

#include <getopt.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* bench-plan - what a decision costs: one JSON object a line.
 *
 *   steady    a pool that is full and a line before it.  In every round time
 *             passes, 16 items end and are learned from, 4 of those that wait
 *             are withdrawn, as many arrive, and all decisions are carried
 *             out.  A decision is what plan_next says, a start or an eviction;
 *             what it takes is the time of its round by those in it.  Starts a
 *             second are given as well, with the evictions for them paid for.
 *             (Without withdrawals a short line is soon one of the largest
 *             alone, and the pool is not full.)
 *   gang      a gang of 512 ranks over 512 nodes, until its places are known
 *   never     "no such device": the verdict over all nodes
 *   reclaim   1,000 full nodes, and one device for a tenant within its quota:
 *             until the victim is named
 *
 * The kernel is asked for huge pages for the heap, as glibc does for any program
 * with GLIBC_TUNABLES=glibc.malloc.hugetlb=1; --small-pages: it is not.
 *
 * Two models with ratings and prices, fractions, whole devices, gangs, elastic
 * gangs and work without a device, tenants in a tree with weights and quotas,
 * priorities, deadlines, dependents, learned durations; items take turns.
 */
enum {
    PER_NODE = 8,
    TENANTS = 12,
    TEAMS = 3,
    ENDS = 16,                         /* in one round */
    WITHDRAWN = 4,
    ROUND_MS = 1600,
    ITEMS = 8000000,                   /* that come in one run, at most */
};

static const uint64_t GIB = UINT64_C(1) << 30;
static const uint64_t BEGIN_MS = UINT64_C(365) * 86400000;

struct conf {
    uint64_t devices, waiting;         /* 0: the whole table */
    uint64_t decisions, seconds;
    bool quick, small_pages;
};

struct bench {
    struct plan *p;
    struct plan_tenant *tenants[TENANTS];
    uint64_t random, order, now;
    struct list {
        struct listed { struct plan_item *item; uint64_t order; } *items;
        size_t count, cap;
    } running, line;
    uint32_t *slots;                   /* in its list, by order */
    /* What came to be in line (1) or running (2) since the lists were right. */
    struct news { struct plan_item *item; int now; } *news;
    size_t nnews, news_cap;
    uint64_t starts, evictions;
};

static uint64_t draw(struct bench *b, uint64_t below)
{
    return random_next(&b->random) % below;
}

/* Of this thread on its core: others on the machine do not count. */
static uint64_t now_ns(void)
{
    struct timespec t;

    (void) clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t) t.tv_sec * 1000000000 + (uint64_t) t.tv_nsec;
}

/* ---- what there is ---- */

static void set_policy(struct bench *b)
{
    struct policy policy;

    policy_init(&policy);
    policy.nmodels = 2;
    policy.models[0] = (struct policy_model) { "A100", 1, 1.5 };
    policy.models[1] = (struct policy_model) { "H100", 2, 3 };
    plan_set_policy(b->p, &policy);
}

static void add_nodes(struct bench *b, uint64_t devices, bool mixed)
{
    struct plan_device list[PER_NODE];
    struct plan_node_spec spec = {
        .name = NULL, .pool = "main", .cpu_milli = 128000,
        .memory = 1024 * GIB, .devices = list, .suspends = true,
    };

    for (uint64_t k = 0; k < devices / PER_NODE; k++) {
        autofree char *name = mem_printf("node%06" PRIu64, k);
        autofree char *domain = mem_printf("rack%03" PRIu64, k / 16);

        for (uint32_t d = 0; d < PER_NODE; d++)
            list[d] = (struct plan_device) {
                mixed && k % 4 == 0 ? "H100" : "A100", 80 * GIB
            };
        spec.name = name;
        spec.domain = domain;
        spec.ndevices = mixed && k % 16 == 5 ? 0 : PER_NODE;
        (void) plan_node_add(b->p, &spec, NULL);
    }
}

static void add_tenants(struct bench *b, uint64_t devices)
{
    struct plan_tenant *teams[TEAMS];
    char name[32];

    for (uint32_t k = 0; k < TEAMS; k++) {
        (void) snprintf(name, sizeof name, "team%u", k);
        teams[k] = plan_tenant_set(b->p, &(struct plan_tenant_spec) {
            .name = name, .weight = k + 1, .max_milli = PLAN_UNLIMITED,
            .quota_milli = devices * 1000 / 4,
        });
    }
    for (uint32_t k = 0; k < TENANTS; k++) {
        (void) snprintf(name, sizeof name, "tenant%u", k);
        b->tenants[k] = plan_tenant_set(b->p, &(struct plan_tenant_spec) {
            .name = name, .parent = teams[k % TEAMS], .weight = k % 4 + 1,
            .quota_milli = devices * 1000 / 32, .max_milli = PLAN_UNLIMITED,
        });
    }
}

static void bench_open(struct bench *b, uint64_t devices, bool mixed)
{
    *b = (struct bench) { .p = plan_new(), .random = 42, .now = BEGIN_MS };
    plan_tick(b->p, b->now);
    b->slots = mem_array(ITEMS, sizeof(*b->slots));
    set_policy(b);
    add_tenants(b, devices);
    add_nodes(b, devices, mixed);
}

static void bench_close(struct bench *b)
{
    plan_free(b->p);
    free(b->running.items);
    free(b->line.items);
    free(b->news);
    free(b->slots);
}

/* ---- items ---- */

/* Of what kind, drawn once for each item: gpu_milli, CPUs for each device (or
 * in all), ranks at least and at most.
 */
static const struct {
    uint32_t percent, gpu_milli, cpus, count, max;
} kinds[] = {
    { 10, 250, 1, 1, 1 }, { 10, 500, 3, 1, 1 }, { 22, 1000, 4, 1, 1 },
    { 15, 1000, 8, 1, 1 }, { 12, 1000, 12, 1, 1 }, { 6, 2000, 8, 1, 1 },
    { 4, 2000, 24, 1, 1 }, { 6, 4000, 32, 1, 1 }, { 1, 8000, 64, 1, 1 },
    { 8, 0, 4, 1, 1 }, { 3, 0, 16, 1, 1 }, { 1, 4000, 32, 2, 2 },
    { 1, 1000, 4, 4, 4 }, { 1, 2000, 8, 1, 3 },
};

static void have_room(struct list *l, size_t cap)
{
    if (cap > l->cap) {
        l->items = mem_grow(l->items, cap, sizeof(*l->items));
        l->cap = cap;
    }
}

static void note_in(struct bench *b, struct list *l, struct plan_item *i)
{
    if (l->count == l->cap)
        have_room(l, l->cap ? 2 * l->cap : 1024);
    b->slots[(uintptr_t) plan_owner(i)] = (uint32_t) l->count;
    l->items[l->count++] = (struct listed) { i, (uintptr_t) plan_owner(i) };
}

static void note_out(struct bench *b, struct list *l,
                     const struct plan_item *i)
{
    uint32_t at = b->slots[(uintptr_t) plan_owner(i)];

    l->items[at] = l->items[--l->count];
    b->slots[l->items[at].order] = at;
}

/* The lists are the bench's own business: they are made right when the clock
 * stands.
 */
enum { IN_LINE = 1, RUNNING = 2 };

static void tell(struct bench *b, struct plan_item *i, int now)
{
    if (b->nnews == b->news_cap) {
        b->news_cap = b->news_cap ? 2 * b->news_cap : 1024;
        b->news = mem_grow(b->news, b->news_cap, sizeof(*b->news));
    }
    b->news[b->nnews++] = (struct news) { i, now };
}

static void note_all(struct bench *b)
{
    for (size_t k = 0; k < b->nnews; k++) {
        struct plan_item *i = b->news[k].item;
        bool runs = b->news[k].now == RUNNING;
        uint32_t at = b->slots[(uintptr_t) plan_owner(i)];
        struct list *from = runs ? &b->line : &b->running;

        /* One that has just been added is in neither. */
        if (at < from->count && from->items[at].item == i)
            note_out(b, from, i);
        note_in(b, runs ? &b->running : &b->line, i);
    }
    b->nnews = 0;
}

static void add_item(struct bench *b)
{
    static const char *const fast[] = { "H100" };
    struct plan_part part = { 0 };
    struct plan_item_spec spec = { .parts = &part, .nparts = 1 };
    uint64_t at = draw(b, 100);
    size_t k = 0;

    while (at >= kinds[k].percent)
        at -= kinds[k++].percent;
    part.need.gpu_milli = kinds[k].gpu_milli;
    part.need.cpu_milli = kinds[k].cpus * 1000;
    part.need.memory = kinds[k].cpus * 4 * GIB;
    if (kinds[k].gpu_milli && draw(b, 16) == 0) {
        part.need.models = fast;
        part.need.nmodels = 1;
    }
    part.count = kinds[k].count;
    part.max = kinds[k].max;
    spec.tenant = b->tenants[draw(b, TENANTS)];
    spec.priority = draw(b, 50) == 0 ? 1 : 0;
    spec.ready_ms = b->now;
    spec.order = ++b->order;
    spec.below_ms = draw(b, 4) == 0 ? draw(b, 3600000) : 0;
    spec.deadline_ms = draw(b, 64) == 0 ? b->now + 86400000 : 0;
    spec.bytes = GIB;
    for (uint32_t n = 0; n < PREDICT_KEYS; n++)
        spec.sig.key[n] = n + 1 < PREDICT_KEYS ? 1 + n * 64 + k : 1;
    spec.owner = (void *) (uintptr_t) spec.order;
    tell(b, plan_add(b->p, &spec), IN_LINE);
}

/* Carry out all that is to be done now. */
static void settle(struct bench *b)
{
    struct plan_decision d;

    while (plan_next(b->p, &d)) {
        struct err err = { 0 };

        if (d.what == PLAN_START) {
            if (plan_start(b->p, d.item, d.places, d.nplaces, &err) < 0) {
                (void) fprintf(stderr, "bench-plan: %s\n", err.text);
                exit(1);
            }
            tell(b, d.item, RUNNING);
            b->starts++;
        } else if (d.what == PLAN_EVICT) {
            plan_leaving(b->p, d.item, d.claimant);
            plan_left(b->p, d.item, d.how == YIELD_SUSPEND, 1000);
            tell(b, d.item, IN_LINE);
            b->evictions++;
        } else
            break;
    }
}

/* ---- a full pool and a line before it ---- */

struct took {
    uint32_t *ns;
    size_t count, cap;
};

static void took_add(struct took *t, uint64_t ns)
{
    if (t->count == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 65536;
        t->ns = mem_grow(t->ns, t->cap, sizeof(*t->ns));
    }
    t->ns[t->count++] = ns > UINT32_MAX ? UINT32_MAX : (uint32_t) ns;
}

static int by_ns(const void *va, const void *vb)
{
    uint32_t a = *(const uint32_t *) va, b = *(const uint32_t *) vb;

    return a < b ? -1 : a > b;
}

static double percentile(struct took *t, double q)
{
    if (t->count == 0)
        return 0;
    return t->ns[(size_t) (q * (double) (t->count - 1))] / 1e3;
}

/* So many of the list, off it; returns how many there were. */
static uint32_t draw_some(struct bench *b, struct list *l, uint32_t n,
                          struct plan_item **ret)
{
    uint32_t k = 0;

    for (; k < n && l->count > 0; k++) {
        ret[k] = l->items[draw(b, l->count)].item;
        note_out(b, l, ret[k]);
    }
    return k;
}

/* One round; the time that the plan took. */
static uint64_t turn(struct bench *b, uint64_t waiting)
{
    struct plan_item *ends[ENDS], *withdrawn[WITHDRAWN];
    uint32_t nends = draw_some(b, &b->running, ENDS, ends);
    uint32_t nwithdrawn = draw_some(b, &b->line, WITHDRAWN, withdrawn);
    uint64_t began = now_ns(), took;

    b->now += ROUND_MS;
    plan_tick(b->p, b->now);
    for (uint32_t k = 0; k < nends; k++)
        plan_end(b->p, ends[k], true);
    for (uint32_t k = 0; k < nwithdrawn; k++)
        plan_end(b->p, withdrawn[k], false);
    while (plan_waiting(b->p) < waiting)
        add_item(b);
    settle(b);
    took = now_ns() - began;
    note_all(b);
    return took;
}

static double share_used(const struct plan_meter *from,
                         const struct plan_meter *to)
{
    uint64_t used = to->devices.used - from->devices.used;
    uint64_t idle = to->devices.idle_nodemand - from->devices.idle_nodemand +
                    to->devices.idle_frag - from->devices.idle_frag +
                    to->devices.waste - from->devices.waste;

    return used + idle ? (double) used / (double) (used + idle) : 0;
}

/* Bytes for each waiting item, as the allocator has it.  The line has come
 * about at the rate at which items come later: its first ones have waited for
 * as long as that takes.
 */
static double fill(struct bench *b, uint64_t waiting)
{
    size_t before, after, items;
    uint64_t now = b->now;

    while (plan_waiting(b->p) < 4 * TENANTS) {
        for (uint32_t k = 0; k < 1024; k++)
            add_item(b);
        settle(b);
        note_all(b);
    }
    have_room(&b->line, 2 * waiting);  /* which is not the plan's */
    before = mallinfo2().uordblks + mallinfo2().hblkhd;
    items = plan_waiting(b->p);
    while (plan_waiting(b->p) < waiting) {
        b->now = now - (waiting - plan_waiting(b->p)) * ROUND_MS /
                 (ENDS + WITHDRAWN);
        add_item(b);
        note_all(b);
    }
    b->now = now;
    after = mallinfo2().uordblks + mallinfo2().hblkhd;
    items = plan_waiting(b->p) - items;
    settle(b);
    note_all(b);
    return items ? (double) (after - before) / (double) items : 0;
}

static double a_second(uint64_t n, uint64_t ns)
{
    return ns ? (double) n * 1e9 / (double) ns : 0;
}

static void steady(const struct conf *c, uint64_t devices, uint64_t waiting)
{
    struct bench b;
    struct took t = { 0 };
    struct plan_meter from, to;
    uint64_t sum = 0, until, warm = c->decisions / 4;
    double bytes;

    bench_open(&b, devices, true);
    bytes = fill(&b, waiting);
    until = now_ns() + c->seconds * 1000000000 / 4;
    while (b.starts < warm && now_ns() < until)
        (void) turn(&b, waiting);
    b.starts = b.evictions = 0;
    plan_meter(b.p, &from);
    until = now_ns() + c->seconds * 1000000000;
    while (b.starts < c->decisions && now_ns() < until &&
           b.order < ITEMS - 2) {
        uint64_t before = b.starts + b.evictions, ns = turn(&b, waiting);
        uint64_t made = b.starts + b.evictions - before;

        sum += ns;
        for (uint64_t k = 0; k < made; k++)
            took_add(&t, ns / made);
    }
    plan_meter(b.p, &to);
    if (t.count)
        qsort(t.ns, t.count, sizeof(*t.ns), by_ns);
    printf("{\"bench\": \"plan-steady\", \"devices\": %" PRIu64
           ", \"waiting\": %" PRIu64 ", \"starts\": %" PRIu64
           ", \"evictions\": %" PRIu64 ", \"decisions_s\": %.0f"
           ", \"starts_s\": %.0f"
           ", \"us_mean\": %.2f, \"us_p50\": %.2f, \"us_p99\": %.2f"
           ", \"used\": %.4f, \"bytes_task\": %.0f}\n",
           devices, waiting, b.starts, b.evictions,
           a_second(b.starts + b.evictions, sum), a_second(b.starts, sum),
           t.count ? (double) sum / 1e3 / (double) t.count : 0,
           percentile(&t, 0.5), percentile(&t, 0.99),
           share_used(&from, &to), bytes);
    (void) fflush(stdout);
    free(t.ns);
    bench_close(&b);
}

/* ---- single questions ---- */

static struct plan_item *add_one(struct bench *b, struct plan_tenant *t,
                                 uint32_t gpu_milli, uint32_t ranks,
                                 const char *model)
{
    const char *const models[] = { model };
    struct plan_part part = { .count = ranks, .max = ranks };
    struct plan_item_spec spec = {
        .tenant = t, .parts = &part, .nparts = 1, .ready_ms = b->now,
        .bytes = GIB,
    };
    struct plan_item *i;

    part.need.gpu_milli = gpu_milli;
    part.need.cpu_milli = 1000;
    part.need.memory = GIB;
    part.need.models = models;
    part.need.nmodels = model ? 1 : 0;
    spec.order = ++b->order;
    spec.owner = (void *) (uintptr_t) spec.order;
    i = plan_add(b->p, &spec);
    tell(b, i, IN_LINE);
    return i;
}

static void say(const char *what, uint64_t nodes, uint64_t ns, bool good)
{
    printf("{\"bench\": \"plan-%s\", \"nodes\": %" PRIu64
           ", \"ms\": %.3f, \"found\": %s}\n",
           what, nodes, (double) ns / 1e6, good ? "true" : "false");
    (void) fflush(stdout);
}

static void gang(uint32_t gpu_milli)
{
    struct plan_decision d;
    struct bench b;
    uint64_t ns;
    bool good;

    bench_open(&b, 512 * PER_NODE, false);
    (void) add_one(&b, b.tenants[0], gpu_milli, 512, NULL);
    ns = now_ns();
    good = plan_next(b.p, &d) && d.what == PLAN_START && d.nplaces == 512;
    say("gang", 512, now_ns() - ns, good);
    bench_close(&b);
}

static void never(void)
{
    struct bench b;
    const struct plan_item *i;
    uint64_t ns;
    bool good;

    bench_open(&b, 100000, false);
    i = add_one(&b, b.tenants[0], 1000, 1, "none such");
    ns = now_ns();
    good = plan_never(b.p, i) == REASON_NEVER_MODEL;
    say("never", 100000 / PER_NODE, now_ns() - ns, good);
    bench_close(&b);
}

static void reclaim(void)
{
    struct plan_decision d;
    struct bench b;
    uint64_t ns;
    bool good;

    bench_open(&b, 1000 * PER_NODE, false);
    for (uint32_t k = 0; k < 1000 * PER_NODE; k++)
        (void) add_one(&b, b.tenants[0], 1000, 1, NULL);
    (void) settle(&b);
    b.now += 3600000;
    plan_tick(b.p, b.now);
    (void) settle(&b);
    (void) add_one(&b, b.tenants[1], 1000, 1, NULL);
    ns = now_ns();
    good = plan_next(b.p, &d) && d.what == PLAN_EVICT;
    say("reclaim", 1000, now_ns() - ns, good);
    bench_close(&b);
}

static void table(const struct conf *c)
{
    static const uint64_t devices[] = { 100, 1000, 10000, 100000 };
    static const uint64_t waiting[] = { 1000, 10000, 100000, 1000000 };

    for (size_t d = 0; d < array_size(devices); d++)
        for (size_t w = 0; w < array_size(waiting); w++)
            if (!c->quick || (devices[d] <= 10000 && waiting[w] <= 10000))
                steady(c, devices[d], waiting[w]);
}

/* The heap grows by so much at once, in one piece that the kernel is told about;
 * what is not touched takes no memory.  It is a wish: small pages do as well.
 */
static void want_huge_pages(void)
{
    enum { HUGE_PAGE = 2 << 20, GROWS = 512 << 20, IN_HEAP = 32 << 20 };
    uintptr_t from, to;
    void *p;

    (void) mallopt(M_MMAP_THRESHOLD, IN_HEAP);
    (void) mallopt(M_TOP_PAD, GROWS);
    p = mem_new(HUGE_PAGE);            /* more than is left: it grows */
    from = ((uintptr_t) p + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    to = (uintptr_t) sbrk(0);
    if (from < to && to - from <= GROWS + 2 * (uintptr_t) HUGE_PAGE)
        (void) madvise((char *) p + (from - (uintptr_t) p), to - from,
                       MADV_HUGEPAGE);
    free(p);
}

static const char help[] =
    "Usage: bench-plan [--devices N --waiting N] [--decisions N]\n"
    "                  [--seconds S] [--quick] [--small-pages]\n";

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "devices", required_argument, NULL, 'd' },
        { "waiting", required_argument, NULL, 'w' },
        { "decisions", required_argument, NULL, 'n' },
        { "seconds", required_argument, NULL, 's' },
        { "quick", no_argument, NULL, 'q' },
        { "small-pages", no_argument, NULL, 'p' },
        { 0 },
    };
    struct conf c = { .decisions = 200000, .seconds = 10 };
    int o;

    while ((o = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (o) {
        case 'd': c.devices = strtoull(optarg, NULL, 10); break;
        case 'w': c.waiting = strtoull(optarg, NULL, 10); break;
        case 'n': c.decisions = strtoull(optarg, NULL, 10); break;
        case 's': c.seconds = strtoull(optarg, NULL, 10); break;
        case 'q': c.quick = true; break;
        case 'p': c.small_pages = true; break;
        default: (void) fputs(help, stderr); return 2;
        }
    }
    if (!c.small_pages)
        want_huge_pages();
    if (c.devices) {
        steady(&c, c.devices, c.waiting);
        return 0;
    }
    gang(8000);
    gang(1000);
    never();
    reclaim();
    table(&c);
    return 0;
}

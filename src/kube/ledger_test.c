#include "kube/ledger.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

/* The ledger against sums by hand, and, on random histories that are told late
 * and out of order, against a count of every single second.
 */
enum { T0 = 1800000000 };              /* on the edge of a row */

static uint64_t seed;

static uint64_t draw(uint64_t n)
{
    return random_next(&seed) % n;
}

static json_t *stamp(uint64_t s)
{
    char text[32];

    clock_print(s * 1000, text, sizeof text);
    return json_string(text);
}

/* ---- objects ---- */

static json_t *node(const char *name, unsigned gpus, const char *zone,
                    bool open)
{
    return json_pack("{s:{s:s,s:o,s:{s:s,s:s}},s:{s:b},s:{s:{s:s,s:s,s:o},"
                     "s:[{s:s,s:s}]}}",
                     "metadata", "name", name, "creationTimestamp",
                     stamp(T0 - 99), "labels", "zone", zone,
                     "nvidia.com/gpu.product", zone,
                     "spec", "unschedulable", !open,
                     "status", "allocatable", "cpu", "8", "memory", "64Gi",
                     "nvidia.com/gpu", json_sprintf("%u", gpus),
                     "conditions", "type", "Ready", "status", "True");
}

struct job {
    char name[16], space[8], on[8];
    const char *zone;                  /* NULL: anywhere */
    unsigned gpus, cpus;
    uint64_t made, bound, ended;       /* UINT64_MAX: never */
};

enum { MADE, BOUND, ENDED, DROPPED };

static json_t *pod(const struct job *j, int stage)
{
    json_t *o = json_pack("{s:{s:s,s:s,s:s,s:o},s:{s:[{s:{s:{s:o,s:s,s:o}}}]}"
                          ",s:{s:s}}",
                          "metadata", "name", j->name, "namespace", j->space,
                          "uid", j->name, "creationTimestamp", stamp(j->made),
                          "spec", "containers", "resources", "requests",
                          "cpu", json_sprintf("%u", j->cpus), "memory", "1Gi",
                          "nvidia.com/gpu", json_sprintf("%u", j->gpus),
                          "status", "phase", stage == ENDED ? "Failed"
                                                            : "Pending");
    json_t *spec = json_object_get(o, "spec");
    json_t *status = json_object_get(o, "status");

    if (j->zone)
        json_put(spec, "nodeSelector", json_pack("{s:s}", "zone", j->zone));
    if (stage == MADE)
        json_put(status, "conditions", json_pack("[{s:s,s:s,s:s}]", "type",
                 "PodScheduled", "status", "False", "message", "0/2 nodes"));
    if (stage >= BOUND && *j->on) {
        json_put_str(spec, "nodeName", j->on);
        json_put(status, "conditions", json_pack("[{s:s,s:s,s:o}]", "type",
                 "PodScheduled", "status", "True", "lastTransitionTime",
                 stamp(j->bound)));
    }
    if (stage == ENDED)
        json_put(status, "containerStatuses", json_pack("[{s:{s:{s:o}}}]",
                 "state", "terminated", "finishedAt", stamp(j->ended)));
    return o;
}

static void tell(struct ledger *l, enum inventory_kind kind, json_t *object,
                 uint64_t at_s)
{
    struct err err = { 0 };

    if (ledger_put(l, kind, object, at_s * 1000 + 500, &err) < 0)
        ok(false, "%s", err.text);
    json_decref(object);
}

static void tell_pod(struct ledger *l, const struct job *j, int stage,
                     uint64_t at_s)
{
    json_t *o = pod(j, stage == DROPPED ? MADE : stage);

    if (stage != DROPPED) {
        tell(l, INVENTORY_POD, o, at_s);
        return;
    }
    ledger_drop(l, INVENTORY_POD, o, at_s * 1000 + 500);
    json_decref(o);
}

static struct ledger *begun(const json_t *nodes)
{
    struct ledger *l = ledger_new();
    const json_t *n;
    size_t i;

    ledger_list(l, INVENTORY_NODE, T0 * UINT64_C(1000) - 5000);
    ledger_list(l, INVENTORY_POD, T0 * UINT64_C(1000) - 5000);
    json_array_foreach(nodes, i, n)
        tell(l, INVENTORY_NODE, json_incref((json_t *) (uintptr_t) n), T0 - 3);
    ledger_listed(l, INVENTORY_NODE, T0 * UINT64_C(1000) - 2000);
    ledger_seen(l, true, T0 * UINT64_C(1000) - 2000);
    ok(!ledger_row(l, false, T0 * UINT64_C(1000)), "one list is not enough");
    ledger_listed(l, INVENTORY_POD, T0 * UINT64_C(1000) - 1000);
    ledger_seen(l, true, T0 * UINT64_C(1000) - 1000);
    return l;
}

/* ---- sums of rows ---- */

struct sums {
    uint64_t used, waste, frag, idle, asked, seconds, starts;
};

static uint64_t at(const json_t *row, const char *key)
{
    uint64_t ms = 0;

    (void) clock_parse(json_get_str(row, key, ""), &ms, NULL);
    return ms / 1000;
}

static void add_shares(struct sums *s, const json_t *o)
{
    s->used += json_get_u64(o, "used", 0);
    s->waste += json_get_u64(o, "waste", 0);
    s->frag += json_get_u64(o, "idle_frag", 0);
    s->idle += json_get_u64(o, "idle_nodemand", 0);
}

static void add_rows(const json_t *rows, struct sums *devices,
                     struct sums *cpus)
{
    const json_t *r, *m;
    size_t i, k;

    json_array_foreach(rows, i, r) {
        json_array_foreach(json_object_get(r, "devices"), k, m)
            add_shares(devices, m);
        add_shares(cpus, json_object_get(r, "cpus"));
        devices->asked += json_get_u64(r, "asked", 0);
        devices->starts += json_get_u64(r, "starts", 0);
        devices->seconds += at(r, "to") - at(r, "from");
    }
}

static uint64_t of_space(const json_t *rows, const char *name,
                         const char *model)
{
    const json_t *r, *o;
    uint64_t sum = 0;
    size_t i, k;

    json_array_foreach(rows, i, r)
        json_array_foreach(json_object_get(r, "namespaces"), k, o)
            if (strcmp(json_get_str(o, "name", ""), name) == 0)
                sum += model ? json_get_u64(json_object_get(o, "devices"),
                                            model, 0)
                             : json_get_u64(o, "waited", 0);
    return sum;
}

static bool is(const struct sums *s, uint64_t used, uint64_t waste,
               uint64_t frag, uint64_t idle)
{
    printf("# used %llu waste %llu idle_frag %llu idle_nodemand %llu\n",
           (unsigned long long) s->used, (unsigned long long) s->waste,
           (unsigned long long) s->frag, (unsigned long long) s->idle);
    return s->used == used && s->waste == waste && s->frag == frag &&
           s->idle == idle;
}

/* ---- by hand ---- */

static bool has_job(const json_t *row, const char *space, uint64_t made,
                    uint64_t bound, uint64_t ended)
{
    autofree char *want = mem_printf("%s 8 1000 %llu %llu %llu\n", space,
                                     (unsigned long long) made,
                                     (unsigned long long) bound,
                                     (unsigned long long) ended);

    return strstr(json_get_str(row, "jobs", ""), want);
}

/* Two nodes of 8.  A takes 8 for 100 s; B asks for 8 at 10 and gets them at 30
 * (wasted: 8 were free all the time); C asks for 8 at 50 and fits nowhere until
 * A ends at 100, is bound at 110 and ends at 200.
 */
static void test_hand(void)
{
    json_t *nodes = json_pack("[o,o]", node("n1", 8, "a", true),
                              node("n2", 8, "b", true));
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", "a", 8, 1, T0, T0, T0 + 100 };
    struct job b = { "b", "y", "n2", NULL, 8, 1, T0 + 10, T0 + 30, T0 + 200 };
    struct job c = { "c", "y", "n1", NULL, 8, 1, T0 + 50, T0 + 110,
                     T0 + 200 };
    struct sums d = { 0 }, u = { 0 };
    const json_t *w;
    json_t *rows, *now;

    tell_pod(l, &a, MADE, T0);
    tell_pod(l, &a, BOUND, T0 + 1);
    tell_pod(l, &b, MADE, T0 + 10);
    tell_pod(l, &b, BOUND, T0 + 32);
    tell_pod(l, &c, MADE, T0 + 51);
    now = ledger_row(l, true, (T0 + 100) * UINT64_C(1000));
    w = json_array_get(json_object_get(now, "waits"), 1);
    ok(at(now, "to") == T0 + 70 && at(now, "from") == T0 &&
       json_get_bool(w, "going", false) && json_get_u64(w, "wait", 0) == 20 &&
       strcmp(json_get_str(w, "why", ""), "0/2 nodes") == 0 &&
       has_job(now, "x", T0, T0, 0) && has_job(now, "y", T0 + 10, T0 + 30, 0),
       "the row under way is some seconds behind, and shows who waits");
    json_decref(now);
    tell_pod(l, &a, ENDED, T0 + 108);
    tell_pod(l, &c, BOUND, T0 + 111);
    tell_pod(l, &b, ENDED, T0 + 201);
    tell_pod(l, &c, ENDED, T0 + 203);
    rows = ledger_take(l, true, (T0 + 300) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(is(&d, 800 + 1360 + 720, 160 + 80, 0, 80 + 100 * 16 + 0),
       "shares of devices");
    ok(d.used + d.waste + d.frag + d.idle == 16 * 300 && d.seconds == 300 &&
       d.starts == 3, "they are all there was");
    ok(d.asked == 160 + 80, "no more than was asked for");
    ok(of_space(rows, "x", "a") == 800 && of_space(rows, "y", "b") == 1360 &&
       of_space(rows, "y", "a") == 720 && of_space(rows, "x", NULL) == 0 &&
       of_space(rows, "y", NULL) == 8 * 20 + 8 * 60, "by namespace");
    w = json_array_get(rows, 0);
    ok(has_job(w, "x", T0, T0, T0 + 100) &&
       has_job(w, "y", T0 + 10, T0 + 30, T0 + 200) &&
       has_job(w, "y", T0 + 50, T0 + 110, T0 + 200) &&
       json_get_u64(w, "jobs_left_out", 9) == 0,
       "what ended, from when to when");
    w = json_object_get(json_array_get(rows, 0), "waits");
    ok(json_array_size(w) == 2 &&
       strcmp(json_get_str(json_array_get(w, 0), "pod", ""), "y/c") == 0 &&
       json_get_u64(json_array_get(w, 0), "wait", 0) == 60 &&
       json_get_u64(json_array_get(w, 0), "fits", 0) == 10 &&
       json_get_u64(json_array_get(w, 1), "fits", 0) == 20,
       "who waited, and for how long a node would have taken it");
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* Nobody who waits fits, for its amounts or its rules. */
static void test_stuck(void)
{
    json_t *nodes = json_pack("[o,o]", node("n1", 4, "a", true),
                              node("n2", 4, "b", false));
    struct ledger *l = begun(nodes);
    struct job big = { "big", "x", "", NULL, 8, 1, T0, 0, 0 };
    struct job odd = { "odd", "x", "", "c", 1, 1, T0 + 100, 0, 0 };
    struct job cpu = { "cpu", "x", "", NULL, 0, 4, T0 + 200, 0, 0 };
    struct sums d = { 0 }, u = { 0 };
    json_t *rows;

    tell_pod(l, &big, MADE, T0);
    tell_pod(l, &odd, MADE, T0 + 100);
    tell_pod(l, &big, DROPPED, T0 + 150);
    tell_pod(l, &cpu, MADE, T0 + 200);
    tell_pod(l, &odd, DROPPED, T0 + 250);
    rows = ledger_take(l, true, (T0 + 300) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(is(&d, 0, 0, 4 * 250, 4 * 50), "devices; a closed node has none");
    ok(is(&u, 0, 8000 * 100, 8000 * 200, 0), "CPUs: one who wants no devices "
       "would fit");
    ok(d.asked == 4 * 100 + 4 * 50 + 100, "what was asked for");
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* A gap is nobody's time, and what was there before and after is right. */
static void test_gap(void)
{
    json_t *nodes = json_pack("[o]", node("n1", 4, "a", true));
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", NULL, 4, 1, T0, T0, T0 + 70 };
    struct sums d = { 0 }, u = { 0 };
    json_t *rows;

    tell_pod(l, &a, MADE, T0);
    tell_pod(l, &a, BOUND, T0);
    ledger_seen(l, false, (T0 + 50) * UINT64_C(1000));
    ok(!ledger_row(l, false, (T0 + 60) * UINT64_C(1000)), "nothing is under way");
    ledger_list(l, INVENTORY_POD, (T0 + 90) * UINT64_C(1000));
    tell_pod(l, &a, ENDED, T0 + 90);
    ledger_seen(l, true, (T0 + 91) * UINT64_C(1000));
    ledger_listed(l, INVENTORY_POD, (T0 + 99) * UINT64_C(1000));
    ledger_seen(l, true, (T0 + 99) * UINT64_C(1000));
    rows = ledger_take(l, true, (T0 + 150) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(json_array_size(rows) == 2 && d.seconds == 100 &&
       at(json_array_get(rows, 0), "to") == T0 + 50 &&
       at(json_array_get(rows, 1), "from") == T0 + 100, "two rows and a gap");
    ok(is(&d, 200, 0, 0, 200), "shares without it");
    json_decref(rows);
    rows = ledger_take(l, true, (T0 + 150) * UINT64_C(1000));
    ok(!rows, "rows are given once");
    json_decref(nodes);
    ledger_free(l);
}

/* What is heard of too late counts from where the sums are. */
static void test_late(void)
{
    json_t *nodes = json_pack("[o]", node("n1", 8, "a", true));
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", NULL, 8, 1, T0, T0 + 100, 0 };
    struct sums d = { 0 }, u = { 0 };
    json_t *rows;

    tell_pod(l, &a, MADE, T0);
    rows = ledger_take(l, false, (T0 + 200) * UINT64_C(1000));
    ok(!rows, "no row is over yet");
    tell_pod(l, &a, BOUND, T0 + 200);
    rows = ledger_take(l, true, (T0 + 300) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(is(&d, 8 * 130, 8 * 170, 0, 0), "late by more than the sums are");
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* Without grace the API says when; with some it was held until it is gone. */
static void test_deleted(bool grace)
{
    json_t *nodes = json_pack("[o]", node("n1", 8, "a", true)), *o, *rows;
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", NULL, 8, 1, T0, T0, 0 };
    struct sums d = { 0 }, u = { 0 };

    tell_pod(l, &a, BOUND, T0);
    o = pod(&a, BOUND);
    json_put(json_object_get(o, "metadata"), "deletionTimestamp",
             stamp(T0 + 10));
    json_put_u64(json_object_get(o, "metadata"), "deletionGracePeriodSeconds",
                 grace ? 30 : 0);
    tell(l, INVENTORY_POD, json_incref(o), T0 + 13);
    json_put_u64(json_object_get(o, "metadata"), "deletionGracePeriodSeconds",
                 0);
    ledger_drop(l, INVENTORY_POD, o, (T0 + 15) * UINT64_C(1000));
    rows = ledger_take(l, true, (T0 + 100) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(is(&d, grace ? 8 * 15 : 8 * 10, 0, 0, grace ? 8 * 85 : 8 * 90),
       "deleted %s grace", grace ? "with" : "without");
    json_decref(o);
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* With gates it is no demand, and waits from when it has none. */
static void test_gates(void)
{
    json_t *nodes = json_pack("[o]", node("n1", 8, "a", true)), *o, *rows;
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", NULL, 8, 1, T0, 0, 0 };
    struct sums d = { 0 }, u = { 0 };

    o = pod(&a, MADE);
    json_put(json_object_get(o, "spec"), "schedulingGates",
             json_pack("[{s:s}]", "name", "quota"));
    tell(l, INVENTORY_POD, o, T0);
    tell_pod(l, &a, MADE, T0 + 50);
    rows = ledger_take(l, true, (T0 + 100) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(is(&d, 0, 8 * 50, 0, 8 * 50), "who is gated waits for nobody");
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* ---- every second ---- */

enum { JOBS = 80, NODES = 4, SPAN = 4000, TELLS = JOBS * 3 + 8 };

struct telling {
    uint64_t at_s, number;
    int stage, job, node;
    bool open;
};

struct history {
    struct job jobs[JOBS];
    bool opens[NODES][SPAN];
    struct telling tells[TELLS];
    size_t ntells;
};

static const char *const zones[] = { "a", "b" };

static unsigned gpus_of(int node)
{
    return node == 0 ? 0 : 4u * (unsigned) node;
}

static int by_time(const void *va, const void *vb)
{
    const struct telling *a = va, *b = vb;

    if (a->at_s != b->at_s)
        return a->at_s < b->at_s ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Told late, but each pod's in order. */
static void add_tell(struct history *h, int job, int stage, uint64_t when,
                     uint64_t *last)
{
    uint64_t late = when + draw(LEDGER_LAG_S - 5);

    if (when >= T0 + SPAN)
        return;
    *last = late > *last ? late : *last;
    h->tells[h->ntells] = (struct telling) { *last, h->ntells, stage, job, 0,
                                             false };
    h->ntells++;
}

static void random_jobs(struct history *h)
{
    for (int k = 0; k < JOBS; k++) {
        struct job *j = &h->jobs[k];
        unsigned at_node = (unsigned) draw(NODES);
        uint64_t last = 0;

        (void) snprintf(j->name, sizeof j->name, "p%d", k);
        (void) snprintf(j->space, sizeof j->space, "s%u",
                        (unsigned) draw(3));
        (void) snprintf(j->on, sizeof j->on, "n%u", at_node);
        j->zone = draw(3) ? NULL : zones[draw(2)];
        j->gpus = draw(4) ? (unsigned) draw(9) : 0;
        j->cpus = 1 + (unsigned) draw(4);
        j->made = T0 + draw(SPAN);
        j->bound = j->made + (draw(4) ? draw(30) : draw(2000));
        j->ended = j->bound + draw(600);
        add_tell(h, k, MADE, j->made, &last);
        add_tell(h, k, BOUND, j->bound, &last);
        add_tell(h, k, ENDED, j->ended, &last);
    }
}

static void random_opens(struct history *h)
{
    for (int n = 0; n < NODES; n++) {
        uint64_t from = draw(SPAN / 2), to = from + draw(SPAN / 2);

        for (uint64_t s = 0; s < SPAN; s++)
            h->opens[n][s] = s < from || s >= to;
        if (from == to)
            continue;
        h->tells[h->ntells] = (struct telling) { T0 + from, h->ntells, 0, -1,
                                                 n, false };
        h->ntells++;
        h->tells[h->ntells] = (struct telling) { T0 + to, h->ntells, 0, -1, n,
                                                 true };
        h->ntells++;
    }
}

static json_t *node_of(int n, bool open)
{
    char name[8];

    (void) snprintf(name, sizeof name, "n%d", n);
    return node(name, gpus_of(n), zones[n % 2], open);
}

static json_t *told(const struct history *h)
{
    json_t *nodes = json_array(), *rows;
    struct ledger *l;

    for (int n = 0; n < NODES; n++)
        (void) json_array_append_new(nodes, node_of(n, true));
    l = begun(nodes);
    for (size_t i = 0; i < h->ntells; i++) {
        const struct telling *t = &h->tells[i];

        if (t->job < 0)
            tell(l, INVENTORY_NODE, node_of(t->node, t->open), t->at_s);
        else
            tell_pod(l, &h->jobs[t->job], t->stage, t->at_s);
    }
    rows = ledger_take(l, true, (T0 + SPAN) * UINT64_C(1000));
    json_decref(nodes);
    ledger_free(l);
    return rows;
}

static bool is_on(const struct job *j, int n, uint64_t s)
{
    return j->bound <= s && s < j->ended && j->on[1] - '0' == n;
}

struct node_now {
    int64_t gpus, cpus;                /* free; below 0: more than it has */
};

static void node_at(const struct history *h, int n, uint64_t s,
                    struct node_now *ret)
{
    *ret = (struct node_now) { gpus_of(n), 8 };
    for (int k = 0; k < JOBS; k++)
        if (is_on(&h->jobs[k], n, s)) {
            ret->gpus -= h->jobs[k].gpus;
            ret->cpus -= h->jobs[k].cpus;
        }
}

static bool would_fit(const struct job *j, int n, const struct node_now *f)
{
    return (j->gpus == 0 || f->gpus >= (int64_t) j->gpus) &&
           f->cpus >= (int64_t) j->cpus &&
           (!j->zone || j->zone == zones[n % 2]);
}

/* 0: nobody waits, 1: nobody fits, 2: somebody would. */
static void second(const struct history *h, uint64_t s, struct sums *d,
                   struct sums *u)
{
    struct node_now f[NODES];
    int devices = 0, cpus = 0;
    uint64_t idle = 0, idle_cpus = 0, asked = 0;

    for (int n = 0; n < NODES; n++) {
        bool open = h->opens[n][s - T0];

        node_at(h, n, s, &f[n]);
        idle += open && f[n].gpus > 0 ? (uint64_t) f[n].gpus : 0;
        idle_cpus += open && f[n].cpus > 0 ? (uint64_t) f[n].cpus * 1000 : 0;
        d->used += (uint64_t) (gpus_of(n) - f[n].gpus);
        u->used += (uint64_t) (8 - f[n].cpus) * 1000;
    }
    for (int k = 0; k < JOBS; k++) {
        const struct job *j = &h->jobs[k];
        int fits = 1;

        if (s < j->made || s >= j->bound)
            continue;
        for (int n = 0; n < NODES; n++)
            if (h->opens[n][s - T0] && would_fit(j, n, &f[n]))
                fits = 2;
        cpus = cpus > fits ? cpus : fits;
        if (j->gpus)
            devices = devices > fits ? devices : fits;
        asked += j->gpus;
    }
    *(devices == 0 ? &d->idle : devices == 1 ? &d->frag : &d->waste) += idle;
    *(cpus == 0 ? &u->idle : cpus == 1 ? &u->frag : &u->waste) += idle_cpus;
    if (devices)
        d->asked += asked < idle ? asked : idle;
}

static bool rows_sound(const json_t *rows)
{
    const json_t *r;
    uint64_t end = T0;
    size_t i;

    json_array_foreach(rows, i, r) {
        if (at(r, "from") != end || at(r, "to") <= end ||
            (at(r, "to") - 1) / LEDGER_ROW_S != end / LEDGER_ROW_S)
            return false;
        end = at(r, "to");
    }
    return end == T0 + SPAN;
}

static bool same(const struct sums *a, const struct sums *b)
{
    return a->used == b->used && a->waste == b->waste && a->frag == b->frag &&
           a->idle == b->idle && a->asked == b->asked;
}

static void test_random(uint64_t from)
{
    struct history *h = mem_new(sizeof *h);
    struct sums d = { 0 }, u = { 0 }, want = { 0 }, cpus = { 0 };
    json_t *rows;

    seed = from;
    random_jobs(h);
    random_opens(h);
    qsort(h->tells, h->ntells, sizeof *h->tells, by_time);
    rows = told(h);
    for (uint64_t s = T0; s < T0 + SPAN; s++)
        second(h, s, &want, &cpus);
    add_rows(rows, &d, &u);
    (void) is(&d, 0, 0, 0, 0);
    (void) is(&want, 0, 0, 0, 0);
    ok(same(&d, &want), "devices, second by second, of seed %llu",
       (unsigned long long) from);
    ok(same(&u, &cpus), "CPUs");
    ok(rows_sound(rows), "rows follow each other from edge to edge");
    json_decref(rows);
    free(h);
}

static void test_many(void)
{
    json_t *nodes = json_pack("[o]", node("n1", 8, "a", true)), *row;
    struct ledger *l = begun(nodes);

    for (unsigned i = 0; i < LEDGER_JOBS + 3; i++) {
        struct job j = { "", "x", "n1", NULL, 1, 0, T0 + 1, T0 + 2, T0 + 3 };

        (void) snprintf(j.name, sizeof j.name, "p%u", i);
        tell_pod(l, &j, BOUND, T0 + 2);
        tell_pod(l, &j, ENDED, T0 + 3);
    }
    row = ledger_row(l, false, (T0 + 100) * UINT64_C(1000));
    ok(json_get_u64(row, "jobs_left_out", 0) == 3, "more than are kept are "
       "counted, at once");
    json_decref(row);
    ledger_free(l);
    json_decref(nodes);
}

/* A clock that was never set is, and then is set back. */
static void test_jump(void)
{
    const uint64_t far = T0 + UINT64_C(40) * 365 * 24 * 3600;
    json_t *nodes = json_pack("[o]", node("n1", 4, "a", true));
    struct ledger *l = begun(nodes);
    struct job a = { "a", "x", "n1", NULL, 4, 1, T0, far, T0 + 1000 };
    struct sums d = { 0 }, u = { 0 };
    json_t *rows;

    tell_pod(l, &a, MADE, T0 + 10);
    ok(!ledger_take(l, false, (T0 + 130) * UINT64_C(1000)), "none is over");
    tell_pod(l, &a, BOUND, far);
    tell_pod(l, &a, ENDED, T0 + 1000);
    rows = ledger_take(l, true, (T0 + 1101) * UINT64_C(1000));
    add_rows(rows, &d, &u);
    ok(d.seconds == 200 && at(json_array_get(rows, 0), "from") == T0,
       "what is between was not seen");
    ok(is(&d, 0, 400, 0, 400), "on both sides of it all is counted");
    json_decref(rows);
    json_decref(nodes);
    ledger_free(l);
}

/* Who may make pods may ask for anything, as often as he likes. */
static void test_greedy(void)
{
    json_t *nodes = json_pack("[o]", node("n1", 8, "a", true)), *row;
    struct ledger *l = begun(nodes);
    const json_t *first;

    for (unsigned i = 0; i < 2000; i++) {
        struct job j = { .space = "x", .gpus = 8, .cpus = 1, .made = T0 };
        json_t *o, *asks;

        (void) snprintf(j.name, sizeof j.name, "p%u", i);
        o = pod(&j, MADE);
        asks = json_object_get(json_object_get(json_array_get(json_object_get(
               json_object_get(o, "spec"), "containers"), 0), "resources"),
               "requests");
        json_put_str(asks, "nvidia.com/gpu", "9000000000000000000");
        json_put_str(asks, "cpu", "9000000000000000000");
        tell(l, INVENTORY_POD, o, T0 + 1);
    }
    row = ledger_row(l, false, (T0 + 899) * UINT64_C(1000));
    first = json_array_get(json_object_get(row, "namespaces"), 0);
    ok(json_get_u64(first, "waited", 0) > UINT64_C(1) << 32,
       "all that was waited for is a number");
    ok(json_get_u64(json_array_get(json_object_get(row, "devices"), 0),
                    "idle_frag", 0) > 0, "and it would fit nowhere");
    json_decref(row);
    ledger_free(l);
    json_decref(nodes);
}

int main(void)
{
    test_hand();
    test_greedy();
    test_many();
    test_jump();
    test_stuck();
    test_gap();
    test_late();
    test_gates();
    test_deleted(false);
    test_deleted(true);
    for (uint64_t k = 1; k <= 12; k++)
        test_random(k);
    return tap_done();
}

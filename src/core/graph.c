#include "core/world_int.h"

#include "base/mem.h"

#include <assert.h>

/* Who needs whom, turned around: for each task the tasks that need it, as one
 * array of edges and one of offsets.  Sets stand by their number, so that a
 * task finds its own in O(log n).
 */
static void make_edges(struct graph *g, const struct spec *s)
{
    uint32_t n = s->ntasks, edges = 0;
    autofree uint32_t *fill = mem_array((size_t) n + 1, sizeof(*fill));

    g->first = mem_array((size_t) n + 1, sizeof(*g->first));
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < s->tasks[i].nneeds; k++)
            g->first[s->tasks[i].needs[k] + 1]++;
        edges += s->tasks[i].nneeds;
    }
    for (uint32_t i = 0; i < n; i++) {
        g->first[i + 1] += g->first[i];
        fill[i] = g->first[i];
    }
    g->next = mem_array((size_t) edges + 1, sizeof(*g->next));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < s->tasks[i].nneeds; k++)
            g->next[fill[s->tasks[i].needs[k]]++] = i;
}

static int by_number(const void *a, const void *b)
{
    const struct set *x = a, *y = b;

    return (x->number > y->number) - (x->number < y->number);
}

/* One entry for each member first, then one for each set. */
static void make_sets(struct graph *g, struct workload *wl)
{
    const struct spec *s = wl->spec;
    uint32_t n = 0, kept = 0;

    for (uint32_t i = 0; i < s->ntasks; i++)
        n += s->tasks[i].together != 0;
    if (n == 0)
        return;
    g->sets = mem_array(n, sizeof(*g->sets));
    g->members = mem_array(n, sizeof(*g->members));
    n = 0;
    for (uint32_t i = 0; i < s->ntasks; i++)
        if (s->tasks[i].together)
            g->sets[n++].number = s->tasks[i].together;
    qsort(g->sets, n, sizeof(*g->sets), by_number);
    for (uint32_t i = 0; i < n; i++) {
        if (kept == 0 || g->sets[kept - 1].number != g->sets[i].number)
            g->sets[kept++] = (struct set) {
                .number = g->sets[i].number, .first = i, .workload = wl,
            };
    }
    g->nsets = kept;
    for (uint32_t i = 0; i < s->ntasks; i++) {
        struct set *set = graph_set(wl, &wl->tasks[i]);

        if (set)
            g->members[set->first + set->count++] = i;
    }
}

struct set *graph_set(const struct workload *wl, const struct task *t)
{
    const struct set key = { .number = t->spec->together };

    if (key.number == 0)
        return NULL;
    return bsearch(&key, wl->graph->sets, wl->graph->nsets, sizeof(key),
                   by_number);
}

/* By its needs' outcomes; asked once all have ended. */
static bool may_run(const struct task *t)
{
    uint32_t succeeded = 0, failed = 0;

    for (uint32_t i = 0; i < t->spec->nneeds; i++) {
        enum outcome o = t->workload->tasks[t->spec->needs[i]].outcome;

        succeeded += o == OUTCOME_SUCCEEDED;
        failed += o == OUTCOME_FAILED || o == OUTCOME_ABORTED;
    }
    switch (t->spec->when) {
    case SPEC_ON_SUCCESS:
        return succeeded == t->spec->nneeds;
    case SPEC_ON_FAILURE:
        return failed > 0;
    case SPEC_ALWAYS:
        return true;
    }
    return false;
}

/* Every task as it is before anything happened: blocked, and those that need
 * nothing ready at once.  A task that runs only after a failure and needs
 * nobody has nothing to wait for; step.c skips it.
 */
void graph_make(struct workload *wl)
{
    const struct spec *s = wl->spec;

    wl->graph = mem_new(sizeof(*wl->graph));
    make_edges(wl->graph, s);
    wl->tasks = mem_array(s->ntasks, sizeof(*wl->tasks));
    for (uint32_t i = 0; i < s->ntasks; i++)
        wl->tasks[i].spec = &s->tasks[i];
    make_sets(wl->graph, wl);
    for (uint32_t i = 0; i < s->ntasks; i++) {
        struct task *t = &wl->tasks[i];
        struct set *set;

        t->workload = wl;
        t->index = i;
        t->needs_left = t->spec->nneeds;
        t->since_ms = wl->submitted_ms;
        t->state = TASK_BLOCKED;
        if (t->needs_left == 0 && may_run(t)) {
            t->state = TASK_WAITING;
            t->ready_ms = wl->submitted_ms;
        }
        wl->count[t->state]++;
        if ((set = graph_set(wl, t))) {
            set->blocked += t->state == TASK_BLOCKED;
            set->waiting += t->state == TASK_WAITING;
        }
    }
}

void graph_free(struct graph *g)
{
    if (!g)
        return;
    free(g->first);
    free(g->next);
    free(g->sets);
    free(g->members);
    free(g);
}

/* Its last need has ended: it is ready, or step.c ends it. */
static void unblock(struct world *w, struct task *t, uint64_t now_ms)
{
    assert(t->state == TASK_BLOCKED && t->needs_left == 0);
    if (task_aborting(t) || !may_run(t)) {
        todo_add(w, t);
        return;
    }
    t->ready_ms = now_ms;
    task_set_state(w, t, TASK_WAITING, now_ms);
}

void task_release_next(struct world *w, struct task *t, uint64_t now_ms)
{
    const struct graph *g = t->workload->graph;

    for (uint32_t i = g->first[t->index]; i < g->first[t->index + 1]; i++) {
        struct task *next = &t->workload->tasks[g->next[i]];

        if (--next->needs_left == 0 && next->state == TASK_BLOCKED)
            unblock(w, next, now_ms);
    }
}

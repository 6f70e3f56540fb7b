#include "spec/task.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/near.h"
#include "spec/reader.h"

#include <string.h>

enum { NEAR_TRIES = 5000, CYCLES = 10 };

struct linker {
    struct tasks *ts;
    struct reader *r;
    uint32_t *found;                   /* what one `needs` stands for */
    uint32_t *stamp;                   /* of each task: last seen for, plus 1 */
    uint64_t edges;
};

static void push_place(struct reader *r, const struct place *p,
                       const char *field)
{
    reader_push(r, "tasks");
    if (p->key)
        reader_push(r, p->key);
    else
        reader_push_index(r, p->index);
    reader_push(r, field);
}

static void pop_place(struct reader *r)
{
    reader_pop(r);
    reader_pop(r);
    reader_pop(r);
}

static void unknown_task(struct linker *l, const struct node *n,
                         const char *name)
{
    struct near near;
    const char *known;
    size_t pos = 0;

    near_init(&near, name);
    for (unsigned i = 0; i < NEAR_TRIES && !reader_full(l->r) &&
         map_next(l->ts->names, &pos, &known); i++)
        near_try(&near, known);
    reader_problem_near(l->r, n, &near, "", "no task '%s'", quoted(name).s);
}

/* Names to indexes.  Tasks of one matrix share the result when the names have
 * no "{{" in them.
 */
static void resolve(struct linker *l, struct needs *needs, uint32_t task)
{
    uint32_t count = 0, *v;

    for (uint32_t i = 0; i < needs->count; i++) {
        const struct span *s = map_get(l->ts->names, needs->names[i]);

        if (!s) {
            unknown_task(l, needs->at[i], needs->names[i]);
            continue;
        }
        if (s->count && l->stamp[s->first] == task + 1)
            reader_problem(l->r, needs->at[i], "'%s' is needed already",
                           quoted(needs->names[i]).s);
        for (uint32_t k = s->first; k < s->first + s->count; k++) {
            if (l->stamp[k] == task + 1)
                continue;
            l->stamp[k] = task + 1;
            l->found[count++] = k;
        }
    }
    v = spec_alloc(l->r->spec, count * sizeof(*v));
    if (count)
        memcpy(v, l->found, count * sizeof(*v));
    needs->resolved = v;
    needs->nresolved = count;
}

/* False when there are too many edges to go on. */
static bool link_needs(struct linker *l, uint32_t i)
{
    const struct link *link = &l->ts->links[i];
    struct spec_task *t = &l->r->spec->tasks[i];
    struct needs *needs = link->needs;

    if (!needs)
        return true;
    if (!needs->resolved)
        resolve(l, needs, i);
    l->edges += needs->nresolved;
    if (l->edges > SPEC_MAX_NEEDS) {
        reader_problem(l->r, link->place->at, "the tasks need each other more "
                       "than %d times up to this one", SPEC_MAX_NEEDS);
        return false;
    }
    for (uint32_t k = 0; k < needs->nresolved; k++)
        if (needs->resolved[k] == i)
            reader_problem(l->r, needs->at[0], "a task cannot need itself");
    t->needs = needs->nresolved ? needs->resolved : NULL;
    t->nneeds = needs->nresolved;
    return true;
}

static void too_many_ranks(const struct tasks *ts, uint32_t task)
{
    const struct link *link = &ts->links[task];

    push_place(ts->r, link->place, "together");
    reader_problem(ts->r, link->place->at, "those that start together have "
                   "more than %d ranks up to this one", SPEC_MAX_TOGETHER);
    pop_place(ts->r);
}

/* Numbers from 1, in the order in which the sets are first named. */
static void link_together(const struct tasks *ts)
{
    autofree uint64_t *ranks = mem_array(ts->next + 1u, sizeof(*ranks));
    struct map *sets = map_new();
    bool few = true;

    for (uint32_t i = 0; i < ts->next && few; i++) {
        const char *name = ts->links[i].together;
        uintptr_t number;

        if (!name)
            continue;
        number = (uintptr_t) map_get(sets, name);
        if (!number) {
            number = map_count(sets) + 1;
            map_set(sets, name, (void *) number);
        }
        ts->r->spec->tasks[i].together = (uint32_t) number;
        ranks[number] += ts->r->spec->tasks[i].ranks;
        few = ranks[number] <= SPEC_MAX_TOGETHER;
        if (!few)
            too_many_ranks(ts, i);
    }
    map_free(sets);
}

static void note_cycle(uint32_t task, const char *words, void *arg)
{
    const struct tasks *ts = arg;
    const struct link *link = &ts->links[task];

    push_place(ts->r, link->place, "needs");
    reader_problem(ts->r, link->needs ? link->needs->at[0] : link->place->at,
                   "needs form a cycle: %s", words);
    pop_place(ts->r);
}

void link_tasks(struct tasks *ts)
{
    autofree uint32_t *found = mem_array(ts->next, sizeof(*found));
    autofree uint32_t *stamp = mem_array(ts->next, sizeof(*stamp));
    struct linker l = { .ts = ts, .r = ts->r, .found = found, .stamp = stamp };
    size_t before = reader_problems(ts->r);
    bool more = true;

    for (uint32_t i = 0; i < ts->next && more; i++) {
        push_place(ts->r, ts->links[i].place, "needs");
        more = link_needs(&l, i);
        pop_place(ts->r);
    }
    link_together(ts);
    if (reader_problems(ts->r) == before)
        (void) spec_cycles(ts->r->spec, CYCLES, note_cycle, ts);
}

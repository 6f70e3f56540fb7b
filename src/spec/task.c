#include "spec/task.h"

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "spec/reader.h"

#include <string.h>

/* A value without "{{" is the same for every task it is for: it is read once,
 * into a draft that all of them start from, and its text is shared.  What has
 * "{{" in it is read late, once for each task.
 */
struct family {
    struct draft base;
    struct late late[32];
    size_t nlate;
    uint32_t set;                      /* bit of each field the task has */
    const struct node *name;
    const struct place *place;
    bool good;
};

static uint32_t bit(const struct field *f)
{
    return 1u << (unsigned) (f - table_task.fields);
}

static bool is(const struct field *f, const char *name)
{
    return strcmp(f->name, name) == 0;
}

/* The bits that go when this field is set: run and argv are one thing said in
 * two ways.
 */
static uint32_t replaces(const struct field *f)
{
    if (is(f, "run") || is(f, "argv"))
        return bit(field_find(&table_task, "run", USE_TASK)) |
               bit(field_find(&table_task, "argv", USE_TASK));
    return bit(f);
}

static void draft_init(struct draft *d)
{
    *d = (struct draft) { .together = NULL };
    spec_task_init(&d->task);
}

static void read_field(struct reader *r, const struct field *f,
                       const struct node *n, struct draft *d,
                       struct late *late, size_t *nlate, bool from_defaults)
{
    if (n->templated && !is(f, "matrix"))
        late[(*nlate)++] = (struct late) { f, n, from_defaults };
    else
        field_read(r, f, n, d);
}

/* -- defaults ------------------------------------------------------------- */

static void defaults_read(struct tasks *ts, const struct node *n)
{
    struct reader *r = ts->r;

    draft_init(&ts->base);
    if (!n)
        return;
    reader_push(r, "defaults");
    if (reader_mapping(r, n, "a mapping of task fields"))
        for (uint32_t i = 0; i < n->count; i++) {
            const struct node *key = n->members[i].key;
            const struct field *f = field_find(&table_task, key->text,
                                               USE_DEFAULTS);

            if (f)
                read_field(r, f, n->members[i].value, &ts->base, ts->late,
                           &ts->nlate, true);
            else
                field_unknown(r, key, &table_task, NULL, USE_DEFAULTS);
        }
    reader_pop(r);
}

static void take_defaults(const struct tasks *ts, struct family *fam)
{
    for (size_t i = 0; i < ts->nlate; i++)
        if (!(bit(ts->late[i].field) & fam->set))
            fam->late[fam->nlate++] = ts->late[i];
}

/* -- names ---------------------------------------------------------------- */

static void name_add(struct tasks *ts, const struct node *n, const char *name,
                     uint32_t first, uint32_t count)
{
    const struct span *was = map_get(ts->names, name);
    struct span *span;

    if (was) {
        reader_problem(ts->r, n, "duplicate task name '%s'; the first is in "
                       "line %u", quoted(name).s, was->line);
        return;
    }
    span = spec_arena_alloc(ts->r->scratch, sizeof(*span));
    *span = (struct span) { first, count, n->line };
    map_set(ts->names, name, span);
}

/* "-VALUE" for each axis; what a name may not hold becomes '_'. */
static void add_suffix(const struct matrix *m, struct buf *name)
{
    for (uint32_t i = 0; i < m->naxes; i++) {
        size_t from = name->len + 1;

        buf_printf(name, "-%s", m->axes[i].values[m->axes[i].now]);
        for (; from < name->len; from++) {
            char one[3] = { 'x', name->data[from], '\0' };

            if (!spec_name_valid(one))
                name->data[from] = '_';
        }
    }
}

static const char *instance_name(struct tasks *ts, const struct family *fam)
{
    autobuf struct buf name = BUF_INIT(SPEC_MAX_TEXT * 2);
    const char *s = reader_text(ts->r, fam->name, "a name");

    if (!s)
        return NULL;
    buf_str(&name, s);
    if (fam->base.matrix && !fam->name->templated)
        add_suffix(fam->base.matrix, &name);
    if (!spec_name_valid(buf_text(&name))) {
        reader_problem(ts->r, fam->name, "expected a name (a letter or digit, "
                       "then letters, digits, '_', '.' and '-', at most %d), "
                       "got '%s'", SPEC_MAX_NAME, quoted(buf_text(&name)).s);
        return NULL;
    }
    return spec_str(ts->r->spec, name.data, name.len);
}

/* -- one task ------------------------------------------------------------- */

/* What must hold between the fields of one task. */
static void check_whole(struct tasks *ts, const struct family *fam,
                        struct draft *d)
{
    const struct node *at = fam->place->at;
    struct spec_task *t = &d->task;
    size_t text = spec_task_text(t);

    if (t->run && t->argv)
        reader_problem(ts->r, at, "has both 'run' and 'argv'; write one of "
                       "them");
    if (!t->run && !t->argv)
        reader_problem(ts->r, at, "has no command; expected 'run' or 'argv'");
    if (t->gpu_milli == 0) {
        if (fam->set & bit(field_find(&table_task, "gpu", USE_TASK)))
            reader_problem(ts->r, at, "has 'gpu' but no 'gpus': how many?");
        t->models = NULL;
        t->nmodels = 0;
        t->gpu_memory = 0;
    }
    if (text > SPEC_MAX_TASK_TEXT)
        reader_problem(ts->r, at, "its texts make %zu bytes; at most %d are "
                       "allowed", text, SPEC_MAX_TASK_TEXT);
    ts->text += text;
    if (ts->text > SPEC_MAX_ALL_TEXT && !ts->full) {
        ts->full = true;
        reader_problem(ts->r, at, "the texts of all tasks make more than %d "
                       "bytes up to this one", SPEC_MAX_ALL_TEXT);
    }
}

static void late_read(struct tasks *ts, const struct late *late,
                      struct draft *d)
{
    struct reader *r = ts->r;
    struct step path[READER_DEPTH];
    unsigned depth = r->depth;

    memcpy(path, r->path, depth * sizeof(path[0]));
    if (late->from_defaults) {
        r->path[0] = (struct step) { .key = "defaults" };
        r->depth = 1;
    }
    field_read(r, late->field, late->node, d);
    memcpy(r->path, path, depth * sizeof(path[0]));
    r->depth = depth;
    ts->weight += late->node->weight;
}

static void instance_read(struct tasks *ts, struct family *fam)
{
    size_t before = reader_problems(ts->r);
    struct draft d = fam->base;

    for (size_t i = 0; i < fam->nlate; i++)
        late_read(ts, &fam->late[i], &d);
    if (ts->weight > NODE_MAX_WEIGHT) {
        ts->full = true;
        reader_problem(ts->r, fam->place->at, "the tasks unfold into more "
                       "than %d values up to this one", NODE_MAX_WEIGHT);
    }
    /* A command that could not be read is there nevertheless. */
    if (reader_problems(ts->r) == before)
        check_whole(ts, fam, &d);
    fam->good = reader_problems(ts->r) == before;
    ts->links[ts->next].needs = d.needs;
    ts->links[ts->next].together = d.together;
    ts->r->spec->tasks[ts->next] = d.task;
}

static void instance_add(struct tasks *ts, struct family *fam)
{
    const char *name = instance_name(ts, fam);

    ts->links[ts->next] = (struct link) {
        fam->place, fam->base.needs, fam->base.together
    };
    if (fam->good && !ts->full)
        instance_read(ts, fam);
    if (name && fam->base.matrix)
        name_add(ts, fam->name, name, ts->next, 1);
    ts->r->spec->tasks[ts->next++].name = name;
}

/* The next combination, the last axis first; false after the last one. */
static bool matrix_turn(struct matrix *m)
{
    for (uint32_t i = m->naxes; i-- > 0; m->axes[i].now = 0)
        if (++m->axes[i].now < m->axes[i].count)
            return true;
    return false;
}

static void family_unfold(struct tasks *ts, struct family *fam)
{
    struct matrix *m = fam->base.matrix;
    uint32_t first = ts->next;

    ts->r->matrix = m;
    do {
        instance_add(ts, fam);
    } while (m && ts->next < ts->total && matrix_turn(m));
    ts->r->matrix = NULL;
    if (m && !fam->name->templated)
        name_add(ts, fam->name, fam->name->text, first, ts->next - first);
    else if (!m && ts->r->spec->tasks[first].name)
        name_add(ts, fam->name, ts->r->spec->tasks[first].name, first, 1);
}

static void family_member(struct tasks *ts, struct family *fam,
                          const struct node_member *m)
{
    const struct field *f = field_find(&table_task, m->key->text, USE_TASK);
    struct draft init;

    if (!f) {
        field_unknown(ts->r, m->key, &table_task, NULL, USE_TASK);
        return;
    }
    if (is(f, "name")) {
        if (fam->name)
            reader_problem(ts->r, m->key, "the task is named by its key, '%s'",
                           quoted(fam->name->text).s);
        else
            fam->name = m->value;
        return;
    }
    draft_init(&init);
    /* The first of run and argv drops the defaults' command; a second one
     * leaves the first in place, to be found when the whole is looked at.
     */
    if (!(fam->set & replaces(f)) && replaces(f) != bit(f)) {
        field_reset(field_find(&table_task, "run", USE_TASK), &fam->base,
                    &init);
        field_reset(field_find(&table_task, "argv", USE_TASK), &fam->base,
                    &init);
    }
    field_reset(f, &fam->base, &init);
    fam->set |= bit(f);
    read_field(ts->r, f, m->value, &fam->base, fam->late, &fam->nlate, false);
}

static void family_read(struct tasks *ts, const struct node *n,
                        const struct node *key, const struct place *place)
{
    struct family fam = { .base = ts->base, .name = key, .place = place };
    size_t before = reader_problems(ts->r);
    uint32_t run = bit(field_find(&table_task, "run", USE_TASK));
    uint32_t argv = bit(field_find(&table_task, "argv", USE_TASK));

    if (!reader_mapping(ts->r, n, "a mapping of task fields"))
        return;
    for (uint32_t i = 0; i < n->count; i++)
        family_member(ts, &fam, &n->members[i]);
    if (fam.set & (run | argv))
        fam.set |= run | argv;
    take_defaults(ts, &fam);
    fam.good = reader_problems(ts->r) == before;
    if (fam.name)
        family_unfold(ts, &fam);
    else
        reader_problem(ts->r, n, "missing key 'name'");
}

/* -- all tasks ------------------------------------------------------------ */

/* How many tasks this one will be; counted before any is made. */
static uint64_t unfolded(const struct node *n)
{
    const struct node *matrix = NULL;
    uint64_t product = 1;

    for (uint32_t i = 0; n->kind == NODE_MAPPING && i < n->count; i++)
        if (strcmp(n->members[i].key->text, "matrix") == 0)
            matrix = n->members[i].value;
    if (!matrix || matrix->kind != NODE_MAPPING)
        return 1;
    for (uint32_t i = 0; i < matrix->count; i++) {
        const struct node *axis = matrix->members[i].value;

        if (axis->kind == NODE_LIST && axis->count > 0)
            product *= axis->count;
        if (product > SPEC_MAX_TASKS)
            break;
    }
    return product;
}

static const struct node *task_node(const struct node *n, uint32_t i)
{
    return n->kind == NODE_LIST ? n->items[i] : n->members[i].value;
}

static bool tasks_count(struct tasks *ts, const struct node *n)
{
    uint64_t total = 0;

    if (n->kind == NODE_SCALAR || n->count == 0) {
        if (n->kind == NODE_SCALAR)
            reader_expected(ts->r, n, "a mapping of names to tasks, or a list "
                            "of tasks");
        else
            reader_problem(ts->r, n, "expected at least one task");
        return false;
    }
    for (uint32_t i = 0; i < n->count && total <= SPEC_MAX_TASKS; i++)
        total += unfolded(task_node(n, i));
    if (total > SPEC_MAX_TASKS) {
        reader_problem(ts->r, n, "unfolds into more than %d tasks",
                       SPEC_MAX_TASKS);
        return false;
    }
    ts->total = (uint32_t) total;
    return true;
}

static void tasks_fill(struct tasks *ts, const struct node *n)
{
    struct reader *r = ts->r;

    for (uint32_t i = 0; i < n->count && !ts->full; i++) {
        struct place *p = spec_arena_alloc(r->scratch, sizeof(*p));
        const struct node *key = NULL;

        *p = (struct place) { .at = task_node(n, i), .index = i };
        if (n->kind == NODE_MAPPING) {
            key = n->members[i].key;
            p->at = key;
            p->key = key->text;
            reader_push(r, key->text);
        } else {
            reader_push_index(r, i);
        }
        family_read(ts, task_node(n, i), key, p);
        reader_pop(r);
    }
}

void tasks_read(struct reader *r, const struct node *defaults,
                const struct node *tasks)
{
    struct tasks ts = { .r = r };

    defaults_read(&ts, defaults);
    reader_push(r, "tasks");
    if (tasks_count(&ts, tasks)) {
        ts.names = map_new();
        ts.links = mem_array(ts.total, sizeof(*ts.links));
        r->spec->tasks = spec_alloc(r->spec,
                                    ts.total * sizeof(*r->spec->tasks));
        tasks_fill(&ts, tasks);
        r->spec->ntasks = ts.next;
    }
    reader_pop(r);
    if (ts.next > 0 && !ts.full)
        link_tasks(&ts);
    map_free(ts.names);
    free(ts.links);
}

void tasks_read_job(struct reader *r, const struct node *root)
{
    const struct place place = { .at = root };
    struct tasks ts = { .r = r };
    struct family fam = { .place = &place };
    size_t before = reader_problems(r);
    struct draft d;

    draft_init(&d);
    for (uint32_t i = 0; i < root->count; i++) {
        const char *key = root->members[i].key->text;
        const struct field *f = field_find(&table_task, key, USE_JOB);

        if (!f)
            continue;
        fam.set |= bit(f);
        field_read(r, f, root->members[i].value, &d);
    }
    if (reader_problems(r) == before)
        check_whole(&ts, &fam, &d);
    d.task.name = r->spec->name;
    r->spec->tasks = spec_alloc(r->spec, sizeof(d.task));
    r->spec->tasks[0] = d.task;
    r->spec->ntasks = 1;
}

#include "spec/field.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/near.h"
#include "spec/reader.h"
#include "spec/type.h"

#include <string.h>

#define IN(s, m) \
    offsetof(struct s, m), sizeof(__typeof__(((struct s *) 0)->m))
#define TASK(m)    IN(draft, task.m), 0
#define TASK_N(m, n) IN(draft, task.m), offsetof(struct draft, task.n)
#define HEAD(m)    IN(spec, m), 0
#define NOWHERE    0, 0, 0

#define TOP        (USE_PIPELINE | USE_JOB)
#define WORK       (USE_TASK | USE_JOB | USE_DEFAULTS)
#define STEP       (USE_TASK | USE_DEFAULTS)

static const char *const kinds[] = { "job", "pipeline", NULL };
static const char *const whens[] = { "success", "failure", "always", NULL };
static const char *const nears[] = { "any", "domain", "node", NULL };
static const char *const releases[] = { "may", "never", NULL };

/* -- parts ---------------------------------------------------------------- */

static const struct field mount_fields[] = {
    { "source", &type_text, USE_PART, IN(spec_pair, key), 0, NULL, NULL,
      "what is mounted: a path, or a volume's name" },
    { "target", &type_path, USE_PART, IN(spec_pair, value), 0, NULL, NULL,
      "where the task sees it" },
};
static const struct table table_mount = {
    "a mount", mount_fields, array_size(mount_fields)
};

static const struct field gpu_fields[] = {
    { "model", &type_names, USE_PART, TASK_N(models, nmodels), NULL, NULL,
      "acceptable device models" },
    { "models", &type_names, USE_PART, TASK_N(models, nmodels), NULL, NULL,
      "the same, for more than one" },
    { "memory", &type_size, USE_PART, TASK(gpu_memory), NULL, NULL,
      "least memory of a device" },
};
static const struct table table_gpu = {
    "'gpu'", gpu_fields, array_size(gpu_fields)
};

static const struct field rank_fields[] = {
    { "min", &type_ranks, USE_PART, TASK(ranks), NULL, NULL,
      "it starts with no fewer; 1 unless said" },
    { "max", &type_ranks, USE_PART, TASK(ranks_max), NULL, NULL,
      "it starts with as many of these as there is room for" },
};
static const struct table table_ranks = {
    "'ranks'", rank_fields, array_size(rank_fields)
};

static const struct field retry_fields[] = {
    { "count", &type_count, USE_PART, TASK(retry_count), NULL, NULL,
      "how often it is tried again" },
    { "backoff", &type_period, USE_PART, TASK(retry_backoff_ms), NULL, NULL,
      "pause before the first new attempt; doubles each time; 1s unless said" },
    { "on", &type_causes, USE_PART, TASK(retry_on), NULL, type_cause_words,
      "causes that count; all but refused and image unless said" },
};
static const struct table table_retries = {
    "'retries'", retry_fields, array_size(retry_fields)
};

static const struct field limit_fields[] = {
    { "gpu_seconds", &type_limit, USE_PART, TASK(limit_gpu_ms), NULL, NULL,
      "device time over all attempts and ranks" },
    { "wall", &type_limit, USE_PART, TASK(limit_wall_ms), NULL, NULL,
      "running time over all attempts" },
    { "cost", &type_cost, USE_PART, TASK(limit_cost_micro), NULL, NULL,
      "money over all attempts" },
};
static const struct table table_limits = {
    "'limits'", limit_fields, array_size(limit_fields)
};

static const struct field stop_fields[] = {
    { "metric", &type_metric, USE_PART, TASK(still_metric), NULL, NULL,
      "a number that the task says about itself (weir progress)" },
    { "still_for", &type_limit, USE_PART, TASK(still_ms), NULL, NULL,
      "how long it may stand still" },
    { "by", &type_share, USE_PART, TASK(still_milli), NULL, NULL,
      "moves by less than this share of it are none; 0.001 unless said" },
};
static const struct table table_stop = {
    "'stop_when'", stop_fields, array_size(stop_fields)
};

static const struct field idle_fields[] = {
    { "grace", &type_limit, USE_PART, TASK(idle_grace_ms), NULL, NULL,
      "how long its devices may stand unused; as its tenant or the policy "
      "says unless said, and no longer" },
    { "release", &type_word, USE_PART, TASK(idle_release), NULL, releases,
      "whether it bears that its threads run on meanwhile; may unless said" },
};
static const struct table table_idle = {
    "'idle'", idle_fields, array_size(idle_fields)
};

static const struct field checkpoint_fields[] = {
    { "signal", &type_signal, USE_PART, TASK(stop_signal), NULL,
      type_signal_words, "sent to ask for a checkpoint and an end; TERM "
      "unless said" },
    { "command", &type_text, USE_PART, TASK(stop_command), NULL, NULL,
      "shell text run in the task's place to ask for it, instead" },
    { "grace", &type_period, USE_PART, TASK(stop_grace_ms), NULL, NULL,
      "how long it may take before it is killed; 10s unless said" },
};
static const struct table table_checkpoint = {
    "'checkpoint'", checkpoint_fields, array_size(checkpoint_fields)
};

/* -- a task --------------------------------------------------------------- */

static const struct field task_fields[] = {
    { "name", &type_name, USE_TASK, TASK(name), NULL, NULL,
      "its name, where tasks are a list" },
    { "run", &type_text, WORK, TASK(run), NULL, NULL,
      "shell text, run by /bin/sh" },
    { "argv", &type_argv, WORK, TASK(argv), NULL, NULL,
      "a program and its arguments, without a shell" },
    { "image", &type_text, WORK, TASK(image), NULL, NULL,
      "container image; refused by engines that have none" },
    { "mounts", &type_mounts, WORK, TASK_N(mounts, nmounts), &table_mount,
      NULL, "what the image sees of the outside" },
    { "needs", &type_needs, USE_TASK, IN(draft, needs), 0, NULL, NULL,
      "tasks that must end first" },
    { "when", &type_word, STEP, TASK(when), NULL, whens,
      "whether it starts after success or failure of its needs; success "
      "unless said" },
    { "together", &type_together, USE_TASK, IN(draft, together), 0, NULL, NULL,
      "tasks with the same name here start at the same time" },
    { "gpus", &type_gpus, WORK, TASK(gpu_milli), NULL, NULL,
      "devices of each rank; 0 unless said" },
    { "gpu", &type_object, WORK, NOWHERE, &table_gpu, NULL,
      "what kind of device" },
    { "cpus", &type_cpus, WORK, TASK(cpu_milli), NULL, NULL,
      "CPUs of each rank; 1 unless said" },
    { "memory", &type_size, WORK, TASK(memory), NULL, NULL,
      "memory of each rank; unlimited unless said" },
    { "ranks", &type_gang, WORK, NOWHERE, &table_ranks, NULL,
      "processes of a gang, which start and end together, or the least and "
      "the most; 1 unless said" },
    { "near", &type_word, WORK, TASK(near), NULL, nears,
      "how close the ranks of a gang wish to be; any unless said" },
    { "nodes", &type_labels, WORK, TASK_N(nodes, nnodes), NULL, NULL,
      "labels its nodes must have" },
    { "matrix", &type_matrix, USE_TASK, IN(draft, matrix), 0, NULL, NULL,
      "one task for each combination of these values" },
    { "env", &type_env, WORK, TASK_N(env, nenv), NULL, NULL,
      "environment variables" },
    { "dir", &type_path, WORK, TASK(dir), NULL, NULL,
      "working directory; the submitter's home unless said" },
    { "retries", &type_retries, WORK, NOWHERE, &table_retries, NULL,
      "how often it is tried again, or how" },
    { "timeout", &type_limit, WORK, TASK(timeout_ms), NULL, NULL,
      "longest time of one attempt" },
    { "limits", &type_object, WORK, NOWHERE, &table_limits, NULL,
      "what it may use up" },
    { "stop_when", &type_stop, WORK, NOWHERE, &table_stop, NULL,
      "when it has done enough: it is asked to end, and has succeeded" },
    { "idle", &type_object, WORK, NOWHERE, &table_idle, NULL,
      "when it is taken off devices that it does not use, until it wants "
      "them again" },
    { "checkpoint", &type_checkpoint, WORK, NOWHERE, &table_checkpoint, NULL,
      "how it is asked to save its work and end" },
    { "inputs", &type_names, WORK, TASK_N(inputs, ninputs), NULL, NULL,
      "names of what it reads; for the record" },
    { "outputs", &type_names, WORK, TASK_N(outputs, noutputs), NULL, NULL,
      "names of what it writes; for the record" },
};
const struct table table_task = {
    "a task", task_fields, array_size(task_fields)
};

/* -- the document --------------------------------------------------------- */

static const struct field whole_fields[] = {
    { "gpu_seconds", &type_limit, USE_PART, HEAD(limit_gpu_ms), NULL, NULL,
      "device time of all its tasks" },
    { "wall", &type_limit, USE_PART, HEAD(limit_wall_ms), NULL, NULL,
      "time from its first start to its end" },
    { "cost", &type_cost, USE_PART, HEAD(limit_cost_micro), NULL, NULL,
      "money for all its tasks" },
};
static const struct table table_whole = {
    "'limits'", whole_fields, array_size(whole_fields)
};

static const struct field document_fields[] = {
    { "weir", &type_version, TOP, NOWHERE, NULL, NULL,
      "version of this form: 1" },
    { "kind", &type_kind, TOP, HEAD(kind), NULL, kinds,
      "pipeline: tasks that need each other; job: one task" },
    { "name", &type_name, TOP, HEAD(name), NULL, NULL,
      "name of the workload; its kind unless said" },
    { "tenant", &type_name, TOP, HEAD(tenant), NULL, NULL,
      "who is served; the submitter's own unless said" },
    { "priority", &type_priority, TOP, HEAD(priority), NULL, NULL,
      "higher goes first; 0 unless said" },
    { "labels", &type_labels, TOP, IN(spec, labels),
      offsetof(struct spec, nlabels), NULL, NULL, "free words to find it by" },
    { "parameters", &type_parameters, TOP, NOWHERE, NULL, NULL,
      "names and default values for '{{ name }}'; without a value it must be "
      "given" },
    { "deadline", &type_deadline, TOP, HEAD(deadline_ms), NULL, NULL,
      "when it should be done" },
    { "max_wait", &type_limit, TOP, HEAD(max_wait_ms), NULL, NULL,
      "longest time it should wait for its first start" },
    { "limits", &type_object, USE_PIPELINE, NOWHERE, &table_whole, NULL,
      "what its tasks may use up between them; past it they are stopped" },
    { "defaults", &type_defaults, USE_PIPELINE, NOWHERE, &table_task, NULL,
      "fields for tasks that do not have them" },
    { "tasks", &type_tasks, USE_PIPELINE, NOWHERE, &table_task, NULL,
      "the tasks, by name or as a list" },
};
const struct table table_document = {
    "a document", document_fields, array_size(document_fields)
};

/* Read in an order of their own, by src/spec/doc.c. */
const struct type type_parameters = {
    .expected = "a mapping of names to values",
    .schema = "{\"type\":\"object\",\"additionalProperties\":{\"type\":"
              "[\"string\",\"number\",\"boolean\",\"null\"]}}",
};
const struct type type_defaults = { .expected = "a mapping of task fields" };
const struct type type_tasks = {
    .expected = "a mapping of names to tasks, or a list of tasks",
};

/* -- walking the rows ----------------------------------------------------- */

const struct field *field_find(const struct table *t, const char *name,
                               unsigned use)
{
    for (size_t i = 0; i < t->count; i++)
        if ((t->fields[i].use & use) && strcmp(t->fields[i].name, name) == 0)
            return &t->fields[i];
    return NULL;
}

static const char *use_words(unsigned use)
{
    if (use & USE_TASK)
        return "a task of a pipeline";
    if (use & USE_PIPELINE)
        return "the top of a pipeline";
    if (use & USE_JOB)
        return "the top of a job";
    return use & USE_DEFAULTS ? "'defaults'" : "this mapping";
}

/* A known key in the wrong place. */
static bool misplaced(struct reader *r, const struct node *key, unsigned use)
{
    const struct field *f = field_find(&table_task, key->text, ~0u);

    if (use == USE_PART)
        return false;
    if (!f)
        f = field_find(&table_document, key->text, ~0u);
    if (!f)
        return false;
    reader_problem(r, key, "'%s' does not belong to %s; it belongs to %s",
                   key->text, use_words(use), use_words(f->use));
    return true;
}

static void list_names(const struct table *t, unsigned use, struct near *near,
                       struct buf *names)
{
    for (size_t i = 0; i < t->count; i++) {
        if (!(t->fields[i].use & use))
            continue;
        near_try(near, t->fields[i].name);
        buf_printf(names, "%s%s", names->len ? ", " : "; expected one of ",
                   t->fields[i].name);
    }
}

void field_unknown(struct reader *r, const struct node *key,
                   const struct table *t, const struct table *more,
                   unsigned use)
{
    autobuf struct buf names = BUF_INIT(1024);
    struct near near;

    if (misplaced(r, key, use))
        return;
    near_init(&near, key->text);
    if (!reader_full(r))
        list_names(t, use, &near, &names);
    if (more && !reader_full(r))
        list_names(more, use, &near, &names);
    reader_problem_near(r, key, &near, buf_text(&names), "unknown key '%s'",
                        quoted(key->text).s);
}

void field_read(struct reader *r, const struct field *f, const struct node *n,
                void *base)
{
    reader_push(r, f->name);
    f->type->read(r, f, n, base);
    reader_pop(r);
}

/* Two keys for one member, such as model and models, exclude each other.  No
 * table has 64 keys: what has more is refused for its keys already.
 */
static bool taken_before(struct reader *r, const struct table *t,
                         const struct node *n, uint32_t i,
                         const struct field *f)
{
    for (uint32_t k = 0; k < i && k < 64; k++) {
        const struct field *other = field_find(t, n->members[k].key->text,
                                               USE_PART);

        if (other && other != f && other->at == f->at) {
            reader_problem(r, n->members[i].key,
                           "'%s' and '%s' mean the same; write one of them",
                           other->name, f->name);
            return true;
        }
    }
    return false;
}

void field_read_table(struct reader *r, const struct table *t,
                      const struct node *n, void *base)
{
    if (n->kind != NODE_MAPPING) {
        reader_expected(r, n, "a mapping");
        return;
    }
    (void) reader_mapping(r, n, "a mapping");
    for (uint32_t i = 0; i < n->count; i++) {
        const struct node *key = n->members[i].key;
        const struct field *f = field_find(t, key->text, USE_PART);

        if (!f)
            field_unknown(r, key, t, NULL, USE_PART);
        else if (!taken_before(r, t, n, i, f))
            field_read(r, f, n->members[i].value, base);
    }
}

void field_reset(const struct field *f, void *base, const void *init)
{
    if (f->size)
        memcpy((char *) base + f->at, (const char *) init + f->at, f->size);
    if (f->count_at)
        memcpy((char *) base + f->count_at,
               (const char *) init + f->count_at, sizeof(uint32_t));
    for (size_t i = 0; !f->size && f->table && i < f->table->count; i++)
        field_reset(&f->table->fields[i], base, init);
}

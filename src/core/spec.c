#include "core/spec.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* The arena is a list of chunks, each twice the one before up to a bound: a
 * job of one task stays within the first, and 100,000 tasks make some dozens.
 */
enum { CHUNK_FIRST = 1024, CHUNK_MOST = 1024 * 1024, ALIGN = 8 };

struct chunk {
    struct chunk *next;
    size_t used, size;
    _Alignas(ALIGN) char data[];
};

struct spec_arena {
    struct chunk *chunks;              /* the one in use first */
};

struct spec_arena *spec_arena_new(void)
{
    return mem_new(sizeof(struct spec_arena));
}

void spec_arena_free(struct spec_arena *a)
{
    if (!a)
        return;
    while (a->chunks) {
        struct chunk *c = a->chunks;

        a->chunks = c->next;
        free(c);
    }
    free(a);
}

static struct chunk *chunk_add(struct spec_arena *a, size_t bytes)
{
    size_t size = a->chunks ? a->chunks->size * 2 : CHUNK_FIRST;
    struct chunk *c;

    if (size > CHUNK_MOST)
        size = CHUNK_MOST;
    if (size < bytes)
        size = bytes;
    c = mem_new(sizeof(*c) + size);
    c->size = size;
    c->next = a->chunks;
    a->chunks = c;
    return c;
}

void *spec_arena_alloc(struct spec_arena *a, size_t bytes)
{
    size_t need = (bytes + ALIGN - 1) & ~(size_t) (ALIGN - 1);
    struct chunk *c = a->chunks;
    void *p;

    if (!c || c->size - c->used < need)
        c = chunk_add(a, need);
    p = c->data + c->used;
    c->used += need;
    return p;
}

struct spec *spec_new(void)
{
    struct spec_arena *a = spec_arena_new();
    struct spec *s = spec_arena_alloc(a, sizeof(*s));

    s->arena = a;
    return s;
}

void spec_free(struct spec *s)
{
    if (s)
        spec_arena_free(s->arena);
}

void *spec_alloc(struct spec *s, size_t bytes)
{
    return spec_arena_alloc(s->arena, bytes);
}

const char *spec_str(struct spec *s, const char *text, size_t len)
{
    char *p = spec_alloc(s, len + 1);

    memcpy(p, text, len);
    return p;
}

void spec_task_init(struct spec_task *t)
{
    *t = (struct spec_task) {
        .ranks = 1,
        .cpu_milli = SPEC_CPU_MILLI,
        .retry_on = SPEC_RETRY_ON,
        .retry_backoff_ms = SPEC_BACKOFF_MS,
        .still_milli = SPEC_STILL_MILLI,
        .stop_signal = SIGTERM,
        .stop_grace_ms = SPEC_GRACE_MS,
    };
}

/* -- words ---------------------------------------------------------------- */

static const char *const causes[SPEC_CAUSE_COUNT] = {
    [SPEC_CAUSE_NONE] = "none",
#define X(name, text) [SPEC_CAUSE_##name] = text,
    SPEC_CAUSES(X)
#undef X
};

const char *spec_cause_name(enum spec_cause c)
{
    return c < SPEC_CAUSE_COUNT ? causes[c] : "unknown";
}

bool spec_cause_of_place(enum spec_cause c)
{
    return c == SPEC_CAUSE_LOST || c == SPEC_CAUSE_EVICTED ||
           c == SPEC_CAUSE_NODE || c == SPEC_CAUSE_DELETED ||
           c == SPEC_CAUSE_TAKEN;
}

int spec_cause_parse(const char *s, enum spec_cause *ret)
{
    for (unsigned i = SPEC_CAUSE_NONE + 1; i < SPEC_CAUSE_COUNT; i++)
        if (strcmp(s, causes[i]) == 0) {
            *ret = (enum spec_cause) i;
            return 0;
        }
    return -EINVAL;
}

static const char *const nears[] = {
    [SPEC_NEAR_ANY] = "any",
    [SPEC_NEAR_DOMAIN] = "domain",
    [SPEC_NEAR_NODE] = "node",
};

const char *spec_near_name(enum spec_near n)
{
    return n < array_size(nears) ? nears[n] : "unknown";
}

int spec_near_parse(const char *s, enum spec_near *ret)
{
    for (unsigned i = 0; i < array_size(nears); i++)
        if (strcmp(s, nears[i]) == 0) {
            *ret = (enum spec_near) i;
            return 0;
        }
    return -EINVAL;
}

const char *spec_when_name(enum spec_when w)
{
    switch (w) {
    case SPEC_ON_SUCCESS: return "success";
    case SPEC_ON_FAILURE: return "failure";
    case SPEC_ALWAYS:     return "always";
    }
    return "unknown";
}

static const struct {
    const char *name;
    int sig;
} signals[] = {
#define X(name) { #name, SIG##name },
    SPEC_SIGNALS(X)
#undef X
};

const char *spec_signal_name(int sig)
{
    for (size_t i = 0; i < array_size(signals); i++)
        if (signals[i].sig == sig)
            return signals[i].name;
    return NULL;
}

int spec_signal_parse(const char *s, int *ret)
{
    if (strncmp(s, "SIG", 3) == 0)
        s += 3;
    for (size_t i = 0; i < array_size(signals); i++)
        if (strcmp(signals[i].name, s) == 0) {
            *ret = signals[i].sig;
            return 0;
        }
    return -EINVAL;
}

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9');
}

bool spec_name_valid(const char *name)
{
    size_t n = 0;

    if (!is_alnum(name[0]))
        return false;
    for (; name[n]; n++)
        if (!is_alnum(name[n]) && !strchr("_.-", name[n]))
            return false;
    return n <= SPEC_MAX_NAME;
}

bool spec_env_valid(const char *name)
{
    size_t n = 0;

    if (!name[0] || (name[0] >= '0' && name[0] <= '9'))
        return false;
    for (; name[n]; n++)
        if (!is_alnum(name[n]) && name[n] != '_')
            return false;
    return n <= SPEC_MAX_NAME && strncmp(name, "WEIR_", 5) != 0 &&
           strcmp(name, "CUDA_VISIBLE_DEVICES") != 0;
}

/* -- what is true of every spec ------------------------------------------- */

static size_t text_len(const char *s)
{
    return s ? strlen(s) + 1 : 0;
}

static size_t texts_len(const char *const *v, uint32_t n)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += text_len(v[i]);
    return sum;
}

static size_t pairs_len(const struct spec_pair *v, uint32_t n)
{
    size_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += text_len(v[i].key) + text_len(v[i].value);
    return sum;
}

bool spec_task_shares(const struct spec_task *t)
{
    return t->gpu_milli > 0 && t->gpu_milli < 1000;
}

size_t spec_task_text(const struct spec_task *t)
{
    size_t sum = text_len(t->name) + text_len(t->run) + text_len(t->image) +
                 text_len(t->dir) + text_len(t->stop_command) +
                 text_len(t->still_metric);

    for (const char *const *a = t->argv; a && *a; a++)
        sum += text_len(*a);
    return sum + pairs_len(t->mounts, t->nmounts) +
           pairs_len(t->env, t->nenv) + texts_len(t->models, t->nmodels) +
           pairs_len(t->nodes, t->nnodes) + texts_len(t->inputs, t->ninputs) +
           texts_len(t->outputs, t->noutputs);
}

static int check_pairs(const struct spec_pair *v, uint32_t n, const char *what,
                       bool (*valid)(const char *), struct err *err)
{
    struct map *seen = n > 1 ? map_new() : NULL;
    int rc = 0;

    if (n > SPEC_MAX_LIST)
        rc = err_set(err, EINVAL, "%s: more than %d", what, SPEC_MAX_LIST);
    for (uint32_t i = 0; i < n && !rc; i++) {
        if (!valid(v[i].key))
            rc = err_set(err, EINVAL, "%s: invalid name '%.200s'", what,
                         v[i].key);
        else if (seen && map_set(seen, v[i].key, &seen))
            rc = err_set(err, EINVAL, "%s: '%s' is there twice", what,
                         v[i].key);
    }
    map_free(seen);
    return rc;
}

static bool any_path(const char *s)
{
    return s[0] == '/';
}

static int check_mounts(const struct spec_task *t, struct err *err)
{
    for (uint32_t i = 0; i < t->nmounts; i++)
        if (!t->mounts[i].key[0] || !any_path(t->mounts[i].value))
            return err_set(err, EINVAL, "mounts: '%.200s' to '%.200s'",
                           t->mounts[i].key, t->mounts[i].value);
    return 0;
}

/* Rows of "this number is from here to there". */
static int check_numbers(const struct spec_task *t, struct err *err)
{
    const struct {
        const char *name;
        uint64_t value, least, most;
    } rows[] = {
        { "when", t->when, 0, SPEC_ALWAYS },
        { "ranks", t->ranks, 1, SPEC_MAX_RANKS },
        { "ranks.max", t->ranks_max ? t->ranks_max : t->ranks, t->ranks,
          SPEC_MAX_RANKS },
        { "near", t->near, 0, SPEC_NEAR_NODE },
        { "nodes", t->nnodes, 0, SPEC_MAX_LIST },
        { "gpus", t->gpu_milli, 0, SPEC_MAX_GPUS * 1000ull },
        { "cpus", t->cpu_milli, 1, SPEC_MAX_CPUS * 1000ull },
        { "gpu memory", t->gpu_memory, 0, SPEC_MAX_AMOUNT },
        { "memory", t->memory, 0, SPEC_MAX_AMOUNT },
        { "retries", t->retry_count, 0, SPEC_MAX_RETRIES },
        { "retries.on", t->retry_on, 0, (1u << SPEC_CAUSE_COUNT) - 1 },
        { "retries.backoff", t->retry_backoff_ms, 0, SPEC_MAX_MS },
        { "timeout", t->timeout_ms, 0, SPEC_MAX_MS },
        { "limits.gpu_seconds", t->limit_gpu_ms, 0, SPEC_MAX_MS },
        { "limits.wall", t->limit_wall_ms, 0, SPEC_MAX_MS },
        { "limits.cost", t->limit_cost_micro, 0, SPEC_MAX_AMOUNT },
        { "stop_when.still_for", t->still_ms, t->still_metric ? 1 : 0,
          t->still_metric ? SPEC_MAX_MS : 0 },
        { "stop_when.by", t->still_milli, 0, 1000 },
        { "idle.grace", t->idle_grace_ms, 0, SPEC_MAX_MS },
        { "idle.release", t->idle_release, 0, SPEC_IDLE_NEVER },
        { "checkpoint.grace", t->stop_grace_ms, 0, SPEC_MAX_MS },
        { "mounts", t->nmounts, 0, SPEC_MAX_LIST },
        { "models", t->nmodels, 0, SPEC_MAX_LIST },
        { "inputs", t->ninputs, 0, SPEC_MAX_LIST },
        { "outputs", t->noutputs, 0, SPEC_MAX_LIST },
    };

    for (size_t i = 0; i < array_size(rows); i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return err_set(err, EINVAL, "%s: %llu is not within %llu..%llu",
                           rows[i].name, (unsigned long long) rows[i].value,
                           (unsigned long long) rows[i].least,
                           (unsigned long long) rows[i].most);
    if (t->gpu_milli > 1000 && t->gpu_milli % 1000)
        return err_set(err, EINVAL, "gpus: %u thousandths is neither a "
                       "fraction of one device nor whole devices",
                       t->gpu_milli);
    if (!spec_signal_name(t->stop_signal))
        return err_set(err, EINVAL, "checkpoint.signal: %d", t->stop_signal);
    return 0;
}

static int check_command(const struct spec_task *t, struct err *err)
{
    size_t n = 0;

    if (!t->run == !t->argv)
        return err_set(err, EINVAL, "has %s", t->run ? "both run and argv"
                                                     : "no command");
    if (t->run && (!t->run[0] || strlen(t->run) > SPEC_MAX_TEXT))
        return err_set(err, EINVAL, "run: empty or too long");
    for (; t->argv && t->argv[n]; n++)
        if (strlen(t->argv[n]) > SPEC_MAX_TEXT)
            return err_set(err, EINVAL, "argv: argument %zu is too long", n);
    if (t->argv && (n == 0 || n > SPEC_MAX_LIST || !t->argv[0][0]))
        return err_set(err, EINVAL, "argv: no program, or too many arguments");
    if (t->dir && !any_path(t->dir))
        return err_set(err, EINVAL, "dir: '%.200s' is not absolute", t->dir);
    return 0;
}

static int check_task(const struct spec *s, const struct spec_task *t,
                      struct err *err)
{
    int rc = check_command(t, err);

    if (!rc)
        rc = check_numbers(t, err);
    if (!rc)
        rc = check_mounts(t, err);
    if (!rc)
        rc = check_pairs(t->env, t->nenv, "env", spec_env_valid, err);
    if (!rc)
        rc = check_pairs(t->nodes, t->nnodes, "nodes", spec_name_valid, err);
    if (!rc && t->together > s->ntasks)
        rc = err_set(err, EINVAL, "together: %u", t->together);
    for (uint32_t i = 0; i < t->nneeds && !rc; i++)
        if (t->needs[i] >= s->ntasks)
            rc = err_set(err, EINVAL, "needs: no task %u", t->needs[i]);
    if (!rc && spec_task_text(t) > SPEC_MAX_TASK_TEXT)
        rc = err_set(err, EINVAL, "texts of more than %d bytes",
                     SPEC_MAX_TASK_TEXT);
    return rc;
}

/* They are placed at once. */
static int check_together(const struct spec *s, struct err *err)
{
    autofree uint64_t *ranks = mem_array(s->ntasks + 1u, sizeof(*ranks));

    for (uint32_t i = 0; i < s->ntasks; i++) {
        const struct spec_task *t = &s->tasks[i];

        ranks[t->together] += t->ranks;
        if (t->together && ranks[t->together] > SPEC_MAX_TOGETHER)
            return err_set(err, EINVAL, "task '%s' and those that start "
                           "together with it have more than %d ranks",
                           t->name, SPEC_MAX_TOGETHER);
    }
    return 0;
}

static int check_tasks(const struct spec *s, struct map *names,
                       struct err *err)
{
    uint64_t needs = 0, text = 0;

    for (uint32_t i = 0; i < s->ntasks; i++) {
        struct spec_task *t = &s->tasks[i];
        int rc;

        if (!t->name || !spec_name_valid(t->name))
            return err_set(err, EINVAL, "task %u: invalid name '%.200s'", i,
                           t->name ? t->name : "");
        if (map_set(names, t->name, t))
            return err_set(err, EINVAL, "two tasks '%s'", t->name);
        rc = check_task(s, t, err);
        if (rc)
            return err_prefix(err, rc, "task '%s'", t->name);
        needs += t->nneeds;
        text += spec_task_text(t);
    }
    if (needs > SPEC_MAX_NEEDS)
        return err_set(err, EINVAL, "more than %d needs", SPEC_MAX_NEEDS);
    if (text > SPEC_MAX_ALL_TEXT)
        return err_set(err, EINVAL, "texts of more than %d bytes",
                       SPEC_MAX_ALL_TEXT);
    return check_together(s, err);
}

static int check_head(const struct spec *s, struct err *err)
{
    if (!s->name || !spec_name_valid(s->name))
        return err_set(err, EINVAL, "invalid name '%.200s'",
                       s->name ? s->name : "");
    if (s->tenant && !spec_name_valid(s->tenant))
        return err_set(err, EINVAL, "invalid tenant '%.200s'", s->tenant);
    if (s->kind != SPEC_JOB && s->kind != SPEC_PIPELINE)
        return err_set(err, EINVAL, "invalid kind %d", (int) s->kind);
    if (s->priority < -SPEC_MAX_PRIORITY || s->priority > SPEC_MAX_PRIORITY)
        return err_set(err, EINVAL, "priority %d is not within -%d..%d",
                       s->priority, SPEC_MAX_PRIORITY, SPEC_MAX_PRIORITY);
    if (s->deadline_ms > INT64_MAX || s->max_wait_ms > SPEC_MAX_MS)
        return err_set(err, EINVAL, "deadline or max_wait is out of range");
    if (s->limit_gpu_ms > SPEC_MAX_MS || s->limit_wall_ms > SPEC_MAX_MS ||
        s->limit_cost_micro > SPEC_MAX_AMOUNT)
        return err_set(err, EINVAL, "limits of the whole are out of range");
    if (s->ntasks == 0 || s->ntasks > SPEC_MAX_TASKS)
        return err_set(err, EINVAL, "%u tasks; expected 1 to %d", s->ntasks,
                       SPEC_MAX_TASKS);
    if (s->kind == SPEC_JOB && s->ntasks != 1)
        return err_set(err, EINVAL, "a job has one task, not %u", s->ntasks);
    return check_pairs(s->labels, s->nlabels, "labels", spec_name_valid, err);
}

static void name_cycle(uint32_t task, const char *words, void *arg)
{
    (void) task;
    err_set(arg, EINVAL, "needs form a cycle: %s", words);
}

int spec_check(const struct spec *s, struct err *err)
{
    struct map *names;
    int rc = check_head(s, err);

    if (rc)
        return rc;
    names = map_new();
    rc = check_tasks(s, names, err);
    map_free(names);
    if (!rc && spec_cycles(s, 1, name_cycle, err) > 0)
        rc = -EINVAL;
    return rc;
}

#include "core/spec.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* One row per member of a task: its key, its form, where it is, and the value
 * that is left out.  Writer and reader both walk these rows, in this order.
 */
enum form { TEXT, U32, U64, WHEN, NEAR, CAUSES, SIGNAL, ARGV, TEXTS, PAIRS,
            MOUNTS, NEEDS };

struct row {
    const char *key;
    enum form form;
    size_t at, count_at;               /* count_at 0: the form has no count */
};

#define AT(m)          offsetof(struct spec_task, m)
#define ROW(f, m)      { #m, f, AT(m), 0 }
#define ROW_N(f, m, n) { #m, f, AT(m), AT(n) }

static const struct row rows[] = {
    ROW(TEXT, name),
    ROW(TEXT, run),
    ROW(ARGV, argv),
    ROW(TEXT, image),
    ROW(TEXT, guest_pool),
    ROW(TEXT, guest_pod),
    ROW(TEXT, guest_uid),
    ROW_N(MOUNTS, mounts, nmounts),
    ROW_N(PAIRS, env, nenv),
    ROW(TEXT, dir),
    ROW_N(NEEDS, needs, nneeds),
    ROW(WHEN, when),
    ROW(U32, together),
    ROW(U32, ranks),
    ROW(U32, ranks_max),
    ROW(NEAR, near),
    ROW_N(PAIRS, nodes, nnodes),
    ROW(U32, gpu_milli),
    ROW_N(TEXTS, models, nmodels),
    ROW(U64, gpu_memory),
    ROW(U32, cpu_milli),
    ROW(U64, memory),
    ROW(U32, retry_count),
    ROW(CAUSES, retry_on),
    ROW(U64, retry_backoff_ms),
    ROW(U64, timeout_ms),
    ROW(U64, limit_gpu_ms),
    ROW(U64, limit_wall_ms),
    ROW(U64, limit_cost_micro),
    ROW(TEXT, still_metric),
    ROW(U64, still_ms),
    ROW(U32, still_milli),
    ROW(U64, idle_grace_ms),
    ROW(U32, idle_release),
    ROW(SIGNAL, stop_signal),
    ROW(TEXT, stop_command),
    ROW(U64, stop_grace_ms),
    ROW_N(TEXTS, inputs, ninputs),
    ROW_N(TEXTS, outputs, noutputs),
};

/* The numbers of the head; 0 is not written. */
#define HEAD(m) { #m, offsetof(struct spec, m) }

static const struct {
    const char *key;
    size_t at;
} head_rows[] = {
    HEAD(deadline_ms), HEAD(max_wait_ms), HEAD(limit_gpu_ms),
    HEAD(limit_wall_ms), HEAD(limit_cost_micro),
};

static const uint64_t *head_number(const struct spec *s, size_t i)
{
    return (const uint64_t *) (const void *)
           ((const char *) s + head_rows[i].at);
}

static uint64_t *head_slot(struct spec *s, size_t i)
{
    return (uint64_t *) (void *) ((char *) s + head_rows[i].at);
}

static size_t form_size(enum form f)
{
    switch (f) {
    case U32:
    case WHEN:
    case NEAR:
    case CAUSES:
    case SIGNAL:
        return 4;
    case U64:
        return 8;
    case TEXT:
    case ARGV:
    case TEXTS:
    case PAIRS:
    case MOUNTS:
    case NEEDS:
        return sizeof(void *);
    }
    return 0;
}

static const void *member(const struct spec_task *t, const struct row *r)
{
    return (const char *) t + r->at;
}

static uint32_t member_count(const struct spec_task *t, const struct row *r)
{
    uint32_t n = 0;

    if (r->count_at)
        memcpy(&n, (const char *) t + r->count_at, sizeof(n));
    return n;
}

/* The same value, or the same pointer and count. */
static bool member_same(const struct spec_task *a, const struct spec_task *b,
                        const struct row *r)
{
    return memcmp(member(a, r), member(b, r), form_size(r->form)) == 0 &&
           member_count(a, r) == member_count(b, r);
}

static void member_copy(struct spec_task *to, const struct spec_task *from,
                        const struct row *r)
{
    memcpy((char *) to + r->at, member(from, r), form_size(r->form));
    if (r->count_at)
        memcpy((char *) to + r->count_at, (const char *) from + r->count_at,
               sizeof(uint32_t));
}

/* -- to JSON -------------------------------------------------------------- */

static json_t *text_json(const char *s)
{
    json_t *j = json_string(s);

    assert(j);                         /* texts of a spec are UTF-8 */
    return j;
}

static json_t *texts_json(const char *const *v, uint32_t n)
{
    json_t *j = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(j, text_json(v[i]));
    return j;
}

static json_t *argv_json(const char *const *argv)
{
    uint32_t n = 0;

    while (argv[n])
        n++;
    return texts_json(argv, n);
}

static json_t *pairs_json(const struct spec_pair *v, uint32_t n)
{
    json_t *j = json_object();

    for (uint32_t i = 0; i < n; i++)
        json_put(j, v[i].key, text_json(v[i].value));
    return j;
}

static json_t *mounts_json(const struct spec_pair *v, uint32_t n)
{
    json_t *j = json_array();

    for (uint32_t i = 0; i < n; i++) {
        json_t *o = json_object();

        json_put(o, "source", text_json(v[i].key));
        json_put(o, "target", text_json(v[i].value));
        json_array_append_new(j, o);
    }
    return j;
}

static json_t *needs_json(const uint32_t *v, uint32_t n)
{
    json_t *j = json_array();

    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(j, json_integer(v[i]));
    return j;
}

static json_t *causes_json(uint32_t bits)
{
    json_t *j = json_array();

    for (unsigned c = 1; c < SPEC_CAUSE_COUNT; c++)
        if (bits & 1u << c)
            json_array_append_new(j, text_json(spec_cause_name(c)));
    return j;
}

static json_t *member_json(const struct spec_task *t, const struct row *r)
{
    const void *p = member(t, r);
    uint32_t n = member_count(t, r);

    switch (r->form) {
    case TEXT:   return text_json(*(const char *const *) p);
    case U32:    return json_integer(*(const uint32_t *) p);
    case U64:    return json_integer((json_int_t) *(const uint64_t *) p);
    case WHEN:   return text_json(spec_when_name(*(const enum spec_when *) p));
    case NEAR:   return text_json(spec_near_name(*(const enum spec_near *) p));
    case CAUSES: return causes_json(*(const uint32_t *) p);
    case SIGNAL: return text_json(spec_signal_name(*(const int *) p));
    case ARGV:   return argv_json(*(const char *const *const *) p);
    case TEXTS:  return texts_json(*(const char *const *const *) p, n);
    case PAIRS:  return pairs_json(*(const struct spec_pair *const *) p, n);
    case MOUNTS: return mounts_json(*(const struct spec_pair *const *) p, n);
    case NEEDS:  return needs_json(*(const uint32_t *const *) p, n);
    }
    return NULL;
}

/* `before` is the task before and its JSON: what is the same is shared. */
static json_t *task_json(const struct spec_task *t,
                         const struct spec_task *init,
                         const struct spec_task *before, json_t *before_json)
{
    json_t *o = json_object();

    for (size_t i = 0; i < array_size(rows); i++) {
        const struct row *r = &rows[i];
        json_t *value = NULL;

        if (member_same(t, init, r) || (r->count_at && !member_count(t, r)))
            continue;
        if (before && member_same(t, before, r))
            value = json_incref(json_object_get(before_json, r->key));
        json_put(o, r->key, value ? value : member_json(t, r));
    }
    return o;
}

/* All but the tasks. */
static json_t *head_json(const struct spec *s)
{
    json_t *j = json_object();

    json_put_str(j, "kind", s->kind == SPEC_JOB ? "job" : "pipeline");
    json_put(j, "name", text_json(s->name));
    json_put_str(j, "tenant", s->tenant);
    if (s->priority)
        json_put(j, "priority", json_integer(s->priority));
    for (size_t i = 0; i < array_size(head_rows); i++)
        if (*head_number(s, i))
            json_put_u64(j, head_rows[i].key, *head_number(s, i));
    if (s->nlabels)
        json_put(j, "labels", pairs_json(s->labels, s->nlabels));
    return j;
}

json_t *spec_to_json(const struct spec *s)
{
    json_t *j = head_json(s), *tasks = json_array(), *last = NULL;
    struct spec_task init;

    spec_task_init(&init);
    for (uint32_t i = 0; i < s->ntasks; i++) {
        last = task_json(&s->tasks[i], &init, i ? &s->tasks[i - 1] : NULL,
                         last);
        json_array_append_new(tasks, last);
    }
    json_put(j, "tasks", tasks);
    return j;
}

static int dump(json_t *j, json_dump_callback_t put, void *arg)
{
    int rc = json_dump_callback(j, put, arg,
                                JSON_FORM | JSON_COMPACT | JSON_EMBED);

    json_decref(j);
    return rc;
}

int spec_dump(const struct spec *s, json_dump_callback_t put, void *arg)
{
    static const char open[] = ",\"tasks\":[{", next[] = "},{", end[] = "}]}";
    struct spec_task init;
    int rc = put("{", 1, arg);

    spec_task_init(&init);
    if (rc == 0)
        rc = dump(head_json(s), put, arg);
    for (uint32_t i = 0; i < s->ntasks && rc == 0; i++) {
        rc = i == 0 ? put(open, strlen(open), arg)
                    : put(next, strlen(next), arg);
        if (rc == 0)
            rc = dump(task_json(&s->tasks[i], &init, NULL, NULL), put, arg);
    }
    return rc == 0 ? put(end, strlen(end), arg) : rc;
}

/* -- from JSON ------------------------------------------------------------ */

static int get_text(struct spec *s, const json_t *j, const char **ret)
{
    size_t len;

    if (!json_is_string(j))
        return -EINVAL;
    len = json_string_length(j);
    if (memchr(json_string_value(j), '\0', len))
        return -EINVAL;
    *ret = spec_str(s, json_string_value(j), len);
    return 0;
}

static int get_u64(const json_t *j, uint64_t max, uint64_t *ret)
{
    if (!json_is_integer(j) || json_integer_value(j) < 0 ||
        (uint64_t) json_integer_value(j) > max)
        return -EINVAL;
    *ret = (uint64_t) json_integer_value(j);
    return 0;
}

/* NULL-terminated, so that it serves argv too. */
static int get_texts(struct spec *s, const json_t *j,
                     const char *const **ret, uint32_t *ret_n)
{
    size_t n = json_array_size(j);
    const char **v;

    if (!json_is_array(j) || n > SPEC_MAX_LIST)
        return -EINVAL;
    v = spec_alloc(s, (n + 1) * sizeof(*v));
    for (size_t i = 0; i < n; i++)
        if (get_text(s, json_array_get(j, i), &v[i]) < 0)
            return -EINVAL;
    *ret = v;
    *ret_n = (uint32_t) n;
    return 0;
}

static int get_pairs(struct spec *s, const json_t *j,
                     const struct spec_pair **ret, uint32_t *ret_n)
{
    size_t n = json_object_size(j), i = 0;
    struct spec_pair *v;
    const char *key;
    json_t *value;

    if (!json_is_object(j) || n > SPEC_MAX_LIST)
        return -EINVAL;
    v = spec_alloc(s, n * sizeof(*v));
    json_object_foreach((json_t *) (uintptr_t) j, key, value) {
        v[i].key = spec_str(s, key, strlen(key));
        if (get_text(s, value, &v[i++].value) < 0)
            return -EINVAL;
    }
    *ret = v;
    *ret_n = (uint32_t) n;
    return 0;
}

static int get_mounts(struct spec *s, const json_t *j,
                      const struct spec_pair **ret, uint32_t *ret_n)
{
    size_t n = json_array_size(j);
    struct spec_pair *v;

    if (!json_is_array(j) || n > SPEC_MAX_LIST)
        return -EINVAL;
    v = spec_alloc(s, n * sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(j, i);

        if (json_object_size(m) != 2 ||
            get_text(s, json_object_get(m, "source"), &v[i].key) < 0 ||
            get_text(s, json_object_get(m, "target"), &v[i].value) < 0)
            return -EINVAL;
    }
    *ret = v;
    *ret_n = (uint32_t) n;
    return 0;
}

static int get_needs(struct spec *s, const json_t *j, const uint32_t **ret,
                     uint32_t *ret_n)
{
    size_t n = json_array_size(j);
    uint32_t *v;

    if (!json_is_array(j) || n > SPEC_MAX_NEEDS)
        return -EINVAL;
    v = spec_alloc(s, n * sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        uint64_t x;

        if (get_u64(json_array_get(j, i), UINT32_MAX, &x) < 0)
            return -EINVAL;
        v[i] = (uint32_t) x;
    }
    *ret = v;
    *ret_n = (uint32_t) n;
    return 0;
}

static int get_when(const json_t *j, enum spec_when *ret)
{
    for (unsigned w = SPEC_ON_SUCCESS; w <= SPEC_ALWAYS; w++)
        if (json_is_string(j) &&
            strcmp(json_string_value(j), spec_when_name(w)) == 0) {
            *ret = (enum spec_when) w;
            return 0;
        }
    return -EINVAL;
}

static int get_causes(const json_t *j, uint32_t *ret)
{
    uint32_t bits = 0;

    if (!json_is_array(j))
        return -EINVAL;
    for (size_t i = 0; i < json_array_size(j); i++) {
        const json_t *word = json_array_get(j, i);
        enum spec_cause c;

        if (!json_is_string(word) ||
            spec_cause_parse(json_string_value(word), &c) < 0)
            return -EINVAL;
        bits |= 1u << c;
    }
    *ret = bits;
    return 0;
}

static int member_read(struct spec *s, const json_t *j, struct spec_task *t,
                       const struct row *r)
{
    void *p = (char *) t + r->at;
    uint32_t n = 0;
    uint64_t x = 0;
    int rc = -EINVAL;

    switch (r->form) {
    case TEXT:   rc = get_text(s, j, p); break;
    case U64:    rc = get_u64(j, INT64_MAX, p); break;
    case WHEN:   rc = get_when(j, p); break;
    case CAUSES: rc = get_causes(j, p); break;
    case NEAR:
        if (json_is_string(j))
            rc = spec_near_parse(json_string_value(j), p);
        break;
    case ARGV:
    case TEXTS:  rc = get_texts(s, j, p, &n); break;
    case PAIRS:  rc = get_pairs(s, j, p, &n); break;
    case MOUNTS: rc = get_mounts(s, j, p, &n); break;
    case NEEDS:  rc = get_needs(s, j, p, &n); break;
    case U32:
        rc = get_u64(j, UINT32_MAX, &x);
        *(uint32_t *) p = (uint32_t) x;
        break;
    case SIGNAL:
        if (json_is_string(j))
            rc = spec_signal_parse(json_string_value(j), p);
        break;
    }
    if (rc == 0 && r->count_at)
        memcpy((char *) t + r->count_at, &n, sizeof(n));
    return rc;
}

static int task_read(struct spec *s, uint32_t i, const json_t *j,
                     const json_t *before, struct err *err)
{
    struct spec_task *t = &s->tasks[i];
    size_t known = 0;

    spec_task_init(t);
    for (size_t k = 0; k < array_size(rows); k++) {
        const struct row *r = &rows[k];
        json_t *value = json_object_get(j, r->key);
        json_t *last = json_object_get(before, r->key);

        if (!value)
            continue;
        known++;
        if (last && json_equal(last, value))
            member_copy(t, &s->tasks[i - 1], r);
        else if (member_read(s, value, t, r) < 0)
            return err_set(err, EINVAL, "task %u: invalid '%s'", i, r->key);
    }
    if (!json_is_object(j) || known != json_object_size(j))
        return err_set(err, EINVAL, "task %u: unknown keys", i);
    return 0;
}

static int tasks_read(struct spec *s, const json_t *j, struct err *err)
{
    const json_t *before = NULL;
    size_t n = json_array_size(j);

    if (n == 0 || n > SPEC_MAX_TASKS)
        return err_set(err, EINVAL, "%zu tasks; expected 1 to %d", n,
                       SPEC_MAX_TASKS);
    s->tasks = spec_alloc(s, n * sizeof(*s->tasks));
    s->ntasks = (uint32_t) n;
    for (uint32_t i = 0; i < n; i++) {
        const json_t *task = json_array_get(j, i);
        int rc = task_read(s, i, task, before, err);

        if (rc)
            return rc;
        before = task;
    }
    return 0;
}

/* One member of the head, other than the tasks. */
static int head_member(struct spec *s, const char *key, const json_t *j)
{
    if (strcmp(key, "name") == 0)
        return get_text(s, j, &s->name);
    if (strcmp(key, "tenant") == 0)
        return get_text(s, j, &s->tenant);
    for (size_t i = 0; i < array_size(head_rows); i++)
        if (strcmp(key, head_rows[i].key) == 0)
            return get_u64(j, INT64_MAX, head_slot(s, i));
    if (strcmp(key, "labels") == 0)
        return get_pairs(s, j, &s->labels, &s->nlabels);
    if (strcmp(key, "kind") == 0) {
        const char *kind = json_string_value(j);

        s->kind = kind && strcmp(kind, "job") == 0 ? SPEC_JOB : SPEC_PIPELINE;
        return s->kind == SPEC_JOB || (kind && strcmp(kind, "pipeline") == 0)
                   ? 0 : -EINVAL;
    }
    if (strcmp(key, "priority") == 0) {
        json_int_t p = json_integer_value(j);

        s->priority = (int) p;
        return json_is_integer(j) && p >= -SPEC_MAX_PRIORITY &&
               p <= SPEC_MAX_PRIORITY ? 0 : -EINVAL;
    }
    return -EINVAL;
}

static int spec_read(struct spec *s, const json_t *j, struct err *err)
{
    const char *key;
    json_t *value;

    if (!json_object_get(j, "kind") || !json_object_get(j, "tasks"))
        return err_set(err, EINVAL, "no kind or no tasks");
    json_object_foreach((json_t *) (uintptr_t) j, key, value) {
        int rc;

        if (strcmp(key, "tasks") == 0)
            rc = tasks_read(s, value, err);
        else if (head_member(s, key, value) < 0)
            rc = err_set(err, EINVAL, "invalid '%s'", key);
        else
            rc = 0;
        if (rc)
            return rc;
    }
    return spec_check(s, err);
}

int spec_from_json(const json_t *j, struct spec **ret, struct err *err)
{
    struct spec *s = spec_new();
    int rc = spec_read(s, j, err);

    if (rc) {
        spec_free(s);
        return err_prefix(err, rc, "spec");
    }
    *ret = s;
    return 0;
}

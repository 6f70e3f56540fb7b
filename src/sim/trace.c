#include "sim/trace.h"

#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "sim/csv.h"

#include <errno.h>
#include <string.h>

enum { GPUS_MAX = 1000000 };
static const double TIME_MAX = 1e12;

struct reader {
    struct csv csv;
    struct trace trace;
    struct map *tenants;               /* name to place + 1 */
    int at[5];
};

/* ---- Muri's overheads ---- */

struct overhead {
    const char *model;
    double seconds[6];                 /* 1, 2, 4, 8, 16 and 32 GPUs */
};

static const struct overhead overheads[] = {
    { "vgg16", { 7, 7, 8, 9, 9, 10 } },
    { "vgg19", { 7, 7, 8, 9, 10, 10 } },
    { "resnet18", { 4, 5, 5, 7, 7, 7 } },
    { "shufflenet_v2_x1_0", { 4, 4, 5, 5, 7, 8 } },
    { "bert", { 10, 10, 10, 10, 10, 10 } },
    { "gpt2", { 10, 10, 10, 10, 10, 10 } },
    { "a2c", { 38, 39, 39, 46, 46, 46 } },
    { "dqn", { 5, 5, 6, 6, 8, 8 } },
};
static const double OVERHEAD_OTHER = 10;

static double overhead_of(const char *model, uint32_t gpus)
{
    size_t k = 0;

    while (k < 5 && (UINT32_C(1) << k) < gpus)
        k++;
    for (size_t i = 0; i < array_size(overheads); i++)
        if (strcmp(overheads[i].model, model) == 0)
            return overheads[i].seconds[k];
    return OVERHEAD_OTHER;
}

/* ---- rows ---- */

static int find_tenant(struct reader *r, const char *name, uint32_t *ret,
                       struct err *err)
{
    struct trace *t = &r->trace;
    size_t at = (size_t) (uintptr_t) map_get(r->tenants, name);

    if (at == 0) {
        if (t->ntenants == TRACE_TENANTS)
            return err_set(err, E2BIG, "%s: more than %d tenants",
                           r->csv.name, TRACE_TENANTS);
        t->tenants = mem_more(t->tenants, t->ntenants, sizeof *t->tenants);
        t->tenants[t->ntenants++] = (struct trace_tenant) {
            .name = mem_str(name), .cluster = -1,
        };
        at = t->ntenants;
        (void) map_set(r->tenants, name, (void *) (uintptr_t) at);
    }
    *ret = (uint32_t) (at - 1);
    return 0;
}

static int read_gpus(const struct reader *r, int column, uint32_t *ret,
                     struct err *err)
{
    uint64_t gpus = 0;
    int rc = csv_count(&r->csv, column, GPUS_MAX, &gpus, err);

    if (rc == 0 && gpus == 0)
        rc = err_set(err, EINVAL, "%s:%zu: a job has at least one GPU",
                     r->csv.name, r->csv.line);
    if (rc == 0)
        *ret = (uint32_t) gpus;
    return rc;
}

static int plain_row(struct reader *r, struct trace_job *j, struct err *err)
{
    const struct csv *c = &r->csv;
    int rc = csv_number(c, r->at[0], TIME_MAX, &j->submit, err);

    if (rc == 0)
        rc = csv_number(c, r->at[1], TIME_MAX, &j->length, err);
    if (rc == 0)
        rc = read_gpus(r, r->at[2], &j->gpus, err);
    if (rc == 0)
        rc = find_tenant(r, r->at[3] < 0 ? "" : c->value[r->at[3]],
                         &j->tenant, err);
    return rc;
}

/* Lengths are 1.5 % above the measured iterations, as published. */
static int muri_row(struct reader *r, struct trace_job *j, struct err *err)
{
    const struct csv *c = &r->csv;
    double submit = 0, each = 0;
    int rc = csv_number(c, r->at[0], TIME_MAX, &submit, err);

    if (rc == 0)
        rc = csv_number(c, r->at[1], TIME_MAX, &each, err);
    if (rc == 0)
        rc = csv_number(c, r->at[2], TIME_MAX, &j->iterations, err);
    if (rc == 0)
        rc = read_gpus(r, r->at[3], &j->gpus, err);
    if (rc == 0)
        rc = find_tenant(r, "", &j->tenant, err);
    if (rc < 0)
        return rc;
    j->submit = submit / 1000;
    j->iteration = each * 1.015 / 1000;
    j->length = j->iterations * j->iteration;
    j->overhead = overhead_of(c->value[r->at[4]], j->gpus);
    return 0;
}

typedef int (*row_f)(struct reader *r, struct trace_job *j, struct err *err);

static int find_columns(struct reader *r, row_f *ret, struct err *err)
{
    static const char *const plain[] = { "submit_s", "duration_s", "gpus" };
    static const char *const muri[] = { "submit_time", "iteration_time",
                                        "iterations", "num_gpu",
                                        "model_name" };
    bool is_muri = csv_find(&r->csv, "iterations") >= 0;
    const char *const *names = is_muri ? muri : plain;
    size_t n = is_muri ? array_size(muri) : array_size(plain);
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = csv_need(&r->csv, names[i], &r->at[i], err);
    if (rc == 0 && !is_muri) {
        r->at[3] = csv_find(&r->csv, "tenant");
        if (r->at[3] < 0)
            r->at[3] = csv_find(&r->csv, "vc");
    }
    *ret = is_muri ? muri_row : plain_row;
    return rc;
}

/* ---- the whole ---- */

static bool in_order(const struct trace *t)
{
    for (size_t i = 1; i < t->count; i++)
        if (t->jobs[i - 1].submit > t->jobs[i].submit)
            return false;
    return true;
}

/* Stable, by merging; traces are mostly in order already. */
static void sort_jobs(struct trace_job *jobs, struct trace_job *spare,
                      size_t n)
{
    size_t half = n / 2, a = 0, b = half;

    if (n < 2)
        return;
    sort_jobs(jobs, spare, half);
    sort_jobs(jobs + half, spare, n - half);
    memcpy(spare, jobs, n * sizeof *jobs);
    for (size_t i = 0; i < n; i++) {
        bool left = b == n || (a < half && spare[a].submit <= spare[b].submit);

        jobs[i] = left ? spare[a++] : spare[b++];
    }
}

static int read_rows(struct reader *r, row_f row, struct err *err)
{
    struct trace *t = &r->trace;
    int rc;

    while ((rc = csv_next(&r->csv, err)) > 0) {
        struct trace_job j = { 0 };

        rc = row(r, &j, err);
        if (rc < 0)
            return rc;
        if (t->count == TRACE_JOBS)
            return err_set(err, E2BIG, "%s: more than %d jobs", r->csv.name,
                           TRACE_JOBS);
        t->jobs = mem_more(t->jobs, t->count, sizeof *t->jobs);
        t->jobs[t->count++] = j;
    }
    if (rc == 0 && t->count == 0)
        rc = err_set(err, EINVAL, "%s has no jobs", r->csv.name);
    return rc;
}

int trace_read(const char *name, char *text, size_t len, struct trace *ret,
               struct err *err)
{
    struct reader r = { .tenants = map_new() };
    row_f row = NULL;
    int rc = csv_open(&r.csv, name, text, len, err);

    if (rc == 0)
        rc = find_columns(&r, &row, err);
    if (rc == 0)
        rc = read_rows(&r, row, err);
    map_free(r.tenants);
    if (rc < 0) {
        trace_free(&r.trace);
        return rc;
    }
    if (!in_order(&r.trace)) {
        autofree struct trace_job *spare =
            mem_array(r.trace.count, sizeof *spare);

        sort_jobs(r.trace.jobs, spare, r.trace.count);
    }
    *ret = r.trace;
    return 0;
}

void trace_free(struct trace *t)
{
    for (size_t i = 0; i < t->ntenants; i++)
        free(t->tenants[i].name);
    free(t->tenants);
    free(t->jobs);
    *t = (struct trace) { 0 };
}

/* ---- quotas ---- */

static int quota_row(const struct csv *c, const int *at, struct trace *t,
                     bool *seen, struct err *err)
{
    uint64_t quota = 0, cluster = 0;
    int rc = csv_count(c, at[1], GPUS_MAX, &quota, err);

    if (rc == 0 && at[2] >= 0)
        rc = csv_count(c, at[2], GPUS_MAX, &cluster, err);
    for (size_t i = 0; rc == 0 && i < t->ntenants; i++) {
        if (strcmp(t->tenants[i].name, c->value[at[0]]) != 0)
            continue;
        t->tenants[i].quota = (uint32_t) quota;
        t->tenants[i].cluster = at[2] < 0 ? -1 : (int32_t) cluster;
        seen[i] = true;
    }
    return rc;
}

static int quota_columns(const struct csv *c, int *at, struct err *err)
{
    at[0] = csv_find(c, "tenant");
    if (at[0] < 0 && csv_need(c, "vc", &at[0], err) < 0)
        return err_set(err, EINVAL, "%s has no column 'tenant'", c->name);
    at[2] = csv_find(c, "cluster");
    if (at[2] < 0)
        at[2] = csv_find(c, "static_cluster_of_4");
    return csv_need(c, "nominal_gpus", &at[1], err);
}

int trace_quotas(const char *name, char *text, size_t len, struct trace *t,
                 struct err *err)
{
    autofree bool *seen = mem_array(t->ntenants ? t->ntenants : 1,
                                    sizeof *seen);
    int at[3] = { 0 };
    struct csv c;
    int rc = csv_open(&c, name, text, len, err);

    if (rc == 0)
        rc = quota_columns(&c, at, err);
    if (rc < 0)
        return rc;
    while ((rc = csv_next(&c, err)) > 0) {
        rc = quota_row(&c, at, t, seen, err);
        if (rc < 0)
            return rc;
    }
    for (size_t i = 0; rc == 0 && i < t->ntenants; i++)
        if (!seen[i])
            rc = err_set(err, ENOENT, "%s has no quota for '%.60s'", name,
                         t->tenants[i].name);
    return rc;
}

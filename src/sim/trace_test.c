#include "sim/trace.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <math.h>
#include <string.h>

static struct err err;

static int read_text(const char *text, struct trace *ret)
{
    autofree char *t = mem_str(text);

    return trace_read("t.csv", t, strlen(text), ret, &err);
}

static int read_quotas(const char *text, struct trace *t)
{
    autofree char *q = mem_str(text);

    return trace_quotas("q.csv", q, strlen(text), t, &err);
}

static void test_plain(void)
{
    struct trace t = { 0 };

    ok(read_text("submit_s,duration_s,gpus,tenant\n9,1.5,2,a\n3,4,1,b\n"
                 "9,2,8,a\n", &t) == 0 && t.count == 3 && t.ntenants == 2,
       "our own");
    ok(t.jobs[0].gpus == 1 && t.jobs[1].gpus == 2 && t.jobs[2].gpus == 8,
       "in order of submission, the file's order among equals");
    ok(strcmp(t.tenants[t.jobs[0].tenant].name, "b") == 0 &&
       t.jobs[1].tenant == t.jobs[2].tenant, "tenants by name");
    ok(read_quotas("tenant,nominal_gpus,cluster\na,4,1\nb,2,0\nc,1,0\n",
                   &t) == 0 && t.tenants[0].quota == 4 &&
       t.tenants[0].cluster == 1, "quotas");
    ok(read_quotas("vc,nominal_gpus\na,4\n", &t) < 0 &&
       strcmp(err.text, "q.csv has no quota for 'b'") == 0,
       "a tenant without quota is named");
    ok(read_quotas("vc,gpus\na,4\n", &t) < 0, "a missing column");
    trace_free(&t);
    ok(read_text("job_id,submit_s,duration_s,gpus,vc\n0,1,2,3,x\n", &t) == 0 &&
       t.jobs[0].gpus == 3, "Philly");
    trace_free(&t);
}

static void test_muri(void)
{
    struct trace t = { 0 };

    ok(read_text("job_id,num_gpu,submit_time,iterations,model_name,"
                 "iteration_time\n0,8,2500,1000,a2c,200\n"
                 "1,2,1000,10,other,100\n", &t) == 0 && t.count == 2, "Muri");
    ok(fabs(t.jobs[0].submit - 1) < 1e-9 && t.jobs[0].gpus == 2 &&
       fabs(t.jobs[0].overhead - 10) < 1e-9, "an unknown model costs 10 s");
    ok(fabs(t.jobs[1].length - 203) < 1e-6 &&
       fabs(t.jobs[1].overhead - 46) < 1e-9,
       "1000 iterations of 200 ms and 1.5 %%; a2c on 8 GPUs costs 46 s");
    trace_free(&t);
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "", "a,b\n1,2\n", "submit_s,duration_s,gpus\n",
        "submit_s,duration_s,gpus\n1,2,0\n",
        "submit_s,duration_s,gpus\n1,-2,1\n",
        "submit_s,duration_s,gpus\n1,2,1000001\n",
        "iterations,num_gpu\n1,2\n",
    };
    struct trace t = { 0 };

    for (size_t i = 0; i < array_size(bad); i++)
        ok(read_text(bad[i], &t) < 0 && !t.jobs, "refused: %s", err.text);
}

int main(void)
{
    test_plain();
    test_muri();
    test_bad();
    return tap_done();
}

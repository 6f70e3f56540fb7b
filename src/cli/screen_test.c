#include "cli/screen.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <math.h>
#include <string.h>

static const struct term ascii = { .width = 80, .rows = 24 };

static json_t *j(const char *text)
{
    autofree char *s = mem_str(text);

    for (char *p = s; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    return json_loads(s, 0, NULL);
}

static bool paints(const struct screen *s, unsigned rows, const char *want)
{
    autobuf struct buf out = BUF_INIT(1 << 20);

    screen_paint(s, &ascii, rows, &out);
    if (strcmp(buf_text(&out), want) == 0)
        return true;
    printf("# got:\n%s", buf_text(&out));
    return false;
}

static void test_screen(void)
{
    autojson json_t *pools = j(
        "{'items':[{'name':'local','engine':'local','simulated':true,"
        "'devices':{'total':2,'free':1.25},'cpus':{'total':8,'free':6},"
        "'nodes':[{'name':'n1','drained':true,'devices':["
        "{'index':0,'model':'H100','free':0.25,'leases':["
        "{'share':0.5,'workload':'w1','task':'a','tenant':'red'},"
        "{'share':0.25,'workload':'w2','task':'b','tenant':'red'}]},"
        "{'index':1,'model':'H100','free':1,'leases':[{'share':0.5}],"
        "'health':{'action':'move','rules':[]}}"
        "]}]}]}");
    autojson json_t *waste = j("{'wr':0.125,'waste':0.1,'idle_frag':0.025,"
                               "'used':0.5,'idle_nodemand':0.375,'total_device_seconds':200,"
                               "'waiting':4312}");
    autojson json_t *before = j("{'wr':0.25,'total_device_seconds':100}");
    autojson json_t *work = j(
        "[{'id':'w2','name':'fit','tenant':'red','state':'running',"
        "'submitted':'1970-01-01T00:00:00Z','reason':'no room',"
        "'tasks':{'running':1,'starting':1,'waiting':3,'ended':4,"
        "'total':9}}]");
    struct screen s = { .pools = pools, .waste = waste, .before = before,
                        .workloads = work, .now_ms = 180000 };

    ok(paints(&s, 0,
        "weir top   WR 12.5% (waste 10.0%, fragments 2.5%)   now 0.0%   "
        "used 50.0%   idle 37.5%   4,312 waiting\n"
        "\n"
        "local local   devices 0.75 of 2 (simulated)   CPUs 2 of 8\n"
        "  n1 is drained\n"
        "    0 H100         =======...  75% red w1/a, w2/b\n"
        "    1 H100         ..........   0% move another tenant\n"
        "\n"
        "ID  NAME  TENANT  STATE    RUN  WAIT  DONE  AGE  WHY IT WAITS\n"
        "w2  fit   red     running    2     3   4/9   3m  no room\n"),
       "the whole screen");
}

static void test_limits(void)
{
    autojson json_t *pools = j("{'items':[]}");
    autojson json_t *waste = j("{}");
    autojson json_t *work = json_array();
    struct screen s = { .pools = pools, .waste = waste, .workloads = work };

    ok(paints(&s, 0,
        "weir top   WR 0.0% (waste 0.0%, fragments 0.0%)   used 0.0%   idle 0.0%   "
        "0 waiting\n\n\nnothing is under way\n"), "nothing at all");
    for (unsigned i = 0; i < 50; i++)
        (void) json_array_append_new(work, j("{'id':'w1','state':'queued'}"));
    ok(paints(&s, 8,
        "weir top   WR 0.0% (waste 0.0%, fragments 0.0%)   used 0.0%   idle 0.0%   "
        "0 waiting\n\n\n"
        "ID  NAME  TENANT  STATE   RUN  WAIT  DONE  AGE  WHY IT WAITS\n"
        "w1  -     -       queued    0     0   0/0   0s  -\n"
        "w1  -     -       queued    0     0   0/0   0s  -\n"
        "w1  -     -       queued    0     0   0/0   0s  -\n"
        "... 47 more\n"), "as many as there is room for");
}

/* Nothing of it runs: the state is not the API's word for it. */
static void test_waits(void)
{
    autojson json_t *pools = j("{'items':[]}");
    autojson json_t *waste = j("{}");
    autojson json_t *work = j("["
        "{'id':'w1','state':'running','tasks':{'waiting':1,'total':1}},"
        "{'id':'w2','state':'running','tasks':{'waiting':1,'ending':1}},"
        "{'id':'w3','state':'paused','tasks':{'waiting':1,'total':1}}]");
    struct screen s = { .pools = pools, .waste = waste, .workloads = work };

    ok(paints(&s, 0,
        "weir top   WR 0.0% (waste 0.0%, fragments 0.0%)   used 0.0%   idle 0.0%   "
        "0 waiting\n\n\n"
        "ID  NAME  TENANT  STATE    RUN  WAIT  DONE  AGE  WHY IT WAITS\n"
        "w1  -     -       waiting    0     1   0/1   0s  -\n"
        "w2  -     -       running    1     1   0/0   0s  -\n"
        "w3  -     -       paused     0     1   0/1   0s  -\n"),
       "what has run and waits again is waiting");
}

static void test_wr(void)
{
    autojson json_t *a = j("{'wr':0.5,'total_device_seconds':100}");
    autojson json_t *b = j("{'wr':0.25,'total_device_seconds':400}");

    ok(fabs(screen_wr_between(a, b) - 50.0 / 300) < 1e-9,
       "WR of the time between two answers");
    ok(screen_wr_between(NULL, b) < 0 && screen_wr_between(b, b) < 0,
       "none without time in between");
}

int main(void)
{
    test_screen();
    test_limits();
    test_waits();
    test_wr();
    return tap_done();
}

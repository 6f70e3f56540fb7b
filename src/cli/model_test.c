#include "cli/model.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static struct model m;

static json_t *parse(const char *text)
{
    json_error_t e;
    json_t *j = json_loads(text, 0, &e);

    if (!j)
        printf("# %s in %s\n", e.text, text);
    return j;
}

static char *quoted(const char *text)
{
    char *s = mem_str(text);

    for (char *p = s; *p; p++) {
        if (*p == '\'')
            *p = '"';
    }
    return s;
}

static json_t *j(const char *text)
{
    autofree char *s = quoted(text);

    return parse(s);
}

/* fetch; train, two ranks, needs fetch; report needs both. */
static void reload(void)
{
    json_t *w = j("{'id':'w7','name':'n','kind':'pipeline','state':'queued',"
                  "'paused':false,'submitted':'1970-01-01T00:00:01Z'}");
    json_t *t = j("[{'task':'fetch','state':'waiting','attempt':0,'ranks':1,"
                  "'needs':[],'gpus':0},"
                  "{'task':'train','state':'blocked','attempt':0,'ranks':2,"
                  "'needs':['fetch'],'gpus':1},"
                  "{'task':'report','state':'blocked','attempt':0,'ranks':1,"
                  "'needs':['fetch','train'],'gpus':0}]");

    model_load(&m, w, t);
    json_decref(w);
    json_decref(t);
}

static uint32_t last_task;

static bool event(const char *text)
{
    json_t *e = j(text);
    bool changed = model_event(&m, e, &last_task);

    json_decref(e);
    return changed;
}

#define T(s) "'workload':'w7','time':'1970-01-01T00:00:0" s "Z'"
#define PLANNED(task, gen) \
    "{'type':'task.planned'," T("2") ",'task':" task ",'gen':" gen \
    ",'grants':[{'rank':0,'block':'local','devices':[1],'milli':1000}]}"
#define CLAIMED(task, rank, gen) \
    "{'type':'lease.claimed'," T("3") ",'task':" task ",'rank':" rank \
    ",'gen':" gen "}"
#define ENDED(task, rest) \
    "{'type':'task.ended'," T("5") ",'task':" task "," rest "}"

static void test_load(void)
{
    reload();
    ok(m.ntasks == 3 && m.count[MODEL_WAITING] == 1 &&
       m.count[MODEL_BLOCKED] == 2, "loaded: one waits, two are blocked");
    ok(m.tasks[2].nneeds == 2 && m.tasks[2].needs_left == 2,
       "needs are found by name");
    ok(m.submitted_ms == 1000 && strcmp(m.id, "w7") == 0, "times and id");
}

static void test_straight(void)
{
    reload();
    ok(event(PLANNED("0", "1")) && m.tasks[0].state == MODEL_STARTING &&
       last_task == 0, "planned: it starts");
    ok(strcmp(m.tasks[0].place, "device 1") == 0, "and is somewhere");
    ok(event(CLAIMED("0", "0", "1")) && m.tasks[0].state == MODEL_RUNNING &&
       m.tasks[0].started_ms == 3000, "claimed: it runs");
    ok(event(ENDED("0", "'gen':1,'outcome':'succeeded'")) &&
       m.tasks[0].state == MODEL_ENDED &&
       m.outcomes[MODEL_SUCCEEDED] == 1, "ended");
    ok(m.tasks[1].state == MODEL_WAITING &&
       m.tasks[2].state == MODEL_BLOCKED,
       "what needed it alone waits now; what needs more is blocked");
    ok(model_elapsed(&m.tasks[0], 99000) == 2000,
       "its time stands still after its end");
}

static void test_gang(void)
{
    reload();
    (void) event(ENDED("0", "'outcome':'succeeded'"));
    (void) event(PLANNED("1", "1"));
    ok(!event(CLAIMED("1", "1", "1")) &&
       m.tasks[1].state == MODEL_STARTING, "one rank of two is not enough");
    ok(!event(CLAIMED("1", "1", "1")) &&
       m.tasks[1].state == MODEL_STARTING, "nor is the same one twice");
    ok(event(CLAIMED("1", "0", "1")) && m.tasks[1].state == MODEL_RUNNING,
       "both are");
}

static void test_old_news(void)
{
    reload();
    (void) event(PLANNED("0", "2"));
    (void) event(CLAIMED("0", "0", "2"));
    ok(!event(PLANNED("0", "2")) && !event(PLANNED("0", "1")) &&
       !event(CLAIMED("0", "0", "1")) &&
       !event("{'type':'task.retrying'," T("4") ",'task':0,'gen':1,"
              "'cause':'failed'}") &&
       m.tasks[0].state == MODEL_RUNNING,
       "events of earlier attempts, and the same twice, change nothing");
    (void) event(ENDED("0", "'gen':2,'outcome':'failed','cause':'failed',"
                       "'status':3"));
    ok(!event(ENDED("0", "'gen':2,'outcome':'succeeded'")) &&
       m.outcomes[MODEL_FAILED] == 1 && m.outcomes[MODEL_SUCCEEDED] == 0,
       "an end is final");
}

static void test_retry(void)
{
    char text[64];

    reload();
    (void) event(PLANNED("0", "1"));
    (void) event(CLAIMED("0", "0", "1"));
    ok(event("{'type':'task.retrying'," T("4") ",'task':0,'gen':1,"
             "'cause':'timeout','until':'1970-01-01T00:00:09Z'}") &&
       m.tasks[0].state == MODEL_WAITING && m.tasks[0].until_ms == 9000,
       "retrying: it waits until then");
    ok(strcmp(model_word(&m.tasks[0]), "retrying") == 0, "and says so");
    model_cause(&m.tasks[0], text, sizeof text);
    ok(strcmp(text, "timeout") == 0, "with the cause");
    ok(model_elapsed(&m.tasks[0], 8500) == 1000,
       "while it waits its time stands still");
    ok(event(PLANNED("0", "2")) && m.tasks[0].gen == 2 &&
       m.tasks[0].nclaimed == 0 && m.tasks[0].cause[0] == '\0',
       "the next attempt starts from the beginning");
    ok(event("{'type':'task.stopping'," T("4") ",'task':0,'gen':2,"
             "'cause':'aborted'}") && m.tasks[0].state == MODEL_ENDING,
       "stopping: it is ending");
}

static void test_suspended(void)
{
    reload();
    (void) event(PLANNED("0", "1"));
    (void) event(CLAIMED("0", "0", "1"));
    ok(!event("{'type':'task.suspending'," T("4") ",'task':0,'gen':1}") &&
       m.tasks[0].state == MODEL_RUNNING, "asked to leave it is still there");
    ok(event("{'type':'lease.suspended'," T("5") ",'task':0,'gen':1}") &&
       m.tasks[0].state == MODEL_SUSPENDED && m.count[MODEL_SUSPENDED] == 1,
       "then it is suspended");
    ok(m.tasks[0].ran_ms > 0 && model_elapsed(&m.tasks[0], UINT64_MAX) ==
       m.tasks[0].ran_ms, "and its time stands still");
    ok(event("{'type':'task.resuming'," T("6") ",'task':0,'gen':1}") &&
       m.tasks[0].state == MODEL_RUNNING, "and comes back");
    ok(event("{'type':'lease.kept'," T("7") ",'task':0,'gen':1}") &&
       m.tasks[0].state == MODEL_SUSPENDED, "or cannot");
}

static void test_workload(void)
{
    reload();
    ok(event("{'type':'workload.paused'," T("2") "}") && m.paused &&
       last_task == MODEL_NO_TASK, "paused");
    ok(event("{'type':'workload.unpaused'," T("2") "}") && !m.paused,
       "unpaused");
    ok(event("{'type':'workload.ended'," T("9") ",'outcome':'failed'}") &&
       m.ended && m.outcome == MODEL_FAILED && m.ended_ms == 9000, "ended");
}

static void test_odd(void)
{
    reload();
    ok(!event("{'type':'workload.ended','workload':'w8'}") && !m.ended,
       "another workload's events are not ours");
    ok(!event("{'type':'task.ended','workload':'w7','task':99}") &&
       !event("{'type':'task.ended','workload':'w7'}") &&
       !event("{'type':'lease.claimed','workload':'w7','task':0,'rank':9,"
              "'gen':1}") && !event("[]"),
       "what does not fit is not applied");
    model_free(&m);
    ok(m.ntasks == 0, "free leaves an empty one");
}

static void test_fetched_late(void)
{
    json_t *w = j("{'id':'w7','state':'ended','outcome':'aborted'}");
    json_t *t = j("[{'task':'a','state':'ended','outcome':'failed',"
                  "'cause':'signalled','signal':9,'attempt':1,'ranks':1},"
                  "{'task':'b','state':'starting','attempt':3,'ranks':2,"
                  "'gpus':0.5,'leases':[{'rank':0,'block':'x','devices':[2],"
                  "'share':0.5,'claimed':'1970-01-01T00:00:03Z'},"
                  "{'rank':1,'block':'x','devices':[3],'share':0.5}]}]");
    char text[64];

    model_load(&m, w, t);
    model_cause(&m.tasks[0], text, sizeof text);
    ok(m.ended && m.outcome == MODEL_ABORTED &&
       strcmp(text, "signal 9 (Killed)") == 0, "an ended one as fetched");
    ok(strcmp(m.tasks[1].place, "0.5 of devices 2,3") == 0 &&
       m.tasks[1].nclaimed == 1, "leases as fetched");
    ok(event("{'type':'lease.claimed'," T("4") ",'task':1,'rank':1,'gen':3}")
       && m.tasks[1].state == MODEL_RUNNING, "events go on from there");
    json_decref(w);
    json_decref(t);
    model_free(&m);
}

int main(void)
{
    test_load();
    test_straight();
    test_gang();
    test_old_news();
    test_retry();
    test_suspended();
    test_workload();
    test_odd();
    test_fetched_late();
    return tap_done();
}

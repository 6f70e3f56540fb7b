#include "core/event.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* What `to` wrote, `from` reads back; what it did not write is refused. */
static json_t *text(const char *s)
{
    autofree char *copy = mem_str(s);
    json_t *j = NULL;
    struct err err = { 0 };

    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (json_read(copy, strlen(copy), 1 << 20, &j, &err) < 0)
        printf("# %s\n", err.text);
    return j;
}

static void fill_texts(struct event *e)
{
    memset(e->who, 'w', sizeof(e->who) - 1);
    memset(e->tenant, 't', sizeof(e->tenant) - 1);
    memset(e->block, 'b', sizeof(e->block) - 1);
    memset(e->node, 'n', sizeof(e->node) - 1);
    memset(e->token, 'o', sizeof(e->token) - 1);
    memset(e->key, 'k', sizeof(e->key) - 1);
    memset(e->hash, 'h', sizeof(e->hash) - 1);
    memset(e->user.name, 'u', sizeof(e->user.name) - 1);
}

static void fill(struct event *e, enum event_type t)
{
    event_init(e, t);
    fill_texts(e);
    e->seq = INT64_MAX;
    e->time_ms = 1800000000123;
    e->workload = INT64_MAX;
    e->task = 99999;
    e->rank = 4095;
    e->gen = UINT32_MAX;
    e->outcome = OUTCOME_ABORTED;
    e->cause = SPEC_CAUSE_GANG;
    e->status = -9;
    e->force = true;
    e->until_ms = 1800000000001;
    e->started_ms = 1;
    e->ended_ms = 253402300799999;
    e->cpu_ms = e->rss_bytes = e->epoch = INT64_MAX;
    e->retry_of = 1;
    e->user.uid = UINT32_MAX;
    e->user.gid = 7;
    e->done = mem_array(2, sizeof(*e->done));
    e->done[1] = 3;
    e->ndone = 2;
    e->grants = mem_array(2, sizeof(*e->grants));
    e->ngrants = 2;
    e->grants[1] = (struct grant) { .rank = 1, .block = "b", .ndevices = 2,
                                    .device = { 3, 65535 }, .milli = 1000 };
    e->data = json_pack("{s:i}", "x", 1);
    e->spec = spec_new();
    e->spec->kind = SPEC_JOB;
    e->spec->name = spec_str(e->spec, "n", 1);
    e->spec->ntasks = 1;
    e->spec->tasks = spec_alloc(e->spec, sizeof(*e->spec->tasks));
    e->spec->tasks[0] = (struct spec_task) {
        .name = "a", .run = "true", .ranks = 1, .cpu_milli = 1000,
        .stop_signal = 15, .stop_grace_ms = 10000,
    };
}

static void test_round_trip(void)
{
    for (unsigned t = 0; t < EVENT_TYPE_COUNT; t++) {
        autojson json_t *one = NULL, *two = NULL;
        struct err err = { 0 };
        struct event e, back;

        fill(&e, (enum event_type) t);
        one = event_to_json(&e, false);
        ok(event_from_json(one, &back, &err) == 0, "%s reads back%s%s",
           event_type_name(e.type), err.code ? ": " : "", err.text);
        if (err.code == 0) {
            two = event_to_json(&back, false);
            ok(json_equal(one, two), "%s is the same", event_type_name(e.type));
            event_clear(&back);
        }
        event_clear(&e);
    }
}

static void test_small(void)
{
    autojson json_t *j = NULL, *brief = NULL;
    struct event e, back;

    event_init(&e, EVENT_STARTED);
    j = event_to_json(&e, false);
    ok(json_object_size(j) == 1, "fields that are zero are left out");
    json_decref(j);
    event_init(&e, EVENT_ABORTING);
    e.task = EVENT_ALL;
    j = event_to_json(&e, false);
    ok(!json_object_get(j, "task"), "an abort of all names no task");
    ok(event_from_json(j, &back, NULL) == 0 && back.task == EVENT_ALL,
       "and reads back so");
    fill(&e, EVENT_SUBMITTED);
    brief = event_to_json(&e, true);
    ok(!json_object_get(brief, "spec"), "the brief form has no spec");
    event_clear(&e);
    ok(!e.spec && !e.data && !e.grants && !e.done, "clear leaves nothing");
}

static void test_refused(void)
{
    static const struct { const char *json, *says; } table[] = {
        { "[]", "no type ''" },
        { "{}", "no type ''" },
        { "{'type':'task.flown'}", "no type 'task.flown'" },
        { "{'type':'task.ended','workload':12}", "'workload' is not" },
        { "{'type':'task.ended','workload':'12'}", "'12' is not the id" },
        { "{'type':'task.ended','workload':'w0'}", "'w0' is not the id" },
        { "{'type':'task.ended','workload':'w99999999999999999999'}",
          "is not the id" },
        { "{'type':'task.ended','task':-1}", "'task' is not" },
        { "{'type':'task.ended','task':4294967296}", "'task' is not" },
        { "{'type':'task.ended','gen':'1'}", "'gen' is not" },
        { "{'type':'task.ended','gen':1.5}", "'gen' is not" },
        { "{'type':'task.ended','outcome':'fine'}", "'outcome' is not" },
        { "{'type':'task.ended','cause':'whim'}", "'cause' is not" },
        { "{'type':'task.ended','status':-5000}", "'status' is not" },
        { "{'type':'task.ended','force':1}", "'force' is not" },
        { "{'type':'task.ended','time':'yesterday'}", "'yesterday' is not" },
        { "{'type':'task.ended','time':5}", "'time' is not" },
        { "{'type':'task.ended','seq':-1}", "'seq' is not" },
        { "{'type':'task.ended','data':[]}", "'data' is not" },
        { "{'type':'task.planned','grants':{}}", "'grants' is not" },
        { "{'type':'task.planned','grants':[1]}", "'grants' is not" },
        { "{'type':'task.planned','grants':[{'rank':0}]}", "'block' is not" },
        { "{'type':'task.planned','grants':[{'rank':0,'block':'b',"
          "'devices':[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}]}",
          "'devices' is not" },
        { "{'type':'task.planned','grants':[{'rank':0,'block':'b',"
          "'devices':[70000]}]}", "'devices' is not" },
        { "{'type':'workload.submitted','user':{}}", "'user.name' is not" },
        { "{'type':'workload.submitted','done':['a']}", "'done' is not" },
        { "{'type':'workload.submitted','spec':{}}", "spec" },
        { "{'type':'block.up','block':'0123456789012345678901234567890123456"
          "789012345678'}", "'block' is not a text of at most 47" },
    };

    for (size_t i = 0; i < array_size(table); i++) {
        autojson json_t *j = text(table[i].json);
        struct event e = { .seq = 77 };
        struct err err = { 0 };

        ok(event_from_json(j, &e, &err) == -EINVAL &&
           strstr(err.text, table[i].says) && e.seq == 77, "%s: %s",
           table[i].json, err.text);
    }
}

static void test_ids(void)
{
    static const char *const bad[] = { "", "w", "12", "w0", "w01", "w-1",
                                       "w1x", "W1", "w 1",
                                       "w9223372036854775808" };
    char buf[24];
    uint64_t id = 0;

    workload_id_print(INT64_MAX, buf, sizeof(buf));
    ok(strcmp(buf, "w9223372036854775807") == 0, "the largest id prints");
    ok(workload_id_parse(buf, &id, NULL) == 0 && id == INT64_MAX, "and reads");
    for (size_t i = 0; i < array_size(bad); i++)
        ok(workload_id_parse(bad[i], &id, NULL) == -EINVAL && id == INT64_MAX,
           "'%s' is no id", bad[i]);
}

int main(void)
{
    test_round_trip();
    test_small();
    test_refused();
    test_ids();
    return tap_done();
}

#include "control/bed.h"

/* What runners say of processes that use devices as they should not, against
 * one that is played (bed.h).
 */
static void says(struct control *c, const char *strays)
{
    struct wire_msg m = { 0 };
    struct err err = { 0 };
    autofree char *body = mem_printf("{\"t\":\"telemetry\",\"at\":1,"
                                     "\"sample\":[],\"strays\":%s}", strays);

    if (wire_read(body, strlen(body), &m, &err) < 0)
        ok(false, "%s: %s", strays, err.text);
    home.ops->message(CONTROL_BLOCK, &m, c);
    wire_clear(&m);
    settle(c);
}

#define STRANGER(uuid, bytes) \
    "{\"kind\":\"stranger\",\"uuid\":\"" uuid "\",\"pid\":7,\"comm\":" \
    "\"Xorg\",\"bytes\":" bytes "}"
#define TASK(kind, pid, gen) \
    "{\"kind\":\"" kind "\",\"uuid\":\"GPU-1\",\"pid\":" pid ",\"comm\":" \
    "\"py\",\"bytes\":3145728,\"limit\":1048576,\"processes\":2," \
    "\"key\":\"w1/0.0\",\"gen\":" gen "}"

/* What the journal has of them: "found stranger 0;", with the workload. */
static int on_event(const struct store_event *e, void *arg)
{
    struct buf *b = arg;
    autojson json_t *j = NULL;
    const json_t *data;

    if (json_read(e->body, e->len, e->len, &j, NULL) < 0)
        return -EINVAL;
    data = json_object_get(j, "data");
    (void) buf_printf(b, "%s %s %s;", json_get_str(data, "state", ""),
                      json_get_str(data, "kind", ""),
                      json_get_str(j, "workload", "-"));
    return 0;
}

static bool told(struct control *c, const char *want)
{
    struct store_event_query q = { .limit = 100, .type = "device.stray" };
    struct buf b = BUF_INIT(4096);
    struct err err = { 0 };
    autofree char *text = NULL;

    if (store_events(c->store, &q, on_event, &b, &err) < 0)
        ok(false, "events: %s", err.text);
    text = buf_take(&b);
    if (strcmp(text, want) != 0)
        printf("# %s\n", text);
    return strcmp(text, want) == 0;
}

static const json_t *shown(struct control *c)
{
    const json_t *all = stray_find(CONTROL_BLOCK, c);
    void *it = json_object_iter((json_t *) (uintptr_t) all);

    return json_object_size(all) == 1 ? json_object_iter_value(it) : NULL;
}

static void test_stranger(void)
{
    struct control c;

    begin_up(&c, 2);
    says(&c, "[" STRANGER("GPU-0", "2097152") "]");
    says(&c, "[" STRANGER("GPU-0", "4194304") "]");
    ok(told(&c, "found stranger -;"), "it is told once");
    ok(strcmp(json_get_str(shown(&c), "text", ""), "process 7 (Xorg): 4 MiB "
              "on a device, and is no task's") == 0, "with what it has now");
    says(&c, "[" STRANGER("GPU-0", "4194304") "," STRANGER("GPU-9", "1") "]");
    ok(told(&c, "found stranger -;"), "a device that the block has not is no "
       "matter of ours");
    says(&c, "[]");
    ok(told(&c, "found stranger -;gone stranger -;") &&
       json_object_size(stray_find(CONTROL_BLOCK, &c)) == 0,
       "and so is its end");
    close_control(&c);
}

static void set_policy(struct control *c, unsigned version, const char *stray)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, EVENT_POLICY_SET);
    e.data = json_pack("{s:i,s:{s:i,s:s,s:s}}", "version", version, "policy",
                       "weir", 1, "kind", "policy", "stray", stray);
    ok(journal_event(c, &e, NULL, NULL, &err) == 0, "a policy %s", err.text);
    settle(c);
}

static void test_task(void)
{
    struct control c;
    uint64_t id;

    begin_up(&c, 2);
    id = submit(&c, 1, 1);
    report(&c, WIRE_CLAIM, id, 0, "");
    says(&c, "[" TASK("device", "8", "1") "]");
    says(&c, "[" TASK("device", "8", "1") "," TASK("memory", "8", "1") "]");
    says(&c, "[" TASK("memory", "9", "1") "]");
    ok(told(&c, "found device w1;found memory w1;gone device w1;"),
       "of a task each thing is told once, and its end");
    ok(said(WIRE_STOP, id, 0) == 0, "it is noted, and runs on");
    says(&c, "[" TASK("memory", "9", "1") ",{\"kind\":\"device\",\"uuid\":"
         "\"GPU-1\",\"pid\":1,\"bytes\":1,\"key\":\"w77/0.0\",\"gen\":1}]");
    ok(told(&c, "found device w1;found memory w1;gone device w1;"),
       "a task that there is none of is not told of");
    set_policy(&c, 1, "stop");
    says(&c, "[" TASK("memory", "9", "2") "]");
    ok(said(WIRE_STOP, id, 0) == 0, "another attempt is not this one");
    says(&c, "[" TASK("memory", "9", "1") "]");
    ok(said(WIRE_STOP, id, 0) == 1, "by policy it is stopped");
    says(&c, "[" TASK("memory", "9", "1") "]");
    ok(said(WIRE_STOP, id, 0) == 1, "once");
    report(&c, WIRE_ENDED, id, 0, "signalled");
    ok(strcmp(task_of(&c, id).outcome, "failed") == 0 &&
       strcmp(task_of(&c, id).cause, "stray") == 0 && no_leases(&c),
       "and ends for that, not tried again");
    close_control(&c);
}

static void test_stranger_stays(void)
{
    struct control c;
    uint64_t id;

    begin_up(&c, 2);
    set_policy(&c, 1, "stop");
    id = submit(&c, 1, 1);
    report(&c, WIRE_CLAIM, id, 0, "");
    says(&c, "[" STRANGER("GPU-0", "2097152") "]");
    ok(told(&c, "found stranger -;") && said(WIRE_STOP, id, 0) == 0,
       "a stranger ends nobody's task");
    close_control(&c);
    open_control(&c);
    block_up(&c, 2);
    hello(&c);
    says(&c, "[" STRANGER("GPU-0", "2097152") "]");
    ok(told(&c, "found stranger -;found stranger -;"),
       "after a start it is told anew");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_stranger();
    test_task();
    test_stranger_stays();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

#include "runner/order.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static int read_text(const char *text, struct order *ret, struct err *err)
{
    autojson json_t *j = NULL;

    if (json_read(text, strlen(text), 1 << 20, &j, err) < 0)
        return -EBADMSG;               /* the test's own mistake */
    return order_read(j, ret, err);
}

static const struct {
    const char *text, *says;
} bad[] = {
    { "{}", "run or argv" },
    { "{\"run\":\"a\",\"argv\":[\"a\"]}", "run or argv" },
    { "{\"argv\":[]}", "argv" },
    { "{\"argv\":\"true\"}", "argv" },
    { "{\"argv\":[\"a\",1]}", "argv[1]" },
    { "{\"run\":\"a\",\"env\":[]}", "env" },
    { "{\"run\":\"a\",\"env\":{\"\":\"x\"}}", "env" },
    { "{\"run\":\"a\",\"env\":{\"A=B\":\"x\"}}", "A=B" },
    { "{\"run\":\"a\",\"env\":{\"A\":1}}", "env" },
    { "{\"run\":\"a\",\"user\":{\"name\":\"x\"}}", "uid" },
    { "{\"run\":\"a\",\"user\":{\"uid\":1,\"gid\":4294967295}}", "gid" },
    { "{\"run\":\"a\",\"user\":{\"uid\":-1,\"gid\":1}}", "uid" },
    { "{\"run\":\"a\",\"devices\":[-1]}", "devices[0]" },
    { "{\"run\":\"a\",\"devices\":[0,\"1\"]}", "devices[1]" },
    { "{\"run\":\"a\",\"nodes\":\"shut\"}", "leased or active" },
    { "{\"run\":\"a\",\"stop\":[]}", "stop" },
    { "{\"run\":\"a\",\"stop\":{\"signal\":65}}", "at most 64" },
    { "{\"run\":\"a\",\"gate\":[]}", "gate" },
    { "{\"run\":\"a\",\"gate\":{\"state\":\"ajar\"}}", "ajar" },
    { "{\"run\":\"a\",\"gate\":{\"lost\":\"sleep\"}}", "wait or go" },
    { "{\"run\":\"a\",\"gate\":{\"devices\":[\"0\"]}}", "devices[0]" },
    { "{\"run\":\"a\",\"gate\":{\"devices\":[\"GPU-1\\n2\"]}}",
      "devices[0]" },
};

static void test_bad(void)
{
    for (size_t i = 0; i < array_size(bad); i++) {
        struct order o = { .rank = 77 };
        struct err err = { 0 };
        int rc = read_text(bad[i].text, &o, &err);

        ok(rc == -EINVAL && strstr(err.text, bad[i].says) && o.rank == 77,
           "refused: %s (%s)", bad[i].text, err.text);
    }
}

static void test_good(void)
{
    static const char text[] =
        "{\"name\":\"n\",\"workload\":\"w3\",\"tenant\":\"t\","
        "\"argv\":[\"a\",\"b c\"],\"env\":{\"K\":\"v\"},\"dir\":\"/tmp\","
        "\"user\":{\"name\":\"u\",\"uid\":5,\"gid\":6},\"cpus_milli\":1500,"
        "\"memory\":4096,\"ranks\":4,\"rank\":3,\"devices\":[7,2],"
        "\"simulated\":true,\"rendezvous\":\"h:1\",\"log_bytes\":9,"
        "\"attempt\":2,\"later\":1}";
    struct order o = { 0 };
    struct err err = { 0 };

    ok(read_text(text, &o, &err) == 0, "a whole order %s", err.text);
    if (!o.name)
        return;
    ok(!strcmp(o.name, "n") && !strcmp(o.workload, "w3") &&
       !strcmp(o.tenant, "t"), "names");
    ok(!o.run && !strcmp(o.argv[0], "a") && !strcmp(o.argv[1], "b c") &&
       !o.argv[2], "argv");
    ok(!strcmp(json_get_str(o.env, "K", ""), "v") &&
       !strcmp(o.dir, "/tmp") && !strcmp(o.rendezvous, "h:1"), "texts");
    ok(o.has_user && o.uid == 5 && o.gid == 6 && !strcmp(o.user, "u"),
       "user");
    ok(o.cpus_milli == 1500 && o.memory == 4096 && o.ranks == 4 &&
       o.rank == 3 && o.log_bytes == 9 && o.attempt == 2, "numbers");
    ok(o.ndevices == 2 && o.devices[0] == 7 && o.devices[1] == 2 &&
       o.simulated && !o.gate.given, "devices");
    order_clear(&o);
    ok(!o.argv && !o.task, "cleared");
    ok(read_text("{\"run\":\"true\"}", &o, &err) == 0 && o.run &&
       !o.has_user && o.ranks == 1 && o.attempt == 1 && !o.dir,
       "the least there can be");
    order_clear(&o);
}

static void test_gate(void)
{
    struct order o = { 0 };

    ok(read_text("{\"run\":\"a\",\"gate\":{\"later\":1}}", &o, NULL) == 0 &&
       o.gate.given && o.gate.state == GATE_ACTIVE && !o.gate.go &&
       o.gate.memory == 0 && o.gate.nuuids == 0 &&
       o.gate.context == 1 << 30 && o.nodes == ORDER_NODES_OPEN,
       "a gate: open and strict unless it says more");
    order_clear(&o);
    ok(read_text("{\"run\":\"a\",\"nodes\":\"active\","
                 "\"gate\":{\"state\":\"staged\",\"context\":7,"
                 "\"memory\":1024,\"lost\":\"go\","
                 "\"devices\":[\"GPU-0a\",\"GPU-0b\"]}}", &o, NULL) == 0 &&
       o.gate.state == GATE_STAGED && o.gate.go && o.gate.memory == 1024 &&
       o.gate.context == 7 && o.nodes == ORDER_NODES_ACTIVE &&
       o.gate.nuuids == 2 && !strcmp(o.gate.uuid[1], "GPU-0b"),
       "a whole one");
    order_clear(&o);
}

static void test_stop(void)
{
    struct order o = { 0 };

    ok(read_text("{\"run\":\"a\"}", &o, NULL) == 0 && o.stop.signal == 0 &&
       o.stop.grace_ms == ORDER_GRACE_MS && !o.stop.command,
       "how to stop, where it does not say");
    order_clear(&o);
    ok(read_text("{\"run\":\"a\",\"stop\":{\"signal\":10,\"grace_ms\":0,"
                 "\"command\":\"c\"}}", &o, NULL) == 0 &&
       o.stop.signal == 10 && o.stop.grace_ms == 0 &&
       !strcmp(o.stop.command, "c"), "and where it does");
    order_clear(&o);
}

static void test_names(void)
{
    struct lease_id id = { { 12, 3, 0 }, 2, 1 };
    struct lease_id most = { { INT64_MAX, UINT32_MAX, UINT32_MAX },
                             UINT32_MAX, INT64_MAX };
    char text[LEASE_NAME_SIZE];

    lease_id_name(&id, text, sizeof text);
    ok(!strcmp(text, "w12/3.0#2@1"), "%s", text);
    lease_id_file(&id, text, sizeof text);
    ok(!strcmp(text, "3.0.2.1"), "%s", text);
    lease_id_name(&most, text, sizeof text);
    ok(strlen(text) < sizeof text - 1, "the longest fits: %s", text);
}

int main(void)
{
    test_bad();
    test_good();
    test_gate();
    test_stop();
    test_names();
    return tap_done();
}

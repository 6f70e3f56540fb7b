#include "engine/wire.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Read, write, and read again: the same. */
static const char *const good[] = {
    "{\"t\":\"hello\",\"v\":1,\"block\":\"local\",\"token\":\"abc\","
    "\"pid\":7,\"leases\":[]}",
    "{\"t\":\"hello\",\"v\":1,\"block\":\"gpus/node-1\",\"token\":\"\","
    "\"pid\":1,\"leases\":[]}",
    "{\"t\":\"hello\",\"v\":1,\"block\":\"a.b-c_1\",\"token\":\"\","
    "\"pid\":7,\"leases\":[{\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"state\":\"running\",\"gate\":\"staged\"},{\"key\":\"w1/0.1\",\"gen\":1,\"epoch\":1,"
    "\"state\":\"new\"}]}",
    "{\"t\":\"claim\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1}",
    "{\"t\":\"started\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"pid\":99,\"at\":1700000000000}",
    "{\"t\":\"progress\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"at\":1700000000000,\"said\":{\"progress\":0.5,"
    "\"metrics\":{\"loss\":0.25}}}",
    "{\"t\":\"ended\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"cause\":\"none\",\"status\":0,\"started\":1,\"ended\":2}",
    "{\"t\":\"ended\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"cause\":\"signalled\",\"status\":-9,\"started\":1,\"ended\":2,"
    "\"cpu_ms\":3,\"rss\":4096}",
    "{\"t\":\"activity\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"at\":1700000000000,\"gate\":\"active\"}",
    "{\"t\":\"activity\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"at\":1700000000000,\"gate\":\"suspended\",\"wanting\":3,"
    "\"inside\":2,\"launches\":9223372036854775807,\"copies\":1,"
    "\"syncs\":2,\"others\":4,"
    "\"used\":4096}",
    "{\"t\":\"gate\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"gate\":\"staged\"}",
    "{\"t\":\"suspend\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1}",
    "{\"t\":\"suspend\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"grace_ms\":10000,\"awake\":true}",
    "{\"t\":\"resume\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1}",
    "{\"t\":\"resume\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"devices\":\"GPU-1,GPU-2\"}",
    "{\"t\":\"moved\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"ok\":true,\"gate\":\"suspended\",\"ms\":2400,\"used\":4096}",
    "{\"t\":\"moved\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"ok\":false,\"gate\":\"active\",\"ms\":1,\"reason\":\"busy\","
    "\"text\":\"its kernels do not end\"}",
    "{\"t\":\"telemetry\",\"at\":1700000000000,\"sample\":[{\"uuid\":"
    "\"GPU-1\",\"temperature_celsius\":40},{\"uuid\":\"GPU-2\"}]}",
    "{\"t\":\"telemetry\",\"at\":1700000000000,\"sample\":[],\"strays\":[]}",
    "{\"t\":\"telemetry\",\"at\":1700000000000,\"sample\":[],\"strays\":["
    "{\"kind\":\"stranger\",\"uuid\":\"GPU-1\",\"pid\":7,\"comm\":\"a b\","
    "\"bytes\":1},{\"kind\":\"memory\",\"uuid\":\"GPU-2\",\"pid\":8,"
    "\"comm\":\"\",\"bytes\":9223372036854775807,\"limit\":4096,"
    "\"processes\":2,\"key\":\"w12/3.0\",\"gen\":2}]}",
    "{\"t\":\"health\",\"at\":1700000000000,\"health\":[{\"uuid\":"
    "\"GPU-1\",\"whole\":true,\"rules\":[]},{\"uuid\":\"GPU-2\","
    "\"rules\":[{\"rule\":\"hot\",\"state\":\"raised\",\"action\":"
    "\"alert\",\"text\":\"it is hot\",\"evidence\":{\"value\":90,"
    "\"xids\":[79,62]}}]}]}",
    "{\"t\":\"hello\",\"v\":1,\"block\":\"lab/n1#w1/0.0#1@1\",\"token\":"
    "\"\",\"pid\":1,\"address\":\"10.1.2.3\",\"leases\":[]}",
    "{\"t\":\"output\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"offset\":9223372036854775807,\"data\":\"AAEC/+8=\"}",
    "{\"t\":\"output\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"offset\":0,\"data\":\"\"}",
    "{\"t\":\"heard\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"offset\":5}",
    "{\"t\":\"pong\"}",
    "{\"t\":\"welcome\",\"epoch\":3,\"v\":1}",
    "{\"t\":\"order\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"task\":{\"run\":\"true\"}}",
    "{\"t\":\"grant\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"ok\":true}",
    "{\"t\":\"stop\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1}",
    "{\"t\":\"stop\",\"key\":\"w12/3.0\",\"gen\":2,\"epoch\":1,"
    "\"force\":true,\"signal\":10,\"grace_ms\":5000,"
    "\"command\":\"save\"}",
    "{\"t\":\"ack\",\"key\":\"w12/3.0\",\"gen\":4294967295,"
    "\"epoch\":9223372036854775807}",
    "{\"t\":\"drop\",\"key\":\"w9223372036854775807/4294967295.0\"}",
    "{\"t\":\"ping\"}",
    "{\"t\":\"quit\"}",
    "{\"t\":\"error\",\"text\":\"no\"}",
};

static void test_good(void)
{
    unsigned kinds = 0;

    for (size_t i = 0; i < array_size(good); i++) {
        autojson json_t *before = NULL;
        autojson json_t *after = NULL;
        struct wire_msg m;
        struct err err = { 0 };
        int rc = wire_read(good[i], strlen(good[i]), &m, &err);

        ok(rc == 0, "read %s%s", good[i], err.text);
        if (rc < 0)
            continue;
        kinds |= 1u << m.kind;
        after = wire_write(&m);
        wire_clear(&m);
        (void) json_read(good[i], strlen(good[i]), 4096, &before, &err);
        ok(json_equal(before, after), "and written again it is the same");
    }
    ok(kinds == (1u << WIRE_KIND_COUNT) - 1, "every kind is in the table");
}

static const struct {
    int rc;
    const char *text, *says;
} bad[] = {
    { -EINVAL, "", "" },
    { -EINVAL, "{", "" },
    { -EPROTO, "[]", "kind" },
    { -EPROTO, "{}", "kind" },
    { -EPROTO, "{\"t\":1}", "kind" },
    { -ENOTSUP, "{\"t\":\"sing\"}", "sing" },
    { -EINVAL, "{\"t\":\"ping\",\"t\":\"ping\"}", "" },
    { -EINVAL, "{\"t\":\"ping\"} x", "" },
    { -EPROTO, "{\"t\":\"output\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"offset\":0,\"data\":7}", "data" },
    { -EPROTO, "{\"t\":\"output\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"offset\":0,\"data\":\"Zg\"}", "base64" },
    { -EPROTO, "{\"t\":\"claim\",\"gen\":1,\"epoch\":1}", "key" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":\"w1/2.3\",\"epoch\":1}", "gen" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":\"x\",\"gen\":1,\"epoch\":1}",
      "w12/3.0" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":3,\"gen\":1,\"epoch\":1}", "key" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":\"w1/2.3\",\"gen\":-1,"
      "\"epoch\":1}", "gen" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":\"w1/2.3\",\"gen\":4294967296,"
      "\"epoch\":1}", "gen" },
    { -EPROTO, "{\"t\":\"claim\",\"key\":\"w1/2.3\",\"gen\":1.5,"
      "\"epoch\":1}", "gen" },
    { -EPROTO, "{\"t\":\"grant\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"ok\":1}", "ok" },
    { -EPROTO, "{\"t\":\"order\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"task\":[]}", "task" },
    { -EPROTO, "{\"t\":\"stop\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"signal\":65}", "signal" },
    { -EPROTO, "{\"t\":\"ended\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"cause\":\"much too long a cause\",\"status\":0,\"started\":1,"
      "\"ended\":1}", "cause" },
    { -EPROTO, "{\"t\":\"ended\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"cause\":\"none\",\"status\":256,\"started\":1,\"ended\":1}",
      "status" },
    { -EPROTO, "{\"t\":\"telemetry\",\"at\":1,\"sample\":[],\"strays\":{}}",
      "64 processes" },
    { -EPROTO, "{\"t\":\"telemetry\",\"at\":1,\"sample\":[],\"strays\":["
      "{\"kind\":\"stranger\",\"uuid\":\"G\",\"pid\":0,\"bytes\":1}]}",
      "a pid" },
    { -EPROTO, "{\"t\":\"telemetry\",\"at\":1,\"sample\":[],\"strays\":["
      "{\"kind\":\"stranger\",\"uuid\":\"G\",\"pid\":1,\"bytes\":1,"
      "\"comm\":\"0123456789abcdef\"}]}", "a pid" },
    { -EPROTO, "{\"t\":\"health\",\"at\":1,\"health\":{}}", "64 devices" },
    { -EPROTO, "{\"t\":\"health\",\"at\":1,\"health\":[{\"rules\":[]}]}",
      "UUID" },
    { -EPROTO, "{\"t\":\"health\",\"at\":1,\"health\":[{\"uuid\":\"G\"}]}",
      "rules" },
    { -EPROTO, "{\"t\":\"health\",\"at\":1,\"health\":[{\"uuid\":\"G\","
      "\"rules\":[{\"rule\":\"hot\",\"state\":\"raised\"}]}]}", "action" },
    { -EPROTO, "{\"t\":\"health\",\"at\":1,\"health\":[{\"uuid\":\"G\","
      "\"rules\":[{\"rule\":\"hot\",\"state\":\"raised\",\"action\":"
      "\"note\",\"evidence\":{\"a\":\"b\"}}]}]}", "rules" },
    { -EPROTO, "{\"t\":\"progress\",\"key\":\"w1/2.3\",\"gen\":1,"
      "\"epoch\":1,\"at\":1,\"said\":[]}", "said" },
    { -EPROTO, "{\"t\":\"progress\",\"key\":\"w1/2.3\",\"gen\":1,"
      "\"epoch\":1,\"at\":1,\"said\":{\"progress\":1.5}}", "0 to 1" },
    { -EPROTO, "{\"t\":\"progress\",\"key\":\"w1/2.3\",\"gen\":1,"
      "\"epoch\":1,\"at\":1,\"said\":{\"metrics\":{\"a\":\"b\"}}}",
      "numbers" },
    { -EPROTO, "{\"t\":\"gate\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1}",
      "gate" },
    { -EPROTO, "{\"t\":\"gate\",\"key\":\"w1/2.3\",\"gen\":1,\"epoch\":1,"
      "\"gate\":\"open for ever\"}", "gate" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"b\",\"token\":\"\","
      "\"pid\":1,\"leases\":[{\"key\":\"w1/0.0\",\"gen\":1,\"epoch\":1,"
      "\"state\":\"new\",\"gate\":1}]}", "gate" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"../x\",\"token\":\"\","
      "\"pid\":1,\"leases\":[]}", "block" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"a/b/c\",\"token\":\"\","
      "\"pid\":1,\"leases\":[]}", "block" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"a/\",\"token\":\"\","
      "\"pid\":1,\"leases\":[]}", "block" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"\",\"token\":\"\","
      "\"pid\":1,\"leases\":[]}", "block" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"b\",\"token\":\"\","
      "\"pid\":1,\"leases\":[{\"key\":\"w1/0.0\",\"gen\":1,\"epoch\":1,"
      "\"state\":\"dead\"}]}", "dead" },
    { -EPROTO, "{\"t\":\"hello\",\"v\":1,\"block\":\"b\",\"token\":\"\","
      "\"pid\":1,\"leases\":[1]}", "key" },
};

static void test_bad(void)
{
    for (size_t i = 0; i < array_size(bad); i++) {
        struct wire_msg m = { .kind = WIRE_QUIT, .gen = 77 };
        struct err err = { 0 };
        int rc = wire_read(bad[i].text, strlen(bad[i].text), &m, &err);

        ok(rc == bad[i].rc && strstr(err.text, bad[i].says),
           "refused: %s (%s)", bad[i].text, err.text);
        ok(m.kind == WIRE_QUIT && m.gen == 77, "and nothing is touched");
    }
}

static void test_newer(void)
{
    static const char text[] = "{\"t\":\"ack\",\"key\":\"w1/2.3\",\"gen\":1,"
                               "\"epoch\":1,\"colour\":\"blue\"}";
    struct wire_msg m;

    ok(wire_read(text, strlen(text), &m, NULL) == 0,
       "a member of a newer version is passed over");
    ok(m.key.workload == 1 && m.key.task == 2 && m.key.rank == 3 &&
       m.gen == 1 && m.epoch == 1, "and the others are read");
    wire_clear(&m);
}

static void test_keys(void)
{
    static const char *const wrong[] = {
        "", "w", "w1", "w1/", "w1/2", "w1/2.", "1/2.3", "w1/2.3 ", "w01/2.3",
        "w1/2.03", "w1/-2.3", "w1/2.4294967296", "w9223372036854775808/0.0",
        "w1.2.3", "W1/2.3",
    };
    struct lease_key k = { 1, 2, 3 };
    char text[48];

    for (size_t i = 0; i < array_size(wrong); i++)
        ok(lease_key_parse(wrong[i], &k, NULL) == -EPROTO && k.rank == 3,
           "no key: '%s'", wrong[i]);
    ok(lease_key_parse("w0/0.0", &k, NULL) == 0 && k.workload == 0,
       "zeros are numbers");
    k = (struct lease_key) { INT64_MAX, UINT32_MAX, UINT32_MAX };
    lease_key_print(&k, text, sizeof text);
    ok(strcmp(text, "w9223372036854775807/4294967295.4294967295") == 0,
       "the longest key fits");
}

static void test_runners(void)
{
    static const char *const not_one[] = {
        "", "#w1/2.3#1@1", "a#", "a#w1/2.3", "a#w1/2.3#1", "a#w1/2.3#1@",
        "a#w1/2.3#1@1 ", "a#w1/2#1@1", "a#w1/2.3#01@1", "a#w1/2.3#1@1#",
        "a/b/c", "../a", "a b", "a#w1/2.3#4294967296@1",
        "123456789012345678901234567890123456789012345678",
    };
    static const char longest[] =
        "12345678901234567890123456789012345678901234567#"
        "w9223372036854775807/4294967295.4294967295#4294967295@"
        "9223372036854775807";
    static const char *const right[] = {
        "local", "lab/n1", "lab/n1.example.org", "lab/n1#w12/3.0#2@1",
        "lab#w0/0.0#0@0", longest,
    };
    struct runner_name n = { .gen = 77 };
    char text[RUNNER_NAME_SIZE];

    for (size_t i = 0; i < array_size(not_one); i++)
        ok(runner_name_parse(not_one[i], &n, NULL) == -EPROTO && n.gen == 77,
           "no runner: '%s'", not_one[i]);
    for (size_t i = 0; i < array_size(right); i++) {
        int rc = runner_name_parse(right[i], &n, NULL);

        if (rc == 0)
            runner_name_print(&n, text, sizeof text);
        ok(rc == 0 && strcmp(text, right[i]) == 0, "a runner: '%s'", right[i]);
    }
    ok(runner_name_parse("lab/n1#w12/3.0#2@1", &n, NULL) == 0 && n.alone &&
       strcmp(n.block, "lab/n1") == 0 && n.key.workload == 12 &&
       n.key.task == 3 && n.key.rank == 0 && n.gen == 2 && n.epoch == 1,
       "what it is of");
}

int main(void)
{
    test_good();
    test_bad();
    test_newer();
    test_keys();
    test_runners();
    return tap_done();
}

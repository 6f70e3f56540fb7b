#include "gpu/ask.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static int read_one(const char *body, struct ask *ret, struct err *err)
{
    struct buf in = ASK_IN_INIT;
    int rc;

    frame_add(&in, body, strlen(body));
    rc = ask_next(&in, ret, err);
    ok(rc == 0 || in.len == 0 || rc == -EMSGSIZE, "it is taken: %.40s", body);
    buf_free(&in);
    return rc;
}

static void test_kinds(void)
{
    for (unsigned k = 0; k < ASK_KIND_COUNT; k++) {
        struct ask a = { .kind = ASK_KIND_COUNT };
        char body[96];

        (void) snprintf(body, sizeof body,
                        "{\"t\":\"%s\",\"new\":[1],\"task\":\"t\",\"pid\":7,"
                        "\"uuid\":\"GPU-0\"}", ask_kind_name(k));
        ok(read_one(body, &a, NULL) == 1 && a.kind == k, "%s is read",
           ask_kind_name(k));
        ok(a.v == ASK_VERSION && a.every_ms == ASK_EVERY_MS,
           "with what is not said as documented");
    }
}

static void test_watch(void)
{
    struct ask a = { .every_ms = 7 };
    struct err err = { 0 };

    ok(read_one("{\"t\":\"watch\",\"every_ms\":250}", &a, &err) == 1 &&
       a.every_ms == 250, "a period is read");
    ok(read_one("{\"t\":\"watch\",\"every_ms\":99}", &a, &err) == -EBADMSG &&
       strstr(err.text, "every_ms is a number from 100 to 3600000"),
       "one too short is refused: %s", err.text);
    ok(read_one("{\"t\":\"watch\",\"every_ms\":3600001}", &a, &err) ==
       -EBADMSG, "one too long is refused");
    ok(read_one("{\"t\":\"watch\",\"every_ms\":\"1\"}", &a, &err) == -EBADMSG,
       "a text is refused");
    ok(a.every_ms == 250, "what is refused changes nothing");
}

static void test_suspend(void)
{
    struct ask a = { .kind = ASK_KIND_COUNT };
    struct err err = { 0 };

    ok(read_one("{\"t\":\"suspend\",\"task\":\"t\",\"pid\":7}", &a, &err) ==
       1 && a.suspend.pid == 7 && a.suspend.hold && !a.suspend.resume &&
       a.suspend.lock_ms == SUSPEND_LOCK_MS, "a task by its pid");
    ok(read_one("{\"t\":\"suspend\",\"task\":\"t\",\"cgroup\":\"/a\","
                "\"hold\":false,\"lock_ms\":5}", &a, &err) == 1 &&
       !strcmp(a.suspend.cgroup, "/a") && !a.suspend.hold &&
       a.suspend.lock_ms == 5, "a task by its cgroup");
    ok(read_one("{\"t\":\"resume\",\"task\":\"t\",\"devices\":"
                "{\"GPU-0\":\"GPU-1\"}}", &a, &err) == 1 &&
       a.suspend.resume && a.suspend.ndevices == 1 &&
       !strcmp(a.suspend.devices[0].uuid, "GPU-0") &&
       !strcmp(a.suspend.devices[0].to, "GPU-1"), "and back, elsewhere");
}

static void test_was_reset(void)
{
    struct ask a = { .kind = ASK_KIND_COUNT };
    struct err err = { 0 };
    char text[256];

    ok(read_one("{\"t\":\"was-reset\",\"uuid\":\"GPU-0\"}", &a, &err) == 1 &&
       a.kind == ASK_WAS_RESET && !strcmp(a.uuid, "GPU-0"), "a device's name");
    ok(read_one("{\"t\":\"was-reset\"}", &a, &err) == -EBADMSG &&
       !strcmp(err.text, "uuid is that of a device"), "%s", err.text);
    (void) snprintf(text, sizeof text, "{\"t\":\"was-reset\",\"uuid\":"
                    "\"%0*d\"}", NVML_TEXT, 0);
    ok(read_one(text, &a, &err) == -EBADMSG, "one too long is refused");
    ok(!strcmp(a.uuid, "GPU-0"), "what is refused changes nothing");
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "{}", "[]", "1", "{\"t\":1}", "{\"t\":\"reboot\"}", "{\"t\":\"hello\"",
        "{\"t\":\"hello\",\"t\":\"sample\"}", "{\"t\":\"hello\",\"v\":0}",
        "{\"t\":\"hello\",\"v\":4294967296}", "\xff",
        "{\"t\":\"suspend\",\"task\":\"t\"}",
        "{\"t\":\"suspend\",\"task\":\"t\",\"pid\":1,\"cgroup\":\"/a\"}",
        "{\"t\":\"suspend\",\"task\":\"t\",\"pid\":-1}",
        "{\"t\":\"suspend\",\"task\":\"t\",\"cgroup\":\"a\"}",
        "{\"t\":\"suspend\",\"task\":\"a/b\",\"pid\":1}",
        "{\"t\":\"suspend\",\"task\":\"t\",\"pid\":1,\"hold\":1}",
        "{\"t\":\"suspend\",\"task\":\"t\",\"pid\":1,\"lock_ms\":0}",
        "{\"t\":\"resume\"}",
        "{\"t\":\"resume\",\"task\":\"t\",\"devices\":[]}",
        "{\"t\":\"resume\",\"task\":\"t\",\"devices\":{\"a\":1}}",
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct err err = { 0 };
        struct ask a;

        ok(read_one(wrong[i], &a, &err) == -EBADMSG && err.text[0],
           "refused: %s", err.text);
    }
}

static void test_size(void)
{
    struct buf in = ASK_IN_INIT;
    struct ask a;
    struct err err = { 0 };

    (void) buf_add(&in, "\x01\x10\0\0", 4);
    ok(ask_next(&in, &a, &err) == -EMSGSIZE,
       "one byte too many is refused before it is read: %s", err.text);
    buf_clear(&in);
    (void) buf_add(&in, "\0\x10\0", 3);
    ok(ask_next(&in, &a, &err) == 0, "half a length waits");
    (void) buf_add(&in, "\0{", 2);
    ok(ask_next(&in, &a, &err) == 0, "a body of the largest size waits");
    buf_clear(&in);
    (void) buf_add(&in, "\0\0\0\0", 4);
    ok(ask_next(&in, &a, &err) == -EPROTO, "no body is refused");
    buf_free(&in);
}

int main(void)
{
    test_kinds();
    test_watch();
    test_suspend();
    test_was_reset();
    test_wrong();
    test_size();
    return tap_done();
}

#include "kube/status.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "kube/object.h"

#include <errno.h>
#include <string.h>

static const char forbidden[] =
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
    "\"status\":\"Failure\",\"message\":\"nodes is forbidden: User \\\"u\\\" "
    "cannot list resource \\\"nodes\\\" in API group \\\"\\\" at the cluster "
    "scope\",\"reason\":\"Forbidden\",\"details\":{\"kind\":\"nodes\"},"
    "\"code\":403}";
static const char busy[] =
    "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"slow\\ndown\","
    "\"reason\":\"TooManyRequests\",\"details\":{\"retryAfterSeconds\":7},"
    "\"code\":429}";

static void judge(int http, const char *after, const char *body,
                  struct kube_status *s)
{
    memset(s, 0xff, sizeof *s);
    status_read(http, after, body, strlen(body), s);
    printf("# %s\n", s->text);
}

static void test_answers(void)
{
    struct kube_status s;

    judge(403, NULL, forbidden, &s);
    ok(s.error == EACCES && s.http == 403 && s.wait_ms == 0 &&
       strcmp(s.text, "not allowed (403): nodes is forbidden: User \"u\" "
              "cannot list resource \"nodes\" in API group \"\" at the "
              "cluster scope") == 0, "who may not what");
    judge(429, NULL, busy, &s);
    ok(s.error == EBUSY && s.wait_ms == 7000 && !strchr(s.text, '\n'),
       "the wait of the object, on one line");
    judge(429, "9", busy, &s);
    ok(s.wait_ms == 9000, "the longer of object and header");
    judge(429, "3", "", &s);
    ok(s.error == EBUSY && s.wait_ms == 3000, "the header alone");
    judge(503, "99999999999999999999", "no", &s);
    ok(s.error == EREMOTEIO && s.wait_ms == 0, "a number that is none");
    judge(503, "100000", "no", &s);
    ok(s.wait_ms == STATUS_WAIT_MAX_MS, "nobody makes us wait for a day");
    judge(503, "Fri, 31 Dec 1999 23:59:59 GMT", "no", &s);
    ok(s.wait_ms == 0, "a date is not understood");
    judge(502, NULL, "<html>\r\n<b>Bad \xff gateway</b>", &s);
    ok(strstr(s.text, "<html>  <b>Bad ? gateway</b>") && s.error == EREMOTEIO,
       "a proxy's words, cleaned");
    judge(200, NULL, "[1,2]", &s);
    ok(s.error == EPROTO && strstr(s.text, "[1,2]"), "no object");
    judge(401, NULL, "{\"kind\":\"Status\",\"message\":\"Unauthorized\","
          "\"code\":200}", &s);
    ok(s.error == EKEYREJECTED && s.http == 401, "the answer's number counts");
    ok(status_error(404) == ENOENT && status_error(409) == EEXIST &&
       status_error(422) == EINVAL && status_error(418) == EPROTO &&
       status_error(599) == EREMOTEIO && status_error(600) == EPROTO,
       "numbers");
}

static void test_events(void)
{
    autojson json_t *gone = NULL, *odd = NULL;
    struct kube_status s;
    const char *text = "{\"kind\":\"Status\",\"code\":410,\"reason\":"
        "\"Expired\",\"message\":\"too old resource version: 1 (2)\"}";

    ok(object_read(text, strlen(text), 1000, &gone, NULL) == 0, "read");
    status_of(gone, &s);
    ok(s.error == ESTALE && strstr(s.text, "too old resource version"),
       "%s", s.text);
    odd = json_pack("{s:I, s:i}", "code", (json_int_t) 1 << 40, "message", 3);
    status_of(odd, &s);
    ok(s.error == EPROTO && s.http == 0, "a number that is no status");
}

static void test_long(void)
{
    char body[2000];
    struct kube_status s;

    memset(body, 'x', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    judge(500, NULL, body, &s);
    ok(strlen(s.text) < sizeof s.text, "cut");
}

int main(void)
{
    test_answers();
    test_events();
    test_long();
    return tap_done();
}

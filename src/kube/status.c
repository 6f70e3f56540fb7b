#include "kube/status.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "kube/object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { BODY_MAX = 1024 * 1024, EXCERPT = 80 };

int status_error(int http)
{
    static const struct {
        int http, error;
    } known[] = {
        { 400, EINVAL }, { 401, EKEYREJECTED }, { 403, EACCES },
        { 404, ENOENT }, { 409, EEXIST }, { 410, ESTALE }, { 422, EINVAL },
        { 429, EBUSY },
    };

    for (size_t i = 0; i < array_size(known); i++)
        if (known[i].http == http)
            return known[i].error;
    return http >= 500 && http < 600 ? EREMOTEIO : EPROTO;
}

static const char *meaning(int error)
{
    switch (error) {
    case EKEYREJECTED:
        return "the API server does not take these credentials";
    case EACCES:
        return "not allowed";
    case ENOENT:
        return "not found";
    case EBUSY:
        return "the API server has too much to do";
    case EREMOTEIO:
        return "the API server is in trouble";
    default:
        return "the API server says no";
    }
}

static uint64_t wait_of(uint64_t seconds)
{
    return seconds < STATUS_WAIT_MAX_MS / 1000 ? seconds * 1000
                                               : STATUS_WAIT_MAX_MS;
}

/* The message is the server's; what it means for us stands in front. */
static void say(struct kube_status *s, const char *message)
{
    char line[STATUS_TEXT - 80];

    object_line(message, strlen(message), line, sizeof line);
    (void) snprintf(s->text, sizeof s->text, "%s (%d)%s%s", meaning(s->error),
                    s->http, line[0] ? ": " : "", line);
}

void status_of(const json_t *o, struct kube_status *ret)
{
    uint64_t code = json_get_u64(o, "code", 0);
    uint64_t after = json_get_u64(json_object_get(o, "details"),
                                  "retryAfterSeconds", 0);

    *ret = (struct kube_status) {
        .http = code < 1000 ? (int) code : 0, .wait_ms = wait_of(after),
    };
    ret->error = status_error(ret->http);
    say(ret, json_get_str(o, "message", ""));
}

static void say_other(struct kube_status *s, const char *body, size_t len)
{
    char excerpt[EXCERPT];
    char line[EXCERPT + 64];

    object_line(body, len, excerpt, sizeof excerpt);
    (void) snprintf(line, sizeof line, "%s%s",
                    len ? "not in Kubernetes' own words, but " : "", excerpt);
    say(s, line);
}

void status_read(int http, const char *retry_after, const char *body,
                 size_t len, struct kube_status *ret)
{
    autojson json_t *o = NULL;
    uint64_t seconds = 0;

    if (object_read(body, len, BODY_MAX, &o, NULL) == 0 &&
        strcmp(json_get_str(o, "kind", ""), "Status") == 0) {
        status_of(o, ret);
        ret->http = http;              /* what was answered counts */
        ret->error = status_error(http);
        say(ret, json_get_str(o, "message", ""));
    } else {
        *ret = (struct kube_status) { .http = http,
                                      .error = status_error(http) };
        say_other(ret, body, len);
    }
    if (retry_after && quantity_count(retry_after, &seconds, NULL) == 0 &&
        wait_of(seconds) > ret->wait_ms)
        ret->wait_ms = wait_of(seconds);
}

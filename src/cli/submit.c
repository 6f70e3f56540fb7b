#include "cli/submit.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/cli.h"
#include "net/client.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { TRIES = 6, FIRST_PAUSE_MS = 250, SUBMIT_MS = 120 * 1000,
       PATH_MAX_BYTES = 64 * 1024 };

static char *submit_path(const struct submit *s)
{
    autobuf struct buf b = BUF_INIT(PATH_MAX_BYTES);

    buf_str(&b, "/v1/workloads?file=");
    client_escape(&b, s->file);
    for (size_t i = 0; i < s->params->count; i++) {
        buf_str(&b, "&param=");
        client_escape(&b, s->params->items[i]);
    }
    if (s->tenant) {
        buf_str(&b, "&tenant=");
        client_escape(&b, s->tenant);
    }
    if (s->priority) {
        buf_str(&b, "&priority=");
        client_escape(&b, s->priority);
    }
    return buf_take(&b);
}

static void pause_ms(unsigned ms)
{
    struct timespec ts = {
        .tv_sec = ms / 1000,
        .tv_nsec = (long) (ms % 1000) * 1000000,
    };

    while (nanosleep(&ts, &ts) < 0 && errno == EINTR)
        continue;
}

/* May the server have got it, or will it take it soon?  Nobody there at the
 * first try is for the person to mend.
 */
static bool worth_again(unsigned try, int rc, int status)
{
    if (rc == 0)
        return status == 503;
    if (rc == -ENOENT || rc == -ECONNREFUSED)
        return try > 0;
    return rc == -ECONNRESET || rc == -ETIMEDOUT;
}

static int take_reply(struct cli *c, const struct client_reply *r,
                      json_t **ret)
{
    struct err err;

    if (r->status >= 400)
        return call_refused(c, r->status, buf_text(&r->body), r->body.len);
    if (json_read(buf_text(&r->body), r->body.len, CLIENT_BODY_MAX, ret,
                  &err) < 0)
        return cli_fail(c, CLI_BROKEN, "the answer is no JSON: %s", err.text);
    return 0;
}

int submit(struct cli *c, const struct submit *s, json_t **ret)
{
    char random[33];
    autofree char *path = submit_path(s);
    autofree char *key = NULL;
    const char *headers[] = { NULL, NULL };
    struct client_request q = {
        .method = "POST", .path = path, .timeout_ms = SUBMIT_MS,
        .type = call_type_of(s->text, s->len), .body = s->text, .len = s->len,
        .headers = headers,
    };
    struct client_reply r = { 0 };
    unsigned pause = FIRST_PAUSE_MS;
    struct err err;
    int rc = cli_connect(c);

    if (rc != 0)
        return rc;
    fs_random_hex(random, 16);
    key = mem_printf("Idempotency-Key: %s", s->key ? s->key : random);
    headers[0] = key;
    for (unsigned try = 0;; try++) {
        rc = client_call(c->client, &q, &r, &err);
        if (try + 1 == TRIES || !worth_again(try, rc, r.status))
            break;
        if (rc == 0)
            client_reply_free(&r);
        pause_ms(pause);
        pause *= 2;
    }
    if (rc < 0)
        return call_lost(c, rc, &err);
    rc = take_reply(c, &r, ret);
    client_reply_free(&r);
    return rc;
}

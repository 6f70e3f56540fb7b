#include "kube/kube.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/cert.h"
#include "kube/config.h"
#include "kube/login.h"
#include "kube/status.h"
#include "net/client.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A call waits in line, then it is under way; in both it is in one list.
 *
 *     kube_start -> line -> pump -> credentials are there -> client_start
 *                                -> they are being got: the line stands still
 *                                   until login says that they changed
 *
 * The line is also still while the server wants to be left alone.
 */
enum { SAID_MAX = 1024 * 1024 };       /* of an answer that says no */

struct kube_call {
    struct kube *kube;
    struct kube_call *next, **link;
    char *method, *path, *type;
    char *body;                        /* what is sent */
    size_t len;
    bool stream, repeats, going;
    unsigned timeout_ms;
    const struct kube_ops *ops;
    void *arg;
    struct transfer *transfer;
    struct buf answer;
    struct err err;                    /* of the reader of a stream */
};

struct kube {
    struct loop *loop;
    const struct config *conf;
    struct client *client;
    struct login *login;
    struct kube_call *line, **line_end, *going;
    size_t waiting, in_flight;
    struct watch *soon, *patience;
    uint64_t quiet_until_ms, sent;
};

static void pump(struct kube *k);

static void link_call(struct kube_call *c, struct kube_call **at)
{
    c->link = at;
    c->next = *at;
    if (c->next)
        c->next->link = &c->next;
    *at = c;
}

/* The first in line, which is then in no list. */
static struct kube_call *line_take(struct kube *k)
{
    struct kube_call *c = k->line;

    k->line = c->next;
    if (c->next)
        c->next->link = &k->line;
    else
        k->line_end = &k->line;
    c->next = NULL;
    c->link = NULL;
    k->waiting--;
    return c;
}

static void unlink_call(struct kube_call *c)
{
    struct kube *k = c->kube;

    if (!c->link)
        return;
    if (k->line_end == &c->next)
        k->line_end = c->link;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    if (!c->going)
        k->waiting--;
    else if (!c->stream)
        k->in_flight--;
}

static void call_free(struct kube_call *c)
{
    free(c->method);
    free(c->path);
    free(c->type);
    free(c->body);
    buf_free(&c->answer);
    free(c);
}

static void on_soon(struct watch *w, void *arg)
{
    struct kube *k = arg;

    (void) w;
    k->soon = NULL;
    pump(k);
}

static void pump_soon(struct kube *k)
{
    if (!k->soon)
        k->soon = loop_soon(k->loop, on_soon, k);
}

void kube_cancel(struct kube_call *c)
{
    if (!c)
        return;
    unlink_call(c);
    transfer_cancel(c->transfer);
    pump_soon(c->kube);
    call_free(c);
}

/* The call is out of its list before anybody hears of its end, and its memory
 * goes after that.
 */
static void finish(struct kube_call *c, const struct kube_answer *a)
{
    struct kube *k = c->kube;

    unlink_call(c);
    c->ops->done(a, c->arg);
    call_free(c);
    pump_soon(k);
}

static void fail(struct kube_call *c, int rc, const char *text)
{
    struct kube_answer a = { .rc = rc, .text = text };

    finish(c, &a);
}

/* ---- what comes back ---- */

static bool said_yes(const struct transfer *t)
{
    return transfer_status(t) >= 200 && transfer_status(t) < 300;
}

static void on_head(struct transfer *t, void *arg)
{
    struct kube_call *c = arg;

    if (c->stream && said_yes(t))
        c->ops->head(c->arg);
    c->answer.max = said_yes(t) ? KUBE_BODY_MAX : SAID_MAX;
}

static int on_bytes(struct transfer *t, const char *p, size_t n, void *arg)
{
    struct kube_call *c = arg;

    if (c->stream && said_yes(t))
        return c->ops->bytes(p, n, c->arg, &c->err);
    if (buf_add(&c->answer, p, n))
        return 0;
    return err_set(&c->err, EMSGSIZE, "an answer of more than %zu MiB",
                   c->answer.max >> 20);
}

/* A certificate that has ended is refused as if nobody were known by it. */
static void add_cert(const struct kube *k, struct kube_status *s)
{
    const struct credential *now = NULL;
    autofree char *file = NULL;
    const char *pem = k->conf->cert;
    uint64_t until_ms = 0;
    char when[32];
    size_t len = strlen(s->text);

    if (login_get(k->login, &now, NULL) == 0 && now->cert)
        pem = now->cert;
    else if (!pem && k->conf->cert_file &&
             fs_read(k->conf->cert_file, CONFIG_FILE_MAX, &file, NULL,
                     NULL) == 0)
        pem = file;
    if (!pem || cert_until(pem, &until_ms) < 0 || until_ms > clock_wall_ms())
        return;
    clock_print(until_ms, when, sizeof when);
    (void) snprintf(s->text + len, sizeof s->text - len,
                    "; the client's certificate ended at %s", when);
}

/* Nothing leaves before then. */
static void be_quiet(struct kube *k, uint64_t ms)
{
    uint64_t until = loop_now(k->loop) + ms;

    if (until > k->quiet_until_ms)
        k->quiet_until_ms = until;
}

static void answer_no(struct kube_call *c, struct transfer *t)
{
    struct kube *k = c->kube;
    struct kube_status s;
    struct kube_answer a;

    status_read(transfer_status(t), transfer_header(t, "Retry-After"),
                buf_text(&c->answer), c->answer.len, &s);
    if (s.error == EKEYREJECTED) {
        add_cert(k, &s);
        login_refused(k->login);
    }
    if (s.wait_ms)
        be_quiet(k, s.wait_ms);
    a = (struct kube_answer) { .rc = -s.error, .http = s.http, .text = s.text,
                               .wait_ms = s.wait_ms };
    finish(c, &a);
}

static void on_done(struct transfer *t, int rc, const struct err *err,
                    void *arg)
{
    struct kube_call *c = arg;
    struct kube_answer a = { .rc = rc, .http = transfer_status(t),
                             .text = err->text };

    c->transfer = NULL;
    if (rc < 0) {
        a.text = c->err.text[0] ? c->err.text : err->text;
        finish(c, &a);
        return;
    }
    if (!said_yes(t)) {
        answer_no(c, t);
        return;
    }
    a.text = "";
    a.body = c->stream ? "" : buf_text(&c->answer);
    a.len = c->answer.len;
    finish(c, &a);
}

static const struct transfer_ops transfer_ops = {
    .head = on_head,
    .bytes = on_bytes,
    .done = on_done,
};

/* ---- what leaves ---- */

static int send_call(struct kube_call *c, const struct credential *who,
                     struct err *err)
{
    struct kube *k = c->kube;
    autofree char *bearer = who->token
        ? mem_printf("Authorization: Bearer %s", who->token) : NULL;
    const char *headers[] = { "Accept: application/json", bearer, NULL };
    struct client_request q = {
        .method = c->method, .path = c->path, .type = c->type,
        .body = c->body, .len = c->len, .headers = headers,
        .timeout_ms = c->timeout_ms, .repeats = c->repeats, .cert_text = who->cert,
        .key_text = who->key,
    };
    int rc = client_start(k->client, &q, &transfer_ops, c, &c->transfer, err);

    if (bearer)
        explicit_bzero(bearer, strlen(bearer));
    if (rc < 0)
        return rc;
    k->sent++;
    c->going = true;
    k->in_flight += !c->stream;
    link_call(c, &k->going);
    return 0;
}

static void on_patience(struct watch *w, void *arg)
{
    struct kube *k = arg;

    (void) w;
    k->patience = NULL;
    pump(k);
}

static bool quiet(struct kube *k)
{
    uint64_t now = loop_now(k->loop);

    if (now >= k->quiet_until_ms)
        return false;
    if (!k->patience)
        k->patience = loop_timer(k->loop, k->quiet_until_ms - now, on_patience,
                                 k);
    return true;
}

static void pump(struct kube *k)
{
    while (k->line && !quiet(k)) {
        const struct credential *who = NULL;
        struct kube_call *c;
        struct err err = { 0 };
        int rc;

        if (!k->line->stream && k->in_flight >= KUBE_IN_FLIGHT)
            return;
        rc = login_get(k->login, &who, &err);
        if (rc == -EAGAIN)
            return;                    /* on_login follows */
        c = line_take(k);
        if (rc == 0)
            rc = send_call(c, who, &err);
        if (rc < 0)
            fail(c, rc, err.text);
    }
}

static void on_login(void *arg)
{
    pump(arg);
}

int kube_start(struct kube *k, const struct kube_request *q,
               const struct kube_ops *ops, void *arg, struct kube_call **ret,
               struct err *err)
{
    struct kube_call *c;

    if (k->waiting >= KUBE_QUEUE)
        return err_set(err, EAGAIN, "%s: more than %d requests wait",
                       kube_name(k), KUBE_QUEUE);
    c = mem_new(sizeof *c);
    *c = (struct kube_call) {
        .kube = k, .method = mem_str(q->method), .path = mem_str(q->path),
        .type = mem_str(q->type), .stream = q->stream,
        .repeats = q->repeats, .ops = ops, .arg = arg,
        .body = q->len ? mem_dup(q->body, q->len) : NULL, .len = q->len,
        .timeout_ms = q->timeout_ms || q->stream ? q->timeout_ms
                                                 : KUBE_ANSWER_MS,
        .answer = BUF_INIT(SAID_MAX),
    };
    link_call(c, k->line_end);
    k->line_end = &c->next;
    k->waiting++;
    pump_soon(k);
    *ret = c;
    return 0;
}

/* ---- open and close ---- */

int kube_open(struct loop *l, const struct config *conf, struct kube **ret,
              struct err *err)
{
    struct client_conf cc = {
        .url = conf->server, .ca = conf->ca_file, .ca_text = conf->ca,
        .cert = conf->cert_file, .cert_text = conf->cert,
        .key = conf->key_file, .key_text = conf->key,
        .server_name = conf->server_name,
    };
    struct kube *k = mem_new(sizeof *k);
    int rc;

    k->loop = l;
    k->conf = conf;
    k->line_end = &k->line;
    rc = client_open(l, &cc, &k->client, err);
    if (rc < 0) {
        free(k);
        return err_prefix(err, rc, "%s", conf->name);
    }
    k->login = login_open(l, conf, on_login, k);
    *ret = k;
    return 0;
}

static void free_all(struct kube_call *c)
{
    struct kube_call *next;

    for (; c; c = next) {
        next = c->next;
        call_free(c);
    }
}

void kube_close(struct kube *k)
{
    if (!k)
        return;
    watch_remove(k->soon);
    watch_remove(k->patience);
    login_close(k->login);
    client_close(k->client);
    free_all(k->line);
    free_all(k->going);
    free(k);
}

const char *kube_name(const struct kube *k)
{
    return k->conf->server;
}

uint64_t kube_sent(const struct kube *k)
{
    return k->sent;
}

struct loop *kube_loop(const struct kube *k)
{
    return k->loop;
}

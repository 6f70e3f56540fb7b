#include "net/client.h"

#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <openssl/x509_vfy.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

/* libcurl's multi interface, driven by our loop: curl says which descriptors
 * and which one timeout it wants watched, the loop tells it when they are due.
 *
 * Callbacks of libcurl may not call into it again for the same transfer, so a
 * transfer that ends is taken from the list of messages after each step, and
 * `done` is called from there, outside of any callback of libcurl.
 */
enum {
    CONNECT_MS = 5000,
    HEAD_MAX = 64 * 1024,
};

struct client {
    struct loop *loop;
    CURLM *multi;
    struct watch *timer;
    struct transfer *transfers;
    char *name, *socket, *url, *token, *ca, *cert, *key;
    char *ca_text, *cert_text, *key_text;
    struct curl_slist *connect_to;     /* where the URL's host really is */
};

struct transfer {
    struct client *client;
    CURL *easy;
    struct curl_slist *headers;
    const struct transfer_ops *ops;
    void *arg;
    struct buf head;                   /* "name: value\n" lines, as received */
    char *value;                       /* what transfer_header gave last */
    int status, stopped;
    char text[CURL_ERROR_SIZE];
    struct transfer *next, **link;
};

static void client_step(struct client *c, int fd, int what);

/* ---- the loop's side ---- */

static void on_fd(struct watch *w, int fd, unsigned ready, void *arg)
{
    int what = 0;

    (void) w;
    if (ready & LOOP_READ)
        what |= CURL_CSELECT_IN;
    if (ready & LOOP_WRITE)
        what |= CURL_CSELECT_OUT;
    client_step(arg, fd, what);
}

static void on_timer(struct watch *w, void *arg)
{
    struct client *c = arg;

    (void) w;
    c->timer = NULL;
    client_step(c, CURL_SOCKET_TIMEOUT, 0);
}

static int want_timer(CURLM *m, long after_ms, void *arg)
{
    struct client *c = arg;

    (void) m;
    watch_remove(c->timer);
    c->timer = NULL;
    if (after_ms >= 0)
        c->timer = loop_timer(c->loop, (uint64_t) after_ms, on_timer, c);
    return 0;
}

static int want_fd(CURL *easy, curl_socket_t fd, int what, void *arg,
                   void *known)
{
    struct client *c = arg;
    struct watch *w = known;
    unsigned want = 0;

    (void) easy;
    if (what == CURL_POLL_REMOVE) {
        watch_remove(w);
        return 0;
    }
    if (what & CURL_POLL_IN)
        want |= LOOP_READ;
    if (what & CURL_POLL_OUT)
        want |= LOOP_WRITE;
    if (w) {
        watch_want(w, want);
        return 0;
    }
    if (loop_fd(c->loop, fd, want, on_fd, c, &w, NULL) < 0)
        return -1;
    (void) curl_multi_assign(c->multi, fd, w);
    return 0;
}

/* ---- the end of a transfer ---- */

static void transfer_free(struct transfer *t)
{
    if (!t)
        return;
    *t->link = t->next;
    if (t->next)
        t->next->link = t->link;
    (void) curl_multi_remove_handle(t->client->multi, t->easy);
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    buf_free(&t->head);
    free(t->value);
    free(t);
}

void transfer_cancel(struct transfer *t)
{
    transfer_free(t);
}

static int connect_failed(const struct transfer *t, struct err *err)
{
    const struct client *c = t->client;
    long os = 0;

    (void) curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os);
    if (os != ENOENT && os != EACCES && os != EPERM)
        os = ECONNREFUSED;
    if (os == EPERM)
        os = EACCES;
    return err_set(err, (int) os, "%s: %s", c->name, strerror((int) os));
}

/* What is wrong with a certificate, in words for who must act; NULL: curl's
 * are right.
 */
static const char *certificate_fault(const struct transfer *t)
{
    long verified = 0;

    (void) curl_easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &verified);
    switch (verified) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "its certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "its certificate is not valid yet; is the clock right?";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "its certificate is not signed by an authority that is trusted "
               "here";
    default:
        return NULL;
    }
}

static int transfer_result(const struct transfer *t, CURLcode rc,
                           struct err *err)
{
    const char *fault;
    const char *text = t->text[0] ? t->text : curl_easy_strerror(rc);
    const char *name = t->client->name;

    switch ((int) rc) {
    case CURLE_OK:
        return 0;
    case CURLE_WRITE_ERROR:
        if (t->stopped)
            return err_set(err, -t->stopped, "stopped");
        return err_set(err, EPROTO, "%s: %s", name, text);
    case CURLE_COULDNT_CONNECT:
        return connect_failed(t, err);
    case CURLE_COULDNT_RESOLVE_HOST:
        return err_set(err, ENOENT, "%s: %s", name, text);
    case CURLE_OPERATION_TIMEDOUT:
        return err_set(err, ETIMEDOUT, "%s: no answer in time (%s)", name,
                       text);
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_PARTIAL_FILE:
        return err_set(err, ECONNRESET, "%s: the connection broke (%s)", name,
                       text);
    case CURLE_OUT_OF_MEMORY:
        mem_none();
    case CURLE_PEER_FAILED_VERIFICATION:
        fault = certificate_fault(t);
        return err_set(err, EPROTO, "%s: %s", name, fault ? fault : text);
    case CURLE_SSL_CONNECT_ERROR:
        return err_set(err, EPROTO, "%s: no TLS with it: %s", name, text);
    case CURLE_UNSUPPORTED_PROTOCOL:   /* it began with no status line */
    case CURLE_WEIRD_SERVER_REPLY:
        return err_set(err, EPROTO, "%s: what answers does not speak HTTP",
                       name);
    default:
        return err_set(err, EPROTO, "%s: %s", name, text);
    }
}

static void client_step(struct client *c, int fd, int what)
{
    CURLMsg *m;
    int n;

    (void) curl_multi_socket_action(c->multi, fd, what, &n);
    while ((m = curl_multi_info_read(c->multi, &n))) {
        struct transfer *t = NULL;
        struct err err = { 0 };
        int rc;

        if (m->msg != CURLMSG_DONE)
            continue;
        (void) curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE,
                                 (char **) &t);
        rc = transfer_result(t, m->data.result, &err);
        t->ops->done(t, rc, &err, t->arg);
        transfer_free(t);
    }
}

/* ---- what comes in ---- */

static size_t on_head(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;

    (void) size;
    if (n > 5 && memcmp(p, "HTTP/", 5) == 0)
        buf_clear(&t->head);           /* what came before was interim */
    (void) curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    t->status = (int) status;
    if (!buf_add(&t->head, p, n))
        return 0;
    if (p[0] == '\r' && status >= 200)
        t->ops->head(t, t->arg);
    return n;
}

static size_t on_bytes(char *p, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    int rc;

    (void) size;
    rc = t->ops->bytes(t, p, n, t->arg);
    if (rc < 0) {
        t->stopped = rc;
        return 0;
    }
    return n;
}

int transfer_status(const struct transfer *t)
{
    return t->status;
}

const char *transfer_header(struct transfer *t, const char *name)
{
    const char *line = buf_text(&t->head);
    size_t len = strlen(name);

    while (*line) {
        size_t n = strcspn(line, "\r\n");

        if (n > len && line[len] == ':' && strncasecmp(line, name, len) == 0) {
            size_t skip = len + 1;

            while (skip < n && (line[skip] == ' ' || line[skip] == '\t'))
                skip++;
            free(t->value);
            t->value = mem_strn(line + skip, n - skip);
            return t->value;
        }
        line += n + strspn(line + n, "\r\n");
    }
    return NULL;
}

/* ---- making a request ---- */

static bool has_break(const char *s)
{
    return s[strcspn(s, "\r\n")] != '\0';
}

static int add_header(struct transfer *t, const char *line, struct err *err)
{
    struct curl_slist *more;

    if (has_break(line))
        return err_set(err, EINVAL, "a header may not hold a line break");
    more = curl_slist_append(t->headers, line);
    if (!more)
        mem_none();
    t->headers = more;
    return 0;
}

static int set_headers(struct transfer *t, const struct client_request *q,
                       struct err *err)
{
    const struct client *c = t->client;
    int rc = add_header(t, "Expect:", err);

    for (size_t i = 0; rc == 0 && q->headers && q->headers[i]; i++)
        rc = add_header(t, q->headers[i], err);
    if (rc == 0 && q->type) {
        autofree char *line = mem_printf("Content-Type: %s", q->type);

        rc = add_header(t, line, err);
    }
    if (rc == 0 && c->token) {
        autofree char *line = mem_printf("Authorization: Bearer %s", c->token);

        rc = add_header(t, line, err);
    }
    return rc;
}

/* A text that lives as long as the client lives longer than a transfer, and
 * needs no copy.
 */
static void set_blob(CURL *e, CURLoption option, const char *text,
                     unsigned flags)
{
    struct curl_blob blob = { .data = (void *) (uintptr_t) text,
                              .len = strlen(text), .flags = flags };

    (void) curl_easy_setopt(e, option, &blob);
}

static void set_trust(const struct client *c, CURL *e)
{
    if (c->ca_text)
        set_blob(e, CURLOPT_CAINFO_BLOB, c->ca_text,
                 CURL_BLOB_NOCOPY);
    else if (c->ca)
        (void) curl_easy_setopt(e, CURLOPT_CAINFO, c->ca);
    if (c->cert_text)
        set_blob(e, CURLOPT_SSLCERT_BLOB, c->cert_text,
                 CURL_BLOB_NOCOPY);
    else if (c->cert)
        (void) curl_easy_setopt(e, CURLOPT_SSLCERT, c->cert);
    if (c->key_text)
        set_blob(e, CURLOPT_SSLKEY_BLOB, c->key_text,
                 CURL_BLOB_NOCOPY);
    else if (c->key)
        (void) curl_easy_setopt(e, CURLOPT_SSLKEY, c->key);
}

static void set_where(const struct client *c, CURL *e, const char *path)
{
    autofree char *url = mem_printf("%s%s", c->url, path);

    (void) curl_easy_setopt(e, CURLOPT_URL, url);
    if (c->socket) {
        (void) curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, c->socket);
        (void) curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http");
        (void) curl_easy_setopt(e, CURLOPT_PROXY, "");
        return;
    }
    (void) curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "https");
    /* A stream may be silent for hours; a machine that vanished is noticed. */
    (void) curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    (void) curl_easy_setopt(e, CURLOPT_TCP_KEEPIDLE, 20L);
    (void) curl_easy_setopt(e, CURLOPT_TCP_KEEPINTVL, 10L);
    if (c->connect_to)
        (void) curl_easy_setopt(e, CURLOPT_CONNECT_TO, c->connect_to);
    set_trust(c, e);
}

static void set_request(struct transfer *t, const struct client_request *q)
{
    CURL *e = t->easy;
    bool get = strcmp(q->method, "GET") == 0;

    (void) curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    (void) curl_easy_setopt(e, CURLOPT_ERRORBUFFER, t->text);
    (void) curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_head);
    (void) curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    (void) curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_bytes);
    (void) curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    (void) curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    (void) curl_easy_setopt(e, CURLOPT_USERAGENT, "weir/" WEIR_VERSION);
    (void) curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
                            (long) CURL_HTTP_VERSION_1_1);
    (void) curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
    (void) curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long) q->timeout_ms);
    /* libcurl repeats a request by itself when a kept connection turns out
     * to be dead; what is not harmless to repeat gets a new one.
     */
    if (!get && !q->repeats)
        (void) curl_easy_setopt(e, CURLOPT_FRESH_CONNECT, 1L);
    if (q->type || strcmp(q->method, "POST") == 0) {
        (void) curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE,
                                (curl_off_t) q->len);
        (void) curl_easy_setopt(e, CURLOPT_POSTFIELDS, q->len ? q->body : "");
    }
    (void) curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, q->method);
}

int client_start(struct client *c, const struct client_request *q,
                 const struct transfer_ops *ops, void *arg,
                 struct transfer **ret, struct err *err)
{
    struct transfer *t = mem_new(sizeof *t);
    int rc;

    t->client = c;
    t->ops = ops;
    t->arg = arg;
    t->head.max = HEAD_MAX;
    t->easy = curl_easy_init();
    if (!t->easy)
        mem_none();
    t->link = &c->transfers;
    t->next = c->transfers;
    if (t->next)
        t->next->link = &t->next;
    c->transfers = t;
    rc = set_headers(t, q, err);
    if (rc < 0) {
        transfer_free(t);
        return rc;
    }
    set_where(c, t->easy, q->path);
    set_request(t, q);
    if (q->cert_text && !c->socket) {
        set_blob(t->easy, CURLOPT_SSLCERT_BLOB, q->cert_text, CURL_BLOB_COPY);
        set_blob(t->easy, CURLOPT_SSLKEY_BLOB, q->key_text, CURL_BLOB_COPY);
    }
    if (curl_multi_add_handle(c->multi, t->easy) != CURLM_OK) {
        transfer_free(t);
        return err_set(err, EPROTO, "%s: cannot start a request", c->name);
    }
    *ret = t;
    return 0;
}

/* ---- waiting for the whole answer ---- */

struct waiting {
    struct client_reply reply;
    struct err err;
    bool done;
    int rc;
};

static void keep_head(struct transfer *t, void *arg)
{
    (void) t;
    (void) arg;
}

static int keep_bytes(struct transfer *t, const char *p, size_t n, void *arg)
{
    struct waiting *w = arg;

    (void) t;
    return buf_add(&w->reply.body, p, n) ? 0 : -EMSGSIZE;
}

static void keep_done(struct transfer *t, int rc, const struct err *err,
                      void *arg)
{
    struct waiting *w = arg;
    const char *type = transfer_header(t, "Content-Type");

    w->done = true;
    w->rc = rc;
    w->err = *err;
    w->reply.status = transfer_status(t);
    if (type) {
        size_t n = strcspn(type, "; ");

        if (n < sizeof w->reply.type)
            memcpy(w->reply.type, type, n);
    }
}

static const struct transfer_ops keep_ops = {
    .head = keep_head,
    .bytes = keep_bytes,
    .done = keep_done,
};

int client_call(struct client *c, const struct client_request *q,
                struct client_reply *ret, struct err *err)
{
    struct waiting w = { .reply.body.max = CLIENT_BODY_MAX };
    struct transfer *t;
    int rc = client_start(c, q, &keep_ops, &w, &t, err);

    if (rc < 0)
        return rc;
    while (!w.done) {
        rc = loop_turn(c->loop, -1, err);
        if (rc < 0) {
            transfer_cancel(t);
            buf_free(&w.reply.body);
            return rc;
        }
    }
    if (w.rc < 0) {
        buf_free(&w.reply.body);
        return err_set(err, -w.rc, "%s", w.err.text);
    }
    *ret = w.reply;
    return 0;
}

void client_reply_free(struct client_reply *r)
{
    buf_free(&r->body);
}

/* ---- open and close ---- */

static int check_conf(const struct client_conf *conf, struct err *err)
{
    const struct sockaddr_un *addr = NULL;

    if (conf->socket && strlen(conf->socket) >= sizeof addr->sun_path)
        return err_set(err, ENAMETOOLONG,
                       "socket '%s': the path is longer than %zu bytes",
                       conf->socket, sizeof addr->sun_path - 1);
    if (!conf->socket && strncmp(conf->url, "https://", 8) != 0)
        return err_set(err, EINVAL, "server '%s': expected https://HOST:PORT",
                       conf->url);
    if ((!conf->cert && !conf->cert_text) != (!conf->key && !conf->key_text))
        return err_set(err, EINVAL,
                       "a client certificate and its key go together");
    if (conf->token && (has_break(conf->token) || !conf->token[0]))
        return err_set(err, EINVAL, "the token is empty or not one line");
    return 0;
}

/* "https://10.0.0.1:6443/x" asked by the name "kubernetes" is
 * "https://kubernetes:6443/x", which is looked for at 10.0.0.1:6443.
 */
static void set_server_name(struct client *c, const char *name)
{
    const char *host = c->url + strlen("https://");
    size_t len = strcspn(host, "/");
    size_t hlen = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/");
    autofree char *port = hlen < len ? mem_strn(host + hlen + 1,
                                                len - hlen - 1)
                                     : mem_str("443");
    autofree char *to = mem_printf("::%.*s:%s", (int) hlen, host, port);
    char *url = mem_printf("https://%s:%s%s", name, port, host + len);

    c->connect_to = curl_slist_append(NULL, to);
    if (!c->connect_to)
        mem_none();
    free(c->url);
    c->url = url;
}

int client_open(struct loop *l, const struct client_conf *conf,
                struct client **ret, struct err *err)
{
    struct client *c;
    int rc = check_conf(conf, err);

    if (rc < 0)
        return rc;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_set(err, EPROTO, "libcurl does not start");
    c = mem_new(sizeof *c);
    c->loop = l;
    c->multi = curl_multi_init();
    if (!c->multi)
        mem_none();
    c->socket = mem_str(conf->socket);
    c->url = mem_str(conf->socket ? "http://weir" : conf->url);
    c->name = mem_str(conf->socket ? conf->socket : conf->url);
    c->token = mem_str(conf->token);
    c->ca = mem_str(conf->ca);
    c->cert = mem_str(conf->cert);
    c->key = mem_str(conf->key);
    c->ca_text = mem_str(conf->ca_text);
    c->cert_text = mem_str(conf->cert_text);
    c->key_text = mem_str(conf->key_text);
    if (conf->server_name && !conf->socket)
        set_server_name(c, conf->server_name);
    (void) curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, want_fd);
    (void) curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    (void) curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, want_timer);
    (void) curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    *ret = c;
    return 0;
}

void client_close(struct client *c)
{
    struct transfer *t, *next;

    if (!c)
        return;
    for (t = c->transfers; t; t = next) {
        next = t->next;
        transfer_free(t);
    }
    (void) curl_multi_cleanup(c->multi);
    watch_remove(c->timer);
    free(c->name);
    free(c->socket);
    free(c->url);
    free(c->token);
    free(c->ca);
    free(c->cert);
    free(c->key);
    free(c->ca_text);
    free(c->cert_text);
    if (c->key_text)
        explicit_bzero(c->key_text, strlen(c->key_text));
    free(c->key_text);
    curl_slist_free_all(c->connect_to);
    free(c);
    curl_global_cleanup();
}

const char *client_name(const struct client *c)
{
    return c->name;
}

void client_escape(struct buf *b, const char *s)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *s; s++) {
        unsigned char ch = (unsigned char) *s;

        if (isascii(ch) && (isalnum(ch) || strchr("-._~", ch))) {
            buf_char(b, (char) ch);
            continue;
        }
        buf_char(b, '%');
        buf_char(b, hex[ch >> 4]);
        buf_char(b, hex[ch & 15]);
    }
}

#include "net/tls.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"
#include "net/authority.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY_MS (UINT64_C(24) * 3600 * 1000)

static char dir[] = "/tmp/weir-tls-XXXXXX";

/* Two ends, joined by a pair of sockets. */
static struct pair {
    int fd[2];
    struct tls *dials, *listens;
    int dial_rc, listen_rc;
    struct err dial_err, listen_err;
} p;

static struct tls_end *listener(const struct authority *a, uint64_t now_ms)
{
    static const char *const names[] = { "weir.example", "127.0.0.1", "::1" };
    autofree char *cert = NULL, *key = NULL;
    struct tls_end *e = NULL;

    ok(authority_issue(a, now_ms, names, 3, &cert, &key, NULL) == 0 &&
       tls_listener(cert, key, &e, NULL) == 0, "a listener");
    return e;
}

static struct tls_end *dialler(const struct authority *a)
{
    autofree char *ca = NULL;
    struct tls_end *e = NULL;

    ok(fs_read(authority_path(a), 65536, &ca, NULL, NULL) == 0 &&
       tls_dialler(ca, "ca.pem", &e, NULL) == 0, "a dialler");
    return e;
}

static void shake(struct tls_end *from, struct tls_end *to, const char *name)
{
    p = (struct pair) { 0 };
    ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p.fd) == 0 &&
       tls_open(from, p.fd[0], name, &p.dials, NULL) == 0 &&
       tls_open(to, p.fd[1], NULL, &p.listens, NULL) == 0, "%s", name);
    for (int i = 0; i < 10; i++) {
        if (p.dial_rc == 0)
            p.dial_rc = tls_shake(p.dials, &p.dial_err);
        if (p.listen_rc == 0)
            p.listen_rc = tls_shake(p.listens, &p.listen_err);
    }
}

static void part(void)
{
    tls_free(p.dials);
    tls_free(p.listens);
    (void) close(p.fd[0]);
    (void) close(p.fd[1]);
}

static void refused(struct tls_end *from, struct tls_end *to, const char *name,
                    const char *why)
{
    shake(from, to, name);
    ok(p.dial_rc == -EACCES && strstr(p.dial_err.text, why), "%s",
       p.dial_err.text);
    ok(p.listen_rc == -EPROTO, "and it hears: %s", p.listen_err.text);
    part();
}

/* Only by its name, or its address. */
static void test_names(struct tls_end *from, struct tls_end *to)
{
    static const char *const good[] = { "weir.example", "127.0.0.1", "::1" };

    for (size_t i = 0; i < array_size(good); i++) {
        shake(from, to, good[i]);
        ok(p.dial_rc == 1 && p.listen_rc == 1, "is it");
        part();
    }
    refused(from, to, "other.example", "not for 'other.example'");
    refused(from, to, "127.0.0.2", "not for '127.0.0.2'");
    refused(from, to, "sub.weir.example", "not for");
}

static void test_times(const struct authority *a, struct tls_end *from)
{
    uint64_t now = clock_wall_ms();
    struct tls_end *old = listener(a, now - 91 * DAY_MS);
    struct tls_end *young = listener(a, now + 3 * DAY_MS);
    autofree char *cert = NULL, *key = NULL;
    const char *name = "weir.example";

    refused(from, old, name, "ended at 20");
    refused(from, young, name, "begins at 20");
    ok(authority_issue(a, now, &name, 1, &cert, &key, NULL) == 0 &&
       tls_listener_renew(old, cert, key, NULL) == 0, "renewed");
    shake(from, old, name);
    ok(p.dial_rc == 1, "and taken");
    part();
    ok(tls_listener_renew(old, cert, "no key", NULL) == -EPROTO, "no key");
    shake(from, old, name);
    ok(p.dial_rc == 1, "changes nothing");
    part();
    ok(!authority_due(now, now) && !authority_due(now, now - DAY_MS / 4) &&
       !authority_due(now, now + DAY_MS), "it is kept");
    ok(authority_due(now, now + 80 * DAY_MS), "and renewed in time");
    ok(authority_due(now, now - DAY_MS + 1), "also when the clock goes back");
    tls_end_free(old);
    tls_end_free(young);
}

static void test_authority(struct tls_end *from, struct tls_end *to)
{
    autofree char *other_dir = mem_printf("%s/other", dir);
    autofree char *key = mem_printf("%s/ca.key", other_dir);
    struct authority *other = NULL;
    struct tls_end *wrong, *own;
    uint64_t now = clock_wall_ms();
    struct err err = { 0 };
    struct stat st;

    ok(authority_open(other_dir, now, &other, NULL) == 0, "another authority");
    wrong = dialler(other);
    refused(wrong, to, "weir.example", "not signed by the authority");
    authority_close(other);
    ok(stat(key, &st) == 0 && (st.st_mode & 0777) == 0600, "its key is shut");
    /* Found again; and when half of its time is over, under the same key. */
    ok(authority_open(other_dir, now, &other, NULL) == 0, "opened again");
    own = listener(other, now);
    shake(wrong, own, "::1");
    ok(p.dial_rc == 1, "is the same");
    part();
    tls_end_free(own);
    authority_close(other);
    ok(authority_open(other_dir, now + 11 * 365 * DAY_MS, &other, NULL) == 0,
       "years later");
    own = listener(other, now);
    shake(wrong, own, "::1");
    ok(p.dial_rc == 1, "who trusted it before still does");
    part();
    tls_end_free(own);
    tls_end_free(wrong);
    authority_close(other);
    other = NULL;
    ok(chmod(key, 0640) == 0 &&
       authority_open(other_dir, now, &other, &err) == -EPERM, "%s", err.text);
    ok(unlink(key) == 0 &&
       authority_open(other_dir, now, &other, &err) == -ENOENT && !other,
       "%s", err.text);
    (void) from;
}

/* A key whose certificate was not written any more. */
static void test_half(void)
{
    autofree char *half = mem_printf("%s/half", dir);
    autofree char *pem = mem_printf("%s/half/ca.pem", dir);
    struct authority *a = NULL;
    struct err err = { 0 };

    ok(authority_open(half, clock_wall_ms(), &a, NULL) == 0, "made");
    authority_close(take(a));
    ok(unlink(pem) == 0 &&
       authority_open(half, clock_wall_ms(), &a, NULL) == 0 &&
       access(pem, R_OK) == 0, "and finished");
    authority_close(take(a));
    ok(fs_write(pem, "rubbish", 7, 0644, false, NULL) == 0 &&
       authority_open(half, clock_wall_ms(), &a, &err) < 0 && !a, "%s",
       err.text);
}

/* 1 MiB in one direction while the other one is silent. */
static void test_bytes(struct tls_end *from, struct tls_end *to)
{
    enum { LEN = 1024 * 1024 };
    autofree char *out = mem_new(LEN), *in = mem_new(LEN + 65536);
    size_t left = 0, came = 0;
    unsigned blocked = 0;
    struct err err = { 0 };
    int rc = 0;

    for (size_t i = 0; i < LEN; i++)
        out[i] = (char) (i * 7 + i / 251);
    shake(from, to, "weir.example");
    ok(tls_read(p.listens, in, 65536, &came, NULL) == 0, "nothing yet");
    while (came < LEN && rc >= 0) {
        size_t n = 0;

        rc = 1;
        while (left < LEN && rc == 1) {
            rc = tls_write(p.dials, out + left, LEN - left, &n);
            left += rc == 1 ? n : 0;
        }
        blocked += rc == 0;
        while (rc >= 0 && tls_read(p.listens, in + came, 65536, &n, NULL) == 1)
            came += n;
    }
    ok(came == LEN && memcmp(in, out, LEN) == 0, "all of it, as it was");
    ok(blocked > 0, "though the socket was full %u times", blocked);
    ok(tls_came(p.listens) > LEN && tls_left(p.dials) > LEN, "and counted");
    tls_free(take(p.dials));
    ok(tls_read(p.listens, in, 65536, &came, &err) == -EPIPE, "%s", err.text);
    part();
}

/* What is no TLS, and what is no TLS any more. */
static void test_garbage(struct tls_end *from, struct tls_end *to)
{
    static const struct {
        const char *text;
        size_t len;
    } said[] = {
        { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27 },
        { "hello? is somebody there?", 25 },
        { "\x16\x03\x01\xff\xff\x01", 6 },
        { "\x16\x03\x01\x00\x05\x02 abc", 10 },
    };
    char in[65536];
    size_t n = 0;

    for (size_t i = 0; i < array_size(said); i++) {
        p = (struct pair) { 0 };
        ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p.fd) == 0 &&
           tls_open(to, p.fd[1], NULL, &p.listens, NULL) == 0, "a pair");
        (void) send(p.fd[0], said[i].text, said[i].len, 0);
        p.listen_rc = tls_shake(p.listens, &p.listen_err);
        ok(p.listen_rc == -EPROTO, "%s", p.listen_err.text);
        part();
    }
    shake(from, to, "::1");
    (void) send(p.fd[0], "garbage in the midst of it", 26, 0);
    ok(tls_read(p.listens, in, sizeof in, &n, &p.listen_err) == -EPROTO, "%s",
       p.listen_err.text);
    ok(tls_read(p.listens, in, sizeof in, &n, NULL) < 0, "and stays so");
    part();
}

enum { UPDATES = 3000 };

/* What a peer that is OpenSSL itself sends, *p's other end having shaken hands
 * with it: a new key over and over again, and then a byte.
 */
static void send_updates(SSL *ssl)
{
    BIO *out = mem_there(BIO_new(BIO_s_mem()));
    char *bytes = NULL;
    size_t n = 0;
    long len;

    SSL_set0_wbio(ssl, out);
    for (int i = 0; i < UPDATES; i++)
        n += SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
             SSL_do_handshake(ssl) == 1;
    ok(n == UPDATES && SSL_write(ssl, "x", 1) == 1, "%zu new keys", n);
    len = BIO_get_mem_data(out, &bytes);
    ok(len > UPDATES && send(p.fd[0], bytes, (size_t) len,
                             MSG_DONTWAIT | MSG_NOSIGNAL) == len,
       "in %ld bytes", len);
}

/* Somebody who has only new keys to say does not keep a read busy. */
static void test_updates(struct tls_end *to)
{
    SSL_CTX *ctx = mem_there(SSL_CTX_new(TLS_client_method()));
    SSL *ssl = mem_there(SSL_new(ctx));
    size_t n = 0, most = 0, calls = 0;
    char in[65536] = { 0 };
    int rc = 0;

    p = (struct pair) { 0 };
    ok(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
                  p.fd) == 0 && SSL_set_fd(ssl, p.fd[0]) == 1 &&
       tls_open(to, p.fd[1], NULL, &p.listens, NULL) == 0, "a pair");
    for (int i = 0; i < 10 && p.listen_rc == 0; i++) {
        p.dial_rc = SSL_connect(ssl);
        p.listen_rc = tls_shake(p.listens, &p.listen_err);
    }
    ok(p.dial_rc == 1 && p.listen_rc == 1, "shaken %s", p.listen_err.text);
    send_updates(ssl);
    while (rc == 0 && calls <= UPDATES) {
        uint64_t before = tls_came(p.listens);

        rc = tls_read(p.listens, in, sizeof in, &n, &p.listen_err);
        if (tls_came(p.listens) - before > most)
            most = tls_came(p.listens) - before;
        calls++;
    }
    ok(rc == 1 && n == 1 && in[0] == 'x', "what follows is read %s",
       p.listen_err.text);
    ok(most < 1024 && calls >= UPDATES / 10, "in %zu reads of %zu bytes",
       calls, most);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    part();
}

static void test_bad_ca(void)
{
    struct tls_end *e = NULL;
    struct err err = { 0 };

    ok(tls_dialler("", "x.pem", &e, &err) == -EINVAL && !e, "%s", err.text);
    ok(tls_dialler("-----BEGIN CERTIFICATE-----\nAAAA\n"
                   "-----END CERTIFICATE-----\n", "x.pem", &e, &err) ==
       -EINVAL && !e, "%s", err.text);
}

static void test_url(void)
{
    static const char *const bad[] = {
        "", "tls://", "tls://a", "tls://:1", "tls://a:", "tls://a:0",
        "tls://a:65536", "tls://a:1x", "https://a:1", "tls://a b:1",
        "tls://[::1:1", "tls://::1:1", "tls://[a]:1", "tls://a/b:1",
        "tls://[]:1", "tls://a:+1", "tls://a\t:1",
    };
    char host[TLS_HOST_SIZE] = "";
    autofree char *far = mem_new(300);
    struct err err = { 0 };
    uint16_t port = 0;

    for (size_t i = 0; i < array_size(bad); i++)
        ok(tls_url(bad[i], host, &port, &err) == -EINVAL && !host[0], "%s",
           err.text);
    memset(far, 'a', 299);
    memcpy(far, "tls://", 6);
    memcpy(far + 290, ":1", 3);
    ok(tls_url(far, host, &port, NULL) == -EINVAL, "too long");
    ok(tls_url("tls://weir.example:8444", host, &port, NULL) == 0 &&
       strcmp(host, "weir.example") == 0 && port == 8444, "a name");
    ok(tls_url("tls://[fe80::1]:1", host, &port, NULL) == 0 &&
       strcmp(host, "fe80::1") == 0 && port == 1, "an address");
}

int main(void)
{
    autofree char *ca = NULL;
    struct authority *a = NULL;
    struct tls_end *from, *to;

    ok(mkdtemp(dir) != NULL, "set up");
    ca = mem_printf("%s/ca", dir);
    ok(authority_open(ca, clock_wall_ms(), &a, NULL) == 0, "an authority");
    from = dialler(a);
    to = listener(a, clock_wall_ms());
    test_names(from, to);
    test_times(a, from);
    test_authority(from, to);
    test_half();
    test_bytes(from, to);
    test_garbage(from, to);
    test_updates(to);
    test_bad_ca();
    test_url();
    tls_end_free(from);
    tls_end_free(to);
    authority_close(a);
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}

#include "net/tls.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

/* The socket is read and written here and not by OpenSSL, whose own way raises
 * SIGPIPE.  It reads no further than the end of a record, and a read takes all
 * of one: nothing is ever left inside that the loop does not see.  What is left
 * in the socket the loop comes back for, so that a call takes no longer than for
 * ONCE_MAX bytes, nor for more than one record that is no data: of those OpenSSL
 * would by itself (SSL_MODE_AUTO_RETRY) read as many as come.
 */
enum {
    RECORD_MAX = 16384,
    RECORDS_MAX = 64,                  /* in one read, however small */
    ONCE_MAX = 256 * 1024,             /* bytes of the socket in one call */
    CERTS_MAX = 64,
};

struct tls_end {
    SSL_CTX *ctx;
    char *from;                        /* of the authorities; NULL: listens */
};

struct tls {
    SSL *ssl;
    BIO_METHOD *method;
    int fd, os;                        /* os: errno of the socket; 0: none */
    uint64_t came, left;
    size_t once;                       /* read in this call so far */
    bool ended, must_write, shaken, broken;
    char *name, *from;
    char judged[160];                  /* what is wrong with its certificate */
};

/* ---- the socket ---- */

static int on_write(BIO *b, const char *p, int len)
{
    struct tls *t = BIO_get_data(b);
    ssize_t n = send(t->fd, p, (size_t) len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(b);
    if (n >= 0) {
        t->left += (uint64_t) n;
        return (int) n;
    }
    if (errno == EAGAIN || errno == EINTR)
        BIO_set_retry_write(b);
    else
        t->os = errno;
    return -1;
}

static int on_read(BIO *b, char *p, int len)
{
    struct tls *t = BIO_get_data(b);
    ssize_t n;

    BIO_clear_retry_flags(b);
    if (t->once >= ONCE_MAX) {
        BIO_set_retry_read(b);
        return -1;
    }
    n = recv(t->fd, p, (size_t) len, MSG_DONTWAIT);
    if (n > 0) {
        t->came += (uint64_t) n;
        t->once += (size_t) n;
        return (int) n;
    }
    if (n == 0) {
        t->ended = true;
        return 0;
    }
    if (errno == EAGAIN || errno == EINTR)
        BIO_set_retry_read(b);
    else
        t->os = errno;
    return -1;
}

static long on_control(BIO *b, int what, long number, void *arg)
{
    const struct tls *t = BIO_get_data(b);

    (void) number;
    (void) arg;
    if (what == BIO_CTRL_EOF)
        return t->ended;
    return what == BIO_CTRL_FLUSH;
}

static BIO *socket_bio(struct tls *t)
{
    BIO *b;

    t->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket");
    if (!t->method || !BIO_meth_set_write(t->method, on_write) ||
        !BIO_meth_set_read(t->method, on_read) ||
        !BIO_meth_set_ctrl(t->method, on_control))
        mem_none();
    b = mem_there(BIO_new(t->method));
    BIO_set_data(b, t);
    BIO_set_init(b, 1);
    return b;
}

/* ---- what went wrong ---- */

/* The newest reason in OpenSSL's queue, which is empty afterwards. */
static unsigned long last_reason(void)
{
    unsigned long e = ERR_peek_last_error();

    ERR_clear_error();
    return e;
}

static int library_failed(const char *what, struct err *err)
{
    const char *why = ERR_reason_error_string(last_reason());

    return err_set(err, EPROTO, "%s: %s", what, why ? why : "OpenSSL failed");
}

static const char *known(int reason)
{
    switch (reason) {
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return "it speaks HTTP, not TLS";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
        return "it does not speak TLS";
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "it does not speak TLS 1.3";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        return "it does not take our certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "it says that our certificate has ended";
    default:
        return NULL;
    }
}

static int failed(struct tls *t, struct err *err)
{
    unsigned long e = last_reason();
    const char *why = known(ERR_GET_REASON(e));

    t->broken = true;
    if (t->judged[0])
        return err_set(err, EACCES, "%s", t->judged);
    if (t->os)
        return err_set(err, t->os, "%s", strerror(t->os));
    if (t->ended)
        return err_set(err, EPIPE, "it hung up");
    if (!why)
        why = ERR_reason_error_string(e);
    return err_set(err, EPROTO, "%s", why ? why : "TLS went wrong");
}

/* What an operation came to: 1 done, 0 not yet, else -errno. */
static int result(struct tls *t, int rc, struct err *err)
{
    int what = rc > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, rc);

    t->must_write = what == SSL_ERROR_WANT_WRITE;
    if (what == SSL_ERROR_NONE)
        return 1;
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE)
        return 0;
    if (what == SSL_ERROR_ZERO_RETURN)
        return err_set(err, EPIPE, "it hung up");
    return failed(t, err);
}

static void day(const ASN1_TIME *at, char *buf, size_t size)
{
    struct tm tm = { 0 };

    if (!ASN1_TIME_to_tm(at, &tm) ||
        strftime(buf, size, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0)
        (void) snprintf(buf, size, "an unknown time");
}

static void judge(struct tls *t, X509_STORE_CTX *ctx)
{
    int e = X509_STORE_CTX_get_error(ctx);
    const X509 *crt = X509_STORE_CTX_get_current_cert(ctx);
    size_t size = sizeof t->judged;
    char at[32] = "";

    switch (e) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        (void) snprintf(t->judged, size, "its certificate is not for '%.100s'",
                        t->name);
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        day(X509_get0_notAfter(crt), at, sizeof at);
        (void) snprintf(t->judged, size, "its certificate ended at %s", at);
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        day(X509_get0_notBefore(crt), at, sizeof at);
        (void) snprintf(t->judged, size, "its certificate begins at %s only; "
                        "is the clock right?", at);
        break;
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        (void) snprintf(t->judged, size, "its certificate is not signed by "
                        "the authority in '%.80s'", t->from);
        break;
    default:
        (void) snprintf(t->judged, size, "its certificate: %.100s",
                        X509_verify_cert_error_string(e));
    }
}

static int on_verify(int good, X509_STORE_CTX *ctx)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(
        ctx, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct tls *t = SSL_get_app_data(ssl);

    if (!good && !t->judged[0])
        judge(t, ctx);
    return good;
}

/* ---- the ends ---- */

static struct tls_end *end_new(const char *from)
{
    struct tls_end *e = mem_new(sizeof *e);

    (void) OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG |
                            OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    e->from = mem_str(from);
    e->ctx = mem_there(SSL_CTX_new(TLS_method()));
    (void) SSL_CTX_set_min_proto_version(e->ctx, TLS1_3_VERSION);
    (void) SSL_CTX_set_max_proto_version(e->ctx, TLS1_3_VERSION);
    (void) SSL_CTX_set_mode(e->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                            SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                            SSL_MODE_RELEASE_BUFFERS);
    (void) SSL_CTX_clear_mode(e->ctx, SSL_MODE_AUTO_RETRY);
    (void) SSL_CTX_set_session_cache_mode(e->ctx, SSL_SESS_CACHE_OFF);
    (void) SSL_CTX_set_num_tickets(e->ctx, 0);
    return e;
}

void tls_end_free(struct tls_end *e)
{
    if (!e)
        return;
    SSL_CTX_free(e->ctx);
    free(e->from);
    free(e);
}

static BIO *text_bio(const char *text)
{
    size_t len = strlen(text);

    return mem_there(BIO_new_mem_buf(text, (int) (len < INT32_MAX ? len
                                                  : INT32_MAX)));
}

/* No key here has a password: nobody is asked for one. */
static int no_password(char *buf, int size, int writing, void *arg)
{
    (void) buf;
    (void) size;
    (void) writing;
    (void) arg;
    return -1;
}

int tls_listener_renew(struct tls_end *e, const char *cert, const char *key,
                       struct err *err)
{
    BIO *cert_bio = text_bio(cert), *key_bio = text_bio(key);
    X509 *crt = PEM_read_bio_X509(cert_bio, NULL, no_password, NULL);
    EVP_PKEY *pkey = PEM_read_bio_PrivateKey(key_bio, NULL, no_password,
                                             NULL);
    int rc = 0;

    if (!crt || !pkey || X509_check_private_key(crt, pkey) != 1 ||
        SSL_CTX_use_cert_and_key(e->ctx, crt, pkey, NULL, 1) != 1)
        rc = library_failed("certificate and key", err);
    X509_free(crt);
    EVP_PKEY_free(pkey);
    BIO_free(cert_bio);
    BIO_free(key_bio);
    return rc;
}

int tls_listener(const char *cert, const char *key, struct tls_end **ret,
                 struct err *err)
{
    struct tls_end *e = end_new(NULL);
    int rc = tls_listener_renew(e, cert, key, err);

    if (rc < 0)
        tls_end_free(e);
    else
        *ret = e;
    return rc;
}

/* All certificates of the text; what stands around them is no matter. */
static int trust(struct tls_end *e, const char *ca, struct err *err)
{
    X509_STORE *store = SSL_CTX_get_cert_store(e->ctx);
    BIO *bio = text_bio(ca);
    unsigned count = 0;
    X509 *crt;
    int rc = 0;

    while (rc == 0 && count < CERTS_MAX &&
           (crt = PEM_read_bio_X509(bio, NULL, no_password, NULL))) {
        if (X509_STORE_add_cert(store, crt) != 1)
            rc = library_failed(e->from, err);
        X509_free(crt);
        count++;
    }
    if (rc == 0 && count == CERTS_MAX)
        rc = err_set(err, E2BIG, "'%s': more than %d certificates", e->from,
                     CERTS_MAX - 1);
    else if (rc == 0 &&
             ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        rc = err_set(err, EINVAL, "'%s': certificate %u makes no sense",
                     e->from, count + 1);
    else if (rc == 0 && count == 0)
        rc = err_set(err, EINVAL, "'%s': no certificate is in it", e->from);
    ERR_clear_error();
    BIO_free(bio);
    return rc;
}

int tls_dialler(const char *ca, const char *from, struct tls_end **ret,
                struct err *err)
{
    struct tls_end *e = end_new(from);
    int rc = trust(e, ca, err);

    SSL_CTX_set_verify(e->ctx, SSL_VERIFY_PEER, on_verify);
    if (rc < 0)
        tls_end_free(e);
    else
        *ret = e;
    return rc;
}

/* ---- a connection ---- */

static bool is_address(const char *name)
{
    unsigned char any[16];

    return inet_pton(AF_INET, name, any) == 1 ||
           inet_pton(AF_INET6, name, any) == 1;
}

/* Whom the other end has to be, and who it is told that we look for. */
static int want_name(struct tls *t, const char *name, struct err *err)
{
    X509_VERIFY_PARAM *p = SSL_get0_param(t->ssl);
    bool good;

    t->name = mem_str(name);
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
                                    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (is_address(name))
        good = X509_VERIFY_PARAM_set1_ip_asc(p, name) == 1;
    else
        good = X509_VERIFY_PARAM_set1_host(p, name, 0) == 1 &&
               SSL_set_tlsext_host_name(t->ssl, t->name) == 1;
    return good ? 0 : library_failed(name, err);
}

int tls_open(struct tls_end *e, int fd, const char *name, struct tls **ret,
             struct err *err)
{
    struct tls *t = mem_new(sizeof *t);
    BIO *bio = socket_bio(t);
    int rc = 0;

    t->fd = fd;
    t->from = mem_str(e->from);
    t->ssl = mem_there(SSL_new(e->ctx));
    SSL_set_app_data(t->ssl, t);
    SSL_set_bio(t->ssl, bio, bio);
    if (name) {
        SSL_set_connect_state(t->ssl);
        rc = want_name(t, name, err);
    } else {
        SSL_set_accept_state(t->ssl);
    }
    if (rc < 0)
        tls_free(t);
    else
        *ret = t;
    return rc;
}

void tls_free(struct tls *t)
{
    if (!t)
        return;
    ERR_clear_error();
    if (t->shaken && !t->broken && !t->ended)
        (void) SSL_shutdown(t->ssl);
    ERR_clear_error();
    SSL_free(t->ssl);
    BIO_meth_free(t->method);
    free(t->name);
    free(t->from);
    free(t);
}

int tls_shake(struct tls *t, struct err *err)
{
    int rc;

    ERR_clear_error();
    t->once = 0;
    rc = result(t, SSL_do_handshake(t->ssl), err);
    if (rc == 1)
        t->shaken = true;
    return rc;
}

int tls_read(struct tls *t, void *p, size_t size, size_t *ret_len,
             struct err *err)
{
    size_t done = 0, n;
    int rc = 1;

    ERR_clear_error();
    t->once = 0;
    for (int i = 0; i < RECORDS_MAX && size - done >= RECORD_MAX && rc == 1;
         i++) {
        rc = result(t, SSL_read_ex(t->ssl, (char *) p + done, size - done,
                                   &n), done ? NULL : err);
        if (rc == 1)
            done += n;
    }
    if (done == 0)
        return rc;
    *ret_len = done;                   /* an end is met again */
    return 1;
}

int tls_write(struct tls *t, const void *p, size_t len, size_t *ret_len)
{
    bool must = t->must_write;
    int rc;

    ERR_clear_error();
    t->once = 0;
    rc = result(t, SSL_write_ex(t->ssl, p, len, ret_len), NULL);
    t->must_write = must;              /* of reads alone */
    return rc;
}

bool tls_must_write(const struct tls *t)
{
    return t->must_write;
}

uint64_t tls_came(const struct tls *t)
{
    return t->came;
}

uint64_t tls_left(const struct tls *t)
{
    return t->left;
}

/* ---- where to dial ---- */

static bool host_like(const char *host, size_t len, bool bracketed)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) host[i];

        if (!isascii(c) || !(isalnum(c) || strchr(bracketed ? ":." : "-._",
                                                  c)))
            return false;
    }
    return len > 0 && len < TLS_HOST_SIZE;
}

int tls_url(const char *url, char ret_host[TLS_HOST_SIZE], uint16_t *ret_port,
            struct err *err)
{
    const char *host = strncmp(url, "tls://", 6) == 0 ? url + 6 : "";
    bool bracketed = host[0] == '[';
    const char *colon = strrchr(host, ':');
    size_t len = colon ? (size_t) (colon - host) : 0;
    char name[TLS_HOST_SIZE];
    unsigned char any[16];
    uint64_t port = 0;
    bool good;

    if (bracketed) {
        host++;
        len = len >= 2 && colon[-1] == ']' ? len - 2 : 0;
    }
    good = host_like(host, len, bracketed) && isdigit((unsigned char) colon[1])
        && quantity_count(colon + 1, &port, NULL) == 0 && port > 0 &&
        port <= UINT16_MAX;
    if (good) {
        memcpy(name, host, len);
        name[len] = '\0';
    }
    if (!good || (bracketed && inet_pton(AF_INET6, name, any) != 1))
        return err_set(err, EINVAL, "'%s': expected tls://HOST:PORT", url);
    memcpy(ret_host, name, len + 1);
    *ret_port = (uint16_t) port;
    return 0;
}

#include "net/authority.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* The key is written before the certificate: a kill in between leaves a key
 * that nobody trusts yet, and the next start makes its certificate.
 */
enum {
    FILE_MAX = 64 * 1024,
    SERIAL_BYTES = 16,
    DAY_S = 24 * 3600,
    SKEW_S = DAY_S,
    CA_DAYS = 20 * 365,
    SERVER_DAYS = 90,
    RENEW_DAYS = 60,
};

struct authority {
    char *path;
    X509 *crt;
    EVP_PKEY *key;
};

static void x509_freep(X509 **p)
{
    X509_free(*p);
}

static void key_freep(EVP_PKEY **p)
{
    EVP_PKEY_free(*p);
}

static void bio_freep(BIO **p)
{
    BIO_free(*p);
}

#define autox509 cleanup(x509_freep)
#define autokey  cleanup(key_freep)
#define autobio  cleanup(bio_freep)

static int failed(const char *what, struct err *err)
{
    const char *why = ERR_reason_error_string(ERR_peek_last_error());

    ERR_clear_error();
    return err_set(err, EPROTO, "%s: %s", what, why ? why : "OpenSSL failed");
}

/* ---- certificates ---- */

struct want {
    const char *cn;
    uint64_t from_s, to_s;
    const X509 *issuer;                /* NULL: itself */
    EVP_PKEY *key, *signer;
};

static bool set_serial(X509 *x)
{
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *n;
    bool good;

    if (RAND_bytes(bytes, sizeof bytes) != 1)
        return false;
    bytes[0] = (unsigned char) ((bytes[0] & 0x7f) | 0x40);  /* positive */
    n = mem_there(BN_bin2bn(bytes, sizeof bytes, NULL));
    good = BN_to_ASN1_INTEGER(n, X509_get_serialNumber(x)) != NULL;
    BN_free(n);
    return good;
}

static bool set_names(X509 *x, const struct want *w)
{
    X509_NAME *n = X509_get_subject_name(x);

    return X509_NAME_add_entry_by_txt(n, "CN", MBSTRING_UTF8,
                                      (const unsigned char *) w->cn, -1, -1,
                                      0) == 1 &&
           X509_set_issuer_name(x, w->issuer
                                ? X509_get_subject_name(w->issuer) : n) == 1;
}

static bool add(X509 *x, const X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool good;

    X509V3_set_ctx(&ctx, (X509 *) (uintptr_t) (issuer ? issuer : x), x, NULL,
                   NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    good = e && X509_add_ext(x, e, -1) == 1;
    X509_EXTENSION_free(e);
    return good;
}

static X509 *begin(const struct want *w)
{
    X509 *x = mem_there(X509_new());
    bool good = X509_set_version(x, X509_VERSION_3) == 1 && set_serial(x) &&
                set_names(x, w) && X509_set_pubkey(x, w->key) == 1 &&
                ASN1_TIME_set(X509_getm_notBefore(x), (time_t) w->from_s) &&
                ASN1_TIME_set(X509_getm_notAfter(x), (time_t) w->to_s) &&
                add(x, w->issuer, NID_subject_key_identifier, "hash");

    if (good)
        return x;
    X509_free(x);
    return NULL;
}

static X509 *make_ca(const struct want *w)
{
    X509 *x = begin(w);

    if (x && add(x, NULL, NID_basic_constraints, "critical,CA:TRUE,pathlen:0")
        && add(x, NULL, NID_key_usage, "critical,keyCertSign,cRLSign") &&
        X509_sign(x, w->signer, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

/* Names are put in as they are: no text is read for what they could mean. */
static GENERAL_NAME *general_name(const char *name)
{
    GENERAL_NAME *g = mem_there(GENERAL_NAME_new());
    unsigned char bytes[16];
    int len = inet_pton(AF_INET, name, bytes) == 1 ? 4
            : inet_pton(AF_INET6, name, bytes) == 1 ? 16 : 0;
    ASN1_STRING *s = mem_there(len ? ASN1_OCTET_STRING_new()
                                   : ASN1_IA5STRING_new());

    if (ASN1_STRING_set(s, len ? (const void *) bytes : name,
                        len ? len : (int) strlen(name)) != 1)
        mem_none();
    GENERAL_NAME_set0_value(g, len ? GEN_IPADD : GEN_DNS, s);
    return g;
}

static bool add_names(X509 *x, const char *const *names, size_t count)
{
    GENERAL_NAMES *list = mem_there(sk_GENERAL_NAME_new_null());
    bool good;

    for (size_t i = 0; i < count; i++)
        if (sk_GENERAL_NAME_push(list, general_name(names[i])) <= 0)
            mem_none();
    good = X509_add1_ext_i2d(x, NID_subject_alt_name, list, 0,
                             X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(list);
    return good;
}

static X509 *make_server(const struct want *w, const char *const *names,
                         size_t count)
{
    X509 *x = begin(w);

    if (x && add(x, NULL, NID_basic_constraints, "critical,CA:FALSE") &&
        add(x, NULL, NID_key_usage, "critical,digitalSignature") &&
        add(x, NULL, NID_ext_key_usage, "serverAuth") &&
        add(x, w->issuer, NID_authority_key_identifier, "keyid:always") &&
        add_names(x, names, count) &&
        X509_sign(x, w->signer, EVP_sha256()) > 0)
        return x;
    X509_free(x);
    return NULL;
}

/* ---- texts and files ---- */

static char *bio_text(BIO *b)
{
    char *data = NULL;
    long len = BIO_get_mem_data(b, &data);

    return mem_strn(data, len > 0 ? (size_t) len : 0);
}

static int crt_text(X509 *crt, char **ret, struct err *err)
{
    autobio BIO *b = mem_there(BIO_new(BIO_s_mem()));

    if (PEM_write_bio_X509(b, crt) != 1)
        return failed("certificate", err);
    *ret = bio_text(b);
    return 0;
}

static int key_text(EVP_PKEY *key, char **ret, struct err *err)
{
    autobio BIO *b = mem_there(BIO_new(BIO_s_secmem()));

    if (PEM_write_bio_PKCS8PrivateKey(b, key, NULL, NULL, 0, NULL, NULL) != 1)
        return failed("key", err);
    *ret = bio_text(b);
    return 0;
}

static void secret_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
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

/* A key that others can read is nobody's secret any more. */
static int check_mode(const char *path, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return err_set(err, errno, "'%s': %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077) || st.st_uid != geteuid())
        return err_set(err, EPERM, "'%s': it has to be a file that its owner, "
                       "who runs Weir, alone can read", path);
    return 0;
}

static int read_key(const char *path, EVP_PKEY **ret, struct err *err)
{
    char *text = NULL;
    EVP_PKEY *key;
    BIO *b;
    int rc = check_mode(path, err);

    if (rc == 0)
        rc = fs_read(path, FILE_MAX, &text, NULL, err);
    if (rc < 0)
        return rc;
    b = mem_there(BIO_new_mem_buf(text, -1));
    key = PEM_read_bio_PrivateKey(b, NULL, no_password, NULL);
    BIO_free(b);
    secret_free(text);
    if (!key)
        return failed(path, err);
    *ret = key;
    return 0;
}

static int read_crt(const char *path, EVP_PKEY *key, X509 **ret,
                    struct err *err)
{
    autofree char *text = NULL;
    X509 *crt;
    BIO *b;
    int rc = fs_read(path, FILE_MAX, &text, NULL, err);

    if (rc < 0)
        return rc;
    b = mem_there(BIO_new_mem_buf(text, -1));
    crt = PEM_read_bio_X509(b, NULL, no_password, NULL);
    BIO_free(b);
    if (!crt)
        return failed(path, err);
    if (X509_check_private_key(crt, key) != 1) {
        X509_free(crt);
        ERR_clear_error();
        return err_set(err, EINVAL, "'%s': it is not of the key beside it",
                       path);
    }
    *ret = crt;
    return 0;
}

static int new_key(EVP_PKEY **ret, struct err *err)
{
    *ret = EVP_EC_gen("P-256");
    return *ret ? 0 : failed("a new key", err);
}

/* ---- the authority ---- */

static int write_key(const char *path, EVP_PKEY **ret, struct err *err)
{
    autokey EVP_PKEY *key = NULL;
    char *text = NULL;
    int rc = new_key(&key, err);

    if (rc == 0)
        rc = key_text(key, &text, err);
    if (rc == 0)
        rc = fs_write(path, text, strlen(text), 0600, true, err);
    secret_free(text);
    if (rc == 0)
        *ret = take(key);
    return rc;
}

/* With the name of the one that was there: it is the same authority. */
static int write_crt(struct authority *a, uint64_t now_s, struct err *err)
{
    char name[64] = "Weir ", hex[17];
    struct want w = { .cn = name, .from_s = now_s - SKEW_S,
                      .to_s = now_s + (uint64_t) CA_DAYS * DAY_S,
                      .key = a->key, .signer = a->key };
    autofree char *text = NULL;
    autox509 X509 *crt = NULL;
    int rc;

    fs_random_hex(hex, 8);
    (void) snprintf(name, sizeof name, "Weir %s", hex);
    if (a->crt)
        (void) X509_NAME_get_text_by_NID(X509_get_subject_name(a->crt),
                                         NID_commonName, name, sizeof name);
    crt = make_ca(&w);
    if (!crt)
        return failed("the authority's certificate", err);
    rc = crt_text(crt, &text, err);
    if (rc == 0)
        rc = fs_write(a->path, text, strlen(text), 0644, true, err);
    if (rc < 0)
        return rc;
    X509_free(a->crt);
    a->crt = take(crt);
    return 0;
}

static bool half_over(const X509 *crt, uint64_t now_s)
{
    time_t at = (time_t) (now_s + (uint64_t) CA_DAYS / 2 * DAY_S);

    return X509_cmp_time(X509_get0_notAfter(crt), &at) <= 0;
}

static int load(struct authority *a, const char *key_path, uint64_t now_s,
                struct err *err)
{
    bool has_key = access(key_path, F_OK) == 0;
    bool has_crt = access(a->path, F_OK) == 0;
    int rc;

    if (!has_key && has_crt)
        return err_set(err, ENOENT, "'%s' is gone: put it back, or remove "
                       "'%s', which shuts out all who trust it", key_path,
                       a->path);
    rc = has_key ? read_key(key_path, &a->key, err)
                 : write_key(key_path, &a->key, err);
    if (rc == 0 && has_crt)
        rc = read_crt(a->path, a->key, &a->crt, err);
    if (rc == 0 && (!a->crt || half_over(a->crt, now_s)))
        rc = write_crt(a, now_s, err);
    return rc;
}

int authority_open(const char *dir, uint64_t now_ms, struct authority **ret,
                   struct err *err)
{
    autofree char *key_path = mem_printf("%s/ca.key", dir);
    struct authority *a;
    int rc = fs_mkdir(dir, 0700, err);

    if (rc < 0)
        return rc;
    (void) OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG |
                               OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    a = mem_new(sizeof *a);
    a->path = mem_printf("%s/ca.pem", dir);
    rc = load(a, key_path, now_ms / 1000, err);
    if (rc < 0)
        authority_close(a);
    else
        *ret = a;
    return rc;
}

void authority_close(struct authority *a)
{
    if (!a)
        return;
    X509_free(a->crt);
    EVP_PKEY_free(a->key);
    free(a->path);
    free(a);
}

const char *authority_path(const struct authority *a)
{
    return a->path;
}

int authority_issue(const struct authority *a, uint64_t now_ms,
                    const char *const *names, size_t count, char **ret_cert,
                    char **ret_key, struct err *err)
{
    uint64_t now_s = now_ms / 1000;
    autokey EVP_PKEY *key = NULL;
    autox509 X509 *crt = NULL;
    autofree char *cert = NULL;
    struct want w = { .cn = "Weir home", .from_s = now_s - SKEW_S,
                      .to_s = now_s + (uint64_t) SERVER_DAYS * DAY_S,
                      .issuer = a->crt, .signer = a->key };
    int rc;

    if (count == 0 || count > AUTHORITY_NAMES_MAX)
        return err_set(err, EINVAL, "%zu names for a certificate; it has 1 to "
                       "%d", count, AUTHORITY_NAMES_MAX);
    ERR_clear_error();
    rc = new_key(&key, err);
    if (rc < 0)
        return rc;
    w.key = key;
    crt = make_server(&w, names, count);
    if (!crt)
        return failed("a server's certificate", err);
    rc = crt_text(crt, &cert, err);
    if (rc == 0)
        rc = key_text(key, ret_key, err);
    if (rc == 0)
        *ret_cert = take(cert);
    return rc;
}

bool authority_due(uint64_t issued_ms, uint64_t now_ms)
{
    return now_ms >= issued_ms + (uint64_t) RENEW_DAYS * DAY_S * 1000 ||
           now_ms + (uint64_t) SKEW_S / 2 * 1000 < issued_ms;
}

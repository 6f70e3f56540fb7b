#include "api/auth.h"

#include "api/api_int.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "core/world.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { ID_HEX = 12, SECRET_HEX = 64 };

static const char *const roles[] = {
    [ROLE_NONE] = "none", [ROLE_VIEWER] = "viewer", [ROLE_USER] = "user",
    [ROLE_OPERATOR] = "operator", [ROLE_ADMIN] = "admin",
};

const char *role_name(enum role r)
{
    return roles[r];
}

int role_parse(const char *s, enum role *ret)
{
    for (size_t i = ROLE_VIEWER; i < array_size(roles); i++) {
        if (strcmp(s, roles[i]) == 0) {
            *ret = (enum role) i;
            return 0;
        }
    }
    return -EINVAL;
}

void auth_hash(const struct auth_text *texts, size_t n, char ret[65])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (!ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
        mem_none();
    for (size_t i = 0; i < n; i++) {
        uint64_t size = texts[i].len;

        (void) EVP_DigestUpdate(ctx, &size, sizeof size);
        (void) EVP_DigestUpdate(ctx, texts[i].data, texts[i].len);
    }
    if (EVP_DigestFinal_ex(ctx, sum, &len) != 1 || len != 32)
        mem_none();
    EVP_MD_CTX_free(ctx);
    for (unsigned i = 0; i < len; i++) {
        ret[2 * i] = digits[sum[i] >> 4];
        ret[2 * i + 1] = digits[sum[i] & 15];
    }
    ret[64] = '\0';
}

static void hash_secret(const char *secret, char ret[65])
{
    struct auth_text t = { secret, strlen(secret) };

    auth_hash(&t, 1, ret);
}

void auth_token_new(char *token, char id[13], char hash[65])
{
    char secret[SECRET_HEX + 1];

    fs_random_hex(id, ID_HEX / 2);
    fs_random_hex(secret, SECRET_HEX / 2);
    hash_secret(secret, hash);
    (void) snprintf(token, AUTH_TOKEN_SIZE, "weir_%s_%s", id, secret);
    OPENSSL_cleanse(secret, sizeof secret);
}

void auth_user(uint32_t uid, struct event_user *ret)
{
    struct passwd pw, *found = NULL;
    char buf[4096];

    *ret = (struct event_user) { .uid = uid, .gid = uid };
    if (getpwuid_r(uid, &pw, buf, sizeof buf, &found) == 0 && found) {
        ret->gid = found->pw_gid;
        (void) snprintf(ret->name, sizeof ret->name, "%s", found->pw_name);
    }
}

void auth_caller(const struct who *w, struct event_user *ret)
{
    struct event_user known;

    *ret = w->user;
    if (ret->name[0])
        return;
    auth_user(w->user.uid, &known);
    memcpy(ret->name, known.name, sizeof ret->name);
}

static bool is_member(const struct tenant *t, const char *id)
{
    json_t *m;
    size_t i;

    if (t->removed)
        return false;
    json_array_foreach(t->members, i, m) {
        if (json_is_string(m) && strcmp(json_string_value(m), id) == 0)
            return true;
    }
    return false;
}

/* The first tenant that names them as a member, and whether it is the only
 * one.
 */
static const struct tenant *member_of(const struct api *a, const char *id,
                                      bool *ret_only)
{
    const struct tenant *first = NULL, *t;
    size_t pos = 0;

    *ret_only = true;
    while ((t = world_next_tenant(api_world(a), &pos))) {
        if (!is_member(t, id))
            continue;
        if (first) {
            *ret_only = false;
            break;
        }
        first = t;
    }
    return first;
}

static int local_user(const struct api *a, const struct http_peer *p,
                      struct who *ret, struct err *err)
{
    bool only;

    (void) snprintf(ret->id, sizeof ret->id, "uid:%u", p->uid);
    ret->user = (struct event_user) { .uid = p->uid, .gid = p->gid };
    if (p->uid == a->uid || p->uid == 0) {
        ret->role = ROLE_ADMIN;
        return 0;
    }
    if (a->ops->single_user(a->arg))
        return err_set(err, EACCES, "this Weir was started without root and "
                       "serves uid %u alone", a->uid);
    if (!member_of(a, ret->id, &only))
        return err_set(err, EACCES, "uid %u is a member of no tenant: ask an "
                       "admin for 'weir tenant set NAME --add-member "
                       "uid:%u'",
                       p->uid, p->uid);
    ret->role = ROLE_USER;
    return 0;
}

static bool token_good(const struct api *a, const struct token *t)
{
    const struct tenant *tenant;

    if (!t || t->revoked || (t->expires_ms && t->expires_ms <= api_now(a)))
        return false;
    tenant = world_tenant(api_world(a), t->tenant);
    return tenant && !tenant->removed;
}

/* The same words for every way in which a token is no good: which it was is
 * the owner's business.
 */
static int token_refused(struct err *err)
{
    return err_set(err, ENOKEY, "the token is not known, has expired or was "
                   "revoked");
}

static int use_token(const struct api *a, const char *id, struct who *ret,
                     struct err *err)
{
    const struct token *t = world_token(api_world(a), id);
    enum role role;

    if (!token_good(a, t) || role_parse(t->role, &role) < 0)
        return token_refused(err);
    ret->role = role;
    ret->user = t->user;
    (void) snprintf(ret->token, sizeof ret->token, "%s", t->id);
    (void) snprintf(ret->tenant, sizeof ret->tenant, "%s", t->tenant);
    return 0;
}

static bool all_hex(const char *s, size_t n)
{
    return strspn(s, "0123456789abcdef") == n && s[n] == '\0';
}

static int bearer(const struct api *a, const char *value, struct who *ret,
                  struct err *err)
{
    const struct token *t;
    char id[ID_HEX + 1], hash[65];
    const char *secret;

    if (strncasecmp(value, "Bearer ", 7) != 0)
        return err_set(err, ENOKEY, "Authorization: expected 'Bearer "
                       "weir_ID_SECRET'");
    value += 7 + strspn(value + 7, " ");
    if (strncmp(value, "weir_", 5) != 0 || strlen(value) < 5 + ID_HEX + 1 ||
        value[5 + ID_HEX] != '_')
        return token_refused(err);
    memcpy(id, value + 5, ID_HEX);
    id[ID_HEX] = '\0';
    secret = value + 5 + ID_HEX + 1;
    if (!all_hex(id, ID_HEX) || !all_hex(secret, SECRET_HEX))
        return token_refused(err);
    (void) snprintf(ret->id, sizeof ret->id, "token:%s", id);
    hash_secret(secret, hash);
    t = world_token(api_world(a), id);
    if (!t || CRYPTO_memcmp(t->hash, hash, sizeof hash - 1) != 0)
        return token_refused(err);
    return use_token(a, id, ret, err);
}

int auth_identify(const struct api *a, const struct http_req *r,
                  struct who *ret, struct err *err)
{
    const char *given = http_header(r, "Authorization");
    const struct http_peer *p = http_peer(r);

    *ret = (struct who) { .role = ROLE_NONE };
    (void) snprintf(ret->id, sizeof ret->id, "anonymous");
    if (given)
        return bearer(a, given, ret, err);
    if (p->local)
        return local_user(a, p, ret, err);
    if (p->subject[0]) {
        (void) snprintf(ret->id, sizeof ret->id, "token:%.48s", p->subject);
        return use_token(a, p->subject, ret, err);
    }
    return err_set(err, ENOKEY, "a token is needed: 'Authorization: Bearer "
                   "weir_ID_SECRET'");
}

bool auth_sees_all(const struct who *w)
{
    return w->role >= ROLE_OPERATOR;
}

bool auth_sees(const struct api *a, const struct who *w, const char *tenant)
{
    const struct tenant *t;

    if (auth_sees_all(w))
        return true;
    if (!tenant || !*tenant)
        return false;
    if (w->token[0])
        return strcmp(w->tenant, tenant) == 0;
    t = world_tenant(api_world(a), tenant);
    return t && is_member(t, w->id);
}

bool auth_holds(const struct api *a, const struct who *w)
{
    bool only;

    if (w->token[0])
        return token_good(a, world_token(api_world(a), w->token));
    return w->role == ROLE_ADMIN || member_of(a, w->id, &only);
}

const char *auth_single_tenant(const struct api *a, const struct who *w)
{
    const struct tenant *first;
    bool only;

    if (auth_sees_all(w))
        return NULL;
    if (w->token[0])
        return w->tenant;
    first = member_of(a, w->id, &only);
    return first && only ? first->name : NULL;
}

const char *auth_own_tenant(const struct api *a, const struct who *w)
{
    const struct tenant *first, *t;
    bool only;

    if (w->token[0])
        return w->tenant;
    first = member_of(a, w->id, &only);
    if (first && only)
        return first->name;
    t = world_tenant(api_world(a), "default");
    return t && (w->role == ROLE_ADMIN || is_member(t, w->id)) ? t->name :
           NULL;
}

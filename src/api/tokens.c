#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "core/world.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_EXPIRY_MS (UINT64_C(30) * 24 * 3600 * 1000)

static json_t *token_view(const struct token *t)
{
    json_t *o = view_token(t);

    (void) json_object_del(o, "_");
    (void) json_object_del(o, "hash");
    return o;
}

void get_tokens(struct call *c)
{
    json_t *items = json_array();
    const struct token *t;
    size_t pos = 0;

    while ((t = world_next_token(api_world(c->api), &pos))) {
        if (auth_sees(c->api, &c->who, t->tenant))
            (void) json_array_append_new(items, token_view(t));
    }
    reply_items(c, items, NULL);
}

/* When it ends, from the body's words, which are of the schema's form. */
static uint64_t read_expiry(const struct call *c)
{
    const char *text = json_get_str(c->body, "expires", "");
    uint64_t ms = DEFAULT_EXPIRY_MS;

    if (strcmp(text, "never") == 0)
        return 0;
    if (*text)
        (void) quantity_duration(text, &ms, NULL);
    return api_now(c->api) + ms;
}

static bool read_role(struct call *c, const char **ret)
{
    const char *name = json_get_str(c->body, "role", "");
    enum role role = ROLE_ADMIN;

    (void) role_parse(name, &role);    /* the schema knows the words */
    if (role > c->who.role) {
        call_denied(c, 403);
        reply_error(c, 403, "role: you have %s and cannot give %s",
                    role_name(c->who.role), name);
        return false;
    }
    *ret = name;
    return true;
}

static bool read_user(struct call *c, struct event_user *ret)
{
    uint64_t uid = json_get_u64(c->body, "uid", c->who.user.uid);

    if (uid == c->who.user.uid) {
        auth_caller(&c->who, ret);
        return true;
    }
    if (c->who.role < ROLE_OPERATOR) {
        call_denied(c, 403);
        reply_error(c, 403, "uid: only an operator may name another user");
        return false;
    }
    auth_user((uint32_t) uid, ret);
    return true;
}

static void created(struct call *c, uint64_t seq, uint64_t workload,
                    void *arg)
{
    autofree char *token = arg;
    char id[13];
    const struct token *t;
    json_t *o;

    (void) seq;
    (void) workload;
    (void) snprintf(id, sizeof id, "%.12s", token + 5);
    t = world_token(api_world(c->api), id);
    o = t ? token_view(t) : json_object();
    json_put_str(o, "token", token);
    OPENSSL_cleanse(token, strlen(token));
    reply_json(c, 201, o);
}

static void not_created(void *arg)
{
    free(arg);
}

void post_tokens(struct call *c)
{
    char id[13], hash[65];
    const char *role = "";
    uint64_t expires_ms = read_expiry(c);
    struct event e;
    char *token;

    call_event(c, &e, EVENT_TOKEN_CREATED);
    if (!read_role(c, &role) ||
        !call_choose_tenant(c, json_get_str(c->body, "tenant", NULL),
                            "with 'tenant'", e.tenant, sizeof e.tenant) ||
        !read_user(c, &e.user))
        return;
    token = mem_new(AUTH_TOKEN_SIZE);
    auth_token_new(token, id, hash);
    (void) snprintf(e.token, sizeof e.token, "%s", id);
    e.data = json_object();
    json_put_str(e.data, "name", json_get_str(c->body, "name", ""));
    json_put_str(e.data, "role", role);
    json_put_str(e.data, "hash", hash);
    if (expires_ms)
        json_put_u64(e.data, "expires_ms", expires_ms);
    call_propose_or(c, &e, created, not_created, token);
}

void delete_token(struct call *c)
{
    const struct token *t = world_token(api_world(c->api), c->param[0]);
    enum role role = ROLE_ADMIN;
    struct event e;

    if (!t || !auth_sees(c->api, &c->who, t->tenant)) {
        if (t)
            call_denied(c, 404);
        reply_absent(c, "token", c->param[0]);
        return;
    }
    (void) role_parse(t->role, &role);
    if (role > c->who.role) {
        call_denied(c, 403);
        reply_error(c, 403, "the token has the role %s and you have %s",
                    t->role, role_name(c->who.role));
        return;
    }
    if (t->revoked) {
        reply_none(c);
        return;
    }
    call_event(c, &e, EVENT_TOKEN_REVOKED);
    (void) snprintf(e.token, sizeof e.token, "%s", t->id);
    (void) snprintf(e.tenant, sizeof e.tenant, "%s", t->tenant);
    call_propose(c, &e, reply_none_then, NULL);
}

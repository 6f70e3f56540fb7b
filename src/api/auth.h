#pragma once

#include "core/event.h"
#include "core/spec.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct api;
struct err;
struct http_req;
struct token;

/* auth - who asks, and what they may see.
 *
 * A token (or a client certificate whose CN is a token's id) is bound to one
 * tenant and one role.  On the Unix socket without a token the kernel's word
 * on the peer counts: uid 0 and Weir's own are admins, others users of the
 * tenants that name them.  Operators and admins see every tenant.
 */
enum role { ROLE_NONE, ROLE_VIEWER, ROLE_USER, ROLE_OPERATOR, ROLE_ADMIN };
const char *role_name(enum role r);
int role_parse(const char *s, enum role *ret);     /* -EINVAL; not "none" */

struct who {
    enum role role;
    char id[96];                       /* "uid:1000", "token:ab12"... */
    char token[48];                    /* "" for a uid */
    char tenant[SPEC_MAX_NAME + 1];    /* the token's */
    struct event_user user;            /* name missing: see auth_caller */
};

/* 0; -ENOKEY: who they are is not known (401); -EACCES: it is, and they may
 * not (403).  *ret names whoever it was in any case, for the audit.
 */
int auth_identify(const struct api *a, const struct http_req *r,
                  struct who *ret, struct err *err);
/* Still good: not revoked, not expired, still a member of something. */
bool auth_holds(const struct api *a, const struct who *w);

bool auth_sees(const struct api *a, const struct who *w, const char *tenant);
bool auth_sees_all(const struct who *w);
/* The one tenant that they see; NULL: several, or all. */
const char *auth_single_tenant(const struct api *a, const struct who *w);
/* The tenant of what they make when they name none; NULL: they must. */
const char *auth_own_tenant(const struct api *a, const struct who *w);
/* The user of that uid, as the machine knows it. */
void auth_user(uint32_t uid, struct event_user *ret);
/* The caller as a user, with their name.  Asks the machine's user database,
 * which nobody needs for a request that only reads.
 */
void auth_caller(const struct who *w, struct event_user *ret);

/* weir_ID_SECRET: ID is 12 hex digits, SECRET 64; the store keeps SHA-256 of
 * the secret.  `token` has AUTH_TOKEN_SIZE.
 */
enum { AUTH_TOKEN_SIZE = 84 };
void auth_token_new(char *token, char id[13], char hash[65]);

/* SHA-256 as hex of some texts; each counts with its length, so that no two
 * lists of texts have the same bytes.
 */
struct auth_text {
    const void *data;
    size_t len;
};
void auth_hash(const struct auth_text *texts, size_t n, char ret[65]);

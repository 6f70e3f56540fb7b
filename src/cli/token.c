#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

#include <string.h>

/* ---- create ---- */

struct token_opts {
    const char *role, *tenant, *expires;
};

#define AT(member) offsetof(struct token_opts, member)
static const struct opt token_opts[] = {
    { "role", 0, "ROLE", "viewer, user, operator or admin (user)", OPT_TEXT,
      AT(role) },
    { "tenant", 0, "NAME", "whose it is", OPT_TEXT, AT(tenant) },
    { "expires", 0, "TIME", "good for this long, or 'never' (30d)", OPT_TEXT,
      AT(expires) },
    { .kind = OPT_END },
};
#undef AT

static int run_create(struct cli *c, const void *opts)
{
    const struct token_opts *o = opts;
    autojson json_t *body = json_object();
    autojson json_t *reply = NULL;
    uint64_t ms;
    int rc;

    if (o->expires && strcmp(o->expires, "never") != 0 &&
        quantity_duration(o->expires, &ms, NULL) < 0)
        return cli_fail(c, CLI_USAGE, "--expires: expected a time such as 30d, "
                        "or never, got '%s'", o->expires);
    json_put_str(body, "name", c->args[0]);
    json_put_str(body, "role", o->role ? o->role : "user");
    json_put_str(body, "tenant", o->tenant);
    json_put_str(body, "expires", o->expires);
    rc = call_json(c, "POST", "/v1/tokens", body, &reply);
    if (rc == 0)
        rc = print_done(c, reply, "%s", json_get_str(reply, "token", ""));
    if (rc == 0 && c->out != OUT_JSON)
        cli_note(c, "token %s is shown this once; keep it in a file that only "
                 "its user can read", json_get_str(reply, "id", ""));
    return rc;
}

const struct verb verb_token_create = {
    .name = "token create",
    .summary = "make a token for --server; it is shown once",
    .usage = "NAME [--role ROLE] [--tenant NAME] [--expires TIME]",
    .about = "A token can do what its role can in its tenant, and never more "
             "than the one who\nmade it.",
    .examples = "weir token create ci --role user --tenant vision > ci.token\n"
                "weir ps --server https://gpu01:8443 --token-file ci.token",
    .opts = token_opts,
    .size = sizeof(struct token_opts),
    .min_args = 1, .max_args = 1,
    .run = run_create,
};

/* ---- ls ---- */

static const struct table_column columns[] = {
    { .name = "ID" }, { .name = "NAME" }, { .name = "ROLE" },
    { .name = "TENANT" }, { .name = "STATE" }, { .name = "EXPIRES" },
    { .name = "CREATED", .wide = true }, { .name = NULL },
};

static void add_token(struct table *t, const json_t *j)
{
    bool revoked = json_get_bool(j, "revoked", false);
    char buf[HUMAN_SIZE];
    const char *expires = get_clock(j, "expires", buf);

    table_add(t, STYLE_BOLD, json_get_str(j, "id", ""));
    table_add(t, STYLE_PLAIN, json_get_str(j, "name", ""));
    table_add(t, STYLE_PLAIN, json_get_str(j, "role", ""));
    table_add(t, STYLE_PLAIN, json_get_str(j, "tenant", ""));
    table_add(t, revoked ? STYLE_BAD : STYLE_GOOD,
              revoked ? "revoked" : "good");
    table_add(t, STYLE_PLAIN, expires[0] ? expires : "never");
    table_add(t, STYLE_PLAIN, get_clock(j, "created", buf));
}

static int run_ls(struct cli *c, const void *opts)
{
    (void) opts;
    return call_table(c, "/v1/tokens", columns, add_token);
}

const struct verb verb_token_ls = {
    .name = "token ls",
    .summary = "list tokens",
    .usage = "",
    .about = "",
    .examples = "weir token ls",
    .opts = no_opts,
    .run = run_ls,
};

/* ---- revoke ---- */

static int run_revoke(struct cli *c, const void *opts)
{
    (void) opts;
    return call_delete(c, "token", "id", "revoked");
}

const struct verb verb_token_revoke = {
    .name = "token revoke",
    .summary = "make a token useless, now",
    .usage = "ID",
    .about = "",
    .examples = "weir token revoke 3f9a01c2d4e5    # 'weir token ls' has the "
                "ids",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_TOKEN,
    .run = run_revoke,
};

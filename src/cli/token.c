#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>

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
    const char *token;
    int rc;

    json_put_str(body, "name", c->args[0]);
    json_put_str(body, "role", o->role ? o->role : "user");
    json_put_str(body, "tenant", o->tenant);
    json_put_str(body, "expires", o->expires);
    rc = call_json(c, "POST", "/v1/tokens", body, &reply);
    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON)
        return print_json(c, reply);
    token = json_get_str(reply, "token", "");
    if (puts(token) == EOF)
        return CLI_BROKEN;
    cli_note(c, "token %s is shown this once; keep it in a file that only "
             "its user can read", json_get_str(reply, "id", ""));
    return 0;
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

static int run_ls(struct cli *c, const void *opts)
{
    autojson json_t *reply = NULL;
    const json_t *j;
    struct table *t;
    char buf[HUMAN_SIZE];
    size_t i;
    int rc = call_get(c, &reply, "/v1/tokens");

    (void) opts;
    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON)
        return print_json(c, reply);
    t = table_new(columns);
    json_array_foreach(json_object_get(reply, "items"), i, j) {
        bool revoked = json_get_bool(j, "revoked", false);
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
    rc = print_table(c, t);
    table_free(t);
    return rc;
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
    autofree char *path = call_path("/v1/tokens/%s", c->args[0]);
    int rc = call_json(c, "DELETE", path, NULL, NULL);

    (void) opts;
    if (rc != 0)
        return rc;
    if (c->out == OUT_JSON) {
        autojson json_t *j = json_object();

        json_put_str(j, "id", c->args[0]);
        json_put_bool(j, "revoked", true);
        return print_json(c, j);
    }
    return printf("token %s is revoked\n", c->args[0]) < 0 ? CLI_BROKEN : 0;
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

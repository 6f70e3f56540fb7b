#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>

/* ---- ls and show ---- */

static const struct table_column columns[] = {
    { .name = "TENANT" }, { .name = "GPUS", .right = true },
    { .name = "MAX", .right = true }, { .name = "GPU-S", .right = true },
    { .name = "TASKS", .right = true }, { .name = "MEMBERS" },
    { .name = "WEIGHT", .right = true, .wide = true },
    { .name = "NOTE", .wide = true }, { .name = NULL },
};

static void add_tenant(struct table *t, const json_t *j)
{
    autofree char *members = list_text(json_object_get(j, "members"));
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_BOLD, json_get_str(j, "name", ""));
    table_add(t, STYLE_PLAIN, get_number(j, "gpus_held", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "max_gpus", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "gpu_seconds", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "tasks_ended", buf));
    table_add(t, STYLE_PLAIN, members);
    table_add(t, STYLE_PLAIN, get_number(j, "weight", buf));
    table_add(t, STYLE_PLAIN, json_get_str(j, "note", ""));
}

static int run_ls(struct cli *c, const void *opts)
{
    autojson json_t *reply = NULL;
    int rc = call_get(c, &reply, "/v1/tenants");

    (void) opts;
    return rc ? rc : print_items(c, reply, columns, add_tenant);
}

static int print_tenant(struct cli *c, const json_t *j)
{
    autofree char *members = list_text(json_object_get(j, "members"));
    struct table *t = sheet_new();
    char buf[HUMAN_SIZE];

    sheet_add(t, "tenant", json_get_str(j, "name", ""));
    sheet_add(t, "members", members);
    sheet_add(t, "devices at most", get_number(j, "max_gpus", buf));
    sheet_add(t, "devices held", get_number(j, "gpus_held", buf));
    sheet_add(t, "weight", get_number(j, "weight", buf));
    sheet_add(t, "gpu-seconds", get_number(j, "gpu_seconds", buf));
    sheet_add(t, "cpu-seconds", get_number(j, "cpu_seconds", buf));
    sheet_add(t, "tasks ended", get_number(j, "tasks_ended", buf));
    sheet_add(t, "note", json_get_str(j, "note", ""));
    return print_sheet(c, t);
}

static int run_show(struct cli *c, const void *opts)
{
    autojson json_t *j = NULL;
    int rc = call_get(c, &j, "/v1/tenants/%s", c->args[0]);

    (void) opts;
    return rc ? rc : print_object(c, j, print_tenant);
}

const struct verb verb_tenant_ls = {
    .name = "tenant ls",
    .summary = "list tenants and what they hold",
    .usage = "",
    .about = "",
    .examples = "weir tenant ls",
    .opts = no_opts,
    .run = run_ls,
};

const struct verb verb_tenant_show = {
    .name = "tenant show",
    .summary = "one tenant: members, limits, usage",
    .usage = "TENANT",
    .about = "",
    .examples = "weir tenant show vision",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_TENANT,
    .run = run_show,
};

/* ---- create and set ---- */

struct tenant_opts {
    struct opt_list members, add, drop;
    const char *max_gpus, *note;
    uint64_t weight;
};

#define AT(member) offsetof(struct tenant_opts, member)
#define LIMIT_OPTS \
    { "max-gpus", 0, "N", "devices held at once, or 'unlimited'", OPT_TEXT, \
      AT(max_gpus) }, \
    { "weight", 0, "N", "its share beside others", OPT_COUNT, AT(weight) }, \
    { "note", 0, "TEXT", "for people", OPT_TEXT, AT(note) }

static const struct opt create_opts[] = {
    { "member", 'm', "USER", "a user's name, or uid:N; repeatable", OPT_LIST,
      AT(members) },
    LIMIT_OPTS,
    { .kind = OPT_END },
};

static const struct opt set_opts[] = {
    { "member", 'm', "USER", "the members, instead of those there; "
      "repeatable", OPT_LIST, AT(members) },
    { "add-member", 0, "USER", "one more", OPT_LIST, AT(add) },
    { "remove-member", 0, "USER", "one less", OPT_LIST, AT(drop) },
    LIMIT_OPTS,
    { .kind = OPT_END },
};
#undef LIMIT_OPTS
#undef AT

/* "uid:1000" as it is; a user's name as this machine knows it.  Caller frees;
 * NULL after saying why.
 */
static char *member_name(struct cli *c, const char *s)
{
    const struct passwd *pw;

    if (strncmp(s, "uid:", 4) == 0)
        return mem_str(s);
    pw = getpwnam(s);
    if (pw)
        return mem_printf("uid:%u", pw->pw_uid);
    (void) cli_fail(c, CLI_USAGE, "no user '%s' on this machine; a user "
                    "elsewhere is named uid:N", s);
    return NULL;
}

static size_t find_text(const json_t *list, const char *s)
{
    size_t i = 0;

    while (i < json_array_size(list)) {
        const char *v = json_string_value(json_array_get(list, i));

        if (v && strcmp(v, s) == 0)
            break;
        i++;
    }
    return i;
}

static int change_members(struct cli *c, json_t *members,
                          const struct opt_list *names, bool add)
{
    for (size_t k = 0; k < names->count; k++) {
        autofree char *name = member_name(c, names->items[k]);
        size_t at;

        if (!name)
            return CLI_USAGE;
        at = find_text(members, name);
        if (add && at == json_array_size(members))
            (void) json_array_append_new(members, json_string(name));
        else if (!add)
            (void) json_array_remove(members, at);
    }
    return 0;
}

static int put_limits(struct cli *c, const struct tenant_opts *o, json_t *body)
{
    struct err err;
    uint64_t milli;

    if (o->max_gpus && strcmp(o->max_gpus, "unlimited") == 0) {
        json_put_str(body, "max_gpus", o->max_gpus);
    } else if (o->max_gpus) {
        if (quantity_milli(o->max_gpus, &milli, &err) < 0)
            return cli_fail(c, CLI_USAGE, "--max-gpus: %s (or 'unlimited')",
                            err.text);
        json_put_milli(body, "max_gpus", milli);
    }
    if (o->weight)
        json_put_u64(body, "weight", o->weight);
    json_put_str(body, "note", o->note);
    return 0;
}

/* PUT says the whole tenant: what is not changed is said as it is. */
static int put_tenant(struct cli *c, const struct tenant_opts *o,
                      const json_t *old)
{
    static const char *const kept[] = { "max_gpus", "weight", "note" };
    autofree char *path = call_path("/v1/tenants/%s", c->args[0]);
    autojson json_t *body = json_object();
    autojson json_t *reply = NULL;
    json_t *members = json_object_get(old, "members");
    int rc;

    for (size_t i = 0; i < array_size(kept); i++) {
        json_t *v = json_object_get(old, kept[i]);

        if (v)
            json_put(body, kept[i], json_incref(v));
    }
    members = o->members.count || !members ? json_array()
                                           : json_deep_copy(members);
    json_put(body, "members", members);
    rc = change_members(c, members, &o->members, true);
    if (rc == 0)
        rc = change_members(c, members, &o->add, true);
    if (rc == 0)
        rc = change_members(c, members, &o->drop, false);
    if (rc == 0)
        rc = put_limits(c, o, body);
    if (rc == 0)
        rc = call_json(c, "PUT", path, body, &reply);
    return rc ? rc : print_object(c, reply, print_tenant);
}

static int run_create(struct cli *c, const void *opts)
{
    autojson json_t *old = NULL;

    if (call_try(c, &old, "/v1/tenants/%s", c->args[0]) == 0)
        return cli_fail(c, CLI_REFUSED, "there is a tenant '%s' already; "
                        "'weir tenant set' changes it", c->args[0]);
    return put_tenant(c, opts, NULL);
}

static int run_set(struct cli *c, const void *opts)
{
    autojson json_t *old = NULL;
    int rc = call_get(c, &old, "/v1/tenants/%s", c->args[0]);

    return rc ? rc : put_tenant(c, opts, old);
}

const struct verb verb_tenant_create = {
    .name = "tenant create",
    .summary = "make a tenant",
    .usage = "TENANT [--member USER]... [--max-gpus N] [--weight N]",
    .about = "",
    .examples = "weir tenant create vision --member ada --max-gpus 4",
    .opts = create_opts,
    .size = sizeof(struct tenant_opts),
    .min_args = 1, .max_args = 1,
    .run = run_create,
};

const struct verb verb_tenant_set = {
    .name = "tenant set",
    .summary = "change a tenant; what is not named stays",
    .usage = "TENANT [--add-member USER] [--max-gpus N|unlimited] [OPTIONS]",
    .about = "",
    .examples = "weir tenant set vision --max-gpus 8 --add-member uid:1007",
    .opts = set_opts,
    .size = sizeof(struct tenant_opts),
    .min_args = 1, .max_args = 1,
    .arg = ARG_TENANT,
    .run = run_set,
};

/* ---- remove ---- */

static int run_remove(struct cli *c, const void *opts)
{
    (void) opts;
    return call_delete(c, "tenant", "name", "removed");
}

const struct verb verb_tenant_remove = {
    .name = "tenant remove",
    .summary = "remove a tenant that has nothing under way",
    .usage = "TENANT",
    .about = "",
    .examples = "weir tenant remove vision",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_TENANT,
    .run = run_remove,
};

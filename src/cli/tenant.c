#include "cli/verbs.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "cli/call.h"
#include "cli/print.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ls and show ---- */

static const struct table_column columns[] = {
    { .name = "TENANT" }, { .name = "GPUS", .right = true },
    { .name = "QUOTA", .right = true }, { .name = "MAX", .right = true },
    { .name = "GPU-S", .right = true }, { .name = "TASKS", .right = true },
    { .name = "MEMBERS" }, { .name = "WEIGHT", .right = true, .wide = true },
    { .name = "PARENT", .wide = true }, { .name = "BUDGET", .wide = true },
    { .name = "NOTE", .wide = true }, { .name = NULL },
};

/* "100 gpu_hours in 30d", and whether it is used up; "" without one.  Caller
 * frees.
 */
static char *budget_text(const json_t *tenant)
{
    const json_t *b = json_object_get(tenant, "budget");
    double period = json_get_number(b, "period_s");
    char amount[HUMAN_SIZE], time[32];

    if (!json_is_object(b))
        return mem_str("");
    quantity_print_duration((uint64_t) (period * 1000), time, sizeof time);
    return mem_printf("%s %s in %s%s", get_number(b, "amount", amount),
                      json_get_str(b, "unit", "?"), time,
                      json_get_bool(b, "over", false) ? ", used up" : "");
}

static void add_tenant(struct table *t, const json_t *j)
{
    autofree char *budget = budget_text(j);
    autofree char *members = list_text(json_object_get(j, "members"));
    char buf[HUMAN_SIZE];

    table_add(t, STYLE_BOLD, json_get_str(j, "name", ""));
    table_add(t, STYLE_PLAIN, get_number(j, "gpus_held", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "quota", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "max_gpus", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "gpu_seconds", buf));
    table_add(t, STYLE_PLAIN, get_number(j, "tasks_ended", buf));
    table_add(t, STYLE_PLAIN, members);
    table_add(t, STYLE_PLAIN, get_number(j, "weight", buf));
    table_add(t, STYLE_PLAIN, json_get_str(j, "parent", ""));
    table_add(t, STYLE_PLAIN, budget);
    table_add(t, STYLE_PLAIN, json_get_str(j, "note", ""));
}

static int run_ls(struct cli *c, const void *opts)
{
    (void) opts;
    return call_table(c, "/v1/tenants", columns, add_tenant);
}

static int print_tenant(struct cli *c, const json_t *j)
{
    autofree char *members = list_text(json_object_get(j, "members"));
    autofree char *budget = budget_text(j);
    struct table *t = sheet_new();
    char buf[HUMAN_SIZE];

    sheet_add(t, "tenant", json_get_str(j, "name", ""));
    sheet_add(t, "part of", json_get_str(j, "parent", ""));
    sheet_add(t, "members", members);
    sheet_add(t, "devices guaranteed", get_number(j, "quota", buf));
    sheet_add(t, "devices at most", get_number(j, "max_gpus", buf));
    sheet_add(t, "devices held", get_number(j, "gpus_held", buf));
    sheet_add(t, "weight", get_number(j, "weight", buf));
    sheet_add(t, "budget", budget);
    sheet_add(t, "idle after seconds",
              get_number(j, "idle_grace_seconds", buf));
    sheet_add(t, "interactive priority",
              get_number(j, "interactive_priority", buf));
    sheet_add(t, "gpu-seconds", get_number(j, "gpu_seconds", buf));
    sheet_add(t, "of these lost", get_number(j, "gpu_seconds_lost", buf));
    sheet_add(t, "cpu-seconds", get_number(j, "cpu_seconds", buf));
    sheet_add(t, "cost", get_number(j, "cost", buf));
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
    const char *max_gpus, *quota, *parent, *budget, *note, *grace, *priority;
    uint64_t weight;
};

#define AT(member) offsetof(struct tenant_opts, member)
#define LIMIT_OPTS \
    { "max-gpus", 0, "N", "devices held at once, or 'unlimited'", OPT_TEXT, \
      AT(max_gpus) }, \
    { "quota", 0, "N", "devices that are guaranteed; 0 takes it away", \
      OPT_TEXT, AT(quota) }, \
    { "parent", 0, "TENANT", "the tenant that it is a part of; none: of " \
      "nobody", OPT_TEXT, AT(parent) }, \
    { "budget", 0, "BUDGET", "such as '100 gpu_hours/month' or " \
      "'500 money/30d'; none: without end", OPT_TEXT, AT(budget) }, \
    { "idle-grace", 0, "TIME", "suspend its tasks when their devices stood " \
      "unused for so long; none: as the policy says", OPT_TEXT, AT(grace) }, \
    { "interactive-priority", 0, "N", "of those that want their devices " \
      "back; none: their own", OPT_TEXT, AT(priority) }, \
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

/* "100 gpu_hours/month".  What the parts may be the server knows. */
static int put_budget(struct cli *c, const char *text, json_t *body)
{
    autofree char *copy = mem_str(text);
    char *rest = copy, *amount = strsep(&rest, " ");
    char *unit = rest ? strsep(&rest, "/") : NULL;
    json_t *o;
    uint64_t milli;

    if (strcmp(text, "none") == 0) {
        json_put(body, "budget", json_null());
        return 0;
    }
    if (!unit || !rest || quantity_milli(amount, &milli, NULL) < 0 ||
        milli == 0)
        return cli_fail(c, CLI_USAGE, "--budget: expected one such as '100 "
                        "gpu_hours/month' or '500 money/30d', or 'none'; got "
                        "'%s'", text);
    o = json_object();
    json_put_milli(o, "amount", milli);
    json_put_str(o, "unit", unit);
    json_put_str(o, "period", rest);
    json_put(body, "budget", o);
    return 0;
}

static int put_priority(struct cli *c, const char *text, json_t *body)
{
    char *end;
    long n;

    if (strcmp(text, "none") == 0) {
        json_put(body, "interactive_priority", json_null());
        return 0;
    }
    errno = 0;
    n = strtol(text, &end, 10);
    if (errno || end == text || *end || n < -1000 || n > 1000)
        return cli_fail(c, CLI_USAGE, "--interactive-priority: expected a "
                        "number from -1000 to 1000, or 'none'; got '%s'",
                        text);
    json_put(body, "interactive_priority", json_integer(n));
    return 0;
}

static int put_idle(struct cli *c, const struct tenant_opts *o, json_t *body)
{
    struct err err;
    uint64_t ms = 0;

    if (o->grace && strcmp(o->grace, "none") != 0 &&
        quantity_duration(o->grace, &ms, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--idle-grace: %s (or 'none')",
                        err.text);
    if (o->grace)
        json_put_milli(body, "idle_grace_seconds", ms);
    return o->priority ? put_priority(c, o->priority, body) : 0;
}

static int put_quota(struct cli *c, const struct tenant_opts *o, json_t *body)
{
    struct err err;
    uint64_t milli;

    if (o->quota && quantity_milli(o->quota, &milli, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--quota: %s", err.text);
    if (o->quota)
        json_put_milli(body, "quota", milli);
    if (o->parent)
        json_put_str(body, "parent",
                     strcmp(o->parent, "none") == 0 ? "" : o->parent);
    return o->budget ? put_budget(c, o->budget, body) : 0;
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
    return put_quota(c, o, body);
}

/* The members as they are to be, when something about them was said. */
static int put_members(struct cli *c, const struct tenant_opts *o,
                       const json_t *old, json_t *body)
{
    json_t *members = json_object_get(old, "members");
    int rc;

    if (old && o->members.count + o->add.count + o->drop.count == 0)
        return 0;
    members = o->members.count || !members ? json_array()
                                           : json_deep_copy(members);
    json_put(body, "members", members);
    rc = change_members(c, members, &o->members, true);
    if (rc == 0)
        rc = change_members(c, members, &o->add, true);
    return rc ? rc : change_members(c, members, &o->drop, false);
}

/* What is not said stays as it is. */
static int put_tenant(struct cli *c, const struct tenant_opts *o,
                      const json_t *old)
{
    autofree char *path = call_path("/v1/tenants/%s", c->args[0]);
    autojson json_t *body = json_object();
    autojson json_t *reply = NULL;
    int rc = put_members(c, o, old, body);

    if (rc == 0)
        rc = put_limits(c, o, body);
    if (rc == 0)
        rc = put_idle(c, o, body);
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
    .usage = "TENANT [--add-member USER] [--quota N] [OPTIONS]",
    .about = "A quota is guaranteed: others may borrow what is free of it, and "
             "give it back.\nOver budget nothing new starts until the next "
             "period.",
    .examples = "weir tenant set vision --max-gpus 8 --add-member uid:1007\n"
                "weir tenant set vision --quota 4 --weight 2 --parent lab\n"
                "weir tenant set vision --budget '100 gpu_hours/month'",
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

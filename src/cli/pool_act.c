#include "cli/verbs.h"

#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/print.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Pools are added, drained and removed. */

/* ---- add ---- */

struct add_opts {
    const char *engine, *kubeconfig, *context, *namespace, *note;
    struct opt_list conf;
    bool observe;
};

#define AT(member) offsetof(struct add_opts, member)
static const struct opt add_opts[] = {
    { "engine", 0, "NAME", "by what it is reached, such as kubernetes",
      OPT_TEXT, AT(engine) },
    { "kubeconfig", 0, "FILE", "of the cluster, as the control plane reads it",
      OPT_TEXT, AT(kubeconfig) },
    { "context", 0, "NAME", "of the kubeconfig, instead of its current one",
      OPT_TEXT, AT(context) },
    { "namespace", 0, "NAME", "where its pods are", OPT_TEXT, AT(namespace) },
    { "conf", 0, "KEY=TEXT", "something else to tell the engine; repeatable",
      OPT_LIST, AT(conf) },
    { "observe", 0, NULL, "look at it only: nothing starts there", OPT_FLAG,
      AT(observe) },
    { "note", 0, "TEXT", "for people", OPT_TEXT, AT(note) },
    { .kind = OPT_END },
};
#undef AT

/* The control plane reads it, so the path must mean the same there. */
static void put_path(json_t *conf, const char *key, const char *path)
{
    autofree char *here = path && path[0] != '/' ? getcwd(NULL, 0) : NULL;
    autofree char *whole = here ? mem_printf("%s/%s", here, path) : NULL;

    json_put_str(conf, key, whole ? whole : path);
}

static int put_conf(struct cli *c, const struct add_opts *o, json_t *conf)
{
    put_path(conf, "kubeconfig", o->kubeconfig);
    json_put_str(conf, "context", o->context);
    json_put_str(conf, "namespace", o->namespace);
    for (size_t i = 0; i < o->conf.count; i++) {
        const char *text = o->conf.items[i];
        size_t n = strcspn(text, "=");
        autofree char *key = mem_strn(text, n);

        if (n == 0 || !text[n])
            return cli_fail(c, CLI_USAGE, "--conf: expected KEY=TEXT, not "
                            "'%s'", text);
        if (json_object_get(conf, key))
            return cli_fail(c, CLI_USAGE, "--conf: '%s' is there twice", key);
        json_put_str(conf, key, text + n + 1);
    }
    return 0;
}

static int run_add(struct cli *c, const void *opts)
{
    const struct add_opts *o = opts;
    autofree char *path = call_path("/v1/pools/%s", c->args[0]);
    autojson json_t *body = json_object(), *reply = NULL, *old = NULL;
    json_t *conf = json_object();
    bool there;
    int rc;

    json_put(body, "conf", conf);
    if (!o->engine)
        return cli_fail(c, CLI_USAGE, "--engine is needed: by what the pool "
                        "is reached");
    json_put_str(body, "engine", o->engine);
    json_put_str(body, "note", o->note);
    if (o->observe)
        json_put_bool(body, "observe", true);
    rc = put_conf(c, o, conf);
    if (rc)
        return rc;
    there = call_try(c, &old, "/v1/pools/%s", c->args[0]) == 0;
    rc = call_json(c, "PUT", path, body, &reply);
    return rc ? rc : print_done(c, reply, "%s is %s; 'weir pool ls' says "
                                "whether it can be reached", c->args[0],
                                there ? "set" : "added");
}

const struct verb verb_pool_add = {
    .name = "pool add",
    .summary = "add a pool, or tell its engine something else",
    .usage = "NAME --engine NAME [OPTIONS]",
    .about = "What is not named is as in a new pool.  The pool is there at "
             "once, and again\nafter a restart; whether it can be reached "
             "shows in 'weir pool ls'.",
    .examples = "weir pool add gpus --engine kubernetes --kubeconfig "
                "~/.kube/config \\\n"
                "    --conf image=registry.example.org/weir:1\n"
                "weir pool add test --engine fake --conf "
                "devices=fake:4xH100-80GB",
    .opts = add_opts,
    .size = sizeof(struct add_opts),
    .min_args = 1, .max_args = 1,
    .run = run_add,
};

/* ---- drain, undrain, remove ---- */

static int act_pool(struct cli *c, const char *what, const char *said)
{
    autofree char *path = call_path("/v1/pools/%s/%s", c->args[0], what);
    autojson json_t *reply = NULL;
    int rc = call_json(c, "POST", path, NULL, &reply);

    return rc ? rc : print_done(c, reply, "%s %s", c->args[0], said);
}

static int run_drain(struct cli *c, const void *opts)
{
    (void) opts;
    return act_pool(c, "drain", "is drained: nothing new starts there");
}

static int run_undrain(struct cli *c, const void *opts)
{
    (void) opts;
    return act_pool(c, "undrain", "is in use again");
}

static int run_remove(struct cli *c, const void *opts)
{
    (void) opts;
    return call_delete(c, "pool", "name", "removed");
}

const struct verb verb_pool_drain = {
    .name = "pool drain",
    .summary = "start nothing new in a pool; what runs there goes on",
    .usage = "POOL",
    .about = "",
    .examples = "weir pool drain gpus",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_POOL,
    .run = run_drain,
};

const struct verb verb_pool_undrain = {
    .name = "pool undrain",
    .summary = "use a drained pool again",
    .usage = "POOL",
    .about = "",
    .examples = "weir pool undrain gpus",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_POOL,
    .run = run_undrain,
};

const struct verb verb_pool_remove = {
    .name = "pool remove",
    .summary = "remove a pool that was added and has nothing under way",
    .usage = "POOL",
    .about = "While tasks run there it is refused: drain it first.  Logs of "
             "what ran there are\nnot shown any more, until a pool of that "
             "name is added again.",
    .examples = "weir pool drain gpus\n"
                "weir pool remove gpus",
    .opts = no_opts,
    .min_args = 1, .max_args = 1,
    .arg = ARG_POOL,
    .run = run_remove,
};

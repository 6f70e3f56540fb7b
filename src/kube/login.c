#include "kube/login.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/plugin.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { TOKEN_MAX = 64 * 1024 };

struct login {
    struct loop *loop;
    const struct config *conf;
    void (*changed)(void *arg);
    void *arg;
    struct credential now;
    bool there;                        /* `now` has been had */
    bool refused;                      /* and was not taken */
    int failed;                        /* how the last try ended, or 0 */
    struct err err;
    uint64_t tried_ms;                 /* of the loop; 0: never */
    struct plugin *plugin;             /* runs */
};

struct login *login_open(struct loop *l, const struct config *conf,
                         void (*changed)(void *arg), void *arg)
{
    struct login *g = mem_new(sizeof *g);

    g->loop = l;
    g->conf = conf;
    g->changed = changed;
    g->arg = arg;
    return g;
}

void login_close(struct login *g)
{
    if (!g)
        return;
    plugin_cancel(g->plugin);
    credential_clear(&g->now);
    free(g);
}

void login_refused(struct login *g)
{
    g->refused = true;
}

static bool tried_within(const struct login *g, uint64_t ms)
{
    return g->tried_ms && loop_now(g->loop) - g->tried_ms < ms;
}

static void settle(struct login *g, int rc, struct credential *c,
                   const struct err *err)
{
    g->failed = rc;
    if (rc < 0) {
        g->err = *err;
        return;
    }
    credential_clear(&g->now);
    g->now = *c;
    g->there = true;
    g->refused = false;
}

/* ---- a file ---- */

static int read_file(const char *path, struct credential *ret, struct err *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(path, TOKEN_MAX, &text, &len, err);

    if (rc < 0)
        return err_prefix(err, rc, "token");
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    if (len == 0 || strlen(text) != len || strpbrk(text, "\r\n"))
        return err_set(err, EINVAL, "token '%s': expected one line", path);
    ret->token = take(text);
    return 0;
}

/* What was read last holds while the file is being replaced. */
static int from_file(struct login *g, struct err *err)
{
    uint64_t keep = g->refused || g->failed ? LOGIN_AGAIN_MS : LOGIN_FILE_MS;
    struct credential c = { 0 };

    if (!tried_within(g, keep)) {
        g->tried_ms = loop_now(g->loop);
        settle(g, read_file(g->conf->token_file, &c, &g->err), &c, &g->err);
    }
    return g->there ? 0 : err_set(err, -g->failed, "%s", g->err.text);
}

/* ---- a program ---- */

static void on_plugin(int rc, struct credential *c, const struct err *err,
                      void *arg)
{
    struct login *g = arg;

    g->plugin = NULL;
    g->tried_ms = loop_now(g->loop);
    settle(g, rc, c, err);
    g->changed(g->arg);
}

static bool holds(const struct login *g)
{
    return g->there && !g->refused &&
           (!g->now.until_ms ||
            clock_wall_ms() + LOGIN_EARLY_MS < g->now.until_ms);
}

static int from_program(struct login *g, struct err *err)
{
    int rc;

    if (holds(g))
        return 0;
    if (g->plugin)
        return -EAGAIN;
    if (tried_within(g, LOGIN_AGAIN_MS)) {
        if (g->failed)
            return err_set(err, -g->failed, "%s", g->err.text);
        return 0;                      /* the newest that can be had */
    }
    g->tried_ms = loop_now(g->loop);
    rc = plugin_start(g->loop, g->conf, on_plugin, g, &g->plugin, err);
    if (rc < 0) {
        settle(g, rc, NULL, err);
        return rc;
    }
    return -EAGAIN;
}

int login_get(struct login *g, const struct credential **ret, struct err *err)
{
    struct err why = { 0 };
    int rc = 0;

    if (g->conf->exec) {
        rc = from_program(g, &why);
    } else if (g->conf->token_file) {
        rc = from_file(g, &why);
    } else if (g->conf->token && !g->now.token) {
        g->now.token = mem_str(g->conf->token);
        g->there = true;
    }
    if (rc < 0)
        return rc == -EAGAIN ? rc : err_set(err, -rc, "%s", why.text);
    *ret = &g->now;
    return 0;
}

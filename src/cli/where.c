#include "cli/where.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

enum { TOKEN_MAX = 4096 };

/* An empty variable is an unset one; a relative path in an XDG variable is
 * invalid by its specification and is ignored as it demands.
 */
static const char *get(const struct where_env *env, const char *name)
{
    const char *v = env->get(name);

    return v && v[0] ? v : NULL;
}

static const char *get_folder(const struct where_env *env, const char *name)
{
    const char *v = get(env, name);

    return v && v[0] == '/' ? v : NULL;
}

static const char *first(const char *a, const char *b)
{
    return a && a[0] ? a : b;
}

static char *find_state(const struct where *w, const struct where_env *env,
                        struct err *err)
{
    const char *named = first(w->state_opt, get(env, "WEIR_STATE"));
    const char *xdg = get_folder(env, "XDG_STATE_HOME");
    const char *home = first(get_folder(env, "HOME"), env->home);

    if (named)
        return mem_str(named);
    if (env->root)
        return mem_str("/var/lib/weir");
    if (xdg)
        return mem_printf("%s/weir", xdg);
    if (home)
        return mem_printf("%s/.local/state/weir", home);
    (void) err_set(err, ENOENT, "no home folder to keep state in; "
                   "name one with --state or $WEIR_STATE");
    return NULL;
}

static char *find_socket(const struct where *w, const struct where_env *env,
                         const char *state)
{
    const char *named = first(w->socket_opt, get(env, "WEIR_SOCKET"));
    const char *run = get_folder(env, "XDG_RUNTIME_DIR");

    if (named)
        return mem_str(named);
    if (w->state_opt || get(env, "WEIR_STATE"))
        return mem_printf("%s/weir.sock", state);
    if (env->root)
        return mem_str("/run/weir/weir.sock");
    if (run)
        return mem_printf("%s/weir/weir.sock", run);
    return mem_printf("%s/weir.sock", state);
}

static int find_token(const struct where *w, const struct where_env *env,
                      char **ret, struct err *err)
{
    const char *file = first(w->token_file, get(env, "WEIR_TOKEN_FILE"));
    size_t len;
    int rc;

    if (!file) {
        *ret = mem_str(get(env, "WEIR_TOKEN"));
        return 0;
    }
    rc = fs_read(file, TOKEN_MAX, ret, &len, err);
    if (rc < 0)
        return err_prefix(err, rc, "token file");
    (*ret)[strcspn(*ret, "\r\n")] = '\0';
    return 0;
}

int where_find(struct where *w, const struct where_env *env, struct err *err)
{
    autofree char *state = find_state(w, env, err);
    autofree char *token = NULL;
    const char *server = w->server_opt;
    int rc;

    if (!state)
        return -ENOENT;
    if (server && w->socket_opt)
        return err_set(err, EINVAL, "--socket and --server are two ways to a "
                       "control plane; name one");
    if (!server && !w->socket_opt)
        server = get(env, "WEIR_SERVER");
    if (server) {
        rc = find_token(w, env, &token, err);
        if (rc < 0)
            return rc;
    }
    w->socket = find_socket(w, env, state);
    w->state = take(state);
    w->server = mem_str(server);
    w->token = take(token);
    w->ca = mem_str(first(w->ca_opt, get(env, "WEIR_CA")));
    return 0;
}

static const char *get_here(const char *name)
{
    return getenv(name);
}

int where_find_here(struct where *w, struct err *err)
{
    const struct passwd *pw = getpwuid(geteuid());
    struct where_env env = {
        .get = get_here,
        .root = geteuid() == 0,
        .home = pw ? pw->pw_dir : NULL,
    };

    return where_find(w, &env, err);
}

void where_free(struct where *w)
{
    free(w->state);
    free(w->socket);
    free(w->server);
    free(w->token);
    free(w->ca);
    w->state = w->socket = w->server = w->token = w->ca = NULL;
}

#include "cli/where.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

static const char *const *vars;

static const char *get(const char *name)
{
    size_t n = strlen(name);

    for (size_t i = 0; vars[i]; i++) {
        if (strncmp(vars[i], name, n) == 0 && vars[i][n] == '=')
            return vars[i] + n + 1;
    }
    return NULL;
}

static const char *or(const char *s)
{
    return s ? s : "";
}

static void check(const char *what, struct where w, bool root,
                  const char *home, const char *const *env, const char *state,
                  const char *socket, const char *server)
{
    struct where_env e = { .get = get, .root = root, .home = home };
    struct err err = { 0 };
    int rc;

    vars = env;
    rc = where_find(&w, &e, &err);
    ok(rc == 0 && strcmp(w.state, state) == 0 &&
       strcmp(w.socket, socket) == 0 && strcmp(or(w.server), server) == 0,
       "%s", what);
    where_free(&w);
}

static void test_places(void)
{
    static const char *const none[] = { NULL };
    static const char *const xdg[] = { "XDG_RUNTIME_DIR=/run/user/7",
                                       "XDG_STATE_HOME=/s", "HOME=/h", NULL };
    static const char *const odd[] = { "XDG_RUNTIME_DIR=relative",
                                       "XDG_STATE_HOME=", "HOME=/h", NULL };
    static const char *const state[] = { "WEIR_STATE=/st",
                                         "XDG_RUNTIME_DIR=/run/user/7", NULL };
    static const char *const both[] = { "WEIR_STATE=/st",
                                        "WEIR_SOCKET=/so", NULL };
    static const char *const server[] = { "WEIR_SERVER=https://a:1",
                                          "HOME=/h", NULL };
    struct where w = { 0 };

    check("root", w, true, "/root", none, "/var/lib/weir",
          "/run/weir/weir.sock", "");
    check("a user with XDG", w, false, NULL, xdg, "/s/weir",
          "/run/user/7/weir/weir.sock", "");
    check("empty and relative variables count as unset", w, false, NULL, odd,
          "/h/.local/state/weir", "/h/.local/state/weir/weir.sock", "");
    check("a home from the password file", w, false, "/pw", none,
          "/pw/.local/state/weir", "/pw/.local/state/weir/weir.sock", "");
    check("a named state folder has its own socket", w, true, NULL, state,
          "/st", "/st/weir.sock", "");
    check("$WEIR_SOCKET goes before that", w, true, NULL, both, "/st", "/so",
          "");
    w.state_opt = "/opt";
    check("--state goes before $WEIR_STATE", w, true, NULL, state, "/opt",
          "/opt/weir.sock", "");
    w.socket_opt = "/sock";
    check("--socket goes before all", w, true, NULL, both, "/opt", "/sock",
          "");
    w = (struct where) { 0 };
    check("$WEIR_SERVER", w, false, NULL, server, "/h/.local/state/weir",
          "/h/.local/state/weir/weir.sock", "https://a:1");
    w.socket_opt = "/sock";
    check("--socket goes before $WEIR_SERVER", w, false, NULL, server,
          "/h/.local/state/weir", "/sock", "");
}

static void test_refusals(void)
{
    static const char *const none[] = { NULL };
    struct where_env e = { .get = get };
    struct where w = { 0 };
    struct err err = { 0 };

    vars = none;
    ok(where_find(&w, &e, &err) < 0 && strstr(err.text, "--state") &&
       !w.state && !w.socket, "no home: says what to do, fills nothing in");
    e.home = "/h";
    w.server_opt = "https://x";
    w.socket_opt = "/s";
    ok(where_find(&w, &e, &err) < 0 && !w.state, "two ways at once");
    w.socket_opt = NULL;
    w.token_file = "/no/such/file";
    ok(where_find(&w, &e, &err) < 0 && strstr(err.text, "/no/such/file") &&
       !w.state, "a token file that is not there is named");
}

static void test_token(void)
{
    static const char *const env[] = { "WEIR_TOKEN=from-env", NULL };
    char path[] = "/tmp/weir-where-XXXXXX";
    struct where_env e = { .get = get, .home = "/h" };
    struct where w = { .server_opt = "https://x" };
    struct err err = { 0 };
    int fd = mkstemp(path);

    vars = env;
    ok(where_find(&w, &e, &err) == 0 && strcmp(w.token, "from-env") == 0,
       "the token of the environment");
    where_free(&w);
    ok(fd >= 0 && write(fd, "weir_1_2\n", 9) == 9, "a token file");
    w.token_file = path;
    ok(where_find(&w, &e, &err) == 0 && strcmp(w.token, "weir_1_2") == 0,
       "the file goes before, without its line end");
    where_free(&w);
    w.server_opt = NULL;
    ok(where_find(&w, &e, &err) == 0 && !w.token,
       "a Unix socket gets no token");
    where_free(&w);
    (void) close(fd);
    (void) unlink(path);
}

int main(void)
{
    test_places();
    test_refusals();
    test_token();
    return tap_done();
}

#include "kube/login.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "kube/config.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

/* Real files and real programs, which are scripts of the shell; the clock of
 * the loop is the test's.
 */
#define V1 "client.authentication.k8s.io/v1"

static char folder[] = "/tmp/weir-login-XXXXXX";
static struct loop *loop;
static uint64_t now_ms = 1000000;
static unsigned changes;

static uint64_t clock_of_test(void *arg)
{
    (void) arg;
    return now_ms;
}

static void on_change(void *arg)
{
    (void) arg;
    changes++;
}

static char *file(const char *name, const char *text)
{
    char *path = mem_printf("%s/%s", folder, name);

    (void) fs_write(path, text, strlen(text), 0700, false, NULL);
    return path;
}

/* The time passes, also for the loop. */
static void pass(uint64_t ms)
{
    now_ms += ms;
    (void) loop_turn(loop, 0, NULL);
}

/* What login_get says once it has something to say. */
static int get(struct login *g, const struct credential **ret, struct err *err)
{
    unsigned before = changes;
    int rc = login_get(g, ret, err);

    if (rc != -EAGAIN)
        return rc;
    while (changes == before)
        (void) loop_turn(loop, 100, NULL);
    return login_get(g, ret, err);
}

static void test_plain(void)
{
    char token[] = "secret";
    struct config none = { 0 }, fixed = { .token = token };
    struct login *a = login_open(loop, &none, on_change, NULL);
    struct login *b = login_open(loop, &fixed, on_change, NULL);
    const struct credential *c = NULL;

    ok(login_get(a, &c, NULL) == 0 && !c->token && !c->cert, "nobody");
    ok(login_get(b, &c, NULL) == 0 && strcmp(c->token, "secret") == 0,
       "a token that stands there");
    login_refused(b);
    ok(login_get(b, &c, NULL) == 0 && c->token, "there is no other");
    login_close(a);
    login_close(b);
}

static void test_file(void)
{
    autofree char *path = mem_printf("%s/token", folder);
    struct config conf = { .token_file = path };
    struct login *g = login_open(loop, &conf, on_change, NULL);
    const struct credential *c = NULL;
    struct err err = { 0 };

    ok(login_get(g, &c, &err) == -ENOENT && strstr(err.text, path), "%s",
       err.text);
    free(file("token", "one\n"));
    ok(login_get(g, &c, &err) == -ENOENT, "not looked for at once");
    pass(LOGIN_AGAIN_MS);
    ok(login_get(g, &c, &err) == 0 && strcmp(c->token, "one") == 0,
       "but soon, without the end of its line");
    free(file("token", "two"));
    pass(LOGIN_AGAIN_MS);
    ok(login_get(g, &c, &err) == 0 && strcmp(c->token, "one") == 0,
       "kept for a while");
    login_refused(g);
    ok(login_get(g, &c, &err) == 0 && strcmp(c->token, "two") == 0,
       "read anew when it was refused");
    free(file("token", "three"));
    pass(LOGIN_FILE_MS);
    ok(login_get(g, &c, &err) == 0 && strcmp(c->token, "three") == 0,
       "and after its time");
    free(file("token", "a\nb"));
    pass(LOGIN_FILE_MS);
    ok(login_get(g, &c, &err) == 0 && strcmp(c->token, "three") == 0,
       "one that cannot be read leaves the old one");
    login_close(g);
}

/* A config with a program of these lines. */
static struct config *program(const char *script, bool cluster)
{
    autofree char *text = mem_printf("#!/bin/sh\n%s\n", script);
    autofree char *path = file("login", text), *doc = NULL;
    struct config *c = NULL;
    struct err err = { 0 };

    doc = mem_printf("{current-context: x, contexts: [{name: x, context: "
                     "{cluster: c, user: u}}], clusters: [{name: c, cluster: "
                     "{server: 'https://s:1'}}], users: [{name: u, user: "
                     "{exec: {apiVersion: " V1 ", command: %s, args: [an arg],"
                     " provideClusterInfo: %s, installHint: 'buy it', env: "
                     "[{name: GIVEN, value: this}, {name: HOME, value: /h}]"
                     "}}}]}", path, cluster ? "true" : "false");
    if (config_read(doc, strlen(doc), folder, NULL, &c, &err) < 0)
        printf("# %s\n", err.text);
    return c;
}

#define SAY(status) "echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 \
                    "\",\"status\":{" status "}}'"

static void test_program(void)
{
    struct config *conf = program(
        "echo run >> \"$(dirname \"$0\")/runs\"\n"
        "echo \"$1|$GIVEN|$HOME|$KUBERNETES_EXEC_INFO\" > "
        "\"$(dirname \"$0\")/told\"\n" SAY("\"token\":\"t1\""), true);
    struct login *g = login_open(loop, conf, on_change, NULL);
    autofree char *told = NULL, *runs = NULL;
    autofree char *at = mem_printf("%s/told", folder);
    autofree char *count = mem_printf("%s/runs", folder);
    const struct credential *c = NULL;
    struct err err = { 0 };

    ok(login_get(g, &c, &err) == -EAGAIN && login_get(g, &c, &err) == -EAGAIN,
       "it runs, once");
    ok(get(g, &c, &err) == 0 && strcmp(c->token, "t1") == 0, "its token");
    pass(UINT64_C(86400000));
    ok(login_get(g, &c, &err) == 0, "without an end it holds");
    login_refused(g);
    ok(login_get(g, &c, &err) == -EAGAIN && get(g, &c, &err) == 0,
       "until it is refused");
    login_refused(g);
    ok(login_get(g, &c, &err) == 0, "but not at once again");
    (void) fs_read(at, 4096, &told, NULL, NULL);
    if (told)
        told[strcspn(told, "\n")] = '\0';
    ok(told && strstr(told, "an arg|this|/h|{\"apiVersion\":\"" V1 "\","
                      "\"kind\":\"ExecCredential\",\"spec\":{\"interactive\":"
                      "false,\"cluster\":{\"server\":\"https://s:1\"}}}"),
       "what it is told: %s", told ? told : "");
    (void) fs_read(count, 4096, &runs, NULL, NULL);
    ok(runs && strcmp(runs, "run\nrun\n") == 0, "it ran twice");
    login_close(g);
    config_free(conf);
}

static void test_ends(void)
{
    char until[40];
    autofree char *script = NULL;
    struct config *conf;
    struct login *g;
    const struct credential *c = NULL;
    struct err err = { 0 };

    clock_print(clock_wall_ms() + LOGIN_EARLY_MS / 2, until, sizeof until);
    script = mem_printf("echo '{\"kind\":\"ExecCredential\",\"apiVersion\":\""
                        V1 "\",\"status\":{\"clientCertificateData\":\"c\","
                        "\"clientKeyData\":\"k\",\"expirationTimestamp\":"
                        "\"%s\"}}'", until);
    conf = program(script, false);
    g = login_open(loop, conf, on_change, NULL);
    ok(get(g, &c, &err) == 0 && strcmp(c->cert, "c") == 0 &&
       strcmp(c->key, "k") == 0, "a certificate that is about to end is used");
    pass(LOGIN_AGAIN_MS);
    ok(login_get(g, &c, &err) == -EAGAIN, "and renewed in time");
    login_close(g);                    /* while it runs */
    config_free(conf);
}

static void test_bad(void)
{
    static const struct {
        const char *script, *says;
        int code;
    } bad[] = {
        { "echo first >&2; echo 'log in with x' >&2; exit 3",
          "login' ended with status 3: log in with x", EKEYREJECTED },
        { "kill -9 $$", "ended with signal 9", EKEYREJECTED },
        { "echo hello", "login' printed: not JSON", EPROTO },
        { ":", "login' printed: not JSON", EPROTO },
        { "head -c 2000000 /dev/zero", "printed more than", EFBIG },
        /* What it leaves behind does not keep us waiting. */
        { "sleep 1000 & exit 4", "ended with status 4", EKEYREJECTED },
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        struct config *conf = program(bad[i].script, false);
        struct login *g = login_open(loop, conf, on_change, NULL);
        const struct credential *c = NULL;
        struct err err = { 0 };

        ok(get(g, &c, &err) == -bad[i].code && strstr(err.text, bad[i].says),
           "%s", err.text);
        ok(login_get(g, &c, &err) == -bad[i].code, "said again, not run");
        login_close(g);
        config_free(conf);
    }
}

/* Under valgrind the C library does not learn that a program is not there:
 * what it starts is then one that ends with 127.
 */
static void test_missing(void)
{
    int code = getenv("WEIR_VALGRIND") ? EKEYREJECTED : ENOENT;
    const char *says = getenv("WEIR_VALGRIND") ? "status 127" : "; buy it";
    struct config *conf = program(":", false);
    struct login *g = login_open(loop, conf, on_change, NULL);
    const struct credential *c = NULL;
    struct err err = { 0 };

    (void) unlink(conf->exec->command);
    ok(get(g, &c, &err) == -code && strstr(err.text, says), "%s", err.text);
    login_close(g);
    config_free(conf);
}

static void test_late(void)
{
    struct config *conf = program("sleep 1000 & sleep 1000", false);
    struct login *g = login_open(loop, conf, on_change, NULL);
    const struct credential *c = NULL;
    unsigned before = changes;
    struct err err = { 0 };
    int rc;

    rc = login_get(g, &c, &err);
    ok(rc == -EAGAIN, "it runs");
    now_ms += 60000;
    while (rc == -EAGAIN && changes == before)
        (void) loop_turn(loop, 100, NULL);
    ok(login_get(g, &c, &err) == -ETIMEDOUT &&
       strstr(err.text, "took longer than 60 s"), "%s", err.text);
    login_close(g);
    config_free(conf);
}

int main(void)
{
    if (!mkdtemp(folder) || loop_open(&loop, NULL) < 0)
        return 1;
    loop_set_clock(loop, clock_of_test, NULL);
    (void) loop_turn(loop, 0, NULL);
    test_plain();
    test_file();
    test_program();
    test_ends();
    test_bad();
    test_missing();
    test_late();
    loop_close(loop);
    (void) fs_remove_tree(folder, NULL);
    return tap_done();
}

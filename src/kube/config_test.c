#include "kube/config.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* "-----BEGIN X-----\n" */
#define PEM "LS0tLS1CRUdJTiBYLS0tLS0K"

static const char whole[] =
    "apiVersion: v1\n"
    "kind: Config\n"
    "current-context: one\n"
    "preferences: {}\n"
    "clusters:\n"
    "- name: c1\n"
    "  cluster:\n"
    "    server: https://10.0.0.1:6443//\n"
    "    certificate-authority-data: " PEM "\n"
    "    certificate-authority: not-used.crt\n"
    "    tls-server-name: kubernetes\n"
    "- name: c2\n"
    "  cluster: {server: 'https://api.example:443/k8s/c2', "
    "certificate-authority: pki/ca.crt}\n"
    "users:\n"
    "- name: u1\n"
    "  user: {client-certificate-data: " PEM ", client-key-data: " PEM "}\n"
    "- name: u2\n"
    "  user:\n"
    "    tokenFile: /run/token\n"
    "- name: u3\n"
    "  user:\n"
    "    exec:\n"
    "      apiVersion: client.authentication.k8s.io/v1\n"
    "      command: bin/login\n"
    "      args: [--cluster, '7', '']\n"
    "      env:\n"
    "      - {name: A, value: b=c}\n"
    "      installHint: ask somebody\n"
    "      provideClusterInfo: true\n"
    "      interactiveMode: IfAvailable\n"
    "- name: u4\n"
    "  user: {token: 12345}\n"
    "contexts:\n"
    "- name: one\n"
    "  context: {cluster: c1, user: u1, namespace: team}\n"
    "- name: two\n"
    "  context: {cluster: c2, user: u2}\n"
    "- name: three\n"
    "  context: {cluster: c2, user: u3}\n"
    "- name: four\n"
    "  context: {cluster: c2, user: u4}\n"
    "- name: nobody\n"
    "  context: {cluster: c2}\n";

static struct config *get(const char *context)
{
    struct config *c = NULL;
    struct err err = { 0 };

    if (config_read(whole, strlen(whole), "/etc/k", context, &c, &err) < 0)
        printf("# %s\n", err.text);
    return c;
}

static void test_whole(void)
{
    struct config *c = get(NULL);

    ok(c && strcmp(c->server, "https://10.0.0.1:6443") == 0 &&
       strcmp(c->server_name, "kubernetes") == 0 &&
       strcmp(c->space, "team") == 0, "the current context");
    ok(c && strcmp(c->ca, "-----BEGIN X-----\n") == 0 && !c->ca_file &&
       c->cert && c->key && !c->token && !c->exec,
       "certificates in the file count before those beside it");
    config_free(c);
    c = get("two");
    ok(c && strcmp(c->server, "https://api.example:443/k8s/c2") == 0 &&
       strcmp(c->ca_file, "/etc/k/pki/ca.crt") == 0 && !c->ca &&
       strcmp(c->token_file, "/run/token") == 0 &&
       strcmp(c->space, "default") == 0, "files beside the file");
    config_free(c);
    c = get("three");
    ok(c && c->exec && strcmp(c->exec->command, "/etc/k/bin/login") == 0 &&
       strcmp(c->exec->args[0], "/etc/k/bin/login") == 0 &&
       strcmp(c->exec->args[2], "7") == 0 && !*c->exec->args[3] &&
       !c->exec->args[4] && strcmp(c->exec->env[0], "A=b=c") == 0 &&
       !c->exec->env[1] && c->exec->cluster_info &&
       strcmp(c->exec->hint, "ask somebody") == 0, "a program");
    config_free(c);
    c = get("four");
    ok(c && strcmp(c->token, "12345") == 0, "a token, also one of digits");
    config_free(c);
    c = get("nobody");
    ok(c && !c->token && !c->cert, "no user is no credentials");
    config_free(c);
}

/* A file with one thing other than it should be. */
static const struct {
    const char *cluster, *user, *says;
} bad[] = {
    { "server: http://x:1", "", "clusters[0].cluster.server: expected https" },
    { "server: https://", "", "clusters[0].cluster.server: expected https" },
    { "server: 'https://u@x'", "", "clusters[0].cluster.server: expected" },
    { "server: [a]", "", "clusters[0].cluster.server: expected a text" },
    { "server: \"https://x\\ny\"", "", "server: expected one line" },
    { "{}", "", "clusters[0].cluster.server: missing" },
    { "[]", "", "clusters[0].cluster: expected a mapping" },
    { "{server: 'https://x', insecure-skip-tls-verify: true}", "",
      "insecure-skip-tls-verify: refused" },
    { "{server: 'https://x', insecure-skip-tls-verify: 'yes'}", "",
      "insecure-skip-tls-verify: refused" },
    { "{server: 'https://x', proxy-url: 'socks5://y'}", "", "proxy-url: not" },
    { "{server: 'https://x', certificate-authority-data: '***'}", "",
      "certificate-authority-data: not base64" },
    { "{server: 'https://x', certificate-authority-data: Zm9v}", "",
      "certificate-authority-data: not a certificate" },
    { "{server: 'https://x', tls-server-name: 'a:b'}", "", "tls-server-name" },
    { "server: https://x", "client-certificate: a",
      "users[0].user.client-key: missing" },
    { "server: https://x", "client-key: a",
      "users[0].user.client-certificate: missing" },
    { "server: https://x", "{username: a, password: b}", "username: Kubern" },
    { "server: https://x", "auth-provider: {name: gcp}", "auth-provider: Kub" },
    { "server: https://x", "as: root", "users[0].user.as: acting" },
    { "server: https://x", "token: {a: b}", "user.token: expected a text" },
    { "server: https://x", "exec: x", "users[0].user.exec: expected" },
    { "server: https://x", "exec: {command: x}", "user.exec.apiVersion: exp" },
    { "server: https://x", "exec: {apiVersion: "
      "client.authentication.k8s.io/v1}", "exec.command: missing" },
    { "server: https://x", "exec: {apiVersion: "
      "client.authentication.k8s.io/v1, command: x, interactiveMode: Always}",
      "exec.interactiveMode: Always" },
    { "server: https://x", "exec: {apiVersion: "
      "client.authentication.k8s.io/v1, command: x, args: [[]]}",
      "exec.args: expected texts" },
    { "server: https://x", "exec: {apiVersion: "
      "client.authentication.k8s.io/v1, command: x, env: [{name: 'a=b', "
      "value: c}]}", "exec.env: expected" },
};

static void test_bad(void)
{
    for (size_t i = 0; i < array_size(bad); i++) {
        bool wraps = bad[i].cluster[0] == '{' || bad[i].cluster[0] == '[';
        bool wraps_user = bad[i].user[0] == '{';
        autofree char *text = mem_printf(
            "{current-context: x, contexts: [{name: x, context: {cluster: c, "
            "user: u}}], clusters: [{name: c, cluster: %s%s%s}], users: "
            "[{name: u, user: %s%s%s}]}", wraps ? "" : "{", bad[i].cluster,
            wraps ? "" : "}", wraps_user ? "" : "{", bad[i].user,
            wraps_user ? "" : "}");
        struct config *c = NULL;
        struct err err = { 0 };

        ok(config_read(text, strlen(text), "/", NULL, &c, &err) == -EINVAL &&
           !c && strstr(err.text, bad[i].says) && !strchr(err.text, '\n'),
           "%s", err.text);
    }
}

static void test_missing(void)
{
    static const struct {
        const char *text, *context, *says;
        int code;
    } cases[] = {
        { "", NULL, "line 1: the file is empty", EINVAL },
        { "[]", NULL, "expected a mapping", EINVAL },
        { "a: b: c", NULL, "line 1: not YAML", EINVAL },
        { "a: 1\na: 2", NULL, "line 2: a key is there twice", EINVAL },
        { "a: &x 1\nb: *x", NULL, "line 2: aliases", EINVAL },
        { "a: !t 1", NULL, "line 1: tags", EINVAL },
        { "a\n---\nb", NULL, "a second document", EINVAL },
        { "{[a]: b}", NULL, "a key is a word", EINVAL },
        { "a: \"\\0\"", NULL, "NUL", EINVAL },
        { "a: \xff", NULL, "not YAML", EINVAL },
        { "{}", NULL, "current-context: missing", EINVAL },
        { "{}", "x", "contexts: there is no 'x'", ENOENT },
        { "contexts: {}", "x", "contexts: expected a list", EINVAL },
        { "contexts: [{name: prod, context: {cluster: c}}]", "prd",
          "did you mean 'prod'?", ENOENT },
        { "contexts: [{name: x}]", "x", "contexts[0].context.cluster: missing",
          EINVAL },
        { "contexts: [{name: x, context: {cluster: c}}]", "x",
          "clusters: there is no 'c'", ENOENT },
        { "{contexts: [{name: x, context: {cluster: c, user: u}}], clusters: "
          "[{name: c, cluster: {server: 'https://x'}}]}", "x",
          "users: there is no 'u'", ENOENT },
    };
    char deep[200];
    struct config *c = NULL;
    struct err err = { 0 };

    for (size_t i = 0; i < array_size(cases); i++) {
        err = (struct err) { 0 };
        ok(config_read(cases[i].text, strlen(cases[i].text), "/",
                       cases[i].context, &c, &err) == -cases[i].code && !c &&
           strstr(err.text, cases[i].says), "%s", err.text);
    }
    memset(deep, '[', sizeof deep);
    ok(config_read(deep, sizeof deep, "/", NULL, &c, &err) == -EINVAL &&
       strstr(err.text, "nested too deep"), "%s", err.text);
}

static void write_file(const char *folder, const char *name, const char *text)
{
    autofree char *path = mem_printf("%s/%s", folder, name);

    (void) fs_write(path, text, strlen(text), 0600, false, NULL);
}

static void test_files(const char *folder)
{
    autofree char *path = mem_printf("%s/config", folder);
    struct config *c = NULL;
    struct err err = { 0 };

    ok(config_load(path, NULL, &c, &err) == -ENOENT && strstr(err.text, path),
       "%s", err.text);
    write_file(folder, "config", "{current-context: x, contexts: [{name: x, "
               "context: {cluster: c}}], clusters: [{name: c, cluster: "
               "{server: 'https://x', certificate-authority: ca.pem}}]}");
    ok(config_load(path, NULL, &c, &err) == -ENOENT &&
       strstr(err.text, "ca.pem"), "%s", err.text);
    write_file(folder, "ca.pem", "nothing");
    ok(config_load(path, NULL, &c, &err) == -EINVAL &&
       strstr(err.text, "ca.pem' is not in PEM form"), "%s", err.text);
    write_file(folder, "ca.pem", "-----BEGIN X-----\n");
    ok(config_load(path, NULL, &c, &err) == 0 && strstr(c->name, path),
       "loaded: %s", c ? c->name : "");
    config_free(c);
}

static void test_pod(const char *folder)
{
    struct config *c = NULL;
    struct err err = { 0 };

    ok(config_in_pod(NULL, NULL, folder, &c, &err) == -ENOENT &&
       strstr(err.text, "not in a pod"), "%s", err.text);
    ok(config_in_pod("10.0.0.1", "443", folder, &c, &err) == -ENOENT,
       "%s", err.text);
    write_file(folder, "namespace", "team\n");
    write_file(folder, "ca.crt", "-----BEGIN X-----\n");
    ok(config_in_pod("fd00::1", "443", folder, &c, &err) == 0 &&
       strcmp(c->server, "https://[fd00::1]:443") == 0 &&
       strcmp(c->space, "team") == 0 && c->token_file && c->ca_file,
       "a service account");
    config_free(c);
}

int main(void)
{
    char folder[] = "/tmp/weir-config-XXXXXX";

    if (!mkdtemp(folder))
        return 1;
    test_whole();
    test_bad();
    test_missing();
    test_files(folder);
    test_pod(folder);
    (void) fs_remove_tree(folder, NULL);
    return tap_done();
}

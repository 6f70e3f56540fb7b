#include "kube/config.h"

#include "base/base64.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/near.h"
#include "kube/object.h"
#include "kube/plain.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 64 * 1024, NAME_SIZE = 96 };

struct quoted {
    char s[NAME_SIZE];
};

static struct quoted quoted(const char *text)
{
    struct quoted q = { "" };

    object_line(text, strlen(text), q.s, sizeof q.s);
    return q;
}

/* What is being read, and where in the file it stands: "users[2].user". */
struct part {
    const json_t *o;
    const char *folder;
    char where[64];
};

static int wrong(const struct part *p, const char *field, struct err *err,
                 const char *what)
{
    return err_set(err, EINVAL, "%s.%s: %s", p->where, field, what);
}

/* A text that may be absent or empty: then *ret stays NULL. */
static int get_text(const struct part *p, const char *field, char **ret,
                    struct err *err)
{
    const json_t *j = json_object_get(p->o, field);
    const char *s = json_string_value(j);

    if (!j || json_is_null(j) || (s && !*s))
        return 0;
    if (!s)
        return wrong(p, field, err, "expected a text");
    if (json_string_length(j) > TEXT_MAX)
        return wrong(p, field, err, "longer than 64 KiB");
    *ret = mem_str(s);
    return 0;
}

/* The same, of one line. */
static int get_line(const struct part *p, const char *field, char **ret,
                    struct err *err)
{
    autofree char *s = NULL;
    int rc = get_text(p, field, &s, err);

    if (rc < 0)
        return rc;
    for (const char *c = s; c && *c; c++)
        if ((unsigned char) *c < ' ' || *c == 127)
            return wrong(p, field, err, "expected one line");
    if (s)
        *ret = take(s);
    return 0;
}

static char *full_path(const char *folder, const char *path)
{
    return path[0] == '/' ? mem_str(path) : mem_printf("%s/%s", folder, path);
}

static int get_path(const struct part *p, const char *field, char **ret,
                    struct err *err)
{
    autofree char *s = NULL;
    int rc = get_line(p, field, &s, err);

    if (rc == 0 && s)
        *ret = full_path(p->folder, s);
    return rc;
}

static bool is_pem(const char *s, size_t len)
{
    return strlen(s) == len && strstr(s, "-----BEGIN ");
}

static int get_pem(const struct part *p, const char *field, char **ret,
                   struct err *err)
{
    const json_t *j = json_object_get(p->o, field);
    const char *s = json_string_value(j);
    autofree char *out = NULL;
    size_t len = 0;
    int rc;

    if (!j || json_is_null(j) || (s && !*s))
        return 0;
    if (!s)
        return wrong(p, field, err, "expected base64");
    rc = base64_decode(s, json_string_length(j), &out, &len, err);
    if (rc < 0)
        return err_prefix(err, rc, "%s.%s", p->where, field);
    if (!is_pem(out, len))
        return wrong(p, field, err, "not a certificate or key in PEM form");
    *ret = take(out);
    return 0;
}

/* NAME-data counts before NAME. */
static int get_either(const struct part *p, const char *data, const char *file,
                      char **ret, char **ret_file, struct err *err)
{
    int rc = get_pem(p, data, ret, err);

    return rc < 0 || *ret ? rc : get_path(p, file, ret_file, err);
}

/* ---- the lists of named things ---- */

static int no_such(const json_t *all, const char *list, const char *name,
                   struct err *err)
{
    struct near n;
    const json_t *o;
    size_t i;

    near_init(&n, name);
    json_array_foreach(all, i, o)
        near_try(&n, json_get_str(o, "name", ""));
    if (n.best && *n.best)
        return err_set(err, ENOENT, "%s: there is no '%s'; did you mean '%s'?",
                       list, quoted(name).s, quoted(n.best).s);
    return err_set(err, ENOENT, "%s: there is no '%s'", list, quoted(name).s);
}

/* The part `inner` of the entry of that name in the list. */
static int find(const json_t *root, const char *list, const char *inner,
                const char *name, struct part *ret, struct err *err)
{
    const json_t *all = json_object_get(root, list), *o;
    size_t i;

    if (all && !json_is_array(all) && !json_is_null(all))
        return err_set(err, EINVAL, "%s: expected a list", list);
    if (json_array_size(all) > CONFIG_LIST_MAX)
        return err_set(err, EINVAL, "%s: more than %d entries", list,
                       CONFIG_LIST_MAX);
    json_array_foreach(all, i, o) {
        if (strcmp(json_get_str(o, "name", ""), name) != 0)
            continue;
        (void) snprintf(ret->where, sizeof ret->where, "%.20s[%zu].%.20s",
                        list, i, inner);
        ret->o = json_object_get(o, inner);
        if (ret->o && !json_is_object(ret->o) && !json_is_null(ret->o))
            return err_set(err, EINVAL, "%s: expected a mapping", ret->where);
        return 0;
    }
    return no_such(all, list, name, err);
}

/* ---- a cluster ---- */

static int check_server(const struct part *p, const struct config *c,
                        struct err *err)
{
    size_t len;

    if (!c->server)
        return wrong(p, "server", err, "missing");
    if (strncmp(c->server, "https://", 8) != 0 || !c->server[8] ||
        c->server[8] == '/')
        return wrong(p, "server", err, "expected https://HOST:PORT");
    if (strpbrk(c->server, "?# @\\"))
        return wrong(p, "server", err, "expected https://HOST:PORT and "
                     "perhaps a path");
    for (len = strlen(c->server); c->server[len - 1] == '/'; len--)
        c->server[len - 1] = '\0';
    return 0;
}

static int read_cluster(const struct part *p, struct config *c,
                        struct err *err)
{
    const json_t *loose = json_object_get(p->o, "insecure-skip-tls-verify");
    autofree char *proxy = NULL;
    int rc = get_line(p, "server", &c->server, err);

    if (rc == 0)
        rc = check_server(p, c, err);
    if (rc == 0 && loose && !json_is_false(loose) && !json_is_null(loose))
        return wrong(p, "insecure-skip-tls-verify", err, "refused: the server "
                     "is always verified; give its certificate-authority");
    if (rc == 0)
        rc = get_line(p, "proxy-url", &proxy, err);
    if (rc == 0 && proxy)
        return wrong(p, "proxy-url", err, "not supported; set https_proxy in "
                     "the environment instead");
    if (rc == 0)
        rc = get_line(p, "tls-server-name", &c->server_name, err);
    if (rc == 0 && c->server_name && strpbrk(c->server_name, ":/?#@\\ []"))
        return wrong(p, "tls-server-name", err, "expected the name of a host");
    return rc < 0 ? rc : get_either(p, "certificate-authority-data",
                                    "certificate-authority", &c->ca,
                                    &c->ca_file, err);
}

/* ---- a user ---- */

static size_t count(const char *const *list)
{
    size_t n = 0;

    while (list && list[n])
        n++;
    return n;
}

static void push(char ***list, char *text)
{
    size_t n = count((const char *const *) *list);

    *list = mem_grow(*list, n + 2, sizeof **list);
    (*list)[n] = text;
    (*list)[n + 1] = NULL;
}

static int read_args(const struct part *p, struct config_exec *x,
                     struct err *err)
{
    const json_t *all = json_object_get(p->o, "args"), *j;
    size_t i;

    push(&x->args, mem_str(x->command));
    if (all && !json_is_array(all) && !json_is_null(all))
        return wrong(p, "args", err, "expected a list");
    if (json_array_size(all) > CONFIG_LIST_MAX)
        return wrong(p, "args", err, "too many");
    json_array_foreach(all, i, j) {
        if (!json_is_string(j))
            return wrong(p, "args", err, "expected texts");
        push(&x->args, mem_str(json_string_value(j)));
    }
    return 0;
}

static int read_env(const struct part *p, struct config_exec *x,
                    struct err *err)
{
    const json_t *all = json_object_get(p->o, "env"), *j;
    size_t i;

    if (all && !json_is_array(all) && !json_is_null(all))
        return wrong(p, "env", err, "expected a list");
    if (json_array_size(all) > CONFIG_LIST_MAX)
        return wrong(p, "env", err, "too many");
    json_array_foreach(all, i, j) {
        const char *name = json_get_str(j, "name", "");
        const char *value = json_get_str(j, "value", NULL);

        if (!*name || strchr(name, '=') || !value)
            return wrong(p, "env", err, "expected a name and a value, both "
                         "texts");
        push(&x->env, mem_printf("%s=%s", name, value));
    }
    return 0;
}

static int check_exec(const struct part *p, const struct config_exec *x,
                      struct err *err)
{
    const char *mode = json_get_str(p->o, "interactiveMode", "");

    if (!x->command)
        return wrong(p, "command", err, "missing");
    if (!x->version ||
        (strcmp(x->version, "client.authentication.k8s.io/v1") != 0 &&
         strcmp(x->version, "client.authentication.k8s.io/v1beta1") != 0))
        return wrong(p, "apiVersion", err, "expected "
                     "client.authentication.k8s.io/v1 or v1beta1");
    if (strcmp(mode, "Always") == 0)
        return wrong(p, "interactiveMode", err, "Always cannot be: nobody "
                     "sits in front of this program");
    return 0;
}

static int read_exec(const struct part *user, struct config *c,
                     struct err *err)
{
    const json_t *o = json_object_get(user->o, "exec");
    struct part p = { .o = o, .folder = user->folder };
    struct config_exec *x;
    int rc;

    if (!o || json_is_null(o))
        return 0;
    if (!json_is_object(o))
        return wrong(user, "exec", err, "expected a mapping");
    (void) snprintf(p.where, sizeof p.where, "%.48s.exec", user->where);
    x = c->exec = mem_new(sizeof *x);
    rc = get_line(&p, "apiVersion", &x->version, err);
    if (rc == 0)
        rc = get_line(&p, "command", &x->command, err);
    if (rc == 0)
        rc = check_exec(&p, x, err);
    if (rc == 0 && strchr(x->command, '/')) {
        char *path = full_path(p.folder, x->command);

        free(x->command);
        x->command = path;
    }
    if (rc == 0)
        rc = get_line(&p, "installHint", &x->hint, err);
    if (rc == 0)
        rc = read_args(&p, x, err);
    if (rc == 0)
        rc = read_env(&p, x, err);
    x->cluster_info = json_get_bool(o, "provideClusterInfo", false);
    return rc;
}

static int refuse_old(const struct part *p, struct err *err)
{
    static const struct {
        const char *field, *why;
    } old[] = {
        { "username", "Kubernetes takes no passwords any more" },
        { "password", "Kubernetes takes no passwords any more" },
        { "auth-provider", "Kubernetes has none any more; use exec" },
        { "as", "acting for somebody else is not supported" },
        { "as-uid", "acting for somebody else is not supported" },
        { "as-groups", "acting for somebody else is not supported" },
    };

    for (size_t i = 0; i < array_size(old); i++)
        if (json_object_get(p->o, old[i].field))
            return wrong(p, old[i].field, err, old[i].why);
    return 0;
}

static int read_user(const struct part *p, struct config *c, struct err *err)
{
    int rc = refuse_old(p, err);

    if (rc == 0)
        rc = get_either(p, "client-certificate-data", "client-certificate",
                        &c->cert, &c->cert_file, err);
    if (rc == 0)
        rc = get_either(p, "client-key-data", "client-key", &c->key,
                        &c->key_file, err);
    if (rc == 0 && (c->cert || c->cert_file) && !c->key && !c->key_file)
        return wrong(p, "client-key", err, "missing; there is a certificate");
    if (rc == 0 && (c->key || c->key_file) && !c->cert && !c->cert_file)
        return wrong(p, "client-certificate", err, "missing; there is a key");
    if (rc == 0)
        rc = get_line(p, "token", &c->token, err);
    if (rc == 0)
        rc = get_path(p, "tokenFile", &c->token_file, err);
    return rc < 0 ? rc : read_exec(p, c, err);
}

/* ---- the whole ---- */

static int read_context(const json_t *root, const char *context,
                        struct config *c, const char *folder, struct err *err)
{
    struct part p = { .folder = folder };
    autofree char *cluster = NULL, *user = NULL;
    int rc = find(root, "contexts", "context", context, &p, err);

    if (rc == 0)
        rc = get_line(&p, "namespace", &c->space, err);
    if (rc == 0)
        rc = get_line(&p, "cluster", &cluster, err);
    if (rc == 0 && !cluster)
        return wrong(&p, "cluster", err, "missing");
    if (rc == 0)
        rc = get_line(&p, "user", &user, err);
    if (rc == 0)
        rc = find(root, "clusters", "cluster", cluster, &p, err);
    if (rc == 0)
        rc = read_cluster(&p, c, err);
    if (rc == 0 && user)
        rc = find(root, "users", "user", user, &p, err);
    if (rc == 0 && user)
        rc = read_user(&p, c, err);
    if (rc == 0 && !c->space)
        c->space = mem_str("default");
    return rc;
}

int config_read(const char *text, size_t len, const char *folder,
                const char *context, struct config **ret, struct err *err)
{
    autojson json_t *root = NULL;
    struct config *c;
    int rc = plain_read(text, len, &root, err);

    if (rc < 0)
        return rc;
    if (!json_is_object(root))
        return err_set(err, EINVAL, "not a kubeconfig: expected a mapping");
    if (!context)
        context = json_get_str(root, "current-context", "");
    if (!*context)
        return err_set(err, EINVAL, "current-context: missing; name a context");
    c = mem_new(sizeof *c);
    rc = read_context(root, context, c, folder, err);
    if (rc < 0) {
        config_free(c);
        return rc;
    }
    c->name = mem_printf("context '%s'", quoted(context).s);
    *ret = c;
    return 0;
}

/* ---- files ---- */

/* That it is there, readable and PEM; who connects reads it each time. */
static int check_file(const char *path, struct err *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    int rc = path ? fs_read(path, CONFIG_FILE_MAX, &text, &len, err) : 0;

    if (rc == 0 && path && !is_pem(text, len))
        return err_set(err, EINVAL, "'%s' is not in PEM form", path);
    return rc;
}

static int check_files(const struct config *c, struct err *err)
{
    int rc = check_file(c->ca_file, err);

    if (rc == 0)
        rc = check_file(c->cert_file, err);
    return rc < 0 ? rc : check_file(c->key_file, err);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return mem_str(".");
    return slash == path ? mem_str("/")
                         : mem_strn(path, (size_t) (slash - path));
}

int config_load(const char *path, const char *context, struct config **ret,
                struct err *err)
{
    autofree char *text = NULL, *folder = folder_of(path), *name = NULL;
    struct config *c = NULL;
    size_t len = 0;
    int rc = fs_read(path, CONFIG_FILE_MAX, &text, &len, err);

    if (rc < 0)
        return err_prefix(err, rc, "kubeconfig");
    rc = config_read(text, len, folder, context, &c, err);
    if (rc == 0)
        rc = check_files(c, err);
    if (rc < 0) {
        config_free(c);
        return err_prefix(err, rc, "kubeconfig '%s'", path);
    }
    name = mem_printf("kubeconfig '%s', %s", path, c->name);
    free(c->name);
    c->name = take(name);
    *ret = c;
    return 0;
}

int config_in_pod(const char *host, const char *port, const char *folder,
                  struct config **ret, struct err *err)
{
    autofree char *space = NULL, *path = mem_printf("%s/namespace", folder);
    struct config *c;
    int rc;

    if (!host || !*host || !port || !*port)
        return err_set(err, ENOENT, "not in a pod: KUBERNETES_SERVICE_HOST "
                       "and KUBERNETES_SERVICE_PORT are not set");
    rc = fs_read(path, NAME_SIZE, &space, NULL, err);
    if (rc < 0)
        return err_prefix(err, rc, "service account");
    space[strcspn(space, " \r\n")] = '\0';
    c = mem_new(sizeof *c);
    /* The address of version 6 stands in brackets. */
    c->server = mem_printf(strchr(host, ':') ? "https://[%s]:%s"
                                             : "https://%s:%s", host, port);
    c->name = mem_str("the pod's service account");
    c->space = mem_str(*space ? space : "default");
    c->ca_file = mem_printf("%s/ca.crt", folder);
    c->token_file = mem_printf("%s/token", folder);
    rc = check_files(c, err);
    if (rc < 0) {
        config_free(c);
        return err_prefix(err, rc, "service account");
    }
    *ret = c;
    return 0;
}

static void list_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

/* What was a secret does not stay in memory that is free. */
static void secret_free(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void config_free(struct config *c)
{
    if (!c)
        return;
    if (c->exec) {
        free(c->exec->version);
        free(c->exec->command);
        list_free(c->exec->args);
        list_free(c->exec->env);
        free(c->exec->hint);
        free(c->exec);
    }
    free(c->name);
    free(c->server);
    free(c->server_name);
    free(c->space);
    free(c->ca);
    free(c->ca_file);
    free(c->cert);
    free(c->cert_file);
    secret_free(c->key);
    free(c->key_file);
    secret_free(c->token);
    free(c->token_file);
    free(c);
}

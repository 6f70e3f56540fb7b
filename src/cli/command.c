#include "cli/command.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "base/utf8.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { TEXT_MAX = 1024 * 1024, NAME_LENGTH = 63 };

/* In a document "{{ x }}" stands for a parameter, and "{{{{" for "{{": a
 * command's own braces are to arrive as they are.
 */
static int put_text(json_t **ret, const char *s, struct err *err)
{
    autobuf struct buf b = BUF_INIT(2 * TEXT_MAX);

    if (strlen(s) > TEXT_MAX)
        return err_set(err, E2BIG, "an argument is longer than %d bytes",
                       TEXT_MAX);
    if (!utf8_valid(s, strlen(s)))
        return err_set(err, EILSEQ, "'%.60s' is not UTF-8", s);
    while (*s) {
        if (s[0] == '{' && s[1] == '{') {
            buf_str(&b, "{{{{");
            s += 2;
        } else {
            buf_char(&b, *s++);
        }
    }
    *ret = json_string(buf_text(&b));
    return 0;
}

static int put_argv(json_t *doc, char *const *argv, struct err *err)
{
    json_t *list = json_array(), *text;

    json_put(doc, "argv", list);
    for (; *argv; argv++) {
        int rc = put_text(&text, *argv, err);

        if (rc < 0)
            return rc;
        (void) json_array_append_new(list, text);
    }
    return 0;
}

static int put_env(json_t *doc, const struct command *cmd, struct err *err)
{
    json_t *env = json_object(), *text;

    if (cmd->nenv == 0) {
        json_decref(env);
        return 0;
    }
    json_put(doc, "env", env);
    for (size_t i = 0; i < cmd->nenv; i++) {
        size_t n = strcspn(cmd->env[i], "=");
        autofree char *name = mem_strn(cmd->env[i], n);
        const char *value = cmd->env[i][n] ? cmd->env[i] + n + 1
                                           : getenv(name);
        int rc;

        if (!name[0])
            return err_set(err, EINVAL, "--env '%s': expected NAME=VALUE, or "
                           "NAME to hand on your own", cmd->env[i]);
        if (!value)
            return err_set(err, EINVAL, "--env %s: not set here; say "
                           "%s=VALUE", name, name);
        rc = put_text(&text, value, err);
        if (rc < 0)
            return err_prefix(err, rc, "--env %s", name);
        json_put(env, name, text);
    }
    return 0;
}

static void put_name(json_t *doc, const struct command *cmd)
{
    const char *slash = strrchr(cmd->argv[0], '/');
    const char *from = slash && slash[1] ? slash + 1 : cmd->argv[0];
    char name[NAME_LENGTH + 1];
    size_t n = 0;

    if (cmd->name) {
        json_put_str(doc, "name", cmd->name);
        return;
    }
    for (; *from && n < NAME_LENGTH; from++) {
        bool plain = isascii(*from) && (isalnum((unsigned char) *from) ||
                                        (n > 0 && strchr("._-", *from)));

        if (plain)
            name[n++] = *from;
    }
    name[n] = '\0';
    json_put_str(doc, "name", n ? name : "command");
}

static void put_sizes(json_t *doc, const struct command *cmd)
{
    char text[32];

    if (cmd->gpu_milli)
        json_put_milli(doc, "gpus", cmd->gpu_milli);
    if (cmd->cpu_milli)
        json_put_milli(doc, "cpus", cmd->cpu_milli);
    if (cmd->memory) {
        quantity_print_bytes(cmd->memory, text, sizeof text);
        json_put_str(doc, "memory", text);
    }
    if (cmd->ranks)
        json_put_u64(doc, "ranks", cmd->ranks);
    if (cmd->retries)
        json_put_u64(doc, "retries", cmd->retries);
    if (cmd->timeout_ms) {
        quantity_print_duration(cmd->timeout_ms, text, sizeof text);
        json_put_str(doc, "timeout", text);
    }
}

json_t *command_document(const struct command *cmd, struct err *err)
{
    autojson json_t *doc = json_object();
    json_t *dir;

    json_put_u64(doc, "weir", 1);
    json_put_str(doc, "kind", "job");
    put_name(doc, cmd);
    if (put_argv(doc, cmd->argv, err) < 0 || put_env(doc, cmd, err) < 0)
        return NULL;
    if (cmd->dir) {
        if (put_text(&dir, cmd->dir, err) < 0)
            return NULL;
        json_put(doc, "dir", dir);
    }
    put_sizes(doc, cmd);
    return take(doc);
}

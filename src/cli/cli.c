#include "cli/cli.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "net/client.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void cli_tame(char *s)
{
    for (; *s; s++) {
        if ((unsigned char) *s < 0x20 || *s == 0x7f)
            *s = *s == '\n' || *s == '\t' ? ' ' : '?';
    }
}

static void say(const struct cli *c, const char *fmt, va_list ap)
    __attribute__((format(printf, 2, 0)));

static void say(const struct cli *c, const char *fmt, va_list ap)
{
    autofree char *text = NULL;

    if (c->muted)
        return;
    text = mem_vprintf(fmt, ap);
    cli_tame(text);
    (void) fflush(stdout);
    fprintf(stderr, "weir%s%s: %s\n", c->verb ? " " : "",
            c->verb ? c->verb->name : "", text);
}

int cli_fail(const struct cli *c, int code, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(c, fmt, ap);
    va_end(ap);
    return code;
}

void cli_note(const struct cli *c, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    say(c, fmt, ap);
    va_end(ap);
}

int cli_stdin(const struct cli *c, size_t max, char **ret, size_t *ret_len)
{
    struct buf b = BUF_INIT(max + 1);
    char part[65536];
    size_t n;

    while ((n = fread(part, 1, sizeof part, stdin)) > 0 &&
           buf_add(&b, part, n))
        continue;
    if (ferror(stdin)) {
        buf_free(&b);
        return cli_fail(c, CLI_BROKEN, "standard input: %s", strerror(errno));
    }
    *ret_len = b.over ? max + 1 : b.len;
    *ret = buf_take(&b);
    return 0;
}

int cli_read(const struct cli *c, const char *path, size_t max, char **ret,
             size_t *ret_len)
{
    struct err err;
    int rc;

    if (strcmp(path, "-") == 0) {
        rc = cli_stdin(c, max, ret, ret_len);
        if (rc != 0 || *ret_len <= max)
            return rc;
        free(take(*ret));
        return cli_fail(c, CLI_USAGE, "standard input: larger than %zu bytes",
                        max);
    }
    rc = fs_read(path, max, ret, ret_len, &err);
    if (rc == -ENOENT)
        return cli_fail(c, CLI_USAGE, "there is no file '%s' here", path);
    return rc < 0 ? cli_fail(c, CLI_USAGE, "%s", err.text) : 0;
}

int cli_connect(struct cli *c)
{
    struct client_conf conf = {
        .socket = c->where.server ? NULL : c->where.socket,
        .url = c->where.server, .token = c->where.token, .ca = c->where.ca,
        .cert = c->where.cert_opt, .key = c->where.key_opt,
    };
    struct err err;

    if (c->client)
        return 0;
    if (!c->loop && loop_open(&c->loop, &err) < 0)
        return cli_fail(c, CLI_BROKEN, "%s", err.text);
    if (client_open(c->loop, &conf, &c->client, &err) < 0)
        return cli_fail(c, CLI_USAGE, "%s", err.text);
    return 0;
}

int cli_turn(struct cli *c)
{
    struct err err;

    if (loop_turn(c->loop, -1, &err) < 0)
        return cli_fail(c, CLI_BROKEN, "%s", err.text);
    return 0;
}

void cli_close(struct cli *c)
{
    client_close(c->client);
    loop_close(c->loop);
    where_free(&c->where);
}

int cli_target(const struct cli *c, const char *s, char **ret_id,
               char **ret_task)
{
    size_t n = strcspn(s, "/");
    bool good = n >= 2 && n <= 20 && s[0] == 'w';

    for (size_t i = 1; good && i < n; i++)
        good = isdigit((unsigned char) s[i]);
    if (!good)
        return cli_fail(c, CLI_USAGE, "'%s' names no workload; expected one "
                        "like w12, or w12/TASK ('weir ps -a' lists them)", s);
    if (s[n] == '/' && !s[n + 1])
        return cli_fail(c, CLI_USAGE, "'%s': a task's name is missing after "
                        "the '/'", s);
    *ret_id = mem_strn(s, n);
    *ret_task = mem_str(s[n] ? s + n + 1 : "");
    return 0;
}

int cli_workload(const struct cli *c, const char *s, char **ret_id)
{
    autofree char *task = NULL;
    autofree char *id = NULL;
    int rc = cli_target(c, s, &id, &task);

    if (rc != 0)
        return rc;
    if (strchr(s, '/'))
        return cli_fail(c, CLI_USAGE, "'%s': this verb is for whole "
                        "workloads; say '%s'", s, id);
    *ret_id = take(id);
    return 0;
}

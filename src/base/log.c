#include "base/log.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

enum { LINE_MAX_BYTES = 64 * 1024 };

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN]  = "warn",
    [LOG_INFO]  = "info",
    [LOG_DEBUG] = "debug",
};

/* Set once by main(), before there are threads; only read afterwards. */
static const char *program = "weir";
static enum log_level most = LOG_INFO;
static bool as_json;

void log_open(const char *name, enum log_level level)
{
    program = name;
    most = level;
    as_json = !isatty(STDERR_FILENO);
}

void log_format(const char *name)
{
    as_json = strcmp(name, "json") == 0;
}

int log_level_parse(const char *s, enum log_level *ret)
{
    for (unsigned i = 0; i < array_size(level_names); i++)
        if (strcmp(s, level_names[i]) == 0) {
            *ret = (enum log_level) i;
            return 0;
        }
    return -EINVAL;
}

/* Between quotes, so that no value can forge a line, a field or a terminal's
 * commands.  The text form uses the same escapes.
 */
static void add_quoted(struct buf *b, const char *s)
{
    size_t len = strlen(s);

    (void) buf_char(b, '"');
    for (size_t at = 0, n; at < len; at += n ? n : 1) {
        unsigned char c = (unsigned char) s[at];

        n = utf8_size(s + at, len - at);
        if (n == 0)
            (void) buf_str(b, "\\ufffd");
        else if (c < 0x20 || c == 0x7f)
            (void) buf_printf(b, "\\u%04x", (unsigned) c);
        else if (c == 0xc2 && (unsigned char) s[at + 1] < 0xa0)
            (void) buf_printf(b, "\\u%04x", (unsigned char) s[at + 1] + 0u);
        else {
            if (c == '"' || c == '\\')
                (void) buf_char(b, '\\');
            (void) buf_add(b, s + at, n);
        }
    }
    (void) buf_char(b, '"');
}

static void add_plain(struct buf *b, const char *s)
{
    bool plain = *s != '\0';

    for (const char *p = s; *p; p++)
        if (*p <= ' ' || *p >= 0x7f || *p == '"' || *p == '=' || *p == '\\')
            plain = false;
    if (plain)
        (void) buf_str(b, s);
    else
        add_quoted(b, s);
}

static void add_field(struct buf *b, const char *name, const char *value)
{
    if (as_json) {
        (void) buf_char(b, ',');
        add_quoted(b, name);
        (void) buf_char(b, ':');
        add_quoted(b, value);
    } else {
        (void) buf_printf(b, " %s=", name);
        add_plain(b, value);
    }
}

static void add_head(struct buf *b, enum log_level level, const char *text)
{
    char now[32];

    clock_print(clock_wall_ms(), now, sizeof now);
    if (as_json) {
        (void) buf_printf(b, "{\"time\":\"%s\",\"level\":\"%s\",\"program\":",
                          now, level_names[level]);
        add_quoted(b, program);
        (void) buf_str(b, ",\"message\":");
        add_quoted(b, text);
    } else {
        (void) buf_printf(b, "%s %-5s %s: ", now, level_names[level], program);
        for (const char *p = text; *p; p++)
            (void) buf_add(b, (unsigned char) *p < 0x20 ? " " : p, 1);
    }
}

void log_say(enum log_level level, const char *text, ...)
{
    autobuf struct buf b = BUF_INIT(LINE_MAX_BYTES);
    const char *name, *value;
    ssize_t n;
    va_list ap;

    if (level > most)
        return;
    add_head(&b, level, text);
    va_start(ap, text);
    while ((name = va_arg(ap, const char *)) != NULL) {
        value = va_arg(ap, const char *);
        add_field(&b, name, value ? value : "");
    }
    va_end(ap);
    (void) buf_str(&b, as_json ? "}\n" : "\n");
    if (b.over) {
        buf_clear(&b);
        add_head(&b, level, "(a line too long to log)");
        (void) buf_str(&b, as_json ? "}\n" : "\n");
    }
    /* A log that cannot be written has nobody to be told. */
    n = write(STDERR_FILENO, b.data, b.len);
    (void) n;
}

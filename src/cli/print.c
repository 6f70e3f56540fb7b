#include "cli/print.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/call.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OUT_MAX = 256 * 1024 * 1024 };

int print_table(const struct cli *c, const struct table *t)
{
    autobuf struct buf out = BUF_INIT(OUT_MAX);

    table_paint(t, &c->term, c->out == OUT_WIDE, !c->no_header, &out);
    return print_buf(c, &out);
}

static const struct table_column sheet_columns[] = {
    { .name = "WHAT" }, { .name = "VALUE" }, { .name = NULL },
};

struct table *sheet_new(void)
{
    return table_new(sheet_columns);
}

void sheet_add(struct table *t, const char *what, const char *value)
{
    if (!value || !value[0])
        return;
    table_add(t, STYLE_DIM, what);
    table_add(t, STYLE_PLAIN, value);
}

void sheet_printf(struct table *t, const char *what, const char *fmt, ...)
{
    autofree char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    text = mem_vprintf(fmt, ap);
    va_end(ap);
    sheet_add(t, what, text);
}

int print_sheet(const struct cli *c, const struct table *t)
{
    autobuf struct buf out = BUF_INIT(OUT_MAX);

    table_paint(t, &c->term, true, false, &out);
    return print_buf(c, &out);
}

const char *get_age(const json_t *o, const char *key, char *buf)
{
    uint64_t at = human_time(o, key), now = clock_wall_ms();

    buf[0] = '\0';
    if (!at)
        return buf;
    return human_age(now > at ? now - at : 0, buf);
}

const char *get_number(const json_t *o, const char *key, char *buf)
{
    const json_t *v = json_object_get(o, key);

    buf[0] = '\0';
    if (json_is_number(v))
        (void) snprintf(buf, HUMAN_SIZE, "%g", json_number_value(v));
    else if (json_is_string(v))
        (void) snprintf(buf, HUMAN_SIZE, "%.30s", json_string_value(v));
    return buf;
}

const char *get_clock(const json_t *o, const char *key, char *buf)
{
    uint64_t at = human_time(o, key);
    time_t s = (time_t) (at / 1000);
    struct tm tm;

    buf[0] = '\0';
    if (at && localtime_r(&s, &tm) &&
        strftime(buf, HUMAN_SIZE, "%a %d %b %H:%M:%S", &tm) == 0)
        buf[0] = '\0';
    return buf;
}

const char *state_word(const json_t *o)
{
    const char *state = json_get_str(o, "state", "");
    const char *outcome = json_get_str(o, "outcome", "none");

    return strcmp(state, "ended") == 0 && strcmp(outcome, "none") != 0
               ? outcome : state;
}

enum style state_style(const char *word)
{
    static const struct { const char *word; enum style style; } styles[] = {
        { "succeeded", STYLE_GOOD }, { "failed", STYLE_BAD },
        { "aborted", STYLE_BAD }, { "running", STYLE_BUSY },
        { "starting", STYLE_BUSY }, { "waiting", STYLE_WAIT },
        { "queued", STYLE_WAIT }, { "paused", STYLE_WAIT },
        { "quarantined", STYLE_BAD }, { "ending", STYLE_WAIT },
        { "skipped", STYLE_DIM }, { "blocked", STYLE_DIM },
    };

    for (size_t i = 0; i < array_size(styles); i++) {
        if (strcmp(word, styles[i].word) == 0)
            return styles[i].style;
    }
    return STYLE_PLAIN;
}

const char *end_text(const json_t *task, char *buf, size_t size)
{
    int status = (int) json_integer_value(json_object_get(task, "status"));
    int sig = (int) json_integer_value(json_object_get(task, "signal"));

    (void) human_end(json_get_str(task, "cause", "none"),
                     sig > 0 ? -sig : status, buf, size);
    if (strcmp(buf, state_word(task)) == 0)
        buf[0] = '\0';                 /* aborted: aborted */
    return buf;
}

char *list_text(const json_t *list)
{
    struct buf b = BUF_INIT(64 * 1024);
    const json_t *v;
    size_t i;

    json_array_foreach(list, i, v) {
        const char *s = json_string_value(v);

        buf_printf(&b, "%s%s", i ? ", " : "", s ? s : "?");
    }
    return buf_take(&b);
}

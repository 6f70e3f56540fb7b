#include "cli/print.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { OUT_MAX = 256 * 1024 * 1024 };

static int no_output(const struct cli *c)
{
    return cli_fail(c, CLI_BROKEN, "standard output: %s", strerror(errno));
}

int print_json(const struct cli *c, const json_t *j)
{
    return json_dumpf(j, stdout, JSON_FORM | JSON_INDENT(2)) < 0 ||
           putchar('\n') == EOF ? no_output(c) : 0;
}

int print_buf(const struct cli *c, const struct buf *b)
{
    return fwrite(buf_text(b), 1, b->len, stdout) != b->len ? no_output(c) : 0;
}

int print_text(const struct cli *c, const char *text)
{
    return puts(text) == EOF ? no_output(c) : 0;
}

int print_done(const struct cli *c, const json_t *answer, const char *fmt, ...)
{
    autofree char *text = NULL;
    va_list ap;

    if (c->out == OUT_JSON)
        return print_json(c, answer);
    va_start(ap, fmt);
    text = mem_vprintf(fmt, ap);
    va_end(ap);
    return print_text(c, text);
}

int print_object(struct cli *c, const json_t *o, print_f print)
{
    return c->out == OUT_JSON ? print_json(c, o) : print(c, o);
}

int print_items(struct cli *c, const json_t *list,
                const struct table_column *columns, print_row_f add_row)
{
    struct table *t;
    const json_t *item;
    size_t i;

    if (c->out == OUT_JSON)
        return print_json(c, list);
    t = table_new(columns);
    json_array_foreach(json_object_get(list, "items"), i, item)
        add_row(t, item);
    return print_table(c, t);
}

/* ---- tables and sheets ---- */

static int print_painted(const struct cli *c, struct table *t, bool wide,
                         bool header)
{
    autobuf struct buf out = BUF_INIT(OUT_MAX);

    table_paint(t, &c->term, wide, header, &out);
    table_free(t);
    return print_buf(c, &out);
}

int print_table(const struct cli *c, struct table *t)
{
    return print_painted(c, t, c->out == OUT_WIDE, !c->no_header);
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

void sheet_labels(struct table *t, const json_t *labels)
{
    autobuf struct buf b = BUF_INIT(4096);
    const char *key;
    json_t *v;

    json_object_foreach((json_t *) (uintptr_t) labels, key, v) {
        const char *s = json_string_value(v);

        buf_printf(&b, "%s%s=%s", b.len ? " " : "", key, s ? s : "?");
    }
    sheet_add(t, "labels", buf_text(&b));
}

int print_sheet(const struct cli *c, struct table *t)
{
    return print_painted(c, t, true, false);
}

/* ---- cells ---- */

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

const char *get_closed(const json_t *device)
{
    static const char *const mild[] = { "none", "note", "alert" };
    const char *action = json_get_str(json_object_get(device, "health"),
                                      "action", "none");

    for (size_t i = 0; i < array_size(mild); i++)
        if (strcmp(action, mild[i]) == 0)
            return "";
    return action;
}

const char *get_clock(const json_t *o, const char *key, char *buf)
{
    return human_clock(human_time(o, key), clock_wall_ms(), buf);
}

/* Of a workload that has begun: nothing of it runs and something waits, or is
 * suspended.
 */
static bool waits_again(const json_t *o)
{
    const json_t *tasks = json_object_get(o, "tasks");

    return json_get_u64(tasks, "waiting", 0) +
           json_get_u64(tasks, "suspended", 0) > 0 &&
           json_get_u64(tasks, "starting", 0) == 0 &&
           json_get_u64(tasks, "running", 0) == 0 &&
           json_get_u64(tasks, "ending", 0) == 0;
}

const char *state_word(const json_t *o)
{
    const char *state = json_get_str(o, "state", "");
    const char *outcome = json_get_str(o, "outcome", "none");

    if (strcmp(state, "running") == 0 && waits_again(o))
        return json_get_u64(json_object_get(o, "tasks"), "suspended", 0)
               ? "suspended" : "waiting";
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
        { "suspended", STYLE_WAIT },
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

#include "sim/dag.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

enum { SLOT_MILLI = 1000, PROGRAM_MAX = 1024 * 1024 };
#define LENGTH_MAX (UINT64_C(1000) * 60 * 60 * 24 * 365)

struct reader {
    const char *name;
    char *at, *end;
    size_t line;
    struct flow flow;
    uint64_t length_ms;                /* of the task being read */
    struct buf program;
};

/* The next line, terminated, without blanks at its end; NULL at the end. */
static char *next_line(struct reader *r)
{
    char *line = r->at, *stop;

    if (r->at >= r->end)
        return NULL;
    stop = memchr(line, '\n', (size_t) (r->end - line));
    if (!stop)
        stop = r->end;
    r->at = stop < r->end ? stop + 1 : r->end;
    r->line++;
    *stop = '\0';
    stop = line + strlen(line);        /* a NUL inside ends it, too */
    while (stop > line && (stop[-1] == ' ' || stop[-1] == '\r'))
        *--stop = '\0';
    return line;
}

/* The word up to the next blank; *at is behind it, or NULL. */
static char *next_word(char **at)
{
    char *word = *at;

    if (!word)
        return NULL;
    *at = strchr(word, ' ');
    if (*at)
        *(*at)++ = '\0';
    return word;
}

static int read_count(const struct reader *r, const char *what, char *word,
                      uint64_t max, uint32_t *ret, struct err *err)
{
    uint64_t v;

    if (!word || quantity_count(word, &v, NULL) < 0 || v > max)
        return err_set(err, EINVAL, "%s:%zu: %s '%.40s', expected a number "
                       "up to %llu", r->name, r->line, what,
                       word ? word : "", (unsigned long long) max);
    *ret = (uint32_t) v;
    return 0;
}

/* ---- how a task is known again ---- */

static void sign(const char *program, uint32_t index, struct predict_sig *ret)
{
    autofree char *shape = mem_str(program);
    size_t n = 0;

    for (const char *s = program; *s; s++) {
        char c = *s;

        if (isdigit((unsigned char) c))
            c = '#';
        if (c != '#' || n == 0 || shape[n - 1] != '#')
            shape[n++] = c;
    }
    shape[n] = '\0';
    ret->key[0] = predict_key(program, (uint64_t) index + 1);
    ret->key[1] = predict_key(program, 0);
    ret->key[2] = predict_key(shape, 0);
    shape[strcspn(shape, "_ \n")] = '\0';
    ret->key[3] = predict_key(shape, 0);
}

/* ---- a task ---- */

static int read_parents(struct reader *r, char *rest, struct flow_task *t,
                        struct err *err)
{
    struct flow *f = &r->flow;
    int rc = read_count(r, "number of parents", next_word(&rest), FLOW_TASKS,
                        &t->nparents, err);

    t->first = f->nedges;
    for (uint32_t i = 0; rc == 0 && i < t->nparents; i++) {
        if (f->nedges == FLOW_EDGES)
            return err_set(err, E2BIG, "%s:%zu: more than %d edges", r->name,
                           r->line, FLOW_EDGES);
        f->edges = mem_more(f->edges, f->nedges, sizeof *f->edges);
        rc = read_count(r, "parent", next_word(&rest), FLOW_TASKS - 1,
                        &f->edges[f->nedges], err);
        f->nedges += rc == 0;
    }
    if (rc == 0 && rest)
        return err_set(err, EINVAL, "%s:%zu: '%.40s' after %u parents",
                       r->name, r->line, rest, t->nparents);
    return rc;
}

static int end_task(struct reader *r, char *rest, struct err *err)
{
    struct flow *f = &r->flow;
    struct flow_task t = { .length_ms = r->length_ms,
                           .cpu_milli = SLOT_MILLI };
    int rc = read_parents(r, rest, &t, err);

    if (rc < 0)
        return rc;
    sign(buf_text(&r->program), f->count, &t.sig);
    f->tasks = mem_more(f->tasks, f->count, sizeof *f->tasks);
    f->tasks[f->count++] = t;
    return 0;
}

/* 1: the program goes on in the next line. */
static int begin_task(struct reader *r, char *line, struct err *err)
{
    const struct flow *f = &r->flow;
    char *rest = line, *word = next_word(&rest), *length;
    uint32_t index;
    int rc = read_count(r, "index", word, FLOW_TASKS - 1, &index, err);

    if (rc < 0)
        return rc;
    if (index != f->count)
        return err_set(err, EINVAL, "%s:%zu: index %u, expected %u", r->name,
                       r->line, index, f->count);
    length = next_word(&rest);
    if (!length || quantity_milli(length, &r->length_ms, NULL) < 0 ||
        r->length_ms > LENGTH_MAX)
        return err_set(err, EINVAL, "%s:%zu: run time '%.40s', expected "
                       "seconds", r->name, r->line, length ? length : "");
    word = next_word(&rest);
    if (!word)
        return err_set(err, EINVAL, "%s:%zu: no program", r->name, r->line);
    buf_clear(&r->program);
    (void) buf_str(&r->program, word);
    return rest ? end_task(r, rest, err) : 1;
}

static int go_on(struct reader *r, char *line, struct err *err)
{
    char *rest = line;

    (void) buf_char(&r->program, '\n');
    (void) buf_str(&r->program, next_word(&rest));
    if (r->program.over)
        return err_set(err, E2BIG, "%s:%zu: a program of more than %d bytes",
                       r->name, r->line, PROGRAM_MAX);
    return rest ? end_task(r, rest, err) : 1;
}

static int check(const struct reader *r, bool open, struct err *err)
{
    const struct flow *f = &r->flow;
    int rc;

    if (open)
        return err_set(err, EINVAL, "%s:%zu: task %u has no number of "
                       "parents", r->name, r->line, f->count);
    if (f->count == 0)
        return err_set(err, EINVAL, "%s: no task in it", r->name);
    for (uint32_t e = 0; e < f->nedges; e++)
        if (f->edges[e] >= f->count)
            return err_set(err, EINVAL, "%s: parent %u, there are %u tasks",
                           r->name, f->edges[e], f->count);
    rc = flow_check(f, err);
    return rc < 0 ? err_prefix(err, rc, "%s", r->name) : 0;
}

int dag_read(const char *name, char *text, size_t len, struct flow *ret,
             struct err *err)
{
    struct reader r = { .name = name, .at = text, .end = text + len,
                        .program = BUF_INIT(PROGRAM_MAX) };
    char *line;
    int rc = 0;                        /* 1: within a program */

    while (rc >= 0 && (line = next_line(&r))) {
        if (rc == 1)
            rc = go_on(&r, line, err);
        else if (*line && *line != '#')
            rc = r.flow.count == FLOW_TASKS
                 ? err_set(err, E2BIG, "%s: more than %d tasks", name,
                           FLOW_TASKS)
                 : begin_task(&r, line, err);
    }
    if (rc >= 0)
        rc = check(&r, rc == 1, err);
    buf_free(&r.program);
    if (rc < 0) {
        flow_free(&r.flow);
        return rc;
    }
    r.flow.ntenants = r.flow.nworkloads = 1;
    *ret = r.flow;
    return 0;
}

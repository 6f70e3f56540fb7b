#include "runner/progress.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 8192 };

/* A number as C and Python print it; not "nan", "inf" or hexadecimal. */
static bool number(const char *s, double *ret)
{
    char *end;

    if (!*s || s[strspn(s, "0123456789+-.eE")])
        return false;
    *ret = strtod(s, &end);
    return end != s && !*end && isfinite(*ret);
}

static bool name_valid(const char *s, size_t n)
{
    if (n == 0 || n >= PROGRESS_NAME ||
        !(isalpha((unsigned char) *s) || *s == '_'))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char) s[i]) && !strchr("_.-/", s[i]))
            return false;
    return true;
}

static int take_metric(struct progress *p, const char *word, const char *eq,
                       struct err *err)
{
    size_t n = (size_t) (eq - word);
    unsigned i = 0;
    double value;

    if (!name_valid(word, n))
        return err_set(err, EINVAL, "'%.60s': the name of a metric has "
                       "letters, digits and _.-/, at most %d", word,
                       PROGRESS_NAME - 1);
    if (!number(eq + 1, &value))
        return err_set(err, EINVAL, "'%.60s': expected a number after '='",
                       word);
    while (i < p->n && (strncmp(p->metrics[i].name, word, n) != 0 ||
                        p->metrics[i].name[n]))
        i++;
    if (i == PROGRESS_METRICS)
        return err_set(err, EINVAL, "'%.60s': more than %d metrics", word,
                       PROGRESS_METRICS);
    if (i == p->n) {
        p->n++;
        memcpy(p->metrics[i].name, word, n);
        p->metrics[i].name[n] = '\0';
    }
    p->metrics[i].value = value;
    return 0;
}

static int take_word(struct progress *p, const char *word, bool first,
                     struct err *err)
{
    const char *eq = strchr(word, '=');

    if (eq)
        return take_metric(p, word, eq, err);
    if (!first || !number(word, &p->done) || p->done < 0 || p->done > 1)
        return err_set(err, EINVAL, "'%.60s': expected NAME=NUMBER%s", word,
                       first ? ", or how far it is from 0 to 1" : "");
    p->has_done = true;
    return 0;
}

int progress_line(struct progress *p, const char *line, uint64_t now_ms,
                  struct err *err)
{
    autofree char *copy = mem_str(line);
    struct progress next = *p;
    char *rest = copy, *word;
    unsigned words = 0;

    while ((word = strsep(&rest, " \t\r"))) {
        int rc;

        if (!*word)
            continue;
        rc = take_word(&next, word, words++ == 0, err);
        if (rc < 0)
            return rc;
    }
    if (words == 0)
        return err_set(err, EINVAL, "an empty line");
    next.at_ms = now_ms;
    *p = next;
    return 0;
}

json_t *progress_json(const struct progress *p)
{
    json_t *o = json_object(), *metrics = json_object();

    json_put_u64(o, "at", p->at_ms);
    if (p->has_done)
        json_put(o, "progress", json_real(p->done));
    for (unsigned i = 0; i < p->n; i++)
        json_put(metrics, p->metrics[i].name,
                 json_real(p->metrics[i].value));
    if (p->n)
        json_put(o, "metrics", metrics);
    else
        json_decref(metrics);
    return o;
}

static char *path_of(const char *dir, const struct lease_id *id)
{
    char name[LEASE_NAME_SIZE];

    lease_id_file(id, name, sizeof name);
    return mem_printf("%s/progress/w%llu.%s", dir,
                      (unsigned long long) id->key.workload, name);
}

int progress_write(const char *dir, const struct lease_id *id,
                   struct progress *p, struct err *err)
{
    autofree char *path = path_of(dir, id), *text = NULL;
    autojson json_t *j = NULL;
    int rc;

    if (p->at_ms <= p->written_ms)
        p->at_ms = p->written_ms + 1;
    j = progress_json(p);
    text = json_text(j);
    rc = fs_write(path, text, strlen(text), 0600, false, err);
    if (rc == 0)
        p->written_ms = p->at_ms;
    return rc;
}

int progress_read(const char *dir, const struct lease_id *id, json_t **ret,
                  struct err *err)
{
    autofree char *path = path_of(dir, id), *text = NULL;
    size_t len = 0;
    int rc = fs_read(path, FILE_MAX, &text, &len, err);

    return rc < 0 ? rc : json_read(text, len, FILE_MAX, ret, err);
}

void progress_drop(const char *dir, const struct lease_id *id)
{
    autofree char *path = path_of(dir, id);

    (void) unlink(path);
}

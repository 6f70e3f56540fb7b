#include "spec/template.h"

#include "base/map.h"
#include "base/near.h"
#include "core/spec.h"
#include "spec/reader.h"

#include <string.h>

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-';
}

bool template_name_valid(const char *name)
{
    size_t n = 0;

    if (!is_word(name[0]) || name[0] == '-' ||
        (name[0] >= '0' && name[0] <= '9'))
        return false;
    while (is_word(name[n]))
        n++;
    return !name[n] && n <= SPEC_MAX_NAME;
}

static const char *value_of(const struct reader *r, const char *name)
{
    const struct matrix *m = r->matrix;

    for (uint32_t i = 0; m && i < m->naxes; i++)
        if (strcmp(m->axes[i].name, name) == 0)
            return m->axes[i].values[m->axes[i].now];
    return reader_param(r, name);
}

static void unknown_name(struct reader *r, const struct node *n,
                         const char *name)
{
    const struct matrix *m = r->matrix;
    const char *known;
    struct near near;
    size_t pos = 0;

    near_init(&near, name);
    for (uint32_t i = 0; m && i < m->naxes; i++)
        near_try(&near, m->axes[i].name);
    while (!reader_full(r) && map_next(r->params, &pos, &known))
        near_try(&near, known);
    reader_problem_near(r, n, &near, "; expected a name from 'parameters' or "
                        "'matrix'", "unknown parameter '%s'", quoted(name).s);
}

/* The name after "{{"; *ret_end is behind its "}}".  False: not of the form. */
static bool get_name(const char *p, char name[SPEC_MAX_NAME + 1],
                     const char **ret_end)
{
    size_t n = 0;

    while (*p == ' ')
        p++;
    while (n < SPEC_MAX_NAME && is_word(p[n]))
        n++;
    memcpy(name, p, n);
    name[n] = '\0';
    p += n;
    while (*p == ' ')
        p++;
    if (strncmp(p, "}}", 2) != 0)
        return false;
    *ret_end = p + 2;
    return template_name_valid(name);
}

static const char *expand_one(struct reader *r, const struct node *n,
                              const char *at)
{
    char name[SPEC_MAX_NAME + 1];
    const char *end, *value;

    if (strncmp(at, "{{{{", 4) == 0) {
        buf_str(&r->text, "{{");
        return at + 4;
    }
    if (!get_name(at + 2, name, &end)) {
        reader_problem(r, n, "expected '{{ NAME }}', got '%s'; write '{{{{' "
                       "for the characters '{{' themselves", quoted(at).s);
        return NULL;
    }
    value = value_of(r, name);
    if (!value) {
        unknown_name(r, n, name);
        return NULL;
    }
    buf_str(&r->text, value);
    return end;
}

bool template_expand(struct reader *r, const struct node *n)
{
    const char *p = n->text, *next;

    buf_clear(&r->text);
    r->text.over = false;
    while ((next = strstr(p, "{{")) != NULL) {
        buf_add(&r->text, p, (size_t) (next - p));
        p = expand_one(r, n, next);
        if (!p)
            return false;
    }
    buf_str(&r->text, p);
    if (r->text.over) {
        reader_problem(r, n, "longer than %d bytes once its parameters are "
                       "put in", SPEC_MAX_TEXT);
        return false;
    }
    return true;
}

#include "runner/gateline.h"

#include "base/buf.h"
#include "gate/gate.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* The next word of *s, which moves behind it; false: none, or no room. */
static bool word(const char **s, char *ret, size_t size)
{
    size_t len = strcspn(*s, " ");

    if (len == 0 || len >= size)
        return false;
    memcpy(ret, *s, len);
    ret[len] = '\0';
    *s += len;
    if (**s == ' ')
        ++*s;
    return true;
}

/* Digits alone. */
static bool number(const char **s, uint32_t *ret)
{
    char text[16];
    uint64_t n = 0;

    if (!word(s, text, sizeof text))
        return false;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9')
            return false;
        n = n * 10 + (uint64_t) (*p - '0');
    }
    *ret = (uint32_t) n;
    return n <= UINT32_MAX;
}

static bool read_line(const char *line, struct gateline *ret)
{
    char first[16];

    if (!word(&line, first, sizeof first))
        return true;                   /* some word of another version */
    if (strcmp(first, "weir-gate") == 0)
        ret->kind = GATELINE_HELLO;
    else if (strcmp(first, "wants") == 0)
        ret->kind = GATELINE_WANTS;
    else
        return true;
    if (ret->kind == GATELINE_HELLO && !number(&line, &ret->version))
        return false;
    return word(&line, ret->lease, sizeof ret->lease) &&
           number(&line, &ret->pid);
}

int gateline_next(struct buf *in, struct gateline *ret)
{
    char *end = in->len ? memchr(in->data, '\n', in->len) : NULL;
    size_t len = end ? (size_t) (end - in->data) : in->len;

    if (len >= GATE_LINE_MAX)
        return -EPROTO;
    if (!end)
        return 0;
    if (memchr(in->data, '\0', len))
        return -EPROTO;
    *end = '\0';
    *ret = (struct gateline) { .kind = GATELINE_OTHER };
    if (!read_line(in->data, ret))
        return -EPROTO;
    buf_drop(in, len + 1);
    return 1;
}

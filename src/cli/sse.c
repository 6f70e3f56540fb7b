#include "cli/sse.h"

#include "base/mem.h"

#include <errno.h>
#include <string.h>

void sse_init(struct sse *s,
              void (*on_message)(const char *id, const char *event,
                                 const char *data, size_t len, void *arg),
              void *arg)
{
    *s = (struct sse) {
        .line.max = SSE_MAX, .data.max = SSE_MAX, .id.max = 256,
        .event.max = 256, .on_message = on_message, .arg = arg,
    };
}

void sse_free(struct sse *s)
{
    buf_free(&s->line);
    buf_free(&s->data);
    buf_free(&s->id);
    buf_free(&s->event);
}

static void put(struct buf *b, const char *value)
{
    buf_clear(b);
    buf_str(b, value);
}

static void end_message(struct sse *s)
{
    if (s->data.len > 0)
        s->on_message(buf_text(&s->id),
                      s->event.len ? buf_text(&s->event) : "message",
                      buf_text(&s->data), s->data.len, s->arg);
    buf_clear(&s->data);
    buf_clear(&s->event);
}

static void end_line(struct sse *s)
{
    char *line = s->line.data;
    char *value;

    if (s->line.len > 0 && line[s->line.len - 1] == '\r')
        line[--s->line.len] = '\0';
    if (s->line.len == 0) {
        end_message(s);
        return;
    }
    value = strchr(line, ':');
    if (value) {
        *value++ = '\0';
        if (*value == ' ')
            value++;
    } else {
        value = line + s->line.len;
    }
    if (strcmp(line, "data") == 0) {
        if (s->data.len > 0)
            buf_char(&s->data, '\n');
        buf_str(&s->data, value);
    } else if (strcmp(line, "id") == 0) {
        put(&s->id, value);
    } else if (strcmp(line, "event") == 0) {
        put(&s->event, value);
    }
    buf_clear(&s->line);
}

int sse_feed(struct sse *s, const char *p, size_t n)
{
    while (n > 0) {
        const char *nl = memchr(p, '\n', n);
        size_t part = nl ? (size_t) (nl - p) : n;

        buf_add(&s->line, p, part);
        if (s->line.over || s->data.over)
            return -EMSGSIZE;
        if (!nl)
            break;
        end_line(s);
        buf_clear(&s->line);
        p += part + 1;
        n -= part + 1;
    }
    return 0;
}

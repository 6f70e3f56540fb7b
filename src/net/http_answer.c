#include "net/http_int.h"

#include "base/json.h"
#include "base/list.h"
#include "base/mem.h"

#include <assert.h>
#include <string.h>

struct http_stream {
    struct http *http;
    struct http_stream *next, *prev;
    struct MHD_Connection *mhd;
    bool waits;
    http_pull_f pull;
    http_gone_f gone;
    void *arg;
};

void http_add_header(struct http_req *r, const char *name, const char *value)
{
    assert(r->nextra < array_size(r->extra));
    r->extra[r->nextra++] = (struct http_extra) {
        .name = mem_str(name), .value = mem_str(value),
    };
}

void http_answer_clear(struct http_req *r)
{
    for (size_t i = 0; i < r->nextra; i++) {
        free(r->extra[i].name);
        free(r->extra[i].value);
    }
    r->nextra = 0;
    if (r->answer)
        MHD_destroy_response(r->answer);
    r->answer = NULL;
}

static void add(struct MHD_Response *m, const char *name, const char *value)
{
    /* A header that cannot be sent (a line break in it) is left out. */
    (void) MHD_add_response_header(m, name, value);
}

/* The answer is complete: send it now, or when the handler returns. */
static void answer(struct http_req *r, unsigned status, const char *type,
                   struct MHD_Response *m)
{
    assert(!r->answer && r->phase != HTTP_ANSWERED);
    if (!m)
        mem_none();
    if (type)
        add(m, "Content-Type", type);
    add(m, "Cache-Control", "no-store");
    add(m, "X-Content-Type-Options", "nosniff");
    for (size_t i = 0; i < r->nextra; i++)
        add(m, r->extra[i].name, r->extra[i].value);
    if (r->http->draining || r->http->closing)
        add(m, "Connection", "close");
    r->answer = m;
    r->status = status;
    if (r->suspended) {
        r->suspended = false;
        http_resume(r->http, r->mhd);
    }
}

void http_reply(struct http_req *r, unsigned status, const char *type,
                char *body, size_t len)
{
    answer(r, status, type,
           MHD_create_response_from_buffer(len, body,
                                           body ? MHD_RESPMEM_MUST_FREE :
                                           MHD_RESPMEM_PERSISTENT));
}

json_t *http_problem_json(unsigned status, const char *detail)
{
    const char *title = MHD_get_reason_phrase_for(status);
    json_t *o = json_object();

    json_put_str(o, "type", "about:blank");
    json_put_str(o, "title", title ? title : "Error");
    json_put_u64(o, "status", status);
    json_put_str(o, "detail", detail);
    return o;
}

void http_problem(struct http_req *r, unsigned status, const char *detail)
{
    autojson json_t *o = http_problem_json(status, detail);
    char *text = json_text(o);

    http_reply(r, status, "application/problem+json", text, strlen(text));
}

static ssize_t stream_read(void *cls, uint64_t pos, char *buf, size_t max)
{
    struct http_stream *s = cls;
    ssize_t n = s->http->closing ? -1 : s->pull(buf, max, s->arg);

    (void) pos;
    if (n < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (n == 0) {
        s->waits = true;
        MHD_suspend_connection(s->mhd);
    }
    return n;
}

static void stream_free(void *cls)
{
    struct http_stream *s = cls;

    list_unlink(s->http->streams, s);
    s->gone(s->arg);
    free(s);
}

struct http_stream *http_stream(struct http_req *r, unsigned status,
                                const char *type, http_pull_f pull,
                                http_gone_f gone, void *arg)
{
    struct http_stream *s = mem_new(sizeof *s);

    *s = (struct http_stream) {
        .http = r->http, .mhd = r->mhd, .pull = pull, .gone = gone,
        .arg = arg,
    };
    list_push(r->http->streams, s);
    answer(r, status, type,
           MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 2048,
                                             stream_read, s, stream_free));
    return s;
}

void http_stream_wake(struct http_stream *s)
{
    if (!s->waits)
        return;
    s->waits = false;
    http_resume(s->http, s->mhd);
}

bool http_stream_waits(const struct http_stream *s)
{
    return s->waits;
}

void http_streams_end(struct http *h)
{
    for (struct http_stream *s = h->streams; s; s = s->next)
        http_stream_wake(s);
}

#include "cli/sse.h"

#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static struct buf seen = BUF_INIT(1 << 20);

static void on_message(const char *id, const char *event, const char *data,
                       size_t len, void *arg)
{
    (void) arg;
    buf_printf(&seen, "[%s|%s|%.*s]", id, event, (int) len, data);
}

/* Fed in pieces of every size, the messages are the same. */
static bool reads(const char *text, const char *want)
{
    size_t len = strlen(text);

    for (size_t step = 1; step <= len; step++) {
        struct sse s;

        buf_clear(&seen);
        sse_init(&s, on_message, NULL);
        for (size_t at = 0; at < len; at += step) {
            size_t n = len - at < step ? len - at : step;

            if (sse_feed(&s, text + at, n) != 0)
                return false;
        }
        sse_free(&s);
        if (strcmp(buf_text(&seen), want) != 0) {
            printf("# step %zu: %s\n", step, buf_text(&seen));
            return false;
        }
    }
    return true;
}

int main(void)
{
    struct sse s;
    char *block = mem_new(1 << 20);
    int rc = 0;

    ok(reads("id: 1:2\nevent: x\ndata: {}\n\n", "[1:2|x|{}]"), "a message");
    ok(reads("data: a\r\ndata:b\r\n\r\n", "[|message|a\nb]"),
       "CR LF, several lines, no blank");
    ok(reads(": hello\n\nid: 7\n\ndata: x\n\n", "[7|message|x]"),
       "comments and messages without data say nothing; the id stays");
    ok(reads("id: 1\ndata: a\n\ndata: b\n\n", "[1|message|a][1|message|b]"),
       "the id stays for the next");
    ok(reads("event: x\ndata: a\n\ndata: b\n\n", "[|x|a][|message|b]"),
       "the event does not");
    ok(reads("data: half", ""), "half a message is none");
    ok(reads("data\ndata: x\nwhat: y\nretry: 3\n\n", "[|message|x]"),
       "unknown fields are skipped");
    sse_init(&s, on_message, NULL);
    memset(block, 'x', 1 << 20);
    for (unsigned i = 0; i < 17 && rc == 0; i++)
        rc = sse_feed(&s, block, 1 << 20);
    ok(rc == -EMSGSIZE, "a line without end is refused");
    sse_free(&s);
    free(block);
    buf_free(&seen);
    return tap_done();
}

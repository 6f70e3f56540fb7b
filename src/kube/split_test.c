#include "kube/split.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static const char stream[] =
    "{\"type\":\"ADDED\",\"object\":{\"n\":\"a\"}}\n"
    "{\"type\":\"MODIFIED\",\"object\":{\"n\":\"b\\n\"}}\r\n"
    "\n"
    "{\"type\":\"DELETED\",\"object\":{\"n\":\"c\"}}\n"
    "{\"object\":{\"n\":\"d\"},\"type\":\"BOOKMARK\"}\n"
    "{\"type\":\"ERROR\",\"object\":{\"n\":\"e\\u0000x\"}}\n"
    "{\"type\":\"ADDED\",\"obj";

struct seen {
    char text[64];
    size_t n, stop_at;
};

static int each(enum split_kind kind, const json_t *object, void *arg,
                struct err *err)
{
    struct seen *s = arg;

    s->text[s->n++] = "+-=!"[kind];
    s->text[s->n++] = json_get_str(object, "n", "?")[0];
    s->text[s->n] = '\0';
    if (s->stop_at && s->n >= s->stop_at)
        return err_set(err, ECANCELED, "enough");
    return 0;
}

static void test_pieces(void)
{
    size_t len = strlen(stream);
    bool same = true;

    for (size_t piece = 1; piece <= len; piece++) {
        struct split s = SPLIT_INIT;
        struct seen seen = { .n = 0 };
        struct err err = { 0 };

        for (size_t at = 0; at < len; at += piece)
            same = split_feed(&s, stream + at,
                              piece < len - at ? piece : len - at, each, &seen,
                              &err) == 0 && same;
        same = same && strcmp(seen.text, "+a+b-c=d!e") == 0;
        split_clear(&s);
    }
    ok(same, "the same events from pieces of any size");
}

static int feed(const char *text, struct seen *seen, struct err *err)
{
    struct split s = SPLIT_INIT;
    int rc = split_feed(&s, text, strlen(text), each, seen, err);

    split_clear(&s);
    return rc;
}

static void test_bad(void)
{
    static const char *const bad[] = {
        "<html>\n", "[]\n", "{}\n", "{\"type\":\"ADDED\"}\n",
        "{\"type\":\"ADDED\",\"object\":[]}\n",
        "{\"type\":\"SOME\\nTHING\",\"object\":{}}\n",
        "{\"type\":1,\"object\":{}}\n",
        "{\"type\":\"ADDED\",\"object\":{}} {}\n",
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        struct seen seen = { .n = 0 };
        struct err err = { 0 };

        ok(feed(bad[i], &seen, &err) == -EPROTO && seen.n == 0 &&
           err.text[0] && !strchr(err.text, '\n'), "%s", err.text);
    }
}

static void test_stop(void)
{
    struct seen seen = { .stop_at = 4 };
    struct err err = { 0 };

    ok(feed(stream, &seen, &err) == -ECANCELED &&
       strcmp(seen.text, "+a+b") == 0, "a reader that has enough ends it");
}

static void test_long(void)
{
    struct split s = SPLIT_INIT;
    struct seen seen = { .n = 0 };
    struct err err = { 0 };
    enum { PIECE = 1024 * 1024 };
    char *piece = mem_new(PIECE);
    int rc = 0, pieces = 0;

    memset(piece, ' ', PIECE);
    while (rc == 0 && pieces < 100) {
        rc = split_feed(&s, piece, PIECE, each, &seen, &err);
        pieces++;
    }
    ok(rc == -EPROTO && pieces == 17 && s.rest.cap <= 2 * (size_t) SPLIT_MAX,
       "a line without end: %s", err.text);
    split_clear(&s);
    free(piece);
}

int main(void)
{
    test_pieces();
    test_bad();
    test_stop();
    test_long();
    return tap_done();
}

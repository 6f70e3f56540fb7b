#include "runner/gateline.h"

#include "base/buf.h"
#include "base/mem.h"
#include "base/tap.h"
#include "gate/gate.h"

#include <errno.h>
#include <string.h>

static int read_text(const char *text, size_t len, struct gateline *ret)
{
    struct buf in = BUF_INIT(4096);
    int rc;

    (void) buf_add(&in, text, len);
    rc = gateline_next(&in, ret);
    buf_free(&in);
    return rc;
}

static void test_good(void)
{
    struct buf in = BUF_INIT(4096);
    struct gateline l;

    (void) buf_str(&in, "weir-gate 2 w1/2.0#1@1 77\nwants w1/2.0#1@1 78 now\n"
                   "sing a song\n\nweir-gate 2 w1");
    ok(gateline_next(&in, &l) == 1 && l.kind == GATELINE_HELLO &&
       l.version == 2 && l.pid == 77 && !strcmp(l.lease, "w1/2.0#1@1"),
       "hello");
    ok(gateline_next(&in, &l) == 1 && l.kind == GATELINE_WANTS &&
       l.pid == 78 && !strcmp(l.lease, "w1/2.0#1@1"),
       "wants, and a word of a newer version");
    ok(gateline_next(&in, &l) == 1 && l.kind == GATELINE_OTHER,
       "a line of a newer version");
    ok(gateline_next(&in, &l) == 1 && l.kind == GATELINE_OTHER,
       "an empty line");
    ok(gateline_next(&in, &l) == 0 && in.len == strlen("weir-gate 2 w1"),
       "half a line waits");
    buf_free(&in);
}

static const char *const bad[] = {
    "weir-gate\n", "weir-gate \n", "weir-gate x w1/2.0#1@1 7\n",
    "weir-gate 2 w1/2.0#1@1\n", "weir-gate 2 w1/2.0#1@1 -7\n",
    "weir-gate 2 w1/2.0#1@1 4294967296\n", "weir-gate 2  7\n",
    "weir-gate 18446744073709551618 w1 7\n", "wants\n", "wants w1\n",
};

static void test_bad(void)
{
    char full[GATE_LINE_MAX + 1];
    struct gateline l;

    for (size_t i = 0; i < array_size(bad); i++)
        ok(read_text(bad[i], strlen(bad[i]), &l) == -EPROTO,
           "refused: %.*s", (int) strlen(bad[i]) - 1, bad[i]);
    ok(read_text("wants w1\0 7\n", 12, &l) == -EPROTO, "a NUL");
    memset(full, 'x', sizeof full);
    ok(read_text(full, GATE_LINE_MAX - 1, &l) == 0, "may become a line");
    ok(read_text(full, GATE_LINE_MAX, &l) == -EPROTO, "too long for one");
    full[GATE_LINE_MAX - 1] = '\n';
    ok(read_text(full, GATE_LINE_MAX, &l) == 1, "the longest line");
    full[GATE_LINE_MAX - 1] = 'x';
    full[GATE_LINE_MAX] = '\n';
    ok(read_text(full, GATE_LINE_MAX + 1, &l) == -EPROTO, "one byte more");
}

int main(void)
{
    test_good();
    test_bad();
    return tap_done();
}

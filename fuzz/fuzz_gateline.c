#include "base/buf.h"
#include "base/mem.h"
#include "gate/gate.h"
#include "runner/gateline.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a process of a task may send to the runner's gate socket.  However it
 * is cut into pieces, the same lines are read; texts are texts.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct sum {
    size_t lines;
    uint64_t hash;
    int rc;
};

static void count(struct sum *s, const struct gateline *l)
{
    if (!memchr(l->lease, '\0', sizeof l->lease) ||
        (l->kind != GATELINE_OTHER && !l->lease[0]) ||
        strpbrk(l->lease, " \n"))
        abort();
    s->lines++;
    s->hash = s->hash * 31 + l->kind;
    s->hash = s->hash * 31 + l->version;
    s->hash = s->hash * 31 + l->pid;
    s->hash = s->hash * 31 + strlen(l->lease);
}

static struct sum read_in(const uint8_t *data, size_t size, size_t piece)
{
    struct buf in = BUF_INIT(size + 1);
    struct sum s = { 0 };
    struct gateline l;

    for (size_t at = 0; at < size && s.rc >= 0; at += piece) {
        (void) buf_add(&in, data + at, piece < size - at ? piece : size - at);
        while ((s.rc = gateline_next(&in, &l)) > 0)
            count(&s, &l);
        if (s.rc == 0 && in.len >= GATE_LINE_MAX)
            abort();
    }
    buf_free(&in);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sum whole = read_in(data, size, size ? size : 1);
    struct sum pieces = read_in(data, size, 1);
    struct sum some = read_in(data, size, 7);

    if (whole.lines != pieces.lines || whole.hash != pieces.hash ||
        whole.rc != pieces.rc || whole.lines != some.lines ||
        whole.hash != some.hash || whole.rc != some.rc)
        abort();
    return 0;
}

#include "gate/grant.h"

#include <stdlib.h>
#include <string.h>

/* What the runner may send to the gate in a task's process.  However it is cut
 * into pieces, the same grant is read; what is in it keeps its bounds, and a limit
 * or a device that makes no sense never becomes none.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t pages, page_bytes;

static void map(const char *path)
{
    pages++;
    page_bytes += strlen(path);
}

/* As the gate reads: into a line's room, until a line is too long. */
static struct grant read_in(const uint8_t *data, size_t size, size_t piece)
{
    struct grant g = { .map = map };
    char line[GATE_LINE_MAX];
    size_t have = 0;

    pages = page_bytes = 0;
    while (size > 0 && have < sizeof line) {
        size_t n = piece < size ? piece : size;

        n = n < sizeof line - have ? n : sizeof line - have;
        memcpy(line + have, data, n);
        data += n;
        size -= n;
        have += n;
        grant_take(&g, line, &have);
        if (have > sizeof line || memchr(line, '\n', have))
            abort();
    }
    if (g.devices < 0 || g.devices > GATE_DEVICES ||
        (g.devices > 0 && !g.named) || (g.limit > 0 && !g.limited) ||
        (g.open && !g.ready) || page_bytes > pages * GATE_LINE_MAX)
        abort();
    return g;
}

static void same(const struct grant *a, const struct grant *b)
{
    if (a->ready != b->ready || a->open != b->open || a->go != b->go ||
        a->limited != b->limited || a->named != b->named ||
        a->limit != b->limit || a->devices != b->devices ||
        memcmp(a->uuid, b->uuid, sizeof a->uuid) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct grant whole = read_in(data, size, size);
    size_t n = pages, bytes = page_bytes;

    for (size_t piece = 1; piece < 16; piece += 6) {
        struct grant cut = read_in(data, size, piece);

        same(&whole, &cut);
        if (n != pages || bytes != page_bytes)
            abort();
    }
    return 0;
}

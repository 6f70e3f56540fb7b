#include "base/fs.h"
#include "base/mem.h"
#include "engine/kept.h"
#include "engine/logread.h"

#include <stdint.h>
#include <stdlib.h>

/* What runners say that their tasks have printed, in any order, with control
 * planes that end in between: each pair of bytes is a stretch of the log, or a
 * restart.  Byte N of the log is always the same, so all that can be read
 * afterwards says whether it is where it belongs; the end never goes back, and
 * no more is kept than was said.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LOG = 8192, STEPS = 64 };

static char byte_at(uint64_t offset)
{
    return (char) (offset * 131 + (offset >> 8));
}

static uint64_t add(struct kept *k, uint64_t offset, size_t len)
{
    static char bytes[255 * 33];
    struct engine_output o = { .key = { 1, 0, 0 }, .gen = 1, .epoch = 1,
                               .offset = offset, .bytes = bytes, .len = len };
    uint64_t end = 0;

    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(offset + i);
    if (kept_add(k, &o, &end, NULL) < 0)
        abort();
    return end;
}

static void look(const char *dir, uint64_t end)
{
    uint64_t at = 0, kept = 0;
    struct engine_log l = { 0 };
    char buf[1000];

    do {
        if (logread_log(dir, "w1/0.0", 1, 1, at, buf, sizeof buf, &l,
                        NULL) < 0) {
            if (end)
                abort();
            return;
        }
        for (size_t i = 0; i < l.len; i++)
            if (buf[i] != byte_at(l.start + i))
                abort();
        if (l.end != end || l.start < at || (!l.len && l.start != end))
            abort();
        at = l.start + l.len;
        kept += l.len;
    } while (l.len);
    if (kept > LOG)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char dir[] = "/tmp/weir-fuzz-kept-XXXXXX";
    struct kept *k = NULL;
    uint64_t end = 0;

    if (!mkdtemp(dir) || kept_open(dir, LOG, &k, NULL) < 0)
        abort();
    for (size_t i = 0; i + 1 < size && i < (size_t) 2 * STEPS; i += 2) {
        uint64_t offset = (uint64_t) data[i] * 150;
        size_t len = (size_t) data[i + 1] * 33;
        uint64_t now;

        if (data[i] == 0xff) {
            kept_close(take(k));
            if (kept_open(dir, LOG, &k, NULL) < 0)
                abort();
            continue;
        }
        now = add(k, offset, len);
        if (now < end || (len && now < offset + len))
            abort();
        end = now;
        look(dir, end);
    }
    kept_close(k);
    if (fs_remove_tree(dir, NULL) < 0)
        abort();
    return 0;
}

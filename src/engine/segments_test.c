#include "engine/segments.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/weir-segments-XXXXXX";
static char *prefix;

static void put(uint64_t start, const char *text)
{
    uint64_t size = 77;
    autoclose int fd = segments_open(prefix, start, &size);

    ok(fd >= 0 && size == 0 && fs_write_all(fd, text, strlen(text), NULL) == 0,
       "a segment at %" PRIu64, start);
}

static void test_none(void)
{
    struct segments s = { .n = 77 };
    struct segments_part p = { .len = 77 };
    char buf[8];

    ok(segments_list(prefix, &s) == -ENOENT && s.n == 77, "no folder");
    ok(segments_read(prefix, 0, buf, sizeof buf, &p) == -ENOENT && p.len == 77,
       "no log");
}

/* "abcdef" at 10, a gap, "uvw" at 20. */
static const struct {
    uint64_t offset, start;
    const char *text;
} reads[] = {
    { 0, 10, "abcd" }, { 10, 10, "abcd" }, { 12, 12, "cdef" },
    { 15, 15, "f" }, { 16, 20, "uvw" }, { 19, 20, "uvw" }, { 20, 20, "uvw" },
    { 22, 22, "w" }, { 23, 23, "" }, { 99, 23, "" },
};

static void test_read(void)
{
    for (size_t i = 0; i < array_size(reads); i++) {
        struct segments_part p = { 0 };
        char buf[4];
        int rc = segments_read(prefix, reads[i].offset, buf, sizeof buf, &p);

        ok(rc == 0 && p.start == reads[i].start && p.end == 23 &&
           p.len == strlen(reads[i].text) &&
           memcmp(buf, reads[i].text, p.len) == 0,
           "from %" PRIu64 ": '%s' at %" PRIu64, reads[i].offset,
           reads[i].text, reads[i].start);
    }
}

static void test_many(void)
{
    struct segments s;

    for (uint64_t at = 100; at < 100 + SEGMENTS_MAX + 4; at++)
        put(at, "");
    ok(segments_list(prefix, &s) == 0 && s.n == SEGMENTS_MAX &&
       s.start[0] == 104 && s.start[SEGMENTS_MAX - 1] == 111,
       "of many the newest, in order");
    for (uint64_t at = 100; at < 100 + SEGMENTS_MAX + 4; at++)
        segments_remove(prefix, at);
    ok(segments_list(prefix, &s) == 0 && s.n == 2, "removed");
}

/* What stands there as a link is somebody's trick. */
static void test_link(void)
{
    autofree char *path = mem_printf("%s50", prefix);
    struct segments_part p;
    uint64_t size;
    char buf[4];

    ok(symlink("/etc/passwd", path) == 0, "a link");
    ok(segments_read(prefix, 50, buf, sizeof buf, &p) == -ELOOP &&
       segments_open(prefix, 50, &size) == -ELOOP, "is not followed");
    segments_remove(prefix, 50);
}

int main(void)
{
    static const struct lease_key key = { 12, 3, 0 }, other = { 12, 3, 1 };
    autofree char *logs = NULL, *beside = NULL;
    struct segments s;

    ok(mkdtemp(dir) != NULL, "set up");
    logs = mem_printf("%s/logs", dir);
    ok(fs_mkdir(logs, 0700, NULL) == 0, "a folder");
    prefix = segments_prefix(dir, &key, 2, 5);
    beside = segments_prefix(dir, &other, 2, 5);
    ok(strcmp(prefix + strlen(dir), "/logs/w12/3.0.2.5.log.") == 0, "the name");
    test_none();
    put(20, "uvw");
    put(10, "abcdef");
    ok(segments_list(beside, &s) == -ENOENT, "another's is another");
    test_read();
    test_many();
    test_link();
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    free(prefix);
    return tap_done();
}

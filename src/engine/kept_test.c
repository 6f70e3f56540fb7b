#include "engine/kept.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"
#include "engine/logread.h"
#include "engine/segments.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

/* Byte N of every log is the same, so that what is read says where it belongs. */
enum { LOG = 20000, HALF = LOG / 2 };

static char dir[] = "/tmp/weir-kept-XXXXXX";
static char bytes[256 * 1024];

static char byte_at(uint64_t offset)
{
    return (char) (offset * 131 + (offset >> 8));
}

static int add_of(struct kept *k, uint64_t workload, uint64_t offset,
                  size_t len, uint64_t *ret_end)
{
    struct engine_output o = {
        .key = { workload, 2, 0 }, .gen = 1, .epoch = 3, .offset = offset,
        .bytes = bytes, .len = len,
    };

    for (size_t i = 0; i < len; i++)
        bytes[i] = byte_at(offset + i);
    return kept_add(k, &o, ret_end, NULL);
}

static bool add(struct kept *k, uint64_t offset, size_t len, uint64_t end)
{
    uint64_t got = UINT64_MAX;

    return add_of(k, 1, offset, len, &got) == 0 && got == end;
}

enum { STRETCHES = 4 };

/* All that can be read of it is this: one stretch, or more where there are gaps. */
static bool holds(uint64_t workload, const uint64_t (*want)[2], size_t n)
{
    autofree char *key = mem_printf("w%" PRIu64 "/2.0", workload);
    uint64_t got[STRETCHES][2] = { { 0 } }, at = 0;
    struct engine_log l;
    char buf[777];
    size_t m = 0;

    while (logread_log(dir, key, 1, 3, at, buf, sizeof buf, &l, NULL) == 0 &&
           l.len) {
        for (size_t b = 0; b < l.len; b++)
            if (buf[b] != byte_at(l.start + b))
                return false;
        if (m == 0 || l.start != at) {
            if (m == STRETCHES)
                return false;
            got[m++][0] = l.start;
        }
        at = got[m - 1][1] = l.start + l.len;
    }
    return m == n && memcmp(got, want, n * sizeof *got) == 0;
}

#define HOLDS(workload, ...) holds(workload, (const uint64_t[][2]) { \
    __VA_ARGS__ }, array_size(((const uint64_t[][2]) { __VA_ARGS__ })))

static size_t segments_of(uint64_t workload)
{
    struct lease_key key = { workload, 2, 0 };
    autofree char *prefix = segments_prefix(dir, &key, 1, 3);
    struct segments s;

    return segments_list(prefix, &s) < 0 ? 0 : s.n;
}

static size_t descriptors(void)
{
    DIR *d = opendir("/proc/self/fd");
    size_t n = 0;

    while (d && readdir(d))
        n++;
    if (d)
        (void) closedir(d);
    return n;
}

static struct kept *open_it(void)
{
    struct kept *k = NULL;

    ok(kept_open(dir, LOG, &k, NULL) == 0, "open");
    return k;
}

static void test_repeats(struct kept *k)
{
    ok(add(k, 1, 0, 0) && segments_of(1) == 0, "nothing leaves nothing");
    ok(add(k, 1, 100, 101), "the first bytes");
    ok(add(k, 1, 100, 101), "the same again");
    ok(add(k, 51, 20, 101), "some of them again");
    ok(add(k, 51, 150, 201) && HOLDS(1, { 1, 201 }), "some, and more");
    ok(add(k, 201, HALF, HALF + 201) && segments_of(1) == 2 &&
       HOLDS(1, { 1, HALF + 201 }), "past a segment");
    ok(add(k, 1, 30000, 30001) && segments_of(1) == 2 &&
       HOLDS(1, { HALF + 1, 30001 }), "only the two newest are kept");
}

static void test_gap(struct kept *k)
{
    ok(add(k, 32000, 500, 32500) && segments_of(1) == 2 &&
       HOLDS(1, { 20001, 30001 }, { 32000, 32500 }),
       "a gap begins a segment");
    ok(add(k, 31000, 500, 32500), "what is before the end is passed over");
    ok(add(k, 100000, 100, 100100) && segments_of(1) == 2 &&
       HOLDS(1, { 32000, 32500 }, { 100000, 100100 }), "and another");
}

static void test_restart(void)
{
    struct kept *k = open_it();

    ok(add(k, 99000, 1050, 100100), "after a restart the end is known");
    ok(add(k, 99000, 1200, 100200) &&
       HOLDS(1, { 32000, 32500 }, { 100000, 100200 }), "and goes on");
    ok(add(k, 100200, HALF, 100200 + HALF) && segments_of(1) == 2 &&
       HOLDS(1, { 100000, 100200 + HALF }), "with the segment of before");
    kept_close(k);
}

/* As after a crash between a new segment and the end of the oldest. */
static void test_left(void)
{
    struct lease_key key = { 1, 2, 0 };
    autofree char *prefix = segments_prefix(dir, &key, 1, 3);
    uint64_t size;
    autoclose int fd = segments_open(prefix, 50, &size);
    struct kept *k = open_it();

    ok(fd >= 0 && segments_of(1) == 3, "one too many");
    ok(add(k, 100200, 1, 100200 + HALF) && segments_of(1) == 2 &&
       HOLDS(1, { 100000, 100200 + HALF }), "goes");
    kept_close(k);
}

/* A file may not grow past what there is room for: half of a message is. */
static void test_full(struct kept *k)
{
    struct rlimit was, small;
    uint64_t end = 77;

    (void) signal(SIGXFSZ, SIG_IGN);
    ok(getrlimit(RLIMIT_FSIZE, &was) == 0, "the limit");
    small = (struct rlimit) { 3000, was.rlim_max };
    ok(add_of(k, 2, 1, 2000, &end) == 0 && end == 2001, "there is room");
    ok(setrlimit(RLIMIT_FSIZE, &small) == 0, "no room");
    ok(add_of(k, 2, 2001, 5000, &end) == -EFBIG && end == 2001,
       "what does not fit fails");
    ok(add_of(k, 2, 2001, 5000, &end) == -EFBIG, "and again");
    ok(setrlimit(RLIMIT_FSIZE, &was) == 0, "room again");
    ok(HOLDS(2, { 1, 3001 }), "what did fit is there");
    ok(add_of(k, 2, 2001, 5000, &end) == 0 && end == 7001 &&
       HOLDS(2, { 1, 7001 }), "and the rest, told again");
}

static void test_bounded(struct kept *k)
{
    size_t before = descriptors();
    uint64_t end = 0;
    unsigned good = 0;

    for (unsigned round = 0; round < 2; round++)
        for (uint64_t w = 10; w < 10 + 3 * KEPT_FILES; w++)
            good += add_of(k, w, 1 + round * 10, 10, &end) == 0 &&
                    end == 11 + round * 10;
    ok(good == 2 * 3 * KEPT_FILES, "many logs at once");
    ok(descriptors() <= before + KEPT_FILES, "with few files open");
    good = 0;
    for (uint64_t w = 10; w < 10 + 3 * KEPT_FILES; w++)
        good += HOLDS(w, { 1, 21 });
    ok(good == 3 * KEPT_FILES, "each whole");
}

static void test_drop(struct kept *k)
{
    uint64_t end = 0;

    ok(kept_drop(k, 10, NULL) == 0 && kept_drop(k, 10, NULL) == 0 &&
       segments_of(10) == 0 && HOLDS(11, { 1, 21 }), "dropped, one alone");
    ok(add_of(k, 10, 5, 10, &end) == 0 && end == 15 && HOLDS(10, { 5, 15 }),
       "it begins anew");
}

static void test_wrong(struct kept *k)
{
    struct err err = { 0 };
    struct engine_output o = { .key = { 1, 2, 0 }, .gen = 1, .epoch = 3,
                               .offset = INT64_MAX, .bytes = "ab", .len = 2 };
    uint64_t end = 77;

    ok(kept_add(k, &o, &end, &err) == -EINVAL && err.text[0] && end == 77,
       "past all ends: %s", err.text);
    o.offset -= 2;
    ok(kept_add(k, &o, &end, &err) == 0 && end == INT64_MAX, "the very last");
}

int main(void)
{
    struct kept *k;

    ok(mkdtemp(dir) != NULL, "set up");
    k = open_it();
    test_repeats(k);
    test_gap(k);
    kept_close(k);
    test_restart();
    test_left();
    k = open_it();
    test_full(k);
    test_bounded(k);
    test_drop(k);
    test_wrong(k);
    kept_close(k);
    kept_close(NULL);
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}

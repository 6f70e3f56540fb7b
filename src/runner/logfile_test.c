#include "runner/logfile.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/weir-logfile-XXXXXX";
static const struct lease_id id = { { 1, 2, 0 }, 1, 1 };

static int64_t size_of(uint64_t start)
{
    autofree char *path = mem_printf("%s/logs/w1/2.0.1.1.log.%" PRIu64, dir,
                                     start);
    struct stat st;

    return stat(path, &st) < 0 ? -1 : st.st_size;
}

static bool byte_is(uint64_t start, uint64_t offset)
{
    autofree char *path = mem_printf("%s/logs/w1/2.0.1.1.log.%" PRIu64, dir,
                                     start);
    autofree char *data = NULL;
    size_t len = 0;

    return fs_read(path, 1 << 20, &data, &len, NULL) == 0 &&
           offset - start < len &&
           data[offset - start] == (char) ('a' + offset % 26);
}

int main(void)
{
    autofree char *data = mem_new(30000);
    struct logfile f;

    ok(mkdtemp(dir) != NULL, "set up");
    for (int i = 0; i < 30000; i++)
        data[i] = (char) ('a' + i % 26);
    autofree char *logs = mem_printf("%s/logs", dir);

    ok(fs_mkdir(logs, 0700, NULL) == 0, "folder");
    logfile_init(&f, dir, &id, 10000);
    ok(size_of(0) == -1, "who prints nothing leaves nothing");
    ok(logfile_add(&f, data, 4999, NULL) == 0 && size_of(0) == 4999,
       "one segment");
    ok(logfile_add(&f, data + 4999, 2, NULL) == 0 && size_of(0) == 5000 &&
       size_of(5000) == 1, "two, cut at half the bound");
    ok(logfile_add(&f, data + 5001, 5000, NULL) == 0 && size_of(0) == -1 &&
       size_of(5000) == 5000 && size_of(10000) == 1, "the oldest goes");
    ok(logfile_add(&f, data + 10001, 19999, NULL) == 0, "much at once");
    ok(f.end == 30000 && size_of(20000) == 5000 && size_of(25000) == 5000 &&
       size_of(15000) == -1, "the two newest are kept");
    ok(byte_is(20000, 20000) && byte_is(20000, 24999) &&
       byte_is(25000, 25000) && byte_is(25000, 29999),
       "each byte is at its offset");
    logfile_close(&f);
    logfile_init(&f, dir, &id, 1);
    ok(f.half >= 4096, "a bound that is too small is lifted");
    logfile_close(&f);
    ok(logfile_drop(dir, &(struct lease_key) { 1, 20, 0 }, NULL) == 0 &&
       size_of(25000) == 5000, "another key's stay");
    ok(logfile_drop(dir, &id.key, NULL) == 0 && size_of(25000) == -1,
       "dropped");
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}

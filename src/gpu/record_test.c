#include "gpu/record.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"
#include "gpu/cuda.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void test_names(void)
{
    static const char *const good[] = { "t", "a-b_c.9", "T0" };
    static const char *const wrong[] = {
        "", ".", "..", ".t", "a/b", "../t", "a b", "\xc3\xa4",
    };
    char longest[RECORD_TASK + 2];

    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    ok(!record_task_ok(longest), "%d bytes are too many", RECORD_TASK + 1);
    ok(record_task_ok(longest + 1), "%d are not", RECORD_TASK);

    for (size_t i = 0; i < array_size(good); i++)
        ok(record_task_ok(good[i]), "'%s' is a task's name", good[i]);
    for (size_t i = 0; i < array_size(wrong); i++)
        ok(!record_task_ok(wrong[i]), "'%s' is none", wrong[i]);
}

static bool same(const struct record *a, const struct record *b)
{
    autofree char *x = record_text(a), *y = record_text(b);

    return strstr(x, "resuming") && !strcmp(x, y);
}

static void test_disk(void)
{
    char dir[] = "/tmp/weir-record-XXXXXX";
    autofree struct record *r = mem_new(sizeof *r);
    autofree struct record *got = mem_new(sizeof *got);
    struct err err = { 0 };

    if (!mkdtemp(dir))
        abort();
    (void) snprintf(r->task, sizeof r->task, "t");
    (void) snprintf(r->boot, sizeof r->boot, "b");
    (void) snprintf(r->devices[0].uuid, NVML_TEXT, "GPU-0");
    r->ndevices = r->nprocs = 1;
    r->phase = RECORD_RESUMING;
    r->hold = true;
    r->uid = 1000;
    r->procs[0] = (struct record_proc) {
        .pid = 10, .tid = 11, .start = 12, .bytes = 1ull << 40,
        .on = { 1ull << 39 },
    };
    ok(!strcmp(record_place(r, 0, 0), "GPU-0"), "it is where it was");
    ok(record_put(r, 0, 0, "GPU-7"), "it comes elsewhere");
    ok(record_load(dir, "t", got, NULL) == -ENOENT, "no record");
    ok(record_save(dir, r, &err) == 0, "it is written %s", err.text);
    ok(record_load(dir, "t", got, &err) == 0, "and read %s", err.text);
    ok(same(r, got), "as it was");
    ok(got->procs[0].on[0] == 1ull << 39 &&
       !strcmp(record_place(got, 0, 0), "GPU-7"), "with where it is");
    ok(record_put(got, 0, 0, "GPU-0") && !got->procs[0].at[0],
       "and it comes back");
    ok(record_remove(dir, "t", &err) == 0 &&
       record_load(dir, "t", got, NULL) == -ENOENT, "and removed");
    ok(record_remove(dir, "t", &err) == 0, "twice is once");
    ok(rmdir(dir) == 0, "nothing is left");
}

static void test_uuid(void)
{
    struct cuda_uuid id = { { 0 } };

    ok(cuda_uuid_read("GPU-01234567-89ab-CDEF-0000-0000000000ff", &id) &&
       id.bytes[0] == 0x01 && id.bytes[7] == 0xef && id.bytes[15] == 0xff,
       "a UUID is read");
    ok(!cuda_uuid_read("GPU-0", &id) && !cuda_uuid_read("", &id) &&
       !cuda_uuid_read("GPU-0123456-789ab-CDEF-0000-0000000000ff", &id) &&
       !cuda_uuid_read("MIG-01234567-89ab-CDEF-0000-0000000000ff", &id),
       "what is none is refused");
}

int main(void)
{
    test_names();
    test_disk();
    test_uuid();
    return tap_done();
}

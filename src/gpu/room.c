#include "gpu/room.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16 };
static const uint64_t MIB = 1 << 20;

/* The number after `key`, at the start of a line. */
static bool number_of(const char *path, const char *key, uint64_t *ret)
{
    autofree char *text = NULL;
    size_t len, n = strlen(key);
    const char *p;

    if (fs_read(path, TEXT_MAX, &text, &len, NULL) < 0)
        return false;
    p = text;
    while (p && strncmp(p, key, n) != 0) {
        p = strchr(p, '\n');
        p = p ? p + 1 : NULL;
    }
    if (!p)
        return false;
    p += n + strspn(p + n, " \t");
    if (*p < '0' || *p > '9')
        return false;                  /* "max" */
    *ret = strtoull(p, NULL, 10);
    return true;
}

static bool file_number(const char *folder, const char *file, const char *key,
                        uint64_t *ret)
{
    autofree char *path = mem_printf("%s/%s", folder, file);

    return number_of(path, key, ret);
}

static int check_node(uint64_t bytes, uint64_t taken, uint64_t spare,
                      struct err *err)
{
    uint64_t kib, room;

    if (!number_of("/proc/meminfo", "MemAvailable:", &kib))
        return err_set(err, EIO, "/proc/meminfo does not tell MemAvailable");
    room = kib * 1024;
    room = room > taken ? room - taken : 0;
    room = room > spare ? room - spare : 0;
    if (bytes <= room)
        return 0;
    return err_set(err, ENOMEM, "host memory is short: %llu MiB are on the"
                   " device, %llu MiB can be had on this node",
                   (unsigned long long) (bytes / MIB),
                   (unsigned long long) (room / MIB));
}

static bool is_in(const char *path, const char *cgroup, size_t len)
{
    return len == 0 || (!strncmp(path, cgroup, len) &&
                        (path[len] == '\0' || path[len] == '/'));
}

/* File pages that were not used lately make room by themselves. */
static int check_level(const char *cgroup, size_t len, uint64_t bytes,
                       uint64_t taken, struct err *err)
{
    autofree char *folder = mem_printf("/sys/fs/cgroup%.*s", (int) len, cgroup);
    uint64_t max, now = 0, idle = 0, room;

    if (!file_number(folder, "memory.max", "", &max) ||
        !file_number(folder, "memory.current", "", &now))
        return 0;                      /* no limit at this level */
    (void) file_number(folder, "memory.stat", "inactive_file", &idle);
    room = max + idle > now ? max + idle - now : 0;
    room = room > taken ? room - taken : 0;
    if (bytes <= room)
        return 0;
    return err_set(err, ENOMEM, "host memory is short: %llu MiB are on the"
                   " device, the limit of cgroup '%.*s' leaves %llu MiB",
                   (unsigned long long) (bytes / MIB), (int) len, cgroup,
                   (unsigned long long) (room / MIB));
}

/* Bytes of those in a cgroup or below it. */
static uint64_t sum_in(const struct room_need *all, unsigned n,
                       const char *cgroup, size_t len)
{
    uint64_t bytes = 0;

    for (unsigned i = 0; i < n; i++)
        if (is_in(all[i].cgroup, cgroup, len))
            bytes += all[i].bytes;
    return bytes;
}

int room_check(const struct room_need *all, unsigned n,
               const struct room_need *taken, unsigned ntaken, uint64_t spare,
               struct err *err)
{
    int rc = check_node(sum_in(all, n, "", 0), sum_in(taken, ntaken, "", 0),
                        spare, err);

    /* Every level of every process' cgroup, each with the bytes of all in it. */
    for (unsigned i = 0; !rc && i < n; i++) {
        const char *path = all[i].cgroup;

        for (size_t len = strlen(path); !rc && len > 0; len--)
            if (path[len] == '\0' || path[len] == '/')
                rc = check_level(path, len, sum_in(all, n, path, len),
                                 sum_in(taken, ntaken, path, len), err);
    }
    return rc;
}

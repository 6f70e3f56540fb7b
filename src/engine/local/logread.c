#include "engine/local/logread.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TRIES = 5, SEGMENTS_MAX = 8 };

struct segments {
    uint64_t start[SEGMENTS_MAX];
    size_t n;
};

static void add(struct segments *s, const char *text)
{
    uint64_t start;
    size_t at = s->n;

    if (s->n == SEGMENTS_MAX || quantity_count(text, &start, NULL) < 0)
        return;
    for (; at > 0 && s->start[at - 1] > start; at--)
        s->start[at] = s->start[at - 1];
    s->start[at] = start;
    s->n++;
}

static int list(const char *dir, const char *prefix, struct segments *ret)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t len = strlen(prefix);

    *ret = (struct segments) { .n = 0 };
    if (!d)
        return -errno;
    while ((e = readdir(d)))
        if (strncmp(e->d_name, prefix, len) == 0)
            add(ret, e->d_name + len);
    (void) closedir(d);
    return ret->n ? 0 : -ENOENT;
}

static int open_segment(const char *prefix, uint64_t start,
                        uint64_t *ret_size)
{
    autofree char *path = mem_printf("%s%" PRIu64, prefix, start);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *ret_size = (uint64_t) st.st_size;
    return take_fd(fd);
}

/* Bytes of the one segment that has `offset`; a caller that wants more asks
 * again from there.
 */
static int read_from(const char *prefix, const struct segments *s,
                     uint64_t offset, void *buf, size_t size,
                     struct engine_log *ret)
{
    uint64_t newest = s->start[s->n - 1], bytes = 0, end;
    autoclose int fd = open_segment(prefix, newest, &bytes);
    size_t i = s->n - 1;
    ssize_t n;

    if (fd < 0)
        return fd;
    end = newest + bytes;
    if (offset > end)
        offset = end;
    while (i > 0 && s->start[i] > offset)
        i--;
    if (offset < s->start[i])
        offset = s->start[i];
    if (i != s->n - 1) {
        (void) close(fd);
        fd = open_segment(prefix, s->start[i], &bytes);
        if (fd < 0)
            return fd;
    }
    n = pread(fd, buf, size, (off_t) (offset - s->start[i]));
    if (n < 0)
        return -errno;
    *ret = (struct engine_log) { offset, (size_t) n, end };
    return 0;
}

int logread_log(const char *dir, const char *lease_key, uint32_t gen,
                uint64_t epoch, uint64_t offset, void *buf, size_t size,
                struct engine_log *ret, struct err *err)
{
    autofree char *outer = NULL, *name = NULL, *prefix = NULL;
    struct segments s;
    struct lease_key key;
    int rc = lease_key_parse(lease_key, &key, err);

    if (rc < 0)
        return rc;
    outer = mem_printf("%s/logs/w%" PRIu64, dir, key.workload);
    name = mem_printf("%" PRIu32 ".%" PRIu32 ".%" PRIu32 ".%" PRIu64 ".log.",
                      key.task, key.rank, gen, epoch);
    prefix = mem_printf("%s/%s", outer, name);
    /* Segments may go between the list and the look: look again. */
    for (unsigned i = 0; i < TRIES; i++) {
        rc = list(outer, name, &s);
        if (rc == 0)
            rc = read_from(prefix, &s, offset, buf, size, ret);
        if (rc == 0)
            return 0;
        if (rc != -ENOENT)
            return err_set(err, -rc, "log '%s': %s", prefix, strerror(-rc));
    }
    return err_set(err, ENOENT, "lease %s has no log (yet)", lease_key);
}

int logread_drop(const char *dir, uint64_t workload, struct err *err)
{
    autofree char *path = mem_printf("%s/logs/w%" PRIu64, dir, workload);

    return fs_remove_tree(path, err);
}

json_t *logread_list(const char *dir)
{
    autofree char *path = mem_printf("%s/logs", dir);
    json_t *list = json_array();
    DIR *d = opendir(path);
    struct dirent *entry;
    uint64_t id;

    while (d && (entry = readdir(d)))
        if (entry->d_name[0] == 'w' &&
            quantity_count(entry->d_name + 1, &id, NULL) == 0 &&
            id <= INT64_MAX)
            (void) json_array_append_new(list, json_integer((json_int_t) id));
    if (d)
        (void) closedir(d);
    return list;
}

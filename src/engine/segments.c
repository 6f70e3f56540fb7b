#include "engine/segments.h"

#include "base/mem.h"
#include "base/quantity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 5 };

char *segments_prefix(const char *dir, const struct lease_key *key,
                      uint32_t gen, uint64_t epoch)
{
    return mem_printf("%s/logs/w%" PRIu64 "/%" PRIu32 ".%" PRIu32 ".%" PRIu32
                      ".%" PRIu64 ".log.", dir, key->workload, key->task,
                      key->rank, gen, epoch);
}

/* Of too many the oldest are passed over. */
static void add(struct segments *s, uint64_t start)
{
    size_t at;

    if (s->n == SEGMENTS_MAX) {
        if (start < s->start[0])
            return;
        s->n--;
        memmove(s->start, s->start + 1, s->n * sizeof *s->start);
    }
    for (at = s->n; at > 0 && s->start[at - 1] > start; at--)
        s->start[at] = s->start[at - 1];
    s->start[at] = start;
    s->n++;
}

int segments_list(const char *prefix, struct segments *ret)
{
    const char *name = strrchr(prefix, '/') + 1;
    autofree char *folder = mem_strn(prefix, (size_t) (name - prefix - 1));
    size_t len = strlen(name);
    struct segments s = { .n = 0 };
    DIR *d = opendir(folder);
    struct dirent *e;
    uint64_t start;

    if (!d)
        return -errno;
    while ((e = readdir(d)))
        if (strncmp(e->d_name, name, len) == 0 &&
            quantity_count(e->d_name + len, &start, NULL) == 0)
            add(&s, start);
    (void) closedir(d);
    *ret = s;
    return s.n ? 0 : -ENOENT;
}

static int open_as(const char *prefix, uint64_t start, int flags,
                   uint64_t *ret_size)
{
    autofree char *path = mem_printf("%s%" PRIu64, prefix, start);
    autoclose int fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    *ret_size = (uint64_t) st.st_size;
    return take_fd(fd);
}

int segments_open(const char *prefix, uint64_t start, uint64_t *ret_size)
{
    const int flags = O_WRONLY | O_CREAT;
    autofree char *folder = NULL;
    int fd = open_as(prefix, start, flags, ret_size);

    if (fd != -ENOENT)
        return fd;
    folder = mem_strn(prefix, (size_t) (strrchr(prefix, '/') - prefix));
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return -errno;
    return open_as(prefix, start, flags, ret_size);
}

void segments_remove(const char *prefix, uint64_t start)
{
    autofree char *path = mem_printf("%s%" PRIu64, prefix, start);

    (void) unlink(path);
}

/* The one that has `offset`, or else the next after it; the newest may have
 * nothing there.
 */
static int open_at(const char *prefix, const struct segments *s,
                   uint64_t offset, size_t *ret_i)
{
    size_t i = s->n - 1;
    uint64_t bytes = 0;
    int fd;

    while (i > 0 && s->start[i] > offset)
        i--;
    fd = open_as(prefix, s->start[i], O_RDONLY, &bytes);
    if (fd >= 0 && offset >= s->start[i] + bytes && i + 1 < s->n) {
        (void) close(fd);
        i++;
        fd = open_as(prefix, s->start[i], O_RDONLY, &bytes);
    }
    *ret_i = i;
    return fd;
}

static int read_from(const char *prefix, const struct segments *s,
                     uint64_t offset, void *buf, size_t size,
                     struct segments_part *ret)
{
    uint64_t newest = s->start[s->n - 1], bytes = 0, end;
    autoclose int last = open_as(prefix, newest, O_RDONLY, &bytes);
    autoclose int fd = -1;
    size_t i;
    ssize_t n;

    if (last < 0)
        return last;
    end = newest + bytes;
    if (offset > end)
        offset = end;
    fd = open_at(prefix, s, offset, &i);
    if (fd < 0)
        return fd;
    if (offset < s->start[i])
        offset = s->start[i];
    n = pread(fd, buf, size, (off_t) (offset - s->start[i]));
    if (n < 0)
        return -errno;
    *ret = (struct segments_part) { offset, (size_t) n, end };
    return 0;
}

int segments_read(const char *prefix, uint64_t offset, void *buf, size_t size,
                  struct segments_part *ret)
{
    struct segments s = { .n = 0 };
    int rc = 0;

    /* Segments may go between the list and the look: look again. */
    for (unsigned i = 0; i < TRIES; i++) {
        rc = segments_list(prefix, &s);
        if (rc == 0 && s.n)
            rc = read_from(prefix, &s, offset, buf, size, ret);
        if (rc != -ENOENT)
            return rc;
    }
    return rc;
}

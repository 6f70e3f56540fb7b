#include "runner/logfile.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { BYTES_MIN = 8192 };

void logfile_init(struct logfile *f, const char *dir,
                  const struct lease_id *id, uint64_t bytes)
{
    char name[LEASE_NAME_SIZE];

    lease_id_file(id, name, sizeof name);
    *f = (struct logfile) {
        .prefix = mem_printf("%s/logs/w%" PRIu64 "/%s.log.", dir,
                             id->key.workload, name),
        .fd = -1,
        .half = (bytes < BYTES_MIN ? BYTES_MIN : bytes) / 2,
    };
}

static void close_segment(struct logfile *f)
{
    if (f->fd >= 0)
        (void) close(take_fd(f->fd));
}

void logfile_close(struct logfile *f)
{
    close_segment(f);
    free(take(f->prefix));
}

/* The workload's folder is made for the first of its logs. */
static int open_segment(const char *path)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
    autofree char *outer = NULL;
    int fd = open(path, flags, 0600);

    if (fd >= 0 || errno != ENOENT)
        return fd;
    outer = mem_strn(path, (size_t) (strrchr(path, '/') - path));
    if (mkdir(outer, 0700) < 0 && errno != EEXIST)
        return -1;
    return open(path, flags, 0600);
}

static int next_segment(struct logfile *f, struct err *err)
{
    autofree char *path = mem_printf("%s%" PRIu64, f->prefix, f->end);
    autofree char *oldest = mem_printf("%s%" PRIu64, f->prefix, f->old);
    int fd = open_segment(path);

    if (fd < 0)
        return err_set(err, errno, "open '%s': %s", path, strerror(errno));
    if (f->old != f->start)
        (void) unlink(oldest);
    close_segment(f);
    f->fd = fd;
    f->old = f->start;
    f->start = f->end;
    return 0;
}

int logfile_add(struct logfile *f, const void *p, size_t n, struct err *err)
{
    const char *at = p;

    while (n > 0) {
        uint64_t room = f->fd < 0 ? 0 : f->start + f->half - f->end;
        size_t part = n < room ? n : (size_t) room;
        int rc = part ? fs_write_all(f->fd, at, part, err)
                      : next_segment(f, err);

        /* A write that got half way would shift every later offset. */
        if (rc < 0 && part &&
            ftruncate(f->fd, (off_t) (f->end - f->start)) < 0)
            return err_prefix(err, rc, "cut back");
        if (rc < 0)
            return rc;
        at += part;
        n -= part;
        f->end += part;
    }
    return 0;
}

int logfile_drop(const char *dir, const struct lease_key *key,
                 struct err *err)
{
    autofree char *outer = mem_printf("%s/logs/w%" PRIu64, dir,
                                      key->workload);
    autofree char *prefix = mem_printf("%" PRIu32 ".%" PRIu32 ".", key->task,
                                       key->rank);
    DIR *d = opendir(outer);
    struct dirent *e;
    int rc = 0;

    while (d && rc == 0 && (e = readdir(d))) {
        autofree char *path = mem_printf("%s/%s", outer, e->d_name);

        if (strncmp(e->d_name, prefix, strlen(prefix)) == 0)
            rc = fs_remove_tree(path, err);
    }
    if (d)
        (void) closedir(d);
    (void) rmdir(outer);               /* only when nothing is left */
    return rc;
}

#include "runner/logfile.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

enum { BYTES_MIN = 8192 };

void logfile_init(struct logfile *f, const char *dir, uint64_t bytes)
{
    *f = (struct logfile) {
        .dir = dir, .fd = -1,
        .half = (bytes < BYTES_MIN ? BYTES_MIN : bytes) / 2,
    };
}

void logfile_close(struct logfile *f)
{
    if (f->fd >= 0)
        (void) close(take_fd(f->fd));
}

static int next_segment(struct logfile *f, struct err *err)
{
    autofree char *path = mem_printf("%s/log.%" PRIu64, f->dir, f->end);
    autofree char *oldest = mem_printf("%s/log.%" PRIu64, f->dir, f->old);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd < 0)
        return err_set(err, errno, "open '%s': %s", path, strerror(errno));
    if (f->old != f->start)
        (void) unlink(oldest);
    logfile_close(f);
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

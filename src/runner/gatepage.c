#include "runner/gatepage.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static const char *const names[] = {
    [GATE_ACTIVE] = "active",
    [GATE_STAGED] = "staged",
    [GATE_SUSPENDED] = "suspended",
};

const char *gate_state_name(enum gate_state s)
{
    return s < array_size(names) ? names[s] : "unknown";
}

bool gate_state_parse(const char *s, enum gate_state *ret)
{
    for (size_t i = 0; i < array_size(names); i++)
        if (strcmp(names[i], s) == 0) {
            *ret = (enum gate_state) i;
            return true;
        }
    return false;
}

static int failed(const char *what, const char *path, struct err *err)
{
    return err_set(err, errno, "%s '%s': %s", what, path, strerror(errno));
}

static int put(int fd, const void *p, size_t n, off_t at, struct err *err)
{
    ssize_t done = pwrite(fd, p, n, at);

    if (done == (ssize_t) n)
        return 0;
    return err_set(err, done < 0 ? errno : ENOSPC, "write a gate's page: %s",
                   strerror(done < 0 ? errno : ENOSPC));
}

/* Zeros that are there: on a full disk a hole would be a SIGBUS in the task. */
static int fill(int fd, enum gate_state state, struct err *err)
{
    struct gate_page page;

    memset(&page, 0, sizeof page);
    page.magic = GATE_PAGE_MAGIC;
    page.version = GATE_VERSION;
    page.state = state;
    return put(fd, &page, sizeof page, 0, err);
}

int gatepage_make(const char *path, uid_t uid, gid_t gid,
                  enum gate_state state, int *ret, struct err *err)
{
    autoclose int fd = -1;
    int rc;

    if (unlink(path) < 0 && errno != ENOENT)
        return failed("remove", path, err);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return failed("make", path, err);
    rc = fill(fd, state, err);
    if (rc == 0 && geteuid() == 0 && fchown(fd, uid, gid) < 0)
        rc = failed("hand over", path, err);
    if (rc < 0) {
        (void) unlink(path);
        return rc;
    }
    *ret = take_fd(fd);
    return 0;
}

int gatepage_open(const char *path, int *ret, struct err *err)
{
    autoclose int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW |
                            O_NONBLOCK | O_NOCTTY);
    struct gatepage_seen seen;
    int rc;

    if (fd < 0)
        return failed("open", path, err);
    rc = gatepage_read(fd, &seen, err);
    if (rc < 0)
        return err_prefix(err, rc, "%s", path);
    *ret = take_fd(fd);
    return 0;
}

/* The word is mapped for its address alone, which the kernel asks for; a page
 * that the task cut short gives an error there, and nobody waits on it.
 */
static int wake(int fd, struct err *err)
{
    size_t size = (size_t) sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int rc = 0;

    if (p == MAP_FAILED)
        return err_set(err, errno, "map a gate's page: %s", strerror(errno));
    if (syscall(SYS_futex, p + GATE_AT_STATE, FUTEX_WAKE, INT_MAX, NULL, NULL,
                0) < 0)
        rc = err_set(err, errno, "wake at a gate's page: %s",
                     strerror(errno));
    (void) munmap(p, size);
    return rc;
}

int gatepage_set(int fd, enum gate_state state, struct err *err)
{
    uint32_t value = state;
    int rc = put(fd, &value, sizeof value, GATE_AT_STATE, err);

    return rc < 0 ? rc : wake(fd, err);
}

int gatepage_read(int fd, struct gatepage_seen *ret, struct err *err)
{
    struct gate_page page;
    ssize_t n = pread(fd, &page, sizeof page, 0);

    if (n < 0)
        return err_set(err, errno, "read a gate's page: %s",
                       strerror(errno));
    if (n != sizeof page || page.magic != GATE_PAGE_MAGIC ||
        page.state > GATE_SUSPENDED)
        return err_set(err, EBADMSG, "the task has spoilt its gate's page");
    *ret = (struct gatepage_seen) {
        .state = (enum gate_state) page.state, .wanting = page.wanting,
        .inside = page.inside,
        .launches = page.count[GATE_LAUNCH], .copies = page.count[GATE_COPY],
        .syncs = page.count[GATE_SYNC], .others = page.count[GATE_OTHER],
    };
    for (size_t i = 0; i < GATE_DEVICES; i++)
        ret->used += page.used[i];
    return 0;
}

#include "base/fs.h"

#include "base/err.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

enum { TREE_DEPTH_MAX = 128 };           /* one open folder for each level */

static int failed(struct err *err, const char *what, const char *path)
{
    int code = errno;

    return err_set(err, code, "%s '%s': %s", what, path, strerror(code));
}

/* The folder at `path` is one, is no link, is ours, and nobody whom `mode`
 * shuts out can write to it.
 */
static int check_ours(const char *path, mode_t mode, struct err *err)
{
    struct stat st;

    if (lstat(path, &st) < 0)
        return failed(err, "look at", path);
    if (!S_ISDIR(st.st_mode))
        return err_set(err, ENOTDIR, "'%s' is not a folder%s", path,
                       S_ISLNK(st.st_mode) ? " but a link" : "");
    if (st.st_uid != geteuid())
        return err_set(err, EPERM, "folder '%s' belongs to user %u, not to "
                       "user %u", path, (unsigned) st.st_uid,
                       (unsigned) geteuid());
    if (st.st_mode & ~mode & (S_IWGRP | S_IWOTH))
        return err_set(err, EPERM, "others can write to folder '%s'", path);
    return 0;
}

int fs_mkdir(const char *path, mode_t mode, struct err *err)
{
    autofree char *part = mem_str(path);
    size_t len = strlen(part);

    while (len > 1 && part[len - 1] == '/')
        part[--len] = '\0';
    for (char *p = part + 1; len > 0 && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(part, 0755) < 0 && errno != EEXIST)
            return failed(err, "make folder", part);
        *p = '/';
    }
    if (mkdir(part, 0700) == 0) {
        if (chmod(part, mode) < 0)       /* whatever the umask says */
            return failed(err, "set the mode of folder", part);
    } else if (errno != EEXIST) {
        return failed(err, "make folder", part);
    }
    return check_ours(part, mode, err);
}

int fs_read(const char *path, size_t max, char **ret, size_t *ret_len,
            struct err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    autofree char *data = NULL;
    size_t len = 0, cap = 0;
    ssize_t n;

    if (fd < 0)
        return failed(err, "open", path);
    do {
        if (len == cap) {                /* one more than max shows EFBIG */
            cap = cap ? cap * 2 : 4096;
            if (cap > max)
                cap = max + 1;
            data = mem_grow(data, cap + 1, 1);
        }
        n = read(fd, data + len, cap - len);
        if (n < 0 && errno != EINTR)
            return failed(err, "read", path);
        len += n > 0 ? (size_t) n : 0;
        if (len > max)
            return err_set(err, EFBIG, "'%s' is larger than %zu bytes", path,
                           max);
    } while (n != 0);
    data[len] = '\0';
    *ret = take(data);
    if (ret_len)
        *ret_len = len;
    return 0;
}

int fs_write_all(int fd, const void *p, size_t n, struct err *err)
{
    const char *at = p;

    while (n > 0) {
        ssize_t done = write(fd, at, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return err_set(err, errno, "write: %s", strerror(errno));
        at += done;
        n -= (size_t) done;
    }
    return 0;
}

static int sync_folder_of(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    autofree char *dir = slash == path ? mem_str("/")
                       : slash ? mem_strn(path, (size_t) (slash - path))
                       : mem_str(".");
    autoclose int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return failed(err, "open folder", dir);
    if (fsync(fd) < 0)
        return failed(err, "sync folder", dir);
    return 0;
}

/* Fill the new file; *fd is closed and -1 on success. */
static int fill(int *fd, const char *tmp, const void *data, size_t len,
                mode_t mode, bool sync, struct err *err)
{
    int rc = fs_write_all(*fd, data, len, err);

    if (rc < 0)
        return err_prefix(err, rc, "'%s'", tmp);
    if (fchmod(*fd, mode) < 0)
        return failed(err, "set the mode of", tmp);
    if (sync && fsync(*fd) < 0)
        return failed(err, "sync", tmp);
    if (close(take_fd(*fd)) < 0)
        return failed(err, "close", tmp);
    return 0;
}

int fs_write(const char *path, const void *data, size_t len, mode_t mode,
             bool sync, struct err *err)
{
    autofree char *tmp = mem_printf("%s.tmp.XXXXXX", path);
    autoclose int fd = mkostemp(tmp, O_CLOEXEC);
    int rc;

    if (fd < 0)
        return failed(err, "make", tmp);
    rc = fill(&fd, tmp, data, len, mode, sync, err);
    if (rc == 0 && rename(tmp, path) < 0)
        rc = failed(err, "put in place", path);
    if (rc < 0) {
        (void) unlink(tmp);
        return rc;
    }
    return sync ? sync_folder_of(path, err) : 0;
}

static int remove_entry(int at, const char *name, int depth, struct err *err);

static int remove_entries(int fd, const char *name, int depth, struct err *err)
{
    DIR *dir = fdopendir(fd);
    struct dirent *e;
    int rc = 0;

    if (!dir) {
        rc = failed(err, "read folder", name);
        (void) close(fd);
        return rc;
    }
    while (rc == 0) {
        errno = 0;
        e = readdir(dir);
        if (!e) {
            if (errno)
                rc = failed(err, "read folder", name);
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            rc = remove_entry(dirfd(dir), e->d_name, depth + 1, err);
    }
    (void) closedir(dir);
    return rc;
}

/* What is gone meanwhile is as good as removed. */
static int remove_entry(int at, const char *name, int depth, struct err *err)
{
    int fd, rc;

    if (unlinkat(at, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return failed(err, "remove", name);
    if (depth > TREE_DEPTH_MAX)
        return err_set(err, ELOOP, "folders are nested more than %d deep",
                       TREE_DEPTH_MAX);
    fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return failed(err, "remove", name);
    rc = remove_entries(fd, name, depth, err);
    if (rc < 0)
        return rc;
    if (unlinkat(at, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return failed(err, "remove folder", name);
    return 0;
}

int fs_remove_tree(const char *path, struct err *err)
{
    int rc = remove_entry(AT_FDCWD, path, 0, err);

    return rc < 0 ? err_prefix(err, rc, "remove all of '%s'", path) : 0;
}

int fs_lock(const char *path, int *ret_fd, struct err *err)
{
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                            0600);
    char pid[32];
    ssize_t n;
    int rc;

    if (fd < 0)
        return failed(err, "open", path);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK)
            return failed(err, "lock", path);
        n = pread(fd, pid, sizeof pid - 1, 0);
        pid[n > 0 ? n : 0] = '\0';
        pid[strspn(pid, "0123456789")] = '\0';
        return err_set(err, EWOULDBLOCK, "'%s' is held by process %s", path,
                       pid[0] ? pid : "?");
    }
    n = snprintf(pid, sizeof pid, "%ld\n", (long) getpid());
    if (ftruncate(fd, 0) < 0)
        return failed(err, "truncate", path);
    rc = fs_write_all(fd, pid, (size_t) n, err);
    if (rc < 0)
        return err_prefix(err, rc, "'%s'", path);
    *ret_fd = take_fd(fd);
    return 0;
}

int fs_set_nonblock(int fd, struct err *err)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
        return err_set(err, errno, "descriptor %d: %s", fd, strerror(errno));
    return 0;
}

/* The kernel has random numbers from early boot on; a process that gets none
 * must not go on with something else.
 */
static void random_bytes(void *p, size_t n)
{
    char *at = p;

    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            perror("weir: getrandom");
            abort();
        }
        at += got;
        n -= (size_t) got;
    }
}

uint64_t fs_random(void)
{
    uint64_t n;

    random_bytes(&n, sizeof n);
    return n;
}

void fs_random_hex(char *out, size_t bytes)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char *raw = (unsigned char *) out + bytes;

    /* The bytes lie in the upper half; each is read before it is covered. */
    random_bytes(raw, bytes);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = raw[i];

        out[2 * i] = digits[c >> 4];
        out[2 * i + 1] = digits[c & 15];
    }
    out[2 * bytes] = '\0';
}

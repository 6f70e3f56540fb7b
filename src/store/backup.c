#include "store/store_int.h"

#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "store/backup.h"
#include "store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* A backup is copied page by page in a thread of its own, on a connection of
 * its own whose read transaction holds one view of the store from the first
 * page to the last; the writer goes on meanwhile, and its log grows.  The copy
 * has a temporary name until it is whole and on disk.
 */
enum { STEP_PAGES = 256 };

struct backup {
    char *from, *vfs, *file, *part;
    pthread_t thread;
    int done_fd;
    struct watch *watch;
    atomic_bool stop;
    store_done_f done;
    void *arg;
    int rc;                            /* the thread's; read after it ended */
    struct err err;
};

static int copy_pages(struct sql *from, struct sql *to,
                      const atomic_bool *stop, struct err *err)
{
    sqlite3_backup *copy =
        sqlite3_backup_init(to->db, "main", from->db, "main");
    int code = SQLITE_OK, end;

    if (!copy)
        return sql_fail(to, sqlite3_errcode(to->db), "begin a copy", err);
    while (code == SQLITE_OK && !(stop && atomic_load(stop)))
        code = sqlite3_backup_step(copy, STEP_PAGES);
    end = sqlite3_backup_finish(copy);
    if (code == SQLITE_OK)
        return err_set(err, ECANCELED, "the copy of '%s' was stopped",
                       from->path);
    return end == SQLITE_OK ? 0 : sql_fail(to, end, "copy", err);
}

int backup_copy(struct sql *from, const char *to, const atomic_bool *stop,
                struct err *err)
{
    struct sql *target = NULL;
    autoclose int fd = open(to, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc;

    if (fd < 0)
        return err_set(err, errno, "make '%s': %s", to, strerror(errno));
    rc = sql_exec(from, "BEGIN; SELECT count(*) FROM sqlite_schema", err);
    if (rc == 0)
        rc = sql_open(to, NULL, SQL_COPY, &target, err);
    if (rc == 0)
        rc = copy_pages(from, target, stop, err);
    if (rc == 0)                       /* needs no log beside it */
        rc = sql_exec(target, "PRAGMA journal_mode = DELETE", err);
    sql_close(target);
    if (!sqlite3_get_autocommit(from->db))
        (void) sql_exec(from, "ROLLBACK", NULL);   /* it only read */
    if (rc < 0)
        (void) unlink(to);
    return rc;
}

int backup_sync(const char *path, struct err *err)
{
    autofree char *folder = mem_str(path);
    char *slash = strrchr(folder, '/');
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    autoclose int dir = -1;

    if (slash)
        slash[slash == folder ? 1 : 0] = '\0';
    dir = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || dir < 0 || fsync(fd) < 0 || fsync(dir) < 0)
        return err_set(err, errno, "sync '%s': %s", path, strerror(errno));
    return 0;
}

static int copy_store(const struct backup *b, struct err *err)
{
    struct sql *from = NULL;
    int rc = sql_open(b->from, b->vfs, SQL_READ, &from, err);

    if (rc == 0)
        rc = backup_copy(from, b->part, &b->stop, err);
    sql_close(from);
    return rc;
}

/* Into place, unless something stands there by now. */
static int settle(const struct backup *b, struct err *err)
{
    int rc = backup_sync(b->part, err);

    if (rc == 0 && renameat2(AT_FDCWD, b->part, AT_FDCWD, b->file,
                             RENAME_NOREPLACE) < 0)
        rc = err_set(err, errno, "rename '%s' to '%s': %s", b->part, b->file,
                     strerror(errno));
    if (rc < 0) {
        (void) unlink(b->part);
        return rc;
    }
    return backup_sync(b->file, err);
}

static void *backup_main(void *arg)
{
    struct backup *b = arg;
    uint64_t one = 1;

    b->rc = copy_store(b, &b->err);
    if (b->rc == 0)
        b->rc = settle(b, &b->err);
    (void) !write(b->done_fd, &one, sizeof one);
    return NULL;
}

static void backup_free(struct backup *b)
{
    watch_remove(b->watch);
    if (b->done_fd >= 0)
        (void) close(b->done_fd);
    free(b->from);
    free(b->vfs);
    free(b->file);
    free(b->part);
    free(b);
}

static void on_done(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct store *s = arg;
    struct backup *b = take(s->backup);

    (void) w;
    (void) fd;
    (void) ready;
    (void) pthread_join(b->thread, NULL);
    b->done(b->rc, b->rc < 0 ? &b->err : NULL, b->arg);
    backup_free(b);
}

void backup_end(struct store *s)
{
    struct backup *b = take(s->backup);

    if (!b)
        return;
    atomic_store(&b->stop, true);
    (void) pthread_join(b->thread, NULL);
    backup_free(b);
}

int store_backup(struct store *s, const char *file, store_done_f done,
                 void *arg, struct err *err)
{
    struct backup *b;
    char suffix[17];
    int rc;

    if (s->backup)
        return err_set(err, EBUSY, "a backup is being made already, to '%s'",
                       s->backup->file);
    if (access(file, F_OK) == 0)
        return err_set(err, EEXIST, "'%s' is there already", file);
    fs_random_hex(suffix, 8);
    b = mem_new(sizeof *b);
    b->from = mem_str(s->path);
    b->vfs = mem_str(s->vfs);
    b->file = mem_str(file);
    b->part = mem_printf("%s.part-%s", file, suffix);
    b->done = done;
    b->arg = arg;
    b->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (b->done_fd < 0)
        rc = err_set(err, errno, "eventfd: %s", strerror(errno));
    else
        rc = loop_fd(s->loop, b->done_fd, LOOP_READ, on_done, s, &b->watch,
                     err);
    if (rc == 0)
        rc = thread_new(&b->thread, "backup", backup_main, b, err);
    if (rc < 0) {
        backup_free(b);
        return rc;
    }
    s->backup = b;
    return 0;
}

#include "store/fault_vfs.h"

#include "base/mem.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SECTOR = 512 };

/* One write or truncation that no sync has covered yet. */
struct change {
    struct change *older, *newer;
    int64_t at, size;                  /* where; the file's size before */
    char *old, *new;                   /* NULL new: a truncation to `at` */
    int64_t nold, nnew;
};

/* What is known of a file beyond its being open. */
struct disk {
    struct disk *next;
    char *path;
    struct change *oldest, *newest;
};

struct fault_file {
    sqlite3_file base;
    struct disk *disk;
    /* the default VFS' own file follows */
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    sqlite3_vfs vfs, *real;
    struct disk *disks;
    uint64_t count, syncs;
    uint64_t fail_at, fail_until;      /* counts; 0: never */
    int fail_code, last_code;
    uint64_t cut_at;
    bool cut, hold;
    unsigned held;
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER,
            .cond = PTHREAD_COND_INITIALIZER };

static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *) (void *)
        ((char *) f + sizeof(struct fault_file));
}

static struct disk *disk_of(sqlite3_file *f)
{
    return ((struct fault_file *) (void *) f)->disk;
}

static struct disk *disk_find(const char *path)
{
    struct disk *d = fault.disks;

    while (d && strcmp(d->path, path) != 0)
        d = d->next;
    if (!d) {
        d = mem_new(sizeof *d);
        d->path = mem_str(path);
        d->next = fault.disks;
        fault.disks = d;
    }
    return d;
}

static void disk_synced(struct disk *d)
{
    while (d->oldest) {
        struct change *c = d->oldest;

        d->oldest = c->newer;
        free(c->old);
        free(c->new);
        free(c);
    }
    d->newest = NULL;
}

static void change_add(struct disk *d, struct change *c)
{
    c->older = d->newest;
    if (d->newest)
        d->newest->newer = c;
    else
        d->oldest = c;
    d->newest = c;
}

/* Remember what [at, end) holds before it is changed. */
static struct change *change_make(sqlite3_file *f, int64_t at, int64_t end)
{
    struct change *c = mem_new(sizeof *c);
    sqlite3_int64 size = 0;

    (void) real_of(f)->pMethods->xFileSize(real_of(f), &size);
    c->at = at;
    c->size = size;
    if (end > size)
        end = size;
    if (end > at) {
        c->nold = end - at;
        c->old = mem_array((size_t) c->nold, 1);
        (void) real_of(f)->pMethods->xRead(real_of(f), c->old, (int) c->nold,
                                           at);
    }
    return c;
}

enum verdict { GO, FAIL, CUT, DEAD };

/* Count an operation and say what becomes of it.  With the lock held. */
static enum verdict judge(void)
{
    fault.count++;
    if (fault.cut) {
        fault.last_code = EIO;
        return DEAD;
    }
    if (fault.cut_at && fault.count >= fault.cut_at) {
        fault.cut = true;
        fault.last_code = EIO;
        (void) pthread_cond_broadcast(&fault.cond);
        return CUT;
    }
    if (fault.fail_at && fault.count >= fault.fail_at &&
        fault.count < fault.fail_until) {
        fault.last_code = fault.fail_code;
        return FAIL;
    }
    return GO;
}

static int failed(int code)
{
    return fault.last_code == ENOSPC ? SQLITE_FULL : code;
}

static int do_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    struct change *c = change_make(f, at, at + n);

    c->new = mem_dup(p, (size_t) n);
    c->nnew = n;
    change_add(disk_of(f), c);
    return real_of(f)->pMethods->xWrite(real_of(f), p, n, at);
}

static int fault_write(sqlite3_file *f, const void *p, int n, sqlite3_int64 at)
{
    int rc = SQLITE_OK;

    (void) pthread_mutex_lock(&fault.lock);
    switch (judge()) {
    case GO:
        rc = do_write(f, p, n, at);
        break;
    case CUT:                          /* some of it may reach the disk */
        (void) do_write(f, p, n, at);
        rc = SQLITE_IOERR_WRITE;
        break;
    case FAIL:
        (void) do_write(f, p, n / 2, at);
        rc = failed(SQLITE_IOERR_WRITE);
        break;
    case DEAD:
        rc = SQLITE_IOERR_WRITE;
        break;
    }
    (void) pthread_mutex_unlock(&fault.lock);
    return rc;
}

static int fault_truncate(sqlite3_file *f, sqlite3_int64 size)
{
    int rc = SQLITE_IOERR_TRUNCATE;

    (void) pthread_mutex_lock(&fault.lock);
    if (judge() == GO) {
        change_add(disk_of(f), change_make(f, size, INT32_MAX));
        rc = real_of(f)->pMethods->xTruncate(real_of(f), size);
    }
    (void) pthread_mutex_unlock(&fault.lock);
    return rc;
}

static int fault_sync(sqlite3_file *f, int flags)
{
    int rc = SQLITE_OK;

    (void) flags;
    (void) pthread_mutex_lock(&fault.lock);
    fault.held++;
    while (fault.hold && !fault.cut)
        (void) pthread_cond_wait(&fault.cond, &fault.lock);
    fault.held--;
    if (judge() == GO) {
        disk_synced(disk_of(f));
        fault.syncs++;
    } else {
        rc = SQLITE_IOERR_FSYNC;
    }
    (void) pthread_mutex_unlock(&fault.lock);
    return rc;
}

static int fault_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int fault_read(sqlite3_file *f, void *p, int n, sqlite3_int64 at)
{
    return real_of(f)->pMethods->xRead(real_of(f), p, n, at);
}

static int fault_size(sqlite3_file *f, sqlite3_int64 *size)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), size);
}

static int fault_lock_file(sqlite3_file *f, int how)
{
    return real_of(f)->pMethods->xLock(real_of(f), how);
}

static int fault_unlock_file(sqlite3_file *f, int how)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), how);
}

static int fault_check_lock(sqlite3_file *f, int *ret)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int fault_control(sqlite3_file *f, int op, void *arg)
{
    /* Hints that change the file behind our back. */
    if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE)
        return SQLITE_NOTFOUND;
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int fault_sector(sqlite3_file *f)
{
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int fault_device(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static int fault_shm_map(sqlite3_file *f, int page, int size, int extend,
                         void volatile **ret)
{
    return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, ret);
}

static int fault_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real_of(f)->pMethods->xShmLock(real_of(f), at, n, flags);
}

static void fault_shm_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int fault_shm_unmap(sqlite3_file *f, int drop)
{
    return real_of(f)->pMethods->xShmUnmap(real_of(f), drop);
}

static const sqlite3_io_methods methods = {
    .iVersion = 2,                     /* no memory-mapped reads */
    .xClose = fault_close,
    .xRead = fault_read,
    .xWrite = fault_write,
    .xTruncate = fault_truncate,
    .xSync = fault_sync,
    .xFileSize = fault_size,
    .xLock = fault_lock_file,
    .xUnlock = fault_unlock_file,
    .xCheckReservedLock = fault_check_lock,
    .xFileControl = fault_control,
    .xSectorSize = fault_sector,
    .xDeviceCharacteristics = fault_device,
    .xShmMap = fault_shm_map,
    .xShmLock = fault_shm_lock,
    .xShmBarrier = fault_shm_barrier,
    .xShmUnmap = fault_shm_unmap,
};

static int fault_open(sqlite3_vfs *v, const char *name, sqlite3_file *f,
                      int flags, int *ret_flags)
{
    struct fault_file *file = (struct fault_file *) (void *) f;
    int rc;

    (void) v;
    memset(file, 0, sizeof *file);
    rc = fault.real->xOpen(fault.real, name, real_of(f), flags, ret_flags);
    if (!real_of(f)->pMethods)
        return rc;
    (void) pthread_mutex_lock(&fault.lock);
    file->disk = disk_find(name ? name : "");
    (void) pthread_mutex_unlock(&fault.lock);
    f->pMethods = &methods;
    return rc;
}

static int fault_delete(sqlite3_vfs *v, const char *name, int sync)
{
    int rc = SQLITE_IOERR_DELETE;

    (void) v;
    (void) pthread_mutex_lock(&fault.lock);
    if (judge() == GO) {
        disk_synced(disk_find(name));
        rc = fault.real->xDelete(fault.real, name, sync);
    }
    (void) pthread_mutex_unlock(&fault.lock);
    return rc;
}

static int fault_last_error(sqlite3_vfs *v, int n, char *text)
{
    int code;

    (void) v;
    (void) n;
    (void) text;
    (void) pthread_mutex_lock(&fault.lock);
    code = fault.last_code;
    (void) pthread_mutex_unlock(&fault.lock);
    return code ? code : fault.real->xGetLastError(fault.real, 0, NULL);
}

void fault_register(void)
{
    if (fault.real)
        return;
    fault.real = sqlite3_vfs_find(NULL);
    fault.vfs = *fault.real;
    fault.vfs.zName = FAULT_VFS;
    fault.vfs.pNext = NULL;
    fault.vfs.szOsFile =
        (int) sizeof(struct fault_file) + fault.real->szOsFile;
    fault.vfs.xOpen = fault_open;
    fault.vfs.xDelete = fault_delete;
    fault.vfs.xGetLastError = fault_last_error;
    (void) sqlite3_vfs_register(&fault.vfs, 0);
}

void fault_reset(void)
{
    (void) pthread_mutex_lock(&fault.lock);
    while (fault.disks) {
        struct disk *d = fault.disks;

        fault.disks = d->next;
        disk_synced(d);
        free(d->path);
        free(d);
    }
    fault.count = fault.syncs = fault.fail_at = fault.cut_at = 0;
    fault.cut = fault.hold = false;
    fault.last_code = 0;
    (void) pthread_mutex_unlock(&fault.lock);
}

uint64_t fault_count(void)
{
    uint64_t n;

    (void) pthread_mutex_lock(&fault.lock);
    n = fault.count;
    (void) pthread_mutex_unlock(&fault.lock);
    return n;
}

uint64_t fault_syncs(void)
{
    uint64_t n;

    (void) pthread_mutex_lock(&fault.lock);
    n = fault.syncs;
    (void) pthread_mutex_unlock(&fault.lock);
    return n;
}

void fault_fail(uint64_t nth, unsigned times, int code)
{
    (void) pthread_mutex_lock(&fault.lock);
    fault.fail_at = nth ? fault.count + nth : 0;
    fault.fail_until = fault.fail_at + times;
    fault.fail_code = code;
    (void) pthread_mutex_unlock(&fault.lock);
}

void fault_cut(uint64_t nth)
{
    (void) pthread_mutex_lock(&fault.lock);
    fault.cut_at = nth ? fault.count + nth : 0;
    (void) pthread_mutex_unlock(&fault.lock);
}

bool fault_is_cut(void)
{
    bool cut;

    (void) pthread_mutex_lock(&fault.lock);
    cut = fault.cut;
    (void) pthread_mutex_unlock(&fault.lock);
    return cut;
}

static void undo(int fd, const struct disk *d)
{
    for (const struct change *c = d->newest; c; c = c->older) {
        if (c->nold)
            (void) !pwrite(fd, c->old, (size_t) c->nold, c->at);
        (void) !ftruncate(fd, c->size);
    }
}

/* Let some sectors of what was lost have reached the disk after all. */
static void redo_some(int fd, const struct disk *d, uint64_t *seed)
{
    for (const struct change *c = d->oldest; c; c = c->newer) {
        int64_t n;

        if (!c->new) {
            if (random_next(seed) % 2)
                (void) !ftruncate(fd, c->at);
            continue;
        }
        for (int64_t i = 0; i < c->nnew; i += n) {
            n = SECTOR - (c->at + i) % SECTOR;
            if (n > c->nnew - i)
                n = c->nnew - i;
            if (random_next(seed) % 4)
                (void) !pwrite(fd, c->new + i, (size_t) n, c->at + i);
        }
    }
}

void fault_reboot(uint64_t seed)
{
    uint64_t state = seed;

    (void) pthread_mutex_lock(&fault.lock);
    for (struct disk *d = fault.disks; d; d = d->next) {
        autofree char *shm = mem_printf("%s-shm", d->path);
        autoclose int fd = open(d->path, O_RDWR | O_CLOEXEC);

        (void) unlink(shm);            /* shared memory is gone */
        if (fd >= 0) {
            undo(fd, d);
            if (seed)
                redo_some(fd, d, &state);
        }
        disk_synced(d);
    }
    fault.cut = false;
    fault.cut_at = fault.fail_at = 0;
    fault.last_code = 0;
    (void) pthread_mutex_unlock(&fault.lock);
}

void fault_hold(bool hold)
{
    (void) pthread_mutex_lock(&fault.lock);
    fault.hold = hold;
    (void) pthread_cond_broadcast(&fault.cond);
    (void) pthread_mutex_unlock(&fault.lock);
}

unsigned fault_held(void)
{
    unsigned n;

    (void) pthread_mutex_lock(&fault.lock);
    n = fault.held;
    (void) pthread_mutex_unlock(&fault.lock);
    return n;
}

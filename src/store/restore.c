#include "store/store_int.h"

#include "base/mem.h"
#include "core/event.h"
#include "core/world.h"
#include "store/backup.h"
#include "store/schema.h"
#include "store/sql.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A restore makes the new store whole under a temporary name first: copied,
 * checked, migrated, with its new epoch.  Only then the old one is moved
 * aside, its log with it, and the new one takes its name.  A restore that is
 * cut off leaves either the old store in place, or none, and then running it
 * again completes it; store_open refuses what lies between.
 */
enum { ASIDE_MAX = 10000 };

/* The files of a store, in the order in which they are moved: a log without
 * its database is refused, a database without its log would not be.
 */
static const char *const parts[] = { "", "-wal", "-shm", "-journal" };

static bool exists(const char *path, const char *suffix)
{
    autofree char *name = mem_printf("%s%s", path, suffix);

    return access(name, F_OK) == 0;
}

static void forget(const char *path)
{
    for (size_t i = 0; i < array_size(parts); i++) {
        autofree char *name = mem_printf("%s%s", path, parts[i]);

        (void) unlink(name);           /* most of them are not there */
    }
}

static int copy_checked(const char *backup, const char *part, struct err *err)
{
    struct sql *from = NULL;
    bool alone = !exists(backup, "-wal");
    int rc;

    if (access(backup, R_OK) != 0)
        return err_set(err, errno, "the backup '%s': %s", backup,
                       strerror(errno));
    rc = sql_open(backup, NULL, alone ? SQL_FROZEN : SQL_READ_ONLY, &from,
                  err);
    if (rc == 0)
        rc = schema_sound(from, err);
    if (rc == 0)
        rc = backup_copy(from, part, NULL, err);
    sql_close(from);
    if (rc == -EBADMSG)                /* it is no place for another backup */
        return err_set(err, EBADMSG, "'%s' is no backup of a store, or is "
                       "damaged; nothing was changed", backup);
    return rc;
}

/* The epoch must be newer than any that was in use here.  Where the store that
 * is being replaced cannot say, or is not there any more, the time does:
 * milliseconds since 1970 are beyond every epoch that was counted up.
 */
static uint64_t epoch_floor(const char *path, uint64_t now_ms)
{
    struct store_conf conf = { .path = path, .read_only = true };
    struct store *old = NULL;
    struct world *w;
    uint64_t epoch;

    if (!exists(path, "") && !exists(path, "-wal"))
        return now_ms;
    w = world_new();
    if (store_open(&conf, &old, NULL) == 0 && store_load(old, w, NULL) == 0)
        epoch = world_epoch(w);
    else
        epoch = now_ms;
    store_close(old);
    world_free(w);
    return epoch;
}

static int add_restored(struct store *s, struct world *w, uint64_t floor,
                        uint64_t now_ms, struct err *err)
{
    struct event e;
    int rc;

    event_init(&e, EVENT_RESTORED);
    e.seq = world_seq(w) + 1;
    e.time_ms = now_ms > world_time_ms(w) ? now_ms : world_time_ms(w);
    e.epoch = (floor > world_epoch(w) ? floor : world_epoch(w)) + 1;
    (void) snprintf(e.who, sizeof e.who, "weir");
    rc = world_check(w, &e, err);
    if (rc == 0) {
        store_event(s, &e, NULL);
        rc = world_apply(w, &e, err);
    }
    if (rc == 0)
        rc = store_commit(s, w, err);
    if (rc == 0)
        rc = store_flush(s, err);
    event_clear(&e);
    return rc;
}

static int begin_epoch(const char *part, uint64_t floor, uint64_t now_ms,
                       struct err *err)
{
    struct store_conf conf = { .path = part, .check_full = true };
    struct store *s = NULL;
    struct world *w;
    int rc = store_open(&conf, &s, err);

    if (rc < 0)
        return rc;
    w = world_new();
    rc = store_load(s, w, err);
    if (rc == 0)
        rc = add_restored(s, w, floor, now_ms, err);
    world_free(w);
    store_close(s);
    if (rc == 0 && exists(part, "-wal"))
        rc = err_set(err, EIO, "the store '%s' could not be closed: is the "
                     "disk full?", part);
    return rc < 0 ? rc : backup_sync(part, err);
}

static int move(const char *from, const char *to, const char *suffix,
                struct err *err)
{
    autofree char *a = mem_printf("%s%s", from, suffix);
    autofree char *b = mem_printf("%s%s", to, suffix);

    if (rename(a, b) < 0 && errno != ENOENT)
        return err_set(err, errno, "rename '%s' to '%s': %s", a, b,
                       strerror(errno));
    return 0;
}

/* The name under which the old store is kept: the first that is free.  A
 * restore that was cut off has moved the database and left its log: the log
 * follows it.
 */
static int aside_name(const char *path, char **ret, struct err *err)
{
    for (unsigned n = 1; n < ASIDE_MAX; n++) {
        autofree char *name = mem_printf("%s.before-restore-%u", path, n);
        bool taken = exists(name, "");
        autofree char *next = mem_printf("%s.before-restore-%u", path, n + 1);
        bool newest = taken && !exists(next, "");

        if (!taken || (newest && !exists(path, "") && !exists(name, "-wal"))) {
            *ret = take(name);
            return 0;
        }
    }
    return err_set(err, EEXIST, "there are %d old stores beside '%s': remove "
                   "some", ASIDE_MAX - 1, path);
}

static int move_all(const char *from, const char *to, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < array_size(parts) && rc == 0; i++)
        rc = move(from, to, parts[i], err);
    return rc;
}

static int put_in_place(const char *part, const char *path, struct err *err)
{
    autofree char *aside = NULL;
    int rc = aside_name(path, &aside, err);

    if (rc < 0)
        return rc;
    rc = move_all(path, aside, err);
    if (rc == 0)
        rc = move(part, path, "", err);
    if (rc < 0) {
        (void) move_all(aside, path, NULL);        /* the first error counts */
        return rc;
    }
    return backup_sync(path, err);
}

int store_restore(const char *backup, const char *path, uint64_t now_ms,
                  struct err *err)
{
    autofree char *part = mem_printf("%s.restore-part", path);
    int rc;

    forget(part);
    rc = copy_checked(backup, part, err);
    if (rc == 0)
        rc = begin_epoch(part, epoch_floor(path, now_ms), now_ms, err);
    if (rc == 0)
        rc = put_in_place(part, path, err);
    if (rc < 0)
        forget(part);
    return rc;
}

#include "runner/folder.h"

#include "base/err.h"
#include "base/frame.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum { SMALL_MAX = 4096 };             /* of started and exit */

static char *path_in(const char *dir, const char *part,
                     const struct lease_id *id)
{
    return mem_printf("%s/%s/w%" PRIu64 "/%" PRIu32 ".%" PRIu32 ".%" PRIu32
                      ".%" PRIu64, dir, part, id->key.workload, id->key.task,
                      id->key.rank, id->gen, id->epoch);
}

char *folder_path(const char *dir, const struct lease_id *id)
{
    return path_in(dir, "leases", id);
}

static int failed(struct err *err, const char *what, const char *path)
{
    int code = errno;

    return err_set(err, code, "%s '%s': %s", what, path, strerror(code));
}

/* The folder and, where it is missing, the workload's around it. */
static int make(const char *path, struct err *err)
{
    autofree char *outer = NULL;

    if (mkdir(path, 0700) == 0 || errno == EEXIST)
        return 0;
    if (errno != ENOENT)
        return failed(err, "make folder", path);
    outer = mem_strn(path, (size_t) (strrchr(path, '/') - path));
    if (mkdir(outer, 0700) < 0 && errno != EEXIST)
        return failed(err, "make folder", outer);
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return failed(err, "make folder", path);
    return 0;
}

/* The workload's folder goes with the last lease in it. */
static void remove_outer(const char *path)
{
    autofree char *outer = mem_strn(path,
                                    (size_t) (strrchr(path, '/') - path));

    (void) rmdir(outer);
}

static int write_json(const char *path, const char *name, const json_t *j,
                      struct err *err)
{
    autofree char *file = mem_printf("%s/%s", path, name);
    autofree char *text = json_text(j);

    return fs_write(file, text, strlen(text), 0600, false, err);
}

static int read_json(const char *path, const char *name, size_t max,
                     json_t **ret, struct err *err)
{
    autofree char *file = mem_printf("%s/%s", path, name);
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(file, max, &text, &len, err);

    if (rc < 0)
        return rc;
    rc = json_read(text, len, max, ret, err);
    return rc < 0 ? err_prefix(err, rc, "'%s'", file) : 0;
}

int folder_order(const char *path, const json_t *task, struct err *err)
{
    int rc = make(path, err);

    if (rc < 0)
        return rc;
    rc = write_json(path, "order", task, err);
    if (rc < 0) {
        (void) rmdir(path);
        remove_outer(path);
    }
    return rc;
}

int folder_read_order(const char *path, struct order *ret, struct err *err)
{
    autojson json_t *j = NULL;
    int rc = read_json(path, "claimed", FRAME_MAX, &j, err);

    if (rc == -ENOENT)
        rc = read_json(path, "order", FRAME_MAX, &j, err);
    return rc < 0 ? rc : order_read(j, ret, err);
}

int folder_claim(const char *path, int *ret_lock, struct err *err)
{
    autofree char *from = mem_printf("%s/order", path);
    autofree char *to = mem_printf("%s/claimed", path);
    autoclose int fd = open(from, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOENT && access(to, F_OK) == 0)
        return err_set(err, EEXIST, "'%s' was claimed before", path);
    if (fd < 0)
        return failed(err, "open", from);
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return failed(err, "lock", from);
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) < 0)
        return failed(err, "claim", from);
    *ret_lock = take_fd(fd);
    return 0;
}

int folder_write_started(const char *path, const struct started *s,
                         struct err *err)
{
    autojson json_t *j = json_object();

    json_put_u64(j, "keeper", (uint64_t) s->keeper);
    json_put_u64(j, "task", (uint64_t) s->task);
    json_put_u64(j, "at", s->at_ms);
    return write_json(path, "started", j, err);
}

int folder_read_started(const char *path, struct started *ret,
                        struct err *err)
{
    autojson json_t *j = NULL;
    int rc = read_json(path, "started", SMALL_MAX, &j, err);

    if (rc < 0)
        return rc;
    *ret = (struct started) {
        .keeper = (pid_t) json_get_u64(j, "keeper", 0),
        .task = (pid_t) json_get_u64(j, "task", 0),
        .at_ms = json_get_u64(j, "at", 0),
    };
    return 0;
}

int folder_write_report(const char *path, const struct report *r,
                        struct err *err)
{
    autojson json_t *j = json_object();

    json_put_str(j, "cause", r->cause);
    json_put(j, "status", json_integer(r->status));
    json_put_u64(j, "started", r->started_ms);
    json_put_u64(j, "ended", r->ended_ms);
    json_put_u64(j, "cpu_ms", r->cpu_ms);
    json_put_u64(j, "rss", r->rss_bytes);
    json_put_u64(j, "log", r->log_bytes);
    return write_json(path, "exit", j, err);
}

int folder_read_report(const char *path, struct report *ret,
                       struct err *err)
{
    autojson json_t *j = NULL;
    int rc = read_json(path, "exit", SMALL_MAX, &j, err);

    if (rc < 0)
        return rc;
    *ret = (struct report) {
        .status = (int) json_integer_value(json_object_get(j, "status")),
        .started_ms = json_get_u64(j, "started", 0),
        .ended_ms = json_get_u64(j, "ended", 0),
        .cpu_ms = json_get_u64(j, "cpu_ms", 0),
        .rss_bytes = json_get_u64(j, "rss", 0),
        .log_bytes = json_get_u64(j, "log", 0),
    };
    (void) snprintf(ret->cause, sizeof ret->cause, "%.15s",
                    json_get_str(j, "cause", "lost"));
    return 0;
}

static bool has(const char *path, const char *name)
{
    autofree char *file = mem_printf("%s/%s", path, name);

    return access(file, F_OK) == 0;
}

/* A keeper lives exactly as long as somebody holds the lock on `claimed`. */
static bool locked(const char *path)
{
    autofree char *file = mem_printf("%s/claimed", path);
    autoclose int fd = open(file, O_RDONLY | O_CLOEXEC);

    return fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0;
}

/* The lock is looked at before the report: a keeper that ends in between has
 * written its report before it let go.
 */
int folder_state(const char *path, enum folder_state *ret, struct err *err)
{
    bool held = locked(path);

    if (has(path, "exit"))
        *ret = FOLDER_ENDED;
    else if (held)
        *ret = FOLDER_RUNNING;
    else if (has(path, "claimed"))
        *ret = FOLDER_LOST;
    else if (has(path, "order"))
        *ret = FOLDER_NEW;
    else
        return err_set(err, ENOENT, "'%s' holds no order", path);
    return 0;
}

/* -ENOENT is what we want. */
static int remove_file(const char *path, const char *name, struct err *err)
{
    autofree char *file = mem_printf("%s/%s", path, name);

    if (unlink(file) < 0 && errno != ENOENT)
        return failed(err, "remove", file);
    return 0;
}

static int keep_log(const char *dir, const struct lease_id *id,
                    const char *path, struct err *err)
{
    autofree char *to = path_in(dir, "logs", id);
    int rc;

    if (rename(path, to) == 0)
        return remove_file(to, "exit", err);
    if (errno != ENOENT)
        return failed(err, "move", path);
    rc = make(to, err);                /* an empty folder may be replaced */
    if (rc == 0 && rename(path, to) < 0)
        rc = failed(err, "move", path);
    return rc < 0 ? rc : remove_file(to, "exit", err);
}

int folder_archive(const char *dir, const struct lease_id *id, bool has_log,
                   struct err *err)
{
    static const char *const names[] = { "claimed", "started", "stop",
                                         "order" };
    autofree char *path = folder_path(dir, id);
    int rc = 0;

    /* The report goes last: until then a restart finds an ended lease. */
    for (size_t i = 0; i < array_size(names) && rc == 0; i++)
        rc = remove_file(path, names[i], err);
    if (rc == 0 && has_log)
        rc = keep_log(dir, id, path, err);
    else if (rc == 0)
        rc = fs_remove_tree(path, err);
    if (rc == 0)
        remove_outer(path);
    return rc;
}

int folder_remove(const char *dir, const struct lease_id *id,
                  struct err *err)
{
    autofree char *path = folder_path(dir, id);
    int rc = fs_remove_tree(path, err);

    if (rc == 0)
        remove_outer(path);
    return rc;
}

/* "3.0.2.1", strictly. */
static bool parse_leaf(const char *s, struct lease_id *id)
{
    char again[80];

    if (sscanf(s, "%" SCNu32 ".%" SCNu32 ".%" SCNu32 ".%" SCNu64,
               &id->key.task, &id->key.rank, &id->gen, &id->epoch) != 4)
        return false;
    (void) snprintf(again, sizeof again,
                    "%" PRIu32 ".%" PRIu32 ".%" PRIu32 ".%" PRIu64,
                    id->key.task, id->key.rank, id->gen, id->epoch);
    return strcmp(again, s) == 0;
}

static bool parse_outer(const char *s, struct lease_id *id)
{
    char again[32];

    if (sscanf(s, "w%" SCNu64, &id->key.workload) != 1)
        return false;
    (void) snprintf(again, sizeof again, "w%" PRIu64, id->key.workload);
    return strcmp(again, s) == 0;
}

static void scan_workload(const char *path, struct lease_id id, folder_f cb,
                          void *arg)
{
    DIR *d = opendir(path);
    struct dirent *e;

    while (d && (e = readdir(d)))
        if (parse_leaf(e->d_name, &id))
            cb(&id, arg);
    if (d)
        (void) closedir(d);
    (void) rmdir(path);                /* only when nothing is in it */
}

int folder_scan(const char *dir, folder_f cb, void *arg, struct err *err)
{
    autofree char *leases = mem_printf("%s/leases", dir);
    DIR *d = opendir(leases);
    struct dirent *e;

    if (!d)
        return failed(err, "read folder", leases);
    while ((e = readdir(d))) {
        autofree char *path = mem_printf("%s/%s", leases, e->d_name);
        struct lease_id id = { 0 };

        if (parse_outer(e->d_name, &id))
            scan_workload(path, id, cb, arg);
    }
    (void) closedir(d);
    return 0;
}

int folder_drop(const char *dir, const struct lease_key *key,
                struct err *err)
{
    autofree char *outer = mem_printf("%s/logs/w%" PRIu64, dir,
                                      key->workload);
    DIR *d = opendir(outer);
    struct dirent *e;
    int rc = 0;

    while (d && rc == 0 && (e = readdir(d))) {
        autofree char *path = mem_printf("%s/%s", outer, e->d_name);
        struct lease_id id = { 0 };

        if (parse_leaf(e->d_name, &id) && id.key.task == key->task &&
            id.key.rank == key->rank)
            rc = fs_remove_tree(path, err);
    }
    if (d)
        (void) closedir(d);
    (void) rmdir(outer);
    return rc;
}

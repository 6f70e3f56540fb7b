#include "runner/record.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

enum {
    SPARES_MAX = 256,
    FACT_MAX = 128 * 1024,             /* a stop command may be long */
    RECORD_MAX = FRAME_MAX + 16 * FACT_MAX,
};

static int failed(struct err *err, const char *what, const char *path)
{
    int code = errno;

    return err_set(err, code, "%s '%s': %s", what, path, strerror(code));
}

static char *path_of(const struct records *r, const struct lease_id *id)
{
    char name[LEASE_NAME_SIZE];

    lease_id_file(id, name, sizeof name);
    return mem_printf("%s/leases/w%" PRIu64 ".%s", r->dir,
                      id->key.workload, name);
}

static char *spare_path(const struct records *r, unsigned n)
{
    return mem_printf("%s/spare/%u", r->dir, n);
}

/* Adding. */

static int add(int fd, const json_t *fact, struct err *err)
{
    autofree char *text = json_text(fact);
    struct buf line = BUF_INIT(FRAME_MAX + 16);
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return err_set(err, errno, "record: %s", strerror(errno));
    (void) buf_str(&line, text);
    (void) buf_char(&line, '\n');
    rc = fs_write_all(fd, line.data, line.len, err);
    buf_free(&line);
    /* Half a line on a full disk: take it back, so that the next one is one.
     * Where that fails too, the reader passes over both.
     */
    if (rc < 0 && ftruncate(fd, st.st_size) < 0)
        return err_prefix(err, rc, "record, not taken back");
    return rc < 0 ? err_prefix(err, rc, "record") : 0;
}

int record_add_claimed(int fd, struct err *err)
{
    autojson json_t *j = json_object();

    json_put_u64(j, "claimed", clock_wall_ms());
    return add(fd, j, err);
}

int record_add_started(int fd, const struct started *s, struct err *err)
{
    autojson json_t *j = json_object();
    json_t *o = json_object();

    json_put_u64(o, "keeper", (uint64_t) s->keeper);
    json_put_u64(o, "task", (uint64_t) s->task);
    json_put_u64(o, "at", s->at_ms);
    json_put(j, "started", o);
    return add(fd, j, err);
}

int record_add_stop(int fd, const char *command, struct err *err)
{
    autojson json_t *j = json_object();

    json_put_str(j, "stop", command);
    return add(fd, j, err);
}

int record_add_moved(int fd, bool off, const char *devices, struct err *err)
{
    autojson json_t *j = json_object();
    json_t *o = json_object();

    json_put_bool(o, "off", off);
    json_put_str(o, "devices", devices);
    json_put(j, "moved", o);
    return add(fd, j, err);
}

int record_add_report(int fd, const struct report *r, struct err *err)
{
    autojson json_t *j = json_object();
    json_t *o = json_object();

    json_put_str(o, "cause", r->cause);
    json_put(o, "status", json_integer(r->status));
    json_put_u64(o, "started", r->started_ms);
    json_put_u64(o, "ended", r->ended_ms);
    json_put_u64(o, "cpu_ms", r->cpu_ms);
    json_put_u64(o, "rss", r->rss_bytes);
    json_put(j, "exit", o);
    return add(fd, j, err);
}

/* Reading. */

static void take_started(const json_t *o, struct record *rec)
{
    rec->has_started = true;
    rec->started = (struct started) {
        .keeper = (pid_t) json_get_u64(o, "keeper", 0),
        .task = (pid_t) json_get_u64(o, "task", 0),
        .at_ms = json_get_u64(o, "at", 0),
    };
}

static void take_moved(const json_t *o, struct record *rec)
{
    const char *devices = json_get_str(o, "devices", NULL);

    rec->off = json_get_bool(o, "off", false);
    free(rec->devices);
    rec->devices = devices ? mem_str(devices) : NULL;
}

static void take_report(const json_t *o, struct record *rec)
{
    rec->has_report = true;
    rec->report = (struct report) {
        .status = (int) json_integer_value(json_object_get(o, "status")),
        .started_ms = json_get_u64(o, "started", 0),
        .ended_ms = json_get_u64(o, "ended", 0),
        .cpu_ms = json_get_u64(o, "cpu_ms", 0),
        .rss_bytes = json_get_u64(o, "rss", 0),
    };
    (void) snprintf(rec->report.cause, sizeof rec->report.cause, "%.15s",
                    json_get_str(o, "cause", "lost"));
}

static void take_fact(const char *line, size_t len, struct record *rec)
{
    autojson json_t *j = NULL;
    const json_t *o;

    if (json_read(line, len, FACT_MAX, &j, NULL) < 0)
        return;
    if (json_object_get(j, "claimed"))
        rec->claimed = true;
    if ((o = json_object_get(j, "started")))
        take_started(o, rec);
    if ((o = json_object_get(j, "moved")))
        take_moved(o, rec);
    if ((o = json_object_get(j, "exit")))
        take_report(o, rec);
    if (json_get_str(j, "stop", NULL)) {
        free(rec->stop);
        rec->stop = mem_str(json_get_str(j, "stop", NULL));
    }
}

/* Every whole line but the first, which is the order. */
static void take_facts(const char *text, size_t len, struct record *rec)
{
    const char *end = text + len;
    const char *line = memchr(text, '\n', len);

    while (line && ++line < end) {
        const char *stop = memchr(line, '\n', (size_t) (end - line));

        if (stop)
            take_fact(line, (size_t) (stop - line), rec);
        line = stop;
    }
}

static int read_all(int fd, char **ret, size_t *ret_len, struct err *err)
{
    autofree char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) < 0)
        return err_set(err, errno, "record: %s", strerror(errno));
    if (st.st_size > RECORD_MAX)
        return err_set(err, EFBIG, "record: too large");
    text = mem_new((size_t) st.st_size + 1);
    n = pread(fd, text, (size_t) st.st_size, 0);
    if (n < 0)
        return err_set(err, errno, "record: %s", strerror(errno));
    *ret = take(text);
    *ret_len = (size_t) n;
    return 0;
}

int record_read_fd(int fd, struct record *ret, struct err *err)
{
    autofree char *text = NULL;
    size_t len = 0;
    int rc = read_all(fd, &text, &len, err);

    if (rc < 0)
        return rc;
    *ret = (struct record) { 0 };
    take_facts(text, len, ret);
    return 0;
}

/* Whether the keeper lives is asked before the facts are read: one that ends
 * in between has written its report before it let go of the lock.
 */
int record_read(const struct records *r, const struct lease_id *id,
                struct record *ret, struct err *err)
{
    autofree char *path = path_of(r, id);
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool alive;
    int rc;

    if (fd < 0)
        return failed(err, "open", path);
    alive = flock(fd, LOCK_SH | LOCK_NB) < 0;
    rc = record_read_fd(fd, ret, err);
    if (rc < 0)
        return err_prefix(err, rc, "'%s'", path);
    ret->alive = alive;
    return 0;
}

int record_read_order(const struct records *r, const struct lease_id *id,
                      json_t **ret, struct err *err)
{
    autofree char *path = path_of(r, id);
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(path, RECORD_MAX, &text, &len, err);
    const char *end = rc < 0 ? NULL : memchr(text, '\n', len);

    if (rc < 0)
        return rc;
    if (!end)
        return err_set(err, EINVAL, "'%s' holds no order", path);
    rc = json_read(text, (size_t) (end - text), FRAME_MAX, ret, err);
    return rc < 0 ? err_prefix(err, rc, "'%s'", path) : 0;
}

void record_clear(struct record *rec)
{
    free(rec->stop);
    free(rec->devices);
    *rec = (struct record) { 0 };
}

/* Making and retiring. */

/* A spare is cut to one byte and not to none, and written over from its
 * start: a file that was empty and then written is sent to the disk at once
 * by some file systems.
 */
enum { SPARE_SIZE = 1 };

static int fill(const char *path, const json_t *task, struct err *err)
{
    autoclose int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    return fd < 0 ? failed(err, "open", path) : add(fd, task, err);
}

int record_make(struct records *r, const struct lease_id *id,
                const json_t *task, struct err *err)
{
    unsigned n = r->spares ? r->spares - 1 : 0;
    autofree char *spare = spare_path(r, n);
    autofree char *path = path_of(r, id);
    int rc = fill(spare, task, err);

    if (rc < 0)
        return rc;
    if (renameat2(AT_FDCWD, spare, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
        return failed(err, "put in place", path);
    r->spares = n;
    return 0;
}

int record_retire(struct records *r, const struct lease_id *id,
                  struct err *err)
{
    autofree char *path = path_of(r, id);
    autofree char *spare = spare_path(r, r->spares);

    /* At once: an order may hold secrets. */
    if (r->spares < SPARES_MAX && truncate(path, SPARE_SIZE) == 0 &&
        rename(path, spare) == 0) {
        r->spares++;
        return 0;
    }
    if (unlink(path) < 0 && errno != ENOENT)
        return failed(err, "remove", path);
    return 0;
}

int record_open(const struct records *r, const struct lease_id *id, bool lock,
                int *ret, struct err *err)
{
    autofree char *path = path_of(r, id);
    autoclose int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC);

    if (fd < 0)
        return failed(err, "open", path);
    if (lock && flock(fd, LOCK_EX | LOCK_NB) < 0)
        return failed(err, "lock", path);
    *ret = take_fd(fd);
    return 0;
}

/* All of them. */

/* Spares are numbered without gaps; what an earlier runner left is not worth
 * sorting out.
 */
static int clear_spares(const struct records *r, struct err *err)
{
    autofree char *path = mem_printf("%s/spare", r->dir);
    int rc = fs_remove_tree(path, err);

    return rc < 0 ? rc : fs_mkdir(path, 0700, err);
}

int records_open(struct records *r, const char *dir, struct err *err)
{
    autofree char *leases = mem_printf("%s/leases", dir);
    autofree char *logs = mem_printf("%s/logs", dir);
    int rc = fs_mkdir(leases, 0700, err);

    *r = (struct records) { .dir = mem_str(dir) };
    if (rc == 0)
        rc = fs_mkdir(logs, 0700, err);
    if (rc == 0)
        rc = clear_spares(r, err);
    return rc;
}

void records_close(struct records *r)
{
    free(r->dir);
    *r = (struct records) { 0 };
}

/* "w12.3.0.2.1", strictly: what it would be written as. */
bool record_name_parse(const char *s, struct lease_id *id)
{
    char file[LEASE_NAME_SIZE], again[LEASE_NAME_SIZE + 32];
    autofree char *copy = mem_str(s);
    char *rest = *copy ? copy + 1 : copy;
    uint64_t n[5];

    for (size_t i = 0; i < array_size(n); i++) {
        const char *part = strsep(&rest, ".");

        if (!part || quantity_count(part, &n[i], NULL) < 0)
            return false;
    }
    *id = (struct lease_id) {
        .key = { n[0], (uint32_t) n[1], (uint32_t) n[2] },
        .gen = (uint32_t) n[3], .epoch = n[4],
    };
    lease_id_file(id, file, sizeof file);
    (void) snprintf(again, sizeof again, "w%" PRIu64 ".%s",
                    id->key.workload, file);
    return strcmp(again, s) == 0;
}

int records_scan(const struct records *r, records_f cb, void *arg,
                 struct err *err)
{
    autofree char *leases = mem_printf("%s/leases", r->dir);
    DIR *d = opendir(leases);
    struct dirent *e;

    if (!d)
        return failed(err, "read folder", leases);
    while ((e = readdir(d))) {
        struct lease_id id = { 0 };

        if (record_name_parse(e->d_name, &id))
            cb(&id, arg);
    }
    (void) closedir(d);
    return 0;
}

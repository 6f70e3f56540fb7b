#include "store/store_int.h"

#include "base/loop.h"
#include "base/mem.h"
#include "core/event.h"
#include "core/world.h"
#include "store/backup.h"
#include "store/batch.h"
#include "store/schema.h"
#include "store/sql.h"
#include "store/writer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>

enum {
    QUICK_CHECK_MAX = 64 * 1024 * 1024,    /* larger files: the bounded check */
};

static uint64_t file_bytes(const char *path, const char *suffix)
{
    autofree char *name = mem_printf("%s%s", path, suffix);
    struct stat st;

    return stat(name, &st) == 0 ? (uint64_t) st.st_size : 0;
}

/* A file of ours alone; what is there already stays as it is.  A restore that
 * was cut off leaves no database but a log or the new store beside it: an
 * empty store in its place would look as if everything had been lost.
 */
static int make_file(const char *path, struct err *err)
{
    autoclose int fd = -1;

    if (access(path, F_OK) != 0 && (file_bytes(path, "-wal") > 0 ||
                                    file_bytes(path, ".restore-part") > 0))
        return err_set(err, EBADMSG, "the store '%s' is not there, but parts "
                       "of it are: a restore was cut off, run it again", path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_set(err, errno, "the store '%s': %s", path,
                       strerror(errno));
    return 0;
}

static int set_wal(struct sql *sql, struct err *err)
{
    autoquery struct query q = { 0 };
    const char *mode;
    int rc = query_begin(&q, sql, "PRAGMA journal_mode = WAL", err);

    if (rc == 0)
        rc = query_step(&q, err);
    if (rc < 0)
        return rc;
    mode = rc > 0 ? query_col(&q, 0, NULL) : NULL;
    if (!mode || strcmp(mode, "wal") != 0)
        return err_set(err, EIO, "the store '%s': the file system cannot hold "
                       "a shared write-ahead log", sql->path);
    return 0;
}

static int open_writer(struct store *s, struct err *err)
{
    struct sql *sql = NULL;
    int rc = make_file(s->path, err);

    if (rc == 0)
        rc = sql_open(s->path, s->vfs, SQL_WRITE, &sql, err);
    if (rc == 0)
        rc = schema_migrate(sql, err);
    if (rc == 0)
        rc = set_wal(sql, err);
    if (rc < 0) {
        sql_close(sql);
        return rc;
    }
    return writer_open(sql, &s->writer, err);
}

static int open_reader(struct store *s, const struct store_conf *conf,
                       struct err *err)
{
    uint64_t bytes = file_bytes(s->path, "") + file_bytes(s->path, "-wal");
    enum schema_depth depth = conf->check_full ? SCHEMA_FULL :
        bytes <= QUICK_CHECK_MAX ? SCHEMA_QUICK : SCHEMA_BOUNDED;
    int rc = sql_open(s->path, s->vfs,
                      conf->read_only ? SQL_READ_ONLY : SQL_READ, &s->reader,
                      err);

    if (rc == 0 && conf->read_only)
        rc = schema_expect(s->reader, err);
    return rc < 0 ? rc : schema_check(s->reader, depth, err);
}

static struct shared *shared_new(void)
{
    struct shared *h = mem_new(sizeof *h);
    pthread_condattr_t attr;

    (void) pthread_mutex_init(&h->lock, NULL);
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&h->cond, &attr);
    (void) pthread_condattr_destroy(&attr);
    h->end = &h->first;
    return h;
}

static void shared_free(struct shared *h)
{
    batch_free_all(h->first);
    batch_free_all(h->spare);
    (void) pthread_cond_destroy(&h->cond);
    (void) pthread_mutex_destroy(&h->lock);
    free(h);
}

int store_open(const struct store_conf *conf, struct store **ret,
               struct err *err)
{
    struct store *s = mem_new(sizeof *s);
    struct schema_head head = { 0 };
    int rc = 0;

    s->path = mem_str(conf->path);
    s->vfs = mem_str(conf->vfs);
    s->shared = shared_new();
    s->open = batch_new();
    s->wake_fd = -1;
    if (!conf->read_only)
        rc = open_writer(s, err);
    if (rc == 0)
        rc = open_reader(s, conf, err);
    if (rc == 0)
        rc = schema_head(s->reader, &head, err);
    if (rc < 0) {
        store_close(s);
        return rc;
    }
    s->last_seq = s->told = s->shared->durable = head.seq;
    s->shared->events = head.events;
    *ret = s;
    return 0;
}

void store_close(struct store *s)
{
    if (!s)
        return;
    backup_end(s);
    if (s->running)
        thread_stop(s);
    else if (s->writer)
        (void) store_flush(s, NULL);
    watch_remove(s->watch);
    if (s->wake_fd >= 0)
        (void) close(s->wake_fd);
    sql_close(s->reader);
    writer_close(s->writer);           /* the last one: moves the log home */
    batch_free(s->open);
    shared_free(s->shared);
    free(s->vfs);
    free(s->path);
    free(s);
}

/* The writer has news: tell them, the good ones first. */
static void on_wake(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct store *s = arg;
    uint64_t count, durable;
    struct err why = { 0 };
    bool failed;

    (void) w;
    (void) ready;
    if (read(fd, &count, sizeof count) < 0)
        return;                        /* nothing there: a spurious wake-up */
    (void) pthread_mutex_lock(&s->shared->lock);
    durable = s->shared->durable;
    failed = s->shared->failed && !s->told_failed;
    if (failed)
        why = s->shared->why;
    (void) pthread_mutex_unlock(&s->shared->lock);
    if (durable > s->told) {
        s->told = durable;
        s->on_durable(durable, s->arg);
    }
    if (failed) {
        s->told_failed = true;
        s->on_failed(&why, s->arg);
    }
}

int store_attach(struct store *s, struct loop *l, store_durable_f durable,
                 store_failed_f failed, void *arg, struct err *err)
{
    int rc;

    assert(!s->running);
    if (!s->writer)
        return err_set(err, EROFS, "the store '%s' is open for reading alone",
                       s->path);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return err_set(err, errno, "eventfd: %s", strerror(errno));
    s->loop = l;
    s->on_durable = durable;
    s->on_failed = failed;
    s->arg = arg;
    rc = loop_fd(l, s->wake_fd, LOOP_READ, on_wake, s, &s->watch, err);
    return rc < 0 ? rc : thread_start(s, err);
}

void store_resume(struct store *s)
{
    batch_clear(s->open);
    (void) pthread_mutex_lock(&s->shared->lock);
    s->shared->failed = false;
    s->last_seq = s->shared->durable;
    (void) pthread_mutex_unlock(&s->shared->lock);
    s->told_failed = false;
}

uint64_t store_durable(const struct store *s)
{
    uint64_t seq;

    (void) pthread_mutex_lock(&s->shared->lock);
    seq = s->shared->durable;
    (void) pthread_mutex_unlock(&s->shared->lock);
    return seq;
}

static bool has_failed(struct store *s, struct err *ret)
{
    bool failed;

    (void) pthread_mutex_lock(&s->shared->lock);
    failed = s->shared->failed;
    if (failed && ret)
        *ret = s->shared->why;
    (void) pthread_mutex_unlock(&s->shared->lock);
    return failed;
}

void store_event(struct store *s, const struct event *e, const char *tenant)
{
    if (has_failed(s, NULL))
        return;
    assert(e->seq == s->last_seq + 1);
    batch_event(s->open, e, tenant);
    s->last_seq = e->seq;
}

static int on_row(const struct world_row *row, void *arg)
{
    batch_row(arg, row);
    return 0;
}

/* Hand over the open batch and take a cleared one for the next. */
static void hand_over(struct store *s)
{
    struct shared *h = s->shared;
    struct batch *b = s->open;

    (void) pthread_mutex_lock(&h->lock);
    *h->end = b;
    h->end = &b->next;
    s->open = h->spare;
    if (s->open) {
        h->spare = s->open->next;
        s->open->next = NULL;
        h->nspare--;
    }
    (void) pthread_cond_signal(&h->cond);
    (void) pthread_mutex_unlock(&h->lock);
    if (!s->open)
        s->open = batch_new();
}

int store_commit(struct store *s, struct world *w, struct err *err)
{
    struct err why;

    if (!s->writer)
        return err_set(err, EROFS, "the store '%s' is open for reading alone",
                       s->path);
    if (has_failed(s, &why)) {
        batch_clear(s->open);
        return err_set(err, why.code, "%s", why.text);
    }
    (void) world_rows(w, on_row, s->open);
    if (batch_empty(s->open))
        return 0;
    hand_over(s);
    return 0;
}

void store_trim(struct store *s, uint64_t before_ms, uint32_t limit)
{
    struct shared *h = s->shared;

    (void) pthread_mutex_lock(&h->lock);
    if (!h->failed) {
        h->trim_before_ms = before_ms;
        h->trim_left = limit;
        (void) pthread_cond_signal(&h->cond);
    }
    (void) pthread_mutex_unlock(&h->lock);
}

void store_stat(const struct store *s, struct store_stat *ret)
{
    const struct shared *h = s->shared;

    (void) pthread_mutex_lock(&s->shared->lock);
    *ret = (struct store_stat) {
        .events = h->events,
        .commits = h->commits,
        .synced_ms = h->synced_us / 1000,
        .failed = h->failed,
    };
    (void) pthread_mutex_unlock(&s->shared->lock);
    ret->bytes = file_bytes(s->path, "") + file_bytes(s->path, "-wal");
}

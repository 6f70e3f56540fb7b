#include "engine/kept.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "engine/logread.h"
#include "engine/segments.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { BYTES_MIN = 8192 };

/* The newest segment of a log, open. */
struct slot {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
    char *prefix;                      /* owned; NULL: a free slot */
    int fd;                            /* -1: it has none yet */
    uint64_t start, end;               /* of that segment */
    uint64_t old;                      /* of the one before; start: none */
    uint64_t turn;                     /* when it was used last */
};

struct kept {
    char *dir;
    uint64_t half;                     /* of log_bytes: one segment */
    uint64_t turn;
    struct slot slots[KEPT_FILES];
};

static void slot_close(struct slot *s)
{
    if (s->prefix && s->fd >= 0)
        (void) close(s->fd);
    free(s->prefix);
    *s = (struct slot) { .fd = -1 };
}

int kept_open(const char *dir, uint64_t log_bytes, struct kept **ret,
              struct err *err)
{
    autofree char *logs = mem_printf("%s/logs", dir);
    struct kept *k;
    int rc = fs_mkdir(logs, 0700, err);

    if (rc < 0)
        return rc;
    k = mem_new(sizeof *k);
    k->dir = mem_str(dir);
    k->half = (log_bytes < BYTES_MIN ? BYTES_MIN : log_bytes) / 2;
    *ret = k;
    return 0;
}

void kept_close(struct kept *k)
{
    if (!k)
        return;
    for (size_t i = 0; i < KEPT_FILES; i++)
        slot_close(&k->slots[i]);
    free(k->dir);
    free(k);
}

/* Takes up a log where its files end.  A crash may have left more than two. */
static int slot_open(struct slot *s, struct err *err)
{
    struct segments list = { .n = 0 };
    uint64_t bytes = 0;
    int rc = segments_list(s->prefix, &list);

    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        rc = s->fd = segments_open(s->prefix, list.start[list.n - 1], &bytes);
    if (rc < 0)
        return err_set(err, -rc, "log '%s': %s", s->prefix, strerror(-rc));
    s->start = list.start[list.n - 1];
    s->end = s->start + bytes;
    s->old = list.n > 1 ? list.start[list.n - 2] : s->start;
    for (size_t i = 0; i + 2 < list.n; i++)
        segments_remove(s->prefix, list.start[i]);
    return 0;
}

static bool is_for(const struct slot *s, const struct engine_output *o)
{
    return s->prefix && s->gen == o->gen && s->epoch == o->epoch &&
           s->key.workload == o->key.workload && s->key.task == o->key.task &&
           s->key.rank == o->key.rank;
}

/* Its slot; else one that is free; else the one that was used least lately. */
static struct slot *slot_for(struct kept *k, const struct engine_output *o)
{
    struct slot *best = &k->slots[0];

    for (size_t i = 0; i < KEPT_FILES; i++) {
        struct slot *s = &k->slots[i];

        if (is_for(s, o))
            return s;
        if (best->prefix && (!s->prefix || s->turn < best->turn))
            best = s;
    }
    return best;
}

static int find(struct kept *k, const struct engine_output *o,
                struct slot **ret, struct err *err)
{
    struct slot *s = slot_for(k, o);
    int rc = 0;

    if (!is_for(s, o)) {
        slot_close(s);
        *s = (struct slot) {
            .key = o->key, .gen = o->gen, .epoch = o->epoch, .fd = -1,
            .prefix = segments_prefix(k->dir, &o->key, o->gen, o->epoch),
        };
        rc = slot_open(s, err);
        if (rc < 0) {
            slot_close(s);
            return rc;
        }
    }
    s->turn = ++k->turn;
    *ret = s;
    return 0;
}

/* One that holds nothing yet is no segment that is worth another's place. */
static int next_segment(struct slot *s, uint64_t at, struct err *err)
{
    bool empty = s->fd >= 0 && s->start == s->end && s->start != at;
    uint64_t bytes;
    int fd = segments_open(s->prefix, at, &bytes);

    if (fd < 0)
        return err_set(err, -fd, "log '%s': %s", s->prefix, strerror(-fd));
    if (empty)
        segments_remove(s->prefix, s->start);
    else if (s->fd >= 0 && s->old != s->start)
        segments_remove(s->prefix, s->old);
    if (s->fd < 0)
        s->old = at;
    else if (!empty)
        s->old = s->start;
    else if (s->old == s->start)
        s->old = at;
    if (s->fd >= 0)
        (void) close(s->fd);
    s->fd = fd;
    s->start = s->end = at;
    return 0;
}

/* By offset, so that what a failed one has left is written again. */
static int write_some(struct slot *s, const char *p, size_t n,
                      size_t *ret_done, struct err *err)
{
    ssize_t done = pwrite(s->fd, p, n, (off_t) (s->end - s->start));

    if (done < 0 && errno != EINTR)
        return err_set(err, errno, "log '%s': %s", s->prefix,
                       strerror(errno));
    *ret_done = done > 0 ? (size_t) done : 0;
    s->end += *ret_done;
    return 0;
}

static int write_all(struct slot *s, uint64_t half, const char *p, size_t n,
                     struct err *err)
{
    while (n > 0) {
        uint64_t size = s->end - s->start;
        size_t room = s->fd < 0 || size >= half ? 0 : (size_t) (half - size);
        size_t done = 0;
        int rc = room ? write_some(s, p, n < room ? n : room, &done, err)
                      : next_segment(s, s->end, err);

        if (rc < 0)
            return rc;
        p += done;
        n -= done;
    }
    return 0;
}

int kept_add(struct kept *k, const struct engine_output *o, uint64_t *ret_end,
             struct err *err)
{
    const char *p = o->bytes;
    uint64_t skip = 0;
    struct slot *s;
    int rc;

    if (o->offset > INT64_MAX - o->len)
        return err_set(err, EINVAL, "output beyond the end of all logs");
    rc = find(k, o, &s, err);
    if (rc == 0 && o->len && o->offset > s->end)
        rc = next_segment(s, o->offset, err);
    if (rc < 0)
        return rc;
    if (s->end > o->offset)
        skip = s->end - o->offset;
    if (skip < o->len)
        rc = write_all(s, k->half, p + skip, o->len - (size_t) skip, err);
    if (rc < 0)
        return rc;
    *ret_end = s->end;
    return 0;
}

int kept_drop(struct kept *k, uint64_t workload, struct err *err)
{
    for (size_t i = 0; i < KEPT_FILES; i++)
        if (k->slots[i].prefix && k->slots[i].key.workload == workload)
            slot_close(&k->slots[i]);
    return logread_drop(k->dir, workload, err);
}

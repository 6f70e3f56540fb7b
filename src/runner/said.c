#include "runner/held.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/link.h"
#include "runner/progress.h"

#include <errno.h>
#include <string.h>
#include <sys/inotify.h>

/* What tasks say about themselves, from the keepers' files to home.  Only the
 * newest word counts: it is told when it is written, again after a welcome,
 * and a last time before the end; nobody acknowledges it.
 */
void said_tell(struct held *h)
{
    struct runner *r = h->runner;
    struct wire_msg m = {
        .kind = WIRE_PROGRESS, .key = h->id.key, .gen = h->id.gen,
        .epoch = h->id.epoch,
    };
    struct err err = { 0 };
    int rc;

    if (!r->welcome)
        return;
    rc = progress_read(r->conf->dir, &h->id, &m.said, &err);
    h->said = rc != -ENOENT;
    m.started_ms = json_get_u64(m.said, "at", 0);
    if (rc == 0 && m.started_ms != h->said_at_ms) {
        h->said_at_ms = m.started_ms;
        (void) json_object_del(m.said, "at");
        link_send(r->link, &m);
    } else if (rc < 0 && rc != -ENOENT) {
        log_say(LOG_WARN, "its progress is not read", "lease", h->name, "why",
                err.text, NULL);
    }
    wire_clear(&m);
}

void said_tell_all(struct runner *r)
{
    struct held *h;
    size_t pos = 0;

    while ((h = map_next(r->held, &pos, NULL)))
        if (h->state == HELD_RUNNING)
            said_tell(h);
}

void said_forget(const struct held *h)
{
    if (h->said)
        progress_drop(h->runner->conf->dir, &h->id);
}

static void changed(struct runner *r, const char *file)
{
    char name[LEASE_NAME_SIZE];
    struct lease_id id;
    struct held *h;

    if (!record_name_parse(file, &id))
        return;                        /* a file on its way to its name */
    lease_id_name(&id, name, sizeof name);
    h = map_get(r->held, name);
    if (h && h->state == HELD_RUNNING)
        said_tell(h);
}

static void on_files(struct watch *w, int fd, unsigned ready, void *arg)
{
    union {
        struct inotify_event e;
        char bytes[16384];
    } in;
    ssize_t n;

    (void) w;
    (void) ready;
    while ((n = read(fd, in.bytes, sizeof in.bytes)) > 0) {
        for (const char *p = in.bytes; p < in.bytes + n;) {
            const struct inotify_event *e = (const void *) p;

            if (e->mask & IN_Q_OVERFLOW)
                said_tell_all(arg);
            else if (e->len)
                changed(arg, e->name);
            p += sizeof *e + e->len;
        }
    }
}

int said_open(struct runner *r, struct err *err)
{
    autofree char *path = mem_printf("%s/progress", r->conf->dir);
    int rc = fs_mkdir(path, 0700, err);

    if (rc < 0 || r->conf->alone)      /* its keeper tells: output.c */
        return rc;
    r->files = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (r->files < 0 || inotify_add_watch(r->files, path, IN_MOVED_TO) < 0)
        return err_set(err, errno, "watch '%s': %s", path, strerror(errno));
    return loop_fd(r->loop, r->files, LOOP_READ, on_files, r, &r->files_watch,
                   err);
}

void said_close(struct runner *r)
{
    watch_remove(take(r->files_watch));
    if (r->files >= 0)
        (void) close(take_fd(r->files));
}

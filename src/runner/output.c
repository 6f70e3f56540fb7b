#include "runner/output.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/segments.h"
#include "runner/alone.h"
#include "runner/held.h"
#include "runner/link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

/* Home is sent what it may not have heard yet, WINDOW bytes at most; a gap in
 * the log waits until all before it was heard, so that offsets can be
 * subtracted.
 */
enum {
    WINDOW = 1024 * 1024,
    MOVE_MS = 20,                      /* lines that come together go so */
    LATE_MS = 10 * 1000,               /* home is given to hear what it has */
    AGAIN_MS = 1000,                   /* until the next look */
    SHOW_MAX = 64,                     /* chunks in one turn */
};

struct output {
    struct runner *runner;
    char *prefix;                      /* of the log */
    int wake;                          /* eventfd */
    struct watch *woken, *soon;
    uint64_t heard, sent, top;         /* top: of all that was ever sent */
    bool late;
    struct watch *patience;
    int out;
    struct watch *room;
    uint64_t shown;
    bool complained;
};

static char chunk[WIRE_OUTPUT_MAX];    /* for the call alone */

static void move_in(struct output *o, uint64_t ms);

/* The next bytes, `max` at most.  1: here they are; 0: there are none now; -errno:
 * it is looked for again.
 */
static int next(struct output *o, uint64_t offset, size_t max,
                struct segments_part *p)
{
    int rc = segments_read(o->prefix, offset, chunk,
                           max < sizeof chunk ? max : sizeof chunk, p);

    if (rc == -ENOENT)
        return 0;
    if (rc == 0)
        return p->len > 0;
    if (!o->complained)
        log_say(LOG_ERROR, "its log is not read", "why", strerror(-rc), NULL);
    o->complained = true;
    move_in(o, AGAIN_MS);
    return rc;
}

/* ---- home ---- */

static void send(struct output *o, const struct segments_part *p)
{
    const struct runner_name *n = &o->runner->alone->name;
    struct wire_msg m = {
        .kind = WIRE_OUTPUT, .key = n->key, .gen = n->gen, .epoch = n->epoch,
        .offset = p->start, .bytes = chunk, .nbytes = p->len,
    };

    link_send(o->runner->link, &m);
    o->sent = p->start + p->len;
    if (o->sent > o->top)
        o->top = o->sent;
}

/* True when there is nothing left to be sent. */
static bool tell(struct output *o)
{
    struct segments_part p;

    while (o->runner->welcome && o->sent - o->heard < WINDOW) {
        int rc = next(o, o->sent, WINDOW - (o->sent - o->heard), &p);

        if (rc <= 0)
            return rc == 0;
        if (p.start > o->sent && o->heard < o->sent)
            return false;
        if (p.start > o->sent)
            o->heard = o->sent = p.start;
        send(o, &p);
    }
    return false;
}

static void on_late(struct watch *w, void *arg)
{
    struct output *o = arg;

    (void) w;
    o->patience = NULL;
    o->late = true;
    log_say(LOG_WARN, "home does not hear what the task printed", NULL);
    alone_told(o->runner);
}

bool output_told(struct output *o)
{
    bool all = tell(o) || o->late;

    if (all || !o->runner->welcome)
        watch_remove(take(o->patience));
    else if (!o->patience)
        o->patience = loop_timer(o->runner->loop, LATE_MS, on_late, o);
    return all;
}

void output_welcome(struct output *o)
{
    watch_remove(take(o->patience));
    o->late = false;
    o->sent = o->heard;
    (void) tell(o);
}

/* After a reconnect home may have more than it was told again so far. */
void output_heard(struct output *o, uint64_t offset)
{
    if (offset > o->top)
        offset = o->top;
    if (offset <= o->heard)
        return;
    watch_remove(take(o->patience));
    o->heard = offset;
    if (o->sent < offset)
        o->sent = offset;
    (void) tell(o);
    alone_told(o->runner);
}

/* ---- standard output ---- */

static void hang_up(struct output *o)
{
    watch_remove(take(o->room));
    if (o->out >= 0)
        (void) close(take_fd(o->out));
}

static void on_room(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct output *o = arg;

    (void) w;
    (void) fd;
    (void) ready;
    output_move(o);
    runner_end_if_done(o->runner);
}

static void wait_for_room(struct output *o)
{
    if (!o->room && loop_fd(o->runner->loop, o->out, LOOP_WRITE, on_room, o,
                            &o->room, NULL) < 0)
        hang_up(o);
}

/* True when there is nothing left to be shown. */
static bool show(struct output *o)
{
    struct segments_part p;
    ssize_t n = 1;

    for (unsigned i = 0; o->out >= 0 && n > 0; i++) {
        int rc = i < SHOW_MAX ? next(o, o->shown, sizeof chunk, &p)
                              : -EAGAIN;

        if (rc == -EAGAIN)
            move_in(o, 0);
        if (rc <= 0) {
            watch_remove(take(o->room));
            return rc == 0;
        }
        n = write(o->out, chunk, p.len);
        if (n > 0)
            o->shown = p.start + (uint64_t) n;
        else if (n < 0 && errno == EAGAIN)
            wait_for_room(o);
        else if (n == 0 || errno != EINTR)
            hang_up(o);
    }
    return o->out < 0;
}

bool output_shown(struct output *o)
{
    return show(o);
}

void output_say(const struct output *o, const char *line)
{
    if (o->out >= 0 && write(o->out, line, strlen(line)) < 0)
        log_say(LOG_WARN, "standard output", "why", strerror(errno), NULL);
}

/* ---- both ---- */

void output_move(struct output *o)
{
    (void) tell(o);
    (void) show(o);
}

static void on_soon(struct watch *w, void *arg)
{
    struct output *o = arg;

    (void) w;
    o->soon = NULL;
    output_move(o);
    alone_said(o->runner);
    alone_told(o->runner);
    runner_end_if_done(o->runner);
}

static void move_in(struct output *o, uint64_t ms)
{
    if (!o->soon)
        o->soon = loop_timer(o->runner->loop, ms, on_soon, o);
}

static void on_woken(struct watch *w, int fd, unsigned ready, void *arg)
{
    eventfd_t n;

    (void) w;
    (void) ready;
    (void) eventfd_read(fd, &n);
    move_in(arg, MOVE_MS);
}

int output_wake(const struct output *o)
{
    return o->wake;
}

int output_open(struct runner *r, int out, struct output **ret,
                struct err *err)
{
    const struct runner_name *n = &r->alone->name;
    struct output *o = mem_new(sizeof *o);
    int rc = 0;

    *o = (struct output) {
        .runner = r, .out = out,
        .prefix = segments_prefix(r->conf->dir, &n->key, n->gen, n->epoch),
        .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
    };
    if (o->wake < 0)
        rc = err_set(err, errno, "eventfd: %s", strerror(errno));
    if (rc == 0 && out >= 0)
        rc = fs_set_nonblock(out, err);
    if (rc == 0)
        rc = loop_fd(r->loop, o->wake, LOOP_READ, on_woken, o, &o->woken, err);
    if (rc < 0) {
        output_close(o);
        return rc;
    }
    *ret = o;
    return 0;
}

void output_close(struct output *o)
{
    if (!o)
        return;
    hang_up(o);
    watch_remove(o->woken);
    watch_remove(o->soon);
    watch_remove(o->patience);
    if (o->wake >= 0)
        (void) close(o->wake);
    free(o->prefix);
    free(o);
}

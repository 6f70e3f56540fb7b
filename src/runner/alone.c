#include "runner/alone.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "runner/held.h"
#include "runner/link.h"
#include "runner/output.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

enum {
    TOKEN_MAX = 256, CA_MAX = 256 * 1024,
    END_MS = 3000,             /* for a last word to home and to who reads */
    NO_TASK = 1,               /* what we end with when none ran */
};

/* ---- secrets ---- */

/* What cannot be removed the task could read. */
static int take_file(const char *path, size_t max, char **ret,
                     struct err *err)
{
    autofree char *text = NULL;
    int rc = fs_read(path, max, &text, NULL, err);

    if (rc == 0 && unlink(path) < 0)
        rc = err_set(err, errno, "remove '%s', which the task is not to "
                     "read: %s", path, strerror(errno));
    if (rc == 0)
        *ret = take(text);
    return rc;
}

int alone_secrets(const struct runner_conf *c, char **ret_token, char **ret_ca,
                  struct err *err)
{
    autofree char *ca = NULL;
    int rc = 0;

    if (prctl(PR_SET_DUMPABLE, 0) < 0)
        return err_set(err, errno, "keep others from looking in: %s",
                       strerror(errno));
    if (c->home.ca)
        rc = take_file(c->home.ca, CA_MAX, &ca, err);
    if (rc == 0)
        rc = take_file(c->token_file, TOKEN_MAX, ret_token, err);
    if (rc == 0)
        *ret_ca = take(ca);
    return rc;
}

/* ---- the one lease ---- */

int alone_open(struct runner *r, struct err *err)
{
    struct alone *a = mem_new(sizeof *a);
    autofree char *logs = NULL;
    int rc;

    *a = (struct alone) { .runner = r, .status = NO_TASK };
    r->alone = a;
    rc = runner_name_parse(r->conf->block, &a->name, err);
    if (rc < 0)
        return rc;
    logs = mem_printf("%s/logs/w%" PRIu64, r->conf->dir,
                      a->name.key.workload);
    rc = fs_mkdir(logs, 0700, err);
    return rc < 0 ? rc : output_open(r, r->conf->out, &a->output, err);
}

void alone_close(struct runner *r)
{
    if (!r->alone)
        return;
    output_close(r->alone->output);
    watch_remove(r->alone->patience);
    free(take(r->alone));
}

static struct held *lease_of(struct runner *r)
{
    size_t pos = 0;

    return map_next(r->held, &pos, NULL);
}

static bool about_lease(enum wire_kind kind)
{
    return kind == WIRE_ORDER || kind == WIRE_GRANT || kind == WIRE_STOP ||
           kind == WIRE_GATE || kind == WIRE_SUSPEND || kind == WIRE_RESUME ||
           kind == WIRE_ACK || kind == WIRE_HEARD;
}

static void refuse(struct runner *r, const char *why)
{
    struct err err = { 0 };
    struct wire_msg m;

    (void) err_set(&err, EINVAL, "runner '%s': %s", r->conf->block, why);
    m = wire_error(err.text);
    log_say(LOG_WARN, "refused", "why", why, NULL);
    link_send(r->link, &m);
}

bool alone_takes(struct runner *r, const struct wire_msg *m)
{
    const struct runner_name *n = &r->alone->name;
    bool key = m->key.workload == n->key.workload &&
               m->key.task == n->key.task && m->key.rank == n->key.rank;

    if (m->kind == WIRE_DROP)
        return key;
    if (about_lease(m->kind) &&
        (!key || m->gen != n->gen || m->epoch != n->epoch)) {
        refuse(r, "it has its own lease and no other");
        return false;
    }
    if (m->kind == WIRE_ORDER && r->ending && !lease_of(r)) {
        refuse(r, "its container ends");
        return false;
    }
    return true;
}

void alone_welcome(struct runner *r)
{
    r->alone->end_told = r->alone->over = false;
    watch_remove(take(r->alone->patience));
    output_welcome(r->alone->output);
}

void alone_said(struct runner *r)
{
    struct held *h = lease_of(r);

    if (h && h->state == HELD_RUNNING)
        said_tell(h);
}

/* ---- its end ---- */

static int status_of(const struct report *p)
{
    if (p->status < 0)
        return 128 - p->status;
    if (p->status > 0)
        return p->status;
    return strcmp(p->cause, "none") == 0 ? 0 : NO_TASK;
}

void alone_ended(struct held *h)
{
    struct alone *a = h->runner->alone;

    a->ended = true;
    a->status = status_of(&h->report);
    output_move(a->output);
}

bool alone_may_tell(struct runner *r)
{
    bool told = output_told(r->alone->output);

    r->alone->end_told |= told;
    return told;
}

void alone_told(struct runner *r)
{
    struct held *h = lease_of(r);

    if (h && h->state == HELD_ENDED && !r->alone->end_told)
        runner_tell_end(h);
}

/* The signal with which a container is stopped is its image's to choose. */
int alone_signals(struct runner *r, loop_signal_f cb, struct err *err)
{
    static const int all[] = { SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2,
                               SIGWINCH };
    int rc = 0;

    for (size_t i = 0; i < array_size(all) && rc == 0; i++)
        rc = loop_signal(r->loop, all[i], cb, r, err);
    return rc;
}

/* An order from before it said how to stop, or none that can be read: SIGTERM,
 * and as much time as whoever ends the container gives.
 */
static void stop(struct held *h, const struct order *o)
{
    struct wire_msg m = { .kind = WIRE_STOP, .signal = o->stop.signal,
                          .grace_ms = o->stop.grace_ms };

    m.command = mem_str(o->stop.command);
    held_stop(h, &m);
    wire_clear(&m);
}

static int read_stop(struct held *h, struct order *ret, struct err *err)
{
    autojson json_t *task = json_incref(h->task);
    int rc = task ? 0 : record_read_order(&h->runner->records, &h->id, &task,
                                          err);

    return rc < 0 ? rc : order_read(task, ret, err);
}

void alone_term(struct runner *r)
{
    struct held *h = lease_of(r);
    struct order o = { .stop = { .grace_ms = ORDER_GRACE_MS } };
    struct err err = { 0 };

    if (!h || h->state == HELD_ENDED || h->stopping)
        return;
    r->alone->deleted = true;
    if (read_stop(h, &o, &err) < 0)
        log_say(LOG_WARN, "how it is to be stopped is not known", "why",
                err.text, NULL);
    stop(h, &o);
    order_clear(&o);
}

/* ---- our own ---- */

static void on_over(struct watch *w, void *arg)
{
    struct alone *a = arg;

    (void) w;
    a->patience = NULL;
    a->over = true;
    runner_end_if_done(a->runner);
}

/* Home has to hear how the task ended, also when others end the container, and
 * when it says quit before it has.
 */
bool alone_may_end(struct runner *r)
{
    struct alone *a = r->alone;
    bool waits = r->welcome && map_count(r->held) > 0;

    if (a->over || (output_shown(a->output) && !waits))
        return true;
    if (!a->patience)
        a->patience = loop_timer(r->loop, END_MS, on_over, a);
    return false;
}

void alone_farewell(struct runner *r)
{
    autofree char *line = NULL;

    if (r->alone->ended)
        return;
    line = mem_printf("weir: no task ran here%s%s\n",
                      r->away[0] ? ": home is away: " : "", r->away);
    output_say(r->alone->output, line);
}

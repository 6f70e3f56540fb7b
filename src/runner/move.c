#include "runner/held.h"

#include "base/err.h"
#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/gpuask.h"
#include "runner/link.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Tasks that are taken off their devices and brought back, by weir-gpud.
 *
 *     suspend   page "suspended", record "off", weir-gpud; if that fails:
 *               record "on", page "active"
 *     resume    weir-gpud, record "on", page "active"
 *
 * So while weir-gpud may have a task, its record says so and its page is shut,
 * wherever the runner is killed.  A runner that finds such a record does not
 * know how far it went, and asks before it says or opens anything; weir-gpud,
 * asked for what is so already, tells that it is.
 *
 * One operation of a lease at a time.  Home may change its mind meanwhile: what
 * it said last is done after it, and alone answered.  A resume to devices other
 * than those it is on takes it off these first.
 */
enum {
    AGAIN_MIN_MS = 100,
    AGAIN_MAX_MS = 2000,
    LOCK_MAX_MS = 600 * 1000,          /* as weir-gpud takes it */
    /* Who has no context may be about to have one: a call into the driver that
     * came before the page was shut.  It is asked for twice.
     */
    EMPTY_LOOKS = 2,
    EMPTY_MS = 1000,
    /* A checkpoint may take minutes, and is waited for; that weir-gpud is there
     * at all is asked beside it.
     */
    PING_MS = 10 * 1000,
};

struct want {
    bool resume;
    bool awake;                        /* of suspend: threads run on */
    uint64_t grace_ms;                 /* 0: as weir-gpud likes */
    char *devices;                     /* owned; of resume; NULL: the same */
};

struct move {
    struct held *held;
    struct want want, next;
    bool changed;                      /* home wants `next` by now */
    char *to;                          /* owned: where a resume brings it after
                                        * this suspend; or NULL */
    bool told;                         /* that it cannot leave */
    bool lost;                         /* a question may have been heard */
    unsigned empty;                    /* looks that found no context */
    uint64_t begun_ms, again_ms;
    struct gpuask *ask, *ping;
    struct watch *timer, *alive;       /* alive: while `ask` is there */
};

static void begin(struct move *v);

/* What it comes to. */

static void say_moved(struct held *h, bool ok, uint64_t ms, uint64_t bytes,
                      const char *reason, const char *text)
{
    struct wire_msg m = {
        .kind = WIRE_MOVED, .key = h->id.key, .gen = h->id.gen,
        .epoch = h->id.epoch, .ok = ok, .took_ms = ms, .used_bytes = bytes,
    };
    const char *gate = behind_state(h);

    if (h->where == MOVE_ON && strcmp(gate, "staged") != 0)
        gate = "active";               /* also one whose gate has no post */
    (void) snprintf(m.gate, sizeof m.gate, "%s", gate);
    (void) snprintf(m.reason, sizeof m.reason, "%s", reason);
    (void) snprintf(m.text, sizeof m.text, "%s", text);
    if (!ok)
        log_say(LOG_WARN, text, "lease", h->name, "reason", reason, NULL);
    link_send(h->runner->link, &m);
}

static void move_free(struct move *v)
{
    if (!v)
        return;
    gpuask_close(v->ask);
    gpuask_close(v->ping);
    watch_remove(v->timer);
    watch_remove(v->alive);
    free(v->want.devices);
    free(v->next.devices);
    free(v->to);
    free(v);
}

void move_close(struct held *h)
{
    move_free(take(h->move));
}

static int note(struct held *h, bool off, const char *devices,
                struct err *err)
{
    autoclose int fd = -1;
    int rc = record_open(&h->runner->records, &h->id, false, &fd, err);

    return rc < 0 ? rc : record_add_moved(fd, off, devices, err);
}

/* It is on its devices: a record that still says "off" costs a question. */
static void come_back(struct held *h)
{
    struct err err = { 0 };

    h->where = MOVE_ON;
    if (note(h, false, h->devices, &err) < 0)
        log_say(LOG_WARN, "its record says that it is suspended", "lease",
                h->name, "why", err.text, NULL);
    if (gatepost_set(h->gate, GATE_ACTIVE, &err) < 0)
        log_say(LOG_ERROR, "its gate is not opened", "lease", h->name, "why",
                err.text, NULL);
}

static void again_later(struct move *v);

/* What it is to do next, if anything: what home said meanwhile, or the resume
 * that a suspend was for.  One that cannot leave the wrong devices is asked to
 * until it does: nobody may hear that it is back.
 */
static bool go_on(struct move *v, bool ok, const char *text)
{
    struct held *h = v->held;

    if (v->changed) {
        free(v->want.devices);
        free(take(v->to));
        v->want = v->next;
        v->next.devices = NULL;
        v->begun_ms = loop_now(h->runner->loop);
    } else if (v->to && ok) {
        v->want.resume = true;
        v->want.devices = take(v->to);
    } else if (v->to && !h->stopping) {
        if (!v->told)
            log_say(LOG_WARN, "it is on other devices than it should be, and "
                    "cannot leave them", "lease", h->name, "why", text, NULL);
        v->told = true;
        again_later(v);
        return true;
    } else {
        return false;
    }
    v->changed = v->lost = false;
    v->empty = 0;
    begin(v);
    return true;
}

/* The page is open exactly when it is known to be on its devices. */
static void finish(struct move *v, uint64_t bytes, const char *reason,
                   const char *text)
{
    struct held *h = v->held;
    bool ok = h->where == (v->want.resume ? MOVE_ON : MOVE_OFF);
    uint64_t ms = loop_now(h->runner->loop) - v->begun_ms;

    if (ok && v->want.devices) {
        free(h->devices);
        h->devices = take(v->want.devices);
    }
    if (h->where == MOVE_ON)
        come_back(h);
    if (go_on(v, ok, text))
        return;
    move_close(h);
    reach_settle(h);
    say_moved(h, ok, ms, bytes, ok ? "" : reason, ok ? "" : text);
    behind_look(h);
    if (h->stopping && h->where != MOVE_ON)
        held_continue(h);
}

/* The question. */

static void on_again(struct watch *w, void *arg)
{
    struct move *v = arg;

    (void) w;
    v->timer = NULL;
    begin(v);
}

static void again(struct move *v, uint64_t ms)
{
    v->timer = loop_timer(v->held->runner->loop, ms, on_again, v);
}

static void again_later(struct move *v)
{
    again(v, v->again_ms);
    v->again_ms = v->again_ms * 2 > AGAIN_MAX_MS ? AGAIN_MAX_MS
                                                 : v->again_ms * 2;
}

/* Refused without a word on where the task is: there it was before, unless an
 * earlier question was heard.
 */
static void on_error(struct move *v, const char *reason, const char *text)
{
    struct held *h = v->held;

    if (strcmp(reason, "again") == 0) {
        again_later(v);
        return;
    }
    if (v->lost && h->where == MOVE_ON)
        h->where = MOVE_UNSURE;
    finish(v, 0, *reason ? reason : "node", text);
}

/* Where an answer says that it is.  Of a suspend that failed, `suspended` says
 * that weir-gpud has it in its books, not that its devices are free: only one
 * that was suspended before ("state") is off them.
 */
static enum move_where told_where(const struct move *v, const json_t *answer,
                                  const char *reason)
{
    const json_t *off = json_object_get(answer, "suspended");

    if (!json_is_boolean(off))
        return MOVE_UNSURE;            /* weir-gpud does not know either */
    if (!json_is_true(off))
        return MOVE_ON;
    return v->want.resume || json_get_bool(answer, "done", false) ||
           strcmp(reason, "state") == 0 ? MOVE_OFF : MOVE_UNSURE;
}

static void on_told(struct move *v, const json_t *answer)
{
    struct held *h = v->held;
    const char *reason = json_get_str(answer, "reason", "node");
    enum move_where where = told_where(v, answer, reason);

    if (where == MOVE_ON && !v->want.resume &&
        strcmp(reason, "no-context") == 0) {
        if (++v->empty < EMPTY_LOOKS) {
            again(v, EMPTY_MS);
            return;
        }
        where = MOVE_OFF;              /* nothing is there, and the page is
                                        * shut */
    }
    h->where = where;
    finish(v, json_get_u64(answer, "bytes", 0), reason,
           json_get_str(answer, "text", "weir-gpud does not say why"));
}

static void on_answer(const json_t *answer, const char *why, void *arg)
{
    struct move *v = arg;
    const char *kind = json_get_str(answer, "t", "");

    gpuask_close(take(v->ask));
    gpuask_close(take(v->ping));
    watch_remove(take(v->alive));
    if (!answer) {
        if (!v->lost)
            log_say(LOG_WARN, "weir-gpud went away; it is asked again",
                    "lease", v->held->name, "why", why, NULL);
        v->lost = true;
        again_later(v);
    } else if (strcmp(kind, v->want.resume ? "resume" : "suspend") == 0) {
        on_told(v, answer);
    } else {
        on_error(v, json_get_str(answer, "reason", ""),
                 json_get_str(answer, "text", "weir-gpud makes no sense"));
    }
}

static void on_pong(const json_t *answer, const char *why, void *arg)
{
    struct move *v = arg;

    gpuask_close(take(v->ping));
    if (!answer)
        on_answer(NULL, why, v);
}

static void on_alive(struct watch *w, void *arg)
{
    struct move *v = arg;
    struct runner *r = v->held->runner;
    struct err err = { 0 };
    json_t *q;

    (void) w;
    v->alive = NULL;
    if (v->ping) {
        on_answer(NULL, "it does not answer", v);
        return;
    }
    q = json_object();
    json_put_str(q, "t", "hello");
    if (gpuask_open(r->loop, r->conf->gpud, q, on_pong, v, &v->ping,
                    &err) < 0)
        on_answer(NULL, err.text, v);
    else
        v->alive = loop_timer(r->loop, PING_MS, on_alive, v);
}

/* What weir-gpud knows it by: one name on this node and for all time. */
static void put_name(const struct held *h, json_t *q)
{
    char file[LEASE_NAME_SIZE], name[2 * LEASE_NAME_SIZE];

    lease_id_file(&h->id, file, sizeof file);
    (void) snprintf(name, sizeof name, "%s.w%" PRIu64 ".%s", h->runner->mark,
                    h->id.key.workload, file);
    json_put_str(q, "task", name);
}

/* Every process of the task is the keeper's descendant; the keeper itself never
 * has a context.
 */
static json_t *ask_suspend(const struct move *v, pid_t keeper)
{
    json_t *q = json_object();
    uint64_t ms = v->want.grace_ms;

    json_put_str(q, "t", "suspend");
    put_name(v->held, q);
    json_put_u64(q, "pid", (uint64_t) keeper);
    json_put_bool(q, "hold", !v->want.awake);
    if (ms)
        json_put_u64(q, "lock_ms", ms < LOCK_MAX_MS ? ms : LOCK_MAX_MS);
    return q;
}

/* "A,B" and "C,B" are the pair A: C. */
static int put_pairs(json_t *q, const char *from, const char *to,
                     struct err *err)
{
    json_t *pairs = json_object();

    json_put(q, "devices", pairs);
    while (*from && *to) {
        size_t a = strcspn(from, ","), b = strcspn(to, ",");

        if (a != b || strncmp(from, to, a) != 0)
            (void) json_object_setn_new(pairs, from, a, json_stringn(to, b));
        from += a + (from[a] == ',');
        to += b + (to[b] == ',');
    }
    return *from || *to ? err_set(err, EINVAL, "other devices for it are as"
                                  " many as it has, by their names") : 0;
}

/* The keeper is named for a weir-gpud that has no record of the task: it looks
 * whether it runs, and does not say so of one that another has suspended.
 */
static int ask_resume(const struct move *v, pid_t keeper, json_t **ret,
                      struct err *err)
{
    autojson json_t *q = json_object();
    const char *from = v->held->devices ? v->held->devices : "";
    int rc = 0;

    json_put_str(q, "t", "resume");
    put_name(v->held, q);
    json_put_u64(q, "pid", (uint64_t) keeper);
    if (v->want.devices)
        rc = put_pairs(q, from, v->want.devices, err);
    if (rc == 0)
        *ret = take(q);
    return rc;
}

/* Shut the page, and write down that it may be off its devices. */
static int shut(struct held *h, struct err *err)
{
    int rc = gatepost_set(h->gate, GATE_SUSPENDED, err);

    if (rc == 0 && h->where == MOVE_ON)
        rc = note(h, true, h->devices, err);
    return rc;
}

static int ask(struct move *v, struct err *err)
{
    struct held *h = v->held;
    json_t *q = NULL;
    pid_t keeper = held_keeper(h);
    int rc = v->want.resume ? ask_resume(v, keeper, &q, err)
                            : shut(h, err);

    if (rc == 0 && !v->want.resume)
        q = ask_suspend(v, keeper);
    else if (rc == 0)
        reach_open(h, v->want.devices);
    if (rc == 0)
        rc = gpuask_open(h->runner->loop, h->runner->conf->gpud, q, on_answer,
                         v, &v->ask, err);
    if (rc == 0)
        v->alive = loop_timer(h->runner->loop, PING_MS, on_alive, v);
    return rc;
}

/* NULL: the same, whichever they are. */
static bool same_devices(const char *a, const char *b)
{
    return !a || !b || strcmp(a, b) == 0;
}

static size_t count(const char *devices)
{
    size_t n = 1;

    for (; *devices; devices++)
        n += *devices == ',';
    return n;
}

/* A resume of what is on other devices, and can be on those. */
static bool elsewhere(const struct held *h, const struct want *w)
{
    return w->resume && h->where == MOVE_ON &&
           !same_devices(h->devices, w->devices) &&
           count(h->devices) == count(w->devices);
}

static void begin(struct move *v)
{
    struct held *h = v->held;
    struct err err = { 0 };
    int rc;

    if (elsewhere(h, &v->want)) {
        v->to = v->want.devices;
        v->want = (struct want) { 0 };
    }
    if (h->where == (v->want.resume ? MOVE_ON : MOVE_OFF)) {
        free(take(v->want.devices));   /* as it is, it stays */
        finish(v, 0, "", "");
    } else if (held_keeper(h) <= 0) {
        again_later(v);                /* it is being looked for */
    } else if ((rc = ask(v, &err)) < 0) {
        if (v->lost)
            again_later(v);
        else
            finish(v, 0, rc == -EINVAL ? "state" : "node", err.text);
    }
}

/* What home wants. */

static const char *why_not(const struct held *h, const struct want *w)
{
    if (h->state != HELD_RUNNING || !h->gate)
        return "it does not run behind a gate";
    if (strcmp(behind_state(h), "staged") == 0)
        return "it stands at its gate and has had no device yet";
    if (!w->resume && h->stopping)
        return "it is being stopped";
    return NULL;
}

static void want(struct held *h, struct want w)
{
    const char *why = why_not(h, &w);
    struct move *v = h->move;

    if (why) {
        free(w.devices);
        say_moved(h, false, 0, 0, "state", why);
        return;
    }
    if (v) {                           /* said again, it is the same */
        free(v->next.devices);
        v->next = w;
        v->changed = w.resume != (v->want.resume || v->to) ||
                     !same_devices(w.devices, v->to ? v->to
                                                    : v->want.devices);
        return;
    }
    h->turn++;
    v = h->move = mem_new(sizeof *v);
    *v = (struct move) { .held = h, .want = w, .again_ms = AGAIN_MIN_MS,
                         .begun_ms = loop_now(h->runner->loop) };
    begin(v);
}

void move_suspend(struct held *h, const struct wire_msg *m)
{
    want(h, (struct want) { .grace_ms = m->grace_ms, .awake = m->awake });
}

void move_resume(struct held *h, const char *devices)
{
    want(h, (struct want) { .resume = true, .devices = devices && *devices
                                          ? mem_str(devices) : NULL });
}

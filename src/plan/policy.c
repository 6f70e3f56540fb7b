#include "plan/policy.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/quantity.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Why these numbers:
 *
 * half_life     a week: what one used last week counts half; the week is the
 *               rhythm of the people who share devices.
 * fair          no: where the operator gave nobody a weight or a quota, the
 *               tenants are one house, and order among them is by need alone.
 * patience      ten minutes: long enough for what is short to pass, short
 *               enough that nobody calls the operator.
 * quantile      0.9: one reservation in ten may come out late; a higher one
 *               keeps devices idle for ends that rarely come so late.
 * min_run       five minutes: work that was just let in gets something done
 *               before it can be asked to leave.
 * slice         none: turns already let through whoever has had less, and
 *               every slice costs a suspension that ends no work.  Who would
 *               rather have all of them move at once says how long a slice is.
 * kill          yes: a quota that is given back only by those who lose nothing
 *               by it guarantees nothing.
 * stray         note: what the driver counts for a process is not measured on
 *               every model, and an end costs the work of the attempt.
 * context_mib   1024: a PyTorch context is about 500 on an H200, and what
 *               libraries load into it counts with it.
 * nodes         open: a driver's library opens the nodes when it is asked what
 *               devices there are, and a program that stands ready would be
 *               told that there are none.
 * burst_margin  none: what ends sooner is better, and a device left idle for
 *               one that only costs less is a loss to who waits.  Whose second
 *               pool costs money says here by how much it has to win.
 * suspend_cost  a minute: what a device full of memory takes to move out and
 *               in again.
 * idle_grace    none: whose programs bear to go on without their devices, and
 *               whose users know of it, is for the operator to say.
 */
void policy_init(struct policy *p)
{
    memset(p, 0, sizeof(*p));
    p->half_life_ms = UINT64_C(7) * 24 * 60 * 60 * 1000;
    p->patience_ms = 10 * 60 * 1000;
    p->quantile = 0.9;
    p->tolerance = 0.1;
    p->reservations = 4;
    p->turns = TURNS_SUSPEND;
    p->min_run_ms = 5 * 60 * 1000;
    p->suspend_cost_s = 60;
    p->reclaim = true;
    p->kill = true;
    p->move = true;
    p->lookahead_ms = 60 * 1000;
    p->stray = STRAY_NOTE;
    p->context_mib = 1024;
    p->nodes = NODES_OPEN;
    p->burst_margin = 0;
}

static const struct policy_model *find_model(const struct policy *p,
                                             const char *model)
{
    for (uint32_t i = 0; i < p->nmodels; i++)
        if (strcasecmp(p->models[i].model, model) == 0)
            return &p->models[i];
    return NULL;
}

double policy_rating(const struct policy *p, const char *model)
{
    const struct policy_model *m = find_model(p, model);

    return m ? m->rating : 1;
}

double policy_price(const struct policy *p, const char *model)
{
    const struct policy_model *m = find_model(p, model);

    return m ? m->price : p->price_hour;
}

/* -- the rows ------------------------------------------------------------- */

#define YEAR (365 * 86400.0)
#define P(member) offsetof(struct policy, member)
#define M(member) offsetof(struct policy_model, member)

static const char *const turn_words[] = {
    [TURNS_OFF] = "off", [TURNS_SUSPEND] = "suspend",
    [TURNS_CHECKPOINT] = "checkpoint", NULL,
};

static const char *const stray_words[] = {
    [STRAY_NOTE] = "note", [STRAY_STOP] = "stop", NULL,
};

static const char *const node_words[] = {
    [NODES_OPEN] = "open", [NODES_LEASED] = "leased",
    [NODES_ACTIVE] = "active", NULL,
};

static const struct policy_field fields[] = {
    { "half_life", POLICY_TIME, P(half_life_ms), 60, 100 * YEAR, NULL,
      "device-time used so long ago counts half in fair share" },
    { "fair", POLICY_FLAG, P(fair), 0, 0, NULL,
      "tenants share by use even where none has a weight or a quota" },
    { "patience", POLICY_TIME, P(patience_ms), 0, YEAR, NULL,
      "who waits longer is overtaken by nobody who would take its place" },
    { "quantile", POLICY_NUMBER, P(quantile), 0.5, 0.99, NULL,
      "of predicted ends, that reservations are made from" },
    { "tolerance", POLICY_NUMBER, P(tolerance), 0, 10, NULL,
      "share of its wait by which a reservation may slip" },
    { "reservations", POLICY_COUNT, P(reservations), 0, 1000, NULL,
      "kept at once, at most" },
    { "turns", POLICY_WORD, P(turns), 0, 0, turn_words,
      "who gives way to those who have had less: nobody, who can be "
      "suspended, or also who has a checkpoint" },
    { "min_run", POLICY_TIME, P(min_run_ms), 0, YEAR, NULL,
      "run time before the first preemption" },
    { "slice", POLICY_TIME, P(slice_ms), 0, 86400, NULL,
      "instead of turns: after so long on its devices a task gives way to an "
      "equal one that waits for them; at least 10 times what suspending "
      "costs; 0: no slices" },
    { "suspend_cost", POLICY_TIME, P(suspend_cost_s), 0, 86400, NULL,
      "what suspending and resuming once is taken to cost until it was "
      "measured on such a device; who goes on elsewhere gives way for a turn "
      "after 20 times that" },
    { "reclaim", POLICY_FLAG, P(reclaim), 0, 0, NULL,
      "guaranteed quota is taken back from those who borrowed it" },
    { "kill", POLICY_FLAG, P(kill), 0, 0, NULL,
      "even from those who lose work by it, if nobody else will do" },
    { "move", POLICY_FLAG, P(move), 0, 0, NULL,
      "some are suspended so that a whole place comes free, or few so that "
      "many are used" },
    { "lookahead", POLICY_TIME, P(lookahead_ms), 0, 86400, NULL,
      "where nodes can, the next task is staged on devices that may be free "
      "within it; 0: none is" },
    { "idle_grace", POLICY_TIME, P(idle_grace_ms), 0, YEAR, NULL,
      "where nodes can, a task that has not used its devices for so long is "
      "suspended until it wants them again; 0: none is" },
    { "stray", POLICY_WORD, P(stray), 0, 0, stray_words,
      "a task that uses a device otherwise than its lease says is noted, or "
      "ended and not tried again" },
    { "context_mib", POLICY_COUNT, P(context_mib), 0, 1048576, NULL,
      "MiB that each process may have on a device beyond its task's limit, "
      "for its context" },
    { "nodes", POLICY_WORD, P(nodes), 0, 0, node_words,
      "where nodes can, a task opens the device nodes of all devices, of its "
      "own, or of its own while its lease is active" },
    { "burst_margin", POLICY_NUMBER, P(burst_margin), -10, 10, NULL,
      "share by which a slower or dearer device that is free now must finish "
      "sooner than a better one later; below 0: may finish later" },
    { "price_hour", POLICY_NUMBER, P(price_hour), 0, 1e6, NULL,
      "money for an hour of a device whose model has no price" },
};
const struct policy_table policy_table = { fields, array_size(fields) };

static const struct policy_field model_fields[] = {
    { "model", POLICY_NAME, M(model), 0, 0, NULL,
      "as 'weir pool show' names it, whatever the case" },
    { "rating", POLICY_NUMBER, M(rating), 0.001, 1000, NULL,
      "speed; 1 is the slowest known" },
    { "price", POLICY_NUMBER, M(price), 0, 1e6, NULL,
      "money for an hour of it; price_hour unless said" },
};
const struct policy_table policy_model_table = {
    model_fields, array_size(model_fields)
};

/* suspend_cost alone is kept in seconds. */
static bool in_seconds(const struct policy_field *f)
{
    return f->at == P(suspend_cost_s) && f->kind == POLICY_TIME;
}

/* -- reading -------------------------------------------------------------- */

struct reading {
    policy_fault_f cb;
    void *arg;
    unsigned faults;
    int row;                           /* of models, or -1 */
};

static void tell(struct reading *r, const char *name, bool unknown,
                 const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

static void tell(struct reading *r, const char *name, bool unknown,
                 const char *fmt, va_list ap)
{
    autofree char *text = mem_vprintf(fmt, ap);
    struct policy_fault f = {
        .key = r->row < 0 ? name : "models",
        .row = r->row,
        .member = r->row < 0 ? NULL : name,
        .unknown = unknown,
        .text = text,
    };

    r->faults++;
    if (r->cb)
        r->cb(&f, r->arg);
}

static void fault(struct reading *r, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void fault(struct reading *r, const char *name, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell(r, name, false, fmt, ap);
    va_end(ap);
}

static void fault_key(struct reading *r, const char *name, const char *fmt,
                      ...) __attribute__((format(printf, 3, 4)));

static void fault_key(struct reading *r, const char *name, const char *fmt,
                      ...)
{
    va_list ap;

    va_start(ap, fmt);
    tell(r, name, true, fmt, ap);
    va_end(ap);
}

/* What stands there, for a message: short and without control characters. */
struct shown {
    char s[64];
};

static struct shown shown(const json_t *v)
{
    autofree char *text = json_is_string(v) ? mem_str(json_string_value(v)) :
                          json_dumps(v, JSON_ENCODE_ANY | JSON_FORM);
    struct shown q = { "" };
    size_t n = 0;

    for (const char *s = text ? text : "?"; *s && n < 40; s++)
        q.s[n++] = *s;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char) q.s[i] < ' ' || (unsigned char) q.s[i] >= 0x7f)
            q.s[i] = '?';
    return q;
}

static void expected(struct reading *r, const struct policy_field *f,
                     const json_t *v, const char *what)
{
    fault(r, f->name, "expected %s, got '%s'", what, shown(v).s);
}

static void read_time(struct reading *r, const struct policy_field *f,
                      const json_t *v, void *at)
{
    char what[128], least[32], most[32];
    uint64_t ms = 0;
    bool good = json_is_string(v) &&
                quantity_duration(json_string_value(v), &ms, NULL) == 0;

    if (json_is_number(v) && json_number_value(v) >= 0 &&
        json_number_value(v) <= f->max) {
        ms = (uint64_t) llround(json_number_value(v) * 1000);
        good = true;
    }
    if (!good || (double) ms < f->min * 1000 || (double) ms > f->max * 1000) {
        quantity_print_duration((uint64_t) f->min * 1000, least, sizeof least);
        quantity_print_duration((uint64_t) f->max * 1000, most, sizeof most);
        (void) snprintf(what, sizeof what, "a time such as 90s, 10m or 7d, "
                        "from %s to %s", least, most);
        expected(r, f, v, what);
    } else if (in_seconds(f)) {
        *(double *) at = (double) ms / 1000;
    } else {
        *(uint64_t *) at = ms;
    }
}

static void read_number(struct reading *r, const struct policy_field *f,
                        const json_t *v, void *at)
{
    double n = json_number_value(v);
    bool whole = f->kind == POLICY_COUNT;
    char what[64];

    if (json_is_number(v) && n >= f->min && n <= f->max &&
        (!whole || n == floor(n))) {
        if (whole)
            *(uint32_t *) at = (uint32_t) n;
        else
            *(double *) at = n;
        return;
    }
    (void) snprintf(what, sizeof what, "a %snumber from %g to %g",
                    whole ? "whole " : "", f->min, f->max);
    expected(r, f, v, what);
}

static void read_word(struct reading *r, const struct policy_field *f,
                      const json_t *v, void *at)
{
    const char *s = json_string_value(v);
    char list[128] = "";
    struct near near;

    near_init(&near, s ? s : "");
    for (unsigned i = 0; f->words[i]; i++) {
        size_t len = strlen(list);

        if (s && strcmp(f->words[i], s) == 0) {
            *(unsigned *) at = i;
            return;
        }
        near_try(&near, f->words[i]);
        (void) snprintf(list + len, sizeof list - len, "%s%s",
                        i == 0 ? "" : f->words[i + 1] ? ", " : " or ",
                        f->words[i]);
    }
    fault(r, f->name, "expected %s, got '%s'%s%s%s", list, shown(v).s,
          near.best ? "; did you mean '" : "", near.best ? near.best : "",
          near.best ? "'?" : "");
}

static void read_name(struct reading *r, const struct policy_field *f,
                      const json_t *v, void *at)
{
    enum { SIZE = sizeof(((struct policy_model *) 0)->model) };
    const char *s = json_string_value(v);
    size_t n = s ? strlen(s) : 0;

    for (size_t i = 0; i < n; i++)
        if ((unsigned char) s[i] < ' ' || s[i] == 0x7f)
            n = 0;
    if (n == 0 || n >= SIZE)
        expected(r, f, v, "a model of device, at most 31 bytes");
    else
        memcpy(at, s, n + 1);
}

static void read_field(struct reading *r, const struct policy_field *f,
                       const json_t *v, void *base)
{
    void *at = (char *) base + f->at;

    switch (f->kind) {
    case POLICY_TIME:
        read_time(r, f, v, at);
        break;
    case POLICY_NUMBER:
    case POLICY_COUNT:
        read_number(r, f, v, at);
        break;
    case POLICY_FLAG:
        if (json_is_boolean(v))
            *(bool *) at = json_is_true(v);
        else
            expected(r, f, v, "true or false");
        break;
    case POLICY_WORD:
        read_word(r, f, v, at);
        break;
    case POLICY_NAME:
        read_name(r, f, v, at);
        break;
    }
}

static const struct policy_field *find_field(const struct policy_table *t,
                                             const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return &t->fields[i];
    return NULL;
}

/* A key that is not known, with the nearest that is: of the table or `more`. */
static void unknown(struct reading *r, const struct policy_table *t,
                    const char *const *more, const char *key)
{
    autojson json_t *name = json_string(key);
    struct near near;

    near_init(&near, key);
    for (size_t i = 0; i < t->count; i++)
        near_try(&near, t->fields[i].name);
    for (; *more; more++)
        near_try(&near, *more);
    fault_key(r, key, "unknown key '%s'%s%s%s", shown(name).s,
              near.best ? "; did you mean '" : "",
              near.best ? near.best : "", near.best ? "'?" : "");
}

static void read_model(struct reading *r, const json_t *j, struct policy *p)
{
    static const char *const none[] = { NULL };
    struct policy_model *m = &p->models[p->nmodels];
    const char *key;
    json_t *v;

    if (!json_is_object(j)) {
        fault(r, NULL, "expected a mapping such as {model: H100, rating: 2.5, "
              "price: 3.2}, got '%s'", shown(j).s);
        return;
    }
    *m = (struct policy_model) { .rating = 1, .price = -1 };
    json_object_foreach((json_t *) (intptr_t) j, key, v) {
        const struct policy_field *f = find_field(&policy_model_table, key);

        if (f)
            read_field(r, f, v, m);
        else
            unknown(r, &policy_model_table, none, key);
    }
    if (!json_object_get(j, "model"))
        fault(r, NULL, "missing key 'model'");
    else if (m->model[0] && find_model(p, m->model))
        fault(r, "model", "'%s' has a row already", m->model);
    else
        p->nmodels++;
}

static void read_models(struct reading *r, const json_t *list,
                        struct policy *p)
{
    const json_t *j;
    size_t i;

    if (!json_is_array(list)) {
        fault(r, "models", "expected a list of {model, rating, price}, got "
              "'%s'", shown(list).s);
        return;
    }
    if (json_array_size(list) > POLICY_MODELS) {
        fault(r, "models", "%zu rows; at most %d are allowed",
              json_array_size(list), POLICY_MODELS);
        return;
    }
    json_array_foreach(list, i, j) {
        r->row = (int) i;
        read_model(r, j, p);
        r->row = -1;
    }
    for (uint32_t k = 0; k < p->nmodels; k++)
        if (p->models[k].price < 0)
            p->models[k].price = p->price_hour;
}

static void read_head(struct reading *r, const json_t *j)
{
    const json_t *version = json_object_get(j, "weir");
    const json_t *kind = json_object_get(j, "kind");

    if (!version)
        fault(r, NULL, "missing key 'weir'; a document starts with 'weir: 1'");
    else if (!json_is_integer(version) || json_integer_value(version) != 1)
        fault(r, "weir", "expected 1, the version of this form, got '%s'",
              shown(version).s);
    if (!kind)
        fault(r, NULL, "missing key 'kind'; expected 'kind: policy'");
    else if (!json_is_string(kind) ||
             strcmp(json_string_value(kind), "policy") != 0)
        fault(r, "kind", "expected policy, got '%s'", shown(kind).s);
}

unsigned policy_read(const json_t *j, struct policy *ret, policy_fault_f cb,
                     void *arg)
{
    static const char *const other[] = { "weir", "kind", "models", NULL };
    struct reading r = { .cb = cb, .arg = arg, .row = -1 };
    const json_t *models;
    struct policy p;
    const char *key;
    json_t *v;

    if (!json_is_object(j)) {
        fault(&r, NULL, "expected a mapping that starts with 'weir: 1'");
        return r.faults;
    }
    policy_init(&p);
    read_head(&r, j);
    json_object_foreach((json_t *) (intptr_t) j, key, v) {
        const struct policy_field *f = find_field(&policy_table, key);

        if (f)
            read_field(&r, f, v, &p);
        else if (strcmp(key, "weir") != 0 && strcmp(key, "kind") != 0 &&
                 strcmp(key, "models") != 0)
            unknown(&r, &policy_table, other, key);
    }
    models = json_object_get(j, "models");
    if (models)
        read_models(&r, models, &p);
    if (r.faults == 0)
        *ret = p;
    return r.faults;
}

static void collect(const struct policy_fault *f, void *arg)
{
    struct buf *b = arg;

    (void) buf_printf(b, "%s%s", b->len ? "\n" : "", f->key ? f->key : "");
    if (f->row >= 0)
        (void) buf_printf(b, "[%d]%s%s", f->row, f->member ? "." : "",
                          f->member ? f->member : "");
    (void) buf_printf(b, "%s%s", f->key ? ": " : "", f->text);
}

int policy_from_json(const json_t *j, struct policy *ret, struct err *err)
{
    autobuf struct buf b = BUF_INIT(65536);

    if (policy_read(j, ret, collect, &b) > 0)
        return err_set(err, EINVAL, "%s", buf_text(&b));
    return 0;
}

/* -- writing -------------------------------------------------------------- */

static json_t *number(double n)
{
    return n == floor(n) && fabs(n) < 1e15 ? json_integer((json_int_t) n) :
           json_real(n);
}

static void put_field(json_t *o, const struct policy_field *f,
                      const void *base)
{
    const void *at = (const char *) base + f->at;
    char text[32];

    switch (f->kind) {
    case POLICY_TIME:
        quantity_print_duration(in_seconds(f) ?
            (uint64_t) llround(*(const double *) at * 1000) :
            *(const uint64_t *) at, text, sizeof text);
        json_put_str(o, f->name, text);
        break;
    case POLICY_NUMBER:
        json_put(o, f->name, number(*(const double *) at));
        break;
    case POLICY_COUNT:
        json_put_u64(o, f->name, *(const uint32_t *) at);
        break;
    case POLICY_FLAG:
        json_put_bool(o, f->name, *(const bool *) at);
        break;
    case POLICY_WORD:
        json_put_str(o, f->name, f->words[*(const unsigned *) at]);
        break;
    case POLICY_NAME:
        json_put_str(o, f->name, at);
        break;
    }
}

json_t *policy_to_json(const struct policy *p)
{
    json_t *o = json_object(), *models = json_array();

    json_put_u64(o, "weir", 1);
    json_put_str(o, "kind", "policy");
    for (size_t i = 0; i < array_size(fields); i++)
        put_field(o, &fields[i], p);
    for (uint32_t k = 0; k < p->nmodels; k++) {
        json_t *m = json_object();

        for (size_t i = 0; i < array_size(model_fields); i++)
            put_field(m, &model_fields[i], &p->models[k]);
        (void) json_array_append_new(models, m);
    }
    json_put(o, "models", models);
    return o;
}

#include "gpu/health_rules.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/near.h"
#include "base/quantity.h"
#include "gpu/nvml.h"
#include "gpu/telemetry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS (UINT64_C(3600) * 1000)
#define DAY_MS (24 * HOUR_MS)

/* -- words ---------------------------------------------------------------- */

static const char *const actions[HEALTH_ACTION_COUNT] = {
#define X(name, text) [HEALTH_##name] = text,
    HEALTH_ACTIONS(X)
#undef X
};

static const struct health_about abouts[HEALTH_WHEN_COUNT] = {
#define X(id, text, s, o, m, u, w) [HEALTH_WHEN_##id] = { \
        .name = (text), .sort = HEALTH_##s, .of = (o), .max = (m), \
        .unit = (u), .words = (w) },
    HEALTH_WHENS(X)
#undef X
};

const char *health_action_name(enum health_action a)
{
    assert(a < HEALTH_ACTION_COUNT);
    return actions[a];
}

const struct health_about *health_about(enum health_when w)
{
    assert(w < HEALTH_WHEN_COUNT);
    return &abouts[w];
}

/* -- faults --------------------------------------------------------------- */

/* A value as it stands in the document, without what a terminal would mind. */
struct shown {
    char s[44];
};

static struct shown shown(const json_t *v)
{
    autofree char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT |
                                        JSON_ENSURE_ASCII);
    struct shown out;

    (void) snprintf(out.s, sizeof out.s, "%.40s%s", text ? text : "?",
                    text && strlen(text) > 40 ? "..." : "");
    return out;
}

static int expected(const json_t *v, struct err *err, const char *what)
{
    return err_set(err, EINVAL, "expected %s, got %s", what, shown(v).s);
}

static int no_word(const json_t *v, const struct near *n, struct err *err,
                   const char *what)
{
    return err_set(err, EINVAL, "%s is no %s%s%s%s", shown(v).s, what,
                   n->best ? "; did you mean '" : "", n->best ? n->best : "",
                   n->best ? "'?" : "");
}

/* -- members of a rule ---------------------------------------------------- */

typedef int (*read_f)(const json_t *v, struct health_rule *r,
                      struct err *err);

static int read_name(const json_t *v, struct health_rule *r, struct err *err)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    const char *s = json_string_value(v);

    if (!s || !s[0] || strlen(s) >= sizeof r->name ||
        s[strspn(s, allowed)])
        return expected(v, err, "1 to 31 of a-z, 0-9 and '-'");
    (void) snprintf(r->name, sizeof r->name, "%s", s);
    return 0;
}

static int read_when(const json_t *v, struct health_rule *r, struct err *err)
{
    const char *s = json_string_value(v);
    struct near near;

    if (!s)
        return expected(v, err, "a condition such as \"temperature\"");
    near_init(&near, s);
    for (unsigned i = 0; i < HEALTH_WHEN_COUNT; i++) {
        if (!strcmp(s, abouts[i].name)) {
            r->when = (enum health_when) i;
            return 0;
        }
        near_try(&near, abouts[i].name);
    }
    return no_word(v, &near, err, "condition");
}

static int read_action(const json_t *v, struct health_rule *r,
                       struct err *err)
{
    const char *s = json_string_value(v);
    struct near near;

    if (!s)
        return expected(v, err, "an action such as \"cordon\"");
    near_init(&near, s);
    for (unsigned i = HEALTH_NOTE; i < HEALTH_ACTION_COUNT; i++) {
        if (!strcmp(s, actions[i])) {
            r->action = (enum health_action) i;
            return 0;
        }
        near_try(&near, actions[i]);
    }
    return no_word(v, &near, err, "action");
}

static int read_time(const json_t *v, uint64_t min_ms, uint64_t max_ms,
                     const char *what, uint64_t *ret, struct err *err)
{
    const char *s = json_string_value(v);
    uint64_t ms = 0;

    if (!s || quantity_duration(s, &ms, NULL) < 0 || ms < min_ms ||
        ms > max_ms)
        return expected(v, err, what);
    *ret = ms;
    return 0;
}

static int read_for(const json_t *v, struct health_rule *r, struct err *err)
{
    return read_time(v, 0, 7 * DAY_MS, "a time such as \"30s\", at most 7d",
                     &r->for_ms, err);
}

static int read_within(const json_t *v, struct health_rule *r,
                       struct err *err)
{
    return read_time(v, 1, 30 * DAY_MS,
                     "a time such as \"1h\", from 1ms to 30d", &r->within_ms,
                     err);
}

static int read_probation(const json_t *v, struct health_rule *r,
                          struct err *err)
{
    return read_time(v, 0, 30 * DAY_MS, "a time such as \"10m\", at most 30d",
                     &r->probation_ms, err);
}

static int read_number(const json_t *v, uint64_t max, uint64_t *ret,
                       struct err *err)
{
    char what[64];

    (void) snprintf(what, sizeof what, "a whole number from 1 to %llu",
                    (unsigned long long) max);
    if (!json_is_integer(v) || json_integer_value(v) < 1 ||
        (uint64_t) json_integer_value(v) > max)
        return expected(v, err, what);
    *ret = (uint64_t) json_integer_value(v);
    return 0;
}

/* Bytes may have a unit. */
static int read_level(const json_t *v, const struct health_rule *r,
                      uint64_t *ret, struct err *err)
{
    const struct health_about *a = health_about(r->when);
    uint64_t bytes = 0;

    if (a->sort != HEALTH_LEAK || !json_is_string(v))
        return read_number(v, a->max, ret, err);
    if (quantity_bytes(json_string_value(v), &bytes, NULL) < 0 || !bytes)
        return expected(v, err, "bytes such as \"512Mi\", at least 1");
    *ret = bytes;
    return 0;
}

static int read_limit(const json_t *v, struct health_rule *r, struct err *err)
{
    return read_level(v, r, &r->limit, err);
}

static int read_clear(const json_t *v, struct health_rule *r, struct err *err)
{
    return read_level(v, r, &r->clear, err);
}

static int read_count(const json_t *v, struct health_rule *r, struct err *err)
{
    uint64_t n = 0;
    int rc = read_number(v, HEALTH_COUNT_MAX, &n, err);

    r->count = (unsigned) n;
    return rc;
}

static int read_until(const json_t *v, struct health_rule *r, struct err *err)
{
    const char *s = json_string_value(v);

    if (!s || (strcmp(s, "reset") != 0 && strcmp(s, "quiet") != 0))
        return expected(v, err, "\"quiet\" or \"reset\"");
    r->until_reset = s[0] == 'r';
    return 0;
}

static int read_xids(const json_t *v, struct health_rule *r, struct err *err)
{
    const json_t *x;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) < 1 ||
        json_array_size(v) > HEALTH_XIDS)
        return expected(v, err, "a list of 1 to 64 numbers");
    json_array_foreach(v, i, x) {
        uint64_t n = 0;
        int rc = read_number(x, HEALTH_XID_MAX, &n, err);

        if (rc < 0)
            return err_prefix(err, rc, "[%zu]", i);
        for (unsigned k = 0; k < r->nxids; k++)
            if (r->xids[k] == n)
                return err_set(err, EINVAL, "[%zu]: %llu is there already", i,
                               (unsigned long long) n);
        r->xids[r->nxids++] = (uint16_t) n;
    }
    return 0;
}

#define SORT(s) (1u << HEALTH_##s)
#define EVENTS (SORT(XID) | SORT(GROWTH) | SORT(RELOAD))

/* In the order in which they are written. */
static const struct member {
    const char *name;
    unsigned sorts;                    /* whose rules have it */
    read_f read;
} members[] = {
    { "name", ~0u, read_name },
    { "when", ~0u, read_when },
    { "xids", SORT(XID), read_xids },
    { "limit", SORT(VALUE) | SORT(LEAK), read_limit },
    { "clear", SORT(VALUE) | SORT(LEAK), read_clear },
    { "for", ~EVENTS, read_for },
    { "count", EVENTS, read_count },
    { "within", EVENTS, read_within },
    { "until", SORT(XID) | SORT(GROWTH), read_until },
    { "action", ~0u, read_action },
    { "probation", ~0u, read_probation },
};

static bool has(const struct member *m, const struct health_rule *r)
{
    return m->sorts >> health_about(r->when)->sort & 1;
}

static const struct member *find(const char *name)
{
    for (size_t i = 0; i < array_size(members); i++)
        if (!strcmp(members[i].name, name))
            return &members[i];
    return NULL;
}

/* A name that no rule has, or none of this condition. */
static int stranger(const char *key, const struct health_rule *r,
                    struct err *err)
{
    autojson json_t *name = json_string(key);
    struct near near;

    if (find(key))
        return err_set(err, EINVAL, "a rule on '%s' has no '%s'",
                       health_about(r->when)->name, key);
    near_init(&near, key);
    for (size_t i = 0; i < array_size(members); i++)
        if (has(&members[i], r))
            near_try(&near, members[i].name);
    return no_word(name, &near, err, "member of a rule");
}

/* -- rules ---------------------------------------------------------------- */

static int need(const json_t *j, const char *key, struct err *err)
{
    if (json_object_get(j, key))
        return 0;
    return err_set(err, EINVAL, "'%s' is missing", key);
}

/* What one member alone does not show. */
static int check_rule(const json_t *j, struct health_rule *r, struct err *err)
{
    const struct health_about *a = health_about(r->when);
    int rc = need(j, "name", err);

    if (!rc)
        rc = need(j, "action", err);
    if (!rc && a->sort == HEALTH_XID)
        rc = need(j, "xids", err);
    if (!rc && EVENTS >> a->sort & 1)
        rc = need(j, "within", err);
    if (!rc && (a->sort == HEALTH_VALUE || a->sort == HEALTH_LEAK)) {
        rc = need(j, "limit", err);
        if (!r->clear)
            r->clear = r->limit;
    }
    if (rc < 0)
        return rc;
    if (r->clear > r->limit)
        return err_set(err, EINVAL, "clear: expected at most the limit, %llu,"
                       " got %llu", (unsigned long long) r->limit,
                       (unsigned long long) r->clear);
    return 0;
}

static int read_rule(const json_t *j, struct health_rule *ret,
                     struct err *err)
{
    struct health_rule r = { .probation_ms = HOUR_MS / 6 };
    const char *key;
    json_t *v;
    int rc;

    if (!json_is_object(j))
        return expected(j, err, "an object with name, when and action");
    rc = need(j, "when", err);
    if (!rc) {
        rc = read_when(json_object_get(j, "when"), &r, err);
        (void) (rc < 0 && err_prefix(err, rc, "when"));
    }
    if (rc < 0)
        return rc;
    if (EVENTS >> health_about(r.when)->sort & 1)
        r.count = 1;
    json_object_foreach((json_t *) (intptr_t) j, key, v) {
        const struct member *m = find(key);

        if (!m || !has(m, &r))
            return stranger(key, &r, err);
        rc = m->read(v, &r, err);
        if (rc < 0)
            return err_prefix(err, rc, "%s", key);
    }
    rc = check_rule(j, &r, err);
    if (!rc)
        *ret = r;
    return rc;
}

static int read_list(const json_t *list, struct health_rules *ret,
                     struct err *err)
{
    const json_t *j;
    size_t i;

    if (!json_is_array(list))
        return err_set(err, EINVAL, "rules: expected a list of rules");
    if (json_array_size(list) > HEALTH_RULES)
        return err_set(err, EINVAL, "rules: %zu; at most %d are allowed",
                       json_array_size(list), HEALTH_RULES);
    json_array_foreach(list, i, j) {
        struct health_rule *r = &ret->all[ret->n];
        int rc = read_rule(j, r, err);

        for (unsigned k = 0; !rc && k < ret->n; k++)
            if (!strcmp(ret->all[k].name, r->name))
                rc = err_set(err, EINVAL, "name: '%s' is the name of"
                             " rules[%u], too", r->name, k);
        if (rc < 0)
            return err_prefix(err, rc, "rules[%zu]", i);
        ret->n++;
    }
    return 0;
}

static int read_document(const json_t *j, struct health_rules *ret,
                         struct err *err)
{
    static const char *const keys[] = { "weir", "kind", "rules" };
    const char *key;
    json_t *v;

    if (!json_is_object(j))
        return expected(j, err, "an object with weir, kind and rules");
    for (size_t i = 0; i < array_size(keys); i++)
        if (need(j, keys[i], err) < 0)
            return -EINVAL;
    json_object_foreach((json_t *) (intptr_t) j, key, v) {
        autojson json_t *name = json_string(key);
        struct near near;

        near_init(&near, key);
        for (size_t i = 0; i < array_size(keys); i++)
            near_try(&near, keys[i]);
        if (!near.best || strcmp(near.best, key) != 0)
            return no_word(name, &near, err, "member of the document");
    }
    v = json_object_get(j, "weir");
    if (!json_is_integer(v) || json_integer_value(v) != 1)
        return err_set(err, EINVAL, "weir: expected 1, got %s", shown(v).s);
    v = json_object_get(j, "kind");
    if (strcmp(json_get_str(j, "kind", ""), "health") != 0)
        return err_set(err, EINVAL, "kind: expected \"health\", got %s",
                       shown(v).s);
    return read_list(json_object_get(j, "rules"), ret, err);
}

/* The parser quotes the document as it is, bytes of half a character too. */
static void make_line(struct err *err)
{
    for (char *p = err ? err->text : NULL; p && *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
}

int health_rules_read(const char *text, size_t len, struct health_rules *ret,
                      struct err *err)
{
    autofree struct health_rules *r = mem_new(sizeof *r);
    autojson json_t *j = NULL;
    int rc = json_read(text, len, HEALTH_DOC_MAX, &j, err);

    if (rc < 0) {
        make_line(err);
        return -EINVAL;
    }
    rc = read_document(j, r, err);
    if (!rc)
        *ret = *r;
    return rc;
}

/* -- as a document -------------------------------------------------------- */

static void put_time(json_t *o, const char *key, uint64_t ms)
{
    char text[32];

    quantity_print_duration(ms, text, sizeof text);
    json_put_str(o, key, text);
}

static void put_level(json_t *o, const char *key, const struct health_rule *r,
                      uint64_t v)
{
    char text[32];

    if (health_about(r->when)->sort != HEALTH_LEAK) {
        json_put_u64(o, key, v);
        return;
    }
    quantity_print_bytes(v, text, sizeof text);
    json_put_str(o, key, text);
}

static json_t *rule_json(const struct health_rule *r)
{
    json_t *o = json_object();
    json_t *xids = json_array();

    for (unsigned i = 0; i < r->nxids; i++)
        (void) json_array_append_new(xids, json_integer(r->xids[i]));
    json_put_str(o, "name", r->name);
    json_put_str(o, "when", health_about(r->when)->name);
    if (r->nxids)
        json_put(o, "xids", xids);
    else
        json_decref(xids);
    if (r->limit) {
        put_level(o, "limit", r, r->limit);
        put_level(o, "clear", r, r->clear);
    }
    if (r->within_ms) {
        json_put_u64(o, "count", r->count);
        put_time(o, "within", r->within_ms);
    } else {
        put_time(o, "for", r->for_ms);
    }
    if (r->until_reset)
        json_put_str(o, "until", "reset");
    json_put_str(o, "action", actions[r->action]);
    put_time(o, "probation", r->probation_ms);
    return o;
}

json_t *health_rules_json(const struct health_rules *r)
{
    json_t *o = json_object();
    json_t *list = json_array();

    for (unsigned i = 0; i < r->n; i++)
        (void) json_array_append_new(list, rule_json(&r->all[i]));
    json_put_u64(o, "weir", 1);
    json_put_str(o, "kind", "health");
    json_put(o, "rules", list);
    return o;
}

#include "engine/wire.h"

#include "base/base64.h"
#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Two tables hold the whole protocol: what a member is, and which members a
 * kind of message has.  Reading, writing and clearing walk them, so that a
 * member cannot be written and then not be read.
 */
enum type { KEY, U32, U64, I64, INT, BOOL, TEXT, NAME, RUNNER, STRING, LEASES,
            TASK, SAID, SAMPLE, HEALTH, STRAYS, BYTES };

struct field {
    const char *name;
    enum type type;
    size_t offset;
    int64_t min, max;          /* numbers: range; texts: size of the array */
};

enum {
    COMMAND_MAX = 64 * 1024, SIGNAL_MAX = 64, DEVICES_MAX = 4096,
    SAID_MAX = 16, SAID_NAME = 31,     /* metrics, and bytes of a name */
    SAMPLE_MAX = 64, SAMPLE_NUMBERS = 64, SAMPLE_NAME = 47,
    RULES_MAX = 64, RULE_NAME = 31, RULE_WORD = 15, RULE_TEXT = 511,
    EVIDENCE_MAX = 16,                 /* members, and numbers of one */
    STRAY_WORD = 15, STRAY_KEY = 47,
    HEAD_MAX = 1024,                   /* bytes of a hello before its leases */
};

#define AT(member) offsetof(struct wire_msg, member)
#define ROOM(member) 0, (int64_t) sizeof((struct wire_msg *) 0)->member
#define FIELDS(X) \
    X(KEY_, "key", KEY, AT(key), 0, 0) \
    X(GEN, "gen", U32, AT(gen), 0, UINT32_MAX) \
    X(EPOCH, "epoch", U64, AT(epoch), 0, INT64_MAX) \
    X(V, "v", U32, AT(v), 0, UINT32_MAX) \
    X(BLOCK, "block", RUNNER, AT(block), ROOM(block)) \
    X(TOKEN, "token", TEXT, AT(token), ROOM(token)) \
    X(PID, "pid", I64, AT(pid), 0, INT32_MAX) \
    X(ADDRESS, "address", TEXT, AT(address), ROOM(address)) \
    X(LEASES_, "leases", LEASES, AT(leases), 0, 0) \
    X(OK, "ok", BOOL, AT(ok), 0, 0) \
    X(FORCE, "force", BOOL, AT(force), 0, 0) \
    X(AWAKE, "awake", BOOL, AT(awake), 0, 0) \
    X(CAUSE, "cause", NAME, AT(cause), ROOM(cause)) \
    X(STATUS, "status", INT, AT(status), -SIGNAL_MAX, 255) \
    X(STARTED_AT, "at", U64, AT(started_ms), 0, INT64_MAX) \
    X(STARTED_, "started", U64, AT(started_ms), 0, INT64_MAX) \
    X(ENDED_, "ended", U64, AT(ended_ms), 0, INT64_MAX) \
    X(CPU, "cpu_ms", U64, AT(cpu_ms), 0, INT64_MAX) \
    X(RSS, "rss", U64, AT(rss_bytes), 0, INT64_MAX) \
    X(GATE_, "gate", NAME, AT(gate), ROOM(gate)) \
    X(WANTING, "wanting", U32, AT(wanting), 0, UINT32_MAX) \
    X(INSIDE, "inside", U32, AT(inside), 0, UINT32_MAX) \
    X(LAUNCHES, "launches", U64, AT(launches), 0, INT64_MAX) \
    X(COPIES, "copies", U64, AT(copies), 0, INT64_MAX) \
    X(SYNCS, "syncs", U64, AT(syncs), 0, INT64_MAX) \
    X(OTHERS, "others", U64, AT(others), 0, INT64_MAX) \
    X(USED, "used", U64, AT(used_bytes), 0, INT64_MAX) \
    X(TOOK, "ms", U64, AT(took_ms), 0, INT64_MAX) \
    X(REASON, "reason", NAME, AT(reason), ROOM(reason)) \
    X(DEVICES, "devices", STRING, AT(devices), 0, DEVICES_MAX) \
    X(SIGNAL, "signal", INT, AT(signal), 0, SIGNAL_MAX) \
    X(GRACE, "grace_ms", U64, AT(grace_ms), 0, INT64_MAX) \
    X(COMMAND, "command", STRING, AT(command), 0, COMMAND_MAX) \
    X(TEXT_, "text", TEXT, AT(text), ROOM(text)) \
    X(TASK_, "task", TASK, AT(task), 0, 0) \
    X(SAID_, "said", SAID, AT(said), 0, 0) \
    X(SAMPLE_, "sample", SAMPLE, AT(sample), 0, 0) \
    X(HEALTH_, "health", HEALTH, AT(health), 0, 0) \
    X(STRAYS_, "strays", STRAYS, AT(strays), 0, 0) \
    X(OFFSET, "offset", U64, AT(offset), 0, INT64_MAX) \
    X(DATA, "data", BYTES, AT(bytes), 0, 0)

enum {
#define X(id, ...) N_##id,
    FIELDS(X)
#undef X
    FIELD_COUNT
};
#define BIT(id) (UINT64_C(1) << N_##id)
_Static_assert(FIELD_COUNT <= 64, "a bit for each");

static const struct field fields[FIELD_COUNT] = {
#define X(id, ...) [N_##id] = { __VA_ARGS__ },
    FIELDS(X)
#undef X
};

#define LEASE (BIT(KEY_) | BIT(GEN) | BIT(EPOCH))

static const struct {
    const char *name;
    uint64_t must, may;        /* members */
} kinds[WIRE_KIND_COUNT] = {
#define X(id, text) [WIRE_##id].name = (text),
    WIRE_KINDS(X)
#undef X
    [WIRE_HELLO].must = BIT(V) | BIT(BLOCK) | BIT(TOKEN) | BIT(PID) |
                        BIT(LEASES_),
    [WIRE_HELLO].may = BIT(ADDRESS),
    [WIRE_CLAIM].must = LEASE,
    [WIRE_STARTED].must = LEASE | BIT(PID) | BIT(STARTED_AT),
    [WIRE_PROGRESS].must = LEASE | BIT(STARTED_AT) | BIT(SAID_),
    [WIRE_ENDED].must = LEASE | BIT(CAUSE) | BIT(STATUS) | BIT(STARTED_) |
                        BIT(ENDED_),
    [WIRE_ENDED].may = BIT(CPU) | BIT(RSS),
    [WIRE_ACTIVITY].must = LEASE | BIT(STARTED_AT) | BIT(GATE_),
    [WIRE_ACTIVITY].may = BIT(WANTING) | BIT(INSIDE) | BIT(LAUNCHES) |
                          BIT(COPIES) | BIT(SYNCS) | BIT(OTHERS) | BIT(USED),
    [WIRE_GATE].must = LEASE | BIT(GATE_),
    [WIRE_SUSPEND].must = LEASE,
    [WIRE_SUSPEND].may = BIT(GRACE) | BIT(AWAKE),
    [WIRE_RESUME].must = LEASE,
    [WIRE_RESUME].may = BIT(DEVICES),
    [WIRE_MOVED].must = LEASE | BIT(OK) | BIT(GATE_) | BIT(TOOK),
    [WIRE_MOVED].may = BIT(USED) | BIT(REASON) | BIT(TEXT_),
    [WIRE_TELEMETRY].must = BIT(STARTED_AT) | BIT(SAMPLE_),
    [WIRE_TELEMETRY].may = BIT(STRAYS_),
    [WIRE_HEALTH].must = BIT(STARTED_AT) | BIT(HEALTH_),
    [WIRE_OUTPUT].must = LEASE | BIT(OFFSET) | BIT(DATA),
    [WIRE_HEARD].must = LEASE | BIT(OFFSET),
    [WIRE_WELCOME].must = BIT(V) | BIT(EPOCH),
    [WIRE_ORDER].must = LEASE | BIT(TASK_),
    [WIRE_GRANT].must = LEASE | BIT(OK),
    [WIRE_STOP].must = LEASE,
    [WIRE_STOP].may = BIT(SIGNAL) | BIT(GRACE) | BIT(COMMAND) | BIT(FORCE),
    [WIRE_ACK].must = LEASE,
    [WIRE_DROP].must = BIT(KEY_),
    [WIRE_ERROR].must = BIT(TEXT_),
};

static const char *const lease_states[] = {
    "new", "claimed", "running", "ended"
};

void lease_key_print(const struct lease_key *k, char *buf, size_t size)
{
    int n = snprintf(buf, size, "w%" PRIu64 "/%" PRIu32 ".%" PRIu32,
                     k->workload, k->task, k->rank);

    assert(n > 0 && (size_t) n < size);
}

/* Decimal without sign or leading zero; *s moves behind it. */
static bool number(const char **s, uint64_t max, uint64_t *ret)
{
    const char *p = *s;
    uint64_t v = 0;

    if (!isdigit((unsigned char) *p) ||
        (*p == '0' && isdigit((unsigned char) p[1])))
        return false;
    for (; isdigit((unsigned char) *p); p++) {
        unsigned digit = (unsigned) (*p - '0');

        if (v > (max - digit) / 10)
            return false;
        v = v * 10 + digit;
    }
    *s = p;
    *ret = v;
    return true;
}

int lease_key_parse(const char *s, struct lease_key *ret, struct err *err)
{
    uint64_t workload = 0, task = 0, rank = 0;
    const char *p = s;

    if (*p++ != 'w' || !number(&p, INT64_MAX, &workload) ||
        *p++ != '/' || !number(&p, UINT32_MAX, &task) ||
        *p++ != '.' || !number(&p, UINT32_MAX, &rank) || *p)
        return err_set(err, EPROTO,
                       "'%.40s' is no lease key; expected the form w12/3.0",
                       s);
    *ret = (struct lease_key) { workload, (uint32_t) task, (uint32_t) rank };
    return 0;
}

/* Names become parts of paths and log lines: a small alphabet, not empty, no
 * dot in front.
 */
static bool name_valid(const char *s, size_t n)
{
    if (!isalnum((unsigned char) *s))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char) s[i]) && !strchr("._-", s[i]))
            return false;
    return true;
}

/* A name, or two with a slash between: a block of a pool of many. */
static bool place_valid(const char *s)
{
    size_t n = strcspn(s, "/");

    return name_valid(s, n) &&
           (!s[n] || name_valid(s + n + 1, strlen(s + n + 1)));
}

static int name_no_runner(const char *s, struct err *err)
{
    return err_set(err, EPROTO, "'%.80s' is no name of a runner; expected a "
                   "block, or BLOCK#w12/3.0#2@1", s);
}

void runner_name_print(const struct runner_name *n, char *buf, size_t size)
{
    char key[48] = "";
    int len;

    if (n->alone)
        lease_key_print(&n->key, key, sizeof key);
    len = n->alone ? snprintf(buf, size, "%s#%s#%" PRIu32 "@%" PRIu64,
                              n->block, key, n->gen, n->epoch)
                   : snprintf(buf, size, "%s", n->block);
    assert(len > 0 && (size_t) len < size);
}

int runner_name_parse(const char *s, struct runner_name *ret, struct err *err)
{
    struct runner_name n = { .alone = strchr(s, '#') != NULL };
    size_t block = strcspn(s, "#"), key = 0;
    char text[48];
    uint64_t gen = 0;
    const char *p;

    if (block >= sizeof n.block)
        return name_no_runner(s, err);
    memcpy(n.block, s, block);
    if (!place_valid(n.block))
        return name_no_runner(s, err);
    if (n.alone) {
        key = strcspn(s + block + 1, "#");
        p = s + block + 1 + key;
        (void) snprintf(text, sizeof text, "%.*s", (int) key, s + block + 1);
        if (key >= sizeof text || lease_key_parse(text, &n.key, NULL) < 0 ||
            *p++ != '#' || !number(&p, UINT32_MAX, &gen) || *p++ != '@' ||
            !number(&p, INT64_MAX, &n.epoch) || *p)
            return name_no_runner(s, err);
        n.gen = (uint32_t) gen;
    }
    *ret = n;
    return 0;
}

static int wrong(const char *kind, const struct field *f, const char *want,
                 struct err *err)
{
    return err_set(err, EPROTO, "%s: '%s' must be %s", kind, f->name, want);
}

static int read_number(const char *kind, const struct field *f,
                       const json_t *v, void *at, struct err *err)
{
    json_int_t n = json_integer_value(v);

    if (!json_is_integer(v) || n < f->min || n > f->max)
        return err_set(err, EPROTO,
                       "%s: '%s' must be a whole number from %" PRId64
                       " to %" PRId64, kind, f->name, f->min, f->max);
    if (f->type == U32)
        *(uint32_t *) at = (uint32_t) n;
    else if (f->type == U64)
        *(uint64_t *) at = (uint64_t) n;
    else if (f->type == I64)
        *(int64_t *) at = n;
    else
        *(int *) at = (int) n;
    return 0;
}

static int read_text(const char *kind, const struct field *f, const json_t *v,
                     void *at, struct err *err)
{
    const char *s = json_string_value(v);
    struct runner_name runner;

    if (!s)
        return wrong(kind, f, "a text", err);
    if (strlen(s) != json_string_length(v) ||
        json_string_length(v) >= (size_t) f->max)
        return err_set(err, EPROTO,
                       "%s: '%s' must be shorter than %" PRId64
                       " bytes and without NUL", kind, f->name, f->max);
    if (f->type == NAME && !name_valid(s, strlen(s)))
        return wrong(kind, f, "a name of letters, digits, '.', '_', '-'",
                     err);
    if (f->type == RUNNER && runner_name_parse(s, &runner, err) < 0)
        return err_prefix(err, -EPROTO, "%s: '%s'", kind, f->name);
    if (f->type == STRING)
        *(char **) at = mem_str(s);
    else
        memcpy(at, s, strlen(s) + 1);
    return 0;
}

static int read_key(const char *kind, const struct field *f, const json_t *v,
                    struct lease_key *at, struct err *err)
{
    const char *s = json_string_value(v);

    if (!s)
        return wrong(kind, f, "a lease key", err);
    return lease_key_parse(s, at, err);
}

static int read_lease(const json_t *v, struct wire_lease *ret,
                      struct err *err)
{
    const char *state = json_get_str(v, "state", "");
    size_t i = 0;
    int rc = read_key("hello", &fields[N_KEY_], json_object_get(v, "key"),
                      &ret->key, err);

    if (rc >= 0)
        rc = read_number("hello", &fields[N_GEN], json_object_get(v, "gen"),
                         &ret->gen, err);
    if (rc >= 0)
        rc = read_number("hello", &fields[N_EPOCH],
                         json_object_get(v, "epoch"), &ret->epoch, err);
    if (rc < 0)
        return rc;
    while (i < array_size(lease_states) &&
           strcmp(lease_states[i], state) != 0)
        i++;
    if (i == array_size(lease_states))
        return err_set(err, EPROTO, "hello: '%.20s' is no state of a lease",
                       state);
    (void) snprintf(ret->state, sizeof ret->state, "%s", lease_states[i]);
    v = json_object_get(v, "gate");
    return v ? read_text("hello", &fields[N_GATE_], v, ret->gate, err) : 0;
}

static int read_leases(const struct field *f, const json_t *v,
                       struct wire_msg *m, struct err *err)
{
    if (!json_is_array(v))
        return wrong("hello", f, "a list", err);
    m->leases = mem_array(json_array_size(v), sizeof *m->leases);
    for (; m->nleases < json_array_size(v); m->nleases++) {
        int rc = read_lease(json_array_get(v, m->nleases),
                            &m->leases[m->nleases], err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_sample(const char *kind, const struct field *f,
                       const json_t *v, json_t **at, struct err *err)
{
    const char *name;
    const json_t *d;
    json_t *value;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) > SAMPLE_MAX)
        return wrong(kind, f, "a list of at most 64 devices", err);
    json_array_foreach(v, i, d) {
        size_t len = strlen(json_get_str(d, "uuid", ""));

        if (len < 1 || len > SAMPLE_NAME ||
            json_object_size(d) > SAMPLE_NUMBERS)
            return wrong(kind, f, "of devices with a UUID", err);
        json_object_foreach((json_t *) (uintptr_t) d, name, value)
            if (strlen(name) > SAMPLE_NAME ||
                (!json_is_integer(value) && strcmp(name, "uuid") != 0))
                return wrong(kind, f, "with numbers by short names", err);
    }
    *at = json_deep_copy(v);
    return *at ? 0 : err_set(err, ENOMEM, "out of memory");
}

static bool word_fits(const json_t *o, const char *key, size_t least,
                      size_t most)
{
    const json_t *v = json_object_get(o, key);
    size_t len = strlen(json_get_str(o, key, ""));

    return (json_is_string(v) || (!v && least == 0)) && len >= least &&
           len <= most;
}

static bool numbers_only(const json_t *list)
{
    const json_t *v;
    size_t i;

    if (!json_is_array(list) || json_array_size(list) > EVIDENCE_MAX)
        return false;
    json_array_foreach(list, i, v)
        if (!json_is_integer(v))
            return false;
    return true;
}

/* It becomes part of an event: bounded, and numbers alone. */
static bool evidence_fits(const json_t *evidence)
{
    const char *name;
    json_t *v;

    if (evidence && (!json_is_object(evidence) ||
                     json_object_size(evidence) > EVIDENCE_MAX))
        return false;
    json_object_foreach((json_t *) (uintptr_t) evidence, name, v)
        if (strlen(name) > RULE_NAME ||
            (!json_is_integer(v) && !numbers_only(v)))
            return false;
    return true;
}

static bool rules_fit(const json_t *rules)
{
    const json_t *r;
    size_t i;

    if (!json_is_array(rules) || json_array_size(rules) > RULES_MAX)
        return false;
    json_array_foreach(rules, i, r)
        if (!word_fits(r, "rule", 1, RULE_NAME) ||
            !word_fits(r, "state", 1, RULE_WORD) ||
            !word_fits(r, "action", 1, RULE_WORD) ||
            !word_fits(r, "text", 0, RULE_TEXT) ||
            !evidence_fits(json_object_get(r, "evidence")))
            return false;
    return true;
}

static int read_health(const char *kind, const struct field *f,
                       const json_t *v, json_t **at, struct err *err)
{
    const json_t *d;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) > SAMPLE_MAX)
        return wrong(kind, f, "a list of at most 64 devices", err);
    json_array_foreach(v, i, d) {
        if (!word_fits(d, "uuid", 1, SAMPLE_NAME))
            return wrong(kind, f, "of devices with a UUID", err);
        if (!rules_fit(json_object_get(d, "rules")))
            return wrong(kind, f, "with rules that have a name, a state and "
                         "an action", err);
    }
    *at = json_deep_copy(v);
    return *at ? 0 : err_set(err, ENOMEM, "out of memory");
}

static bool number_fits(const json_t *o, const char *key, json_int_t least,
                        json_int_t most)
{
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);

    return v ? json_is_integer(v) && n >= least && n <= most : least == 0;
}

static bool stray_fits(const json_t *s)
{
    return word_fits(s, "kind", 1, STRAY_WORD) &&
           word_fits(s, "uuid", 1, SAMPLE_NAME) &&
           word_fits(s, "comm", 0, WIRE_COMM) &&
           word_fits(s, "key", 0, STRAY_KEY) &&
           number_fits(s, "pid", 1, INT32_MAX) &&
           number_fits(s, "bytes", 1, INT64_MAX) &&
           number_fits(s, "limit", 0, INT64_MAX) &&
           number_fits(s, "processes", 0, UINT32_MAX) &&
           number_fits(s, "gen", 0, UINT32_MAX);
}

/* It becomes part of an event: bounded. */
static int read_strays(const char *kind, const struct field *f,
                       const json_t *v, json_t **at, struct err *err)
{
    const json_t *s;
    size_t i;

    if (!json_is_array(v) || json_array_size(v) > WIRE_STRAYS)
        return wrong(kind, f, "a list of at most 64 processes", err);
    json_array_foreach(v, i, s)
        if (!stray_fits(s))
            return wrong(kind, f, "of processes with a kind, a device's UUID, "
                         "a pid and bytes", err);
    *at = json_deep_copy(v);
    return *at ? 0 : err_set(err, ENOMEM, "out of memory");
}

/* What a task says becomes part of an event: bounded, and numbers alone. */
static int read_said(const char *kind, const struct field *f, const json_t *v,
                     json_t **at, struct err *err)
{
    const json_t *metrics = json_object_get(v, "metrics");
    const json_t *done = json_object_get(v, "progress");
    const char *name;
    json_t *number;

    if (!json_is_object(v) || (metrics && !json_is_object(metrics)) ||
        json_object_size(metrics) > SAID_MAX)
        return wrong(kind, f, "an object of at most 16 metrics", err);
    if (done && (!json_is_number(done) || json_number_value(done) < 0 ||
                 json_number_value(done) > 1))
        return wrong(kind, f, "with a progress from 0 to 1", err);
    json_object_foreach((json_t *) (uintptr_t) metrics, name, number)
        if (!*name || strlen(name) > SAID_NAME || !json_is_number(number))
            return wrong(kind, f, "with numbers by short names", err);
    *at = json_object();
    if (done)
        json_put(*at, "progress", json_real(json_number_value(done)));
    if (metrics)
        json_put(*at, "metrics", json_deep_copy(metrics));
    return 0;
}

static int read_bytes(const char *kind, const struct field *f, const json_t *v,
                      struct wire_msg *m, struct err *err)
{
    size_t len = json_string_length(v);
    int rc = 0;

    if (!json_is_string(v) || len > WIRE_OUTPUT_MAX / 3 * 4 + 4)
        return wrong(kind, f, "a text in base64 of at most 256 KiB", err);
    rc = base64_decode(json_string_value(v), len, &m->bytes, &m->nbytes, err);
    return rc < 0 ? err_prefix(err, -EPROTO, "%s: '%s'", kind, f->name) : 0;
}

static int read_field(const struct field *f, const json_t *v,
                      struct wire_msg *m, struct err *err)
{
    const char *kind = kinds[m->kind].name;
    void *at = (char *) m + f->offset;

    switch (f->type) {
    case KEY:
        return read_key(kind, f, v, at, err);
    case U32:
    case U64:
    case I64:
    case INT:
        return read_number(kind, f, v, at, err);
    case BOOL:
        if (!json_is_boolean(v))
            return wrong(kind, f, "true or false", err);
        *(bool *) at = json_is_true(v);
        return 0;
    case TEXT:
    case NAME:
    case RUNNER:
    case STRING:
        return read_text(kind, f, v, at, err);
    case LEASES:
        return read_leases(f, v, m, err);
    case TASK:
        if (!json_is_object(v))
            return wrong(kind, f, "an object", err);
        m->task = json_deep_copy(v);
        return m->task ? 0 : err_set(err, ENOMEM, "out of memory");
    case SAID:
        return read_said(kind, f, v, at, err);
    case SAMPLE:
        return read_sample(kind, f, v, at, err);
    case HEALTH:
        return read_health(kind, f, v, at, err);
    case STRAYS:
        return read_strays(kind, f, v, at, err);
    case BYTES:
        return read_bytes(kind, f, v, m, err);
    }
    assert(!"a field without a type");
    return -EPROTO;
}

static int read_members(const json_t *j, struct wire_msg *m, struct err *err)
{
    uint64_t must = kinds[m->kind].must;
    uint64_t all = must | kinds[m->kind].may;

    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        const json_t *v = json_object_get(j, fields[i].name);
        uint64_t bit = UINT64_C(1) << i;
        int rc;

        if (!(all & bit) || (!v && !(must & bit)))
            continue;
        if (!v)
            return err_set(err, EPROTO, "%s: '%s' is missing",
                           kinds[m->kind].name, fields[i].name);
        rc = read_field(&fields[i], v, m, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_kind(const json_t *j, enum wire_kind *ret, struct err *err)
{
    const char *t = json_get_str(j, "t", NULL);

    if (!t)
        return err_set(err, EPROTO, "a message without a kind ('t')");
    for (unsigned i = 0; i < WIRE_KIND_COUNT; i++)
        if (strcmp(kinds[i].name, t) == 0) {
            *ret = (enum wire_kind) i;
            return 0;
        }
    return err_set(err, ENOTSUP, "'%.20s' is no kind of message here", t);
}

int wire_read(const char *body, size_t len, struct wire_msg *ret,
              struct err *err)
{
    autojson json_t *j = NULL;
    struct wire_msg m = { .kind = WIRE_ERROR };
    int rc = json_read(body, len, FRAME_MAX, &j, err);

    if (rc < 0)
        return rc;
    rc = read_kind(j, &m.kind, err);
    if (rc >= 0)
        rc = read_members(j, &m, err);
    if (rc < 0) {
        wire_clear(&m);
        return rc;
    }
    *ret = m;
    return 0;
}

static void put_key(json_t *j, const struct lease_key *k)
{
    char text[48];

    lease_key_print(k, text, sizeof text);
    json_put_str(j, "key", text);
}

static json_t *write_leases(const struct wire_msg *m)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < m->nleases; i++) {
        const struct wire_lease *l = &m->leases[i];
        json_t *o = json_object();

        put_key(o, &l->key);
        json_put_u64(o, "gen", l->gen);
        json_put_u64(o, "epoch", l->epoch);
        json_put_str(o, "state", l->state);
        if (l->gate[0])
            json_put_str(o, "gate", l->gate);
        (void) json_array_append_new(list, o);
    }
    return list;
}

static int64_t field_number(const struct field *f, const void *at)
{
    if (f->type == U32)
        return *(const uint32_t *) at;
    if (f->type == U64)
        return (int64_t) *(const uint64_t *) at;
    if (f->type == I64)
        return *(const int64_t *) at;
    return *(const int *) at;
}

static json_t *write_bytes(const struct wire_msg *m)
{
    autofree char *text = base64_encode(m->bytes, m->nbytes);

    return json_string(text);
}

/* A member that need not be there and says nothing is left out. */
static void write_field(json_t *j, const struct field *f,
                        const struct wire_msg *m, bool may)
{
    const void *at = (const char *) m + f->offset;
    const char *text;

    switch (f->type) {
    case KEY:
        put_key(j, at);
        break;
    case U32:
    case U64:
    case I64:
    case INT:
        if (!may || field_number(f, at) != 0)
            json_put(j, f->name, json_integer(field_number(f, at)));
        break;
    case BOOL:
        if (!may || *(const bool *) at)
            json_put_bool(j, f->name, *(const bool *) at);
        break;
    case TEXT:
    case NAME:
    case RUNNER:
    case STRING:
        text = f->type == STRING ? *(char *const *) at : at;
        if (!may || (text && *text))
            json_put_str(j, f->name, text);
        break;
    case LEASES:
        json_put(j, f->name, write_leases(m));
        break;
    case TASK:
        json_put(j, f->name, m->task ? json_incref(m->task) : json_object());
        break;
    case SAID:
        json_put(j, f->name, m->said ? json_incref(m->said) : json_object());
        break;
    case SAMPLE:
        json_put(j, f->name, m->sample ? json_incref(m->sample) : json_array());
        break;
    case HEALTH:
        json_put(j, f->name, m->health ? json_incref(m->health) : json_array());
        break;
    case STRAYS:
        if (m->strays)
            json_put(j, f->name, json_incref(m->strays));
        break;
    case BYTES:
        json_put(j, f->name, write_bytes(m));
        break;
    }
}

int wire_read_head(const char *body, size_t len, struct wire_msg *ret,
                   struct err *err)
{
    static const char leases[] = "\"leases\":[";
    const char *at = memmem(body, len < HEAD_MAX ? len : HEAD_MAX, leases,
                            strlen(leases));
    char head[HEAD_MAX + sizeof leases + 2];
    size_t n;

    if (!at)
        return err_set(err, EPROTO, "a long hello that does not begin with "
                       "all but its leases");
    n = (size_t) (at - body) + strlen(leases);
    memcpy(head, body, n);
    memcpy(head + n, "]}", 2);
    return wire_read(head, n + 2, ret, err);
}

json_t *wire_write(const struct wire_msg *m)
{
    json_t *j = json_object();

    assert(m->kind < WIRE_KIND_COUNT);
    json_put_str(j, "t", kinds[m->kind].name);
    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        uint64_t bit = UINT64_C(1) << i;

        if ((kinds[m->kind].must | kinds[m->kind].may) & bit)
            write_field(j, &fields[i], m, kinds[m->kind].may & bit);
    }
    return j;
}

struct wire_msg wire_error(const char *text)
{
    struct wire_msg m = { .kind = WIRE_ERROR };

    (void) snprintf(m.text, sizeof m.text, "%.255s", text);
    return m;
}

void wire_clear(struct wire_msg *m)
{
    free(m->leases);
    free(m->command);
    free(m->devices);
    free(m->bytes);
    json_decref(m->sample);
    json_decref(m->health);
    json_decref(m->strays);
    json_decref(m->task);
    json_decref(m->said);
    *m = (struct wire_msg) { .kind = WIRE_ERROR };
}

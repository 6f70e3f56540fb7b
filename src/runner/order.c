#include "runner/order.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "runner/gatepage.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ARGS_MAX = 64 * 1024,
    SIGNAL_MAX = 64,
    CONTEXT_BYTES = 1 << 30,           /* where an order does not say */
};

void lease_id_name(const struct lease_id *id, char *buf, size_t size)
{
    char key[48];
    int n;

    lease_key_print(&id->key, key, sizeof key);
    n = snprintf(buf, size, "%s#%" PRIu32 "@%" PRIu64, key, id->gen,
                 id->epoch);
    assert(n > 0 && (size_t) n < size);
}

void lease_id_file(const struct lease_id *id, char *buf, size_t size)
{
    int n = snprintf(buf, size, "%" PRIu32 ".%" PRIu32 ".%" PRIu32
                     ".%" PRIu64, id->key.task, id->key.rank, id->gen,
                     id->epoch);

    assert(n > 0 && (size_t) n < size);
}

static int read_argv(const json_t *list, struct order *o, struct err *err)
{
    size_t n = json_array_size(list);

    if (n == 0 || n > ARGS_MAX)
        return err_set(err, EINVAL, "argv must be a list of 1 to %d texts",
                       ARGS_MAX);
    o->argv = mem_array(n + 1, sizeof *o->argv);
    for (size_t i = 0; i < n; i++) {
        o->argv[i] = json_string_value(json_array_get(list, i));
        if (!o->argv[i])
            return err_set(err, EINVAL, "argv[%zu] must be a text", i);
    }
    return 0;
}

static int read_command(const json_t *task, struct order *o, struct err *err)
{
    const json_t *argv = json_object_get(task, "argv");

    o->run = json_get_str(task, "run", NULL);
    if (!o->run == !argv)
        return err_set(err, EINVAL, "an order needs either run or argv");
    return argv ? read_argv(argv, o, err) : 0;
}

static int read_env(const json_t *task, struct order *o, struct err *err)
{
    const char *key;
    json_t *value;

    o->env = json_object_get(task, "env");
    if (!o->env)
        return 0;
    if (!json_is_object(o->env))
        return err_set(err, EINVAL, "env must be an object");
    json_object_foreach(json_object_get(task, "env"), key, value)
        if (!*key || strchr(key, '=') || !json_is_string(value))
            return err_set(err, EINVAL,
                           "env: '%.40s' is no name of a text", key);
    return 0;
}

static int read_user(const json_t *task, struct order *o, struct err *err)
{
    const json_t *user = json_object_get(task, "user");
    uint64_t uid = json_get_u64(user, "uid", UINT64_MAX);
    uint64_t gid = json_get_u64(user, "gid", UINT64_MAX);

    o->user = json_get_str(user, "name", "");
    if (!user)
        return 0;
    if (uid >= UINT32_MAX || gid >= UINT32_MAX)
        return err_set(err, EINVAL, "user needs uid and gid");
    o->has_user = true;
    o->uid = (uid_t) uid;
    o->gid = (gid_t) gid;
    return 0;
}

static int read_devices(const json_t *task, struct order *o, struct err *err)
{
    const json_t *list = json_object_get(task, "devices");
    size_t n = json_array_size(list);

    if (n > ORDER_DEVICES_MAX)
        return err_set(err, EINVAL, "more than %d devices",
                       ORDER_DEVICES_MAX);
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);

        if (!json_is_integer(v) || json_integer_value(v) < 0 ||
            json_integer_value(v) > UINT16_MAX)
            return err_set(err, EINVAL, "devices[%zu] is no index", i);
        o->devices[i] = (uint32_t) json_integer_value(v);
    }
    o->ndevices = (uint32_t) n;
    return 0;
}

/* A device's name becomes part of a line and of a variable. */
static bool is_uuid(const char *s)
{
    return s && strncmp(s, "GPU-", 4) == 0 && strlen(s) < 64 &&
           s[4 + strspn(s + 4, "0123456789abcdefABCDEF-")] == '\0';
}

static int read_uuids(const json_t *gate, struct order_gate *ret,
                      struct err *err)
{
    const json_t *list = json_object_get(gate, "devices");
    size_t n = json_array_size(list);

    if (n > GATE_DEVICES)
        return err_set(err, EINVAL, "gate: more than %d devices",
                       GATE_DEVICES);
    for (size_t i = 0; i < n; i++) {
        ret->uuid[i] = json_string_value(json_array_get(list, i));
        if (!is_uuid(ret->uuid[i]))
            return err_set(err, EINVAL, "gate: devices[%zu] is no UUID", i);
    }
    ret->nuuids = (uint32_t) n;
    return 0;
}

/* A state that is not known cannot be kept: rather no start. */
static int read_gate(const json_t *task, struct order *o, struct err *err)
{
    const json_t *gate = json_object_get(task, "gate");
    const char *state = json_get_str(gate, "state", "active");
    const char *lost = json_get_str(gate, "lost", "wait");

    if (!gate)
        return 0;
    if (!json_is_object(gate))
        return err_set(err, EINVAL, "gate must be an object");
    if (!gate_state_parse(state, &o->gate.state))
        return err_set(err, EINVAL, "gate: '%.20s' is no state", state);
    o->gate.go = strcmp(lost, "go") == 0;
    if (!o->gate.go && strcmp(lost, "wait") != 0)
        return err_set(err, EINVAL, "gate: lost must be wait or go");
    o->gate.memory = json_get_u64(gate, "memory", 0);
    o->gate.context = json_get_u64(gate, "context", CONTEXT_BYTES);
    o->gate.given = true;
    return read_uuids(gate, &o->gate, err);
}

static int read_nodes(const json_t *task, struct order *o, struct err *err)
{
    static const char *const words[] = {
        [ORDER_NODES_OPEN] = "open", [ORDER_NODES_LEASED] = "leased",
        [ORDER_NODES_ACTIVE] = "active",
    };
    const char *word = json_get_str(task, "nodes", "open");

    for (size_t i = 0; i < array_size(words); i++)
        if (strcmp(word, words[i]) == 0) {
            o->nodes = (enum order_nodes) i;
            return 0;
        }
    return err_set(err, EINVAL, "nodes must be open, leased or active");
}

static int read_stop(const json_t *task, struct order *o, struct err *err)
{
    const json_t *stop = json_object_get(task, "stop");
    uint64_t signal = json_get_u64(stop, "signal", 0);

    o->stop.grace_ms = json_get_u64(stop, "grace_ms", ORDER_GRACE_MS);
    if (!stop)
        return 0;
    if (!json_is_object(stop) || signal > SIGNAL_MAX)
        return err_set(err, EINVAL, "stop must be an object, with a signal of "
                       "at most %d", SIGNAL_MAX);
    o->stop.signal = (int) signal;
    o->stop.command = json_get_str(stop, "command", NULL);
    return 0;
}

static uint32_t u32(const json_t *task, const char *key, uint32_t fallback)
{
    uint64_t v = json_get_u64(task, key, fallback);

    return v > UINT32_MAX ? fallback : (uint32_t) v;
}

int order_read(json_t *task, struct order *ret, struct err *err)
{
    struct order o = { .task = json_incref(task) };
    int rc = read_command(task, &o, err);

    if (rc >= 0)
        rc = read_env(task, &o, err);
    if (rc >= 0)
        rc = read_user(task, &o, err);
    if (rc >= 0)
        rc = read_devices(task, &o, err);
    if (rc >= 0)
        rc = read_gate(task, &o, err);
    if (rc >= 0)
        rc = read_nodes(task, &o, err);
    if (rc >= 0)
        rc = read_stop(task, &o, err);
    if (rc < 0) {
        order_clear(&o);
        return rc;
    }
    o.name = json_get_str(task, "name", "");
    o.workload = json_get_str(task, "workload", "");
    o.tenant = json_get_str(task, "tenant", "");
    o.dir = json_get_str(task, "dir", NULL);
    o.image = json_get_str(task, "image", NULL);
    o.cpus_milli = json_get_u64(task, "cpus_milli", 0);
    o.memory = json_get_u64(task, "memory", 0);
    o.log_bytes = json_get_u64(task, "log_bytes", 0);
    o.ranks = u32(task, "ranks", 1);
    o.rank = u32(task, "rank", 0);
    o.attempt = u32(task, "attempt", 1);
    o.simulated = json_get_bool(task, "simulated", false);
    o.rendezvous = json_get_str(task, "rendezvous", NULL);
    *ret = o;
    return 0;
}

void order_clear(struct order *o)
{
    free(o->argv);
    json_decref(o->task);
    *o = (struct order) { 0 };
}

#include "kube/fit.h"

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 22 };           /* of the labels of a node */

static const char NEVER[] = "never";

/* ---- nodes ---- */

static void add_word(struct buf *b, const char *s)
{
    (void) buf_add(b, s, strlen(s) + 1);
}

static char *taken(struct buf *b, size_t *ret_len)
{
    *ret_len = b->over ? 0 : b->len;
    return buf_take(b);
}

void fit_node_read(const json_t *object, struct fit_node *ret)
{
    json_t *labels = (json_t *) (uintptr_t) object_at(object, "metadata",
                                                      "labels", NULL), *v;
    const json_t *taints = object_at(object, "spec", "taints", NULL), *t;
    struct buf l = BUF_INIT(TEXT_MAX), r = BUF_INIT(TEXT_MAX);
    const char *key;
    size_t i;

    ret->name = mem_str(object_str(object, "metadata", "name", NULL));
    json_object_foreach(labels, key, v) {
        if (!json_is_string(v))
            continue;
        add_word(&l, key);
        add_word(&l, json_string_value(v));
    }
    json_array_foreach(taints, i, t) {
        const char *effect = json_get_str(t, "effect", "");

        if (strcmp(effect, "NoSchedule") != 0 &&
            strcmp(effect, "NoExecute") != 0)
            continue;
        add_word(&r, json_get_str(t, "key", ""));
        add_word(&r, json_get_str(t, "value", ""));
        add_word(&r, effect);
    }
    ret->labels = taken(&l, &ret->llen);
    ret->taints = taken(&r, &ret->tlen);
}

bool fit_node_same(const struct fit_node *a, const struct fit_node *b)
{
    return a->llen == b->llen && a->tlen == b->tlen &&
           memcmp(a->labels, b->labels, a->llen) == 0 &&
           memcmp(a->taints, b->taints, a->tlen) == 0;
}

void fit_node_clear(struct fit_node *n)
{
    free(n->name);
    free(n->labels);
    free(n->taints);
    *n = (struct fit_node) { 0 };
}

static const char *next_word(const char **at)
{
    const char *s = *at;

    *at += strlen(s) + 1;
    return s;
}

static const char *label(const struct fit_node *n, const char *key)
{
    const char *at = n->labels, *end = at + n->llen;

    while (at < end) {
        const char *k = next_word(&at), *v = next_word(&at);

        if (strcmp(k, key) == 0)
            return v;
    }
    return NULL;
}

/* ---- pods ---- */

static void put_part(json_t *to, const char *key, const json_t *part)
{
    if (json_object_size(part) || json_array_size(part))
        json_put(to, key, json_deep_copy(part));
}

/* How much there is to compare a node with. */
static size_t words(const json_t *part)
{
    size_t sum = 1, i;
    const char *key;
    json_t *one;

    json_object_foreach((json_t *) (uintptr_t) part, key, one)
        sum += words(one);
    json_array_foreach(part, i, one)
        sum += words(one);
    return sum;
}

json_t *fit_read(const json_t *pod)
{
    const json_t *spec = json_object_get(pod, "spec");
    json_t *o = json_object();

    put_part(o, "selector", json_object_get(spec, "nodeSelector"));
    put_part(o, "tolerations", json_object_get(spec, "tolerations"));
    put_part(o, "required", object_at(spec, "affinity", "nodeAffinity",
                                  "requiredDuringSchedulingIgnoredDuring"
                                  "Execution", NULL));
    if (words(o) > FIT_WORDS) {
        json_decref(o);
        o = json_pack("{s:b}", NEVER, 1);
    }
    return o;
}

static bool is_among(const json_t *values, const char *v)
{
    const json_t *one;
    size_t i;

    json_array_foreach(values, i, one)
        if (json_is_string(one) && strcmp(json_string_value(one), v) == 0)
            return true;
    return false;
}

static bool read_number(const char *s, long long *ret)
{
    char *end;

    errno = 0;
    *ret = strtoll(s, &end, 10);
    return *s && !*end && errno == 0;
}

static bool compares(const json_t *values, const char *have, bool greater)
{
    const char *want = json_string_value(json_array_get(values, 0));
    long long a, b;

    return have && want && json_array_size(values) == 1 &&
           read_number(have, &a) && read_number(want, &b) &&
           (greater ? a > b : a < b);
}

/* An operator nobody knows matches nothing. */
static bool holds(const json_t *rule, const char *have)
{
    const char *op = json_get_str(rule, "operator", "");
    const json_t *values = json_object_get(rule, "values");

    if (strcmp(op, "In") == 0)
        return have && is_among(values, have);
    if (strcmp(op, "NotIn") == 0)
        return !have || !is_among(values, have);
    if (strcmp(op, "Exists") == 0)
        return have != NULL;
    if (strcmp(op, "DoesNotExist") == 0)
        return have == NULL;
    if (strcmp(op, "Gt") == 0)
        return compares(values, have, true);
    return strcmp(op, "Lt") == 0 && compares(values, have, false);
}

/* All of its rules; a term without any matches nothing. */
static bool term_holds(const json_t *term, const struct fit_node *n)
{
    const json_t *labels = json_object_get(term, "matchExpressions"), *r;
    const json_t *fields = json_object_get(term, "matchFields");
    size_t i;

    json_array_foreach(labels, i, r)
        if (!holds(r, label(n, json_get_str(r, "key", ""))))
            return false;
    json_array_foreach(fields, i, r)
        if (!holds(r, strcmp(json_get_str(r, "key", ""), "metadata.name") == 0
                      ? n->name : NULL))
            return false;
    return json_array_size(labels) + json_array_size(fields) > 0;
}

static bool is_required(const json_t *required, const struct fit_node *n)
{
    const json_t *term;
    size_t i;

    if (!required)
        return true;
    json_array_foreach(json_object_get(required, "nodeSelectorTerms"), i, term)
        if (term_holds(term, n))
            return true;
    return false;
}

static bool is_selected(const json_t *selector, const struct fit_node *n)
{
    const char *key;
    json_t *v;

    json_object_foreach((json_t *) (uintptr_t) selector, key, v) {
        const char *have = label(n, key);

        if (!have || !json_is_string(v) ||
            strcmp(have, json_string_value(v)) != 0)
            return false;
    }
    return true;
}

static bool tolerates(const json_t *t, const char *key, const char *value,
                      const char *effect)
{
    const char *k = json_get_str(t, "key", ""), *e = json_get_str(t, "effect",
                                                                  "");
    bool exists = strcmp(json_get_str(t, "operator", "Equal"), "Exists") == 0;

    if (*e && strcmp(e, effect) != 0)
        return false;
    if (!*k)
        return exists;
    return strcmp(k, key) == 0 &&
           (exists || strcmp(json_get_str(t, "value", ""), value) == 0);
}

static bool is_tolerated(const json_t *tolerations, const struct fit_node *n)
{
    const char *at = n->taints, *end = at + n->tlen;

    while (at < end) {
        const char *key = next_word(&at), *value = next_word(&at);
        const char *effect = next_word(&at);
        const json_t *t;
        bool does = false;
        size_t i;

        json_array_foreach(tolerations, i, t)
            does = does || tolerates(t, key, value, effect);
        if (!does)
            return false;
    }
    return true;
}

bool fit_may(const json_t *fit, const struct fit_node *n)
{
    return !json_object_get(fit, NEVER) &&
           is_tolerated(json_object_get(fit, "tolerations"), n) &&
           is_selected(json_object_get(fit, "selector"), n) &&
           is_required(json_object_get(fit, "required"), n);
}

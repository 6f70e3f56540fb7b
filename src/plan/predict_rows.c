#include "base/err.h"
#include "base/json.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "plan/predict_int.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A row for each key, named by its number in 16 hexadecimal digits ("all" has
 * 0), and one named "quality".  Weights are floats and have at most 9 digits,
 * so what is read back is what was written, to the bit.
 */
static const char QUALITY[] = "quality";
enum { KEY_LEN = 16 };

static json_t *known_to_json(const struct known *k)
{
    json_t *o = json_object();

    json_put_u64(o, "turn", k->turn);
    json_put_u64(o, "seen", k->seen);
    json_put(o, "run", sketch_to_json(&k->run));
    json_put(o, "work", sketch_to_json(&k->work));
    json_put(o, "level", level_to_json(k));
    json_put_u64(o, "ranked", k->ranked);
    return o;
}

static json_t *quality_to_json(const struct quality *q)
{
    json_t *o = json_object();

    json_put_u64(o, "ends", q->ends);
    json_put(o, "weight", json_real((double) q->weight));
    json_put(o, "low", json_real((double) q->low));
    json_put(o, "mid", json_real((double) q->mid));
    json_put(o, "high", json_real((double) q->high));
    json_put(o, "error", sketch_to_json(&q->error));
    return o;
}

static int put_known(const struct known *k, predict_row_f cb, void *arg)
{
    autojson json_t *body = known_to_json(k);
    char key[KEY_LEN + 1];

    (void) snprintf(key, sizeof key, "%016" PRIx64, k->key);
    return cb(key, body, arg);
}

static int put_quality(struct quality *q, predict_row_f cb, void *arg)
{
    autojson json_t *body = quality_to_json(q);
    int rc = cb(QUALITY, body, arg);

    q->dirty = rc < 0;
    return rc;
}

int predict_rows(struct predict *pr, predict_row_f cb, void *arg)
{
    while (pr->nforgotten > 0) {
        char key[KEY_LEN + 1];
        int rc;

        (void) snprintf(key, sizeof key, "%016" PRIx64,
                        pr->forgotten[pr->nforgotten - 1]);
        rc = cb(key, NULL, arg);
        if (rc < 0)
            return rc;
        pr->nforgotten--;
    }
    while (pr->dirty) {
        struct known *k = pr->dirty;
        int rc = put_known(k, cb, arg);

        if (rc < 0)
            return rc;
        list_unlink(pr->dirty, k);
        k->dirty = false;
        k->stored = true;
    }
    return pr->quality.dirty ? put_quality(&pr->quality, cb, arg) : 0;
}

/* ---- reading ---- */

static int key_parse(const char *text, uint64_t *ret, struct err *err)
{
    char *end;

    if (strlen(text) != KEY_LEN ||
        strspn(text, "0123456789abcdef") != KEY_LEN)
        return err_set(err, EINVAL, "prediction '%.40s': %d hexadecimal "
                       "digits expected", text, KEY_LEN);
    *ret = strtoull(text, &end, 16);
    return 0;
}

static int get_float(const json_t *o, const char *key, float *ret,
                     struct err *err)
{
    const json_t *j = json_object_get(o, key);
    double v = json_number_value(j);

    if (!json_is_number(j) || !(v >= 0 && v <= 1e19))
        return err_set(err, EINVAL, "%s: a number of at least 0 expected",
                       key);
    *ret = (float) v;
    return 0;
}

static int get_sketch(const json_t *o, const char *key, struct sketch *ret,
                      struct err *err)
{
    int rc = sketch_from_json(json_object_get(o, key), ret, err);

    return rc < 0 ? err_prefix(err, rc, "%s", key) : 0;
}

static int load_quality(struct predict *pr, const json_t *body,
                        struct err *err)
{
    struct quality q = { .ends = json_get_u64(body, "ends", 0) };
    int rc = get_float(body, "weight", &q.weight, err);

    if (rc == 0)
        rc = get_float(body, "low", &q.low, err);
    if (rc == 0)
        rc = get_float(body, "mid", &q.mid, err);
    if (rc == 0)
        rc = get_float(body, "high", &q.high, err);
    if (rc == 0)
        rc = get_sketch(body, "error", &q.error, err);
    if (rc == 0 && q.ends > 0 && q.error.end == 0)
        rc = err_set(err, EINVAL, "error: empty, though there were ends");
    if (rc == 0)
        memcpy(&pr->quality, &q, sizeof q);
    return rc;
}

static int read_known(const json_t *body, struct known *k, struct err *err)
{
    uint64_t seen = json_get_u64(body, "seen", 0);
    uint64_t turn = json_get_u64(body, "turn", 0), ranked;
    int rc = get_sketch(body, "run", &k->run, err);

    if (rc == 0)
        rc = get_sketch(body, "work", &k->work, err);
    if (rc < 0)
        return rc;
    if (seen == 0 || seen > UINT32_MAX || k->run.end == 0)
        return err_set(err, EINVAL, "seen: at least one end expected");
    if (turn > PREDICT_TURN_MAX)
        return err_set(err, EINVAL, "turn: at most %" PRIu64 " expected",
                       PREDICT_TURN_MAX);
    k->seen = (uint32_t) seen;
    k->turn = turn;
    rc = level_from_json(json_object_get(body, "level"), k, err);
    if (rc < 0)
        return err_prefix(err, rc, "level");
    ranked = json_get_u64(body, "ranked", k->ranked);
    if (ranked > seen || !ranked != !k->ranked)
        return err_set(err, EINVAL, "ranked: at most as many ends as were "
                       "seen expected, and 0 without levels");
    k->ranked = (uint32_t) ranked;
    return 0;
}

/* Where the new knowledge goes; what stands there is forgotten. */
static void keep_known(struct predict *pr, const struct known *from)
{
    struct known *k = from->key ? predict_make(pr, from->key) : &pr->all;

    if (from->key)
        heap_remove(&pr->oldest, k);
    k->turn = from->turn;
    k->seen = from->seen;
    pr->version++;
    k->run = from->run;
    k->work = from->work;
    k->ranked = from->ranked;
    memcpy(k->level, from->level, sizeof k->level);
    k->stored = true;
    if (from->key)
        heap_add(&pr->oldest, k);
    if (from->turn > pr->turn)
        pr->turn = from->turn;
}

int predict_load(struct predict *pr, const char *key, const json_t *body,
                 struct err *err)
{
    struct known k = { 0 };
    int rc;

    if (strcmp(key, QUALITY) == 0) {
        rc = load_quality(pr, body, err);
        return rc < 0 ? err_prefix(err, rc, "prediction '%s'", key) : 0;
    }
    rc = key_parse(key, &k.key, err);
    if (rc < 0)
        return rc;
    rc = read_known(body, &k, err);
    if (rc < 0)
        return err_prefix(err, rc, "prediction '%s'", key);
    keep_known(pr, &k);
    return 0;
}

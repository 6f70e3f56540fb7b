#include "base/json.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { DEPTH_MAX = 64 };

/* jansson's own limit is fixed when it is built and far deeper than ours.
 * Brackets inside of strings do not count; whether they match is left to the
 * parser.
 */
static bool too_deep(const char *text, size_t len)
{
    bool in_string = false;
    int depth = 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];

        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string && (c == '{' || c == '['))
            depth++;
        else if (!in_string && (c == '}' || c == ']'))
            depth--;
        if (depth > DEPTH_MAX)
            return true;
    }
    return false;
}

int json_read(const char *text, size_t len, size_t max, json_t **ret,
              struct err *err)
{
    json_error_t why;
    json_t *j;

    if (len > max)
        return err_set(err, EFBIG, "%zu bytes of JSON, at most %zu are allowed",
                       len, max);
    if (too_deep(text, len))
        return err_set(err, EINVAL, "JSON is nested more than %d deep",
                       DEPTH_MAX);
    j = json_loadb(text, len, JSON_REJECT_DUPLICATES, &why);
    if (!j)
        return err_set(err, EINVAL, "line %d, column %d: %s", why.line,
                       why.column, why.text);
    *ret = j;
    return 0;
}

char *json_text(const json_t *j)
{
    return mem_there(json_dumps(j, JSON_FORM | JSON_COMPACT | JSON_ENCODE_ANY));
}

const char *json_get_str(const json_t *o, const char *key, const char *fallback)
{
    const char *s = json_string_value(json_object_get(o, key));

    return s ? s : fallback;
}

uint64_t json_get_u64(const json_t *o, const char *key, uint64_t fallback)
{
    const json_t *j = json_object_get(o, key);

    if (!json_is_integer(j) || json_integer_value(j) < 0)
        return fallback;
    return (uint64_t) json_integer_value(j);
}

bool json_get_bool(const json_t *o, const char *key, bool fallback)
{
    const json_t *j = json_object_get(o, key);

    return json_is_boolean(j) ? json_is_true(j) : fallback;
}

double json_get_number(const json_t *o, const char *key)
{
    return json_number_value(json_object_get(o, key));
}

void json_put(json_t *o, const char *key, json_t *value)
{
    int rc = json_object_set_new(o, key, mem_there(value));

    assert(rc == 0);                     /* o is an object, key is UTF-8 */
    (void) rc;
}

void json_put_str(json_t *o, const char *key, const char *value)
{
    size_t len;

    if (!value)
        return;
    len = strlen(value);
    if (utf8_valid(value, len)) {
        json_put(o, key, json_stringn_nocheck(value, len));
    } else {
        autofree char *clean = utf8_clean(value, len);

        json_put(o, key, json_string_nocheck(clean));
    }
}

void json_put_u64(json_t *o, const char *key, uint64_t value)
{
    assert(value <= INT64_MAX);
    json_put(o, key, json_integer((json_int_t) value));
}

void json_put_milli(json_t *o, const char *key, uint64_t milli)
{
    if (milli % 1000 == 0)
        json_put_u64(o, key, milli / 1000);
    else
        json_put(o, key, json_real((double) milli / 1000));
}

void json_put_bool(json_t *o, const char *key, bool value)
{
    json_put(o, key, json_boolean(value));
}

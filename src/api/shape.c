#include "api/shape.h"

#include "api/schema_text.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/near.h"

#include <assert.h>
#include <errno.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define SAFE 9007199254740991.0        /* what a double holds exactly */

static json_t *all;

__attribute__((destructor)) static void forget(void)
{
    json_decref(all);
}

const json_t *shape_all(void)
{
    json_error_t e;

    if (!all) {
        all = json_loads(schema_text, JSON_REJECT_DUPLICATES, &e);
        if (!all)
            (void) fprintf(stderr, "schema: line %d: %s\n", e.line, e.text);
        assert(all);                   /* our own text */
    }
    return all;
}

const json_t *shape_get(const char *name)
{
    return json_object_get(shape_all(), name);
}

/* Where we are in the value, for the message. */
struct at {
    const struct at *up;
    const char *key;                   /* NULL: index */
    size_t index;
};

static void at_print(const struct at *at, char *buf, size_t size)
{
    size_t len;

    if (!at) {
        buf[0] = '\0';
        return;
    }
    at_print(at->up, buf, size);
    len = strlen(buf);
    if (at->key)
        (void) snprintf(buf + len, size - len, "%s%.60s", len ? "." : "",
                        at->key);
    else
        (void) snprintf(buf + len, size - len, "[%zu]", at->index);
}

static int wrong(const struct at *at, struct err *err, const char *text)
{
    char where[256];

    at_print(at, where, sizeof where);
    return err_set(err, EINVAL, "%s%s%s", where, *where ? ": " : "", text);
}

static const char *type_name(const json_t *v)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "object", [JSON_ARRAY] = "array",
        [JSON_STRING] = "string", [JSON_INTEGER] = "integer",
        [JSON_REAL] = "number", [JSON_TRUE] = "boolean",
        [JSON_FALSE] = "boolean", [JSON_NULL] = "null",
    };

    return names[json_typeof(v)];
}

/* To JSON Schema 3.0 is an integer. */
static bool is_whole(const json_t *v)
{
    double n = json_number_value(v);

    return json_is_real(v) && n >= -SAFE && n <= SAFE &&
           n == (double) (json_int_t) n;
}

static int check_type(const json_t *schema, const json_t *v,
                      const struct at *at, struct err *err)
{
    const char *want = json_string_value(json_object_get(schema, "type"));
    char text[128];

    if (!want || strcmp(want, type_name(v)) == 0 ||
        (strcmp(want, "number") == 0 && json_is_integer(v)) ||
        (strcmp(want, "integer") == 0 && is_whole(v)))
        return 0;
    (void) snprintf(text, sizeof text, "expected %s, not %s", want,
                    type_name(v));
    return wrong(at, err, text);
}

static int check_enum(const json_t *schema, const json_t *v,
                      const struct at *at, struct err *err)
{
    const json_t *list = json_object_get(schema, "enum"), *word;
    char text[256] = "expected one of:";
    size_t i;

    if (!list)
        return 0;
    json_array_foreach(list, i, word) {
        size_t len = strlen(text);

        if (json_equal(word, v))
            return 0;
        (void) snprintf(text + len, sizeof text - len, " %s",
                        json_string_value(word));
    }
    return wrong(at, err, text);
}

static size_t characters(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static bool fits(const char *pattern, const char *s)
{
    regex_t re;
    bool good;

    if (regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    good = regexec(&re, s, 0, NULL, 0) == 0 && !strchr(s, '\n');
    regfree(&re);
    return good;
}

static int check_string(const json_t *schema, const json_t *v,
                        const struct at *at, struct err *err)
{
    const json_t *min = json_object_get(schema, "minLength");
    const json_t *max = json_object_get(schema, "maxLength");
    const char *pattern =
        json_string_value(json_object_get(schema, "pattern"));
    const char *form =
        json_string_value(json_object_get(schema, "description"));
    const char *s = json_string_value(v);
    json_int_t n = (json_int_t) characters(s);
    char text[256];

    if (min && n < json_integer_value(min)) {
        (void) snprintf(text, sizeof text, "shorter than %lld characters",
                        (long long) json_integer_value(min));
        return wrong(at, err, n ? text : "may not be empty");
    }
    if (max && n > json_integer_value(max)) {
        (void) snprintf(text, sizeof text, "longer than %lld characters",
                        (long long) json_integer_value(max));
        return wrong(at, err, text);
    }
    if (pattern && !fits(pattern, s)) {
        (void) snprintf(text, sizeof text, "expected %s", form ? form : pattern);
        return wrong(at, err, text);
    }
    return 0;
}

static int check_number(const json_t *schema, const json_t *v,
                        const struct at *at, struct err *err)
{
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *max = json_object_get(schema, "maximum");
    double n = json_number_value(v);
    char text[128];

    if ((!min || n >= json_number_value(min)) &&
        (!max || n <= json_number_value(max)))
        return 0;
    (void) snprintf(text, sizeof text, "expected a number from %g to %g",
                    min ? json_number_value(min) : -1e15,
                    max ? json_number_value(max) : 1e15);
    return wrong(at, err, text);
}

static int check(const json_t *schema, const json_t *v, const struct at *at,
                 struct err *err);

static int unknown(const json_t *members, const char *key,
                   const struct at *at, struct err *err)
{
    struct near near;
    const char *name;
    json_t *member;
    char text[256];

    near_init(&near, key);
    json_object_foreach((json_t *) (intptr_t) members, name, member)
        near_try(&near, name);
    (void) snprintf(text, sizeof text, "unknown member '%.60s'%s%s%s", key,
                    near.best ? "; did you mean '" : "",
                    near.best ? near.best : "", near.best ? "'?" : "");
    return wrong(at, err, text);
}

static int check_object(const json_t *schema, const json_t *v,
                        const struct at *at, struct err *err)
{
    const json_t *members = json_object_get(schema, "properties"), *name;
    const json_t *required = json_object_get(schema, "required");
    bool closed = json_is_false(json_object_get(schema,
                                                "additionalProperties"));
    const char *key;
    json_t *value;
    size_t i;
    int rc;

    json_object_foreach((json_t *) (intptr_t) v, key, value) {
        const json_t *member = json_object_get(members, key);
        struct at here = { .up = at, .key = key };

        rc = member ? check(member, value, &here, err) :
             closed ? unknown(members, key, at, err) : 0;
        if (rc)
            return rc;
    }
    json_array_foreach(required, i, name) {
        if (!json_object_get(v, json_string_value(name))) {
            char text[128];

            (void) snprintf(text, sizeof text, "'%s' is missing",
                            json_string_value(name));
            return wrong(at, err, text);
        }
    }
    return 0;
}

static int check_array(const json_t *schema, const json_t *v,
                       const struct at *at, struct err *err)
{
    const json_t *items = json_object_get(schema, "items"), *value;
    const json_t *max = json_object_get(schema, "maxItems");
    size_t i;

    if (max && (json_int_t) json_array_size(v) > json_integer_value(max))
        return wrong(at, err, "too many entries");
    json_array_foreach(v, i, value) {
        struct at here = { .up = at, .index = i };
        int rc = items ? check(items, value, &here, err) : 0;

        if (rc)
            return rc;
    }
    return 0;
}

/* When none fits, what is wrong with the one of the right type is told. */
static int check_any(const json_t *list, const json_t *v, const struct at *at,
                     struct err *err)
{
    struct err told = { 0 }, now = { 0 };
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one) {
        if (check(one, v, at, &now) == 0)
            return 0;
        if (i == 0 || check_type(one, v, at, NULL) == 0)
            told = now;
    }
    return err_set(err, EINVAL, "%s", told.text);
}

static int check(const json_t *schema, const json_t *v, const struct at *at,
                 struct err *err)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    const json_t *any = json_object_get(schema, "anyOf");
    int rc;

    if (ref)
        return check(shape_get(strrchr(ref, '/') + 1), v, at, err);
    if (any)
        return check_any(any, v, at, err);
    rc = check_type(schema, v, at, err);
    if (!rc)
        rc = check_enum(schema, v, at, err);
    if (rc)
        return rc;
    if (json_is_string(v))
        return check_string(schema, v, at, err);
    if (json_is_number(v))
        return check_number(schema, v, at, err);
    if (json_is_object(v))
        return check_object(schema, v, at, err);
    if (json_is_array(v))
        return check_array(schema, v, at, err);
    return 0;
}

int shape_check(const json_t *schema, const json_t *value, struct err *err)
{
    return check(schema, value, NULL, err);
}

void shape_settle(json_t *value)
{
    const char *key;
    json_t *member;
    void *next;

    json_object_foreach_safe(value, next, key, member) {
        if (is_whole(member))
            (void) json_object_set_new(
                value, key,
                json_integer((json_int_t) json_real_value(member)));
    }
}

int shape_fields_check(const char *name, const char *fields,
                        struct err *err)
{
    const json_t *members = json_object_get(shape_get(name), "properties");
    autofree char *copy = mem_str(fields);
    char *rest = copy, *field;

    while ((field = strsep(&rest, ","))) {
        if (!json_object_get(members, field)) {
            struct at at = { .key = "fields" };

            return unknown(members, field, &at, err);
        }
    }
    return 0;
}

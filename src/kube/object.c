#include "kube/object.h"

#include "base/err.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

enum { DEPTH_MAX = 128 };

/* Brackets inside of strings do not count; whether they match is left to the
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

int object_read(const char *text, size_t len, size_t max, json_t **ret,
                struct err *err)
{
    json_error_t why;
    json_t *j;

    if (len > max)
        return err_set(err, EFBIG, "%zu bytes of JSON, at most %zu are allowed",
                       len, max);
    if (too_deep(text, len))
        return err_set(err, EPROTO, "JSON is nested more than %d deep",
                       DEPTH_MAX);
    j = json_loadb(text, len, JSON_ALLOW_NUL, &why);
    if (!j) {
        char words[JSON_ERROR_TEXT_LENGTH];

        object_line(why.text, strlen(why.text), words, sizeof words);
        return err_set(err, EPROTO, "not JSON: line %d, column %d: %s",
                       why.line, why.column, words);
    }
    if (!json_is_object(j)) {
        json_decref(j);
        return err_set(err, EPROTO, "JSON, but no object");
    }
    *ret = j;
    return 0;
}

const json_t *object_at(const json_t *o, ...)
{
    const char *key;
    va_list ap;

    va_start(ap, o);
    while (o && (key = va_arg(ap, const char *)))
        o = json_object_get(o, key);
    va_end(ap);
    return o;
}

const char *object_str(const json_t *o, ...)
{
    const char *key, *s;
    va_list ap;

    va_start(ap, o);
    while (o && (key = va_arg(ap, const char *)))
        o = json_object_get(o, key);
    va_end(ap);
    s = json_string_value(o);
    return s ? s : "";
}

void object_line(const char *s, size_t len, char *out, size_t size)
{
    size_t n = 0;

    while (len > 0) {
        size_t bytes = utf8_size(s, len);
        bool control = bytes == 1 && ((unsigned char) *s < ' ' || *s == 127);

        if (n + (bytes ? bytes : 1) >= size)
            break;
        if (bytes == 0 || control)
            out[n] = control ? ' ' : '?';
        else
            memcpy(out + n, s, bytes);
        bytes = bytes ? bytes : 1;
        n += bytes;
        s += bytes;
        len -= bytes;
    }
    out[n] = '\0';
}

#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#undef err_set
#undef err_prefix

/* Both write beside err->text first, so that the old text may be one of the
 * arguments.
 */
int err_set(struct err *err, int code, const char *fmt, ...)
{
    char text[sizeof err->text];
    va_list ap;

    if (!err)
        return -code;
    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    err->code = code;
    memcpy(err->text, text, sizeof text);
    return -code;
}

int err_prefix(struct err *err, int rc, const char *fmt, ...)
{
    char text[sizeof err->text];
    size_t used;
    va_list ap;

    if (!err)
        return rc;
    va_start(ap, fmt);
    (void) vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    used = strlen(text);
    if (snprintf(text + used, sizeof text - used, ": %s", err->text) < 0)
        text[used] = '\0';
    memcpy(err->text, text, sizeof text);
    return rc;
}

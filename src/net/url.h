#pragma once

#include <stddef.h>

struct err;

/* url - what a request's target says: decoded, bounded, text.
 *
 * The path is cut at each '/' before it is decoded, so that "%2F" in a name
 * does not make two.  In the query '+' is a blank.  Everything decoded is
 * valid UTF-8 without control characters; what is not is refused, and so is
 * a '%' without two hex digits.
 */
enum { URL_MAX = 8192, URL_MAX_PARTS = 8, URL_MAX_ARGS = 100 };

struct url_arg {
    const char *name, *value;          /* value "" when there was no '=' */
};

struct url {
    const char *part[URL_MAX_PARTS];   /* of the path; "/" alone has one, "" */
    size_t nparts;
    struct url_arg args[URL_MAX_ARGS]; /* in the order they came */
    size_t nargs;
    char *memory;                      /* owns all of the above */
};

/* -ENAMETOOLONG past URL_MAX bytes; -E2BIG for too many parts or arguments;
 * -EINVAL for what is not well formed.
 */
int url_parse(const char *raw, struct url *ret, struct err *err);
void url_clear(struct url *u);         /* zeroed is fine */

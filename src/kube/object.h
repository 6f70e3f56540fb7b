#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

/* object - what the API server sends: JSON that somebody else wrote.
 *
 * Unlike our own JSON it may hold keys twice and NULs inside of texts, which
 * a user can put into an annotation: one such object must not hide the rest.
 * A text with a NUL is read up to it.  Bounded in length and depth.
 */
int object_read(const char *text, size_t len, size_t max, json_t **ret,
                struct err *err);

/* Down the members named, ended by NULL; NULL when one is absent. */
const json_t *object_at(const json_t *o, ...) __attribute__((sentinel));
/* The same for a text; "" when absent or no text. */
const char *object_str(const json_t *o, ...) __attribute__((sentinel));

/* For messages: one line of at most size - 1 bytes, in which control
 * characters are blanks and bytes that are no UTF-8 are '?'.
 */
void object_line(const char *s, size_t len, char *out, size_t size);

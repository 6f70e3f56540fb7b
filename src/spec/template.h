#pragma once

#include <stdbool.h>

struct node;
struct reader;

/* template - "{{ name }}" in a text stands for the value of a parameter or of
 * a matrix axis.
 *
 * Values are put into texts that are read already: a value can never become a
 * key, a list or a further "{{ name }}".  "{{{{" stands for "{{" itself.  The
 * shell's own ${name} is left alone.
 */

/* Put values into the text of scalar `n`, giving r->text; false after a
 * problem was noted.
 */
bool template_expand(struct reader *r, const struct node *n);

/* [A-Za-z_] then [A-Za-z0-9_-], at most SPEC_MAX_NAME. */
bool template_name_valid(const char *name);

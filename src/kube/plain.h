#pragma once

#include <jansson.h>
#include <stddef.h>

struct err;

/* plain - a small YAML file, such as a kubeconfig, as JSON.
 *
 * Scalars are texts, but for a plain true, false and null.  One document, valid
 * UTF-8, nested at most PLAIN_DEPTH deep; keys that are there twice, aliases
 * and tags are refused.  Messages begin with the line.
 */
enum { PLAIN_DEPTH = 32 };

int plain_read(const char *text, size_t len, json_t **ret, struct err *err);

#pragma once

#include <jansson.h>
#include <stdint.h>

struct err;
struct query;
struct spec;

/* load - columns back into what they were written from.  A text that does not
 * read is damage: -EBADMSG, and the text says of what.
 */
enum { LOAD_JSON_MAX = 1 << 30 };

int load_json(const struct query *q, int at, const char *what, json_t **ret,
              struct err *err);
int load_spec(const struct query *q, int at, uint64_t workload,
              struct spec **ret, struct err *err);

#pragma once

#include <jansson.h>

struct inventory;

/* observed - what a pool that is only looked at has, and who ever uses it, in
 * the form of the engine's `inventory`; caller owns.
 */
json_t *observed_json(const struct inventory *v);

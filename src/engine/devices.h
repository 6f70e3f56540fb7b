#pragma once

#include <jansson.h>
#include <stdbool.h>

struct err;

/* devices - reads what --devices says: "none", or "KIND:" and a list of
 * COUNTxMODEL-MEMORY, as in "sim:4xH100-80GB,2xA100-40GB".  *ret is a list of
 * {model, memory}, in order; caller owns.
 */
int devices_parse(const char *text, const char *kind, json_t **ret,
                  struct err *err);

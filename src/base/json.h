#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* json - jansson with our limits and words.
 *
 * Input is at most `max` bytes, nested at most 64 deep, valid UTF-8, without
 * duplicate keys and without anything after it.
 */
#define autojson cleanup(json_freep)

static inline void json_freep(json_t **j)
{
    json_decref(*j);
}

/* How numbers are written: the shortest of at most 15 digits, so that 0.1
 * stays 0.1 (every number of ours has fewer).
 */
#define JSON_FORM (JSON_REAL_PRECISION(15) | JSON_PRESERVE_ORDER)

int json_read(const char *text, size_t len, size_t max, json_t **ret,
              struct err *err);
/* Compact, in the order of the keys' adding; caller frees. */
char *json_text(const json_t *j);

/* Members of an object; absent gives the fallback, a wrong type too. */
const char *json_get_str(const json_t *o, const char *key,
                         const char *fallback);
uint64_t json_get_u64(const json_t *o, const char *key, uint64_t fallback);
bool json_get_bool(const json_t *o, const char *key, bool fallback);
double json_get_number(const json_t *o, const char *key);   /* or 0 */

/* A text that is NULL is left out, bytes that are no UTF-8 are replaced; a
 * number must fit int64; the value of json_put is taken.
 */
void json_put_str(json_t *o, const char *key, const char *value);
void json_put_u64(json_t *o, const char *key, uint64_t value);
void json_put_bool(json_t *o, const char *key, bool value);
/* Thousandths as people write them: 2, 0.25. */
void json_put_milli(json_t *o, const char *key, uint64_t milli);
void json_put(json_t *o, const char *key, json_t *value);

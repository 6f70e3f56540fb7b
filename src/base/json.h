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

int json_read(const char *text, size_t len, size_t max, json_t **ret,
              struct err *err);
char *json_text(const json_t *j);                  /* compact, key order kept; caller frees */

/* Members of an object; absent gives the fallback, a wrong type too. */
const char *json_get_str(const json_t *o, const char *key, const char *fallback);
uint64_t json_get_u64(const json_t *o, const char *key, uint64_t fallback);
bool json_get_bool(const json_t *o, const char *key, bool fallback);

void json_put_str(json_t *o, const char *key, const char *value);  /* NULL: left out */
void json_put_u64(json_t *o, const char *key, uint64_t value);     /* must fit int64 */
void json_put_bool(json_t *o, const char *key, bool value);
void json_put(json_t *o, const char *key, json_t *value);          /* taken */

#pragma once

#include <jansson.h>

struct err;

/* shape - the shapes of what the API takes and gives.
 *
 * One JSON Schema for each, by name.  The OpenAPI document shows them, and
 * bodies are checked against them before a handler sees them: what a handler
 * reads has the type that the document promises.
 */
const json_t *shape_all(void);                    /* name -> schema; static */
const json_t *shape_get(const char *name);        /* NULL: none */

/* -EINVAL with a text that names the member: "tenant.members[0]: ...".  Of
 * JSON Schema this knows what shape_all uses: type, enum, properties,
 * required, additionalProperties: false, items, maxItems, minLength,
 * maxLength, pattern, minimum, maximum, anyOf, $ref.  What does not fit a
 * pattern is told by the description, where there is one: what was expected.
 */
int shape_check(const json_t *schema, const json_t *value, struct err *err);
/* Whole numbers written as 3.0 become integers, among an object's members. */
void shape_settle(json_t *value);
/* A list "a,b" of members that the schema has.  -EINVAL names the nearest. */
int shape_fields_check(const char *name, const char *fields,
                        struct err *err);

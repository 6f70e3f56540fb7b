#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* resources - so much CPU, so much memory, and so many of each further thing.
 *
 * Further things are those with a '/' in their name, as "nvidia.com/gpu" and
 * "nvidia.com/mig-1g.10gb"; the rest (storage, pods) is passed over.  No single
 * amount is more than RESOURCES_MAX, so that RESOURCES_HOLDERS of them add up
 * without passing 2^63.
 */
enum { RESOURCES_KINDS = 64, RESOURCES_HOLDERS = 1 << 19 };
#define RESOURCES_MAX (UINT64_C(1) << 44)

struct resource {
    char *name;
    uint64_t count;
};

struct resources {
    uint64_t cpu_milli, memory;
    struct resource *list;             /* in no order, none of them 0 */
    size_t n;
};

/* From a mapping of names to quantities; NULL or null is none.  `where` names
 * it in messages: "spec.containers[0].resources.requests".
 */
int resources_read(const json_t *from, const char *where,
                   struct resources *ret, struct err *err);
void resources_clear(struct resources *r);         /* zeroed is fine */

void resources_add(struct resources *to, const struct resources *more);
void resources_sub(struct resources *from, const struct resources *less);
/* The larger of both, for each by itself. */
void resources_max(struct resources *to, const struct resources *other);
/* What `by` says at all counts instead. */
void resources_override(struct resources *to, const struct resources *by);
uint64_t resources_count(const struct resources *r, const char *name);

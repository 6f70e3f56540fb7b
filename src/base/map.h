#pragma once

#include <stddef.h>
#include <stdint.h>

/* map - from a text or a number to a pointer.
 *
 * Open addressing with a seed of its own for each map, so that names chosen
 * by a stranger do not make it slow.  Iteration is in order of insertion
 * (deletions do not disturb it), the same on every machine.  Keys are copied;
 * values are borrowed and not NULL.
 */
struct map;

struct map *map_new(void);
void map_free(struct map *m);                      /* NULL is fine */
size_t map_count(const struct map *m);

void *map_get(const struct map *m, const char *key);
/* These two return what was there, or NULL. */
void *map_set(struct map *m, const char *key, void *value);
void *map_del(struct map *m, const char *key);

void *map_get_id(const struct map *m, uint64_t key);
void *map_set_id(struct map *m, uint64_t key, void *value);
void *map_del_id(struct map *m, uint64_t key);

/* Start with *pos = 0; NULL at the end.  The map may not change meanwhile. */
void *map_next(const struct map *m, size_t *pos, const char **ret_key);

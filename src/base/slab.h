#pragma once

#include <stddef.h>

/* slab - many things of one size, close together.
 *
 *     struct slab s = { .size = sizeof(struct thing) };
 *     struct thing *t = slab_get(&s);
 *     slab_put(&s, t);
 *     slab_free(&s);                  // once all were put back
 *
 * What was put back last is given out first.  Memory goes back to the system
 * with the whole slab only.  It grows by an eighth at a time and, once that is
 * large, in huge pages where the machine has them: of a million things each is
 * far from the next one wanted, and would else miss the page table as well.
 * Things whose size is a multiple of a cache's line (mem.h) begin with one.
 * Both calls are O(1).  Under an address sanitizer each thing has memory of its
 * own, so that a use after its end is seen.
 */
struct slab {
    size_t size;                       /* of each; the user's to set */
    struct slab_link { struct slab_link *next; } *spare, *parts;
    char *next, *end;                  /* never given out yet */
    size_t bytes;                      /* of all parts */
};

void *slab_get(struct slab *s);                    /* zeroed, never NULL */
void slab_put(struct slab *s, void *p);            /* NULL is fine */
void slab_free(struct slab *s);

#include "base/slab.h"

#include "base/mem.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    ALIGN = _Alignof(max_align_t),
    FIRST = 16 << 10,
    HUGE_PAGE = 2 << 20,
};

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define SEEN_APART
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define SEEN_APART
#endif

#ifdef SEEN_APART
static const bool apart = true;
#else
static const bool apart = false;
#endif

static size_t up_to(size_t n, size_t of)
{
    return (n + of - 1) / of * of;
}

static char *get_part(struct slab *s, size_t bytes)
{
    bool huge = bytes >= HUGE_PAGE;
    struct slab_link *part =
        mem_there(aligned_alloc(huge ? HUGE_PAGE : MEM_LINE, bytes));

    if (huge)                          /* a wish: small pages do as well */
        (void) madvise(part, bytes, MADV_HUGEPAGE);
    part->next = s->parts;
    s->parts = part;
    s->bytes += bytes;
    return (char *) part;
}

static void grow(struct slab *s, size_t each)
{
    size_t head = up_to(sizeof(struct slab_link), MEM_LINE);
    size_t bytes = s->bytes / 8 > FIRST ? s->bytes / 8 : FIRST;

    if (bytes < head + each)
        bytes = head + each;
    bytes = up_to(bytes, bytes < HUGE_PAGE ? FIRST : HUGE_PAGE);
    s->next = get_part(s, bytes) + head;
    s->end = s->next + (bytes - head) / each * each;
}

static void *next_of(struct slab *s)
{
    size_t each = up_to(s->size, ALIGN);
    void *p = s->spare;

    if (p) {
        s->spare = s->spare->next;
        return p;
    }
    if (s->next == s->end)
        grow(s, each);
    p = s->next;
    s->next += each;
    return p;
}

void *slab_get(struct slab *s)
{
    if (!apart)
        return memset(next_of(s), 0, s->size);
    return s->size % MEM_LINE ? mem_new(s->size) : mem_lines(s->size);
}

void slab_put(struct slab *s, void *p)
{
    struct slab_link *link = p;

    if (apart) {
        free(p);
    } else if (link) {
        link->next = s->spare;
        s->spare = link;
    }
}

void slab_free(struct slab *s)
{
    struct slab_link *part;

    while ((part = s->parts)) {
        s->parts = part->next;
        free(part);
    }
    *s = (struct slab) { .size = s->size };
}

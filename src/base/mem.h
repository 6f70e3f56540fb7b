#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

/* mem - ownership on the stack, and memory that is there.
 *
 *     autofree char *path = NULL;
 *     autoclose int fd = -1;
 *
 * Declare, then return early as often as you like; hand a value out with
 * take(), which leaves NULL behind.
 *
 * The mem_ functions never return NULL: a process that has no memory says so
 * in one line and ends with 71.  For the control plane and the runner that is
 * a crash like any other, and restart is the tested path.  Sizes that come
 * from outside are checked against a limit before they get here.
 */
#define cleanup(fn) __attribute__((cleanup(fn)))
#define autofree    cleanup(mem_freep)
#define autoclose   cleanup(mem_closep)

#define take(p) ({ __typeof__(p) taken_ = (p); (p) = NULL; taken_; })
#define take_fd(fd) ({ int taken_ = (fd); (fd) = -1; taken_; })
#define array_size(a) (sizeof(a) / sizeof((a)[0]))

_Noreturn void mem_none(void);                     /* ends it as said above */
void *mem_new(size_t bytes);                       /* zeroed */
/* ... beginning with a line of the cache, for what is laid out in such. */
enum { MEM_LINE = 64 };
void *mem_lines(size_t bytes);                     /* zeroed */
/* n times `each`, where a product that overflows is no memory either. */
void *mem_array(size_t n, size_t each);            /* zeroed */
void *mem_grow(void *p, size_t n, size_t each);    /* realloc */
/* Room for one more than n; doubles when n is 0 or a power of two, so only for
 * an array that grows one by one.
 */
void *mem_more(void *p, size_t n, size_t each);
void *mem_there(void *p);                          /* p; NULL is no memory */
void *mem_dup(const void *p, size_t bytes);
char *mem_str(const char *s);                      /* NULL gives NULL */
char *mem_strn(const char *s, size_t n);
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
char *mem_vprintf(const char *fmt, va_list ap)
    __attribute__((format(printf, 1, 0)));

/* Wanted soon: on its way from memory while something else is done.  A wish, and
 * nothing is read: p may be anything.
 */
static inline void mem_fetch(const void *p, size_t bytes)
{
    for (size_t k = 0; k < bytes; k += MEM_LINE)
        __builtin_prefetch((const char *) p + k);
}

static inline void mem_freep(void *p)
{
    free(*(void **) p);
}

static inline void mem_closep(const int *fd)
{
    if (*fd >= 0)
        (void) close(*fd);
}

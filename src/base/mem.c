#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { EXIT_NO_MEMORY = 71 };

/* Nothing here may need memory: no stdio, no atexit handlers. */
void mem_none(void)
{
    static const char line[] = "weir: out of memory\n";
    ssize_t n = write(STDERR_FILENO, line, sizeof line - 1);

    (void) n;
    _exit(EXIT_NO_MEMORY);
}

void *mem_there(void *p)
{
    if (!p)
        mem_none();
    return p;
}

void *mem_new(size_t bytes)
{
    return mem_there(calloc(1, bytes ? bytes : 1));
}

void *mem_lines(size_t bytes)
{
    size_t whole = (bytes / MEM_LINE + (bytes % MEM_LINE != 0)) * MEM_LINE;
    void *p = mem_there(aligned_alloc(MEM_LINE, whole ? whole : MEM_LINE));

    return memset(p, 0, whole);
}

void *mem_array(size_t n, size_t each)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, each, &bytes))
        mem_none();
    return mem_new(bytes);
}

void *mem_grow(void *p, size_t n, size_t each)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, each, &bytes))
        mem_none();
    return mem_there(realloc(p, bytes ? bytes : 1));
}

void *mem_more(void *p, size_t n, size_t each)
{
    return n & (n - 1) ? p : mem_grow(p, n ? 2 * n : 1, each);
}

void *mem_dup(const void *p, size_t bytes)
{
    void *copy = mem_there(malloc(bytes ? bytes : 1));

    if (bytes)
        memcpy(copy, p, bytes);
    return copy;
}

char *mem_str(const char *s)
{
    return s ? mem_there(strdup(s)) : NULL;
}

char *mem_strn(const char *s, size_t n)
{
    size_t len = strnlen(s, n);
    char *copy = mem_there(malloc(len + 1));

    memcpy(copy, s, len);
    copy[len] = '\0';
    return copy;
}

char *mem_vprintf(const char *fmt, va_list ap)
{
    char *s = NULL;

    if (vasprintf(&s, fmt, ap) < 0)
        mem_none();
    return s;
}

char *mem_printf(const char *fmt, ...)
{
    va_list ap;
    char *s;

    va_start(ap, fmt);
    s = mem_vprintf(fmt, ap);
    va_end(ap);
    return s;
}

#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <stdint.h>
#include <stdio.h>

/* Whatever the text: a reader says yes and gives a value that prints and reads
 * back as itself, or says no in words and gives nothing.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

typedef int (*read_f)(const char *s, uint64_t *ret, struct err *err);
typedef void (*print_f)(uint64_t v, char *buf, unsigned size);

static void print_count(uint64_t v, char *buf, unsigned size)
{
    (void) snprintf(buf, size, "%llu", (unsigned long long) v);
}

static void check(const char *s, read_f read, print_f print)
{
    const uint64_t untouched = UINT64_MAX - 7;
    struct err err = { 0 };
    uint64_t v = untouched, back = untouched;
    char text[32];
    int rc = read(s, &v, &err);

    if (rc < 0) {
        must(v == untouched && err.code == -rc && err.text[0]);
        return;
    }
    must(rc == 0 && v <= INT64_MAX && err.code == 0);
    print(v, text, sizeof text);
    must(read(text, &back, NULL) == 0 && back == v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autofree char *s = mem_strn((const char *) data, size);

    check(s, quantity_bytes, quantity_print_bytes);
    check(s, quantity_duration, quantity_print_duration);
    check(s, quantity_milli, quantity_print_milli);
    check(s, quantity_count, print_count);
    return 0;
}

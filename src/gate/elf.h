#pragma once

#include <stdbool.h>
#include <stdint.h>

/* elf - a function by its name in what is loaded, without asking the loader.
 *
 * The first one in the order of loading that is not `but`, or NULL.  For the
 * loader's own functions, which are in libc or in libdl, in many versions or in
 * none, and which libraries loaded first may replace.
 */
void *elf_find(const char *name, const void *but);

/* The loaded segment that an address is in; false: it is in none.  Where a part
 * of a segment is made read-only after loading, it is a segment of its own.
 */
struct elf_part {
    uintptr_t from, end;
    const void *object;                /* the same for all of one object */
    bool code;
    bool fixed;                        /* nobody may write to it */
};
bool elf_part_of(const void *p, struct elf_part *ret);

#include "gate/elf.h"
#include "gate/gate.h"
#include "gate/lookup.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* The tables of functions that cuGetExportTable hands out.  They are not
 * described anywhere; the CUDA runtime and the vendor's libraries call through
 * them.
 *
 * What is known is that they lie in the part of the driver that nobody writes to
 * after it is loaded, and that most begin with their size in bytes; the others
 * begin with a function.  A program gets a copy in which every address of the
 * driver's code is that of a trampoline, and every other word as it is.  Of a
 * table without a size the functions that it begins with are replaced, and words
 * after them copied, which may belong to somebody else, so that who reads on finds
 * what it would have found.
 *
 * A table that is neither is handed out as it is, and shows in the page.  So are
 * two that the runtime compares with what the driver knows of itself.
 */
enum {
    TABLES = 64,
    SIZE_MAX_BYTES = 1 << 16,
    BLIND = 64,                        /* words of a table without a size */
};

static struct {
    const uintptr_t *real, *ours;
} tables[TABLES];
static size_t tables_n;
static struct gate_lock lock;

/* The driver's code, and where its tables end. */
struct driver {
    struct elf_part code, data;
};

static bool is_code(const struct driver *d, uintptr_t p)
{
    return p >= d->code.from && p < d->code.end;
}

static bool find_driver(struct driver *d, const uintptr_t *table)
{
    return elf_part_of(gate_real_of(ID_cuGetExportTable), &d->code) &&
           d->code.code && elf_part_of(table, &d->data) &&
           d->data.object == d->code.object && d->data.fixed &&
           ((uintptr_t) table & 7) == 0;
}

/* How many words are copied, and which of them, [*from, *end), may be
 * functions; 0: it cannot be said.
 */
static size_t measure(const struct driver *d, const uintptr_t *t,
                      size_t *from, size_t *end)
{
    size_t room = (d->data.end - (uintptr_t) t) / sizeof *t, n = 0;

    if (room == 0)
        return 0;
    if (t[0] > sizeof *t && t[0] % sizeof *t == 0 && t[0] <= SIZE_MAX_BYTES &&
        t[0] / sizeof *t <= room) {
        *from = 1;
        *end = t[0] / sizeof *t;
        return *end;
    }
    room = room < BLIND ? room : BLIND;
    while (n < room && is_code(d, t[n]))
        n++;
    *from = 0;
    *end = n;
    return n ? room : 0;
}

/* Runtime and driver each make a sum of addresses, those of these tables among
 * them, and work together only when it is the same (103, "integrity checks
 * failed").
 */
static bool compared(const void *uuid)
{
    static const unsigned char all[][16] = {
        { 0xd4, 0x08, 0x20, 0x55, 0xbd, 0xe6, 0x70, 0x4b,
          0x8d, 0x34, 0xba, 0x12, 0x3c, 0x66, 0xe1, 0xf2 },
        { 0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a,
          0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9 },
    };

    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) {
        if (memcmp(uuid, all[k], sizeof all[k]) == 0)
            return true;
    }
    return false;
}

static const uintptr_t *copy(const uintptr_t *t)
{
    struct driver d;
    size_t from, end, n = find_driver(&d, t) ? measure(&d, t, &from, &end) : 0;
    uintptr_t *ours;

    if (n == 0)
        return NULL;
    ours = mmap(NULL, n * sizeof *t, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (ours == MAP_FAILED)
        return NULL;
    memcpy(ours, t, n * sizeof *t);
    for (size_t k = from; k < end; k++) {
        if (is_code(&d, t[k]))
            ours[k] = (uintptr_t) gate_wrap((void *) t[k]);
    }
    (void) mprotect(ours, n * sizeof *t, PROT_READ);
    return ours;
}

/* Under the lock. */
static const uintptr_t *ours_of(const uintptr_t *t)
{
    const uintptr_t *ours;

    for (size_t k = 0; k < tables_n; k++) {
        if (tables[k].real == t)
            return tables[k].ours;
    }
    ours = tables_n < TABLES ? copy(t) : NULL;
    if (!ours) {
        gate_page->unhooked++;
        return t;
    }
    tables[tables_n].real = t;
    tables[tables_n++].ours = ours;
    return ours;
}

void table_forked(void)
{
    lock.held = 0;
}

CUresult cuGetExportTable(const void **table, const void *uuid)
{
    CUresult rc = REAL(cuGetExportTable)(table, uuid);
    int saved = errno;

    if (rc != CUDA_SUCCESS || !table || !*table)
        return rc;
    gate_take(&lock);
    if (uuid && compared(uuid))
        gate_page->unhooked++;
    else
        *table = ours_of(*table);
    gate_drop(&lock);
    errno = saved;
    return rc;
}

#include "gate/elf.h"

#include <link.h>
#include <stddef.h>

/* Looks into the tables that the loader itself uses.  glibc writes absolute
 * addresses into the dynamic section, musl and the vDSO leave them relative.
 */
struct tables {
    const ElfW(Sym) *symbols;
    const char *strings;
    const uint32_t *gnu_hash, *sysv_hash;
};

struct search {
    const char *name;
    const void *but;
    void *found;
};

static const void *at(ElfW(Addr) base, ElfW(Addr) p)
{
    return (const void *) (p < base ? base + p : p);
}

static void read_dynamic(struct tables *t, ElfW(Addr) base,
                         const ElfW(Dyn) *d)
{
    for (; d->d_tag != DT_NULL; d++) {
        const void *p = at(base, d->d_un.d_ptr);

        if (d->d_tag == DT_SYMTAB)
            t->symbols = p;
        else if (d->d_tag == DT_STRTAB)
            t->strings = p;
        else if (d->d_tag == DT_GNU_HASH)
            t->gnu_hash = p;
        else if (d->d_tag == DT_HASH)
            t->sysv_hash = p;
    }
}

/* How many symbols there are is said only by the hash tables: the old one has
 * the number, in the new one the last chain ends with the last symbol.
 */
static uint32_t count_symbols(const struct tables *t)
{
    const uint32_t *h = t->gnu_hash, *buckets, *chains;
    uint32_t last = 0;

    if (!h)
        return t->sysv_hash ? t->sysv_hash[1] : 0;
    buckets = h + 4 + h[2] * (sizeof(ElfW(Addr)) / sizeof *h);
    chains = buckets + h[0];
    for (uint32_t k = 0; k < h[0]; k++)
        last = buckets[k] > last ? buckets[k] : last;
    if (last < h[1])
        return 0;
    while (!(chains[last - h[1]] & 1))
        last++;
    return last + 1;
}

/* A program may have a strcmp of its own that is not ready before dlsym has told
 * it libc's: sanitizers do.
 */
static bool same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static int see(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct tables t = { NULL, NULL, NULL, NULL };
    struct search *s = arg;
    uint32_t n;

    (void) size;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        if (info->dlpi_phdr[k].p_type == PT_DYNAMIC)
            read_dynamic(&t, info->dlpi_addr,
                         (const ElfW(Dyn) *) (info->dlpi_addr +
                                              info->dlpi_phdr[k].p_vaddr));
    }
    n = t.symbols && t.strings ? count_symbols(&t) : 0;
    for (uint32_t k = 0; k < n && !s->found; k++) {
        const ElfW(Sym) *sym = &t.symbols[k];
        void *p = (void *) (info->dlpi_addr + sym->st_value);

        if (sym->st_shndx != SHN_UNDEF && (sym->st_info & 15) == STT_FUNC &&
            p != s->but && same(t.strings + sym->st_name, s->name))
            s->found = p;
    }
    return s->found != NULL;
}

void *elf_find(const char *name, const void *but)
{
    struct search s = { name, but, NULL };

    (void) dl_iterate_phdr(see, &s);
    return s.found;
}

struct place {
    uintptr_t p;
    struct elf_part part;
};

static int see_part(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct place *at = arg;
    bool found = false;

    (void) size;
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[k];
        uintptr_t from = info->dlpi_addr + h->p_vaddr;
        bool here = at->p - from < h->p_memsz;

        if (here && (h->p_type == PT_LOAD || h->p_type == PT_GNU_RELRO)) {
            at->part.from = from;
            at->part.end = from + h->p_memsz;
            at->part.object = info->dlpi_phdr;
            at->part.code = h->p_flags & PF_X;
            at->part.fixed = h->p_type == PT_GNU_RELRO ||
                             !(h->p_flags & PF_W);
            found = true;
        }
    }
    return found;
}

bool elf_part_of(const void *p, struct elf_part *ret)
{
    struct place at = { .p = (uintptr_t) p };

    if (!dl_iterate_phdr(see_part, &at))
        return false;
    *ret = at.part;
    return true;
}

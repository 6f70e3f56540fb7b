#include "gate/stuck.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    RANGES = 2048,                     /* pieces of code in a process */
    WINDOW = 64 << 10,                 /* bytes of a stack */
    SYMBOLS_MAX = 1 << 14,
    FUNCTION_MAX = 8 << 10,            /* bytes of one */
};

enum whose { NOBODYS, LIBCS, DRIVERS, GATES, OTHERS };

struct range {
    uint64_t from, end;
    enum whose whose;
};

/* What is known of the process while it is looked at. */
static struct {
    int pid, mem;
    size_t n;
    uint64_t driver;                   /* where its file begins */
    struct range ranges[RANGES];
    uint64_t stack[WINDOW / sizeof(uint64_t)];
} at;

static int open_in(const char *what, int flags)
{
    char path[96];

    if (at.pid == 0)
        (void) snprintf(path, sizeof path, "/proc/self/%s", what);
    else
        (void) snprintf(path, sizeof path, "/proc/%d/%s", at.pid, what);
    return open(path, O_RDONLY | O_CLOEXEC | flags);
}

static size_t get(uint64_t from, void *to, size_t size)
{
    ssize_t n = pread(at.mem, to, size, (off_t) from);

    return n < 0 ? 0 : (size_t) n;
}

static const char *hex(const char *s, uint64_t *n)
{
    for (*n = 0;; s++) {
        if (*s >= '0' && *s <= '9')
            *n = *n << 4 | (uint64_t) (*s - '0');
        else if (*s >= 'a' && *s <= 'f')
            *n = *n << 4 | (uint64_t) (*s - 'a' + 10);
        else
            return s;
    }
}

static enum whose whose_file(const char *path)
{
    static const char *const libc[] = { "libc.so", "libc-2", "libpthread",
                                        "ld-linux", "ld-2", "ld-musl",
                                        "[vdso]" };
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (strncmp(name, "libcuda.so", 10) == 0)
        return DRIVERS;
    if (strncmp(name, "libweir-gate", 12) == 0)
        return GATES;
    for (size_t k = 0; k < sizeof libc / sizeof *libc; k++) {
        if (strncmp(name, libc[k], strlen(libc[k])) == 0)
            return LIBCS;
    }
    return OTHERS;
}

/* "FROM-END rwxp OFFSET DEVICE INODE PATH" */
static void see_line(const char *line)
{
    struct range r;
    uint64_t offset;
    const char *s = hex(line, &r.from), *path;

    if (*s != '-')
        return;
    s = hex(s + 1, &r.end);
    if (strlen(s) < 7)
        return;
    (void) hex(s + 6, &offset);
    path = strpbrk(line, "/[");
    r.whose = path ? whose_file(path) : OTHERS;
    if (r.whose == DRIVERS && offset == 0 && at.driver == 0)
        at.driver = r.from;
    if (s[3] == 'x' && at.n < RANGES)
        at.ranges[at.n++] = r;
}

/* The lines of `fd`; of one that is too long the end is left out. */
static void see_lines(int fd)
{
    char text[1024];
    size_t have = 0;
    bool rest = false;                 /* of a line that was too long */
    ssize_t n;

    while ((n = read(fd, text + have, sizeof text - 1 - have)) > 0) {
        char *line = text, *end;

        have += (size_t) n;
        text[have] = '\0';
        for (; (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            if (!rest)
                see_line(line);
            rest = false;
        }
        have -= (size_t) (line - text);
        memmove(text, line, have);
        if (have == sizeof text - 1) {
            text[have] = '\0';
            if (!rest)
                see_line(text);
            rest = true;
            have = 0;
        }
    }
}

static enum whose whose_code(uint64_t p)
{
    for (size_t k = 0; k < at.n; k++) {
        if (p >= at.ranges[k].from && p < at.ranges[k].end)
            return at.ranges[k].whose;
    }
    return NOBODYS;
}

static uint64_t word_at(uint64_t p)
{
    uint64_t n;

    return get(p, &n, sizeof n) == sizeof n ? n : 0;
}

/* A function; or, of an entry of a library's table that jumps on, where to. */
static uint64_t through_entry(uint64_t p)
{
    unsigned char b[12];
    size_t k = 0;
    int32_t far;

    if (get(p, b, sizeof b) != sizeof b)
        return 0;
    if (memcmp(b, "\xf3\x0f\x1e\xfa", 4) == 0)        /* endbr64 */
        k = 4;
    k += b[k] == 0xf2;                 /* bnd */
    if (b[k] != 0xff || b[k + 1] != 0x25)
        return p;
    memcpy(&far, b + k + 2, sizeof far);
    return word_at(p + k + 6 + (uint64_t) (int64_t) far);
}

/* Whether a call comes back to an address, and what it calls: 0 when that is
 * not in the instruction.
 */
static bool after_call(uint64_t p, uint64_t *callee)
{
    unsigned char b[7];
    int32_t far;

    if (get(p - sizeof b, b, sizeof b) != sizeof b)
        return false;
    memcpy(&far, b + 3, sizeof far);
    *callee = 0;
    if (b[2] == 0xe8) {                /* call */
        *callee = through_entry(p + (uint64_t) (int64_t) far);
        return true;
    }
    if (b[1] == 0xff && b[2] == 0x15) {        /* call *FAR(%rip) */
        *callee = word_at(p + (uint64_t) (int64_t) far);
        return true;
    }
    for (int k = 0; k < 6; k++) {
        if (b[k] == 0xff && (b[k + 1] & 0x38) == 0x10)
            return true;
    }
    return false;
}

/* Whether `p` is where the function that `inner` is in returns to.  Between
 * those that are on the stack lie words of calls that have ended; what was called
 * from there is another function.
 */
enum answer { NO, PERHAPS, YES };

static enum answer called_from(uint64_t p, uint64_t inner)
{
    enum whose in = whose_code(inner), to;
    uint64_t callee;

    if (!after_call(p, &callee))
        return NO;
    to = whose_code(callee);
    if (to == in && callee <= inner && inner - callee < FUNCTION_MAX)
        return YES;
    if (in == LIBCS)
        return NO;                     /* which is called by its names */
    if (to == GATES)
        return YES;                    /* and jumps on */
    return callee == 0 || to == in ? PERHAPS : NO;
}

/* Whether a thread with that stack is inside the driver, called from outside;
 * *in: where in its outermost function.  Outside is where a call is that may
 * have been the one, and no function of the driver's comes after it that was.
 */
static bool inside(uint64_t sp, uint64_t pc, uint64_t *in)
{
    size_t n = get(sp, at.stack, sizeof at.stack) / sizeof *at.stack;
    bool driver = whose_code(pc) == DRIVERS, outside = false;
    uint64_t inner = pc;

    *in = pc;
    for (size_t k = 0; k < n; k++) {
        enum whose w = whose_code(at.stack[k]);
        enum answer a = w == NOBODYS || (outside && w != DRIVERS)
                        ? NO : called_from(at.stack[k], inner);

        if (a == NO || (outside && a != YES))
            continue;
        outside = w == OTHERS || w == GATES;
        if (outside && (a == YES || !driver))
            break;
        if (outside)
            continue;
        inner = at.stack[k];
        if (w == DRIVERS) {
            driver = true;
            *in = inner;
        }
    }
    return driver && outside;
}

/* Where the driver's symbols and their names are in the process. */
static bool find_symbols(uint64_t *symbols, uint64_t *strings)
{
    Elf64_Ehdr head;
    Elf64_Phdr ph;
    Elf64_Dyn d = { .d_tag = DT_NULL };
    uint64_t dyn = 0;

    *symbols = *strings = 0;
    if (!at.driver || get(at.driver, &head, sizeof head) != sizeof head ||
        memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
        return false;
    for (unsigned int k = 0; k < head.e_phnum && !dyn; k++) {
        uint64_t p = at.driver + head.e_phoff + k * sizeof ph;

        if (get(p, &ph, sizeof ph) == sizeof ph && ph.p_type == PT_DYNAMIC)
            dyn = at.driver + ph.p_vaddr;
    }
    for (; dyn && get(dyn, &d, sizeof d) == sizeof d && d.d_tag != DT_NULL;
         dyn += sizeof d) {
        uint64_t p = d.d_un.d_ptr;     /* glibc makes it absolute */

        p = p < at.driver ? at.driver + p : p;
        if (d.d_tag == DT_SYMTAB)
            *symbols = p;
        else if (d.d_tag == DT_STRTAB)
            *strings = p;
    }
    return *symbols && *strings > *symbols;
}

/* The exported function that an address is in.  The names stand after the
 * symbols, which says how many these are at most.
 */
static void name_of(uint64_t p, char name[GATE_NAME_MAX])
{
    uint64_t symbols, strings, n;
    Elf64_Sym s[64];

    (void) snprintf(name, GATE_NAME_MAX, "?");
    if (!find_symbols(&symbols, &strings))
        return;
    n = (strings - symbols) / sizeof *s;
    for (uint64_t k = 0; k < n && k < SYMBOLS_MAX; k += 64) {
        size_t got = get(symbols + k * sizeof *s, s, sizeof s) / sizeof *s;

        for (size_t i = 0; i < got && k + i < n; i++) {
            uint64_t from = at.driver + s[i].st_value;

            if ((s[i].st_info & 15) != STT_FUNC || p <= from ||
                p > from + s[i].st_size)
                continue;
            if (get(strings + s[i].st_name, name, GATE_NAME_MAX) == 0)
                (void) snprintf(name, GATE_NAME_MAX, "?");
            name[GATE_NAME_MAX - 1] = '\0';
            return;
        }
    }
}

/* The stack of a thread that waits: the last two numbers of the line that the
 * kernel has for it.  One that runs has none.
 */
static bool stack_of(const char *tid, uint64_t *sp, uint64_t *pc)
{
    char what[64], line[256], *s;
    ssize_t n;
    int fd;

    (void) snprintf(what, sizeof what, "task/%s/syscall", tid);
    fd = open_in(what, 0);
    if (fd < 0)
        return false;
    n = read(fd, line, sizeof line - 1);
    (void) close(fd);
    if (n <= 0)
        return false;
    line[n] = '\0';
    s = strrchr(line, ' ');
    if (!s || strncmp(s, " 0x", 3) != 0)
        return false;
    (void) hex(s + 3, pc);
    *s = '\0';
    s = strrchr(line, ' ');
    if (!s || strncmp(s, " 0x", 3) != 0)
        return false;
    (void) hex(s + 3, sp);
    return true;
}

static int number(const char *s)
{
    int n = 0;

    for (; *s >= '0' && *s <= '9' && n < 100000000; s++)
        n = n * 10 + (*s - '0');
    return n;
}

static bool see_thread(const char *tid, struct stuck *found)
{
    uint64_t sp, pc, in;

    if (!stack_of(tid, &sp, &pc) || !inside(sp, pc, &in))
        return false;
    if (found) {
        found->tid = number(tid);
        found->sp = sp;
        name_of(in, found->in);
    }
    return true;
}

/* The kernel's struct linux_dirent64. */
struct entry {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
};

static int see_threads(int folder, int except, struct stuck *found, int max)
{
    _Alignas(struct entry) char text[2048];
    int count = 0;
    long n;

    while ((n = syscall(SYS_getdents64, folder, text, sizeof text)) > 0) {
        const struct entry *e;

        for (long k = 0; k < n; k += e->size) {
            e = (const struct entry *) (text + k);
            if (number(e->name) > 0 && number(e->name) != except)
                count += see_thread(e->name, count < max ? &found[count]
                                                         : NULL);
        }
    }
    return n < 0 ? -errno : count;
}

static int look(int except, struct stuck *found, int max)
{
    int maps = open_in("maps", 0), folder, rc;

    if (maps < 0)
        return -errno;
    see_lines(maps);
    (void) close(maps);
    if (!at.driver)
        return 0;                      /* which no thread is in */
    folder = open_in("task", O_DIRECTORY);
    if (folder < 0)
        return -errno;
    rc = see_threads(folder, except, found, max);
    (void) close(folder);
    return rc;
}

int stuck_find(int pid, int except, struct stuck *found, int max)
{
    int rc;

    at.pid = pid;
    at.n = 0;
    at.driver = 0;
    at.mem = open_in("mem", 0);
    if (at.mem < 0)
        return -errno;
    rc = look(except, found, max);
    (void) close(at.mem);
    return rc;
}

#include "gate/gate.h"
#include "gate/driver.h"
#include "gate/grant.h"
#include "gate/limit.h"
#include "gate/lookup.h"
#include "gate/slot.h"
#include "gate/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A guest in somebody's process.  It never prints, ends the process, takes a
 * signal, starts a thread, allocates from the heap or changes errno.  It holds a
 * descriptor only while it waits.  It uses libc alone, and nothing in it that is
 * younger than glibc 2.17 or that musl does not have: both load the same file.
 *
 * At load it copies three variables and asks to be called in forked children.
 * A process that asks for its devices or for a context reads its grant; the
 * first context waits until the lease is active.  From then on every call looks
 * at one word of the page that the grant names.
 */
__attribute__((visibility("default")))
const int weir_gate_version = GATE_VERSION;

_Static_assert(offsetof(struct gate_page, state) == GATE_AT_STATE, "state");
_Static_assert(offsetof(struct gate_page, count) == GATE_AT_COUNT, "count");

enum { AGAIN_MS = 100, LOOK_MS = 1000 };
enum { WAIT_OP = 0 };                  /* FUTEX_WAIT; musl has no such header */

struct gate_page gate_alone;
struct gate_page *gate_page = &gate_alone;

static struct {
    char path[sizeof((struct sockaddr_un *) 0)->sun_path];
    char lease[128];
    int wait_ms;                       /* -1: for ever */
} env;

static void map_page(const char *path);
static struct grant grant = { .map = map_page };

static struct gate_lock grant_lock;

static long long now_ms(void)
{
    struct timespec t = { 0, 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void sleep_ms(int ms)
{
    (void) poll(NULL, 0, ms);
}

bool gate_try(struct gate_lock *l)
{
    int nobody = 0;

    return __atomic_compare_exchange_n(&l->held, &nobody, 1, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

void gate_take(struct gate_lock *l)
{
    for (int k = 0; !gate_try(l); k++) {
        if (k < 100)
            (void) sched_yield();
        else
            sleep_ms(1);
    }
}

void gate_drop(struct gate_lock *l)
{
    __atomic_store_n(&l->held, 0, __ATOMIC_RELEASE);
}

/* -1: no connection; *gone: because nobody listens there.  A runner that has its
 * hands full, or a process that has no descriptor left, says nothing of that.
 */
static int dial(bool *gone)
{
    struct sockaddr_un at;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *gone = false;
    if (fd < 0)
        return -1;
    memset(&at, 0, sizeof at);
    at.sun_family = AF_UNIX;
    memcpy(at.sun_path, env.path, sizeof env.path);
    if (connect(fd, (struct sockaddr *) &at, sizeof at) == 0)
        return fd;
    *gone = errno == ECONNREFUSED || errno == ENOENT;
    (void) close(fd);
    return -1;
}

/* Adds `s` to the line; past its end it stays as it is. */
static size_t add(char *line, size_t at, const char *s)
{
    size_t len = strlen(s);

    if (len > GATE_LINE_MAX - 1 - at)
        return at;
    memcpy(line + at, s, len);
    return at + len;
}

static size_t add_number(char *line, size_t at, unsigned int n)
{
    char digits[12];
    size_t k = sizeof digits - 1;

    digits[k] = '\0';
    do {
        digits[--k] = (char) ('0' + n % 10);
        n /= 10;
    } while (n);
    return add(line, at, digits + k);
}

/* "WORDS LEASE PID": the lease first, cut if need be, so the rest is whole. */
static bool say(int fd, const char *words)
{
    char line[GATE_LINE_MAX];
    size_t n = add(line, 0, words);

    n = add(line, n, env.lease[0] ? env.lease : "-");
    n = add(line, n, " ");
    n = add_number(line, n, (unsigned int) getpid());
    line[n++] = '\n';
    return send(fd, line, n, MSG_NOSIGNAL) == (ssize_t) n;
}

static void map_page(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    struct gate_page *p = MAP_FAILED;

    if (size >= (off_t) offsetof(struct gate_page, slots))
        p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        (void) close(fd);
    if (p == MAP_FAILED)
        return;
    if (p->magic == GATE_PAGE_MAGIC && p->version + 1 >= GATE_VERSION &&
        p->version <= GATE_VERSION + 1 &&
        (p->version < 3 || size >= (off_t) sizeof *p))
        __atomic_store_n(&gate_page, p, __ATOMIC_RELEASE);
    else
        (void) munmap(p, sizeof *p);
}

/* When waiting ends; -1: never. */
static long long end_of_wait(void)
{
    return env.wait_ms < 0 ? -1 : now_ms() + env.wait_ms;
}

/* Until the end, and not so long that nothing else is looked at. */
static int left_ms(long long end)
{
    long long left = end < 0 ? LOOK_MS : end - now_ms();

    if (left < 0)
        return 0;
    return left < LOOK_MS ? (int) left : LOOK_MS;
}

/* Reads lines until `*until`, the other side is gone or makes no sense, or time
 * is up.
 */
static void hear(int fd, const bool *until, long long end)
{
    char data[GATE_LINE_MAX];
    size_t have = 0;

    while (!*until && have < sizeof data) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int ms = left_ms(end);
        ssize_t n;

        if (ms == 0 || (poll(&p, 1, ms) < 0 && errno != EINTR))
            return;
        n = recv(fd, data + have, sizeof data - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return;
        have += n > 0 ? (size_t) n : 0;
        grant_take(&grant, data, &have);
    }
}

/* The grant until `*until`.  Strict: a runner that is not there is waited for,
 * because without a grant nothing says that the device is ours.  Who is told to
 * wait no longer does not come back to wait again.
 */
static void greet(bool *until)
{
    long long end = end_of_wait();

    while (!*until) {
        bool gone;
        int fd = dial(&gone);

        if (fd >= 0) {
            grant_begin(&grant);
            if (say(fd, "weir-gate 3 "))
                hear(fd, until, end);
            (void) close(fd);
        }
        if (grant.go || left_ms(end) == 0)
            *until = true;
        else if (!*until)
            sleep_ms(AGAIN_MS);
    }
}

/* A forked child reads its own grant.  It has one thread, no context and no
 * memory on a device; whoever held a lock is not in it.
 */
static void forked(void)
{
    memset(&grant, 0, sizeof grant);
    grant.map = map_page;
    memset(&gate_alone, 0, offsetof(struct gate_page, slots));
    grant_lock.held = 0;
    gate_page = &gate_alone;
    limit_forked();
    graph_forked();
    slot_forked();
    table_forked();
    watch_forked();
}

void gate_ready(void)
{
    int saved = errno;

    if (!env.path[0] || __atomic_load_n(&grant.ready, __ATOMIC_ACQUIRE))
        return;
    gate_take(&grant_lock);
    greet(&grant.ready);
    gate_drop(&grant_lock);
    errno = saved;
}

uint64_t gate_limit(void)
{
    return grant.limited ? grant.limit : UINT64_MAX;
}

int gate_leased(int k, uint8_t uuid[16])
{
    gate_ready();
    if (k >= 0 && k < grant.devices)
        memcpy(uuid, grant.uuid[k], 16);
    return grant.named ? grant.devices : -1;
}

static void wait_word(uint32_t is, int ms)
{
    struct timespec t = { .tv_sec = ms / 1000,
                          .tv_nsec = (long) (ms % 1000) * 1000000 };

    (void) syscall(SYS_futex, &gate_page->state, WAIT_OP, is, &t, NULL, 0);
}

static bool broken(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Says that the device is wanted, and waits while the page's state is `is`.
 * Meanwhile, once a second, it looks for threads that did not get this far.
 */
static void want(uint32_t is, long long end)
{
    struct gate_slot *slot = slot_mine();
    long long look = now_ms() + LOOK_MS;
    bool gone = false;
    int fd = -1;

    SLOT_ADD(gate_page, slot, wanting, 1);
    while (gate_page->state == is) {
        if (fd >= 0 && broken(fd)) {
            (void) close(fd);
            fd = -1;
        }
        if (fd < 0) {
            fd = dial(&gone);
            if (fd >= 0)
                (void) say(fd, "wants ");
        }
        if ((fd < 0 && gone && grant.go) || left_ms(end) == 0)
            break;
        wait_word(is, fd < 0 ? AGAIN_MS : left_ms(end));
        if (is == GATE_SUSPENDED && now_ms() >= look) {
            watch_look();
            look = now_ms() + LOOK_MS;
        }
    }
    if (is == GATE_SUSPENDED)
        watch_end();
    SLOT_SUB(gate_page, slot, wanting, 1);
    if (fd >= 0)
        (void) close(fd);
}

void gate_wait(void)
{
    int saved = errno;

    want(GATE_SUSPENDED, -1);
    errno = saved;
}

void gate_first(void)
{
    int saved = errno;

    gate_pass();
    gate_ready();
    if (!env.path[0])
        return;
    if (gate_page != &gate_alone) {
        (void) slot_mine();            /* before it has a context */
        if (gate_page->state == GATE_STAGED)
            want(GATE_STAGED, end_of_wait());
    } else if (!grant.open) {
        gate_take(&grant_lock);
        greet(&grant.open);
        gate_drop(&grant_lock);
    }
    gate_pass();
    errno = saved;
}

/* A name that does not fit is no name. */
static void keep(char *to, size_t size, const char *var)
{
    const char *s = getenv(var);
    size_t len = s ? strlen(s) : 0;

    if (len && len < size)
        memcpy(to, s, len + 1);
}

/* In glibc pthread_atfork is no symbol of libc.so but a piece of code in whoever
 * uses it, which calls this one; musl has the name that is in books.
 */
typedef void (*atfork_fn)(void);
extern int register_atfork(atfork_fn prepare, atfork_fn parent,
                           atfork_fn child, void *dso)
    __asm__("__register_atfork") __attribute__((weak));
extern int pthread_atfork(atfork_fn prepare, atfork_fn parent,
                          atfork_fn child) __attribute__((weak));
extern void *own_dso __asm__("__dso_handle")
    __attribute__((visibility("hidden")));

static void watch_forks(void)
{
    if (register_atfork)
        (void) register_atfork(NULL, NULL, forked, &own_dso);
    else if (pthread_atfork)
        (void) pthread_atfork(NULL, NULL, forked);
}

__attribute__((constructor))
static void gate_enter(void)
{
    char text[16] = "";
    uint64_t ms;

    keep(env.path, sizeof env.path, GATE_SOCKET_VAR);
    keep(env.lease, sizeof env.lease, GATE_LEASE_VAR);
    keep(text, sizeof text, GATE_WAIT_VAR);
    env.wait_ms = grant_number(text, &ms) && ms < INT32_MAX ? (int) ms : -1;
    watch_forks();
}

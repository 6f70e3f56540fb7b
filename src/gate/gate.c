#include "gate/gate.h"
#include "gate/driver.h"
#include "gate/limit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
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
 * younger than glibc 2.17.
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

enum { AGAIN_MS = 100, LOOK_MS = 1000, UUID_LEN = 36 };

struct gate_page gate_alone;
struct gate_page *gate_page = &gate_alone;

static struct {
    char path[sizeof((struct sockaddr_un *) 0)->sun_path];
    char lease[128];
    int wait_ms;                       /* -1: for ever */
} env;

static struct {
    bool ready, open, go;
    bool limited, named;               /* there was a line, if not a good one */
    uint64_t limit;
    int devices;
    uint8_t uuid[GATE_DEVICES][16];
} grant;

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

void gate_take(struct gate_lock *l)
{
    int free = 0;

    for (int k = 0; !__atomic_compare_exchange_n(&l->held, &free, 1, false,
                                                 __ATOMIC_ACQUIRE,
                                                 __ATOMIC_RELAXED); k++) {
        free = 0;
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

void gate_count(int kind)
{
    gate_page->count[kind]++;
}

/* Digits alone; strtol takes more, and sets errno. */
static bool number(const char *s, uint64_t *out)
{
    uint64_t n = 0;

    if (!*s)
        return false;
    for (; *s; s++) {
        unsigned int digit = (unsigned int) *s - '0';

        if (digit > 9 || n > (UINT64_MAX - digit) / 10)
            return false;
        n = n * 10 + digit;
    }
    *out = n;
    return true;
}

static int dial(void)
{
    struct sockaddr_un at;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    memset(&at, 0, sizeof at);
    at.sun_family = AF_UNIX;
    memcpy(at.sun_path, env.path, sizeof env.path);
    if (connect(fd, (struct sockaddr *) &at, sizeof at) == 0)
        return fd;
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
    struct gate_page *p = MAP_FAILED;

    if (fd < 0)
        return;
    if (lseek(fd, 0, SEEK_END) >= (off_t) sizeof *p)
        p = mmap(NULL, sizeof *p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void) close(fd);
    if (p == MAP_FAILED)
        return;
    if (p->magic == GATE_PAGE_MAGIC && p->version + 1 >= GATE_VERSION &&
        p->version <= GATE_VERSION + 1)
        __atomic_store_n(&gate_page, p, __ATOMIC_RELEASE);
    else
        (void) munmap(p, sizeof *p);
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "GPU-" and 32 hex digits with dashes between; anything else is no device. */
static void add_device(const char *s)
{
    uint8_t id[16];
    size_t k = 0;

    grant.named = true;
    if (strncmp(s, "GPU-", 4) != 0 || grant.devices == GATE_DEVICES)
        return;
    for (s += 4; *s && k < sizeof id; s++) {
        if (*s == '-')
            continue;
        if (hex(s[0]) < 0 || hex(s[1]) < 0)
            return;
        id[k++] = (uint8_t) (hex(s[0]) << 4 | hex(s[1]));
        s++;
    }
    if (k == sizeof id && !*s)
        memcpy(grant.uuid[grant.devices++], id, sizeof id);
}

/* What makes no sense is no memory, and not no limit. */
static void take_limit(const char *s)
{
    grant.limited = true;
    if (!number(s, &grant.limit))
        grant.limit = 0;
}

static void take_line(char *line)
{
    char *word = strchr(line, ' ');

    if (word)
        *word++ = '\0';
    else
        word = line + strlen(line);
    if (strcmp(line, "page") != 0)
        word[strcspn(word, " ")] = '\0';
    if (strcmp(line, "page") == 0)
        map_page(word);
    else if (strcmp(line, "memory") == 0)
        take_limit(word);
    else if (strcmp(line, "device") == 0)
        add_device(word);
    else if (strcmp(line, "lost") == 0)
        grant.go = strcmp(word, "go") == 0;
    else if (strcmp(line, "ready") == 0)
        grant.ready = true;
    else if (strcmp(line, "open") == 0)
        grant.ready = grant.open = true;
}

static void take_lines(char *data, size_t *have)
{
    char *end;

    while ((end = memchr(data, '\n', *have))) {
        *end = '\0';
        take_line(data);
        *have -= (size_t) (end + 1 - data);
        memmove(data, end + 1, *have);
    }
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
        take_lines(data, &have);
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
        int fd = dial();

        if (fd >= 0) {
            grant.devices = 0;
            grant.limited = grant.named = false;
            if (say(fd, "weir-gate 2 "))
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
    memset(&gate_alone, 0, sizeof gate_alone);
    grant_lock.held = 0;
    gate_page = &gate_alone;
    limit_forked();
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

    (void) syscall(SYS_futex, &gate_page->state, FUTEX_WAIT, is, &t, NULL, 0);
}

static bool broken(int fd)
{
    char c;
    ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT | MSG_PEEK);

    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

/* Says that the device is wanted, and waits while the page's state is `is`. */
static void want(uint32_t is, long long end)
{
    int fd = -1;

    gate_page->wanting++;
    while (gate_page->state == is) {
        if (fd >= 0 && broken(fd)) {
            (void) close(fd);
            fd = -1;
        }
        if (fd < 0) {
            fd = dial();
            if (fd >= 0)
                (void) say(fd, "wants ");
        }
        if ((fd < 0 && grant.go) || left_ms(end) == 0)
            break;
        wait_word(is, fd < 0 ? AGAIN_MS : left_ms(end));
    }
    gate_page->wanting--;
    if (fd >= 0)
        (void) close(fd);
}

void gate_pass(void)
{
    int saved = errno;

    if (gate_page->state != GATE_SUSPENDED)
        return;
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

__attribute__((constructor))
static void gate_enter(void)
{
    char text[16] = "";
    uint64_t ms;

    keep(env.path, sizeof env.path, GATE_SOCKET_VAR);
    keep(env.lease, sizeof env.lease, GATE_LEASE_VAR);
    keep(text, sizeof text, GATE_WAIT_VAR);
    env.wait_ms = number(text, &ms) && ms < INT32_MAX ? (int) ms : -1;
    (void) pthread_atfork(NULL, NULL, forked);
}

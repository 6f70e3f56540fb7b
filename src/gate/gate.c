#include "gate/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A guest in somebody's process.  It never prints, ends the process, takes a
 * signal, starts a thread, allocates, leaves a descriptor open or changes
 * errno; whatever goes wrong, the process goes on as if it were not there.
 * It uses libc alone, and nothing in it that is younger than glibc 2.17.
 */
__attribute__((visibility("default")))
const int weir_gate_version = GATE_VERSION;

static long long now_ms(void)
{
    struct timespec t = { 0, 0 };

    (void) clock_gettime(CLOCK_MONOTONIC, &t);
    return (long long) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* strtol takes more than digits, and sets errno. */
static int wait_ms(void)
{
    const char *s = getenv(GATE_WAIT_VAR);
    int ms = 0;

    if (!s || !*s)
        return GATE_WAIT_MS;
    for (; *s; s++) {
        if (*s < '0' || *s > '9' || ms > 10000000)
            return GATE_WAIT_MS;
        ms = ms * 10 + (*s - '0');
    }
    return ms;
}

static int dial(const char *path)
{
    struct sockaddr_un at;
    size_t len = strlen(path);
    int fd;

    memset(&at, 0, sizeof at);
    at.sun_family = AF_UNIX;
    if (len >= sizeof at.sun_path)
        return -1;
    memcpy(at.sun_path, path, len + 1);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
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

static int say_hello(int fd)
{
    const char *lease = getenv(GATE_LEASE_VAR);
    char line[GATE_LINE_MAX];
    char digit[2] = { (char) ('0' + GATE_VERSION), '\0' };
    size_t n = add(line, 0, "weir-gate ");

    n = add(line, n, digit);
    n = add(line, n, " ");
    n = add(line, n, lease && *lease ? lease : "-");
    line[n++] = '\n';
    return send(fd, line, n, MSG_NOSIGNAL) == (ssize_t) n ? 0 : -1;
}

/* Takes the whole lines off the front; 1 when one of them says open.  Others
 * are words of a later version.
 */
static int take_lines(char *data, size_t *have)
{
    char *end;

    while ((end = memchr(data, '\n', *have))) {
        size_t len = (size_t) (end - data);

        if (len >= 4 && memcmp(data, "open", 4) == 0 &&
            (len == 4 || data[4] == ' '))
            return 1;
        *have -= len + 1;
        memmove(data, end + 1, *have);
    }
    return 0;
}

/* Until it is open, the other side is gone or makes no sense, or time is up. */
static void wait_open(int fd, int ms)
{
    long long end = now_ms() + ms;
    char data[GATE_LINE_MAX];
    size_t have = 0;

    while (have < sizeof data) {
        struct pollfd p = { .fd = fd, .events = POLLIN };
        long long left = end - now_ms();
        ssize_t n;

        if (left <= 0)
            return;
        if (poll(&p, 1, (int) left) < 0 && errno != EINTR)
            return;
        n = recv(fd, data + have, sizeof data - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return;
        have += n > 0 ? (size_t) n : 0;
        if (take_lines(data, &have))
            return;
    }
}

__attribute__((constructor))
static void gate_enter(void)
{
    int saved = errno;
    const char *path = getenv(GATE_SOCKET_VAR);
    int fd = path && *path ? dial(path) : -1;

    if (fd >= 0) {
        if (say_hello(fd) == 0)
            wait_open(fd, wait_ms());
        (void) close(fd);
    }
    errno = saved;
}

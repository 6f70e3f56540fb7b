#include "net/listen.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { BACKLOG = 4096 };

static int unix_socket(int *ret, struct err *err)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return err_set(err, errno, "socket: %s", strerror(errno));
    *ret = fd;
    return 0;
}

/* Somebody who listens but is busy (EAGAIN) is somebody too. */
static int clear_stale(const char *path, const struct sockaddr_un *a,
                       struct err *err)
{
    autoclose int fd = -1;
    struct stat st;
    int rc;

    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 :
            err_set(err, errno, "'%s': %s", path, strerror(errno));
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, EEXIST, "'%s' is there and is no socket", path);
    rc = unix_socket(&fd, err);
    if (rc)
        return rc;
    if (connect(fd, (const struct sockaddr *) a, sizeof *a) == 0 ||
        errno == EAGAIN)
        return err_set(err, EADDRINUSE, "somebody listens at '%s'", path);
    if (errno != ECONNREFUSED)
        return err_set(err, errno, "'%s': %s", path, strerror(errno));
    if (unlink(path) < 0 && errno != ENOENT)
        return err_set(err, errno, "remove '%s': %s", path, strerror(errno));
    return 0;
}

int listen_unix(const char *path, uint32_t mode, int *ret, struct err *err)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    autoclose int fd = -1;
    mode_t mask;
    int rc;

    if (strlen(path) >= sizeof a.sun_path)
        return err_set(err, ENAMETOOLONG,
                       "socket '%s': the path may have %zu bytes", path,
                       sizeof a.sun_path - 1);
    memcpy(a.sun_path, path, strlen(path) + 1);
    rc = clear_stale(path, &a, err);
    if (!rc)
        rc = unix_socket(&fd, err);
    if (rc)
        return rc;
    /* The owner's until chmod: nobody else gets in between, and whoever comes
     * after a kill between the two can still ask whether somebody listens. */
    mask = umask(0177);
    rc = bind(fd, (const struct sockaddr *) &a, sizeof a) < 0 ? -errno : 0;
    (void) umask(mask);
    if (rc)
        return err_set(err, -rc, "bind '%s': %s", path, strerror(-rc));
    if (chmod(path, mode) < 0 || listen(fd, BACKLOG) < 0) {
        rc = err_set(err, errno, "listen '%s': %s", path, strerror(errno));
        (void) unlink(path);
        return rc;
    }
    *ret = take_fd(fd);
    return 0;
}

static int split(const char *address, char *host, size_t size,
                 const char **ret_port, struct err *err)
{
    const char *colon = strrchr(address, ':');
    const char *from = address, *to = colon;
    uint64_t port = 0;

    if (colon && *address == '[' && colon > address + 1 && colon[-1] == ']') {
        from++;
        to--;
    }
    if (!colon || to == from || (size_t) (to - from) >= size || !colon[1])
        return err_set(err, EINVAL,
                       "listen '%s': expected ADDRESS:PORT", address);
    /* getaddrinfo would take any number, and its last 16 bits. */
    if (!isdigit((unsigned char) colon[1]) ||
        quantity_count(colon + 1, &port, NULL) < 0 || port > UINT16_MAX)
        return err_set(err, EINVAL,
                       "listen '%s': a port is a number from 0 to %d", address,
                       UINT16_MAX);
    memcpy(host, from, (size_t) (to - from));
    host[to - from] = '\0';
    *ret_port = colon + 1;
    return 0;
}

int listen_tcp(const char *address, int *ret, struct err *err)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICSERV }, *list = NULL;
    autoclose int fd = -1;
    const char *port = "";
    char host[256];
    int one = 1, rc;

    rc = split(address, host, sizeof host, &port, err);
    if (rc)
        return rc;
    rc = getaddrinfo(host, port, &hints, &list);
    if (rc)
        return err_set(err, EADDRNOTAVAIL, "listen '%s': %s", address,
                       gai_strerror(rc));
    fd = socket(list->ai_family,
                SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    rc = 0;
    if (fd < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        bind(fd, list->ai_addr, list->ai_addrlen) < 0 ||
        listen(fd, BACKLOG) < 0)
        rc = err_set(err, errno, "listen '%s': %s", address, strerror(errno));
    freeaddrinfo(list);
    if (!rc)
        *ret = take_fd(fd);
    return rc;
}

unsigned listen_max_files(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) < 0)
        return 1024;
    if (r.rlim_cur < r.rlim_max) {
        struct rlimit more = { .rlim_cur = r.rlim_max,
                               .rlim_max = r.rlim_max };

        if (setrlimit(RLIMIT_NOFILE, &more) == 0)
            r = more;
    }
    return r.rlim_cur > 1u << 20 ? 1u << 20 : (unsigned) r.rlim_cur;
}

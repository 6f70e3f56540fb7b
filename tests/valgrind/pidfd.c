/* Loaded before everything else into programs under valgrind 3.19, which knows
 * neither pidfd_open nor pidfd_send_signal and answers ENOSYS.  The pidfd comes
 * from a helper outside valgrind; the signal goes to the pid that the kernel
 * says the pidfd is of.  The difference, a pid that is used again in between,
 * is nothing that a test can meet.
 */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int receive(int sock)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    int error = 0, fd = -1;
    struct iovec part = { &error, sizeof error };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1,
                        .msg_control = control.room,
                        .msg_controllen = sizeof control.room };
    const struct cmsghdr *c;

    if (recvmsg(sock, &m, MSG_CMSG_CLOEXEC) != (ssize_t) sizeof error)
        error = EIO;
    c = CMSG_FIRSTHDR(&m);
    if (error == 0 && c && c->cmsg_type == SCM_RIGHTS) {
        memcpy(&fd, CMSG_DATA(c), sizeof fd);
        return fd;
    }
    errno = error ? error : EIO;
    return -1;
}

static long open_pidfd(long pid)
{
    char name[] = "pidfd-give", number[24];
    char *argv[] = { name, number, NULL };
    char *env[] = { NULL };
    const char *give = getenv("WEIR_PIDFD_GIVE");
    posix_spawn_file_actions_t actions;
    int pair[2], rc, fd;
    pid_t helper;

    (void) snprintf(number, sizeof number, "%ld", pid);
    if (!give) {
        errno = ENOSYS;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    (void) posix_spawn_file_actions_init(&actions);
    (void) posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
    rc = posix_spawn(&helper, give, &actions, NULL, argv, env);
    (void) posix_spawn_file_actions_destroy(&actions);
    (void) close(pair[1]);
    fd = -1;
    if (rc == 0) {
        fd = receive(pair[0]);
        rc = errno;
        (void) waitpid(helper, NULL, 0);       /* or its owner reaps it */
    }
    (void) close(pair[0]);
    errno = rc;
    return fd;
}

static pid_t pid_of(int pidfd)
{
    char path[64], line[128];
    long pid = -1;
    FILE *f;

    (void) snprintf(path, sizeof path, "/proc/self/fdinfo/%d", pidfd);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "Pid:", 4) == 0)
            pid = strtol(line + 4, NULL, 10);
    if (f)
        (void) fclose(f);
    return (pid_t) pid;
}

static long send_signal(int pidfd, int sig, siginfo_t *info)
{
    pid_t pid = pid_of(pidfd);

    if (pid <= 0) {
        errno = ESRCH;
        return -1;
    }
    if (!info)
        return kill(pid, sig);
    return sigqueue(pid, sig, info->si_value);
}

__attribute__((visibility("default")))
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list ap;

    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (number == SYS_pidfd_open)
        return open_pidfd(a[0]);
    if (number == SYS_pidfd_send_signal)
        return send_signal((int) a[0], (int) a[1], (siginfo_t *) a[2]);
    if (!real)
        *(void **) &real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

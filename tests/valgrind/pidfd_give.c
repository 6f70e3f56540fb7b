/* pidfd-give PID - send a pidfd of PID, or the error, to standard input. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long pid = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
    int fd = (int) syscall(SYS_pidfd_open, pid, 0), error = fd < 0 ? errno : 0;
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control = { 0 };
    struct iovec part = { &error, sizeof error };
    struct msghdr m = { .msg_iov = &part, .msg_iovlen = 1 };

    if (fd >= 0) {
        m.msg_control = control.room;
        m.msg_controllen = sizeof control.room;
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(&control.head), &fd, sizeof fd);
    }
    return sendmsg(0, &m, 0) < 0;
}

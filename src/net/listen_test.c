#include "net/listen.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static bool die_at_chmod;

/* The library's chmod, but for whoever is to be killed just there. */
int chmod_or_die(const char *path, mode_t mode) __asm__("chmod");

int chmod_or_die(const char *path, mode_t mode)
{
    if (die_at_chmod)
        _exit(7);
    return fchmodat(AT_FDCWD, path, mode, 0);
}

static int child(int (*run)(const char *), const char *path)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(run(path));
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static int try(const char *path)
{
    autoclose int fd = -1;
    struct err err = { 0 };
    int rc = listen_unix(path, 0600, &fd, &err);

    if (rc)
        printf("# %s\n", err.text);
    (void) fflush(stdout);
    return -rc;
}

/* Permissions mean nothing to root. */
static int try_plain(const char *path)
{
    if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
        return 99;
    return try(path);
}

static int killed_between(const char *path)
{
    die_at_chmod = true;
    return try_plain(path);
}

static unsigned mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void test_ports(void)
{
    static const char *const bad[] = {
        "127.0.0.1:65536", "127.0.0.1:65537", "127.0.0.1:4294967297",
        "127.0.0.1:-1", "127.0.0.1:+1", "127.0.0.1: 1", "127.0.0.1:1x",
        "127.0.0.1:http", "127.0.0.1:", "127.0.0.1", ":1",
    };
    struct err err = { 0 };
    int fd = -1;

    for (size_t i = 0; i < array_size(bad); i++)
        ok(listen_tcp(bad[i], &fd, &err) == -EINVAL && fd < 0, "%s", err.text);
    ok(listen_tcp("127.0.0.1:0", &fd, &err) == 0, "any port %s", err.text);
    (void) close(fd);
}

int main(void)
{
    char folder[] = "/tmp/weir-listen.XXXXXX", path[64];
    autoclose int fd = -1, second = -1;
    struct err err = { 0 };

    if (!mkdtemp(folder) || chmod(folder, 0777) < 0)
        return 1;
    (void) snprintf(path, sizeof path, "%s/sock", folder);

    ok(child(killed_between, path) == 7, "killed between bind and chmod");
    ok((mode_of(path) & 077) == 0, "what it leaves is nobody else's (%o)",
       mode_of(path));
    ok(child(try_plain, path) == 0, "and is replaced by its owner's next");

    ok(child(try, path) == 0 &&
       listen_unix(path, 0660, &fd, &err) == 0 && mode_of(path) == 0660,
       "one that nobody listens at is replaced, with its mode (%s)", err.text);
    ok(listen_unix(path, 0660, &second, &err) == -EADDRINUSE &&
       strstr(err.text, "somebody listens"), "one in use is kept (%s)",
       err.text);

    (void) unlink(path);
    ok(mkdir(path, 0700) == 0 &&
       listen_unix(path, 0600, &second, &err) == -EEXIST,
       "what is no socket is kept (%s)", err.text);
    test_ports();
    (void) rmdir(path);
    (void) rmdir(folder);
    return tap_done();
}

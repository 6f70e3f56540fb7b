#include "base/fs.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char *home;                       /* a folder of this test's own */

static char *in_home(const char *name)
{
    return mem_printf("%s/%s", home, name);
}

static mode_t mode_of(const char *path)
{
    struct stat st;

    return lstat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void test_mkdir(void)
{
    autofree char *deep = in_home("a/b/c//"), *c = in_home("a/b/c");
    autofree char *link = in_home("link"), *file = in_home("file");
    autofree char *open_to_all = in_home("open");
    struct err err = { 0 };
    mode_t mask = umask(077);

    ok(fs_mkdir(deep, 0750, NULL) == 0 && mode_of(c) == 0750,
       "folders are made, the last with the mode, whatever the umask");
    (void) umask(mask);
    ok(fs_mkdir(c, 0700, NULL) == 0 && mode_of(c) == 0750,
       "one that is there keeps its mode");
    ok(symlink(c, link) == 0 && fs_mkdir(link, 0700, &err) == -ENOTDIR &&
       strstr(err.text, link), "a link is refused: %s", err.text);
    ok(fs_write(file, "x", 1, 0600, false, NULL) == 0 &&
       fs_mkdir(file, 0700, &err) == -ENOTDIR, "a file too: %s", err.text);
    ok(mkdir(open_to_all, 0700) == 0 && chmod(open_to_all, 0777) == 0 &&
       fs_mkdir(open_to_all, 0700, &err) == -EPERM,
       "one that others can write to is refused: %s", err.text);
    ok(fs_mkdir(open_to_all, 0777, NULL) == 0, "unless that is what was asked");
    ok(fs_mkdir("/proc/nothing", 0700, &err) < 0 &&
       strstr(err.text, "/proc/nothing"), "failure names it: %s", err.text);
    ok(fs_mkdir("", 0700, NULL) == -ENOENT, "no name is no folder");
}

/* Needs root, to have a folder that is somebody else's. */
static void test_mkdir_foreign(void)
{
    autofree char *path = in_home("foreign");
    struct err err = { 0 };
    int rc;

    if (geteuid() != 0) {
        ok(fs_mkdir("/", 0755, &err) == -EPERM, "a foreign folder is refused: "
           "%s", err.text);
        return;
    }
    rc = mkdir(path, 0700) < 0 || chown(path, 12345, 12345) < 0;
    ok(rc == 0 && fs_mkdir(path, 0700, &err) == -EPERM &&
       strstr(err.text, "12345"), "a foreign folder is refused: %s", err.text);
}

static void test_read(void)
{
    autofree char *path = in_home("read"), *gone = in_home("gone");
    autofree char *big = mem_new(10000), *data = NULL;
    struct err err = { 0 };
    size_t len = 0;

    memset(big, 'b', 10000);
    ok(fs_write(path, big, 10000, 0600, false, NULL) == 0 &&
       fs_read(path, 10000, &data, &len, NULL) == 0 && len == 10000 &&
       memcmp(data, big, 10000) == 0 && data[10000] == '\0',
       "a file of as many bytes as allowed is read whole");
    len = 5;
    ok(fs_read(path, 9999, &gone, &len, &err) == -EFBIG && len == 5,
       "one byte more is refused: %s", err.text);
    free(take(data));
    ok(fs_read(gone, 100, &data, &len, &err) == -ENOENT && !data &&
       strstr(err.text, gone), "what is not there: %s", err.text);
    ok(fs_write(path, "", 0, 0600, false, NULL) == 0 &&
       fs_read(path, 0, &data, &len, NULL) == 0 && len == 0 &&
       strcmp(data, "") == 0, "an empty file is an empty text");
    free(take(data));
    ok(fs_read("/proc/self/stat", 4096, &data, NULL, NULL) == 0 &&
       strlen(data) > 20, "a file without a size is read as well");
    ok(fs_read(home, 100, &gone, &len, &err) == -EISDIR, "a folder: %s",
       err.text);
}

static void test_write(void)
{
    autofree char *path = in_home("w/file"), *dir = in_home("w");
    autofree char *nowhere = in_home("nowhere/file"), *data = NULL;
    struct err err = { 0 };
    size_t len = 0;

    (void) fs_mkdir(dir, 0700, NULL);
    ok(fs_write(path, "one", 3, 0640, true, NULL) == 0 && mode_of(path) == 0640,
       "a file is written with its mode");
    ok(fs_write(path, "second", 6, 0600, false, NULL) == 0 &&
       fs_read(path, 100, &data, &len, NULL) == 0 &&
       strcmp(data, "second") == 0 && mode_of(path) == 0600,
       "and replaced");
    ok(fs_write(nowhere, "x", 1, 0600, true, &err) == -ENOENT &&
       strstr(err.text, nowhere), "failure names it: %s", err.text);
    ok(fs_write(dir, "x", 1, 0600, true, &err) == -EISDIR,
       "a folder is not replaced: %s", err.text);
    (void) unlink(path);
    ok(rmdir(dir) == 0, "no temporary file is left");
}

static void test_write_all(void)
{
    static char big[1 << 20], back[1 << 20];
    struct err err = { 0 };
    int ends[2], status = -1;
    size_t got = 0;
    ssize_t n;
    pid_t pid;

    memset(big, 'p', sizeof big);
    if (pipe2(ends, O_CLOEXEC) < 0 || (pid = fork()) < 0) {
        ok(false, "pipe and child");
        return;
    }
    if (pid == 0) {
        (void) close(ends[0]);
        _exit(fs_write_all(ends[1], big, sizeof big, NULL) == 0 ? 0 : 1);
    }
    (void) close(ends[1]);
    while ((n = read(ends[0], back + got, sizeof back - got)) > 0)
        got += (size_t) n;
    (void) waitpid(pid, &status, 0);
    ok(status == 0 && got == sizeof big && memcmp(big, back, got) == 0,
       "all bytes go through a pipe smaller than they are");
    (void) close(ends[0]);
    ok(fs_write_all(-1, "x", 1, &err) == -EBADF && err.text[0],
       "a bad descriptor: %s", err.text);
    ok(fs_write_all(-1, "", 0, NULL) == 0, "nothing is written anywhere");
}

static void make_tree(const char *top, int depth)
{
    autofree char *path = mem_str(top);

    for (int i = 0; i < depth; i++) {
        char *below = mem_printf("%s/d", path);

        free(path);
        path = below;
    }
    (void) fs_mkdir(path, 0700, NULL);
}

static void test_remove_tree(void)
{
    autofree char *top = in_home("tree"), *out = in_home("outside");
    autofree char *kept = in_home("outside/kept"), *l = in_home("tree/d/link");
    autofree char *self = in_home("link2"), *file = in_home("tree/d/file");
    struct err err = { 0 };

    make_tree(top, 100);
    (void) fs_mkdir(out, 0700, NULL);
    (void) fs_write(kept, "x", 1, 0600, false, NULL);
    (void) fs_write(file, "x", 1, 0600, false, NULL);
    ok(symlink(out, l) == 0 && symlink(out, self) == 0, "links to elsewhere");
    ok(fs_remove_tree(top, &err) == 0 && access(top, F_OK) < 0,
       "a tree is removed %s", err.text);
    ok(fs_remove_tree(self, NULL) == 0 && access(self, F_OK) < 0 &&
       access(kept, F_OK) == 0, "links are removed and not followed");
    ok(fs_remove_tree(top, NULL) == 0, "what is not there is removed");
    ok(fs_remove_tree(kept, NULL) == 0 && access(kept, F_OK) < 0,
       "a file is a tree");
    make_tree(top, 140);
    ok(fs_remove_tree(top, &err) == -ELOOP && strstr(err.text, "128"),
       "too deep is refused: %s", err.text);
}

/* Two folders out of the way in one step, to stay below the limit. */
static void remove_deep(void)
{
    autofree char *top = in_home("tree"), *moved = in_home("moved");
    autofree char *mid = mem_str(top);

    for (int i = 0; i < 70; i++) {
        char *below = mem_printf("%s/d", mid);

        free(mid);
        mid = below;
    }
    ok(rename(mid, moved) == 0 && fs_remove_tree(top, NULL) == 0 &&
       fs_remove_tree(moved, NULL) == 0, "in two parts it goes");
}

static void test_lock(void)
{
    autofree char *path = in_home("lock"), *link = in_home("locklink");
    autofree char *data = NULL, *mine = mem_printf("%ld\n", (long) getpid());
    autofree char *pid = mem_printf("process %ld", (long) getpid());
    struct err err = { 0 };
    int fd = -1, second = -7;

    ok(fs_lock(path, &fd, NULL) == 0 && fd >= 0, "a lock is taken");
    ok(fs_read(path, 100, &data, NULL, NULL) == 0 && strcmp(data, mine) == 0,
       "the file holds our pid");
    ok(fs_lock(path, &second, &err) == -EWOULDBLOCK && second == -7 &&
       strstr(err.text, pid), "no second time: %s", err.text);
    ok((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0, "programs do not inherit it");
    (void) close(fd);
    ok(fs_lock(path, &second, NULL) == 0, "it is free when closed");
    (void) close(second);
    ok(symlink(path, link) == 0 && fs_lock(link, &second, &err) == -ELOOP,
       "a link is not followed: %s", err.text);
}

static void test_random(void)
{
    char a[33], b[33], none[1] = { 'x' };

    ok(fs_random() != fs_random(), "two random numbers differ");
    fs_random_hex(a, 16);
    fs_random_hex(b, 16);
    ok(strlen(a) == 32 && strspn(a, "0123456789abcdef") == 32 &&
       strcmp(a, b) != 0, "random hex: %s", a);
    fs_random_hex(none, 0);
    ok(none[0] == '\0', "of no bytes is no text");
}

static void test_nonblock(void)
{
    struct err err = { 0 };
    int ends[2];
    char c;

    ok(pipe2(ends, O_CLOEXEC) == 0 && fs_set_nonblock(ends[0], NULL) == 0 &&
       read(ends[0], &c, 1) < 0 && errno == EAGAIN, "reading does not wait");
    ok(fs_set_nonblock(-1, &err) == -EBADF && err.text[0],
       "a bad descriptor: %s", err.text);
    (void) close(ends[0]);
    (void) close(ends[1]);
}

int main(void)
{
    const char *tmp = getenv("TMPDIR");
    struct err err = { 0 };

    home = mem_printf("%s/weir-fs-test.XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(home)) {
        printf("Bail out! mkdtemp %s\n", home);
        return 1;
    }
    test_mkdir();
    test_mkdir_foreign();
    test_read();
    test_write();
    test_write_all();
    test_remove_tree();
    remove_deep();
    test_lock();
    test_random();
    test_nonblock();
    ok(fs_remove_tree(home, &err) == 0, "all is cleaned up %s", err.text);
    free(home);
    return tap_done();
}

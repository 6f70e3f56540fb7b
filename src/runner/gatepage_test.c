#include "runner/gatepage.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char dir[] = "/tmp/weir-gatepage-XXXXXX";
static char path[64];

/* As a gate has it. */
static struct gate_page *map(void)
{
    autoclose int fd = open(path, O_RDWR | O_CLOEXEC);

    return mmap(NULL, sizeof(struct gate_page), PROT_READ | PROT_WRITE,
                MAP_SHARED, fd, 0);
}

static void test_states(void)
{
    enum gate_state s = GATE_ACTIVE;

    ok(gate_state_parse("staged", &s) && s == GATE_STAGED &&
       !strcmp(gate_state_name(s), "staged"), "states have names");
    ok(!gate_state_parse("ajar", &s) && s == GATE_STAGED, "and no others");
}

/* Waits in a child for the word to change; 0: woken, not by the clock. */
static int wait_in_child(const struct gate_page *p)
{
    const struct timespec much = { .tv_sec = 60 };
    long rc = syscall(SYS_futex, &p->state, FUTEX_WAIT, GATE_STAGED, &much,
                      NULL, 0);

    if (rc < 0 && errno != EAGAIN)
        return 1;
    return p->state == GATE_ACTIVE ? 0 : 2;
}

static void test_page(void)
{
    struct gatepage_seen seen;
    struct gate_page *p;
    struct stat st;
    int fd = -1, again = -1, status = -1;
    pid_t pid;

    ok(gatepage_make(path, getuid(), getgid(), GATE_STAGED, &fd, NULL) == 0 &&
       stat(path, &st) == 0 && (st.st_mode & 0777) == 0600,
       "a page that nobody else can open");
    p = map();
    ok(p->magic == GATE_PAGE_MAGIC && p->version == GATE_VERSION &&
       p->state == GATE_STAGED, "as the gate expects it");
    p->wanting = 3;
    p->inside = 4;
    p->count[GATE_LAUNCH] = 5;
    p->count[GATE_COPY] = 6;
    p->count[GATE_SYNC] = 7;
    p->count[GATE_OTHER] = 8;
    p->used[0] = 10;
    p->used[GATE_DEVICES - 1] = 20;
    ok(gatepage_read(fd, &seen, NULL) == 0 && seen.state == GATE_STAGED &&
       seen.wanting == 3 && seen.inside == 4 && seen.launches == 5 &&
       seen.copies == 6 && seen.syncs == 7 && seen.others == 8 &&
       seen.used == 30,
       "what a gate counts is seen");
    pid = fork();
    if (pid == 0)
        _exit(wait_in_child(p));
    (void) usleep(100000);
    ok(gatepage_set(fd, GATE_ACTIVE, NULL) == 0 &&
       waitpid(pid, &status, 0) == pid && status == 0,
       "who waits for the state is woken");
    ok(gatepage_open(path, &again, NULL) == 0 &&
       gatepage_read(again, &seen, NULL) == 0 && seen.state == GATE_ACTIVE,
       "another runner takes it up as it is");
    (void) munmap(p, sizeof *p);
    (void) close(again);
    (void) close(fd);
}

/* What the task can do to its own page. */
static void test_spoilt(void)
{
    struct gatepage_seen seen;
    struct err err = { 0 };
    int fd = -1, none = -1;

    (void) gatepage_make(path, getuid(), getgid(), GATE_STAGED, &fd, NULL);
    ok(ftruncate(fd, 0) == 0 &&
       gatepage_read(fd, &seen, &err) == -EBADMSG && err.text[0],
       "cut short: %s", err.text);
    ok(gatepage_set(fd, GATE_ACTIVE, NULL) == 0, "and it is set all the same");
    ok(gatepage_open(path, &none, &err) == -EBADMSG && none < 0,
       "no page to take up: %s", err.text);
    (void) close(fd);
    (void) unlink(path);
    ok(gatepage_open(path, &none, &err) == -ENOENT, "nor when it is gone");
    ok(symlink("/dev/zero", path) == 0 &&
       gatepage_open(path, &none, &err) == -ELOOP, "nor through a link");
    ok(gatepage_make(path, getuid(), getgid(), GATE_ACTIVE, &fd, NULL) == 0 &&
       gatepage_read(fd, &seen, NULL) == 0, "a new one takes its place");
    (void) close(fd);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    (void) snprintf(path, sizeof path, "%s/page", dir);
    test_states();
    test_page();
    test_spoilt();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

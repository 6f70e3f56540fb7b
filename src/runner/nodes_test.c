#include "runner/nodes.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nodes of numbers that no driver has: one that may be opened is not there
 * (ENXIO), one that may not is refused (EPERM).
 */
enum { GPU = 240, UVM = 241, OTHER = 242 };

static const char text[] =
    "Character devices:\n  1 mem\n240 nvidia\n241 nvidia-uvm\n240 nvidiactl\n"
    "242 other\n\nBlock devices:\n  7 nvidia-block\n";
static char dir[] = "/tmp/weir-nodes-XXXXXX";

static void test_read(void)
{
    autofree char *file = mem_printf("%s/devices", dir);
    struct nodes all = { 0 };
    struct err err = { 0 };

    (void) fs_write(file, text, strlen(text), 0600, false, NULL);
    ok(nodes_read(file, &all, &err) == 0 && all.n == 2 && all.gpu == GPU &&
       all.major[0] == GPU && all.major[1] == UVM, "the vendor's numbers");
    (void) fs_write(file, "Character devices:\n", 19, 0600, false, NULL);
    ok(nodes_read(file, &all, &err) == 0 && all.n == 0 && all.gpu == -1,
       "there may be none");
    ok(nodes_read("/nowhere", &all, &err) == -ENOENT, "no such file");
}

static char *node(unsigned major, unsigned minor)
{
    char *path = mem_printf("%s/n%u.%u", dir, major, minor);

    if (mknod(path, S_IFCHR | 0600, makedev(major, minor)) < 0 &&
        errno != EEXIST)
        ok(false, "mknod %s: %s", path, strerror(errno));
    return path;
}

/* In the group: which of these it may open, a letter each. */
static void try(const char *group, char answers[8])
{
    static const struct { unsigned major, minor; } nodes[] = {
        { GPU, 0 }, { GPU, 1 }, { GPU, 2 }, { GPU, 255 }, { UVM, 0 },
        { OTHER, 0 },
    };
    autofree char *procs = mem_printf("%s/cgroup.procs", group);
    char *paths[array_size(nodes)];
    int pipes[2], fd;

    for (size_t i = 0; i < array_size(nodes); i++)
        paths[i] = node(nodes[i].major, nodes[i].minor);
    memset(answers, 0, 8);
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return;
    if (fork() == 0) {
        fd = open(procs, O_WRONLY);
        if (fd < 0 || write(fd, "0", 1) != 1)
            _exit(1);
        for (size_t i = 0; i < array_size(nodes); i++) {
            char c = open(paths[i], O_RDONLY) >= 0 || errno == ENXIO ? 'y'
                   : errno == EPERM ? 'n' : '?';

            if (write(pipes[1], &c, 1) != 1)
                _exit(1);
        }
        _exit(0);
    }
    (void) close(pipes[1]);
    while (read(pipes[0], answers + strlen(answers), 1) == 1)
        ;
    (void) close(pipes[0]);
    (void) wait(NULL);
    for (size_t i = 0; i < array_size(nodes); i++)
        free(paths[i]);
}

static bool is(const char *group, const char *want)
{
    char got[8];

    try(group, got);
    if (strcmp(got, want) != 0)
        printf("# got %s, want %s\n", got, want);
    return strcmp(got, want) == 0;
}

typedef int (*set_f)(const struct nodes *all, const char *group,
                     const struct nodes_rule *rule, struct err *err);

static void test_set(const char *parent, const char *what, set_f set)
{
    static const struct nodes all = { .n = 2, .major = { GPU, UVM },
                                      .gpu = GPU };
    static const struct nodes_rule closed = { .closed = true };
    static const struct nodes_rule second = { .n = 1, .minor = { 1 } };
    static const struct nodes_rule two = { .n = 2, .minor = { 0, 2 } };
    static const struct nodes_rule none = { .n = 0 };
    static const struct nodes_rule open_ = { .open = true };
    autofree char *group = mem_printf("%s/weir-nodes-test-%d", parent,
                                      (int) getpid());
    struct err err = { 0 };

    if (!*parent || mkdir(group, 0755) < 0) {
        ok(true, "%s # SKIP no group to be had", what);
        return;
    }
    if (set(&all, group, &closed, &err) < 0) {
        ok(true, "%s # SKIP %s", what, err.text);
    } else {
        ok(is(group, "nnnnny"), "%s: closed", what);
        ok(set(&all, group, &second, &err) == 0 && is(group, "nynyyy"),
           "%s: the second device's %s", what, err.text);
        ok(set(&all, group, &two, &err) == 0 && is(group, "ynyyyy"),
           "%s: two others' %s", what, err.text);
        ok(set(&all, group, &none, &err) == 0 && is(group, "nnnyyy"),
           "%s: no device's %s", what, err.text);
        ok(set(&all, group, &open_, &err) == 0 && is(group, "yyyyyy"),
           "%s: open %s", what, err.text);
        ok(set(&all, group, &closed, &err) == 0 && is(group, "nnnnny"),
           "%s: closed again %s", what, err.text);
    }
    ok(rmdir(group) == 0, "%s: nothing is left", what);
}

/* Where a hierarchy is mounted; "": nowhere. */
static char *mounted(const char *want)
{
    FILE *f = fopen("/proc/self/mounts", "re");
    char line[1024], at[256], type[64], options[512];
    char *found = NULL;

    while (f && !found && fgets(line, sizeof line, f))
        if (sscanf(line, "%*s %255s %63s %511s", at, type, options) == 3 &&
            (want ? strcmp(type, "cgroup") == 0 && strstr(options, want)
                  : strcmp(type, "cgroup2") == 0))
            found = mem_str(at);
    if (f)
        (void) fclose(f);
    return found ? found : mem_str("");
}

int main(void)
{
    autofree char *two = mounted(NULL), *one = mounted("devices");

    if (!mkdtemp(dir))
        return 1;
    test_read();
    if (geteuid() != 0) {
        ok(true, "closing # SKIP it needs root");
    } else {
        test_set(two, "version 2", nodes_set2);
        test_set(one, "version 1", nodes_set1);
    }
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

#include "runner/inside.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

#define V1(root, point) "30 25 0:26 " root " " point \
    " ro,nosuid master:11 - cgroup cgroup rw,memory\n"
#define CPU "31 25 0:27 / /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
#define V2(root, point) "29 23 0:25 " root " " point \
    " ro shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
#define DISK "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n"

static const struct {
    const char *what, *mounts, *groups, *file;
} cases[] = {
    { "a container of version 2, which sees itself as the top",
      DISK V2("/", "/sys/fs/cgroup"), "0::/\n",
      "/sys/fs/cgroup/memory.events" },
    { "the same with the whole machine's path",
      DISK V2("/kube/pod1/c1", "/sys/fs/cgroup"), "0::/kube/pod1/c1\n",
      "/sys/fs/cgroup/memory.events" },
    { "a container of version 1",
      DISK CPU V1("/kube/pod1/c1", "/sys/fs/cgroup/memory"),
      "9:cpu,cpuacct:/kube/pod1/c1\n8:memory:/kube/pod1/c1\n0::/x\n",
      "/sys/fs/cgroup/memory/memory.oom_control" },
    { "a machine of version 1",
      DISK CPU V1("/", "/sys/fs/cgroup/memory"), "8:memory:/user/me\n",
      "/sys/fs/cgroup/memory/user/me/memory.oom_control" },
    { "the top of it", DISK V1("/", "/m"), "8:memory:/\n",
      "/m/memory.oom_control" },
    { "both, and the memory is of version 1",
      DISK V2("/", "/u") V1("/", "/m"), "8:memory,cpu:/a\n0::/b\n",
      "/m/a/memory.oom_control" },
    { "both, and the memory is of version 2",
      DISK V2("/", "/u") CPU, "9:cpu,cpuacct:/a\n0::/b\n",
      "/u/b/memory.events" },
    { "a group beside what is mounted: what is to be seen of it",
      V2("/kube/pod1", "/c"), "0::/kube/pod10\n", "/c/memory.events" },
    { "a group below what is mounted",
      V2("/kube/pod1", "/c"), "0::/kube/pod1/c1\n", "/c/c1/memory.events" },
    { "nothing is mounted", DISK, "0::/\n", NULL },
    { "a controller with a longer name", DISK CPU V1("/", "/m"),
      "8:memory2,cpu:/a\n", NULL },
    { "nothing", "", "", NULL },
    { "no sense", "a b c\n- \n1 2 3 4\n - cgroup2", "x\n0:\n::\n\n", NULL },
};

static void test_kills(void)
{
    static const char *const texts[] = {
        "low 0\nhigh 0\nmax 31\noom 2\noom_kill 7\noom_group_kill 0\n",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n",
    };
    static const char path[] = "/tmp/weir-inside-test";

    for (size_t i = 0; i < array_size(texts); i++)
        ok(fs_write(path, texts[i], strlen(texts[i]), 0600, false, NULL) == 0 &&
           inside_kills(path) == 7, "counted");
    ok(fs_write(path, "oom_kill_disable 3\n", 19, 0600, false, NULL) == 0 &&
       inside_kills(path) == 0, "a kernel that does not count");
    ok(fs_remove_tree(path, NULL) == 0 && inside_kills(path) == 0 &&
       inside_kills(NULL) == 0, "no file");
}

int main(void)
{
    for (size_t i = 0; i < array_size(cases); i++) {
        autofree char *file = inside_file(cases[i].mounts, cases[i].groups);

        ok(!file == !cases[i].file && (!file ||
           strcmp(file, cases[i].file) == 0), "%s: %s", cases[i].what,
           file ? file : "none");
    }
    test_kills();
    return tap_done();
}

#include "runner/nodes.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    DEVICES_FILE_MAX = 64 * 1024,
    /* From here on not of one device: nvidia-modeset, nvidiactl. */
    MINOR_SHARED = 254,
    INSNS_MAX = 16 + NODES_MAJORS + ORDER_DEVICES_MAX,
    PROGRAMS_MAX = 16,                 /* in a group of ours there is one */
};

/* ---- which there are ---- */

static bool vendors(const char *name)
{
    return strncmp(name, "nvidia", 6) == 0;
}

static void add(struct nodes *all, uint32_t major, const char *name)
{
    if (strcmp(name, "nvidia") == 0 || strcmp(name, "nvidia-frontend") == 0)
        all->gpu = major;
    for (uint32_t i = 0; i < all->n; i++)
        if (all->major[i] == major)
            return;
    if (all->n < NODES_MAJORS)
        all->major[all->n++] = major;
}

/* "195 nvidia". */
static void read_line(struct nodes *all, const char *line, size_t len)
{
    autofree char *text = mem_strn(line, len);
    char *name;
    unsigned long major = strtoul(text, &name, 10);

    name += strspn(name, " ");
    if (name > text && major <= UINT32_MAX && vendors(name))
        add(all, (uint32_t) major, name);
}

int nodes_read(const char *file, struct nodes *ret, struct err *err)
{
    autofree char *text = NULL;
    int rc = fs_read(file, DEVICES_FILE_MAX, &text, NULL, err);

    if (rc < 0)
        return rc;
    *ret = (struct nodes) { .gpu = -1 };
    for (const char *line = text; *line; line += *line == '\n') {
        size_t len = strcspn(line, "\n");

        if (strncmp(line, "Block", 5) == 0)
            break;
        read_line(ret, line, len);
        line += len;
    }
    return 0;
}

/* ---- version 2 ---- */

/* A program under way: jumps to `allow` and `deny` are filled in at its end. */
struct program {
    struct bpf_insn insn[INSNS_MAX];
    int n;
};

enum { TO_ALLOW = -1, TO_DENY = -2 };
enum { R0, R1, TYPE, MAJOR, MINOR };

static void put(struct program *p, uint8_t code, uint8_t dst, uint8_t src,
                int16_t off, int32_t imm)
{
    p->insn[p->n++] = (struct bpf_insn) { .code = code, .dst_reg = dst & 15,
                                          .src_reg = src & 15, .off = off,
                                          .imm = imm };
}

static void put_if(struct program *p, uint8_t op, uint8_t reg, uint32_t value,
                   int16_t to)
{
    put(p, BPF_JMP | op | BPF_K, reg, 0, to, (int32_t) value);
}

static void put_answer(struct program *p, int32_t answer)
{
    put(p, BPF_ALU64 | BPF_MOV | BPF_K, R0, 0, 0, answer);
    put(p, BPF_JMP | BPF_EXIT, 0, 0, 0, 0);
}

static void put_load(struct program *p, uint8_t reg, size_t at)
{
    put(p, BPF_LDX | BPF_MEM | BPF_W, reg, R1, (int16_t) at, 0);
}

static void compile(const struct nodes *all, const struct nodes_rule *rule,
                    struct program *p)
{
    bool denies = false;
    int end;

    put_load(p, TYPE, offsetof(struct bpf_cgroup_dev_ctx, access_type));
    put(p, BPF_ALU64 | BPF_AND | BPF_K, TYPE, 0, 0, 0xffff);
    put_if(p, BPF_JNE, TYPE, BPF_DEVCG_DEV_CHAR, TO_ALLOW);
    put_load(p, MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
    put_load(p, MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
    if (rule->closed) {
        for (uint32_t i = 0; i < all->n; i++)
            put_if(p, BPF_JEQ, MAJOR, all->major[i], TO_DENY);
    } else if (all->gpu >= 0 && !rule->open) {
        put_if(p, BPF_JNE, MAJOR, (uint32_t) all->gpu, TO_ALLOW);
        put_if(p, BPF_JGE, MINOR, MINOR_SHARED, TO_ALLOW);
        for (uint32_t i = 0; i < rule->n; i++)
            put_if(p, BPF_JEQ, MINOR, rule->minor[i], TO_ALLOW);
        put(p, BPF_JMP | BPF_JA, 0, 0, TO_DENY, 0);
    }
    end = p->n;
    put_answer(p, 1);
    for (int i = 0; i < end; i++) {
        bool deny = p->insn[i].off == TO_DENY;

        if (p->insn[i].off < 0)
            p->insn[i].off = (int16_t) (end - i - 1 + (deny ? 2 : 0));
        denies = denies || deny;
    }
    if (denies)                        /* the kernel takes no dead code */
        put_answer(p, 0);
}

static int bpf(int command, union bpf_attr *a)
{
    long rc = syscall(SYS_bpf, command, a, sizeof *a);

    return rc < 0 ? -errno : (int) rc;
}

static int load(const struct program *p)
{
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
    a.insn_cnt = (uint32_t) p->n;
    a.insns = (uint64_t) (uintptr_t) p->insn;
    a.license = (uint64_t) (uintptr_t) "";
    (void) snprintf(a.prog_name, sizeof a.prog_name, "weir_nodes");
    return bpf(BPF_PROG_LOAD, &a);
}

/* With those of groups above, never instead of them. */
static int attach(int group, int program)
{
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.target_fd = (uint32_t) group;
    a.attach_bpf_fd = (uint32_t) program;
    a.attach_type = BPF_CGROUP_DEVICE;
    a.attach_flags = BPF_F_ALLOW_MULTI;
    return bpf(BPF_PROG_ATTACH, &a);
}

static int attached(int group, uint32_t ids[PROGRAMS_MAX])
{
    union bpf_attr a;
    int rc;

    memset(&a, 0, sizeof a);
    a.query.target_fd = (uint32_t) group;
    a.query.attach_type = BPF_CGROUP_DEVICE;
    a.query.prog_ids = (uint64_t) (uintptr_t) ids;
    a.query.prog_cnt = PROGRAMS_MAX;
    rc = bpf(BPF_PROG_QUERY, &a);
    return rc < 0 ? rc : (int) a.query.prog_cnt;
}

static int detach(int group, uint32_t id)
{
    autoclose int program = -1;
    union bpf_attr a;

    memset(&a, 0, sizeof a);
    a.prog_id = id;
    program = bpf(BPF_PROG_GET_FD_BY_ID, &a);
    if (program < 0)
        return program;
    memset(&a, 0, sizeof a);
    a.target_fd = (uint32_t) group;
    a.attach_bpf_fd = (uint32_t) program;
    a.attach_type = BPF_CGROUP_DEVICE;
    return bpf(BPF_PROG_DETACH, &a);
}

/* The new one comes before the old one goes: meanwhile what both allow is
 * allowed, and no more.
 */
static int replace(int group, int program)
{
    uint32_t old[PROGRAMS_MAX];
    int n = attached(group, old);
    int rc = n < 0 ? n : attach(group, program);

    for (int i = 0; i < n && rc == 0; i++)
        rc = detach(group, old[i]);
    return rc;
}

int nodes_set2(const struct nodes *all, const char *group,
               const struct nodes_rule *rule, struct err *err)
{
    autoclose int fd = open(group, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    autoclose int program = -1;
    struct program p = { .n = 0 };
    int rc;

    if (fd < 0)
        return err_set(err, errno, "group '%s': %s", group, strerror(errno));
    compile(all, rule, &p);
    program = load(&p);
    if (program < 0)
        return err_set(err, -program, "load a program for group '%s': %s",
                       group, strerror(-program));
    rc = replace(fd, program);
    return rc < 0 ? err_set(err, -rc, "program of group '%s': %s", group,
                            strerror(-rc)) : 0;
}

/* ---- version 1 ---- */

/* A group there has a list of what is refused, each as it was said: what is
 * refused as "195:*" is not allowed by "195:1".  So the devices of others are
 * refused one by one, and all of a number only to close it.
 */
struct lists {
    int allow, deny;
};

static int say_node(const struct lists *l, bool allow, uint32_t major,
                    int64_t minor)
{
    char text[64], number[24] = "*";

    if (minor >= 0)
        (void) snprintf(number, sizeof number, "%" PRId64, minor);
    (void) snprintf(text, sizeof text, "c %" PRIu32 ":%s rwm", major, number);
    return write(allow ? l->allow : l->deny, text, strlen(text)) < 0 ? -errno
                                                                     : 0;
}

static bool has_minor(const struct nodes_rule *rule, uint32_t minor)
{
    for (uint32_t i = 0; i < rule->n; i++)
        if (rule->minor[i] == minor)
            return true;
    return rule->open;
}

static int say_rule(const struct lists *l, const struct nodes *all,
                    const struct nodes_rule *rule)
{
    int rc = 0;

    for (uint32_t m = 0; all->gpu >= 0 && !rule->closed &&
                         m < MINOR_SHARED && rc == 0; m++)
        rc = say_node(l, has_minor(rule, m), (uint32_t) all->gpu, m);
    for (uint32_t i = 0; i < all->n && rc == 0; i++)
        rc = say_node(l, !rule->closed, all->major[i], -1);
    return rc;
}

int nodes_set1(const struct nodes *all, const char *group,
               const struct nodes_rule *rule, struct err *err)
{
    autofree char *allow = mem_printf("%s/devices.allow", group);
    autofree char *deny = mem_printf("%s/devices.deny", group);
    autoclose int yes = open(allow, O_WRONLY | O_CLOEXEC);
    autoclose int no = open(deny, O_WRONLY | O_CLOEXEC);
    struct lists l = { yes, no };
    int rc = yes < 0 || no < 0 ? -errno : say_rule(&l, all, rule);

    return rc < 0 ? err_set(err, -rc, "devices of group '%s': %s", group,
                            strerror(-rc)) : 0;
}

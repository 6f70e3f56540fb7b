#include "runner/account.h"

#include "base/mem.h"

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { GROUPS_MAX = 1024, ACCOUNTS_MAX = 1000 };

static const char passwd_file[] = "/etc/passwd";
static const char group_file[] = "/etc/group";

static void find_user(struct account *a, const char *name)
{
    FILE *f = fopen(passwd_file, "re");
    struct passwd *p = NULL;

    while (f && (p = fgetpwent(f)) &&
           (p->pw_uid != a->uid || (*name && strcmp(p->pw_name, name) != 0)))
        ;
    a->name = p ? mem_str(p->pw_name)
            : *name ? mem_str(name)
            : mem_printf("%u", (unsigned) a->uid);
    a->home = mem_str(p && *p->pw_dir ? p->pw_dir : "/");
    a->shell = mem_str(p && *p->pw_shell ? p->pw_shell : "/bin/sh");
    if (f)
        (void) fclose(f);
}

static bool is_member(const struct group *g, const char *name)
{
    for (char **m = g->gr_mem; *m; m++)
        if (strcmp(*m, name) == 0)
            return true;
    return false;
}

static void find_groups(struct account *a)
{
    FILE *f = fopen(group_file, "re");
    struct group *g;

    a->groups = mem_array(GROUPS_MAX, sizeof *a->groups);
    a->groups[a->ngroups++] = a->gid;
    while (f && a->ngroups < GROUPS_MAX && (g = fgetgrent(f)))
        if (g->gr_gid != a->gid && is_member(g, a->name))
            a->groups[a->ngroups++] = g->gr_gid;
    a->groups = mem_grow(a->groups, a->ngroups, sizeof *a->groups);
    if (f)
        (void) fclose(f);
}

void accounts_clear(struct accounts *a)
{
    while (a->list) {
        struct account *one = a->list;

        a->list = one->next;
        free(one->asked);
        free(one->name);
        free(one->home);
        free(one->shell);
        free(one->groups);
        free(one);
    }
    *a = (struct accounts) { 0 };
}

static struct timespec changed(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 ? (struct timespec) { 0, 0 } : st.st_mtim;
}

static bool same(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static void refresh(struct accounts *a)
{
    struct timespec passwd = changed(passwd_file);
    struct timespec group = changed(group_file);

    if (a->n < ACCOUNTS_MAX && same(passwd, a->passwd) &&
        same(group, a->group))
        return;
    accounts_clear(a);
    a->passwd = passwd;
    a->group = group;
}

const struct account *accounts_get(struct accounts *a, uid_t uid, gid_t gid,
                                   const char *name)
{
    struct account *one;

    refresh(a);
    for (one = a->list; one; one = one->next)
        if (one->uid == uid && one->gid == gid &&
            strcmp(one->asked, name) == 0)
            return one;
    one = mem_new(sizeof *one);
    *one = (struct account) { .asked = mem_str(name), .uid = uid, .gid = gid,
                              .next = a->list };
    find_user(one, name);
    find_groups(one);
    a->list = one;
    a->n++;
    return one;
}

#include "runner/held.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int machine_check(struct runner *r, struct err *err)
{
    autofree char *path = mem_printf("%s/boot", r->conf->dir);
    autofree char *now = NULL;
    autofree char *last = NULL;
    int rc = fs_read("/proc/sys/kernel/random/boot_id", 64, &now, NULL, err);

    if (rc < 0)
        return rc;
    r->rebooted = fs_read(path, 64, &last, NULL, NULL) == 0 &&
                  strcmp(now, last) != 0;
    return 0;
}

int machine_note(const struct runner *r, struct err *err)
{
    autofree char *path = mem_printf("%s/boot", r->conf->dir);
    autofree char *now = NULL;
    int rc = fs_read("/proc/sys/kernel/random/boot_id", 64, &now, NULL, err);

    return rc < 0 ? rc : fs_write(path, now, strlen(now), 0600, true, err);
}

int machine_limits(struct runner *r, struct err *err)
{
    autofree char *path = mem_printf("%s/limits", r->conf->dir);
    autofree char *text = NULL;
    char name[128];
    struct stat st;

    if (stat(r->conf->dir, &st) < 0)
        return err_set(err, errno, "'%s': %s", r->conf->dir,
                       strerror(errno));
    (void) snprintf(r->mark, sizeof r->mark, "%" PRIx64 "-%" PRIx64,
                    (uint64_t) st.st_dev, (uint64_t) st.st_ino);
    (void) snprintf(name, sizeof name, "weir-%s-%s", r->conf->block, r->mark);
    if (r->conf->alone)
        cgroup_inside(&r->cgroup);
    else
        cgroup_open(&r->cgroup, name);
    text = mem_printf("%s %ld\n", r->cgroup.limits, (long) getpid());
    return fs_write(path, text, strlen(text), 0600, false, err);
}

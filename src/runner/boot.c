#include "runner/held.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <string.h>

int boot_check(struct runner *r, struct err *err)
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

int boot_note(const struct runner *r, struct err *err)
{
    autofree char *path = mem_printf("%s/boot", r->conf->dir);
    autofree char *now = NULL;
    int rc = fs_read("/proc/sys/kernel/random/boot_id", 64, &now, NULL, err);

    return rc < 0 ? rc : fs_write(path, now, strlen(now), 0600, true, err);
}

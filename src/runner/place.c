#include "runner/place.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static int copy(const char *from, const char *folder, const char *name,
                size_t max, mode_t mode, struct err *err)
{
    autofree char *path = mem_printf("%s/%s", folder, name);
    autofree char *bytes = NULL;
    size_t len = 0;
    int rc = fs_read(from, max, &bytes, &len, err);

    if (rc == 0)
        rc = fs_write(path, bytes, len, mode, false, err);
    if (bytes)
        explicit_bzero(bytes, len);
    return rc;
}

static int copy_secret(const char *folder, const char *name, const char *home,
                       struct err *err)
{
    autofree char *from = mem_printf("%s/%s", folder, name);

    return copy(from, home, name, PLACE_SECRET_MAX, 0600, err);
}

int place(const char *run, const char *secret, const char *home,
          struct err *err)
{
    int rc = copy("/proc/self/exe", run, "weir-runner", PLACE_PROGRAM_MAX,
                  0700, err);

    if (rc == 0)
        rc = copy_secret(secret, "token", home, err);
    if (rc == 0)
        rc = copy_secret(secret, "ca.crt", home, err);
    return rc;
}

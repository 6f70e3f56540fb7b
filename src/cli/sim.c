#include "cli/sim.h"

#include "base/err.h"
#include "base/fs.h"
#include "cli/cli.h"

#include <errno.h>

enum { FILE_MAX = 1024 * 1024 * 1024 };

int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len)
{
    struct err err;
    int rc = fs_read(path, FILE_MAX, ret, ret_len, &err);

    if (rc < 0)
        return cli_fail(c, rc == -ENOENT ? CLI_MISSING : CLI_BROKEN, "%s",
                        err.text);
    return 0;
}

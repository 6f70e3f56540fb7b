#include "cli/sim.h"

#include "cli/cli.h"

enum { FILE_MAX = 1024 * 1024 * 1024 };

int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len)
{
    return cli_read(c, path, FILE_MAX, ret, ret_len);
}

#include "cli/sim.h"

#include "base/err.h"
#include "base/quantity.h"
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { FILE_MAX = 1024 * 1024 * 1024 };

int sim_read(const struct cli *c, const char *path, char **ret,
             size_t *ret_len)
{
    if (strcmp(path, "-") == 0 && feof(stdin))
        return cli_fail(c, CLI_USAGE, "standard input has been read: one file "
                        "alone can be '-'");
    return cli_read(c, path, FILE_MAX, ret, ret_len);
}

const char *sim_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

int sim_lookahead(const struct cli *c, uint64_t startup_ms, const char *text,
                  int64_t *ret_ms)
{
    uint64_t ms = 0;
    struct err err;

    *ret_ms = -1;
    if (startup_ms > SIM_COST_MAX_MS)
        return cli_fail(c, CLI_USAGE, "--startup: at most 1d");
    if (!text)
        return 0;
    if (startup_ms == 0)
        return cli_fail(c, CLI_USAGE, "--lookahead needs --startup");
    if (quantity_duration(text, &ms, &err) < 0)
        return cli_fail(c, CLI_USAGE, "--lookahead: %s", err.text);
    if (ms > SIM_COST_MAX_MS)
        return cli_fail(c, CLI_USAGE, "--lookahead: at most 1d");
    *ret_ms = (int64_t) ms;
    return 0;
}

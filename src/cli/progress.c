#include "cli/verbs.h"

#include "base/buf.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From inside a task: one line into the pipe that the task's keeper reads.
 * What a line may say is the keeper's business (docs/runner.md).
 */
enum { LINE_MAX_BYTES = 1024, NAMES_MAX = 17 };

/* The pipe by its path; children of many programs have lost the descriptor,
 * and who has closed it may still have that.  -1 after saying why.
 */
static int open_pipe(struct cli *c)
{
    const char *path = getenv("WEIR_PROGRESS");
    int fd;

    if (!path) {
        (void) cli_fail(c, CLI_USAGE, "this is for tasks: there is no "
                        "WEIR_PROGRESS in the environment");
        return -1;
    }
    fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        (void) cli_fail(c, CLI_BROKEN, "'%s': %s", path, strerror(errno));
    return fd;
}

static int check(struct cli *c, const char *word, unsigned at)
{
    const char *eq = strchr(word, '=');
    const char *number = eq ? eq + 1 : word;
    char *end;
    double n = strtod(number, &end);

    if (strpbrk(word, " \t\r\n") || end == number || *end || eq == word ||
        (!eq && (at > 0 || !(n >= 0 && n <= 1))))
        return cli_fail(c, CLI_USAGE, "'%s': expected how far it is, from 0 "
                        "to 1, then NAME=NUMBER", word);
    return 0;
}

static int run_progress(struct cli *c, const void *opts)
{
    autobuf struct buf line = BUF_INIT(LINE_MAX_BYTES);
    autoclose int fd = -1;

    (void) opts;
    for (unsigned i = 0; i < c->nargs; i++) {
        int rc = check(c, c->args[i], i);

        if (rc != 0)
            return rc;
        buf_printf(&line, "%s%s", i ? " " : "", c->args[i]);
    }
    if (!buf_char(&line, '\n'))
        return cli_fail(c, CLI_USAGE, "more than %d bytes", LINE_MAX_BYTES);
    fd = open_pipe(c);
    if (fd < 0)
        return getenv("WEIR_PROGRESS") ? CLI_BROKEN : CLI_USAGE;
    /* Less than PIPE_BUF: all of it or nothing. */
    if (write(fd, line.data, line.len) < 0)
        return cli_fail(c, CLI_BROKEN, "cannot say it: %s", strerror(errno));
    return 0;
}

const struct verb verb_progress = {
    .name = "progress",
    .summary = "from inside a task: say how far it is",
    .usage = "[DONE] [NAME=NUMBER]...",
    .about = "DONE is from 0 to 1 and sharpens what Weir predicts; metrics are "
             "kept, and\n'weir show WORKLOAD/TASK' plots them.  The same as "
             "writing that line to\n$WEIR_PROGRESS, or to the descriptor "
             "$WEIR_PROGRESS_FD.",
    .examples = "weir progress 0.4 loss=0.31\n"
                "weir progress loss=0.29 accuracy=0.91",
    .opts = no_opts,
    .min_args = 1, .max_args = NAMES_MAX,
    .run = run_progress,
};

#include "runner/runlog.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { KEEP = 1024 * 1024 };

int runlog_open(const char *dir, struct err *err)
{
    autofree char *path = mem_printf("%s/runner.log", dir);
    autoclose int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                            0600);

    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        return err_set(err, errno, "open '%s': %s", path, strerror(errno));
    return runlog_trim(dir, err);
}

int runlog_trim(const char *dir, struct err *err)
{
    autofree char *path = NULL, *old = NULL;
    struct stat st;

    if (fstat(STDERR_FILENO, &st) < 0 || st.st_size <= KEEP)
        return 0;
    path = mem_printf("%s/runner.log", dir);
    old = mem_printf("%s/runner.log.1", dir);
    if (rename(path, old) < 0)
        return err_set(err, errno, "rename '%s': %s", path, strerror(errno));
    return runlog_open(dir, err);
}

#include "runner/inside.h"

#include "base/fs.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1024 * 1024 };       /* of what the kernel tells us */

/* "a,b,c" has `word`? */
static bool list_has(const char *list, size_t len, const char *word)
{
    size_t n = strlen(word);

    for (const char *p = list; p + n <= list + len; p++)
        if ((p == list || p[-1] == ',') && strncmp(p, word, n) == 0 &&
            (p + n == list + len || p[n] == ','))
            return true;
    return false;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');

    return end ? end + 1 : line + strlen(line);
}

/* Our group's path, of lines "NUMBER:CONTROLLERS:PATH"; version 2 names none. */
static char *own_path(const char *groups, bool two)
{
    for (const char *p = groups; *p; p = next_line(p)) {
        size_t len = strcspn(p, "\n");
        const char *list = memchr(p, ':', len);
        const char *path = list ? memchr(list + 1, ':',
                                         len - (size_t) (list + 1 - p)) : NULL;
        size_t n;

        if (!path)
            continue;
        n = (size_t) (path - list - 1);
        if (two ? n == 0 : list_has(list + 1, n, "memory"))
            return mem_strn(path + 1, len - (size_t) (path + 1 - p));
    }
    return NULL;
}

/* A mount shows what is below its root; a container's shows its own group, and
 * perhaps the whole machine's path of that in /proc.
 */
static char *below(const char *root, const char *point, const char *path)
{
    size_t n = strcmp(root, "/") == 0 ? 0 : strlen(root);
    bool in = strncmp(path, root, n) == 0 && (path[n] == '/' || !path[n]);
    const char *rest = in ? path + n : "";

    return mem_printf("%s%s", point, strcmp(rest, "/") == 0 ? "" : rest);
}

static char *group_in(const char *mounts, const char *path, bool two)
{
    for (const char *p = mounts; *p; p = next_line(p)) {
        autofree char *line = mem_strn(p, strcspn(p, "\n"));
        const char *more = strstr(line, " - ");
        char root[512], point[512], type[32], options[512];

        if (!more ||
            sscanf(line, "%*s %*s %*s %511s %511s", root, point) != 2 ||
            sscanf(more, " - %31s %*s %511s", type, options) != 2)
            continue;
        if (two ? strcmp(type, "cgroup2") == 0
                : strcmp(type, "cgroup") == 0 &&
                  list_has(options, strlen(options), "memory"))
            return below(root, point, path);
    }
    return NULL;
}

static char *find(const char *mounts, const char *groups, bool two)
{
    autofree char *path = own_path(groups, two);
    autofree char *group = path ? group_in(mounts, path, two) : NULL;

    return group ? mem_printf("%s/%s", group, two ? "memory.events"
                                                  : "memory.oom_control")
                 : NULL;
}

char *inside_file(const char *mounts, const char *groups)
{
    char *one = find(mounts, groups, false);

    return one ? one : find(mounts, groups, true);
}

char *inside_find(void)
{
    autofree char *mounts = NULL, *groups = NULL;

    if (fs_read("/proc/self/mountinfo", TEXT_MAX, &mounts, NULL, NULL) < 0 ||
        fs_read("/proc/self/cgroup", TEXT_MAX, &groups, NULL, NULL) < 0)
        return NULL;
    return inside_file(mounts, groups);
}

uint64_t inside_kills(const char *file)
{
    static const char word[] = "oom_kill ";
    autofree char *text = NULL;
    const char *at;

    if (!file || fs_read(file, TEXT_MAX, &text, NULL, NULL) < 0)
        return 0;
    for (at = text; *at; at = next_line(at))
        if (strncmp(at, word, strlen(word)) == 0)
            return strtoull(at + strlen(word), NULL, 10);
    return 0;
}

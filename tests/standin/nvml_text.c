#include "nvml_text.h"

#include "standin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool nvml_text_read(const char *name, struct nvml_text *ret)
{
    const char *dir = getenv(STANDIN_VAR);
    char path[512];
    ssize_t n;
    int fd;

    if (!dir || snprintf(path, sizeof path, "%s/%s", dir, name) >=
                (int) sizeof path)
        return false;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    n = read(fd, ret->data, sizeof ret->data - 1);
    (void) close(fd);
    if (n < 0)
        return false;
    ret->data[n] = '\0';
    return true;
}

static const char *find(const struct nvml_text *t, const char *key)
{
    size_t n = strlen(key);

    for (const char *p = t->data; *p;) {
        if (!strncmp(p, key, n) && p[n] == '=')
            return p + n + 1;
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    return NULL;
}

bool nvml_text_get(const struct nvml_text *t, const char *key, char *buf,
                   size_t size)
{
    const char *v = find(t, key);

    buf[0] = '\0';
    if (!v)
        return false;
    return snprintf(buf, size, "%.*s", (int) strcspn(v, "\n"), v) <
           (int) size;
}

unsigned long long nvml_text_number(const struct nvml_text *t, const char *key,
                                    unsigned long long otherwise)
{
    const char *v = find(t, key);

    return v ? strtoull(v, NULL, 0) : otherwise;
}

bool nvml_text_has(const struct nvml_text *t, const char *key,
                   const char *word)
{
    const char *v = find(t, key);
    size_t n = strlen(word);

    while (v && *v && *v != '\n') {
        size_t len = strcspn(v, ",\n");

        if (len == n && !strncmp(v, word, n))
            return true;
        v += len;
        v += *v == ',';
    }
    return false;
}

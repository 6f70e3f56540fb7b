#include "gpu/scrub.h"

#include "base/fs.h"
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { PARAMS_MAX = 64 * 1024 };

static const char key[] = "RMDisableScrubOnFree=";

/* One line, name: "a=1;b=0x2"; the module takes keys in any case, and the last
 * of two counts.
 */
static enum scrub scrub_of_line(const char *at, const char *end)
{
    enum scrub s = SCRUB_ON;

    for (at++; at < end; at++)
        if (strchr("\"; ", at[-1]) && strncasecmp(at, key, strlen(key)) == 0)
            s = strtoul(at + strlen(key), NULL, 0) ? SCRUB_OFF : SCRUB_ON;
    return s;
}

/* For all devices, or for some of them: one without it is enough. */
enum scrub scrub_read(const char *path)
{
    static const char name[] = "RegistryDwords";
    autofree char *text = NULL;
    enum scrub s = SCRUB_UNKNOWN;
    size_t len = 0;

    if (fs_read(path, PARAMS_MAX, &text, &len, NULL) < 0)
        return SCRUB_UNKNOWN;
    for (const char *line = text, *next; *line; line = next) {
        const char *end = strchrnul(line, '\n');

        next = *end ? end + 1 : end;
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        if (s != SCRUB_OFF)
            s = scrub_of_line(line, end);
    }
    return s;
}

#include "engine/devices.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { DEVICES_MAX = 4096, MODEL_MAX = 31 };

static bool model_valid(const char *s)
{
    if (!*s || strlen(s) > MODEL_MAX)
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char) *s) && !strchr("-_.", *s))
            return false;
    return true;
}

static void add(json_t *list, uint64_t n, const char *model, uint64_t memory)
{
    while (n-- > 0) {
        json_t *d = json_object();

        json_put_str(d, "model", model);
        json_put_u64(d, "memory", memory);
        (void) json_array_append_new(list, d);
    }
}

/* "4xH100-80GB"; the memory stands behind the last '-'. */
static int add_part(json_t *list, char *part, struct err *err)
{
    char *x = strchr(part, 'x');
    char *dash = strrchr(part, '-');
    uint64_t n = 0, memory = 0;

    if (!x || !dash || dash < x)
        return err_set(err, EINVAL, "'%s': expected COUNTxMODEL-MEMORY, as "
                       "in 4xH100-80GB", part);
    *x = *dash = '\0';
    if (quantity_count(part, &n, err) < 0)
        return err_prefix(err, -EINVAL, "count of devices");
    if (quantity_bytes(dash + 1, &memory, err) < 0)
        return err_prefix(err, -EINVAL, "memory of a device");
    if (!model_valid(x + 1))
        return err_set(err, EINVAL, "'%s' is no model of a device", x + 1);
    if (n < 1 || memory < 1 || n > DEVICES_MAX - json_array_size(list))
        return err_set(err, EINVAL, "from 1 to %d devices are possible, "
                       "with memory", DEVICES_MAX);
    add(list, n, x + 1, memory);
    return 0;
}

int devices_parse(const char *text, const char *kind, json_t **ret,
                  struct err *err)
{
    autojson json_t *list = json_array();
    autofree char *copy = mem_str(text);
    size_t len = strlen(kind);
    char *rest = copy + len + 1, *part;

    if (strcmp(text, "none") == 0) {
        *ret = take(list);
        return 0;
    }
    if (strncmp(text, kind, len) != 0 || text[len] != ':')
        return err_set(err, EINVAL, "devices '%s': expected auto, none, or "
                       "%s: and a list, as in %s:4xH100-80GB", text, kind,
                       kind);
    while ((part = strsep(&rest, ","))) {
        int rc = add_part(list, part, err);

        if (rc < 0)
            return err_prefix(err, rc, "devices '%s'", text);
    }
    *ret = take(list);
    return 0;
}

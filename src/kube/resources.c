#include "kube/resources.h"

#include "base/err.h"
#include "base/mem.h"
#include "kube/amount.h"
#include "kube/object.h"

#include <errno.h>
#include <string.h>

static struct resource *find(const struct resources *r, const char *name)
{
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(r->list[i].name, name) == 0)
            return &r->list[i];
    return NULL;
}

uint64_t resources_count(const struct resources *r, const char *name)
{
    const struct resource *one = find(r, name);

    return one ? one->count : 0;
}

static struct resource *put(struct resources *r, const char *name)
{
    struct resource *one = find(r, name);

    if (one)
        return one;
    r->list = mem_more(r->list, r->n, sizeof *r->list);
    one = &r->list[r->n++];
    *one = (struct resource) { .name = mem_str(name) };
    return one;
}

static void drop(struct resources *r, struct resource *one)
{
    free(one->name);
    *one = r->list[--r->n];
}

void resources_clear(struct resources *r)
{
    for (size_t i = 0; i < r->n; i++)
        free(r->list[i].name);
    free(r->list);
    *r = (struct resources) { 0 };
}

static int read_one(struct resources *r, const char *name, const json_t *value,
                    struct err *err)
{
    const char *text = json_string_value(value);
    uint64_t n = 0;
    int rc;

    if (!text)
        return err_set(err, EPROTO, "expected a quantity such as 1500m or 2Gi");
    rc = strcmp(name, "cpu") == 0 ? amount_milli(text, &n, err)
                                  : amount_whole(text, &n, err);
    if (rc < 0)
        return rc;
    if (n > RESOURCES_MAX)
        n = RESOURCES_MAX;
    if (strcmp(name, "cpu") == 0)
        r->cpu_milli = n;
    else if (strcmp(name, "memory") == 0)
        r->memory = n;
    else if (strchr(name, '/') && n > 0)
        put(r, name)->count = n;
    return 0;
}

int resources_read(const json_t *from, const char *where,
                   struct resources *ret, struct err *err)
{
    struct resources r = { 0 };
    const json_t *value;
    const char *name;
    int rc = 0;

    if (from && !json_is_object(from) && !json_is_null(from))
        return err_set(err, EPROTO, "%s: expected a mapping", where);
    if (json_object_size(from) > RESOURCES_KINDS)
        return err_set(err, EPROTO, "%s: more than %d kinds of resources",
                       where, RESOURCES_KINDS);
    json_object_foreach((json_t *) (uintptr_t) from, name, value) {
        char line[64];

        rc = read_one(&r, name, value, err);
        if (rc == 0)
            continue;
        object_line(name, strlen(name), line, sizeof line);
        resources_clear(&r);
        return err_prefix(err, rc, "%s.%s", where, line);
    }
    *ret = r;
    return 0;
}

void resources_add(struct resources *to, const struct resources *more)
{
    to->cpu_milli += more->cpu_milli;
    to->memory += more->memory;
    for (size_t i = 0; i < more->n; i++)
        put(to, more->list[i].name)->count += more->list[i].count;
}

void resources_sub(struct resources *from, const struct resources *less)
{
    from->cpu_milli -= less->cpu_milli;
    from->memory -= less->memory;
    for (size_t i = 0; i < less->n; i++) {
        struct resource *one = find(from, less->list[i].name);

        if (!one)
            continue;
        one->count -= less->list[i].count;
        if (one->count == 0)
            drop(from, one);
    }
}

void resources_max(struct resources *to, const struct resources *other)
{
    if (other->cpu_milli > to->cpu_milli)
        to->cpu_milli = other->cpu_milli;
    if (other->memory > to->memory)
        to->memory = other->memory;
    for (size_t i = 0; i < other->n; i++) {
        struct resource *one = put(to, other->list[i].name);

        if (other->list[i].count > one->count)
            one->count = other->list[i].count;
    }
}

void resources_override(struct resources *to, const struct resources *by)
{
    if (by->cpu_milli)
        to->cpu_milli = by->cpu_milli;
    if (by->memory)
        to->memory = by->memory;
    for (size_t i = 0; i < by->n; i++)
        put(to, by->list[i].name)->count = by->list[i].count;
}

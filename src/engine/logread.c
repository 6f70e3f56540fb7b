#include "engine/logread.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "engine/segments.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int logread_log(const char *dir, const char *lease_key, uint32_t gen,
                uint64_t epoch, uint64_t offset, void *buf, size_t size,
                struct engine_log *ret, struct err *err)
{
    autofree char *prefix = NULL;
    struct segments_part part;
    struct lease_key key;
    int rc = lease_key_parse(lease_key, &key, err);

    if (rc < 0)
        return rc;
    prefix = segments_prefix(dir, &key, gen, epoch);
    rc = segments_read(prefix, offset, buf, size, &part);
    if (rc == -ENOENT)
        return err_set(err, ENOENT, "lease %s has no log (yet)", lease_key);
    if (rc < 0)
        return err_set(err, -rc, "log '%s': %s", prefix, strerror(-rc));
    *ret = (struct engine_log) { part.start, part.len, part.end };
    return 0;
}

int logread_drop(const char *dir, uint64_t workload, struct err *err)
{
    autofree char *path = mem_printf("%s/logs/w%" PRIu64, dir, workload);

    return fs_remove_tree(path, err);
}

json_t *logread_list(const char *dir)
{
    autofree char *path = mem_printf("%s/logs", dir);
    json_t *list = json_array();
    DIR *d = opendir(path);
    struct dirent *entry;
    uint64_t id;

    while (d && (entry = readdir(d)))
        if (entry->d_name[0] == 'w' &&
            quantity_count(entry->d_name + 1, &id, NULL) == 0 &&
            id <= INT64_MAX)
            (void) json_array_append_new(list, json_integer((json_int_t) id));
    if (d)
        (void) closedir(d);
    return list;
}

#include "api/service.h"

#include "base/mem.h"
#include "store/store.h"

struct backup {
    service_done_f done;
    void *arg;
};

static void on_backup(int rc, const struct err *err, void *arg)
{
    struct backup *b = arg;

    b->done(rc, 0, 0, err, b->arg);
    free(b);
}

int service_backup(struct store *s, const char *file, service_done_f done,
                   void *done_arg, struct err *err)
{
    struct backup *b = mem_new(sizeof *b);
    int rc;

    *b = (struct backup) { .done = done, .arg = done_arg };
    rc = store_backup(s, file, on_backup, b, err);
    if (rc < 0)
        free(b);
    return rc;
}

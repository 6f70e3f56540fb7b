#include "engine/engine.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <string.h>

/* Every engine: one row each. */
static const struct engine_ops *const engines[] = {
    &engine_local,
    &engine_fake,
    &engine_fake_apart,
    &engine_kubernetes,
};

const struct engine_ops *engine_find(const char *name)
{
    for (size_t i = 0; i < array_size(engines); i++)
        if (strcmp(engines[i]->name, name) == 0)
            return engines[i];
    return NULL;
}

int engine_choose(const char *name, const struct engine_ops **ret,
                  struct err *err)
{
    const struct engine_ops *ops = engine_find(name);
    autobuf struct buf names = BUF_INIT(1024);

    if (ops && !ops->own) {
        *ret = ops;
        return 0;
    }
    for (size_t i = 0; i < array_size(engines); i++)
        if (!engines[i]->own)
            (void) buf_printf(&names, "%s%s", names.len ? ", " : "",
                              engines[i]->name);
    return err_set(err, EINVAL, ops ? "engine: '%.40s' is this machine's own, "
                   "no pool is added with it; there is %s" :
                   "engine: there is no '%.40s'; there is %s", name,
                   buf_text(&names));
}

int engine_conf_keys(const json_t *conf, const char *const *known,
                     struct err *err)
{
    autobuf struct buf names = BUF_INIT(1024);
    const char *key;
    json_t *value;

    for (size_t i = 0; known[i]; i++)
        (void) buf_printf(&names, "%s%s", i ? ", " : "", known[i]);
    json_object_foreach((json_t *) (uintptr_t) conf, key, value) {
        size_t i = 0;

        while (known[i] && strcmp(known[i], key) != 0)
            i++;
        if (!known[i])
            return err_set(err, EINVAL, "conf: '%.64s' is not known; known "
                           "are %s", key, buf_text(&names));
        if (!json_is_string(value))
            return err_set(err, EINVAL, "conf: '%s' is not a text", key);
    }
    return 0;
}

int engine_no_start(struct engine *e, const struct engine_lease *l,
                    struct err *err)
{
    return err_set(err, ENOTSUP, "%s: %s has no runner of its own",
                   l->runner, e->ops->name);
}

int engine_no_stop(struct engine *e, const char *runner, struct err *err)
{
    return err_set(err, ENOTSUP, "%s: %s has no runner of its own", runner,
                   e->ops->name);
}

int engine_no_output(struct engine *e, const struct engine_output *o,
                     uint64_t *ret_end, struct err *err)
{
    char key[48];

    (void) ret_end;
    lease_key_print(&o->key, key, sizeof key);
    return err_set(err, ENOTSUP, "%s: %s has no runner of its own", key,
                   e->ops->name);
}

int engine_no_tell(struct engine *e, const char *uid,
                   const struct engine_word *w, struct err *err)
{
    (void) w;
    return err_set(err, ENOTSUP, "%s: %s has no guests", uid, e->ops->name);
}

json_t *engine_no_history(struct engine *e, enum engine_history what)
{
    (void) e;
    (void) what;
    return NULL;
}

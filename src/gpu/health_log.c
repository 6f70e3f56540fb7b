#include "gpu/health_log.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "gpu/procs.h"

#include <errno.h>
#include <string.h>

/* A look that comes late by less than this is no gap. */
enum { LATE_MS = 5000 };

struct health_log *health_log_new(const struct health_rules *rules,
                                  uint64_t every_ms)
{
    struct health_log *l = mem_new(sizeof *l);
    autofree struct health_rules *shipped = mem_new(sizeof *shipped);

    health_rules_default(shipped);
    l->health = health_new(rules ? rules : shipped, every_ms + LATE_MS);
    return l;
}

/* Not synced: after a power cut it is another boot. */
static void save(const struct health_log *l)
{
    autojson json_t *o = NULL;
    autofree char *text = NULL;
    struct err err = { 0 };

    if (!l->path)
        return;
    o = health_save(l->health);
    json_put_str(o, "boot", l->boot);
    text = json_text(o);
    if (fs_write(l->path, text, strlen(text), 0600, false, &err) < 0)
        log_say(LOG_ERROR, err.text, NULL);
}

/* -ENOENT is a first start. */
static int load(struct health_log *l, struct err *err)
{
    autojson json_t *j = NULL;
    autofree char *text = NULL;
    size_t len = 0;
    int rc = fs_read(l->path, HEALTH_KEPT_MAX, &text, &len, err);

    if (!rc)
        rc = json_read(text, len, HEALTH_KEPT_MAX, &j, err);
    if (!rc && !strcmp(json_get_str(j, "boot", ""), l->boot))
        health_restore(l->health, j);
    return rc;
}

int health_log_keep(struct health_log *l, const char *dir, struct err *err)
{
    struct err why = { 0 };
    int rc = procs_boot(l->boot, err);

    if (rc < 0)
        return rc;
    l->path = mem_printf("%s/health", dir);
    rc = load(l, &why);
    if (rc < 0 && rc != -ENOENT) {
        (void) err_prefix(&why, rc, "what was known of devices is lost");
        log_say(LOG_ERROR, why.text, NULL);
    }
    return 0;
}

/* The last energy is what tells a reset from a restart. */
void health_log_free(struct health_log *l)
{
    if (!l)
        return;
    save(l);
    free(l->path);
    health_free(l->health);
    free(l);
}

static void on_change(const struct health_change *c, void *arg)
{
    struct health_log *l = arg;
    struct health_change *kept = &l->last[l->n++ % HEALTH_LOG];
    bool up = c->kind == HEALTH_RAISED || c->kind == HEALTH_ESCALATED;

    *kept = *c;
    kept->at_ms = clock_wall_ms();
    log_say(up && c->rule->action > HEALTH_NOTE ? LOG_WARN : LOG_INFO,
            c->text, "device", c->uuid, "rule", c->rule->name, "change",
            health_kind_name(c->kind), "in_force",
            health_action_name(c->device), NULL);
}

void health_log_look(struct health_log *l, const struct node_report *r,
                     uint64_t now_ms)
{
    uint64_t before = l->n;

    health_look(l->health, r, now_ms, on_change, l);
    if (l->n != before)
        save(l);
}

unsigned health_log_was_reset(struct health_log *l, const char *uuid)
{
    unsigned n = health_was_reset(l->health, uuid);

    if (n)
        save(l);
    return n;
}

const struct health_change *health_log_next(const struct health_log *l,
                                            uint64_t *next,
                                            uint64_t *ret_missed)
{
    *ret_missed = 0;
    if (*next == l->n)
        return NULL;
    if (l->n - *next > HEALTH_LOG) {
        *ret_missed = l->n - *next - HEALTH_LOG;
        *next = l->n - HEALTH_LOG;
    }
    return &l->last[(*next)++ % HEALTH_LOG];
}

#include "control/leases.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Blocks: who may speak for one, what it has, and that it is gone. */
enum { AGAIN_MS = 500 };

static void on_again(struct watch *w, void *arg);

bool blocks_admit(const char *block, const char *token, void *arg)
{
    struct control *c = arg;
    const char *want = map_get(c->tokens, block);
    size_t n = want ? strlen(want) : 0;
    unsigned char diff = 0;

    if (!want || strlen(token) != n || !world_block(c->world, block))
        return false;
    for (size_t i = 0; i < n; i++)     /* the same time for every wrong one */
        diff |= (unsigned char) (want[i] ^ token[i]);
    return diff == 0;
}

/* What is there now may be less than what runs there holds.  Then nothing new
 * starts until enough of it has ended.
 */
static void block_up(struct control *c, const char *block, bool first)
{
    struct err err = { 0 };
    struct event e;
    int rc;

    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    e.data = json_deep_copy(c->inventory);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc == 0) {
        json_decref(c->inventory);
        c->inventory = NULL;
        world_hold(c->world, false);
    } else if (rc == -EBUSY) {
        world_hold(c->world, true);
        if (first)
            log_say(LOG_WARN, "nothing new starts: what runs holds what is "
                    "not there any more", "block", block, "error", err.text,
                    NULL);
        c->again = loop_timer(c->loop, AGAIN_MS, on_again, c);
    } else if (rc != -ENOSPC) {        /* a full disk: asked again by then */
        control_fail(c, rc, &err);
    }
}

static void on_again(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->again = NULL;
    block_up(c, CONTROL_BLOCK, false);
}

/* What an operator says about the machine, beside what it has. */
static void put_labels(const struct control_conf *conf, json_t *inventory)
{
    json_t *o = json_object();

    for (size_t i = 0; i < conf->nlabels; i++) {
        size_t n = strcspn(conf->labels[i], "=");
        autofree char *key = mem_strn(conf->labels[i], n);

        json_put_str(o, key, conf->labels[i] + n + 1);
    }
    if (conf->nlabels)
        json_put(inventory, "labels", o);
    else
        json_decref(o);
    json_put_str(inventory, "domain", conf->domain);
}

void blocks_up(const char *block, const char *token, const json_t *inventory,
               void *arg)
{
    struct control *c = arg;

    free(map_set(c->tokens, block, mem_str(token)));
    json_decref(c->inventory);
    c->inventory = json_deep_copy(inventory);
    put_labels(c->conf, c->inventory);
    watch_remove(c->again);
    c->again = NULL;
    block_up(c, block, true);
}

void blocks_lost(const char *block, const char *why, void *arg)
{
    struct control *c = arg;
    struct err err = { 0 };
    struct event e;

    log_say(LOG_WARN, "a block is lost", "block", block, "why", why, NULL);
    event_init(&e, EVENT_BLOCK_LOST);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot let go of a block", "error", err.text, NULL);
}

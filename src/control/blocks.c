#include "control/apart.h"

#include "base/json.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/map.h"
#include "base/mem.h"
#include "engine/engine.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Blocks: who may speak for one, what it has, and that it is gone.
 *
 * What the world remembers of a block need not be true after a restart, so
 * nothing new starts at all until every block has said what it is.  That is a
 * matter of moments; a block that cannot say it, or does not within SILENT_MS,
 * is shut (block.shut), and the others go on without it.  So is one that has
 * less than what runs there holds, until enough of that has ended.
 */
enum { AGAIN_MS = 500, SILENT_MS = 10000 };

static void on_again(struct watch *w, void *arg);

/* The same time for every wrong one. */
static bool is_token(const char *want, const char *token)
{
    size_t n = strlen(want);
    unsigned char diff = 0;

    if (n == 0 || strlen(token) != n)
        return false;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char) (want[i] ^ token[i]);
    return diff == 0;
}

/* A pool's runners have one lease each, or all of a block.  Those of the one
 * kind are known by their token alone, whatever became of the block.
 */
bool blocks_admit(const char *runner, const char *token, void *arg)
{
    struct control *c = arg;
    char want[IDENTITY_TOKEN_SIZE];
    struct runner_name n;
    const struct heard *t;

    if (runner_name_parse(runner, &n, NULL) < 0 ||
        n.alone != (apart_pool(c, n.block) != NULL))
        return false;
    if (n.alone) {
        identity_token(c, runner, want);
        return is_token(want, token);
    }
    t = map_get(c->blocks, n.block);
    return t && t->token && world_block(c->world, n.block) &&
           is_token(t->token, token);
}

/* ---- shut ---- */

static const char LESS[] = "what runs holds what is not there any more";
static const char MUTE[] = "it is not known what it has";
static const char NONSENSE[] = "what it has makes no sense";

static void block_shut(struct control *c, const struct block *b,
                       const char *text, const char *why)
{
    autofree char *line = mem_printf("nothing new starts on a block: %s",
                                     text);
    struct err err = { 0 };
    struct event e;

    if (!b || !b->up || b->shut)
        return;
    log_say(LOG_WARN, line, "block", b->id, "why", why, NULL);
    event_init(&e, EVENT_BLOCK_SHUT);
    (void) snprintf(e.block, sizeof e.block, "%s", b->id);
    e.data = json_object();
    json_put_str(e.data, "why", why);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot shut a block", "error", err.text, NULL);
}

void blocks_doubt(struct control *c, const char *pool)
{
    struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(c->world, &pos)))
        if (strcmp(b->pool, pool) == 0)
            block_shut(c, b, MUTE, "its engine is another one");
}

/* Our own block is that whatever its pool was called before. */
static const struct reached *reached_of(const struct control *c,
                                        const struct block *b)
{
    const struct reached *r;
    size_t pos = 0;

    if (strcmp(b->id, CONTROL_BLOCK) != 0)
        return map_get(c->pools, b->pool);
    while ((r = map_next(c->pools, &pos, NULL)))
        if (r->own)
            break;
    return r;
}

/* Why it says nothing; NULL: it may yet. */
static const char *mute(const struct control *c, const struct block *b,
                        bool over)
{
    const struct reached *r = reached_of(c, b);

    if (!r)
        return "nobody knows its pool";
    if (!r->engine || (r->said && !r->reachable))
        return r->why;
    return over ? "its pool does not say what it has" : NULL;
}

static void on_silent(struct watch *w, void *arg);

static void look(struct control *c, bool over)
{
    bool waiting = false;
    struct block *b;
    size_t pos = 0;

    while ((b = world_next_block(c->world, &pos))) {
        const struct heard *t = map_get(c->blocks, b->id);
        const char *why;

        if (!b->up || b->shut || (t && !t->inventory))
            continue;
        why = mute(c, b, over);
        if (why)
            block_shut(c, b, MUTE, why);
        else
            waiting = true;
    }
    if (waiting)
        return;
    watch_remove(take(c->silent));
    world_hold(c->world, false);
    journal_soon(c);
}

static void on_silent(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->silent = NULL;
    look(c, true);
}

void blocks_look(struct control *c)
{
    if (c->silent && !c->trouble[0])
        look(c, false);
}

/* What was told before the world was loaded again counts no more. */
void blocks_hold(struct control *c)
{
    struct heard *t;
    size_t pos = 0;

    while ((t = map_next(c->blocks, &pos, NULL)))
        if (!t->inventory)
            t->inventory = json_object();
    watch_remove(c->silent);
    c->silent = loop_timer(c->loop, SILENT_MS, on_silent, c);
    world_hold(c->world, true);
    look(c, false);
}

/* ---- up and lost ---- */

/* A block of a pool that is gone is nobody's. */
static bool is_wanted(const struct control *c, const struct reached *r)
{
    const struct pool *p = world_pool(c->world, r->name);

    return r->own || (p && p->set && !r->close);
}

/* What is there now may be less than what runs there holds. */
static void block_up(struct control *c, const char *block)
{
    struct heard *t = map_get(c->blocks, block);
    struct err err = { 0 };
    struct event e;
    int rc;

    if (!is_wanted(c, t->of))
        return;
    event_init(&e, EVENT_BLOCK_UP);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    e.data = json_deep_copy(t->inventory);
    rc = journal_event(c, &e, NULL, NULL, &err);
    if (rc == 0) {
        json_decref(take(t->inventory));
    } else if (rc == -EBUSY) {
        block_shut(c, world_block(c->world, block), LESS, err.text);
        t->again = loop_timer(c->loop, AGAIN_MS, on_again, t);
    } else if (rc != -ENOSPC && t->of->own) {  /* a full disk: asked again by then */
        control_fail(c, rc, &err);
    } else if (rc != -ENOSPC) {
        log_say(LOG_ERROR, "what a block has makes no sense", "block", block,
                "error", err.text, NULL);
        block_shut(c, world_block(c->world, block), NONSENSE, err.text);
    }
    blocks_look(c);
}

static void on_again(struct watch *w, void *arg)
{
    struct heard *t = arg;

    (void) w;
    t->again = NULL;
    block_up(t->of->c, t->id);
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

/* May a pool have a block of this name? */
static bool is_its(const struct reached *r, const char *block)
{
    size_t n = strlen(r->name);

    if (r->own)
        return strcmp(block, CONTROL_BLOCK) == 0;
    return strncmp(block, r->name, n) == 0 &&
           (!block[n] || (block[n] == '/' && block[n + 1])) &&
           strlen(block) < sizeof ((struct block *) NULL)->id;
}

static struct heard *heard_get(struct control *c, const char *block)
{
    struct heard *t = map_get(c->blocks, block);

    if (t)
        return t;
    t = mem_new(sizeof *t);
    (void) snprintf(t->id, sizeof t->id, "%s", block);
    (void) map_set(c->blocks, t->id, t);
    return t;
}

void blocks_up(const char *block, const char *token, const json_t *inventory,
               void *arg)
{
    struct reached *r = arg;
    struct heard *t;

    if (!is_its(r, block)) {
        log_say(LOG_ERROR, "an engine tells of a block that is not its own",
                "pool", r->name, "block", block, NULL);
        return;
    }
    if (!is_wanted(r->c, r))
        return;
    t = heard_get(r->c, block);
    t->of = r;
    free(t->token);
    t->token = mem_str(token);
    json_decref(t->inventory);
    t->inventory = json_deep_copy(inventory);
    json_put_str(t->inventory, "pool", r->name);
    json_put_str(t->inventory, "engine", r->ops->name);
    (void) json_object_del(t->inventory, "block");
    if (r->ops->apart)
        apart_inventory(t->inventory);
    if (r->own)
        put_labels(r->c->conf, t->inventory);
    watch_remove(take(t->again));
    block_up(r->c, block);
}

static void block_lost(struct control *c, const char *block, const char *why)
{
    struct err err = { 0 };
    struct event e;

    log_say(LOG_WARN, "a block is lost", "block", block, "why", why, NULL);
    event_init(&e, EVENT_BLOCK_LOST);
    (void) snprintf(e.block, sizeof e.block, "%s", block);
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        log_say(LOG_WARN, "cannot let go of a block", "error", err.text, NULL);
}

void blocks_lost(const char *block, const char *why, void *arg)
{
    struct reached *r = arg;
    const struct heard *t = map_get(r->c->blocks, block);

    if (!t || t->of != r || !is_wanted(r->c, r))
        return;
    block_lost(r->c, block, why);
    blocks_look(r->c);
}

void blocks_missing(struct control *c, const char *block)
{
    block_lost(c, block, "its pool does not have it any more");
}

static void heard_free(struct control *c, struct heard *t)
{
    (void) map_del(c->blocks, t->id);
    (void) json_object_del(c->telemetry, t->id);
    (void) json_object_del(c->strays, t->id);
    watch_remove(t->again);
    json_decref(t->inventory);
    free(t->token);
    free(t);
}

void blocks_forget(struct control *c, const struct reached *of)
{
    bool found = true;

    while (found) {
        struct heard *t;
        size_t pos = 0;

        while ((t = map_next(c->blocks, &pos, NULL)) && of && t->of != of)
            ;
        found = t != NULL;
        if (t)
            heard_free(c, t);
    }
}

#include "control/bed.h"

/* Pools that are added and removed beside our own, by fake engines: their
 * blocks come up, their runners find no home here.
 */
enum { PATIENCE = 3000 };

static void propose(struct control *c, enum event_type type, const char *name,
                    const char *devices, bool observe)
{
    struct err err = { 0 };
    struct event e;

    event_init(&e, type);
    e.data = json_object();
    json_put_str(e.data, "name", name);
    if (devices) {
        json_put_str(e.data, "engine", "fake");
        json_put(e.data, "conf", json_pack("{s:s}", "devices", devices));
        json_put_bool(e.data, "observe", observe);
    }
    if (journal_event(c, &e, NULL, NULL, &err) < 0)
        ok(false, "%s of %s: %s", event_type_name(type), name, err.text);
}

static void pool_event(struct control *c, enum event_type type,
                       const char *name, const char *devices, bool observe)
{
    propose(c, type, name, devices, observe);
    settle(c);
}

static void set(struct control *c, const char *name, const char *devices)
{
    pool_event(c, EVENT_POOL_SET, name, devices, false);
}

static bool is_up(const struct control *c, const char *block)
{
    const struct block *b = world_block(c->world, block);

    return b && b->up && !b->shut;
}

/* Turn until the block is as it should be. */
static bool comes(struct control *c, const char *block, bool up)
{
    for (int i = 0; i < PATIENCE && is_up(c, block) != up; i++)
        (void) loop_turn(c->loop, 10, NULL);
    settle(c);
    return is_up(c, block) == up;
}

static void test_add(void)
{
    struct service_pool is = { 0 };
    struct err err = { 0 };
    autojson json_t *good = json_pack("{s:s}", "devices", "fake:1xH100-80GB");
    autojson json_t *bad = json_pack("{s:s}", "device", "fake:1xH100-80GB");
    autojson json_t *none = json_object();
    struct control c;

    begin_up(&c, 1);
    ok(pools_check("side", "fake", good, false, &err, &c) == 0, "it makes sense");
    ok(pools_check("local", "fake", good, false, &err, &c) == -EEXIST, "%s",
       err.text);
    ok(pools_check("side", "kubernetes", none, false, &err, &c) == -EINVAL &&
       strstr(err.text, "image") && strstr(err.text, "--observe"), "%s",
       err.text);
    ok(pools_check("side", "kubernetes", none, true, &err, &c) == 0,
       "but it can be looked at");
    ok(pools_check("side", "moon", good, false, &err, &c) == -EINVAL, "%s", err.text);
    ok(pools_check("side", "fake", bad, false, &err, &c) == -EINVAL, "%s", err.text);
    ok(!pools_find("side", &is, &c), "nobody knows it");
    set(&c, "side", "fake:2xA100-40GB");
    ok(comes(&c, "side", true) && world_block(c.world, "side")->ndevices == 2,
       "a pool is added: its block is up");
    ok(pools_find("side", &is, &c) && is.known && is.reachable &&
       !is.own && strcmp(is.engine, "fake") == 0, "and it can be reached");
    ok(blocks_admit("side", ((struct heard *) map_get(c.blocks, "side"))->token,
                    &c) && !blocks_admit("side", "token", &c),
       "its runner may speak for it, another may not");
    set(&c, "side", "fake:3xA100-40GB");
    for (int i = 0; i < PATIENCE &&
         world_block(c.world, "side")->ndevices != 3; i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(world_block(c.world, "side")->ndevices == 3, "told something else: so "
       "it is");
    close_control(&c);

    open_control(&c);
    for (int i = 0; i < PATIENCE && !map_get(c.blocks, "side"); i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(map_get(c.blocks, "side") && is_up(&c, "side") &&
       !map_get(c.blocks, CONTROL_BLOCK), "started again: it is asked for");
    block_up(&c, 1);
    pool_event(&c, EVENT_POOL_REMOVED, "side", NULL, false);
    ok(!world_block(c.world, "side") && !map_get(c.blocks, "side") &&
       !pools_find("side", &is, &c), "removed: it is gone");
    set(&c, "side", "fake:1xA100-40GB");
    ok(comes(&c, "side", true), "and comes back");
    close_control(&c);
}

/* An engine tells of blocks that are its own, and of no other. */
static void test_foreign(void)
{
    autojson json_t *j = json_pack("{s:s, s:s, s:s, s:[]}", "pool", "local",
                                   "engine", "x", "node", "n", "devices");
    struct reached *side;
    struct control c;

    begin_up(&c, 1);
    set(&c, "side", "fake:1xA100-40GB");
    (void) comes(&c, "side", true);
    side = map_get(c.pools, "side");
    blocks_up(CONTROL_BLOCK, "stolen", j, side);
    blocks_up("sideways", "stolen", j, side);
    blocks_up("side/", "stolen", j, side);
    ok(!blocks_admit(CONTROL_BLOCK, "stolen", &c) &&
       !world_block(c.world, "sideways") && !world_block(c.world, "side/") &&
       world_block(c.world, CONTROL_BLOCK)->ndevices == 1,
       "it is not believed");
    blocks_lost(CONTROL_BLOCK, "so it says", side);
    ok(is_up(&c, CONTROL_BLOCK), "nor that another's is lost");
    blocks_up("side/n", "token", j, side);
    ok(is_up(&c, "side/n") &&
       strcmp(world_block(c.world, "side/n")->pool, "side") == 0,
       "one of its own is in its pool, whatever it says");
    pool_event(&c, EVENT_POOL_REMOVED, "side", NULL, false);
    blocks_up("side/n", "token", j, side);
    ok(!world_block(c.world, "side/n"), "and none once the pool is gone");
    close_control(&c);
}

/* What is refused of one block, or not known, holds nobody else. */
static void test_alone(void)
{
    struct service_pool is = { 0 };
    uint64_t one, two, three;
    struct control c;

    begin_up(&c, 2);
    set(&c, "side", "fake:1xA100-40GB;away=60000");
    ok(pools_find("side", &is, &c) && !world_block(c.world, "side"),
       "a pool that is away has no block");
    one = submit(&c, 1, 2);
    report(&c, WIRE_CLAIM, one, 0, "");
    block_up(&c, 1);
    ok(world_block(c.world, CONTROL_BLOCK)->shut, "our own has less than it "
       "holds: shut");
    set(&c, "near", "fake:1xA100-40GB");
    (void) comes(&c, "near", true);
    two = submit(&c, 1, 1);
    ok(world_workload(c.world, two)->tasks[0].leases &&
       strcmp(world_workload(c.world, two)->tasks[0].leases->block->id,
              "near") == 0, "what waits starts elsewhere");
    set(&c, "near", "fake:1xA100-40GB;away=60000");
    close_control(&c);

    open_control(&c);
    for (int i = 0; i < PATIENCE && !world_block(c.world, "near")->shut; i++)
        (void) loop_turn(c.loop, 10, NULL);
    ok(world_block(c.world, "near")->shut, "started again: a block that "
       "cannot be reached is shut");
    ok(pools_find("near", &is, &c) && is.known && !is.reachable &&
       is.why[0], "near: %s", is.why);
    block_up(&c, 3);
    three = submit(&c, 1, 1);
    hello(&c);
    ok(said(WIRE_ORDER, three, 0) == 1, "and our own goes on");
    close_control(&c);
}

static void test_observe(void)
{
    struct control c;

    begin_up(&c, 1);
    pool_event(&c, EVENT_POOL_SET, "side", "fake:1xA100-40GB", true);
    for (int i = 0; i < 20; i++)
        (void) loop_turn(c.loop, 5, NULL);
    ok(!world_block(c.world, "side"), "nothing is got from a pool that is "
       "looked at");
    set(&c, "side", "fake:1xA100-40GB");
    ok(comes(&c, "side", true), "until it is not");
    close_control(&c);
}

/* A journal may know engines that this program does not. */
static void test_unknown(void)
{
    struct service_pool is = { 0 };
    struct control c;
    struct event e;

    begin_up(&c, 1);
    event_init(&e, EVENT_POOL_SET);
    e.data = json_pack("{s:s,s:s}", "name", "side", "engine", "moon");
    ok(journal_event(&c, &e, NULL, NULL, NULL) == 0, "an engine of another "
       "version");
    settle(&c);
    ok(pools_find("side", &is, &c) && is.known && !is.reachable &&
       strstr(is.why, "moon"), "%s", is.why);
    ok(is_up(&c, CONTROL_BLOCK), "our own goes on");
    pool_event(&c, EVENT_POOL_REMOVED, "side", NULL, false);
    ok(!pools_find("side", &is, &c), "it can be removed");
    close_control(&c);
}

/* One pool goes and another of its name comes before either is on disk. */
static void test_at_once(void)
{
    struct control c;

    begin_up(&c, 1);
    set(&c, "side", "fake:2xA100-40GB");
    (void) comes(&c, "side", true);
    propose(&c, EVENT_POOL_REMOVED, "side", NULL, false);
    propose(&c, EVENT_POOL_SET, "side", "fake:2xA100-40GB", false);
    settle(&c);
    ok(comes(&c, "side", true) && world_block(c.world, "side")->ndevices == 2,
       "removed and added at once: it is there");
    close_control(&c);
}

/* What an engine has no more, since it was told something else, is lost. */
static void test_other(void)
{
    const struct workload *w;
    struct control c;
    struct event e;

    begin_up(&c, 1);
    set(&c, "side", "fake:1xA100-40GB");
    (void) comes(&c, "side", true);
    (void) submit(&c, 1, 1);
    w = world_workload(c.world, submit(&c, 1, 1));
    ok(w->tasks[0].leases && strcmp(w->tasks[0].leases->block->id, "side") == 0,
       "one is planned there");
    pool_event(&c, EVENT_POOL_SET, "side", "fake:1xA100-40GB", true);
    ok(world_block(c.world, "side")->leases, "to be looked at only: what is "
       "there stays");
    event_init(&e, EVENT_POOL_SET);
    e.data = json_pack("{s:s,s:s,s:{s:s,s:s}}", "name", "side", "engine",
                       "fake", "conf", "devices", "fake:1xA100-40GB", "nodes",
                       "2");
    ok(journal_event(&c, &e, NULL, NULL, NULL) == 0, "it is two others now");
    settle(&c);
    for (int i = 0; i < PATIENCE && world_block(c.world, "side")->up; i++)
        (void) loop_turn(c.loop, 10, NULL);
    settle(&c);
    ok(!world_block(c.world, "side")->up &&
       !world_block(c.world, "side")->leases, "the one that was is lost, with "
       "what was there");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_add();
    test_foreign();
    test_alone();
    test_observe();
    test_unknown();
    test_at_once();
    test_other();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

#include "core/testing.h"
#include "core/why.h"

#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Pools that come and go, and blocks that are shut. */
static int set_pool(struct sim *s, const char *name, const char *engine)
{
    return sim_on_pool(s, EVENT_POOL_SET, name,
                       json_pack("{s:s,s:{s:s}}", "engine", engine, "conf",
                                 "devices", "fake:1xH100"));
}

static int block_in(struct sim *s, const char *id, const char *pool,
                    uint32_t devices)
{
    int rc;

    s->pool = pool;
    rc = sim_block(s, id, devices, "H100", 8);
    s->pool = NULL;
    return rc;
}

static uint64_t submit_gpus(struct sim *s, uint32_t ranks)
{
    struct spec *spec = sim_spec(1);

    spec->tasks[0].gpu_milli = 1000;
    spec->tasks[0].ranks = ranks;
    return sim_submit(s, spec);
}

static const char *at(const struct sim *s, uint64_t id)
{
    const struct task *t = sim_task(s, id, 0);

    return t && t->leases ? t->leases[0].block->id : "";
}

static const char *why(const struct sim *s, uint64_t id)
{
    static struct why y;

    why_task(s->w, sim_task(s, id, 0), s->now, &y);
    return y.text;
}

static void test_set(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "local", 1, "H100", 8);
    ok(set_pool(&s, "k8s", "fake") == 0, "a pool is added");
    ok(is(sim_row(&s, "5 pool/k8s", "engine"), "fake"), "and has a row");
    ok(set_pool(&s, "k8s", "fake") == 0, "once more is no harm");
    ok(set_pool(&s, "k8s", "slurm") == -EBUSY, "%s", s.err.text);
    ok(set_pool(&s, "local", "fake") == -EEXIST, "%s", s.err.text);
    ok(set_pool(&s, "", "fake") == -EINVAL, "%s", s.err.text);
    ok(set_pool(&s, "a/b", "fake") == -EINVAL, "%s", s.err.text);
    ok(set_pool(&s, "a2345678901234567890123456789012", "fake") == -EINVAL,
       "%s", s.err.text);
    ok(set_pool(&s, "x", "no engine") == -EINVAL, "%s", s.err.text);
    ok(sim_on_pool(&s, EVENT_POOL_SET, "x", json_pack("{s:s,s:{s:i}}",
                   "engine", "fake", "conf", "n", 1)) == -EINVAL, "%s",
       s.err.text);
    ok(sim_on_pool(&s, EVENT_POOL_SET, "x", json_pack("{s:s,s:[]}",
                   "engine", "fake", "conf")) == -EINVAL, "%s", s.err.text);
    ok(!world_pool(s.w, "x") && !world_pool(s.w, "local"), "what was refused "
       "is not there");
    close_checked(&s, "set");
}

static void test_remove(void)
{
    uint64_t one, two;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "local", 1, "H100", 8);
    (void) set_pool(&s, "side", "fake");
    (void) block_in(&s, "side", "side", 2);
    one = submit_gpus(&s, 1);
    two = submit_gpus(&s, 1);
    ok(is(at(&s, one), "local") != is(at(&s, two), "local"),
       "%s and %s: both pools are used", at(&s, one), at(&s, two));
    if (is(at(&s, one), "local"))
        one = two;
    ok(sim_on_pool(&s, EVENT_POOL_REMOVED, "side", NULL) == -EBUSY, "%s",
       s.err.text);
    ok(sim_on_pool(&s, EVENT_POOL_REMOVED, "local", NULL) == -ENOENT, "%s",
       s.err.text);
    ok(sim_on_pool(&s, EVENT_POOL_REMOVED, "none", NULL) == -ENOENT, "%s",
       s.err.text);
    sim_run(&s, one, 0);
    ok(sim_on_pool(&s, EVENT_POOL_REMOVED, "side", NULL) == 0, "nothing is on "
       "it: it goes");
    ok(!world_pool(s.w, "side") && !world_block(s.w, "side") &&
       !sim_row(&s, "2 side", "id"), "with its block, and their rows");
    ok(set_pool(&s, "side", "slurm") == 0 &&
       block_in(&s, "side", "side", 1) == 0, "it comes again, as another");
    close_checked(&s, "remove");
}

/* A rank that has ended on it keeps the pool, while its gang lives elsewhere. */
static void test_gang(void)
{
    uint64_t id;
    const struct task *t;
    uint32_t rank;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    (void) set_pool(&s, "side", "fake");
    (void) block_in(&s, "side", "side", 1);
    id = submit_gpus(&s, 2);
    t = sim_task(&s, id, 0);
    ok(t->leases != NULL, "a gang in two pools");
    rank = is(t->leases[0].block->id, "side") ? 0 : 1;
    for (uint32_t i = 0; i < 2; i++)
        (void) sim_claim(&s, id, 0, i, t->gen);
    (void) sim_end(&s, id, 0, rank, 0);
    ok(!world_block(s.w, "side")->leases &&
       sim_on_pool(&s, EVENT_POOL_REMOVED, "side", NULL) == -EBUSY, "%s",
       s.err.text);
    (void) sim_end(&s, id, 0, 1 - rank, 0);
    ok(sim_on_pool(&s, EVENT_POOL_REMOVED, "side", NULL) == 0, "then it goes");
    close_checked(&s, "gang");
}

static void test_drain(void)
{
    uint64_t id;
    struct sim s;

    sim_open(&s);
    (void) set_pool(&s, "side", "fake");
    ok(sim_on_pool(&s, EVENT_POOL_DRAINED, "side", NULL) == 0, "drained before "
       "it has a block");
    ok(sim_on_pool(&s, EVENT_POOL_DRAINED, "side", NULL) == -ESTALE, "%s",
       s.err.text);
    ok(sim_on_pool(&s, EVENT_POOL_DRAINED, "none", NULL) == -ENOENT, "%s",
       s.err.text);
    (void) block_in(&s, "side", "side", 1);
    id = submit_gpus(&s, 1);
    ok(sim_state(&s, id, 0) == TASK_WAITING, "nothing new starts there");
    ok(strstr(why(&s, id), "in a pool that takes nothing new (1 of 1)"), "%s",
       why(&s, id));
    (void) set_pool(&s, "side", "fake");
    ok(sim_state(&s, id, 0) == TASK_WAITING, "nor when it is set again");
    ok(sim_on_pool(&s, EVENT_POOL_UNDRAINED, "side", NULL) == 0 &&
       is(at(&s, id), "side"), "until it is undrained");
    ok(sim_on_pool(&s, EVENT_POOL_UNDRAINED, "side", NULL) == -ESTALE, "%s",
       s.err.text);
    sim_run(&s, id, 0);
    (void) sim_on_pool(&s, EVENT_POOL_SET, "side", json_pack("{s:s,s:b}",
                       "engine", "fake", "observe", 1));
    id = submit_gpus(&s, 1);
    ok(sim_state(&s, id, 0) == TASK_WAITING, "nor in one that is looked at");
    (void) set_pool(&s, "side", "fake");
    ok(is(at(&s, id), "side"), "until it is not");
    close_checked(&s, "drain");
}

/* The control plane's own pool is known by its block alone. */
static void test_own(void)
{
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 1, "H100", 8);
    ok(sim_on_pool(&s, EVENT_POOL_DRAINED, "local", NULL) == 0 &&
       sim_row(&s, "5 pool/local", "name"), "it is drained, and has a row");
    ok(sim_on_pool(&s, EVENT_POOL_UNDRAINED, "local", NULL) == 0 &&
       !sim_row(&s, "5 pool/local", "name") && !world_pool(s.w, "local"),
       "it is not, and has none");
    close_checked(&s, "own");
}

static void test_shut(void)
{
    uint64_t one, two;
    struct sim s;

    sim_open(&s);
    sim_block(&s, "b", 2, "H100", 8);
    one = submit_gpus(&s, 1);
    ok(sim_on_block(&s, EVENT_BLOCK_SHUT, "b") == 0, "a block is shut");
    ok(sim_on_block(&s, EVENT_BLOCK_SHUT, "b") == -ESTALE, "%s", s.err.text);
    ok(sim_on_block(&s, EVENT_BLOCK_SHUT, "none") == -ENOENT, "%s",
       s.err.text);
    two = submit_gpus(&s, 1);
    ok(is(at(&s, one), "b") && sim_state(&s, two, 0) == TASK_WAITING,
       "what is there stays, nothing new starts");
    ok(strstr(why(&s, two), "not known for now (1 of 1)"), "%s", why(&s, two));
    ok(sim_twin(&s), "a loaded world knows that");
    sim_block(&s, "b", 2, "H100", 8);
    ok(is(at(&s, two), "b"), "it is up: that is over");
    (void) sim_on_block(&s, EVENT_BLOCK_SHUT, "b");
    (void) sim_on_block(&s, EVENT_BLOCK_LOST, "b");
    ok(sim_on_block(&s, EVENT_BLOCK_SHUT, "b") == -ESTALE, "%s", s.err.text);
    close_checked(&s, "shut");
}

int main(void)
{
    test_set();
    test_remove();
    test_gang();
    test_drain();
    test_own();
    test_shut();
    return tap_done();
}

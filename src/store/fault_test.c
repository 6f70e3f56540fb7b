#include "base/clock.h"
#include "base/fs.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "core/world.h"
#include "store/fault_vfs.h"
#include "store/play.h"
#include "store/sql.h"
#include "store/store.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* What the store promises when the disk does not do what it should. */
enum { SHORT_STEPS = 20, LONG_STEPS = 150, TRIM_STEPS = 120 };

static char dir[] = "/tmp/weir-fault-XXXXXX";
static char path[64], copy[64];

static void clean(const char *name)
{
    static const char *const parts[] = { "", "-wal", "-shm", "-journal" };

    for (size_t i = 0; i < array_size(parts); i++) {
        autofree char *file = mem_printf("%s%s", name, parts[i]);

        (void) unlink(file);
    }
}

static struct play fresh(uint64_t seed)
{
    struct play p = { .path = path, .vfs = FAULT_VFS, .rng = seed * 2 + 1,
                      .now_ms = UINT64_C(1800000000000) };

    clean(path);
    fault_reset();
    for (int i = 0; i < 8; i++)
        (void) play_draw(&p, 2);
    return p;
}

static void turn(struct play *p, unsigned times)
{
    for (unsigned i = 0; i < times; i++)
        (void) loop_turn(p->loop, 5, NULL);
}

static void test_hold(void)
{
    struct play p = fresh(1);
    struct err err = { 0 };
    uint64_t until = clock_mono_ms() + 20000;
    unsigned told;

    ok(play_open(&p, &err) == 0 && play_tenant(&p, "lab", &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == 0,
       "a store on a disk that works %s", err.text);
    told = p.told;
    fault_hold(true);
    ok(play_submit(&p, "lab", "", 1, NULL, &err) == 0 &&
       play_commit(&p, &err) == 0, "a submission is handed over");
    while (fault_held() == 0 && clock_mono_ms() < until)
        turn(&p, 1);
    ok(fault_held() == 1, "the writer waits for the disk");
    turn(&p, 10);
    ok(p.told == told && store_durable(p.store) == p.durable,
       "nothing is called durable while the sync has not returned");
    /* Everything that comes now goes into the one next transaction. */
    for (int i = 0; i < 10; i++)
        if (play_submit(&p, "lab", "", 1, NULL, &err) < 0 ||
            play_commit(&p, &err) < 0)
            printf("# %s\n", err.text);
    fault_hold(false);
    ok(play_wait(&p, &err) == 0 && p.told <= told + 2,
       "then one sync serves the ten that came meanwhile (told %u times)",
       p.told - told);
    ok(play_compare(&p, NULL, &err) == 0, "replay equals the tables %s",
       err.text);
    play_close(&p);
}

static void test_full(void)
{
    struct play p = fresh(2);
    struct err err = { 0 };
    uint64_t before, id = 0;

    ok(play_open(&p, &err) == 0 && play_tenant(&p, "lab", &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == 0,
       "a store with room %s", err.text);
    before = p.durable;
    fault_fail(1, UINT32_MAX, ENOSPC);
    ok(play_submit(&p, "lab", "k", 3, &id, &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == -EIO,
       "a submission meets a full disk");
    ok(p.failures == 1 && p.why.code == ENOSPC && strstr(p.why.text, path) &&
       strstr(p.why.text, "is full"), "said in one line: %s", p.why.text);
    ok(store_commit(p.store, p.world, &err) == -ENOSPC &&
       strcmp(err.text, p.why.text) == 0, "nothing more is taken");
    (void) play_submit(&p, "lab", "", 1, NULL, NULL);
    turn(&p, 5);
    ok(p.failures == 1 && p.durable == before, "and said once");
    ok(play_recover(&p, &err) == 0 && world_seq(p.world) == before &&
       !world_workload(p.world, id), "the world is the last durable one %s",
       err.text);
    ok(play_submit(&p, "lab", "k", 3, &id, &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == -EIO &&
       p.failures == 2, "it is still full");
    fault_fail(0, 0, 0);
    ok(play_recover(&p, &err) == 0 &&
       play_submit(&p, "lab", "k", 3, &id, &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == 0,
       "with room again the service resumes %s", err.text);
    ok(play_compare(&p, NULL, &err) == 0, "replay equals the tables %s",
       err.text);
    play_close(&p);
}

/* The nth operation fails once, for every n that a few commits and a
 * checkpoint make; the owner recovers and goes on.
 */
static int fail_once(uint64_t nth, int code, bool *ret_hit, struct err *err)
{
    struct play p = fresh(nth);
    int rc = play_open(&p, err);

    if (rc < 0)
        return rc;
    fault_fail(nth, 1, code);
    for (int i = 0; i < SHORT_STEPS && rc == 0; i++) {
        rc = play_random(&p, err);
        if (rc == -EIO || rc == -ENOSPC)
            rc = 0;                    /* seen before the loop was told */
        if (rc == 0 && play_wait(&p, err) < 0)
            rc = play_recover(&p, err);
    }
    *ret_hit = p.failures > 0;
    if (rc == 0)
        rc = play_compare(&p, NULL, err);
    if (rc == 0 && p.failures > 1)
        rc = err_set(err, EPROTO, "one fault, %u failures", p.failures);
    play_close(&p);
    if (rc == 0)
        rc = play_open(&p, err);
    if (rc == 0)
        rc = play_compare(&p, NULL, err);
    play_close(&p);
    return rc;
}

static void test_fail_each(int code, uint64_t step)
{
    struct err err = { 0 };
    unsigned hits = 0;
    uint64_t n;
    int rc = 0;

    for (n = 1; n <= 200 && rc == 0; n += step) {
        bool hit = false;

        rc = fail_once(n, code, &hit, &err);
        hits += hit;
    }
    ok(rc == 0 && hits > 100 / step, "%s at 200 / %" PRIu64 " operations: %u "
       "failures, each recovered from (%" PRIu64 " %s)", strerror(code), step,
       hits, n, err.text);
}

/* Power goes at the kth operation.  What was told durable is there, what is
 * there is whole.
 */
static int cut_once(uint64_t k, int steps, uint64_t *ret_events,
                    bool *ret_cut, struct err *err)
{
    struct play p = fresh(k % 4);
    struct err ignored;
    uint64_t told = 0;
    int rc;

    fault_cut(k);
    rc = play_open(&p, &ignored);
    for (int i = 0; i < steps && rc == 0 && !p.failures; i++) {
        rc = play_random(&p, &ignored);
        if (rc == 0 && play_draw(&p, 3) == 0)
            rc = play_wait(&p, &ignored);
    }
    told = p.durable;
    play_close(&p);
    *ret_cut = fault_is_cut();
    fault_reboot(k % 3 ? k : 0);
    rc = play_open(&p, err);
    if (rc == 0)
        rc = play_compare(&p, ret_events, err);
    if (rc == 0 && (*ret_events < told || *ret_events != world_seq(p.world)))
        rc = err_set(err, EILSEQ, "%" PRIu64 " were told durable, %" PRIu64
                     " are there, the world is at %" PRIu64, told, *ret_events,
                     world_seq(p.world));
    if (rc == 0 && k % 8 == 0 &&
        ((rc = play_random(&p, err)) < 0 || (rc = play_wait(&p, err)) < 0))
        (void) err_prefix(err, rc, "afterwards");
    play_close(&p);
    return rc;
}

static void test_cut(int steps, uint64_t first, uint64_t stride)
{
    struct err err = { 0 };
    uint64_t k, events = 0, most = 0, runs = 0;
    int rc = 0, uncut = 0;

    /* How many operations there are differs from run to run. */
    for (k = first; uncut < 4 && rc == 0; k += stride) {
        bool cut = false;

        rc = cut_once(k, steps, &events, &cut, &err);
        most = events > most ? events : most;
        runs += cut;
        uncut = cut ? 0 : uncut + 1;
    }
    ok(rc == 0 && runs > 15 && most > (uint64_t) steps / 2,
       "power cuts at %" PRIu64 " points of %d steps: nothing told is lost, "
       "what is there is whole (up to %" PRIu64 " events, operation %" PRIu64
       ") %s", runs, steps, most, k, err.text);
}

/* Power goes while history is being forgotten: the full check finds the store
 * whole, and what lives is there.
 */
static int cut_trim_once(uint64_t k, bool *ret_cut, struct err *err)
{
    struct store_conf conf = { .path = path, .vfs = FAULT_VFS,
                               .check_full = true };
    struct play p = fresh(3);
    struct store *s = NULL;
    struct world *w;
    uint64_t told;
    int rc = play_open(&p, err);

    for (int i = 0; i < TRIM_STEPS && rc == 0; i++)
        rc = play_random(&p, err);
    if (rc == 0)
        rc = play_wait(&p, err);
    told = p.durable;
    fault_cut(k);
    if (rc == 0)
        store_trim(p.store, p.now_ms + 1, 1000);
    for (int i = 0; i < 3 && rc == 0 && play_random(&p, NULL) == 0; i++)
        (void) play_wait(&p, NULL);
    play_close(&p);
    *ret_cut = fault_is_cut();
    fault_reboot(k % 3 ? k : 0);
    if (rc == 0)
        rc = store_open(&conf, &s, err);
    w = world_new();
    if (rc == 0)
        rc = store_load(s, w, err);
    if (rc == 0)
        rc = world_verify(w, err);
    if (rc == 0 && world_seq(w) < told)
        rc = err_set(err, EILSEQ, "%" PRIu64 " of %" PRIu64 " events",
                     world_seq(w), told);
    world_free(w);
    store_close(s);
    return rc;
}

static void test_cut_trim(void)
{
    struct err err = { 0 };
    uint64_t k, runs = 0;
    bool cut = true;
    int rc = 0;

    for (k = 1; cut && rc == 0; k += 5, runs++)
        rc = cut_trim_once(k, &cut, &err);
    ok(rc == 0 && runs > 10, "power cuts at %" PRIu64 " points of forgetting: "
       "whole, nothing told is lost (operation %" PRIu64 ") %s", runs, k,
       err.text);
}

static int copy_file(const char *from, const char *to, const char *suffix,
                     size_t cut, bool flip)
{
    autofree char *a = mem_printf("%s%s", from, suffix);
    autofree char *b = mem_printf("%s%s", to, suffix);
    autofree char *data = NULL;
    size_t len = 0;
    int rc = fs_read(a, 1 << 28, &data, &len, NULL);

    if (rc < 0)
        return rc;
    len -= cut;
    if (flip)
        data[len - 100] = data[len - 100] == 'x' ? 'y' : 'x';
    return fs_write(b, data, len, 0600, false, NULL);
}

/* The last write is torn: the copy opens at the transaction before. */
static void test_torn(const char *what, size_t cut, bool flip, bool loses)
{
    struct play p = fresh(5), q = { .path = copy, .rng = 1 };
    struct err err = { 0 };
    struct sql *view = NULL;
    uint64_t last, events = 0;

    p.vfs = NULL;
    clean(copy);
    ok(play_open(&p, &err) == 0 && play_tenant(&p, "lab", &err) == 0 &&
       play_commit(&p, &err) == 0 && play_wait(&p, &err) == 0,
       "%s: a store %s", what, err.text);
    /* A view of now keeps the log from being moved into the database. */
    ok(sql_open(path, NULL, SQL_READ, &view, &err) == 0 &&
       sql_exec(view, "BEGIN; SELECT count(*) FROM event", &err) == 0,
       "its log is kept %s", err.text);
    for (int i = 0; i < 5; i++)
        if (play_submit(&p, "lab", "", 2, NULL, &err) < 0 ||
            play_commit(&p, &err) < 0 || play_wait(&p, &err) < 0)
            printf("# %s\n", err.text);
    last = p.durable;
    ok(copy_file(path, copy, "", 0, false) == 0 &&
       copy_file(path, copy, "-wal", cut, flip) == 0, "a copy with %s", what);
    ok(play_open(&q, &err) == 0 && play_compare(&q, &events, &err) == 0,
       "opens, replay equals the tables %s", err.text);
    ok(loses ? events < last && events >= last - 3 : events == last,
       "at event %" PRIu64 " of %" PRIu64, events, last);
    ok(play_random(&q, &err) == 0 && play_wait(&q, &err) == 0, "and goes on");
    play_close(&q);
    sql_close(view);
    play_close(&p);
}

int main(void)
{
    /* All of them where that is quick, else each third. */
    uint64_t step = getenv("WEIR_SLOW") ? 3 : 1;

    if (!mkdtemp(dir))
        return 1;
    (void) snprintf(path, sizeof path, "%s/store.db", dir);
    (void) snprintf(copy, sizeof copy, "%s/copy.db", dir);
    fault_register();
    test_hold();
    test_full();
    test_fail_each(ENOSPC, step);
    test_fail_each(EIO, step);
    test_cut(SHORT_STEPS, 1, step);
    test_cut(LONG_STEPS, 5, 29);
    test_cut_trim();
    test_torn("nothing amiss", 0, false, false);
    test_torn("a cut last frame", 1000, false, true);
    test_torn("a garbled last frame", 0, true, true);
    fault_reset();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

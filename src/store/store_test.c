#include "store/store.h"

#include "base/fs.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/tap.h"
#include "core/spec.h"
#include "core/world.h"
#include "store/play.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define T0 UINT64_C(1800000000000)

static char dir[] = "/tmp/weir-store-XXXXXX";

static char path[128];

static void begin(struct play *p, const char *name)
{
    struct err err = { 0 };

    (void) snprintf(path, sizeof path, "%s/%s.db", dir, name);
    *p = (struct play) { .path = path, .rng = 77, .now_ms = T0 };
    ok(play_open(p, &err) == 0 && play_tenant(p, "lab", &err) == 0 &&
       play_tenant(p, "team", &err) == 0, "%s: a new store %s", name,
       err.text);
}

static char *beside(const char *name, const char *suffix)
{
    return mem_printf("%s/%s.db%s", dir, name, suffix);
}

static int settle(struct play *p)
{
    struct err err = { 0 };
    int rc = play_commit(p, &err);

    if (rc == 0)
        rc = play_wait(p, &err);
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc;
}

/* Let every lease end well until nothing is alive. */
static int run_out(struct play *p)
{
    struct err err = { 0 };
    size_t pos = 0;
    int rc = 0;

    while (rc == 0 && world_next(p->world, &pos)) {
        p->now_ms += 1000;
        (void) play_runner(p, NULL);
        rc = play_commit(p, &err);
        pos = 0;
    }
    if (rc < 0)
        printf("# %s\n", err.text);
    return rc < 0 ? rc : play_wait(p, &err);
}

struct seen {
    unsigned count;
    uint64_t first, last;
    bool spec;
};

static int see_event(const struct store_event *e, void *arg)
{
    struct seen *s = arg;

    s->first = s->count++ ? s->first : e->seq;
    s->last = e->seq;
    s->spec |= strstr(e->body, "\"spec\":{") != NULL;
    return 0;
}

static int see_body(uint64_t id, const char *body, size_t len, void *arg)
{
    struct seen *s = arg;

    s->first = s->count++ ? s->first : id;
    s->last = id;
    return strlen(body) == len ? 0 : -EILSEQ;
}

static int stop_event(const struct store_event *e, void *arg)
{
    (void) e;
    return ++*(int *) arg == 3 ? -ECANCELED : 0;
}

static struct seen events(struct play *p, struct store_event_query q)
{
    struct seen s = { 0 };
    struct err err = { 0 };

    if (q.limit == 0)
        q.limit = 1000;
    if (store_events(p->store, &q, see_event, &s, &err) < 0)
        printf("# %s\n", err.text);
    return s;
}

static void test_events(void)
{
    struct play p;
    struct seen s;
    int calls = 0;

    begin(&p, "events");
    for (int i = 0; i < 10; i++)
        (void) play_submit(&p, i % 2 ? "lab" : "team", "", 1, NULL, NULL);
    ok(settle(&p) == 0 && p.durable == 12 && store_durable(p.store) == 12,
       "twelve events are durable");
    s = events(&p, (struct store_event_query) { 0 });
    ok(s.count == 12 && s.first == 1 && s.last == 12 && !s.spec,
       "all, oldest first, without specs");
    s = events(&p, (struct store_event_query) { .whole = true });
    ok(s.count == 12 && s.spec, "with specs when asked");
    s = events(&p, (struct store_event_query) { .after = 4, .limit = 3 });
    ok(s.count == 3 && s.first == 5 && s.last == 7, "after a number");
    s = events(&p, (struct store_event_query) { .before = 8, .limit = 3 });
    ok(s.count == 3 && s.first == 7 && s.last == 5,
       "before a number, newest first");
    s = events(&p, (struct store_event_query) { .tenant = "lab" });
    ok(s.count == 6, "of one tenant: its own event and five submissions");
    s = events(&p, (struct store_event_query) { .workload = 3 });
    ok(s.count == 1 && s.first == 5, "of one workload");
    s = events(&p, (struct store_event_query) { .workload = 3,
                                                .tenant = "lab" });
    ok(s.count == 0, "and not for another tenant");
    s = events(&p, (struct store_event_query) { .type = "tenant.set" });
    ok(s.count == 2, "of one type");
    s = events(&p, (struct store_event_query) { .after = UINT64_MAX,
                                                .workload = UINT64_MAX });
    ok(s.count == 0, "numbers beyond all are no error");
    ok(store_events(p.store, &(struct store_event_query) { .limit = 9 },
                    stop_event, &calls, NULL) == -ECANCELED && calls == 3,
       "the callback ends the read");
    ok(store_first_event(p.store) == 1, "the oldest is the first");
    play_close(&p);
}

static void test_workloads(void)
{
    struct play p;
    autojson json_t *body = NULL;
    struct spec *spec = NULL;
    struct seen s = { 0 };
    struct err err = { 0 };
    uint64_t id = 0;
    char hash[65] = "";

    begin(&p, "workloads");
    (void) play_block(&p, "b1", NULL);
    (void) play_submit(&p, "lab", "first", 4, NULL, NULL);
    ok(run_out(&p) == 0, "a pipeline runs to its end");
    (void) play_submit(&p, "team", "second", 2, NULL, NULL);
    ok(settle(&p) == 0, "another begins");

    ok(store_workload(p.store, 1, &body, &spec, &err) == 0 &&
       spec->ntasks == 4 && json_object_size(body) > 0,
       "the ended one is there, with its spec %s", err.text);
    spec_free(spec);
    ok(store_workload(p.store, 9, NULL, NULL, &err) == -ENOENT,
       "one that never was is not: %s", err.text);
    ok(store_tasks(p.store, 1, 0, 100, see_body, &s, &err) == 0 &&
       s.count == 4 && s.first == 0 && s.last == 3, "its tasks in order");
    s = (struct seen) { 0 };
    ok(store_tasks(p.store, 1, 2, 1, see_body, &s, &err) == 0 &&
       s.count == 1 && s.first == 2, "from one task on, so many");
    s = (struct seen) { 0 };
    ok(store_workloads(p.store,
                       &(struct store_workload_query) { .limit = 10 },
                       see_body, &s, &err) == 0 && s.count == 2 &&
       s.first == 2 && s.last == 1, "all workloads, newest first");
    s = (struct seen) { 0 };
    ok(store_workloads(p.store, &(struct store_workload_query) {
                       .limit = 10, .state = "live" }, see_body, &s,
                       &err) == 0 && s.count == 1 && s.first == 2,
       "the live ones");
    s = (struct seen) { 0 };
    ok(store_workloads(p.store, &(struct store_workload_query) {
                       .limit = 10, .state = "ended", .tenant = "lab",
                       .before = 2 }, see_body, &s, &err) == 0 &&
       s.count == 1 && s.first == 1, "a tenant's ended ones before a number");
    ok(store_workloads(p.store, &(struct store_workload_query) {
                       .limit = 10, .state = "asleep" }, see_body, &s,
                       &err) == -EINVAL, "an unknown state: %s", err.text);

    ok(store_find_key(p.store, "uid:1000", "first", &id, hash, &err) == 0 &&
       id == 1 && strlen(hash) == 64, "a key is found after the end");
    ok(store_find_key(p.store, "uid:1001", "first", &id, hash, &err) ==
       -ENOENT, "not by somebody else: %s", err.text);
    play_close(&p);
}

static void test_reopen(void)
{
    struct play p;
    struct store_conf conf = { .path = path, .read_only = true };
    struct store *reader = NULL;
    struct store_stat stat_now;
    struct err err = { 0 };
    struct stat st;
    uint64_t seq;

    begin(&p, "reopen");
    (void) play_block(&p, "b1", NULL);
    for (int i = 0; i < 50; i++) {
        p.now_ms += 100;
        (void) play_submit(&p, "lab", "", 3, NULL, NULL);
        (void) play_runner(&p, NULL);
        (void) settle(&p);
    }
    seq = world_seq(p.world);
    ok(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600,
       "the file is its owner's alone");
    store_stat(p.store, &stat_now);
    ok(stat_now.events == seq && stat_now.bytes > 4096 && !stat_now.failed &&
       stat_now.commits >= 50, "its numbers: %" PRIu64 " events, %" PRIu64
       " commits, %" PRIu64 " bytes", stat_now.events, stat_now.commits,
       stat_now.bytes);
    ok(store_open(&conf, &reader, &err) == 0 &&
       store_commit(reader, p.world, &err) == -EROFS,
       "a second one reads beside it, and only reads: %s", err.text);
    store_close(reader);
    play_close(&p);
    ok(play_open(&p, &err) == 0 && world_seq(p.world) == seq &&
       world_verify(p.world, &err) == 0 && store_durable(p.store) == seq,
       "closed and opened: the same world %s", err.text);
    ok(play_compare(&p, NULL, &err) == 0, "replay equals the tables %s",
       err.text);
    play_close(&p);
}

static void on_done(int rc, const struct err *err, void *arg)
{
    if (err)
        printf("# %s\n", err->text);
    *(int *) arg = rc;
}

static int wait_done(struct play *p, const int *rc)
{
    for (int i = 0; i < 3000 && *rc == 1; i++)
        (void) loop_turn(p->loop, 10, NULL);
    return *rc;
}

static void test_backup(void)
{
    struct play p;
    autofree char *file = mem_printf("%s/saved", dir);
    autofree char *aside = beside("backup", ".before-restore-1");
    struct store_conf conf = { .path = file, .read_only = true,
                               .check_full = true };
    struct store *saved = NULL;
    struct err err = { 0 };
    struct stat st;
    uint64_t seq, epoch;
    int rc = 1;

    begin(&p, "backup");
    (void) play_block(&p, "b1", NULL);
    for (int i = 0; i < 300; i++)
        (void) play_submit(&p, "lab", "", 5, NULL, NULL);
    (void) settle(&p);
    seq = p.durable;
    epoch = world_epoch(p.world);
    ok(store_backup(p.store, file, on_done, &rc, &err) == 0, "a backup begins");
    ok(store_backup(p.store, "x", on_done, &rc, &err) == -EBUSY,
       "one at a time: %s", err.text);
    for (int i = 0; i < 50; i++) {
        (void) play_submit(&p, "team", "", 1, NULL, NULL);
        (void) settle(&p);
    }
    ok(wait_done(&p, &rc) == 0, "it is done while the writer goes on");
    rc = 1;
    ok(store_backup(p.store, file, on_done, &rc, &err) == -EEXIST,
       "it is not overwritten: %s", err.text);
    ok(stat(file, &st) == 0 && (st.st_mode & 0777) == 0600,
       "it is its owner's alone");
    ok(store_open(&conf, &saved, &err) == 0 && store_durable(saved) >= seq &&
       store_durable(saved) <= p.durable, "it is whole, of one moment: event "
       "%" PRIu64 " %s", saved ? store_durable(saved) : 0, err.text);
    seq = saved ? store_durable(saved) : 0;
    store_close(saved);

    play_close(&p);
    ok(store_restore(file, path, T0 + 5000, &err) == 0, "restored %s",
       err.text);
    ok(stat(aside, &st) == 0, "the store before is kept");
    ok(play_open(&p, &err) == 0 && world_seq(p.world) == seq + 1 &&
       world_epoch(p.world) > epoch, "one event more, a new epoch %s",
       err.text);
    ok(world_workload(p.world, 1) && world_workload(p.world, 1)->quarantined,
       "what had not ended is quarantined");
    ok(play_compare(&p, NULL, &err) == 0, "replay equals the tables %s",
       err.text);
    epoch = world_epoch(p.world);
    play_close(&p);
    ok(store_restore(file, path, T0 + 6000, &err) == 0 &&
       play_open(&p, &err) == 0 && world_epoch(p.world) > epoch,
       "the same backup again: newer than every epoch before %s", err.text);
    play_close(&p);
}

/* A store of that name, closed; its bytes, with a page of the middle
 * overwritten.  It stays at `path`; caller frees.
 */
static char *ruined(struct play *p, const char *name, size_t *ret_len)
{
    char *data = NULL;

    begin(p, name);
    for (int i = 0; i < 100; i++)
        (void) play_submit(p, "lab", "", 5, NULL, NULL);
    (void) settle(p);
    play_close(p);
    ok(fs_read(path, 1 << 28, &data, ret_len, NULL) == 0, "%s: read", name);
    memset(data + *ret_len / 2, 'x', 4096);
    return data;
}

/* What a restore must refuse, and what it leaves when it is cut off. */
static void test_restore_refused(void)
{
    struct play p;
    autofree char *bad = mem_printf("%s/bad", dir);
    autofree char *aside = beside("refused", ".before-restore-1");
    autofree char *part = beside("refused", ".restore-part");
    autofree char *data = NULL;
    struct err err = { 0 };
    size_t len = 0;

    data = ruined(&p, "refused", &len);
    (void) fs_write(bad, data, len, 0600, false, &err);
    ok(store_restore(bad, path, T0, &err) == -EBADMSG &&
       strstr(err.text, bad) && !strstr(err.text, "weir restore"),
       "a damaged backup: %s", err.text);
    ok(access(aside, F_OK) != 0 && access(part, F_OK) != 0,
       "and nothing was moved");
    ok(store_restore("/nowhere/at/all", path, T0, &err) == -ENOENT,
       "no backup: %s", err.text);
    ok(play_open(&p, &err) == 0, "the store is as it was %s", err.text);
    play_close(&p);

    (void) rename(path, aside);
    (void) fs_write(part, "half", 4, 0600, false, NULL);
    ok(play_open(&p, &err) == -EBADMSG && strstr(err.text, "cut off"),
       "a restore that was cut off: %s", err.text);
    ok(access(path, F_OK) != 0, "and no empty store in its place");
    ok(store_restore(aside, path, T0, &err) == 0 &&
       play_open(&p, &err) == 0, "running one again completes it %s",
       err.text);
    play_close(&p);
}

/* The store that is replaced cannot say its epoch. */
static void test_restore_blind(void)
{
    struct play p;
    autofree char *file = mem_printf("%s/blind-saved", dir);
    struct err err = { 0 };
    int rc = 1;

    begin(&p, "blind");
    (void) settle(&p);
    (void) store_backup(p.store, file, on_done, &rc, &err);
    ok(wait_done(&p, &rc) == 0, "a backup");
    play_close(&p);
    (void) fs_write(path, "no database any more", 20, 0600, false, NULL);
    ok(play_open(&p, &err) == -EBADMSG, "the store is ruined: %s", err.text);
    ok(store_restore(file, path, T0, &err) == 0 && play_open(&p, &err) == 0 &&
       world_epoch(p.world) > T0,
       "restored, with an epoch beyond all that were counted %s", err.text);
    play_close(&p);
    (void) unlink(path);
    ok(store_restore(file, path, T0 + 5, &err) == 0 &&
       play_open(&p, &err) == 0 && world_epoch(p.world) > T0 + 5,
       "the store is lost at once: another epoch again %s", err.text);
    play_close(&p);
}

static void test_damage(void)
{
    struct play p;
    struct err err = { 0 };
    autofree char *data = NULL;
    size_t len = 0;

    data = ruined(&p, "damage", &len);
    (void) fs_write(path, data, len, 0600, false, &err);
    ok(play_open(&p, &err) == -EBADMSG && strstr(err.text, "weir restore"),
       "a page of the middle overwritten: %s", err.text);
    memset(data, 'x', 100);
    (void) fs_write(path, data, len, 0600, false, &err);
    ok(play_open(&p, &err) == -EBADMSG, "the first page: %s", err.text);
    play_close(&p);
}

/* Until so many workloads are left. */
static bool wait_left(struct play *p, unsigned left)
{
    struct seen s = { 0 };

    for (int i = 0; i < 2000; i++) {
        s = (struct seen) { 0 };
        if (store_workloads(p->store, &(struct store_workload_query) {
                            .limit = 1000 }, see_body, &s, NULL) < 0 ||
            s.count == left)
            break;
        (void) loop_turn(p->loop, 10, NULL);
    }
    return s.count == left;
}

static void old_ones(struct play *p)
{
    (void) play_block(p, "b1", NULL);
    for (int i = 0; i < 5; i++) {
        char key[16];

        (void) snprintf(key, sizeof key, "old-%d", i);
        (void) play_submit(p, "lab", key, 3, NULL, NULL);
        (void) run_out(p);
    }
}

static void test_trim(void)
{
    struct play p;
    struct err err = { 0 };
    struct store_stat now;
    struct seen s = { 0 };
    uint64_t middle, id;
    char hash[65];

    begin(&p, "trim");
    old_ones(&p);
    middle = p.now_ms += 100000;
    (void) play_tenant(&p, "late", NULL);
    for (int i = 0; i < 2; i++)
        (void) play_submit(&p, "lab", "", 2, NULL, NULL);
    (void) run_out(&p);
    (void) play_submit(&p, "lab", "", 1, NULL, NULL);
    (void) settle(&p);

    store_trim(p.store, middle, 2);
    ok(wait_left(&p, 6), "at most so many at a time");
    ok(store_workload(p.store, 1, NULL, NULL, NULL) == -ENOENT &&
       store_workload(p.store, 3, NULL, NULL, NULL) == 0,
       "the oldest are forgotten first");
    ok(store_find_key(p.store, "uid:1000", "old-0", &id, hash, NULL) ==
       -ENOENT, "and their keys");
    store_trim(p.store, middle, 100);
    ok(wait_left(&p, 3), "what ended later and what lives stays");
    s = events(&p, (struct store_event_query) { .workload = 5 });
    ok(s.count == 0, "the events of what is forgotten are gone");
    s = events(&p, (struct store_event_query) { .workload = 6 });
    ok(s.count > 4, "the others are there");
    for (int i = 0; i < 2000 && s.count != 1; i++) {
        (void) loop_turn(p.loop, 10, NULL);
        s = events(&p, (struct store_event_query) { .type = "tenant.set" });
    }
    play_close(&p);
    ok(play_open(&p, &err) == 0, "it opens %s", err.text);
    store_stat(p.store, &now);
    ok(s.count == 1 && store_first_event(p.store) == s.first,
       "of the audit log, what is newer is kept (%u)", s.count);
    s = events(&p, (struct store_event_query) { 0 });
    ok(s.count == now.events && s.last == world_seq(p.world),
       "the count of events is right: %" PRIu64, now.events);
    play_close(&p);
}

static void test_large(void)
{
    struct play p;
    struct err err = { 0 };

    begin(&p, "large");
    ok(play_submit(&p, "lab", "", 10000, NULL, &err) == 0 && settle(&p) == 0,
       "a pipeline of 10000 tasks %s", err.text);
    play_close(&p);
    ok(play_open(&p, &err) == 0 && world_workload(p.world, 1) &&
       world_workload(p.world, 1)->spec->ntasks == 10000, "is there again");
    play_close(&p);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_events();
    test_workloads();
    test_reopen();
    test_backup();
    test_restore_refused();
    test_restore_blind();
    test_damage();
    test_trim();
    test_large();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

#include "runner/record.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

static const struct lease_id id = { { 12, 3, 0 }, 2, 1 };
static struct records records;
static char dir[] = "/tmp/weir-record-XXXXXX";

static char *file_path(void)
{
    return mem_printf("%s/leases/w12.3.0.2.1", dir);
}

static void make(const char *secret)
{
    autojson json_t *task = json_object();

    json_put_str(task, "run", secret);
    ok(record_make(&records, &id, task, NULL) == 0, "made");
}

static struct record facts(void)
{
    struct record rec = { 0 };

    ok(record_read(&records, &id, &rec, NULL) == 0, "read");
    return rec;
}

static void test_life(void)
{
    struct started s = { 11, 12, 1700000000000 };
    struct report r = { "signalled", -9, 1, 2, 3, 4096 }, *got;
    autojson json_t *task = NULL;
    struct record rec;
    int fd = -1;

    make("true");
    rec = facts();
    ok(!rec.claimed && !rec.alive && !rec.has_report, "new");
    ok(record_make(&records, &id, json_null(), NULL) == -EEXIST,
       "a second one is refused");
    ok(record_open(&records, &id, true, &fd, NULL) == 0 &&
       record_add_claimed(fd, NULL) == 0, "claimed");
    rec = facts();
    ok(rec.claimed && rec.alive && !rec.has_started, "a keeper is there");
    ok(record_open(&records, &id, true, &(int) { -1 }, NULL) ==
       -EWOULDBLOCK, "a second keeper is refused");
    ok(record_add_started(fd, &s, NULL) == 0 &&
       record_add_stop(fd, "one", NULL) == 0 &&
       record_add_stop(fd, "two \"x\"\n", NULL) == 0 &&
       record_add_report(fd, &r, NULL) == 0, "started, stopped, ended");
    (void) close(fd);
    rec = facts();
    got = &rec.report;
    ok(!rec.alive && rec.has_started && rec.started.keeper == 11 &&
       rec.started.task == 12 && rec.started.at_ms == 1700000000000,
       "the start");
    ok(rec.stop && !strcmp(rec.stop, "two \"x\"\n"), "the newest command");
    ok(rec.has_report && !strcmp(got->cause, "signalled") &&
       got->status == -9 && got->started_ms == 1 && got->ended_ms == 2 &&
       got->cpu_ms == 3 && got->rss_bytes == 4096, "the report");
    record_clear(&rec);
    ok(record_read_order(&records, &id, &task, NULL) == 0 &&
       !strcmp(json_get_str(task, "run", ""), "true"), "the order");
}

static bool holds(const char *path, const char *text)
{
    autofree char *data = NULL;

    return fs_read(path, 1 << 20, &data, NULL, NULL) == 0 &&
           strstr(data, text);
}

static void test_reuse(void)
{
    autofree char *path = file_path();
    autofree char *spare = mem_printf("%s/spare/0", dir);
    struct record rec;
    int fd = -1;

    ok(record_retire(&records, &id, NULL) == 0 && access(path, F_OK) < 0,
       "retired");
    ok(record_read(&records, &id, &rec, NULL) == -ENOENT, "and not there");
    make("a-secret-in-an-order");
    (void) record_open(&records, &id, false, &fd, NULL);
    (void) record_add_claimed(fd, NULL);
    (void) close(fd);
    ok(record_retire(&records, &id, NULL) == 0 &&
       access(spare, F_OK) == 0 && !holds(spare, "secret"),
       "a spare keeps no secret");
    make("x");
    rec = facts();
    ok(!rec.claimed && !rec.has_report, "nothing of the one before shows");
    ok(record_retire(&records, &id, NULL) == 0 &&
       record_retire(&records, &id, NULL) == 0, "retiring is repeatable");
}

static void put(const char *text)
{
    autofree char *path = file_path();

    (void) fs_write(path, text, strlen(text), 0600, false, NULL);
}

/* Whatever a killed writer or a broken disk left. */
static void test_torn(void)
{
    json_t *task = NULL;
    struct record rec;

    put("");
    rec = facts();
    ok(!rec.claimed, "empty");
    ok(record_read_order(&records, &id, &task, NULL) == -EINVAL,
       "no order in it");
    put("{\"run\":\"x\"");
    ok(record_read_order(&records, &id, &task, NULL) == -EINVAL,
       "half an order");
    put("{\"run\":\"x\"}\n{\"claimed\":1}");
    ok(!facts().claimed, "a line without its end is no line");
    put("{\"run\":\"x\"}\n{\"clai{\"claimed\":1}\n{\"claimed\":2}\n");
    ok(facts().claimed, "what follows a broken line counts");
    put("{\"claimed\":1,\"exit\":{\"status\":0}}\n");
    rec = facts();
    ok(!rec.claimed && !rec.has_report, "the order itself is no fact");
    put("{}\n[1]\n\n{\"exit\":7}\n");
    rec = facts();
    ok(rec.has_report && !strcmp(rec.report.cause, "lost"),
       "a report that makes no sense says lost");
    ok(record_retire(&records, &id, NULL) == 0, "retired");
}

static unsigned seen;

static void on_record(const struct lease_id *found, void *arg)
{
    (void) arg;
    seen++;
    ok(found->key.workload == 12 && found->key.task == 3 &&
       found->key.rank == 0 && found->gen == 2 && found->epoch == 1,
       "found by its name");
}

static void test_scan(void)
{
    static const char *const others[] = {
        "w12.3.0.2", "w12.3.0.2.1.5", "x", "w012.3.0.2.1", "w12.3.0.2.1~",
    };

    make("x");
    for (size_t i = 0; i < array_size(others); i++) {
        autofree char *path = mem_printf("%s/leases/%s", dir, others[i]);

        (void) fs_write(path, "x", 1, 0600, false, NULL);
    }
    ok(records_scan(&records, on_record, NULL, NULL) == 0 && seen == 1,
       "and only that is");
}

int main(void)
{
    ok(mkdtemp(dir) && records_open(&records, dir, NULL) == 0, "set up");
    test_life();
    test_reuse();
    test_torn();
    test_scan();
    records_close(&records);
    ok(fs_remove_tree(dir, NULL) == 0, "clean up");
    return tap_done();
}

#include "runner/progress.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct progress p;

static bool says(const char *want)
{
    autojson json_t *j = progress_json(&p);
    autofree char *text = json_text(j);

    if (strcmp(text, want) == 0)
        return true;
    printf("# got %s\n", text);
    return false;
}

static void test_lines(void)
{
    ok(progress_line(&p, "0.4 loss=0.31", 5, NULL) == 0 &&
       says("{\"at\":5,\"progress\":0.4,\"metrics\":{\"loss\":0.31}}"),
       "how far, and a metric");
    ok(progress_line(&p, "  loss=2.5e-3\tval/acc=-1 \r", 6, NULL) == 0 &&
       says("{\"at\":6,\"progress\":0.4,\"metrics\":{\"loss\":0.0025,"
            "\"val/acc\":-1.0}}"), "each keeps the value said last");
    ok(progress_line(&p, "1", 7, NULL) == 0 && p.done == 1, "all of it");
}

static void test_wrong(void)
{
    static const char *const wrong[] = {
        "", "  ", "1.1", "-0.1", "nan", "loss=", "loss=nan", "loss=inf",
        "loss=0x10", "loss=1e999", "=1", "9x=1", "a b", "0.1 0.2", "a=1 0.2",
        "lo ss=1", "loss =1", "e", "a=1-", "a=1 b=x",
        "a23456789012345678901234567890123=1",
    };
    autojson json_t *before = progress_json(&p);
    bool kept = true;

    for (size_t i = 0; i < array_size(wrong); i++) {
        struct err err = { 0 };
        autojson json_t *after = NULL;

        ok(progress_line(&p, wrong[i], 9, &err) == -EINVAL && err.text[0],
           "refused: '%s' (%s)", wrong[i], err.text);
        after = progress_json(&p);
        kept = kept && json_equal(before, after);
    }
    ok(kept, "and nothing of a wrong line is taken");
}

static void test_many(void)
{
    char line[32];
    int rc = 0;

    p = (struct progress) { 0 };
    for (int i = 0; i < PROGRESS_METRICS && rc == 0; i++) {
        (void) snprintf(line, sizeof line, "m%d=%d", i, i);
        rc = progress_line(&p, line, 1, NULL);
    }
    ok(rc == 0 && p.n == PROGRESS_METRICS, "as many as there is room for");
    ok(progress_line(&p, "m16=1", 1, NULL) == -EINVAL &&
       progress_line(&p, "m1=7", 1, NULL) == 0 && p.metrics[1].value == 7,
       "one more is refused, those there go on");
}

static void test_file(void)
{
    char dir[] = "/tmp/weir-progress-XXXXXX";
    struct lease_id id = { { 12, 3, 0 }, 2, 1 };
    autojson json_t *j = NULL, *want = progress_json(&p);
    autofree char *sub = NULL;
    struct err err = { 0 };
    uint64_t before;

    if (!mkdtemp(dir)) {
        ok(false, "a folder in /tmp");
        return;
    }
    sub = mem_printf("%s/progress", dir);
    ok(fs_mkdir(sub, 0700, &err) == 0, "a folder %s", err.text);
    ok(progress_read(dir, &id, &j, NULL) == -ENOENT, "nothing said yet");
    ok(progress_write(dir, &id, &p, &err) == 0 &&
       progress_read(dir, &id, &j, &err) == 0 && json_equal(j, want),
       "what is written is read %s", err.text);
    before = json_get_u64(j, "at", 0);
    json_decref(take(j));
    ok(progress_line(&p, "m1=8", before, &err) == 0 &&
       progress_write(dir, &id, &p, &err) == 0 &&
       progress_read(dir, &id, &j, &err) == 0 &&
       json_get_u64(j, "at", 0) > before,
       "another word of the same moment is a newer one");
    before = json_get_u64(j, "at", 0);
    json_decref(take(j));
    ok(progress_line(&p, "m1=9", 1, &err) == 0 &&
       progress_write(dir, &id, &p, &err) == 0 &&
       progress_read(dir, &id, &j, &err) == 0 &&
       json_get_u64(j, "at", 0) > before, "also when the clock went back");
    progress_drop(dir, &id);
    json_decref(take(j));
    ok(progress_read(dir, &id, &j, NULL) == -ENOENT, "and then gone");
    (void) fs_remove_tree(dir, NULL);
}

int main(void)
{
    test_lines();
    test_wrong();
    test_many();
    test_file();
    return tap_done();
}

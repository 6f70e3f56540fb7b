#include "spec/policy_doc.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "base/tap.h"
#include "plan/policy.h"
#include "spec/doc.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>

/* policy_doc_test FOLDER PAGE MANUAL: the examples are read, too, and both
 * pages have every field.
 */

static void check_problems(const char *text, const char *want)
{
    struct doc_problems problems = { .items = NULL };
    autobuf struct buf out = BUF_INIT(1 << 20);
    struct policy p;
    int rc = policy_doc_read(text, strlen(text), &p, &problems);

    doc_problems_print(&problems, "p", &out);
    doc_problems_free(&problems);
    ok((rc == 0) == (*want == '\0') && strcmp(buf_text(&out), want) == 0,
       "%.*s", (int) strcspn(text, "\n"), text);
    if (strcmp(buf_text(&out), want) != 0)
        printf("# got  %s\n# want %s\n", buf_text(&out), want);
}

static void test_places(void)
{
    check_problems("weir: 1\nkind: policy\n", "");
    check_problems("{\"weir\": 1, \"kind\": \"policy\", \"patience\": 30}",
                   "");
    check_problems("weir: 1\nkind: policy\nhalf_live: 7d\nquantile: 2\n",
                   "p:3:1: half_live: unknown key 'half_live'; did you mean "
                   "'half_life'?\n"
                   "p:4:11: quantile: expected a number from 0.5 to 0.99, "
                   "got '2'\n");
    check_problems("kind: policy\nweir: 1\nmodels:\n- model: H100\n"
                   "- {model: T4, raitng: 2}\n- rating: 1\n",
                   "p:5:15: models[1].raitng: unknown key 'raitng'; did you "
                   "mean 'rating'?\n"
                   "p:6:3: models[2]: missing key 'model'\n");
    check_problems("kind: policy\n", "p:1:1: missing key 'weir'; a document "
                   "starts with 'weir: 1'\n");
    check_problems("weir: 1\nkind: policy\nkill: true\nkill: false\n",
                   "p:4:1: duplicate key 'kill'; the first is in line 3\n");
    check_problems("weir: 1\nkind: policy\nkill: True\nfair: FALSE\n"
                   "move: False\nreclaim: TRUE\n", "");
    check_problems("weir: 1\nkind: policy\nkill: tRUE\n",
                   "p:3:7: kill: expected true or false, got 'tRUE'\n");
    check_problems("weir: 1\nkind: policy\nkill: 'true'\n",
                   "p:3:7: kill: expected true or false, got 'true'\n");
    check_problems("weir: 1\nkind: policy\nquantile: \"0.9\"\n",
                   "p:3:11: quantile: expected a number from 0.5 to 0.99, "
                   "got '0.9'\n");
    check_problems("weir: 1\nkind: policy\npatience:\n",
                   "p:3:10: patience: expected a time such as 90s, 10m or 7d, "
                   "from 0s to 365d, got 'null'\n");
    check_problems("- 1\n", "p:1:1: expected a mapping that starts with "
                   "'weir: 1'\n");
    check_problems("weir: [1\n", "p:2:1: not valid YAML: did not find "
                   "expected ',' or ']', while parsing a flow sequence\n");
}

static void test_large(void)
{
    autofree char *text = mem_new(POLICY_DOC_MAX + 2);
    struct doc_problems problems = { .items = NULL };
    struct policy p;

    memset(text, '#', POLICY_DOC_MAX + 1);
    ok(policy_doc_read(text, POLICY_DOC_MAX + 1, &p, &problems) == -E2BIG &&
       problems.count == 1, "a document past the limit is refused");
    doc_problems_free(&problems);
    check_problems("weir: 1\nkind: policy\n"
                   "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,"
                   "*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
                   "d: [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n",
                   "p: more than 10000 values, aliases written out\n");
}

static void test_schema(void)
{
    autojson json_t *j = NULL;
    const json_t *members;
    struct err err = { 0 };
    const char *text = policy_doc_schema();
    bool all = true;

    ok(json_read(text, strlen(text), 1 << 20, &j, &err) == 0,
       "the schema is JSON (%s)", err.text);
    members = json_object_get(j, "properties");
    for (size_t i = 0; i < policy_table.count; i++)
        all = all && json_object_get(members, policy_table.fields[i].name);
    ok(all && json_object_get(members, "models") &&
       json_object_get(members, "kind"), "and has every field");
}

static int is_example(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');

    return dot && strcmp(dot, ".yaml") == 0;
}

static void test_example(const char *folder, const char *name)
{
    autofree char *path = mem_printf("%s/%s", folder, name), *text = NULL;
    struct doc_problems problems = { .items = NULL };
    autojson json_t *got = NULL, *usual = NULL;
    struct policy p, fresh;
    struct err err = { 0 };
    size_t len = 0;
    int rc;

    if (fs_read(path, POLICY_DOC_MAX, &text, &len, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    rc = policy_doc_read(text, len, &p, &problems);
    ok(rc == 0, "%s is read", name);
    doc_problems_free(&problems);
    if (rc != 0 || strcmp(name, "default.yaml") != 0)
        return;
    policy_init(&fresh);
    got = policy_to_json(&p);
    usual = policy_to_json(&fresh);
    ok(json_equal(got, usual), "%s says the defaults, all of them", name);
}

static void test_examples(const char *folder)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_example, alphasort);

    ok(n >= 3, "there are examples (%d)", n);
    for (int i = 0; i < n; i++) {
        test_example(folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

/* "time from 0s to 365d", which the manual has of a time; of the others it
 * has more than what is worth comparing.
 */
static void add_bounds(struct buf *row, const struct policy_field *f)
{
    char least[32], most[32];

    if (f->kind != POLICY_TIME)
        return;
    quantity_print_duration((uint64_t) f->min * 1000, least, sizeof least);
    quantity_print_duration((uint64_t) f->max * 1000, most, sizeof most);
    buf_printf(row, " (time from %s to %s, ", least, most);
}

/* Both pages have every field, and the manual the bounds of times. */
static void test_page(const char *path, const char *form, bool bounds)
{
    autofree char *page = NULL;
    struct err err = { 0 };
    unsigned missing = 0;
    size_t len = 0;

    if (fs_read(path, 1 << 20, &page, &len, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    for (size_t i = 0; i < policy_table.count; i++) {
        const char *name = policy_table.fields[i].name;
        autobuf struct buf row = BUF_INIT(256);

        buf_printf(&row, "%.*s%s", (int) strcspn(form, "@"), form, name);
        buf_str(&row, strchr(form, '@') + 1);
        if (bounds)
            add_bounds(&row, &policy_table.fields[i]);
        if (!strstr(page, buf_text(&row))) {
            printf("# %s lacks '%s'\n", path, name);
            missing++;
        }
    }
    ok(missing == 0, "%s has every field", path);
}

int main(int argc, char **argv)
{
    test_places();
    test_large();
    test_schema();
    if (argc == 4) {
        test_examples(argv[1]);
        test_page(argv[2], "\n| `@` |", false);
        test_page(argv[3], "\n.It Sy @ No", true);
    }
    return tap_done();
}

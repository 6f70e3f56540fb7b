#include "spec/doc.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "core/spec.h"
#include "spec/field.h"

#include <dirent.h>
#include <string.h>

/* schema_test print         the schema, for schema_test.py
 * schema_test FOLDER PAGE   the examples are read; the page has every field
 */

static int is_example(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');

    return dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".json") == 0);
}

static void test_example(const char *folder, const char *name)
{
    autofree char *path = mem_printf("%s/%s", folder, name);
    autofree char *text = NULL;
    autobuf struct buf out = BUF_INIT(1 << 20);
    struct doc_problems problems = { .items = NULL };
    struct spec *s = NULL;
    struct err err = { 0 };
    size_t len = 0;

    if (fs_read(path, SPEC_MAX_BYTES, &text, &len, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    ok(doc_read(text, len, NULL, 0, 0, &s, &problems) == 0, "%s is read",
       name);
    doc_problems_print(&problems, name, &out);
    if (out.len)
        printf("# %s", out.data);
    doc_problems_free(&problems);
    spec_free(s);
}

static void test_examples(const char *folder)
{
    struct dirent **list = NULL;
    int n = scandir(folder, &list, is_example, alphasort);

    ok(n >= 12, "there are at least a dozen examples (%d)", n);
    for (int i = 0; i < n; i++) {
        test_example(folder, list[i]->d_name);
        free(list[i]);
    }
    free(list);
}

/* Each row of the page's tables starts with "| `PATH` |". */
static unsigned missing_rows(const char *page, const struct table *t,
                             const char *prefix)
{
    unsigned missing = 0;

    for (size_t i = 0; i < t->count; i++) {
        const struct field *f = &t->fields[i];
        autofree char *row = mem_printf("\n| `%s%s` |", prefix, f->name);
        autofree char *inner = mem_printf("%s%s.", prefix, f->name);

        if (!strstr(page, row)) {
            printf("# no row for '%s%s'\n", prefix, f->name);
            missing++;
        }
        if (f->table && f->table != &table_task)
            missing += missing_rows(page, f->table, inner);
    }
    return missing;
}

static void test_page(const char *path)
{
    autofree char *page = NULL;
    struct err err = { 0 };
    size_t len = 0;

    if (fs_read(path, 1 << 20, &page, &len, &err) < 0) {
        ok(false, "%s", err.text);
        return;
    }
    ok(missing_rows(page, &table_document, "") == 0 &&
       missing_rows(page, &table_task, "") == 0,
       "docs/document.md has a row for every field");
}

static void test_schema(void)
{
    autojson json_t *j = NULL;
    struct err err = { 0 };
    const char *text = doc_schema();

    ok(json_read(text, strlen(text), 1 << 20, &j, &err) == 0,
       "the schema is JSON (%s)", err.text);
    ok(doc_schema() == text, "and made once");
    ok(json_object_get(json_object_get(j, "$defs"), "task"),
       "and has a part for tasks");
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "print") == 0)
        return puts(doc_schema()) < 0;
    if (argc != 3) {
        (void) fprintf(stderr, "usage: schema_test print | FOLDER PAGE\n");
        return 2;
    }
    test_schema();
    test_examples(argv[1]);
    test_page(argv[2]);
    return tap_done();
}

#include "spec/doc.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <assert.h>
#include <stdlib.h>

void doc_problems_free(struct doc_problems *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->items[i].field);
        free(p->items[i].text);
    }
    free(p->items);
    *p = (struct doc_problems) { .items = NULL };
}

static void print_one(const struct doc_problem *x, const char *file,
                      struct buf *out)
{
    buf_str(out, file);
    if (x->line)
        buf_printf(out, ":%u:%u", x->line, x->column);
    buf_printf(out, ": %s%s%s", x->field, x->field[0] ? ": " : "", x->text);
}

void doc_problems_print(const struct doc_problems *p, const char *file,
                        struct buf *out)
{
    for (size_t i = 0; i < p->count; i++) {
        print_one(&p->items[i], file, out);
        buf_str(out, "\n");
    }
    if (p->more)
        buf_printf(out, "%s: and %zu more\n", file, p->more);
}

int doc_problems_err(const struct doc_problems *p, const char *file, int code,
                     struct err *err)
{
    autobuf struct buf b = BUF_INIT(sizeof err->text);

    assert(p->count > 0);
    print_one(&p->items[0], file, &b);
    return err_set(err, code, "%s", buf_text(&b));
}

json_t *doc_problems_json(const struct doc_problems *p, const char *file)
{
    json_t *list = json_array();

    for (size_t i = 0; i < p->count; i++) {
        const struct doc_problem *x = &p->items[i];
        json_t *o = json_object();

        json_put_str(o, "file", file);
        json_put_u64(o, "line", x->line);
        json_put_u64(o, "column", x->column);
        json_put_str(o, "field", x->field);
        json_put_str(o, "text", x->text);
        json_array_append_new(list, o);
    }
    return list;
}

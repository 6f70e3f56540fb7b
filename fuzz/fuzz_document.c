#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/spec.h"
#include "spec/doc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes are a document or have problems, never both; problems are text,
 * in order, within the document; what is a document has a JSON form that
 * reads back to the same form.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void check_problems(const struct doc_problems *p)
{
    must(p->count > 0 && p->count <= 100);
    for (size_t i = 0; i < p->count; i++) {
        const struct doc_problem *x = &p->items[i];

        must(x->text[0] && utf8_valid(x->text, strlen(x->text)));
        must(utf8_valid(x->field, strlen(x->field)));
        must(i == 0 || p->items[i - 1].line <= x->line);
        for (const char *c = x->text; *c; c++)
            must((unsigned char) *c >= ' ' && *c != 0x7f);
    }
}

static char *form(const struct spec *s)
{
    autojson json_t *j = spec_to_json(s);

    return json_text(j);
}

static void check_spec(const struct spec *s)
{
    autofree char *first = form(s), *second = NULL;
    autojson json_t *j = NULL;
    struct spec *back = NULL;

    must(json_read(first, strlen(first), SIZE_MAX, &j, NULL) == 0);
    must(spec_from_json(j, &back, NULL) == 0);
    second = form(back);
    must(strcmp(first, second) == 0);
    spec_free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct doc_param param = { "p", "a\n{{ p }}\"" };
    struct doc_problems problems = { .items = NULL };
    struct spec *s = NULL;
    /* With the parameter where the document seems to have one. */
    size_t nparams = memmem(data, size, "{p: ", 4) != NULL;

    if (doc_read((const char *) data, size, &param, nparams, 1000, &s,
                 &problems) == 0) {
        must(s && problems.count == 0);
        check_spec(s);
    } else {
        must(!s);
        check_problems(&problems);
    }
    spec_free(s);
    doc_problems_free(&problems);
    return 0;
}

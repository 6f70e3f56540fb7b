#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "plan/policy.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes are a policy or have problems, never both; what is a policy has a
 * JSON form that reads back to the same form.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void check_policy(const struct policy *p)
{
    autojson json_t *first = policy_to_json(p), *second = NULL;
    struct policy back;

    must(policy_from_json(first, &back, NULL) == 0);
    second = policy_to_json(&back);
    must(json_equal(first, second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct doc_problems problems = { .items = NULL };
    struct policy p;

    if (policy_doc_read((const char *) data, size, &p, &problems) == 0) {
        must(problems.count == 0);
        check_policy(&p);
    } else {
        must(problems.count > 0);
    }
    for (size_t i = 0; i < problems.count; i++) {
        const struct doc_problem *x = &problems.items[i];

        must(x->text[0] && utf8_valid(x->text, strlen(x->text)));
        must(utf8_valid(x->field, strlen(x->field)));
    }
    doc_problems_free(&problems);
    return 0;
}

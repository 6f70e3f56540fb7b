#pragma once

#include <jansson.h>
#include <stddef.h>

struct doc_problems;
struct node;
struct policy;
struct reader;

/* policy_doc - the document of `weir policy set`, YAML or JSON.
 *
 * What may stand in it is plan/policy.h's business; here each fault gets the
 * line and column of what it is about.
 */
enum { POLICY_DOC_MAX = 1024 * 1024 };

/* 0 and *ret, or -EINVAL with `problems` filled (empty before; caller frees),
 * or -E2BIG (also named in problems).
 */
int policy_doc_read(const char *text, size_t len, struct policy *ret,
                    struct doc_problems *problems);

/* Some of its fields, where another document has them: 'weir' and 'kind' need
 * not be said.  An object that the caller frees, each value of which a policy
 * may have; or NULL after problems were noted below the reader's path.
 */
json_t *policy_doc_fields(struct reader *r, const struct node *n);

/* Its JSON Schema (draft 2020-12), as text; static. */
const char *policy_doc_schema(void);

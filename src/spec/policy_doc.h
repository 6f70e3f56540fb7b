#pragma once

#include <stddef.h>

struct doc_problems;
struct policy;

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

/* Its JSON Schema (draft 2020-12), as text; static. */
const char *policy_doc_schema(void);

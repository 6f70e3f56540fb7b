#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* fit - may this pod go to that node, amounts aside?
 *
 * As Kubernetes' scheduler reads spec.nodeName's rivals: nodeSelector, what
 * node affinity requires, and taints that nothing tolerates.  What other pods
 * there are, volumes, ports and topology have no say here.
 */
struct fit_node {
    char *name;
    char *labels;                      /* "KEY\0VALUE\0" each, in `llen` bytes */
    char *taints;                      /* "KEY\0VALUE\0EFFECT\0", those that
                                        * keep pods away */
    size_t llen, tlen;
};

void fit_node_read(const json_t *object, struct fit_node *ret);
bool fit_node_same(const struct fit_node *a, const struct fit_node *b);
void fit_node_clear(struct fit_node *n);           /* zeroed is fine */

/* The part of a pod that counts, so that equal ones are equal; caller owns.
 * One of more than FIT_WORDS words fits nowhere: each node would be compared
 * with all of what a stranger wrote.
 */
enum { FIT_WORDS = 2000 };
json_t *fit_read(const json_t *pod);
bool fit_may(const json_t *fit, const struct fit_node *n);

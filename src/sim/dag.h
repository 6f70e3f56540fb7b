#pragma once

#include "sim/flow.h"

/* dag - one workflow of WfCommons' instances, as text:
 *
 *     # comments
 *     INDEX RUNTIME_S PROGRAM NPARENTS PARENT...
 *
 * Indexes count from 0.  A program is a word, or goes on over several lines:
 * the last of these ends with the number of parents and the parents.  Parents
 * may stand behind their kids; nobody waits for itself.
 *
 * Every task needs one slot: a thousand thousandths of a CPU.  It is known
 * again, from fine to coarse, by its index and program, by its program, by the
 * program without its digits, and by the program's first word.
 */
/* The text is cut up; text[len] is writable.  On failure *ret is as before. */
int dag_read(const char *name, char *text, size_t len, struct flow *ret,
             struct err *err);

#pragma once

#include "cli/cli.h"

/* help - what --help prints; all of it comes from the rows of the verbs. */
void help_all(struct buf *out);
void help_verb(const struct verb *v, struct buf *out);
/* The verbs of a noun ("pool"); false when there are none. */
bool help_noun(const char *noun, struct buf *out);

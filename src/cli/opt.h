#pragma once

struct cli;
struct verb;

/* opt - reads the options of a verb into its struct, by getopt_long(3).
 *
 * Fills c->args, c->command, c->where and c->out as well.  0; or an exit
 * status after saying what is wrong; or OPT_HELP when --help was asked for.
 * Lists in the struct are freed by opt_free.
 */
enum { OPT_HELP = -1 };

/* What -o takes: of most verbs, and of those that can give a report. */
#define OPT_FORMATS "table, wide or json"
#define OPT_REPORTS "table, wide, json, csv or html"

int opt_parse(struct cli *c, const struct verb *v, int argc, char **argv,
              void *opts);
void opt_free(const struct verb *v, void *opts);

#pragma once

#include "cli/paint.h"
#include "cli/where.h"

#include <stdbool.h>
#include <stddef.h>

struct client;
struct err;
struct loop;

/* cli - what every verb has: its options, the way to the server, and how to
 * say that something went wrong.
 *
 * Exit statuses are part of the interface (weir.1 lists them) and never change
 * their meaning.
 */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,                    /* the workload failed */
    CLI_USAGE = 2,
    CLI_DOCUMENT = 3,                  /* the document was refused */
    CLI_MISSING = 4,                   /* no such thing */
    CLI_DENIED = 5,
    CLI_UNREACHABLE = 6,
    CLI_REFUSED = 7,                   /* not now: conflict, limit, disk full */
    CLI_BROKEN = 8,                    /* an error there, or of this machine */
    CLI_INTERRUPTED = 130,
};

/* One option of a verb.  `offset` is the place in the verb's own struct:
 *     FLAG: bool; TEXT: const char *; LIST: struct opt_list; else uint64_t.
 */
enum opt_kind {
    OPT_FLAG, OPT_TEXT, OPT_LIST,
    /* More than 0, which reads as not given; and those that may be 0. */
    OPT_COUNT, OPT_MILLI, OPT_BYTES, OPT_DURATION,
    OPT_COUNT_0, OPT_MILLI_0, OPT_DURATION_0,
    OPT_END
};
struct opt {
    const char *name;
    char letter;                       /* 0: none */
    const char *arg;                   /* what --help calls its value */
    const char *help;
    enum opt_kind kind;
    size_t offset;
};
struct opt_list {
    const char **items;
    size_t count;
};

/* What an argument names, for completion. */
enum verb_arg {
    ARG_NONE, ARG_FILE, ARG_WORKLOAD, ARG_POOL, ARG_TENANT, ARG_NODE,
    ARG_TOKEN, ARG_SHELL
};

struct cli;

/* One row per verb.  Help, completion and the list of verbs in weir.1 are
 * made from these rows.
 */
struct verb {
    const char *name;                  /* "run", or noun and verb: "pool ls" */
    const char *summary;               /* one line, no full stop */
    const char *usage;                 /* after the name, one line each */
    const char *about;                 /* paragraphs; may be "" */
    const char *examples;              /* one a line, "COMMAND  # what" */
    const struct opt *opts;            /* ends with OPT_END */
    size_t size;                       /* of the struct the options fill */
    unsigned min_args, max_args;
    enum verb_arg arg;
    bool command;                      /* takes "-- COMMAND ARGS..." */
    bool reports;                      /* -o csv and -o html as well */
    int (*run)(struct cli *c, const void *opts);
};

enum cli_out { OUT_TABLE, OUT_WIDE, OUT_JSON, OUT_CSV, OUT_HTML };

struct cli {
    const struct verb *verb;
    struct where where;
    enum cli_out out;
    bool no_header;
    bool muted;                        /* cli_fail says nothing */
    char **args;                       /* what is no option */
    unsigned nargs;
    char **command;                    /* after "--", then NULL; or NULL */
    struct term term;                  /* of standard output */
    struct loop *loop;                 /* both made by cli_connect */
    struct client *client;
};

extern const struct verb *const cli_verbs[];       /* NULL at the end */
extern const struct opt cli_common[];              /* options of every verb */

/* One line on standard error, "weir VERB: TEXT"; returns `code`. */
int cli_fail(const struct cli *c, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* A remark: the same line, for what is no failure. */
void cli_note(const struct cli *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Make a text from elsewhere one line that does not steer the terminal. */
void cli_tame(char *s);

/* All of standard input; of more than `max` bytes *ret_len is max + 1.  0, or
 * an exit status after saying why not.
 */
int cli_stdin(const struct cli *c, size_t max, char **ret, size_t *ret_len);
/* The file that an argument names, "-" for standard input; likewise, and more
 * than `max` bytes are refused.
 */
int cli_read(const struct cli *c, const char *path, size_t max, char **ret,
             size_t *ret_len);

/* Make loop and client; 0, or an exit status after saying why. */
int cli_connect(struct cli *c);
/* One turn of that loop; the same. */
int cli_turn(struct cli *c);
void cli_close(struct cli *c);

/* "w12" or "w12/train": *ret_id (and *ret_task, "" when there is none) are
 * copies that the caller frees.  0, or an exit status after saying why.
 */
int cli_target(const struct cli *c, const char *s, char **ret_id,
               char **ret_task);
/* The same, where no task may be named. */
int cli_workload(const struct cli *c, const char *s, char **ret_id);

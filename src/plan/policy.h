#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* policy - the numbers an operator may set; everything else is learned.
 *
 * A small document: {"weir": 1, "kind": "policy", ...}.  A field left out has
 * its default.  Each default is argued where it stands in policy.c, and none
 * is fitted to a trace.  The plan reads this struct and never changes it.
 */
enum policy_turns {
    TURNS_OFF,                         /* nobody gives way for a turn */
    TURNS_SUSPEND,                     /* who can be suspended does */
    TURNS_CHECKPOINT,                  /* ... and who has a checkpoint */
};

/* Whose task uses a device otherwise than its lease says: see control/stray.c. */
enum policy_stray {
    STRAY_NOTE,                        /* an event says so */
    STRAY_STOP,                        /* ... and the task is ended */
};

/* Which device nodes a task can open, where its node has a way to close them. */
enum policy_nodes {
    NODES_OPEN,                        /* all */
    NODES_LEASED,                      /* those of its lease */
    NODES_ACTIVE,                      /* ... while that is active */
};

enum { POLICY_MODELS = 64 };

struct policy_model {                  /* one model of device */
    char model[32];
    double rating;                     /* speed; 1: as the slowest known */
    double price;                      /* money for a device-hour */
};

struct policy {
    uint64_t half_life_ms;             /* of the usage that fair share counts */
    bool fair;                         /* share even where no tenant has a
                                          weight or a quota */
    uint64_t patience_ms;              /* overtaken no longer than this */
    double quantile;                   /* of predicted ends: 0.5 to 0.99 */
    double tolerance;                  /* a reservation may slip by this share */
    uint32_t reservations;             /* at most so many at once */
    enum policy_turns turns;
    uint64_t min_run_ms;               /* before the first preemption */
    uint64_t slice_ms;                 /* equals take turns after it; 0: not */
    double suspend_cost_s;             /* suspend and resume once */
    bool reclaim;                      /* guaranteed quota is taken back */
    bool kill;                         /* even from who loses work by it */
    bool move;                         /* suspend one to make whole places */
    uint64_t lookahead_ms;             /* stage for devices free within it */
    uint64_t idle_grace_ms;            /* devices not used for so long are
                                          released; 0: they are not */
    enum policy_stray stray;
    uint32_t context_mib;              /* a process may have on a device beyond
                                          its limit: its context */
    enum policy_nodes nodes;
    double burst_margin;               /* a slower device must win by this share */
    double price_hour;                 /* of a device without a row below */
    uint32_t nmodels;
    struct policy_model models[POLICY_MODELS];
};

void policy_init(struct policy *p);                /* the defaults */

/* One thing that is wrong: what, what is expected and the nearest valid word,
 * at a member of the document, or of a row of "models".
 */
struct policy_fault {
    const char *key;                   /* NULL: the whole document */
    int row;                           /* of the list `key`; -1: none */
    const char *member;                /* of that row; NULL: the row */
    bool unknown;                      /* it is the name that is wrong */
    const char *text;
};
typedef void (*policy_fault_f)(const struct policy_fault *f, void *arg);
/* All faults at once, and *ret untouched when there is one.  Returns how
 * many there were.
 */
unsigned policy_read(const json_t *j, struct policy *ret, policy_fault_f cb,
                     void *arg);
/* The same, for those who want 0 or -EINVAL: err holds them, a line each,
 * "models[1].rating: expected ...".
 */
int policy_from_json(const json_t *j, struct policy *ret, struct err *err);
/* Whole, defaults too; policy_read gives the same policy back. */
json_t *policy_to_json(const struct policy *p);
double policy_rating(const struct policy *p, const char *model);
double policy_price(const struct policy *p, const char *model);

/* The rows that reading, writing and the JSON Schema are made from. */
enum policy_kind {
    POLICY_TIME,                       /* "7d", or a number of seconds */
    POLICY_NUMBER, POLICY_COUNT, POLICY_FLAG, POLICY_WORD, POLICY_NAME,
};

struct policy_field {
    const char *name;
    enum policy_kind kind;
    size_t at;                         /* in struct policy or policy_model */
    double min, max;                   /* TIME: in seconds */
    const char *const *words;          /* of WORD, ended by NULL */
    const char *help;
};

struct policy_table {
    const struct policy_field *fields;
    size_t count;
};
extern const struct policy_table policy_table;           /* struct policy */
extern const struct policy_table policy_model_table;     /* one of "models" */

#pragma once

#include "core/world_int.h"

#include "base/err.h"
#include "base/tap.h"

#include <stdbool.h>
#include <string.h>

/* testing - a world with its journal and tables around it, as the control
 * plane keeps them, on a clock of its own.
 *
 * Every event goes through its JSON form, every event is followed by
 * world_verify, and with a twin (sim_twin) a second world, loaded from the
 * tables, has to give the same answers from then on.
 */
struct sim {
    struct world *w, *twin;
    uint64_t now, seq;
    json_t *journal;                   /* every event that was applied */
    json_t *rows;                      /* "table key" -> {body, live, spec} */
    struct err err;                    /* of the last refusal */
    unsigned faults;                   /* what should never be; printed */
    bool stages;                       /* blocks that come up can stage */
    bool suspends;                     /* ... and suspend */
    bool images, whole;                /* ... and have images, give no parts */
    const char *pool;                  /* ... and are in; NULL: local */
};

void sim_open(struct sim *s);          /* with a tenant "t" */
void sim_close(struct sim *s);
void fault(struct sim *s, const char *what, const char *why);

/* Stamp, check, journal and apply; takes what the event owns.  0 or -errno. */
int sim_do(struct sim *s, struct event *e);
/* So many steps at most, then the tables; true: it may want more. */
bool sim_some(struct sim *s, unsigned steps);
/* Steps until the world wants nothing more, then the tables. */
void sim_round(struct sim *s);
void sim_wait(struct sim *s, uint64_t ms);         /* then a round */

/* A spec of n tasks "a", "b", ...: one CPU each. */
struct spec *sim_spec(uint32_t n);
void sim_needs(struct spec *s, uint32_t task, uint32_t need);
void sim_model(struct spec *s, uint32_t task, const char *model);

/* Each is followed by a round. */
uint64_t sim_submit(struct sim *s, struct spec *spec);   /* id, or 0 */
int sim_block(struct sim *s, const char *id, uint32_t ndevices,
              const char *model, uint32_t cpus);
int sim_on_block(struct sim *s, enum event_type t, const char *id);
/* About a pool; `more` (may be NULL) is taken, its name is put beside it. */
int sim_on_pool(struct sim *s, enum event_type t, const char *pool,
                json_t *more);
int sim_on_node(struct sim *s, enum event_type t, const char *node);
/* Of the first task of a workload, and its first rank; takes data. */
int sim_on_task(struct sim *s, enum event_type t, uint64_t id, json_t *data);
int sim_on_workload(struct sim *s, enum event_type t, uint64_t id, bool force);
int sim_abort_task(struct sim *s, uint64_t id, uint32_t task, bool force);
int sim_claim(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
              uint32_t gen);
int sim_end(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
            int status);                           /* of the living attempt */
int sim_end_as(struct sim *s, uint64_t id, uint32_t task, uint32_t rank,
               enum spec_cause cause);
int sim_quota(struct sim *s, uint32_t milli);
/* Of any type; what it owns is taken. */
int sim_event(struct sim *s, struct event *e);
int sim_tenant(struct sim *s, const char *name, json_t *data);
int sim_policy(struct sim *s, uint64_t version, json_t *policy);
uint64_t sim_submit_as(struct sim *s, const char *tenant, struct spec *spec);
/* Claim and end every rank with 0. */
void sim_run(struct sim *s, uint64_t id, uint32_t task);

struct task *sim_task(const struct sim *s, uint64_t id, uint32_t task);
enum task_state sim_state(const struct sim *s, uint64_t id, uint32_t task);
/* From the tables, also after the end; NULL: no such row or field. */
const char *sim_row(const struct sim *s, const char *row, const char *field);
uint32_t sim_count(const struct sim *s, enum event_type t); /* journalled */
const json_t *sim_last(const struct sim *s, enum event_type t);

/* The whole state as text, by the views; caller frees. */
char *sim_dump(struct world *w);
struct world *sim_load(struct sim *s);             /* from the tables */
bool sim_twin(struct sim *s);                      /* equal, now and on */
bool sim_replays(struct sim *s);                   /* journal gives the same */

/* The end of a test, with what must hold at every end. */
static inline void close_checked(struct sim *s, const char *what)
{
    ok(sim_replays(s), "%s: the journal replays to the same tables", what);
    ok(sim_twin(s), "%s: the tables load to the same world", what);
    ok(s->faults == 0, "%s: nothing is wrong inside", what);
    sim_close(s);
}

static inline bool is(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

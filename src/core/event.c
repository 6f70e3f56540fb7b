#include "core/event.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/quantity.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define X(name, text) [EVENT_##name] = text,
static const char *const type_names[] = { EVENT_TYPES(X) };
#undef X
#define X(name, text) [OUTCOME_##name] = text,
static const char *const outcome_names[] = { OUTCOMES(X) };
#undef X

const char *event_type_name(enum event_type t)
{
    assert(t < EVENT_TYPE_COUNT);
    return type_names[t];
}

const char *outcome_name(enum outcome o)
{
    assert(o < OUTCOME_COUNT);
    return outcome_names[o];
}

bool event_of_some(enum event_type t)
{
    return t == EVENT_PAUSED || t == EVENT_UNPAUSED ||
           t == EVENT_PRIORITISED || t == EVENT_ABORTING;
}

void event_init(struct event *e, enum event_type t)
{
    assert(t < EVENT_TYPE_COUNT);
    memset(e, 0, sizeof(*e));
    e->type = t;
    if (event_of_some(t))
        e->task = EVENT_ALL;
}

void event_clear(struct event *e)
{
    spec_free(e->spec);
    free(e->done);
    free(e->grants);
    json_decref(e->data);
    event_init(e, e->type);
}

void workload_id_print(uint64_t id, char *buf, unsigned size)
{
    int n = snprintf(buf, size, "w%" PRIu64, id);

    assert(n > 0 && (unsigned) n < size);
    (void) n;
}

int workload_id_parse(const char *s, uint64_t *ret, struct err *err)
{
    uint64_t id;

    if (s[0] != 'w' || s[1] < '1' || s[1] > '9' ||
        quantity_count(s + 1, &id, NULL) < 0 || id > INT64_MAX)
        return err_set(err, EINVAL, "'%.40s' is not the id of a workload "
                       "(such as w12)", s);
    *ret = id;
    return 0;
}

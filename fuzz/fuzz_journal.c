#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "core/why.h"
#include "core/world.h"
#include "plan/plan.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A journal, one event a line; with a '#' in front the world adds nothing of
 * its own in between, as in a replay.  Whatever it says: a line is read or refused
 * with a text, an event is applied or refused with a text, the invariants hold
 * after every one, what the world itself wants next is accepted, and the rows
 * can be made and the reasons told.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

enum { LINE_MAX_BYTES = 65536, STEPS_MAX = 200 };

static int look_at_row(const struct world_row *row, void *arg)
{
    (void) arg;
    must(row->key[0]);
    must(row->body ? row->body[0] == '{' : row->table == TABLE_META ||
                                           row->table == TABLE_BLOCK);
    return 0;
}

static void steps(struct world *w)
{
    struct event e;

    for (int i = 0; i < STEPS_MAX && world_step(w, world_time_ms(w), &e);
         i++) {
        struct err err = { 0 };

        must(world_apply(w, &e, &err) == 0);
        must(world_verify(w, &err) == 0);
        event_clear(&e);
    }
}

static void reasons(const struct world *w)
{
    const struct workload *wl;
    size_t pos = 0;

    while ((wl = world_next(w, &pos))) {
        for (uint32_t i = 0; i < wl->spec->ntasks && i < 4; i++) {
            struct why y;

            why_task(w, &wl->tasks[i], world_time_ms(w), &y);
            must(y.text[0]);
        }
    }
}

/* What was read prints and reads back as the same. */
static void same_again(const struct event *e)
{
    autojson json_t *one = event_to_json(e, false), *two = NULL;
    struct event back;

    must(event_from_json(one, &back, NULL) == 0);
    two = event_to_json(&back, false);
    must(json_equal(one, two));
    event_clear(&back);
}

static void one_line(struct world *w, const char *line, size_t len, bool replay)
{
    autojson json_t *j = NULL;
    struct err err = { 0 };
    struct event e;
    int rc;

    if (json_read(line, len, LINE_MAX_BYTES, &j, NULL) < 0)
        return;
    rc = event_from_json(j, &e, &err);
    if (rc < 0) {
        must(err.code == -rc && err.text[0]);
        return;
    }
    same_again(&e);
    if (e.time_ms < world_time_ms(w))
        e.time_ms = world_time_ms(w);
    e.seq = 0;
    rc = world_apply(w, &e, &err);
    must(rc == 0 || (rc < 0 && err.code == -rc && err.text[0]));
    event_clear(&e);
    must(world_verify(w, &err) == 0);
    if (rc == 0 && !replay)
        steps(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct world *w = world_new();
    const char *text = (const char *) data;
    struct plan_meter m, later;

    for (size_t at = 0; at < size;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t len = end ? (size_t) (end - text) - at : size - at;

        one_line(w, text + at, len, text[0] == '#');
        at += len + 1;
    }
    steps(w);
    reasons(w);
    world_meter(w, world_time_ms(w), &m);
    world_meter(w, world_time_ms(w) + 1000, &later);
    must(later.devices.used >= m.devices.used &&
         plan_shares_total(&later.devices) >= plan_shares_total(&m.devices));
    must(world_rows(w, look_at_row, NULL) == 0);
    world_free(w);
    return 0;
}

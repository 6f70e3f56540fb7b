#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "kube/ledger.h"
#include "kube/split.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any stream of events, some seconds apart, makes rows that follow each other
 * within the edges of the clock; when all is gone, nothing is in use or idle.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

enum { STEP_MS = 7300, LATER_MS = 4000000 };

struct reader {
    struct ledger *ledger;
    uint64_t now_ms, end_ms;           /* end_ms: of the last row */
};

static uint64_t time_at(const json_t *row, const char *key)
{
    uint64_t ms = 0;

    must(clock_parse(json_get_str(row, key, ""), &ms, NULL) == 0);
    return ms;
}

static size_t lines(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void check(struct reader *r, json_t *rows)
{
    const json_t *row;
    size_t i;

    json_array_foreach(rows, i, row) {
        uint64_t from = time_at(row, "from"), to = time_at(row, "to");

        must(from >= r->end_ms && from < to && to <= r->now_ms &&
             (to - 1) / 1000 / LEDGER_ROW_S == from / 1000 / LEDGER_ROW_S);
        must(json_array_size(json_object_get(row, "waits")) <= LEDGER_WAITS);
        must(lines(json_get_str(row, "jobs", "")) <= LEDGER_JOBS);
        r->end_ms = to;
    }
    json_decref(rows);
}

static int each(enum split_kind kind, const json_t *object, void *arg,
                struct err *err)
{
    struct reader *r = arg;
    const char *name = json_get_str(object, "kind", "");
    enum inventory_kind what = strcmp(name, "Pod") == 0 ? INVENTORY_POD
                                                        : INVENTORY_NODE;

    (void) err;
    r->now_ms += STEP_MS;
    if (kind == SPLIT_PUT)
        (void) ledger_put(r->ledger, what, object, r->now_ms, NULL);
    else if (kind == SPLIT_GONE)
        ledger_drop(r->ledger, what, object, r->now_ms);
    else
        ledger_seen(r->ledger, kind == SPLIT_MARK, r->now_ms);
    check(r, ledger_take(r->ledger, false, r->now_ms));
    json_decref(ledger_row(r->ledger, true, r->now_ms));
    return 0;
}

static void all_gone(struct reader *r)
{
    json_t *row;

    for (int kind = 0; kind < 2; kind++) {
        ledger_list(r->ledger, (enum inventory_kind) kind, r->now_ms);
        ledger_listed(r->ledger, (enum inventory_kind) kind, r->now_ms);
    }
    check(r, ledger_take(r->ledger, true, r->now_ms));
    ledger_seen(r->ledger, true, r->now_ms);
    r->now_ms += LATER_MS;
    row = ledger_row(r->ledger, true, r->now_ms);
    must(row && json_array_size(json_object_get(row, "devices")) == 0 &&
         json_array_size(json_object_get(row, "namespaces")) == 0 &&
         lines(json_get_str(row, "jobs", "?\n")) == 0 &&
         json_array_size(json_object_get(row, "waits")) == 0);
    json_decref(row);
    check(r, ledger_take(r->ledger, true, r->now_ms));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader r = { .ledger = ledger_new(),
                        .now_ms = UINT64_C(1800000000000) };
    struct split s = SPLIT_INIT;

    ledger_seen(r.ledger, true, r.now_ms);
    (void) split_feed(&s, (const char *) data, size, each, &r, NULL);
    split_clear(&s);
    all_gone(&r);
    ledger_free(r.ledger);
    return 0;
}

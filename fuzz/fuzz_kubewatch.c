#include "base/err.h"
#include "kube/inventory.h"
#include "kube/node.h"
#include "kube/split.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes are a stream of events or end with one line that says why not, the
 * same whether they come at once or one by one.  What the events say adds up:
 * when all is gone again, nothing is taken.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

struct reader {
    struct inventory *inventory;
    size_t events;
};

static int each(enum split_kind kind, const json_t *object, void *arg,
                struct err *err)
{
    struct reader *r = arg;
    bool pod = strcmp(json_string_value(json_object_get(object, "kind"))
                      ? json_string_value(json_object_get(object, "kind"))
                      : "", "Pod") == 0;
    enum inventory_kind what = pod ? INVENTORY_POD : INVENTORY_NODE;

    (void) err;
    r->events++;
    if (kind == SPLIT_PUT)
        (void) inventory_put(r->inventory, what, object, NULL);
    else if (kind == SPLIT_GONE)
        (void) inventory_drop(r->inventory, what, object, NULL);
    return 0;
}

static void check(const struct inventory *v)
{
    const struct resources *taken;
    const struct kube_node *n;
    struct inventory_sum s;
    size_t pos = 0, pods, nodes = 0;

    while ((n = inventory_next(v, &pos, &taken, &pods))) {
        must(n->name[0] && n->has.n <= RESOURCES_KINDS);
        must(pods || (!taken->n && !taken->cpu_milli && !taken->memory));
        nodes++;
    }
    inventory_total(v, &s);
    must(s.nodes == nodes && s.waiting <= s.pods && s.closed <= nodes);
    resources_clear(&s.has);
    resources_clear(&s.taken);
}

static int feed(const char *p, size_t size, size_t piece, struct reader *r,
                struct err *err)
{
    struct split s = SPLIT_INIT;
    int rc = 0;

    for (size_t at = 0; at < size && rc == 0; at += piece)
        rc = split_feed(&s, p + at, piece < size - at ? piece : size - at, each,
                        r, err);
    split_clear(&s);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reader whole = { .inventory = inventory_new() };
    struct reader pieces = { .inventory = inventory_new() };
    struct inventory_sum s;
    struct err err = { 0 };
    int rc = feed((const char *) data, size, size ? size : 1, &whole, &err);

    must(rc == feed((const char *) data, size, 1, &pieces, NULL));
    must(whole.events == pieces.events);
    must(rc == 0 || (err.text[0] && !strchr(err.text, '\n')));
    check(whole.inventory);
    inventory_list(whole.inventory, INVENTORY_POD);
    inventory_listed(whole.inventory, INVENTORY_POD);
    inventory_total(whole.inventory, &s);
    must(s.pods == 0 && !s.taken.cpu_milli && !s.taken.memory && !s.taken.n);
    resources_clear(&s.has);
    resources_clear(&s.taken);
    inventory_free(whole.inventory);
    inventory_free(pieces.inventory);
    return 0;
}

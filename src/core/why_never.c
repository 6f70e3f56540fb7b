#include "core/why_int.h"

#include <inttypes.h>

/* Why a task can never start on what there is, and what there is for it. */

/* Can it do what the task asks of a node? */
static bool block_does(const struct block *b, const struct spec_task *s)
{
    return (b->images || !s->image) && !(b->whole && spec_task_shares(s));
}

static void supply_block(const struct block *b, const struct spec_task *s,
                         bool open_only, struct supply *ret)
{
    struct spec_task model = *s;

    if ((open_only && !block_open(b)) || !block_does(b, s))
        return;
    model.gpu_memory = 0;
    ret->all += b->ndevices;
    if (b->ndevices > ret->most)
        ret->most = b->ndevices;
    for (uint32_t i = 0; i < b->ndevices; i++) {
        ret->of_model += device_matches(&b->devices[i], &model);
        if (!device_matches(&b->devices[i], s))
            continue;
        if (open_only && !device_open(&b->devices[i])) {
            ret->closed++;
            continue;
        }
        ret->matching++;
        ret->free_milli += b->devices[i].free_milli;
    }
    if (b->cpu_milli > ret->cpus)
        ret->cpus = b->cpu_milli;
    if (b->cpu_free > ret->cpus_free)
        ret->cpus_free = b->cpu_free;
    if (b->memory > ret->memory)
        ret->memory = b->memory;
    if (b->memory_free > ret->memory_free)
        ret->memory_free = b->memory_free;
}

struct supply why_supply(const struct world *w, const struct spec_task *s,
                         bool open_only)
{
    struct supply all = { 0 };

    for (uint32_t i = 0; i < w->nblocks; i++)
        supply_block(w->blocks[i], s, open_only, &all);
    return all;
}

static const char FEWER[] = "Ask for fewer devices or another model, or add a "
                            "node that has them.";

static void never_devices(const struct spec_task *s, const struct supply *has,
                          struct why *y)
{
    autobuf struct buf what = wanted(s);

    if (s->gpu_milli > DEVICES_PER_RANK * 1000) {
        say(y, WHY_NEVER_DEVICES, "It can never start here: it asks for %s%s, "
            "and a rank has at most %d.", buf_text(&what), per_rank(s).text,
            DEVICES_PER_RANK);
        change(y, "Ask for more ranks with fewer devices each.");
        return;
    }
    say(y, WHY_NEVER_DEVICES, "It can never start here: it asks for %s%s on "
        "one node, and the largest of the nodes has %" PRIu64 " of %" PRIu64
        " in all.", buf_text(&what), per_rank(s).text, has->most, has->all);
    change(y, FEWER);
}

static void never_kind(const struct spec_task *s, const struct supply *has,
                       enum why_code code, struct why *y)
{
    autobuf struct buf what = wanted(s);

    if (code == WHY_NEVER_MODEL)
        say(y, code, "It can never start here: it asks for %s, and there are %"
            PRIu64 " devices of such a model.", buf_text(&what),
            has->of_model);
    else if (code == WHY_NEVER_GPU_MEMORY)
        say(y, code, "It can never start here: it asks for %s, and there are %"
            PRIu64 " devices with so much memory.", buf_text(&what),
            has->matching);
    else
        say(y, WHY_NEVER_GANG, "It can never start here: %s%s do not fit on "
            "the %" PRIu64 " devices there are.", buf_text(&what),
            per_rank(s).text, has->matching);
    change(y, FEWER);
}

/* Is there a node that can do what `s` asks, labels aside? */
static bool any_does(const struct world *w, const struct spec_task *s)
{
    uint32_t i = 0;

    while (i < w->nblocks && !block_does(w->blocks[i], s))
        i++;
    return i < w->nblocks;
}

static void never_image(const struct spec_task *s, struct why *y)
{
    say(y, WHY_NEVER_IMAGE, "It can never start here: it asks for the image "
        "'%.120s', and no node runs images.", s->image);
    change(y, "Leave the image out, or add a pool that runs images.");
}

static void never_shares(const struct spec_task *s, struct why *y)
{
    say(y, WHY_NEVER_SHARES, "It can never start here: it asks for %s of a "
        "device, and all nodes%s give whole devices only.",
        milli(s->gpu_milli).text, s->image ? " that run images" : "");
    change(y, "Ask for a whole device, or add a node that gives parts.");
}

static void never_label(const struct spec_task *s, struct why *y)
{
    autobuf struct buf names = BUF_INIT(200);

    for (uint32_t i = 0; i < s->nnodes; i++)
        buf_printf(&names, "%s%s=%s", i ? ", " : "", s->nodes[i].key,
                   s->nodes[i].value);
    say(y, WHY_NEVER_LABEL, "It can never start here: no node%s%s has the "
        "label%s %s.", s->image ? " that runs images" : "",
        spec_task_shares(s) ? " that gives parts of devices" : "",
        s->nnodes > 1 ? "s" : "", buf_text(&names));
    change(y, "Ask for other labels, or give them to a node.");
}

/* What a node can do is a label to the plan. */
static void never_node(const struct world *w, const struct spec_task *s,
                       struct why *y)
{
    struct spec_task image = *s;

    image.gpu_milli = 0;
    if (!any_does(w, &image))
        never_image(s, y);
    else if (!any_does(w, s))
        never_shares(s, y);
    else
        never_label(s, y);
}

static void never_host(const struct spec_task *s, const struct supply *has,
                       bool memory, struct why *y)
{
    if (memory) {
        say(y, WHY_NEVER_MEMORY, "It can never start here: it asks for %s of "
            "memory%s, and the largest node has %s.", bytes(s->memory).text,
            per_rank(s).text, bytes(has->memory).text);
        change(y, "Ask for less memory, or add a larger node.");
    } else {
        say(y, WHY_NEVER_CPUS, "It can never start here: it asks for %s%s, and "
            "the largest node has %s.", cpus(s->cpu_milli).text,
            per_rank(s).text, milli(has->cpus).text);
        change(y, "Ask for fewer CPUs, or add a larger node.");
    }
}

void why_never(const struct world *w, const struct task *t,
               enum plan_reason_code code, struct why *y)
{
    struct supply has = why_supply(w, t->spec, false);

    if (code == REASON_NEVER_GANG && !t->item) {
        say(y, WHY_NEVER_GANG, "It can never start here: with the tasks that "
            "start together with it, it asks for more than there is.");
        change(y, FEWER);
        return;
    }
    if (code == REASON_NEVER_MODEL)
        never_kind(t->spec, &has, WHY_NEVER_MODEL, y);
    else if (code == REASON_NEVER_GPU_MEMORY)
        never_kind(t->spec, &has, WHY_NEVER_GPU_MEMORY, y);
    else if (code == REASON_NEVER_GANG)
        never_kind(t->spec, &has, WHY_NEVER_GANG, y);
    else if (code == REASON_NEVER_LABEL)
        never_node(w, t->spec, y);
    else if (code == REASON_NEVER_CPUS || code == REASON_NEVER_MEMORY)
        never_host(t->spec, &has, code == REASON_NEVER_MEMORY, y);
    else
        never_devices(t->spec, &has, y);
}

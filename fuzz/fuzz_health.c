#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "gpu/health.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes are rules of health or have one line that says why not.  What is
 * read reads back as the same from its JSON form, and looks at reports made
 * from the same bytes without a change that its own kind does not allow.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void on_change(const struct health_change *c, void *arg)
{
    enum health_action *in_force = arg;
    bool up = c->kind == HEALTH_RAISED || c->kind == HEALTH_ESCALATED;
    autojson json_t *o = health_change_json(c);

    must(o && c->text[0]);
    must(!up || c->device >= c->rule->action);
    must(c->kind != HEALTH_PROBATION || c->rule->probation_ms > 0);
    *in_force = c->device;
}

/* What is saved and restored is in force, and saved as the same. */
static void keep(const struct health *h, const struct health_rules *rules)
{
    struct health *other = health_new(rules, 5000);
    autojson json_t *first = health_save(h), *second = NULL;

    health_restore(other, first);
    second = health_save(other);
    must(json_equal(first, second));
    must(health_action(other, "GPU-0") == health_action(h, "GPU-0"));
    health_free(other);
}

/* A device whose values are the input's bytes, one after the other. */
static void look(const struct health_rules *rules, const uint8_t *data,
                 size_t size)
{
    static struct node_report r;
    struct health *h = health_new(rules, 5000);
    enum health_action in_force = HEALTH_NONE;
    uint64_t now_ms = 1;

    memset(&r, 0, sizeof r);
    r.list.n = 1;
    memcpy(r.list.all[0].uuid, "GPU-0", 6);
    r.samples[0].has = ~UINT64_C(0);
    r.samples[0].has_processes = true;
    memcpy(r.xids[0].uuid, "GPU-0", 6);
    for (size_t i = 0; i < size && i < 512; i++) {
        r.list.all[0].state = data[i] % NVML_STATE_COUNT;
        r.list.state = data[i] / 16 == 15 ? NVML_NO_DRIVER : NVML_READY;
        r.sampled[0] = r.list.all[0].state == NVML_READY;
        for (unsigned f = 0; f < TELEMETRY_FIELD_COUNT; f++)
            r.samples[0].value[f] = data[i];
        r.nxids = data[i] & 1;
        r.xids[0].xid = data[i];
        now_ms += UINT64_C(100) << data[i] % 16;
        health_look(h, &r, now_ms, on_change, &in_force);
        must(health_action(h, "GPU-0") == in_force);
        must(health_penalty(h, "GPU-0") <= 1000);
    }
    json_decref(health_json(h, now_ms));
    keep(h, rules);
    health_free(h);
}

/* What was kept is any JSON: somebody may have written to the file. */
static void restore(const uint8_t *data, size_t size)
{
    static struct health_rules rules;
    autojson json_t *j = NULL;
    struct health *h;

    if (json_read((const char *) data, size, HEALTH_DOC_MAX, &j, NULL) < 0)
        return;
    health_rules_default(&rules);
    h = health_new(&rules, 5000);
    health_restore(h, j);
    keep(h, &rules);
    health_free(h);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct health_rules first, second;
    struct err err = { 0 };
    autojson json_t *o = NULL, *again = NULL;
    autofree char *text = NULL;

    restore(data, size);
    if (health_rules_read((const char *) data, size, &first, &err) < 0) {
        must(err.text[0] && !strchr(err.text, '\n'));
        must(utf8_valid(err.text, strlen(err.text)));
        return 0;
    }
    must(!err.text[0] && first.n <= HEALTH_RULES);
    o = health_rules_json(&first);
    text = json_text(o);
    must(health_rules_read(text, strlen(text), &second, &err) == 0);
    again = health_rules_json(&second);
    must(json_equal(o, again));
    look(&first, data, size);
    return 0;
}

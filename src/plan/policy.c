#include "plan/policy.h"

#include "base/mem.h"

#include <string.h>
#include <strings.h>

/* Why these numbers:
 *
 * half_life     a week: what one used last week counts half; the week is the
 *               rhythm of the people who share devices.
 * patience      ten minutes: long enough for what is short to pass, short
 *               enough that nobody calls the operator.
 * quantile      0.9: one reservation in ten may come out late; a higher one
 *               keeps devices idle for ends that rarely come so late.
 * min_run       five minutes: work that was just let in gets something done
 *               before it can be asked to leave.
 * suspend_cost  a minute: what a device full of memory takes to move out and
 *               in again; measured costs replace it.
 */
void policy_init(struct policy *p)
{
    memset(p, 0, sizeof(*p));
    p->half_life_ms = UINT64_C(7) * 24 * 60 * 60 * 1000;
    p->patience_ms = 10 * 60 * 1000;
    p->quantile = 0.9;
    p->tolerance = 0.1;
    p->reservations = 4;
    p->turns = TURNS_SUSPEND;
    p->min_run_ms = 5 * 60 * 1000;
    p->suspend_cost_s = 60;
    p->reclaim = true;
    p->kill = false;
    p->move = true;
    p->lookahead_ms = 60 * 1000;
    p->burst_margin = 0.1;
}

static const struct policy_model *find_model(const struct policy *p,
                                             const char *model)
{
    for (uint32_t i = 0; i < p->nmodels; i++)
        if (strcasecmp(p->models[i].model, model) == 0)
            return &p->models[i];
    return NULL;
}

double policy_rating(const struct policy *p, const char *model)
{
    const struct policy_model *m = find_model(p, model);

    return m ? m->rating : 1;
}

double policy_price(const struct policy *p, const char *model)
{
    const struct policy_model *m = find_model(p, model);

    return m ? m->price : p->price_hour;
}

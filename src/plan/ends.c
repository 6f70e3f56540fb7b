#include "plan/plan_int.h"

/* How long an item has run, and when it will end. */

double item_rating(const struct plan *p, const struct plan_item *i)
{
    const struct plan_place *at = i->places;

    if (i->nplaces == 0 || at->ndevices == 0)
        return 1;
    return score_rating(p, at->node->devices[at->device[0]].model);
}

/* Run time that counts, on a device of rating 1. */
static uint64_t item_age_ms(const struct plan *p, const struct plan_item *i,
                            uint64_t now_ms)
{
    if (!item_runs(i))
        return i->run_ms;
    return i->run_ms + (uint64_t) ((double) (now_ms - i->since_ms) *
                                   item_rating(p, i));
}

uint64_t plan_ran(const struct plan *p, const struct plan_item *i)
{
    return item_age_ms(p, i, p->now_ms);
}

static uint64_t end_ms(const struct plan *p, const struct plan_item *i,
                       uint64_t now_ms, uint64_t age, uint64_t all)
{
    if (all <= age)
        return now_ms;
    return now_ms + (uint64_t) ((double) (all - age) / item_rating(p, i));
}

uint64_t item_end_at_ms(const struct plan *p, const struct plan_item *i,
                        uint64_t now_ms, double quantile)
{
    uint64_t age = item_age_ms(p, i, now_ms);

    return end_ms(p, i, now_ms, age,
                  predict_quantile(p->predict, &i->sig, age,
                                   (double) i->progress, quantile));
}

uint64_t item_end_told_ms(const struct plan *p, const struct plan_item *i,
                          uint64_t now_ms, double quantile)
{
    uint64_t age = item_age_ms(p, i, now_ms);

    return end_ms(p, i, now_ms, age,
                  predict_cautious(p->predict, &i->sig, age,
                                   (double) i->progress, quantile));
}

uint64_t item_end_ms(const struct plan *p, const struct plan_item *i,
                     double quantile)
{
    return item_end_at_ms(p, i, p->now_ms, quantile);
}

bool item_seen(const struct plan *p, const struct plan_item *i)
{
    struct guess g;

    predict_guess(p->predict, &i->sig, i->run_ms, (double) i->progress, &g);
    return g.seen > 0;
}

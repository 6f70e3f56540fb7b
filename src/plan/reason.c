#include "plan/plan_int.h"

#include <string.h>

const char *plan_reason_name(enum plan_reason_code c)
{
    static const char *const names[] = {
#define X(name, text) [REASON_##name] = text,
        PLAN_REASONS(X)
#undef X
    };

    return names[c];
}

void plan_reason(struct plan *p, const struct plan_item *i,
                 struct plan_reason *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->position = line_position(p, i);
    if (i->state == ITEM_HELD)
        ret->code = REASON_HELD;
    else if (ret->position > 0)
        ret->code = REASON_DEVICES;
}

bool plan_can_end_by(struct plan *p, const struct plan_item *i,
                     uint64_t when_ms)
{
    struct guess g;

    predict_guess(p->predict, &i->sig, i->run_ms, (double) i->progress, &g);
    return p->now_ms + (g.low_ms > i->run_ms ? g.low_ms - i->run_ms : 0) <=
           when_ms;
}

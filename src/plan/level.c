#include "plan/predict_int.h"

/* Levels are cut at the median of the work of what ended, and at eight times
 * the cut before.
 */
enum { LEVELS = 8, FACTOR = 8 };

static const uint64_t UNKNOWN_CUT = 10 * 60 * 1000;

uint32_t predict_level(const struct predict *pr, const struct predict_sig *sig,
                       uint64_t work, uint64_t *ret_until)
{
    struct mix m = { 0 };
    uint64_t cut = UNKNOWN_CUT;
    uint32_t level = 0;

    (void) sig;
    if (pr->all.work.total > 0) {
        mix_add(&m, &pr->all.work, 1);
        cut = mix_quantile(&m, 0, 0.5);
    }
    while (level < LEVELS - 1 && work >= cut) {
        level++;
        cut *= FACTOR;
    }
    if (ret_until)
        *ret_until = level < LEVELS - 1 ? cut : UINT64_MAX;
    return level;
}

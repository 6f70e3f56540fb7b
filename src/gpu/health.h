#pragma once

#include "gpu/health_rules.h"
#include "gpu/node.h"

/* health - what is the matter with the devices of a node, by rules.
 *
 * Pure: the same reports at the same times give the same changes.  No clock is
 * read here; `now_ms` is a monotonic one, and one that stands still or goes
 * back is time that does not pass.
 *
 *   1. A rule that holds for its time, or has its count of events, is raised.
 *   2. When it holds no more its probation begins; a sign of it starts the
 *      probation anew, and for its time, or with its count, raises it again.
 *   3. When the probation has passed it is cleared, and not before.
 *   4. Time in which a device told nothing counts neither for a rule nor for
 *      its probation, and raises and clears nothing.
 *   5. The action in force on a device is the strongest of its rules; a rule on
 *      probation asks for no more than a cordon.
 */
#define HEALTH_CHANGES(X) \
    X(RAISED, "raised") \
    X(ESCALATED, "escalated")          /* raised, over weaker ones */ \
    X(PROBATION, "probation") \
    X(CLEARED, "cleared")
enum health_kind {
#define X(name, text) HEALTH_##name,
    HEALTH_CHANGES(X)
#undef X
    HEALTH_KIND_COUNT
};
const char *health_kind_name(enum health_kind k);

enum { HEALTH_SHOWN_XIDS = 8, HEALTH_TEXT = 384 };

struct health_evidence {
    bool has_value;                    /* told by the device, or counted */
    uint64_t value, limit;
    uint64_t held_ms;                  /* it holds, or does not, for so long */
    uint64_t events;                   /* since it was well */
    unsigned relapses;                 /* signs of it while on probation */
    unsigned nxids;                    /* different ones, the newest first */
    uint16_t xids[HEALTH_SHOWN_XIDS];
};

struct health_change {
    enum health_kind kind;
    uint64_t at_ms;                    /* wall clock; of who tells it */
    char uuid[NVML_TEXT];
    const struct health_rule *rule;    /* lives as long as the health does */
    enum health_action device;         /* in force there now */
    struct health_evidence evidence;
    char text[HEALTH_TEXT];            /* a sentence */
};
typedef void (*health_change_f)(const struct health_change *c, void *arg);

struct health;
/* The rules are copied.  Looks that are further apart than gap_ms have time
 * between them of which nothing is known.
 */
struct health *health_new(const struct health_rules *rules, uint64_t gap_ms);
void health_free(struct health *h);                /* NULL is fine */

void health_look(struct health *h, const struct node_report *r,
                 uint64_t now_ms, health_change_f on_change, void *arg);

/* An operator's word that the device was reset: rules that last until then are
 * over with the next look, and on probation.  Returns how many.
 */
unsigned health_was_reset(struct health *h, const char *uuid);

/* What a later start would otherwise not know, and back into a health that has
 * seen nothing yet; of the same boot, whose clock it is.  Rules that are no
 * more are left out, probations begin anew.  Caller owns what is saved.
 */
json_t *health_save(const struct health *h);
void health_restore(struct health *h, const json_t *j);

/* In force on the device; NONE of one that was never seen. */
enum health_action health_action(const struct health *h, const char *uuid);

/* How much to rather place elsewhere, 0 to 1000: 1000 from a cordon on, 500
 * under an alert, 700 while clocks are held down for heat or by the power
 * brake.  Else what is larger of heat, which grows from 0 at 30 degrees below
 * the lowest limit that a rule has to 600 there, and power, from 0 at 9/10 of
 * the limit to 200 at the limit: a device that cannot be cooled or fed gives
 * less.
 */
unsigned health_penalty(const struct health *h, const char *uuid);

/* Caller owns.  {devices: [{uuid, action, penalty, rules: [...]}]}. */
json_t *health_json(const struct health *h, uint64_t now_ms);
json_t *health_change_json(const struct health_change *c);

#include "gpu/health_rules.h"

#include "base/mem.h"

#define S(n) ((n) * UINT64_C(1000))
#define M(n) (S(n) * 60)
#define H(n) (M(n) * 60)
#define D(n) (H(n) * 24)

#define LIST(...) \
    .xids = { __VA_ARGS__ }, \
    .nxids = sizeof((uint16_t[]) { __VA_ARGS__ }) / sizeof(uint16_t)

/* docs/health.md argues each row, and says where the XIDs are from. */
static const struct health_rule rules[] = {
    { "hot", HEALTH_WHEN_TEMPERATURE, HEALTH_ALERT, .limit = 85, .clear = 80,
      .for_ms = M(1), .probation_ms = M(5) },
    { "too-hot", HEALTH_WHEN_TEMPERATURE, HEALTH_MOVE, .limit = 90,
      .clear = 80, .for_ms = S(30), .probation_ms = M(15) },
    { "memory-hot", HEALTH_WHEN_MEMORY_TEMPERATURE, HEALTH_ALERT, .limit = 95,
      .clear = 90, .for_ms = M(1), .probation_ms = M(5) },
    { "memory-too-hot", HEALTH_WHEN_MEMORY_TEMPERATURE, HEALTH_MOVE,
      .limit = 100, .clear = 90, .for_ms = S(30), .probation_ms = M(15) },
    { "slow-for-heat", HEALTH_WHEN_SOFTWARE_THERMAL, HEALTH_ALERT,
      .for_ms = M(5), .probation_ms = M(5) },
    { "braked-for-heat", HEALTH_WHEN_HARDWARE_THERMAL, HEALTH_CORDON,
      .for_ms = S(30), .probation_ms = M(15) },
    { "power-brake", HEALTH_WHEN_POWER_BRAKE, HEALTH_CORDON, .for_ms = M(1),
      .probation_ms = M(10) },

    { "program-fault", HEALTH_WHEN_XID, HEALTH_NOTE,
      LIST(11, 13, 25, 31, 43, 45, 69, 80, 137),
      .count = 1, .within_ms = M(1), .probation_ms = 0 },
    { "program-faults", HEALTH_WHEN_XID, HEALTH_ALERT,
      LIST(11, 13, 25, 31, 69, 80, 137),
      .count = 10, .within_ms = H(1), .probation_ms = H(1) },
    { "engine-fault", HEALTH_WHEN_XID, HEALTH_ALERT,
      LIST(8, 32, 39, 40, 41, 60, 68, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85,
           86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127,
           128, 129, 130, 131, 132, 133, 134, 135, 139),
      .count = 1, .within_ms = M(10), .probation_ms = M(10) },
    { "engine-faults", HEALTH_WHEN_XID, HEALTH_CORDON,
      LIST(8, 32, 39, 40, 41, 60, 68, 70, 71, 72, 75, 76, 77, 82, 83, 84, 85,
           86, 88, 89, 96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 126, 127,
           128, 129, 130, 131, 132, 133, 134, 135, 139),
      .count = 3, .within_ms = H(1), .probation_ms = H(1) },
    { "row-remapped", HEALTH_WHEN_XID, HEALTH_NOTE, LIST(63, 160),
      .count = 1, .within_ms = M(1), .probation_ms = 0 },
    { "many-corrected", HEALTH_WHEN_XID, HEALTH_ALERT, LIST(92),
      .count = 1, .within_ms = H(1), .probation_ms = H(1) },
    { "person-wanted", HEALTH_WHEN_XID, HEALTH_ALERT,
      LIST(54, 154, 157, 161, 164, 165),
      .count = 1, .within_ms = M(10), .probation_ms = M(10) },
    { "link-event", HEALTH_WHEN_XID, HEALTH_ALERT,
      LIST(144, 145, 146, 147, 148, 150),
      .count = 1, .within_ms = M(10), .probation_ms = M(10) },
    { "link-fault", HEALTH_WHEN_XID, HEALTH_DRAIN, LIST(74, 136, 149, 155),
      .count = 1, .within_ms = M(1), .until_reset = true,
      .probation_ms = M(10) },
    { "memory-contained", HEALTH_WHEN_XID, HEALTH_DRAIN,
      LIST(48, 64, 94, 156, 171, 172),
      .count = 1, .within_ms = M(1), .until_reset = true,
      .probation_ms = M(10) },
    { "memory-broken", HEALTH_WHEN_XID, HEALTH_RESTART, LIST(95, 140),
      .count = 1, .within_ms = M(1), .until_reset = true,
      .probation_ms = M(30) },
    { "firmware-halt", HEALTH_WHEN_XID, HEALTH_RESTART,
      LIST(62, 119, 120, 169),
      .count = 1, .within_ms = M(1), .until_reset = true,
      .probation_ms = M(30) },
    { "device-stopped", HEALTH_WHEN_XID, HEALTH_RESTART,
      LIST(46, 79, 109, 110, 143, 158, 167),
      .count = 1, .within_ms = M(1), .until_reset = true,
      .probation_ms = M(30) },

    { "ecc", HEALTH_WHEN_ECC, HEALTH_DRAIN, .limit = 1, .clear = 1,
      .probation_ms = M(10) },
    { "ecc-again", HEALTH_WHEN_ECC_LIFE, HEALTH_ALERT, .count = 3,
      .within_ms = D(7), .probation_ms = D(1) },
    { "rows-pending", HEALTH_WHEN_ROWS_PENDING, HEALTH_DRAIN, .limit = 1,
      .clear = 1, .probation_ms = M(10) },
    { "rows-failed", HEALTH_WHEN_ROWS_FAILED, HEALTH_DRAIN, .limit = 1,
      .clear = 1, .probation_ms = D(1) },
    { "leak", HEALTH_WHEN_LEAK, HEALTH_CORDON, .limit = UINT64_C(1) << 30,
      .clear = UINT64_C(1) << 30, .for_ms = M(1), .probation_ms = S(30) },

    { "lost", HEALTH_WHEN_LOST, HEALTH_RESTART, .probation_ms = M(30) },
    { "reset-required", HEALTH_WHEN_RESET, HEALTH_RESTART,
      .probation_ms = M(30) },
    { "fault", HEALTH_WHEN_FAULT, HEALTH_CORDON, .for_ms = S(30),
      .probation_ms = M(10) },
    { "driver-gone", HEALTH_WHEN_DRIVER, HEALTH_CORDON, .for_ms = S(30),
      .probation_ms = M(1) },
    { "driver-reload", HEALTH_WHEN_RELOAD, HEALTH_NOTE, .count = 1,
      .within_ms = M(1), .probation_ms = 0 },
};
_Static_assert(array_size(rules) <= HEALTH_RULES, "too many rules");

void health_rules_default(struct health_rules *ret)
{
    *ret = (struct health_rules) { .n = array_size(rules) };
    for (unsigned i = 0; i < ret->n; i++)
        ret->all[i] = rules[i];
}

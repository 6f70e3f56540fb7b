#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* health_rules - which condition of a device, for how long or how often, leads
 * to which action.
 *
 * A document of JSON, {"weir": 1, "kind": "health", "rules": [...]}, as
 * docs/health.md describes it, or the table that is shipped.
 */
enum {
    HEALTH_DOC_MAX = 64 * 1024,
    HEALTH_RULES = 64,
    HEALTH_NAME = 32,                  /* with its NUL */
    HEALTH_XIDS = 64,                  /* of one rule */
    HEALTH_XID_MAX = 1023,
    HEALTH_COUNT_MAX = 16,
};

/* From weak to strong: of two the stronger counts.  From cordon on nothing new
 * is placed on the device.
 */
#define HEALTH_ACTIONS(X) \
    X(NONE, "none") \
    X(NOTE, "note")                    /* say it */ \
    X(ALERT, "alert")                  /* say it to a person */ \
    X(CORDON, "cordon")                /* what runs there runs on */ \
    X(DRAIN, "drain")                  /* it ends, or leaves by contract */ \
    X(MOVE, "move")                    /* suspended, restored elsewhere */ \
    X(RESTART, "restart")              /* ended, started anew elsewhere */
enum health_action {
#define X(name, text) HEALTH_##name,
    HEALTH_ACTIONS(X)
#undef X
    HEALTH_ACTION_COUNT
};
const char *health_action_name(enum health_action a);

/* What a condition is made from. */
enum health_sort {
    HEALTH_VALUE,                      /* a field of telemetry and a limit */
    HEALTH_CLOCKS,                     /* a reason why clocks are held down */
    HEALTH_STATE,                      /* the state of the device */
    HEALTH_DRIVER,                     /* the driver does not answer */
    HEALTH_LEAK,                       /* memory in use by no process */
    HEALTH_XID,                        /* these are counted: */
    HEALTH_GROWTH,                     /* a field of telemetry that grew */
    HEALTH_RELOAD,                     /* the driver was loaded anew */
};

/* X(name, text, sort, what of that sort, largest limit, unit, in words) */
#define HEALTH_WHENS(X) \
    X(TEMPERATURE, "temperature", VALUE, TELEMETRY_TEMPERATURE, 200, " C", \
      "the temperature") \
    X(MEMORY_TEMPERATURE, "memory-temperature", VALUE, \
      TELEMETRY_MEMORY_TEMPERATURE, 200, " C", "the memory's temperature") \
    X(ECC, "ecc-uncorrected", VALUE, TELEMETRY_ECC_UNCORRECTED, UINT32_MAX, \
      "", "uncorrected memory errors since the driver was loaded") \
    X(ROWS_PENDING, "remapped-pending", VALUE, TELEMETRY_REMAPPED_PENDING, \
      UINT32_MAX, "", "memory rows to be remapped with the next reset") \
    X(ROWS_FAILED, "remapped-failed", VALUE, TELEMETRY_REMAPPED_FAILED, \
      UINT32_MAX, "", "memory rows that could not be remapped") \
    X(SLOWDOWN, "hardware-slowdown", CLOCKS, 3, 0, "", \
      "the hardware holds the clocks down") \
    X(SOFTWARE_THERMAL, "software-thermal", CLOCKS, 5, 0, "", \
      "the driver holds the clocks down for heat") \
    X(HARDWARE_THERMAL, "hardware-thermal", CLOCKS, 6, 0, "", \
      "the hardware holds the clocks down for heat") \
    X(POWER_BRAKE, "power-brake", CLOCKS, 7, 0, "", \
      "the power brake holds the clocks down") \
    X(LOST, "lost", STATE, NVML_LOST, 0, "", "the device is lost") \
    X(RESET, "reset-required", STATE, NVML_RESET, 0, "", \
      "the device wants a reset") \
    X(FAULT, "fault", STATE, NVML_FAULT, 0, "", \
      "the driver answers with an error") \
    X(DRIVER, "driver-gone", DRIVER, 0, 0, "", "the driver does not answer") \
    X(LEAK, "leak", LEAK, TELEMETRY_MEMORY_USED, INT64_MAX, " bytes", \
      "memory in use by no process") \
    X(XID, "xid", XID, 0, 0, "", "XID") \
    X(ECC_LIFE, "ecc-uncorrected-life", GROWTH, \
      TELEMETRY_ECC_UNCORRECTED_LIFE, 0, "", "new uncorrected memory errors") \
    X(RELOAD, "driver-reload", RELOAD, 0, 0, "", "the driver was loaded anew")
enum health_when {
#define X(name, text, sort, of, max, unit, words) HEALTH_WHEN_##name,
    HEALTH_WHENS(X)
#undef X
    HEALTH_WHEN_COUNT
};

struct health_about {                  /* a condition */
    const char *name;
    enum health_sort sort;
    unsigned of;
    uint64_t max;
    const char *unit, *words;
};
const struct health_about *health_about(enum health_when w);

struct health_rule {
    char name[HEALTH_NAME];
    enum health_when when;
    enum health_action action;         /* never NONE */
    uint64_t limit, clear;             /* holds from limit on, until below
                                        * clear; 0: it has none */
    uint64_t for_ms;                   /* it must hold for this long */
    unsigned count;                    /* of events, ... */
    uint64_t within_ms;                /* ... in this time; 0: no events */
    bool until_reset;                  /* of events: over with a reset alone */
    uint64_t probation_ms;             /* well so long before it is over */
    unsigned nxids;
    uint16_t xids[HEALTH_XIDS];
};

struct health_rules {
    unsigned n;
    struct health_rule all[HEALTH_RULES];
};

void health_rules_default(struct health_rules *ret);
/* 0, or -EINVAL and a line that says where, what and what was expected. */
int health_rules_read(const char *text, size_t len, struct health_rules *ret,
                      struct err *err);
/* Reads back as the same rules; caller owns. */
json_t *health_rules_json(const struct health_rules *r);

#pragma once

#include "gpu/health.h"

/* health_in - what the files of health share. */
enum health_state { HEALTH_WELL, HEALTH_ILL, HEALTH_BACK };

struct health_event {
    uint64_t at_ms;
    uint16_t xid;                      /* 0: none */
};

struct health_row {                    /* one rule on one device */
    enum health_state state;
    bool known, holds;                 /* at the last look that knew */
    uint64_t known_ms;                 /* when that was */
    uint64_t since_ms;                 /* `holds` is as it is, gaps taken out */
    bool was_reset;                    /* since it was raised */
    bool has_value;
    uint64_t value;
    bool has_last;
    uint64_t last;                     /* of a counter that may grow */
    uint64_t events;
    unsigned relapses;
    unsigned nlate;                    /* events of late, oldest first */
    struct health_event late[HEALTH_COUNT_MAX];
};

struct health_device {
    char uuid[NVML_TEXT];              /* "": the place is free */
    enum nvml_state state;
    enum health_action action;         /* in force */
    bool has_energy;
    uint64_t energy;
    bool has_sample;
    uint64_t has;                      /* as in struct telemetry */
    uint64_t value[TELEMETRY_FIELD_COUNT];
    struct health_row *rows;           /* one for each rule */
};

struct health {
    struct health_rules rules;
    uint64_t gap_ms;
    bool driver_seen, driver_gone;     /* it answered; and went away since */
    char driver[NVML_TEXT];
    struct health_device devices[DEVICE_MAX];
};

/* now - then, of a clock that never runs backwards. */
static inline uint64_t health_since(uint64_t now_ms, uint64_t then_ms)
{
    return now_ms > then_ms ? now_ms - then_ms : 0;
}

const struct health_device *health_find(const struct health *h,
                                        const char *uuid);
/* The strongest of what its rows ask for. */
enum health_action health_in_force(const struct health *h,
                                   const struct health_device *d);

/* What a row shows, and the sentence for it. */
void health_evidence(const struct health_rule *rule,
                     const struct health_row *row, uint64_t now_ms,
                     struct health_evidence *ret);
void health_say(struct health_change *c);

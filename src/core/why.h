#pragma once

#include <jansson.h>
#include <stdint.h>

struct task;
struct world;

/* why - the reason a task is not running, for the person who waits.
 *
 * Worked out when asked, from the world alone.  Each code has one plain
 * sentence with the numbers in it and, where there is one, what would change
 * it.
 */
#define WHY_CODES(X) \
    X(RUNNING, "running") X(STARTING, "starting") X(ENDED, "ended") \
    X(ENDING, "ending") X(NEEDS, "needs") X(PAUSED, "paused") \
    X(QUARANTINED, "quarantined") X(BACKOFF, "backoff") \
    X(NEVER_DEVICES, "never-devices") X(NEVER_MODEL, "never-model") \
    X(NEVER_GPU_MEMORY, "never-gpu-memory") X(NEVER_CPUS, "never-cpus") \
    X(NEVER_MEMORY, "never-memory") X(NEVER_LABEL, "never-label") \
    X(NEVER_IMAGE, "never-image") X(NEVER_SHARES, "never-shares") \
    X(NEVER_GANG, "never-gang") X(NEVER_QUOTA, "never-quota") \
    X(NO_BLOCK, "no-block") X(DRAINED, "drained") X(QUOTA, "quota") \
    X(BUDGET, "budget") X(TOGETHER, "together") X(DEVICES, "devices") \
    X(FRAGMENTED, "fragmented") X(CPUS, "cpus") X(MEMORY, "memory") \
    X(HOST_MEMORY, "host-memory") X(WINDOW, "window") \
    X(RESERVED, "reserved") X(MAKING_ROOM, "making-room") \
    X(BETTER, "better") X(ORDER, "order") X(SUSPENDED, "suspended")
enum why_code {
#define X(name, text) WHY_##name,
    WHY_CODES(X)
#undef X
    WHY_COUNT
};

struct why {
    enum why_code code;
    char text[400];        /* the sentence */
    char change[240];      /* what would have to change; may be "" */
    char late[160];        /* a deadline or max_wait that it will miss, as
                              predicted; may be "" */
    char staged[320];      /* where it stands ready, and for what; may be "" */
    char suspended[640];   /* since when, where and why it is off its devices;
                              may be "" */
    uint32_t position;     /* place in line among those that wait, from 1; 0: not in line */
    /* Predicted start, and its range; 0: not known. */
    uint64_t start_low_ms, start_ms, start_high_ms;
};

const char *why_code_name(enum why_code c);
void why_task(const struct world *w, const struct task *t, uint64_t now_ms,
              struct why *ret);
json_t *why_json(const struct why *y);

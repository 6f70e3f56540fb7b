#pragma once

#include "runner/order.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

/* nodes - which of the vendor's device nodes the processes of a control group
 * can open.  What they have open stays open.
 */
enum { NODES_MAJORS = 16 };

/* The numbers of the vendor's drivers, of /proc/devices. */
struct nodes {
    uint32_t n;
    uint32_t major[NODES_MAJORS];
    int64_t gpu;                       /* that of /dev/nvidiaN; -1: none */
};

struct nodes_rule {
    bool open, closed;                 /* all of them */
    uint32_t n;                        /* else of /dev/nvidiaN these alone */
    uint32_t minor[ORDER_DEVICES_MAX];
};

int nodes_read(const char *file, struct nodes *ret, struct err *err);

/* In a group of version 2, by a program of the kernel: the one that was there
 * before is replaced.  What groups above it forbid stays forbidden.
 */
int nodes_set2(const struct nodes *all, const char *group,
               const struct nodes_rule *rule, struct err *err);
/* In a group of version 1 with the controller `devices`. */
int nodes_set1(const struct nodes *all, const char *group,
               const struct nodes_rule *rule, struct err *err);

#pragma once

#include "gate/gate.h"

#include <stdbool.h>
#include <stddef.h>

/* grant - what the runner says, read from its lines.  No call into anything but
 * the string functions: it runs in somebody else's process.
 */
struct grant {
    bool ready, open, go;
    bool limited, named;               /* there was a line, if not a good one */
    uint64_t limit;
    int devices;
    uint8_t uuid[GATE_DEVICES][16];
    void (*map)(const char *path);     /* takes the page, when one is named */
};

/* Another answer begins: what the one before said of memory and devices is
 * nothing.
 */
void grant_begin(struct grant *g);

/* Takes the whole lines of data[0, *have) in their order, and moves what is left
 * to the beginning.
 */
void grant_take(struct grant *g, char *data, size_t *have);

/* Digits and nothing else; *out is untouched when it is something else. */
bool grant_number(const char *s, uint64_t *out);

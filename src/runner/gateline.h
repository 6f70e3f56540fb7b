#pragma once

#include <stdint.h>

struct buf;

/* gateline - what a gate says to the runner, a line at a time; gate/gate.h has
 * the words.  Whoever runs in the task can write anything here.
 */
enum gateline_kind { GATELINE_OTHER, GATELINE_HELLO, GATELINE_WANTS };

struct gateline {
    enum gateline_kind kind;
    uint32_t version;                  /* of hello */
    char lease[128];
    uint32_t pid;                      /* as the process sees itself */
};

/* Takes the next line off `in`.  1: it is in *ret, GATELINE_OTHER for a first
 * word that is not known here; 0: there is no whole line yet; -EPROTO: it makes
 * no sense, or is longer than a line may be.
 */
int gateline_next(struct buf *in, struct gateline *ret);

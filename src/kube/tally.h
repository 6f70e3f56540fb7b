#pragma once

#include <jansson.h>
#include <stdint.h>

/* tally - device-time and CPU-time, summed up while it passes.
 *
 * What is held, by whom, and what is idle is told when it changes; a stretch
 * in between is a few products.  What is idle counts by whether somebody waits:
 * nobody, somebody who fits nowhere, or somebody who would fit.  The four
 * shares add up to what was there.  Time is whole seconds, devices are whole.
 */
enum tally_demand { TALLY_NONE, TALLY_STUCK, TALLY_FITS };

enum { TALLY_SPACES = 256 };           /* in a row; the others are one */
#define TALLY_REST "(others)"

struct tally;

struct tally *tally_new(void);
void tally_free(struct tally *t);      /* NULL is fine */

/* Models of device and namespaces, by number; of the same name the same. */
uint32_t tally_model(struct tally *t, const char *name);
uint32_t tally_space(struct tally *t, const char *name);

/* What was so far holds no more until `at_s`; from there on it counts. */
void tally_begin(struct tally *t, uint64_t at_s);
void tally_advance(struct tally *t, uint64_t at_s);

/* From now on so many more, or fewer. */
void tally_idle(struct tally *t, uint32_t model, int64_t devices);
void tally_idle_cpus(struct tally *t, int64_t milli);
void tally_held(struct tally *t, uint32_t space, uint32_t model,
                int64_t devices, int64_t cpus_milli);
void tally_asked(struct tally *t, uint32_t space, int64_t devices);
void tally_demand(struct tally *t, enum tally_demand devices,
                  enum tally_demand cpus);
/* One that wanted devices got them, after so long. */
void tally_started(struct tally *t, uint64_t wait_s);

/* Since the beginning, or the last tally_clear; caller owns:
 *
 *     {from, to, devices: [{model, SHARES}], cpus: {SHARES}, asked,
 *      namespaces: [{name, devices: {model: s}, cpus, waited}], starts,
 *      start_waits}
 *
 * SHARES are used, waste, idle_frag, idle_nodemand, in device-seconds, and of
 * CPUs in seconds of a thousandth.  asked: of what stood idle while somebody
 * waited, no more than those who waited asked for.  waited: seconds that devices
 * were waited for, times their number.
 */
json_t *tally_row(const struct tally *t);
void tally_clear(struct tally *t);     /* the sums; the state stays */

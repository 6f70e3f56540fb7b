#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* amount - Kubernetes' quantities: "1500m", "2Gi", "1e3", "0.5", ".5k".
 *
 * A decimal number with an optional sign, then one of n u m k M G T P E, of
 * Ki Mi Gi Ti Pi Ei, or e or E with an exponent.  What is no whole number of
 * the unit asked for is rounded up, as Kubernetes does: nobody gets less than
 * was asked for.  Negative amounts are refused; what does not fit is INT64_MAX,
 * as Kubernetes has it too.
 */
int amount_whole(const char *s, uint64_t *ret, struct err *err);
int amount_milli(const char *s, uint64_t *ret, struct err *err);

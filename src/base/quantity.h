#pragma once

#include <stdint.h>

struct err;

/* quantity - the one strict reader of numbers with units.
 *
 * The whole string must be consumed; no sign, no exponent, no blanks; at most
 * INT64_MAX, so that JSON and the store hold every value.  Where a limit is
 * meant zero is refused by the caller: "no limit" is never a number here, it
 * is the word "unlimited" where a field allows it.
 *
 * bytes:    "512", "512Ki", "40Gi", "40GB" (decimal k M G T P with B; binary
 *           Ki Mi Gi Ti Pi, optional B), at most 3 decimals ("1.5Gi"),
 *           cut to a whole byte
 * duration: "90", "90s", "500ms", "5m", "2h", "1d", "1w", and sums from large
 *           to small, "1h30m"; a bare number is seconds; in milliseconds
 * count:    plain decimal
 * milli:    decimal with at most 3 places, in thousandths ("0.25" is 250)
 */
int quantity_bytes(const char *s, uint64_t *ret, struct err *err);
int quantity_duration(const char *s, uint64_t *ret_ms, struct err *err);
int quantity_count(const char *s, uint64_t *ret, struct err *err);
int quantity_milli(const char *s, uint64_t *ret, struct err *err);

/* The shortest text that reads back as the same value; buf of 32 is enough. */
void quantity_print_bytes(uint64_t bytes, char *buf, unsigned size);
void quantity_print_duration(uint64_t ms, char *buf, unsigned size);
void quantity_print_milli(uint64_t milli, char *buf, unsigned size);

#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* human - numbers and times as people say them.  Every buffer of HUMAN_SIZE is
 * enough.
 */
enum { HUMAN_SIZE = 32 };

/* How long ago, roughly: "12s", "2m", "3h", "5d". */
const char *human_age(uint64_t ms, char *buf);
/* How long it took: "0.4s", "12.3s", "1m02s", "3h05m", "2d04h". */
const char *human_span(uint64_t ms, char *buf);
/* A time of day, here; with its year where that is not the one of `now_ms`, and
 * "" for 0.
 */
const char *human_clock(uint64_t ms, uint64_t now_ms, char *buf);
/* "4,312". */
const char *human_count(uint64_t n, char *buf);
/* A share of 1, in percent: "12.5%". */
const char *human_share(double share, char *buf);
/* The numbers as a line of bars, the last `width` of them; without UTF-8 their
 * shape in ASCII.  Caller frees.
 */
char *human_spark(const double *v, size_t n, size_t width, bool utf8);
/* "40Gi", "512Mi", rounded to what fits in five characters. */
const char *human_bytes(uint64_t bytes, char *buf);

/* How an attempt ended, by its cause and its status (negative: a signal):
 * "exit status 3", "signal 9 (Killed)", "timeout"; "" for no cause.
 */
const char *human_end(const char *cause, int status, char *buf, size_t size);

/* A member that is a time, in milliseconds; 0 when it is absent or no time. */
uint64_t human_time(const json_t *o, const char *key);
/* How long the attempts of a task that are over have run. */
uint64_t human_run_ms(const json_t *task);

#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

uint64_t clock_wall_ms(void);                      /* since 1970, UTC */
uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);

/* "2026-11-15T19:16:50.123Z"; buf of 32 is enough. */
void clock_print(uint64_t wall_ms, char *buf, size_t size);
/* RFC 3339 with seconds, optional fraction, 'Z' or an offset. */
int clock_parse(const char *s, uint64_t *ret_wall_ms, struct err *err);

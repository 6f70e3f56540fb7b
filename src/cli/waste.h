#pragma once

#include <jansson.h>

struct buf;

/* waste - reports on what pools waste, of answers of /v1/waste/POOL. */

/* A page of one file for a list of them. */
void waste_html(const json_t *pools, struct buf *out);
/* The series, a line for each step. */
void waste_csv(const json_t *pools, struct buf *out);

/* "1,234"; of less than 100 with a digit more.  `buf` of HUMAN_SIZE. */
const char *waste_number(double v, char *buf);
/* Hours of a number of seconds, likewise. */
const char *waste_hours(double seconds, char *buf);

#pragma once

#include <stdbool.h>
#include <stdint.h>

struct err;
struct output;
struct runner;

/* output - what the task of a runner that has it alone prints, from its log to
 * home and to the runner's own standard output.  Both read the log's files at
 * their own pace; who is slower than the log is long misses some, and neither
 * holds up the task.
 */
int output_open(struct runner *r, int out, struct output **ret,
                struct err *err);      /* `out` is taken; -1: there is none */
void output_close(struct output *o);   /* NULL is fine */
/* For its keeper, which adds 1 when there is something new. */
int output_wake(const struct output *o);

/* Home is there: tell again all that it has not said that it heard. */
void output_welcome(struct output *o);
void output_heard(struct output *o, uint64_t offset);
/* Tell and show what there is. */
void output_move(struct output *o);
/* Has home been sent all of it?  What it will not hear it is given up on in
 * time; runner_ended_told is called then, and when all of it was sent.
 */
bool output_told(struct output *o);
/* Is all of it on standard output, or nobody there? */
bool output_shown(struct output *o);
/* A line of our own there, if there is room. */
void output_say(const struct output *o, const char *line);

#pragma once

struct err;

/* place - in a container that comes before a task's own: this very program
 * goes to RUN/weir-runner, and the files `token` and `ca.crt` of the folder
 * SECRET to HOME, where the task's container finds them and the runner takes them away.
 * All of it is then our own user's and nobody else's.
 */
enum { PLACE_PROGRAM_MAX = 256 * 1024 * 1024, PLACE_SECRET_MAX = 1024 * 1024 };

int place(const char *run, const char *secret, const char *home,
          struct err *err);

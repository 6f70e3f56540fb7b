#pragma once

#include <stdint.h>

struct err;

/* runner - supervises one block: takes orders from home, claims each lease's
 * generation before it starts it, watches the keepers, reports ends until
 * they are acknowledged.
 */
struct runner_conf {
    const char *block;
    const char *home;          /* socket */
    const char *dir;           /* ours; leases/ and logs/ are below */
    const char *token_file;
    uint64_t log_bytes;        /* kept per lease when the order does not say */
    uint64_t idle_ms;          /* end when home was away that long */
};

/* Until it is told to quit, or has nothing to do. */
int runner_run(const struct runner_conf *conf, struct err *err);

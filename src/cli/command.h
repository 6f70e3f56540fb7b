#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* command - the job document of `weir run ... -- COMMAND`.
 *
 * Zero and NULL are left out of the document: weir-document(5) says what Weir
 * takes then.
 */
struct command {
    char *const *argv;                 /* NULL-terminated, not empty */
    const char *name;                  /* NULL: after argv[0] */
    const char *dir;
    uint64_t gpu_milli, cpu_milli;
    uint64_t memory;                   /* bytes */
    uint64_t ranks, retries, timeout_ms;
    const char *const *env;            /* "NAME=VALUE"; "NAME": as it is here */
    size_t nenv;
};

/* The document (caller owns), or NULL with a text. */
json_t *command_document(const struct command *cmd, struct err *err);

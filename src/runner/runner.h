#pragma once

#include "runner/dial.h"

#include <stdbool.h>
#include <stdint.h>

struct err;

/* runner - supervises one block: takes orders from home, claims each lease's
 * generation before it starts it, watches the keepers, reports ends until
 * they are acknowledged.
 */
struct runner_conf {
    const char *block;
    struct dial_to home;
    const char *dir;           /* ours; leases/ and logs/ are below */
    const char *token_file;
    const char *token;         /* as it was read; NULL: at each connection */
    uint64_t log_bytes;        /* kept per lease when the order does not say */
    uint64_t idle_ms;          /* end when home was away that long */
    const char *gate_lib;      /* libweir-gate.so; NULL: there is none */
    const char *gate_dir;      /* or NULL: see behind.c */
    const char *gpud;          /* socket of weir-gpud */
    const char *devices_file;  /* as /proc/devices */
    bool gate_simulated;       /* in front of simulated devices, too */
    bool alone;                /* `block` names one lease: see alone.h */
    const char *folder;        /* of one that is alone: where it was started */
    int out;                   /* and its standard output; -1: none */
    const char *address;       /* where others reach its tasks; or NULL */
};

/* Until it is told to quit, or has nothing to do.  *ret_status: what to end
 * with.
 */
int runner_run(const struct runner_conf *conf, int *ret_status,
               struct err *err);

#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/wire.h"

struct err;

/* order - what to start, read and checked: the `task` of the wire's order.
 *
 * Texts are borrowed from the JSON, which the order holds on to.
 */
struct lease_id {
    struct lease_key key;
    uint32_t gen;
    uint64_t epoch;
};

enum { LEASE_NAME_SIZE = 96, ORDER_DEVICES_MAX = 64 };

/* "w12/3.0#2@1": what tasks see as WEIR_LEASE, and the name in our maps. */
void lease_id_name(const struct lease_id *id, char *buf, size_t size);

/* "3.0.2.1": the same within its workload, as part of a file's name. */
void lease_id_file(const struct lease_id *id, char *buf, size_t size);

struct order {
    json_t *task;                      /* owned */
    const char *name, *workload, *tenant;
    const char *run;                   /* shell text, or NULL: argv */
    const char **argv;                 /* owned list, NULL at its end */
    const json_t *env;                 /* object of texts, or NULL */
    const char *dir;                   /* or NULL: the user's home */
    const char *image;                 /* or NULL: none */
    bool has_user;
    const char *user;                  /* may be "" */
    uid_t uid;
    gid_t gid;
    uint64_t cpus_milli, memory, log_bytes;      /* 0: as the runner likes */
    uint32_t ranks, rank, attempt;
    uint32_t ndevices;
    uint32_t devices[ORDER_DEVICES_MAX];
    bool simulated;
    const char *rendezvous;            /* or NULL */
};

/* `task` is borrowed; a reference is taken. */
int order_read(json_t *task, struct order *ret, struct err *err);
void order_clear(struct order *o);

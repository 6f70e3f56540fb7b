#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "engine/wire.h"
#include "gate/gate.h"

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

enum { LEASE_NAME_SIZE = 96, ORDER_DEVICES_MAX = 64, ORDER_GRACE_MS = 30000 };

/* "w12/3.0#2@1": what tasks see as WEIR_LEASE, and the name in our maps. */
void lease_id_name(const struct lease_id *id, char *buf, size_t size);

/* "3.0.2.1": the same within its workload, as part of a file's name. */
void lease_id_file(const struct lease_id *id, char *buf, size_t size);

/* What the gate is to tell the task's processes; see gate/gate.h. */
struct order_gate {
    bool given;                        /* the order has one */
    enum gate_state state;             /* to start with */
    bool go;                           /* on without a runner; else wait */
    uint64_t memory;                   /* on each device; 0: no limit */
    uint64_t context;                  /* beyond that, for each process */
    uint32_t nuuids;
    const char *uuid[GATE_DEVICES];    /* none: as the driver counts them */
};

/* Which device nodes it can open: all, those of its devices, or those while its
 * gate is open.
 */
enum order_nodes { ORDER_NODES_OPEN, ORDER_NODES_LEASED, ORDER_NODES_ACTIVE };

/* How it wants to be stopped, when it is not home that stops it. */
struct order_stop {
    int signal;                        /* 0: SIGTERM */
    uint64_t grace_ms;
    const char *command;               /* or NULL: the signal */
};

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
    struct order_gate gate;
    enum order_nodes nodes;
    struct order_stop stop;
    const char *rendezvous;            /* or NULL */
};

/* `task` is borrowed; a reference is taken. */
int order_read(json_t *task, struct order *ret, struct err *err);
void order_clear(struct order *o);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* control - the control plane: wires store, world, engines and API together.
 *
 * One loop, one thread beside the store's writer.  Every change takes the
 * same way: an event is proposed, checked, numbered, applied to the world and
 * handed to the store; what the world then wants (world_step) goes the same
 * way in the same batch; replies and orders to runners leave only once the
 * batch is durable.
 */
#define CONTROL_NO_ENGINE "none"       /* this machine is no pool */

struct control_conf {
    const char *state_dir;             /* made when it is not there, mode 0700 */
    const char *socket;                /* of the API */
    const char *pool;                  /* name of the local pool: "local" */
    const char *engine;                /* "local", "fake" or CONTROL_NO_ENGINE */
    const char *devices;               /* "none", "auto", "sim:4xH100-80GB" */
    const char *gpud;                  /* socket of weir-gpud; NULL: see engine.h */
    const char *const *labels;         /* "key=value", of this machine */
    size_t nlabels;
    const char *domain;                /* of the network; NULL: not told */
    const char *runner;                /* path of weir-runner; NULL: beside this program */
    const char *runners;               /* where runners from elsewhere dial in,
                                        * ADDRESS:PORT; NULL: nowhere */
    const char *runners_url;           /* what they dial; NULL: that address */
    const char *listen, *tls_cert, *tls_key, *tls_client_ca;  /* NULL: no TCP */
    uint64_t log_bytes;                /* kept per lease */
    uint64_t retention_ms;             /* ended workloads are kept this long */
    bool check_full;                   /* check the whole store first */
};

/* Runs until SIGTERM or SIGINT.  0, or -errno: -EBUSY when another control
 * plane has the state folder, -EBADMSG or -EPROTONOSUPPORT for a store that
 * cannot be used.
 */
int control_run(const struct control_conf *conf, struct err *err);

/* Put a backup in the place of the store of a state folder that no control
 * plane uses (-EBUSY).
 */
int control_restore(const char *state_dir, const char *backup,
                    struct err *err);

/* The JSON Schema of the document, as text; static. */
const char *control_schema(void);
const char *control_policy_schema(void);

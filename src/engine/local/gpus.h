#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;

/* gpus - the devices of this machine, as its weir-gpud tells.
 *
 * One that listens already is asked; where none does, one is started here, and
 * ended by gpus_close.  If it ends by itself it is started again.  It is asked
 * again every 5 s.  One that was started by a process that was killed is used,
 * and not ended.
 *
 * What one weir-gpud has suspended no other can bring back.  So one that was
 * started here is kept to while it has such tasks, also by the next process;
 * one that was found is waited for a while when it goes away.
 *
 * A device has its place in the list for good (DIR/devices): one that is not
 * found any more, or does not answer, stays there as lost, and a new one comes
 * after the others.  What holds a device by its number keeps that device.
 */
struct gpus;
struct gpus_conf {
    const char *dir;                   /* of the engine: for what is kept */
    const char *program;               /* weir-gpud */
    const char *socket;                /* of one that runs; NULL: the usual */
    uint64_t patience_ms;              /* for an answer, and for one that went
                                        * away; 0: 30 s */
    /* From the loop: the list is there, or is another one; and what is wrong,
     * for the log.
     */
    void (*changed)(void *arg);
    void (*trouble)(const char *text, void *arg);
    void *arg;
};

struct gpus *gpus_open(struct loop *l, const struct gpus_conf *conf);
void gpus_close(struct gpus *g);                   /* NULL is fine */

/* [{model, memory, uuid, lost?, numa?}]; borrowed.  NULL: not known yet. */
const json_t *gpus_list(const struct gpus *g);
bool gpus_simulated(const struct gpus *g);         /* a stand-in's */
/* Where runners find it, whoever started it. */
const char *gpus_socket(const struct gpus *g);

#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;
struct pack_list;
struct pack_order;

/* openb - readers for the files of Alibaba's cluster-trace-gpu-v2023.
 *
 * nodes: sn, cpu_milli, memory_mib, gpu, model
 * pods:  name, cpu_milli, memory_mib, num_gpu, gpu_milli, and perhaps gpu_spec
 *        (models it may run on, "P100|T4"; empty: any)
 * order: for each seed a line "pods SEED N I...", places of pods in their list
 *        from 0, and a line "nodes SEED N P...", the rank of each node among
 *        equals; lines that start with '#' are for people
 *
 * Texts are cut up while they are read.  On failure *ret is as before.
 */
int openb_read(const char *nodes_name, char *nodes, size_t nodes_len,
               const char *pods_name, char *pods, size_t pods_len,
               struct pack_list *ret, struct err *err);
int openb_order(const char *name, char *text, size_t len, uint64_t seed,
                const struct pack_list *l, struct pack_order *ret,
                struct err *err);

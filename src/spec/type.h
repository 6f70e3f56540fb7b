#pragma once

#include "spec/field.h"

/* type - the kinds of values that fields have. */
extern const struct type type_text, type_name, type_path, type_word,
    type_gpus, type_cpus, type_size, type_limit, type_period, type_cost,
    type_ranks, type_gang, type_count, type_share,
    type_metric, type_stop, type_priority, type_deadline, type_signal,
    type_causes, type_argv, type_names, type_env, type_labels, type_mounts,
    type_object, type_retries, type_checkpoint, type_needs, type_matrix,
    type_together, type_version, type_kind, type_parameters, type_defaults,
    type_tasks;

/* The words of type_signal and of type_causes, ended by NULL. */
extern const char *const type_signal_words[], *const type_cause_words[];

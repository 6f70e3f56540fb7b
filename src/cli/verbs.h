#pragma once

#include "cli/cli.h"

/* One file for each verb, or for the few of one noun. */
extern const struct verb verb_abort, verb_backup, verb_completion, verb_cost,
    verb_events, verb_logs, verb_node_drain, verb_node_undrain, verb_pause,
    verb_policy_history, verb_policy_set, verb_policy_show, verb_pool_add, verb_pool_drain,
    verb_pool_ls, verb_pool_remove, verb_pool_show, verb_pool_undrain,
    verb_prioritise, verb_progress, verb_ps, verb_ready, verb_release,
    verb_reserve_ls, verb_reserve_remove, verb_reserve_set, verb_restore,
    verb_resume, verb_retry, verb_run, verb_schema, verb_show, verb_sim, verb_sim_dag,
    verb_sim_mixed, verb_sim_pack, verb_sim_run, verb_suspend,
    verb_tenant_create,
    verb_tenant_ls, verb_tenant_remove, verb_tenant_set, verb_tenant_show,
    verb_token_create, verb_token_ls, verb_token_revoke, verb_top,
    verb_unpause, verb_up, verb_version, verb_waste, verb_why;

extern const struct opt no_opts[];     /* of verbs that have none */

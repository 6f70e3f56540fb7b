#include "cli/verbs.h"

#include <stddef.h>

const struct opt no_opts[] = { { .kind = OPT_END } };

/* In the order in which --help, completion and weir(1) show them. */
const struct verb *const cli_verbs[] = {
    &verb_up, &verb_run, &verb_ps, &verb_show, &verb_logs, &verb_why,
    &verb_abort, &verb_retry, &verb_pause, &verb_unpause, &verb_suspend,
    &verb_resume, &verb_prioritise,
    &verb_progress, &verb_top, &verb_cost, &verb_waste, &verb_events, &verb_pool_ls,
    &verb_pool_show, &verb_pool_add, &verb_pool_drain, &verb_pool_undrain,
    &verb_pool_remove, &verb_node_drain, &verb_node_undrain, &verb_tenant_ls,
    &verb_tenant_show, &verb_tenant_create, &verb_tenant_set,
    &verb_tenant_remove, &verb_policy_show, &verb_policy_set,
    &verb_policy_history, &verb_reserve_set, &verb_reserve_ls,
    &verb_reserve_remove, &verb_token_create, &verb_token_ls,
    &verb_token_revoke, &verb_backup, &verb_restore, &verb_release,
    &verb_sim_pack, &verb_sim_run, &verb_sim_dag, &verb_sim_mixed,
    &verb_sim,
    &verb_ready, &verb_schema, &verb_version, &verb_completion, NULL,
};

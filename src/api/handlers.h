#pragma once

struct call;

/* handlers - what each route does.  A handler answers, or sees to it that
 * somebody will.
 */
void get_healthz(struct call *c);
void get_readyz(struct call *c);
void get_metrics(struct call *c);
void get_openapi(struct call *c);
void get_schema(struct call *c);
void get_version(struct call *c);
void get_stat(struct call *c);
void post_backup(struct call *c);

void post_workloads(struct call *c);
void post_retry(struct call *c);
void get_workloads(struct call *c);
void get_workload(struct call *c);
void get_tasks(struct call *c);
void get_spec(struct call *c);
void get_task(struct call *c);
void get_log(struct call *c);
void post_abort(struct call *c);
void post_pause(struct call *c);
void post_unpause(struct call *c);
void post_suspend(struct call *c);
void post_resume(struct call *c);
void post_prioritise(struct call *c);
void post_release(struct call *c);

void get_events(struct call *c);
void get_watch(struct call *c);

void get_pools(struct call *c);
void get_pool(struct call *c);
void put_pool(struct call *c);
void delete_pool(struct call *c);
void post_pool_drain(struct call *c);
void post_pool_undrain(struct call *c);
void get_waste(struct call *c);
void get_pool_waste(struct call *c);
void post_drain(struct call *c);
void post_undrain(struct call *c);

void get_policy(struct call *c);
void put_policy(struct call *c);
void get_policy_history(struct call *c);
void get_windows(struct call *c);
void put_window(struct call *c);
void delete_window(struct call *c);
void get_cost(struct call *c);

void get_tenants(struct call *c);
void get_tenant(struct call *c);
void put_tenant(struct call *c);
void delete_tenant(struct call *c);

void get_tokens(struct call *c);
void post_tokens(struct call *c);
void delete_token(struct call *c);

#pragma once

#include "kube/credential.h"

struct config;
struct err;
struct loop;

/* plugin - one run of the program that a kubeconfig's `exec` names.
 *
 * It gets no terminal, KUBERNETES_EXEC_INFO as Kubernetes' own clients set it,
 * and PLUGIN_MS to end; then it and what it started is killed.
 */
enum { PLUGIN_MS = 60000 };

struct plugin;

/* From the loop, once; the plugin is gone after it.  On success the credential
 * is the callee's to clear.
 */
typedef void (*plugin_f)(int rc, struct credential *c, const struct err *err,
                         void *arg);

/* `conf` is borrowed for the call. */
int plugin_start(struct loop *l, const struct config *conf, plugin_f done,
                 void *arg, struct plugin **ret, struct err *err);
void plugin_cancel(struct plugin *p);  /* no callback; NULL is fine */

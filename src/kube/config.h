#pragma once

#include <stdbool.h>
#include <stddef.h>

struct err;

/* config - which API server, how it is known, and who we are there.
 *
 * Read from a kubeconfig, one context of it, or made from what a pod finds in
 * itself.  What would weaken the connection (no verification, plain HTTP,
 * passwords) is refused and not passed over.
 */
enum { CONFIG_FILE_MAX = 4 * 1024 * 1024, CONFIG_LIST_MAX = 256 };

/* A program that gives credentials when it is run. */
struct config_exec {
    char *version;                     /* apiVersion of what it prints */
    char *command;                     /* a name in PATH, or a path */
    char **args;                       /* ended by NULL; args[0] is command */
    char **env;                        /* "NAME=value", ended by NULL */
    char *hint;                        /* how to install it; or NULL */
    bool cluster_info;                 /* it wants to be told the server */
};

struct config {
    char *name;                        /* for messages: the file and context */
    char *server;                      /* "https://host:port[/path]" */
    char *server_name;                 /* as the certificate has it; or NULL */
    char *space;                       /* namespace; "default" where unsaid */
    char *ca, *ca_file;                /* PEM; neither: the system's */
    char *cert, *cert_file;            /* of the client; or neither */
    char *key, *key_file;
    char *token, *token_file;
    struct config_exec *exec;          /* or NULL */
};

/* `context` NULL: the current one of the file. */
int config_load(const char *path, const char *context, struct config **ret,
                struct err *err);
/* From a text; names of files in it are relative to `folder`.  No file is
 * looked at.
 */
int config_read(const char *text, size_t len, const char *folder,
                const char *context, struct config **ret, struct err *err);
/* Inside of a pod: HOST and PORT as the environment has them, and the folder
 * of the service account.
 */
#define CONFIG_POD_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"
int config_in_pod(const char *host, const char *port, const char *folder,
                  struct config **ret, struct err *err);
void config_free(struct config *c);    /* NULL is fine */

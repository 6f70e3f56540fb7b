#pragma once

#include <stdbool.h>

struct err;

/* where - which control plane, and where it keeps things.
 *
 * The socket, in this order: --socket, $WEIR_SOCKET; weir.sock in a state
 * folder that was named (--state, $WEIR_STATE); /run/weir/weir.sock for root;
 * $XDG_RUNTIME_DIR/weir/weir.sock; weir.sock in the state folder.
 * The state folder: --state, $WEIR_STATE; /var/lib/weir for root;
 * $XDG_STATE_HOME/weir; ~/.local/state/weir.
 * A server (--server, $WEIR_SERVER) goes before every socket but --socket.
 */
struct where {
    /* What the command line says; borrowed, may be NULL. */
    const char *socket_opt, *state_opt, *server_opt, *token_file, *ca_opt;
    const char *cert_opt, *key_opt;
    /* What follows from it; owned. */
    char *state, *socket;
    char *server;                      /* NULL: the socket */
    char *token, *ca;                  /* may be NULL */
};

/* How the environment is read and who we are; tests bring their own. */
struct where_env {
    const char *(*get)(const char *name);
    bool root;
    const char *home;                  /* of the password file; may be NULL */
};

/* Fill in what follows.  On failure nothing is filled in. */
int where_find(struct where *w, const struct where_env *env, struct err *err);
/* The same from this process's environment. */
int where_find_here(struct where *w, struct err *err);
void where_free(struct where *w);

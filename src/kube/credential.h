#pragma once

#include <stddef.h>
#include <stdint.h>

struct err;

/* credential - what a program of a kubeconfig's `exec` prints: a token, or a
 * certificate with its key, and until when it holds.
 */
enum { CREDENTIAL_MAX = 1024 * 1024 };

struct credential {
    char *token;                       /* or NULL */
    char *cert, *key;                  /* PEM; both or neither */
    uint64_t until_ms;                 /* wall clock; 0: not said */
};

/* `version` is the apiVersion it has to have. */
int credential_read(const char *text, size_t len, const char *version,
                    struct credential *ret, struct err *err);
void credential_clear(struct credential *c);       /* zeroed is fine */

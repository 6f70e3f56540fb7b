#pragma once

#include <stddef.h>

struct err;

/* base64 - bytes that stand in a text, as in a kubeconfig's "-data" fields and
 * in messages of JSON.
 *
 * The standard alphabet with its padding.  Line breaks between the letters are
 * passed over, as in files that were wrapped; anything else is refused.
 */
int base64_decode(const char *text, size_t len, char **ret, size_t *ret_len,
                  struct err *err);    /* a NUL is added; caller frees */
char *base64_encode(const void *p, size_t len);    /* caller frees */

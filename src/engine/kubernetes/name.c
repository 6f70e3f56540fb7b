#include "engine/kubernetes/name.h"

#include "base/mem.h"

#include <ctype.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { POD_HASH = 20, CUT_HASH = 8, POD_WORDS = 40 };

/* The first hex digits of a SHA-256; `out` has a NUL more. */
static void hash(const char *text, char *out, size_t digits)
{
    unsigned char sum[32];
    size_t len = 0;

    if (!EVP_Q_digest(NULL, "SHA256", NULL, text, strlen(text), sum, &len))
        mem_none();
    for (size_t i = 0; i < digits / 2; i++)
        (void) snprintf(out + 2 * i, 3, "%02x", sum[i]);
}

/* The whole, or its beginning and a hash. */
static void fit(const char *text, char *out, size_t size)
{
    size_t len = strlen(text);
    char sum[CUT_HASH + 1];

    if (len < size) {
        memcpy(out, text, len + 1);
        return;
    }
    hash(text, sum, CUT_HASH);
    (void) snprintf(out, size, "%.*s-%s", (int) (size - CUT_HASH - 2), text,
                    sum);
}

/* "w3/1.0" is "w3-1-0": small letters, digits and single '-'. */
static void words(const char *key, char *out, size_t size)
{
    size_t n = 0;

    for (; *key && n + 1 < size; key++) {
        bool fine = isalnum((unsigned char) *key);

        if (fine)
            out[n++] = (char) tolower((unsigned char) *key);
        else if (n > 0 && out[n - 1] != '-')
            out[n++] = '-';
    }
    while (n > 0 && out[n - 1] == '-')
        n--;
    out[n] = '\0';
}

void name_pod(const char *instance, const char *pool, const char *runner,
              const char *key, char out[NAME_POD])
{
    autofree char *whole = mem_printf("%s %s %s", instance, pool, runner);
    char sum[POD_HASH + 1], said[POD_WORDS - 5];

    hash(whole, sum, POD_HASH);
    words(key, said, sizeof said);
    (void) snprintf(out, NAME_POD, "weir-%s%s%s", said, said[0] ? "-" : "",
                    sum);
}

void name_block(const char *pool, const char *node, char out[NAME_BLOCK])
{
    int n = snprintf(out, NAME_BLOCK, "%.*s/", NAME_POOL_MAX, pool);

    fit(node, out + n, NAME_BLOCK - (size_t) n);
}

void name_node(const char *node, char out[NAME_NODE])
{
    fit(node, out, NAME_NODE);
}

void name_label(const char *text, char out[NAME_LABEL])
{
    size_t n = 0;

    for (; *text && n + 1 < NAME_LABEL; text++) {
        bool fine = isalnum((unsigned char) *text) ||
                    (n > 0 && strchr("-_.", *text));

        if (fine || n > 0)
            out[n++] = (char) (fine ? *text : '_');
    }
    while (n > 0 && !isalnum((unsigned char) out[n - 1]))
        n--;
    out[n] = '\0';
}

#include "control/control_int.h"

#include "base/fs.h"
#include "base/mem.h"

#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What this state folder is to what is not in it.
 *
 * STATE/runners.key is made once.  The tokens of runners follow from it and
 * from their names, so none has to be kept anywhere; and so does the name by
 * which this control plane knows what it made elsewhere.
 */
static void print_hex(const unsigned char *bytes, size_t n, char *ret)
{
    for (size_t i = 0; i < n; i++)
        (void) snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

static void sum(const struct control *c, const char *text, size_t bytes,
                char *ret)
{
    unsigned char out[EVP_MAX_MD_SIZE];
    unsigned len = 0;

    if (!HMAC(EVP_sha256(), c->runners_key, sizeof c->runners_key,
              (const unsigned char *) text, strlen(text), out, &len) ||
        len < bytes)
        abort();                       /* no memory, as mem.h does */
    print_hex(out, bytes, ret);
}

void identity_token(const struct control *c, const char *runner, char *ret)
{
    sum(c, runner, (IDENTITY_TOKEN_SIZE - 1) / 2, ret);
}

static void set_instance(struct control *c)
{
    static const char word[] = "instance";
    unsigned char text[sizeof c->runners_key + sizeof word - 1];
    unsigned char out[EVP_MAX_MD_SIZE];

    memcpy(text, c->runners_key, sizeof c->runners_key);
    memcpy(text + sizeof c->runners_key, word, sizeof word - 1);
    if (EVP_Digest(text, sizeof text, out, NULL, EVP_sha256(), NULL) != 1)
        abort();
    print_hex(out, (sizeof c->instance - 1) / 2, c->instance);
    explicit_bzero(text, sizeof text);
}

static int make_key(struct control *c, const char *path, struct err *err)
{
    uint64_t word;

    for (size_t i = 0; i < sizeof c->runners_key; i += sizeof word) {
        word = fs_random();
        memcpy(c->runners_key + i, &word, sizeof word);
    }
    return fs_write(path, c->runners_key, sizeof c->runners_key, 0600, true,
                    err);
}

int identity_open(struct control *c, struct err *err)
{
    autofree char *path = mem_printf("%s/runners.key", c->conf->state_dir);
    char *bytes = NULL;
    size_t len = 0;
    int rc = fs_read(path, sizeof c->runners_key + 1, &bytes, &len, err);

    if (rc == -ENOENT) {
        rc = make_key(c, path, err);
    } else if (rc == 0 && len != sizeof c->runners_key) {
        rc = err_set(err, EBADMSG, "'%s' has %zu bytes and is no key, which "
                     "has %zu; without the file another one is made, and "
                     "runners elsewhere are not known any more", path, len,
                     sizeof c->runners_key);
    } else if (rc == 0) {
        memcpy(c->runners_key, bytes, sizeof c->runners_key);
    }
    if (bytes)
        explicit_bzero(bytes, len);
    free(bytes);
    if (rc == 0)
        set_instance(c);
    return rc;
}

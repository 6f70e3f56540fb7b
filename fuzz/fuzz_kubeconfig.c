#include "base/err.h"
#include "base/mem.h"
#include "kube/config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any bytes are a kubeconfig or have one line that says why not.  What is read
 * never speaks to a server without TLS.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config *c = NULL;
    struct err err = { 0 };

    if (config_read((const char *) data, size, "/f", NULL, &c, &err) < 0) {
        must(!c && err.text[0] && !strchr(err.text, '\n'));
        return 0;
    }
    must(strncmp(c->server, "https://", 8) == 0 && c->server[8]);
    must(c->space && c->name);
    must((c->cert || c->cert_file) == (c->key || c->key_file));
    must(!c->token || !strpbrk(c->token, "\r\n"));
    must(!c->exec || (c->exec->command && c->exec->args[0]));
    config_free(c);
    return 0;
}

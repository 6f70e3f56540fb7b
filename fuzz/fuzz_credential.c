#include "base/err.h"
#include "kube/credential.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Whatever a program prints is a credential or has one line that says why
 * not.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct credential c = { 0 };
    struct err err = { 0 };

    if (credential_read((const char *) data, size,
                        "client.authentication.k8s.io/v1", &c, &err) < 0) {
        must(!c.token && !c.cert && !c.key && err.text[0]);
        must(!strchr(err.text, '\n'));
        return 0;
    }
    must(c.token || c.cert);
    must(!c.cert == !c.key);
    must(!c.token || !strpbrk(c.token, "\r\n"));
    credential_clear(&c);
    return 0;
}

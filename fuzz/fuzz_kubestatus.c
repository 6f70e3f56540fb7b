#include "base/mem.h"
#include "base/utf8.h"
#include "kube/status.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any answer that says no is one line of text; the first byte chooses the
 * status, the rest is the body and, up to a line break, also Retry-After.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *body = (const char *) data + 1;
    autofree char *after = NULL;
    struct kube_status s;

    if (size < 1)
        return 0;
    after = mem_strn(body, size - 1);
    after[strcspn(after, "\n")] = '\0';
    status_read(300 + data[0], after, body, size - 1, &s);
    must(s.http == 300 + data[0] && s.error > 0);
    must(s.wait_ms <= STATUS_WAIT_MAX_MS);
    must(memchr(s.text, '\0', sizeof s.text) && s.text[0]);
    must(!strpbrk(s.text, "\r\n") && utf8_valid(s.text, strlen(s.text)));
    return 0;
}

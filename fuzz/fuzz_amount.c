#include "base/err.h"
#include "base/mem.h"
#include "kube/amount.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any text is an amount or has one line that says why not.  In thousandths it
 * is a thousand times as much, but for what was rounded up to a whole.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autofree char *text = mem_strn((const char *) data, size);
    uint64_t whole = 7, milli = 7;
    struct err err = { 0 };
    int rc = amount_whole(text, &whole, &err);

    must(rc == amount_milli(text, &milli, NULL));
    if (rc < 0) {
        must(whole == 7 && milli == 7 && err.text[0]);
        return 0;
    }
    must(whole <= INT64_MAX && milli <= INT64_MAX);
    if (milli < INT64_MAX)
        must(whole == milli / 1000 + (milli % 1000 != 0));
    return 0;
}

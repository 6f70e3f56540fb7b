#include "base/err.h"
#include "base/mem.h"
#include "gpu/record.h"

#include <stdint.h>
#include <string.h>

/* The record of a suspended task, as a crash or a hand may have left it.  What
 * is read is in its ranges, and written and read again it is the same; what is
 * not read has a text.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autofree struct record *a = mem_new(sizeof *a);
    autofree struct record *b = mem_new(sizeof *b);
    autofree char *text = NULL, *again = NULL;
    struct err err = { 0 };

    if (record_read((const char *) data, size, a, &err) < 0) {
        if (!err.text[0])
            abort();
        return 0;
    }
    if (!record_task_ok(a->task) || a->phase >= RECORD_PHASE_COUNT ||
        a->nprocs < 1 || a->nprocs > RECORD_PROCS ||
        a->ndevices > RECORD_DEVICES)
        abort();
    text = record_text(a);
    if (strlen(text) <= RECORD_MAX &&
        record_read(text, strlen(text), b, NULL) < 0)
        abort();
    if (strlen(text) > RECORD_MAX)
        return 0;
    again = record_text(b);
    if (strcmp(text, again) != 0)
        abort();
    return 0;
}

#include "base/err.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A stream that comes in pieces: the first byte says how long they are.  Each
 * frame found is inside of what came, its body is read as JSON, and what is
 * JSON prints, reads back, and prints as the same.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void read_body(const char *body, size_t len)
{
    autojson json_t *j = NULL, *back = NULL;
    struct err err = { 0 };
    int rc = json_read(body, len, FRAME_MAX, &j, &err);

    if (rc < 0) {
        must(!j && err.code == -rc && err.text[0]);
        return;
    }
    autofree char *text = json_text(j), *again = NULL;

    /* Numbers keep 15 digits, so the largest of all may round past what a
     * double holds.
     */
    if (json_read(text, strlen(text), FRAME_MAX, &back, NULL) < 0) {
        must(strstr(text, "e+308"));
        return;
    }
    again = json_text(back);
    must(strcmp(text, again) == 0);
}

/* All whole frames; false when the stream is beyond use. */
static bool drain(struct buf *in)
{
    struct err err = { 0 };
    const char *body = NULL;
    size_t len = 0;
    int rc;

    while ((rc = frame_next(in, &body, &len, &err)) == 1) {
        must(len > 0 && len <= FRAME_MAX && body == in->data + 4 &&
             len + 4 <= in->len);
        read_body(body, len);
        buf_drop(in, len + 4);
    }
    must(rc == 0 || (err.code == -rc && err.text[0]));
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autobuf struct buf in = BUF_INIT(FRAME_MAX + 4);
    size_t piece;

    if (size == 0)
        return 0;
    piece = (size_t) data[0] + 1;
    for (size_t at = 1; at < size; at += piece) {
        size_t n = size - at < piece ? size - at : piece;

        must(buf_add(&in, data + at, n));
        if (!drain(&in))
            break;
    }
    return 0;
}

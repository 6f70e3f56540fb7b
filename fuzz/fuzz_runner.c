#include "base/buf.h"
#include "base/frame.h"
#include "base/json.h"
#include "base/mem.h"
#include "engine/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a runner or home may be sent: bytes, cut into frames, read as messages.
 * A message that is read writes to JSON that reads as the same message.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const char *body, size_t len)
{
    autojson json_t *first = NULL;
    autojson json_t *second = NULL;
    autofree char *text = NULL;
    struct wire_msg m;

    if (wire_read(body, len, &m, NULL) < 0)
        return;
    first = wire_write(&m);
    wire_clear(&m);
    text = json_text(first);
    if (wire_read(text, strlen(text), &m, NULL) < 0)
        abort();
    second = wire_write(&m);
    wire_clear(&m);
    if (!json_equal(first, second))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf in = BUF_INIT(FRAME_MAX + 4);
    const char *body = NULL;
    size_t len = 0;

    (void) buf_add(&in, data, size);
    while (frame_next(&in, &body, &len, NULL) > 0) {
        check(body, len);
        buf_drop(&in, len + 4);
    }
    buf_free(&in);
    return 0;
}

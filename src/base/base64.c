#include "base/base64.h"

#include "base/err.h"
#include "base/mem.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "abcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(char c)
{
    const char *at = c ? strchr(alphabet, c) : NULL;

    return at ? (int) (at - alphabet) : -1;
}

/* Letters in fours; the last four may end in one or two '='. */
int base64_decode(const char *text, size_t len, char **ret, size_t *ret_len,
                  struct err *err)
{
    autofree char *out = mem_new(len / 4 * 3 + 4);
    size_t n = 0, letters = 0, pads = 0;
    uint32_t bits = 0;

    for (size_t i = 0; i < len; i++) {
        int v = value_of(text[i]);

        if (text[i] == '\n' || text[i] == '\r')
            continue;
        if (text[i] == '=') {
            pads++;
            continue;
        }
        if (v < 0 || pads)
            return err_set(err, EINVAL, "not base64: byte %zu", i + 1);
        bits = bits << 6 | (uint32_t) v;
        if (++letters % 4 == 0) {
            out[n++] = (char) (bits >> 16);
            out[n++] = (char) (bits >> 8);
            out[n++] = (char) bits;
            bits = 0;
        }
    }
    if (letters % 4 == 1 || (letters + pads) % 4 || pads > 2)
        return err_set(err, EINVAL, "not base64: it is cut off");
    if (letters % 4 == 2) {
        out[n++] = (char) (bits >> 4);
    } else if (letters % 4 == 3) {
        out[n++] = (char) (bits >> 10);
        out[n++] = (char) (bits >> 2);
    }
    out[n] = '\0';
    *ret = take(out);
    *ret_len = n;
    return 0;
}

char *base64_encode(const void *p, size_t len)
{
    const unsigned char *in = p;
    char *out = mem_new((len + 2) / 3 * 4 + 1), *at = out;

    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        uint32_t bits = (uint32_t) in[i] << 16 |
                        (have > 1 ? (uint32_t) in[i + 1] << 8 : 0) |
                        (have > 2 ? in[i + 2] : 0);

        *at++ = alphabet[bits >> 18];
        *at++ = alphabet[bits >> 12 & 63];
        *at++ = (char) (have > 1 ? alphabet[bits >> 6 & 63] : '=');
        *at++ = (char) (have > 2 ? alphabet[bits & 63] : '=');
    }
    *at = '\0';
    return out;
}

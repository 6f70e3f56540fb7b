#include "base/utf8.h"

#include "base/buf.h"

#include <stdint.h>

static const char replacement[] = "\xef\xbf\xbd";

size_t utf8_size(const char *s, size_t left)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first;
    uint32_t point;
    size_t n;

    if (left == 0)
        return 0;
    first = (unsigned char) s[0];
    if (first < 0x80)
        return 1;
    n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || n > left)
        return 0;
    point = first & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        unsigned char c = (unsigned char) s[i];

        if ((c & 0xc0) != 0x80)
            return 0;
        point = point << 6 | (c & 0x3fu);
    }
    if (point < least[n] || point > 0x10ffff ||
        (point >= 0xd800 && point <= 0xdfff))
        return 0;
    return n;
}

bool utf8_valid(const char *s, size_t len)
{
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_size(s + at, len - at);
        if (n == 0)
            return false;
    }
    return true;
}

char *utf8_clean(const char *s, size_t len)
{
    struct buf out = BUF_INIT(SIZE_MAX / 2);

    for (size_t at = 0; at < len;) {
        size_t n = utf8_size(s + at, len - at);

        (void) buf_add(&out, n ? s + at : replacement,
                       n ? n : sizeof replacement - 1);
        at += n ? n : 1;
    }
    return buf_take(&out);
}

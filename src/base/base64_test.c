#include "base/base64.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static const struct {
    const char *text, *bytes;
    size_t len;
} good[] = {
    { "", "", 0 },
    { "Zg==", "f", 1 },
    { "aGk=", "hi", 2 },
    { "Zm9v", "foo", 3 },
    { "Zm9vYg==", "foob", 4 },
    { "Zm9v\nYmFy\r\n", "foobar", 6 },
    { "AAEC/+8=", "\0\1\2\377\357", 5 },
};

static const char *const bad[] = {
    "Z", "Zg", "Zg=", "Zm9", "Zg===", "====", "=", "Zg==Zg==", "Zm9v Zm9v",
    "Zm9-", "Zm9_", "Zm9\xc3", "Zm9v=",
};

int main(void)
{
    struct err err = { 0 };

    for (size_t i = 0; i < array_size(good); i++) {
        autofree char *got = NULL;
        size_t len = 99;

        ok(base64_decode(good[i].text, strlen(good[i].text), &got, &len,
                         &err) == 0 && len == good[i].len &&
           memcmp(got, good[i].bytes, len) == 0 && got[len] == '\0',
           "%zu bytes", good[i].len);
    }
    for (size_t i = 0; i < array_size(good); i++) {
        autofree char *text = base64_encode(good[i].bytes, good[i].len);

        /* On one line, where it is ours to write. */
        ok(strchr(good[i].text, '\n') || strcmp(text, good[i].text) == 0,
           "and back: %s", text);
    }
    for (size_t i = 0; i < array_size(bad); i++) {
        char *got = NULL;
        size_t len = 99;

        ok(base64_decode(bad[i], strlen(bad[i]), &got, &len, &err) == -EINVAL &&
           !got && len == 99, "'%s' is refused", bad[i]);
    }
    return tap_done();
}

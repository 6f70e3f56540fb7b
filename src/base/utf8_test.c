#include "base/utf8.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static const struct {
    const char *text;
    size_t size;
    const char *what;
} cases[] = {
    { "a",                1, "ASCII" },
    { "\xc3\xa4",         2, "two bytes" },
    { "\xe2\x82\xac",     3, "three bytes" },
    { "\xf0\x9f\x98\x80", 4, "four bytes" },
    { "\xf4\x8f\xbf\xbf", 4, "U+10FFFF" },
    { "\xed\x9f\xbf",     3, "U+D7FF" },
    { "\xee\x80\x80",     3, "U+E000" },
    { "\x80",             0, "a continuation alone" },
    { "\xc3",             0, "two bytes cut off" },
    { "\xe2\x82",         0, "three bytes cut off" },
    { "\xc3" "a",         0, "no continuation" },
    { "\xc0\x80",         0, "overlong NUL" },
    { "\xc1\xbf",         0, "overlong, two bytes" },
    { "\xe0\x9f\xbf",     0, "overlong, three bytes" },
    { "\xf0\x8f\xbf\xbf", 0, "overlong, four bytes" },
    { "\xed\xa0\x80",     0, "a surrogate" },
    { "\xed\xbf\xbf",     0, "the last surrogate" },
    { "\xf4\x90\x80\x80", 0, "past U+10FFFF" },
    { "\xf5\x80\x80\x80", 0, "a first byte past all" },
    { "\xff",             0, "0xff" },
};

int main(void)
{
    autofree char *clean = utf8_clean("a\xff\xc3\xa4\xc3", 5);

    for (size_t i = 0; i < array_size(cases); i++)
        ok(utf8_size(cases[i].text, strlen(cases[i].text)) == cases[i].size,
           "%s: %zu", cases[i].what, cases[i].size);
    ok(utf8_size("", 0) == 0, "nothing is no character");
    ok(utf8_valid("gr\xc3\xbc\xc3\x9f", 6), "a text");
    ok(!utf8_valid("gr\xc3\xbc\xc3\x9f", 5), "a text cut off");
    ok(utf8_valid("", 0), "no text is a text");
    ok(strcmp(clean, "a\xef\xbf\xbd\xc3\xa4\xef\xbf\xbd") == 0,
       "utf8_clean replaces what is none");
    return tap_done();
}

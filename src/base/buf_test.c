#include "base/buf.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static void test_add(void)
{
    autobuf struct buf b = BUF_INIT(1000);

    ok(strcmp(buf_text(&b), "") == 0, "an empty buffer reads as no text");
    ok(buf_str(&b, "abc") && buf_char(&b, 'd') && buf_add(&b, "ef", 2) &&
       buf_printf(&b, "-%d-", 42), "pieces are added");
    ok(b.len == 10 && strcmp(b.data, "abcdef-42-") == 0, "one after another");
    ok(buf_add(&b, NULL, 0) && b.len == 10, "no bytes are no change");
    buf_clear(&b);
    ok(b.len == 0 && strcmp(buf_text(&b), "") == 0, "buf_clear empties");
}

static void test_limit(void)
{
    autobuf struct buf b = BUF_INIT(10);

    ok(buf_str(&b, "0123456789") && !b.over, "a buffer fills to its limit");
    ok(!buf_char(&b, 'x') && b.over, "and no further");
    ok(strcmp(b.data, "0123456789") == 0, "what was there stays");
    buf_drop(&b, 5);
    ok(!buf_char(&b, 'x') && strcmp(b.data, "56789") == 0,
       "nothing is added after what was left out");
    buf_clear(&b);
    ok(!b.over && buf_str(&b, "again"), "buf_clear forgets that");
    ok(!buf_printf(&b, "%s", "longer than ten") && b.over &&
       strcmp(b.data, "again") == 0, "buf_printf adds all or nothing");
    buf_free(&b);
    ok(!b.over && b.max == 10 && buf_str(&b, "x"),
       "after buf_free it is usable again with the same limit");
}

static void test_none(void)
{
    autobuf struct buf b = BUF_INIT(0);

    ok(!buf_char(&b, 'x') && b.over && strcmp(buf_text(&b), "") == 0,
       "a limit of 0 holds nothing");
}

static void test_drop(void)
{
    autobuf struct buf b = BUF_INIT(1 << 20);
    size_t wrong = 0, next = 0;
    char word[16];

    /* A stream: three in, two out, and at last all out. */
    for (unsigned i = 0; i < 3000; i++) {
        (void) buf_printf(&b, "%06u;", i);
        if (i % 3 == 0)
            continue;
        (void) snprintf(word, sizeof word, "%06zu;", next++);
        wrong += strncmp(b.data, word, 7) != 0;
        buf_drop(&b, 7);
    }
    ok(wrong == 0 && b.len == 7000 && strlen(b.data) == b.len,
       "dropping from the front keeps the rest in order");
    while (b.len) {
        (void) snprintf(word, sizeof word, "%06zu;", next++);
        wrong += strncmp(b.data, word, 7) != 0;
        buf_drop(&b, 7);
    }
    ok(wrong == 0 && next == 3000, "to the last");
    ok(b.cap < 64 * 1024, "without the dropped taking room");
}

static void test_full_after_drop(void)
{
    autobuf struct buf b = BUF_INIT(8);

    (void) buf_str(&b, "abcdefgh");
    buf_drop(&b, 1);
    ok(buf_char(&b, 'i') && strcmp(b.data, "bcdefghi") == 0,
       "dropped bytes make room at the limit");
    buf_drop(&b, 7);
    ok(buf_str(&b, "1234567") && strcmp(b.data, "i1234567") == 0,
       "again and again");
}

static void test_take(void)
{
    struct buf b = BUF_INIT(100);
    autofree char *nothing = buf_take(&b);
    autofree char *text = NULL;

    ok(strcmp(nothing, "") == 0, "taking from an empty buffer gives no text");
    (void) buf_str(&b, "hello world");
    buf_drop(&b, 6);
    text = buf_take(&b);
    ok(strcmp(text, "world") == 0 && !b.data && b.len == 0,
       "buf_take hands the bytes out and leaves nothing");
    ok(buf_str(&b, "x"), "the buffer is usable again");
    buf_free(&b);
}

int main(void)
{
    test_add();
    test_limit();
    test_none();
    test_drop();
    test_full_after_drop();
    test_take();
    return tap_done();
}

#include "base/err.h"

#include "base/tap.h"

#include <errno.h>
#include <string.h>

static void test_set(void)
{
    struct err err = { 0 };

    ok(err_set(&err, EINVAL, "lease %s: %d", "a1", 7) == -EINVAL,
       "err_set returns the negative code");
    ok(err.code == EINVAL, "and keeps the positive one");
    ok(strcmp(err.text, "lease a1: 7") == 0, "and the text");
    ok(err_set(NULL, ENOENT, "%s", "x") == -ENOENT, "NULL is allowed");
}

static void test_prefix(void)
{
    struct err err = { 0 };
    int rc = err_set(&err, ENOSPC, "No space left");

    ok(err_prefix(&err, rc, "open '%s'", "/x/y") == -ENOSPC,
       "err_prefix returns what it was given");
    ok(err.code == ENOSPC, "and leaves the code");
    ok(strcmp(err.text, "open '/x/y': No space left") == 0,
       "and puts the context in front");
    ok(err_prefix(NULL, -EIO, "x") == -EIO, "NULL is allowed");
}

static void test_own_text_as_argument(void)
{
    struct err err = { 0 };

    (void) err_set(&err, EIO, "inner");
    (void) err_set(&err, EIO, "outer: %s", err.text);
    ok(strcmp(err.text, "outer: inner") == 0, "err_set may quote the old text");
    (void) err_prefix(&err, -EIO, "<%s>", err.text);
    ok(strcmp(err.text, "<outer: inner>: outer: inner") == 0,
       "so may err_prefix");
}

static void test_long(void)
{
    struct err err = { 0 };
    char text[2000];

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void) err_set(&err, EINVAL, "%s", text);
    ok(strlen(err.text) == sizeof err.text - 1, "a long text is cut off");
    (void) err_prefix(&err, -EINVAL, "here");
    ok(strlen(err.text) == sizeof err.text - 1 &&
       strncmp(err.text, "here: xxx", 9) == 0, "the context survives the cut");
    (void) err_prefix(&err, -EINVAL, "%s", text);
    ok(strlen(err.text) == sizeof err.text - 1 && err.text[0] == 'x',
       "also when the context fills it all");
}

int main(void)
{
    test_set();
    test_prefix();
    test_own_text_as_argument();
    test_long();
    return tap_done();
}

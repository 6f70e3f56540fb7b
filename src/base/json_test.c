#include "base/json.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static int read_text(const char *text, json_t **ret, struct err *err)
{
    return json_read(text, strlen(text), 1 << 20, ret, err);
}

static const struct {
    const char *text;
    const char *says;        /* part of the error */
} bad[] = {
    { "", "line 1" },
    { "{", "line 1, column 1" },
    { "{} {}", "end of file" },
    { "{\"a\":1,\"a\":2}", "duplicate" },
    { "{\n\"a\":\n}", "line 3" },
    { "{\"a\":\"\xff\"}", "decode" },
    { "{\"a\":\"\xed\xa0\x80\"}", "decode" },
    { "{\"a\":99999999999999999999}", "integer" },
    { "{'a':1}", "line 1" },
    { "{\"a\":1,}", "line 1" },
    { "[1 2]", "line 1" },
    { "nul", "line 1" },
    { "{\"a\\u0000b\":1}", "NUL" },
    { "{\"a\":NaN}", "line 1" },
    { "// comment\n{}", "line 1" },
};

static void test_refused(void)
{
    for (size_t i = 0; i < array_size(bad); i++) {
        struct err err = { 0 };
        json_t *j = NULL;
        int rc = read_text(bad[i].text, &j, &err);

        ok(rc == -EINVAL && !j && strcasestr(err.text, bad[i].says),
           "case %zu is refused: %s", i, err.text);
        json_decref(j);
    }
}

/* n arrays in each other, or n objects. */
static int read_nested(int n, const char *open, const char *mid,
                       const char *close, struct err *err)
{
    autobuf struct buf b = BUF_INIT(1 << 20);
    autojson json_t *j = NULL;

    for (int i = 0; i < n; i++)
        (void) buf_str(&b, open);
    (void) buf_str(&b, mid);
    for (int i = 0; i < n; i++)
        (void) buf_str(&b, close);
    return json_read(b.data, b.len, b.max, &j, err);
}

static void test_limits(void)
{
    struct err err = { 0 };
    autojson json_t *j = NULL;

    ok(json_read("[1,2]", 5, 5, &j, NULL) == 0, "as many bytes as allowed");
    ok(json_read("[1,2]", 5, 4, &j, &err) == -EFBIG, "one more: %s", err.text);
    ok(read_nested(64, "[", "", "]", NULL) == 0, "64 deep");
    ok(read_nested(65, "[", "", "]", &err) == -EINVAL &&
       strstr(err.text, "deep"), "65 deep: %s", err.text);
    ok(read_nested(64, "{\"a\":", "1", "}", NULL) == 0, "64 objects");
    ok(read_nested(65, "{\"a\":", "1", "}", &err) == -EINVAL, "65 objects");
    ok(read_nested(20000, "[", "", "", &err) == -EINVAL &&
       strstr(err.text, "deep"), "20000 deep and not closed: %s", err.text);
    ok(read_nested(1, "[\"", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                   "[[[[[[[[[[[[[[[[[[[[[[\\\"[[[[{{{{{", "\"]", NULL) == 0,
       "brackets in a text are not depth");
    ok(read_nested(100, "[", "", "],", &err) == -EINVAL, "siblings close");
}

static void test_siblings(void)
{
    autobuf struct buf b = BUF_INIT(1 << 20);
    autojson json_t *j = NULL;

    (void) buf_str(&b, "[0");
    for (int i = 0; i < 1000; i++)
        (void) buf_str(&b, ",[]");
    (void) buf_str(&b, "]");
    ok(json_read(b.data, b.len, b.max, &j, NULL) == 0 &&
       json_array_size(j) == 1001, "many beside each other are not deep");
}

static void test_get(void)
{
    autojson json_t *j = NULL;

    ok(read_text("{\"s\":\"x\",\"n\":5,\"neg\":-1,\"r\":1.5,\"t\":true,"
                 "\"f\":false,\"z\":null}", &j, NULL) == 0, "an object");
    ok(strcmp(json_get_str(j, "s", "-"), "x") == 0, "a text");
    ok(strcmp(json_get_str(j, "n", "-"), "-") == 0, "no text");
    ok(strcmp(json_get_str(j, "gone", "-"), "-") == 0, "an absent text");
    ok(json_get_str(j, "gone", NULL) == NULL, "with NULL for it");
    ok(json_get_u64(j, "n", 9) == 5, "a number");
    ok(json_get_u64(j, "neg", 9) == 9, "a negative number is of wrong type");
    ok(json_get_u64(j, "r", 9) == 9, "so is a fraction");
    ok(json_get_u64(j, "s", 9) == 9, "and a text");
    ok(json_get_number(j, "r") > 1.4 && json_get_number(j, "n") > 4 &&
       json_get_number(j, "s") <= 0 && json_get_number(NULL, "n") <= 0,
       "a number of either kind, or nothing");
    ok(json_get_bool(j, "t", false) && !json_get_bool(j, "f", true),
       "true and false");
    ok(json_get_bool(j, "z", true) && json_get_bool(j, "n", true),
       "what is neither gives the fallback");
    ok(json_get_u64(NULL, "n", 9) == 9, "no object gives the fallback");
}

static void test_put(void)
{
    autojson json_t *o = json_object(), *back = NULL;
    autofree char *text = NULL;

    json_put_str(o, "z", "last?");
    json_put_str(o, "left-out", NULL);
    json_put_u64(o, "a", INT64_MAX);
    json_put_bool(o, "yes", true);
    json_put(o, "list", json_pack("[i,i]", 1, 2));
    json_put_str(o, "bytes", "a\xff" "b");
    json_put_u64(o, "a", 3);
    text = json_text(o);
    ok(strcmp(text, "{\"z\":\"last?\",\"a\":3,\"yes\":true,\"list\":[1,2],"
              "\"bytes\":\"a\xef\xbf\xbd" "b\"}") == 0,
       "compact, in order of adding, bytes that are no text replaced: %s",
       text);
    ok(read_text(text, &back, NULL) == 0 && json_equal(o, back),
       "it reads back as the same");
    free(text);
    text = json_text(json_object_get(o, "a"));
    ok(strcmp(text, "3") == 0, "a single value has a text too");
    free(text);
    json_put(o, "a", json_real(0.1));
    text = json_text(json_object_get(o, "a"));
    ok(strcmp(text, "0.1") == 0, "a tenth is a tenth: %s", text);
    json_put_milli(o, "a", 2000);
    ok(json_get_u64(o, "a", 0) == 2, "2000 thousandths are the integer 2");
    json_put_milli(o, "a", 1250);
    ok(json_is_real(json_object_get(o, "a")) &&
       json_real_value(json_object_get(o, "a")) == 1.25,
       "1250 thousandths are 1.25");
}

int main(void)
{
    test_refused();
    test_limits();
    test_siblings();
    test_get();
    test_put();
    return tap_done();
}

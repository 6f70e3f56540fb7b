#include "net/url.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

/* "part|part?name=value;name=value", to compare with. */
static char *print(const struct url *u)
{
    autobuf struct buf b = BUF_INIT(65536);

    for (size_t i = 0; i < u->nparts; i++)
        (void) buf_printf(&b, "%s%s", i ? "|" : "", u->part[i]);
    for (size_t i = 0; i < u->nargs; i++)
        (void) buf_printf(&b, "%s%s=%s", i ? ";" : "?", u->args[i].name,
                          u->args[i].value);
    return buf_take(&b);
}

static void reads(const char *raw, const char *want)
{
    struct url u = { 0 };
    struct err err = { 0 };
    autofree char *got = NULL;
    int rc = url_parse(raw, &u, &err);

    got = print(&u);
    ok(rc == 0 && strcmp(got, want) == 0, "'%s' is %s (%s)", raw, want, got);
    url_clear(&u);
}

static void refused(const char *raw, const char *name, int code)
{
    struct url u = { .nargs = 77 };
    struct err err = { 0 };
    int rc = url_parse(raw, &u, &err);

    ok(rc == -code && err.code == code && err.text[0], "%s: refused: %s",
       name, err.text);
    ok(u.nargs == 77 && !u.memory, "%s: the result is untouched", name);
}

static void limits(void)
{
    autobuf struct buf b = BUF_INIT(65536);
    struct url u = { 0 };

    (void) buf_str(&b, "/a?");
    for (int i = 0; i < URL_MAX_ARGS; i++)
        (void) buf_printf(&b, "x=%d&", i);
    ok(url_parse(buf_text(&b), &u, NULL) == 0 && u.nargs == URL_MAX_ARGS,
       "as many arguments as there may be");
    url_clear(&u);
    (void) buf_str(&b, "x");
    refused(buf_text(&b), "one more argument", E2BIG);

    buf_clear(&b);
    for (int i = 0; i < URL_MAX_PARTS; i++)
        (void) buf_str(&b, "/p");
    ok(url_parse(buf_text(&b), &u, NULL) == 0 && u.nparts == URL_MAX_PARTS,
       "as many parts as there may be");
    url_clear(&u);
    (void) buf_str(&b, "/p");
    refused(buf_text(&b), "one more part", E2BIG);

    buf_clear(&b);
    (void) buf_char(&b, '/');
    while (b.len < URL_MAX)
        (void) buf_char(&b, 'x');
    ok(url_parse(buf_text(&b), &u, NULL) == 0, "%d bytes", URL_MAX);
    url_clear(&u);
    (void) buf_char(&b, 'x');
    refused(buf_text(&b), "one more byte", ENAMETOOLONG);
}

int main(void)
{
    reads("/", "");
    reads("/v1/workloads", "v1|workloads");
    reads("/v1/workloads/", "v1|workloads|");
    reads("/a%2Fb/c", "a/b|c");
    reads("/x?a=1&b=two+words&c=%41%3d", "x?a=1;b=two words;c=A=");
    reads("/a+b", "a+b");
    reads("/x?p=lr=0.1&p=n=2", "x?p=lr=0.1;p=n=2");
    reads("/x?flag", "x?flag=");
    reads("/x?", "x");
    reads("/x?&&a=1&", "x?a=1");
    reads("/x?=v", "x?=v");
    reads("/%C3%A4", "\xc3\xa4");
    reads("/x?a?b=c?", "x?a?b=c?");

    refused("", "nothing", EINVAL);
    refused("*", "no path", EINVAL);
    refused("http://x/y", "a whole URL", EINVAL);
    refused("/%", "a percent sign alone", EINVAL);
    refused("/%4", "half a number", EINVAL);
    refused("/%zz", "no number", EINVAL);
    refused("/a%00b", "a NUL", EINVAL);
    refused("/a%0ab", "a line break", EINVAL);
    refused("/a?b=%7f", "a control character", EINVAL);
    refused("/%ff", "no UTF-8", EINVAL);
    refused("/%C3", "half a character", EINVAL);
    refused("/x?%ed%a0%80", "a surrogate", EINVAL);
    limits();
    return tap_done();
}

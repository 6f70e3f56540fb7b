#include "base/err.h"
#include "net/http_int.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

/* MHD refuses a head that it cannot read by itself, with a page of its own that
 * cannot be changed.  What it can read it hands over as it came: everything
 * that it may be lenient about is looked at here, so that as much as possible
 * is refused in our words.
 */
struct count {
    unsigned headers, hosts, lengths, encodings;
    bool odd;                          /* a name that none may have */
};

/* RFC 9110, 5.6.2. */
static bool is_token(const char *s)
{
    size_t n = 0;

    while (isascii(s[n]) && (isalnum((unsigned char) s[n]) ||
                             (s[n] && strchr("!#$%&'*+-.^_`|~", s[n]))))
        n++;
    return n > 0 && !s[n];
}

static enum MHD_Result count_header(void *cls, enum MHD_ValueKind kind,
                                    const char *name, const char *value)
{
    struct count *n = cls;

    (void) kind;
    (void) value;
    n->headers++;
    n->hosts += !strcasecmp(name, "Host");
    n->lengths += !strcasecmp(name, "Content-Length");
    n->encodings += !strcasecmp(name, "Transfer-Encoding");
    n->odd |= !is_token(name);
    return MHD_YES;
}

static unsigned headers_check(const struct http_req *r, const char *version,
                              struct err *err)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(
        r->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct count n = { 0 };

    (void) MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, count_header,
                                     &n);
    if (n.headers > HTTP_MAX_HEADERS ||
        (info && info->header_size > HTTP_MAX_HEAD)) {
        (void) err_set(err, E2BIG, "the head has more than %d headers or %d "
                       "bytes", HTTP_MAX_HEADERS, HTTP_MAX_HEAD);
        return 431;
    }
    if (n.odd)
        (void) err_set(err, EINVAL, "the name of a header has a blank "
                       "or another character that it may not have");
    else if (n.lengths + n.encodings > 1)
        (void) err_set(err, EINVAL, "more than one of Content-Length and "
                       "Transfer-Encoding");
    else if (n.hosts > 1 || (!n.hosts && strcmp(version, "HTTP/1.0") != 0))
        (void) err_set(err, EINVAL, "HTTP/1.1 wants one header Host, not %u",
                       n.hosts);
    else
        return 0;
    return 400;
}

unsigned http_head_check(struct http_req *r, const char *version,
                         struct err *err)
{
    unsigned status;
    int rc;

    if (!r->target) {
        (void) err_set(err, ENAMETOOLONG, "URL: longer than %d bytes",
                       URL_MAX);
        return 414;
    }
    status = headers_check(r, version, err);
    if (status)
        return status;
    if (strpbrk(r->target, " \t")) {
        (void) err_set(err, EINVAL, "URL: a blank is written %%20");
        return 400;
    }
    rc = url_parse(r->target, &r->url, err);
    return !rc ? 0 : rc == -E2BIG || rc == -ENAMETOOLONG ? 414 : 400;
}

#include "net/http_int.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <string.h>

static bool common_name(const gnutls_datum_t *der, char *ret, size_t size)
{
    gnutls_x509_crt_t crt;
    size_t len = size;
    bool good;

    if (gnutls_x509_crt_init(&crt) < 0)
        return false;
    good = gnutls_x509_crt_import(crt, der, GNUTLS_X509_FMT_DER) >= 0 &&
           gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                         0, ret, &len) >= 0 &&
           /* a NUL inside would make two names of one */
           strlen(ret) == len;
    gnutls_x509_crt_deinit(crt);
    return good;
}

void http_tls_subject(struct MHD_Connection *c, char *ret, size_t size)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    const gnutls_datum_t *list;
    gnutls_session_t session;
    unsigned count = 0, status = 1;

    ret[0] = '\0';
    if (!info || !info->tls_session)
        return;
    session = info->tls_session;
    list = gnutls_certificate_get_peers(session, &count);
    if (!list || !count)
        return;
    if (gnutls_certificate_verify_peers2(session, &status) < 0 || status)
        return;
    if (!common_name(&list[0], ret, size))
        ret[0] = '\0';
}

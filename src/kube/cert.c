#include "kube/cert.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <string.h>

int cert_until(const char *pem, uint64_t *ret_wall_ms)
{
    gnutls_datum_t data = { (unsigned char *) (uintptr_t) pem,
                            (unsigned) strlen(pem) };
    gnutls_x509_crt_t crt;
    time_t until = -1;

    if (gnutls_x509_crt_init(&crt) < 0)
        return -EINVAL;
    if (gnutls_x509_crt_import(crt, &data, GNUTLS_X509_FMT_PEM) == 0)
        until = gnutls_x509_crt_get_expiration_time(crt);
    gnutls_x509_crt_deinit(crt);
    if (until < 0)
        return -EINVAL;
    *ret_wall_ms = (uint64_t) until * 1000;
    return 0;
}

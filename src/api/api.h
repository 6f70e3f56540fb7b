#pragma once

#include "api/service.h"

struct api;
struct err;
struct loop;

/* api - the HTTP face of the control plane: routes, roles, watchers. */
struct api_conf {
    const char *socket;                /* Unix socket; always there */
    uint32_t socket_mode;              /* 0600: one user; 0666 when root serves
                                          tenants, the uid decides then */
    const char *listen;                /* "127.0.0.1:8443" or NULL: no TCP */
    const char *tls_cert, *tls_key;    /* PEM files; both needed with listen */
    const char *tls_client_ca;         /* PEM or NULL: client certificates are
                                          taken, their CN is a token's id */
};

int api_open(struct loop *l, const struct api_conf *conf,
             const struct service *service, struct api **ret, struct err *err);
/* Answers what is pending with 503 first.  NULL is fine. */
void api_close(struct api *a);
/* Stop taking new requests; those in flight are answered. */
void api_drain(struct api *a);
/* New durable events: wake the watchers, send what shows them. */
void api_durable(struct api *a, uint64_t seq);
/* What was not durable is lost; the service is in trouble and says why. */
void api_failed(struct api *a);
/* The OpenAPI document, as text; static. */
const char *api_openapi(void);

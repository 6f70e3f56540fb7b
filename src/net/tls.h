#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* tls - TLS 1.3, and nothing older, over a connected, non-blocking socket:
 * either end of it.
 *
 * Who dials verifies always: the chain up to the authorities that it was given,
 * their times, and the name or address that it dials.  Who listens asks for no
 * certificate.  Nothing else is trusted, and nothing is loaded from the
 * machine: no configuration, no module, no certificate.  No session is kept
 * or resumed.
 */
struct tls_end;                        /* what connections of an end share */

/* Texts in PEM form: a certificate and its key. */
int tls_listener(const char *cert, const char *key, struct tls_end **ret,
                 struct err *err);
/* Connections that are there keep the old one; no effect on failure. */
int tls_listener_renew(struct tls_end *e, const char *cert, const char *key,
                       struct err *err);
/* One certificate or more, PEM; `from` says in texts where they are from. */
int tls_dialler(const char *ca, const char *from, struct tls_end **ret,
                struct err *err);
void tls_end_free(struct tls_end *e);  /* NULL is fine; connections stay */

/* One connection.  The descriptor is borrowed.  `name` is whom the other end
 * has to be, a name or an address; NULL for who listens.
 */
struct tls;
int tls_open(struct tls_end *e, int fd, const char *name, struct tls **ret,
             struct err *err);
void tls_free(struct tls *t);          /* says good-bye; NULL is fine */

/* Before anything else, until it is done.  1: it is, 0: more has to come or to
 * leave first, else it failed and the connection is beyond use: -EPIPE when the
 * other end hung up, -EACCES when it is not whom it should be, else -EPROTO.
 */
int tls_shake(struct tls *t, struct err *err);
/* 1: *ret_len bytes were read, 0: nothing now, -EPIPE: the other end hung up,
 * else -errno.
 */
int tls_read(struct tls *t, void *p, size_t size, size_t *ret_len,
             struct err *err);
/* 1: *ret_len bytes were taken, 0: none now, else -errno.  After 0 the same
 * bytes come first in the next call.
 */
int tls_write(struct tls *t, const void *p, size_t len, size_t *ret_len);
/* To shake hands or to read on, the socket has to take something first. */
bool tls_must_write(const struct tls *t);
/* Bytes that the socket has given and taken so far. */
uint64_t tls_came(const struct tls *t);
uint64_t tls_left(const struct tls *t);

/* "tls://HOST:PORT", with an IPv6 address in brackets: what to dial.  *ret_host
 * is without them, at most 253 bytes.
 */
enum { TLS_HOST_SIZE = 254 };
int tls_url(const char *url, char ret_host[TLS_HOST_SIZE], uint16_t *ret_port,
            struct err *err);

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct err;

/* authority - a certificate authority of Weir's own: one key in a folder, and
 * the certificates that it signs for this control plane.
 *
 *     DIR/ca.key    its key (ECDSA P-256), mode 0600
 *     DIR/ca.pem    its certificate, for those who dial: they trust it alone
 *
 * Both are made by the first authority_open.  The certificate holds for 20
 * years and is written again, with the same key and name, when half of that is
 * over: who has the older one goes on with it until its end.  Without its key
 * a certificate is refused, as a new key would shut out everybody who trusts
 * the old one; a key without a certificate gets one.
 */
struct authority;

int authority_open(const char *dir, uint64_t now_ms, struct authority **ret,
                   struct err *err);
void authority_close(struct authority *a);         /* NULL is fine */
const char *authority_path(const struct authority *a);     /* of ca.pem */

/* A certificate for a server that is reached by these names and addresses, and
 * its key, made for it: PEM texts that the caller frees.  It holds from a day
 * ago, for clocks that differ, to 90 days from now.
 */
enum { AUTHORITY_NAMES_MAX = 16 };
int authority_issue(const struct authority *a, uint64_t now_ms,
                    const char *const *names, size_t count, char **ret_cert,
                    char **ret_key, struct err *err);
/* Is it time for the next one, after one issued at that time?  It is, too, where
 * the clock has gone back so far that it does not hold yet, or soon does not.
 */
bool authority_due(uint64_t issued_ms, uint64_t now_ms);

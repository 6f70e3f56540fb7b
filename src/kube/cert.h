#pragma once

#include <stddef.h>
#include <stdint.h>

/* cert - until when a certificate holds.  The first of a PEM text; -EINVAL
 * when it is none.
 */
int cert_until(const char *pem, uint64_t *ret_wall_ms);

#pragma once

#include "control/control_int.h"

/* outside - runners that are not on this machine: the address at which they dial
 * in, with a certificate of Weir's own authority (STATE/tls), which is renewed
 * before it ends.  Without `runners` in the configuration there is nothing, and
 * nothing listens on the network.
 */
int outside_open(struct control *c, struct err *err);
/* After each home_open; at the same port each time. */
int outside_listen(struct control *c, struct err *err);
/* The same where something runs: what cannot be had is tried again until it can. */
void outside_again(struct control *c);
void outside_close(struct control *c);     /* after home_close; repeatable */
/* What runners are told to dial, and the file of the authority that they trust;
 * NULL where nothing is.
 */
const char *outside_url(const struct control *c);
const char *outside_ca(const struct control *c);

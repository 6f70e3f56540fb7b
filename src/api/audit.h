#pragma once

struct api;
struct who;

/* audit - refusals, written to the journal as access.denied.
 *
 * Somebody who hammers at a door must not fill the disk with it: of each
 * caller a few a second are written, with the number of those left out since.
 */
struct audit *audit_new(struct api *a);
void audit_free(struct audit *u);      /* NULL is fine */
/* `what` is method and path, `from` the peer's address. */
void audit_denied(struct audit *u, const struct who *w, const char *what,
                  const char *from, unsigned status);

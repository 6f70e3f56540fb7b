#pragma once

#include "kube/credential.h"

struct config;
struct err;
struct loop;

/* login - the credentials of now: a token as it stands in the kubeconfig, one
 * from a file that somebody renews, or what a program gives.
 *
 * A file is read again after LOGIN_FILE_MS; a program is run again
 * LOGIN_EARLY_MS before what it gave ends.  After the server has refused what
 * we have either is asked anew, but not more often than each LOGIN_AGAIN_MS.
 */
enum {
    LOGIN_FILE_MS = 60000,
    LOGIN_EARLY_MS = 30000,
    LOGIN_AGAIN_MS = 5000,
};

struct login;

/* `conf` is borrowed and outlives the login.  `changed` comes from the loop
 * after login_get has said -EAGAIN: ask again.
 */
struct login *login_open(struct loop *l, const struct config *conf,
                         void (*changed)(void *arg), void *arg);
void login_close(struct login *g);     /* NULL is fine */

/* What there is, good until the loop turns; all of it may be NULL: then the
 * client's certificate, if there is one, must do.  -EAGAIN: a program runs.
 */
int login_get(struct login *g, const struct credential **ret, struct err *err);
/* The server did not take it. */
void login_refused(struct login *g);

#pragma once

#include "engine/wire.h"

struct err;
struct home;
struct loop;

/* home - where runners dial in: the control plane's side of the wire.
 *
 * Listens on a Unix socket inside the state folder (mode 0600).  A runner says
 * hello with its block's id and token; a wrong token, a wrong version or a
 * second runner for a block that has one are refused in one line.  Messages of
 * a block that has said hello come through `message` (hello first); `gone`
 * says that the connection ended.  Calls never wait: what is sent is queued
 * (bounded; a runner that reads nothing for long is cut off) and written from
 * the loop, many messages with one write.
 */
struct home_ops {
    /* Is this token right for this block?  */
    bool (*admit)(const char *block, const char *token, void *arg);
    void (*message)(const char *block, const struct wire_msg *m, void *arg);
    void (*gone)(const char *block, void *arg);
};

int home_open(struct loop *l, const char *socket_path,
              const struct home_ops *ops, void *arg, struct home **ret,
              struct err *err);
void home_close(struct home *h);
/* -ENOTCONN when no runner of that block is here: it will say hello again and
 * the owner settles then.
 */
int home_send(struct home *h, const char *block, const struct wire_msg *m,
              struct err *err);
bool home_connected(const struct home *h, const char *block);

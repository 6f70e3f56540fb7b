#pragma once

#include "engine/wire.h"

struct err;
struct home;
struct loop;
struct tls_end;

/* home - where runners dial in: the control plane's side of the wire.
 *
 * Listens on a Unix socket inside the state folder (mode 0600), and with
 * home_listen on the network, for runners elsewhere, through TLS.  A runner says
 * hello with its block's id and token; a wrong token, a wrong version or a
 * second runner for a block that has one are refused in one line.  Messages of
 * a block that has said hello come through `message` (hello first); `gone`
 * says that the connection ended.  Calls never wait: what is sent is queued
 * and written at the turn's end, many messages with one write, or earlier when
 * it is much.  A runner that reads is never cut off for being slow; one that
 * takes nothing for 30 s is, and one that lets 128 MiB pile up.
 *
 * Only orders are large, and only orders are ever turned away: with 64 MiB
 * queued home_send says -ENOBUFS to them, keeps the connection and everything
 * queued, and says `drained` once the queue is empty.  All other kinds are
 * still taken, in order.
 *
 * From the network anybody may come.  Handshake and hello have 10 s together; a
 * hello has at most 4 MiB, all that have not said it 64 MiB between them, where
 * who has sent most goes; of 256 such connections the oldest makes room for the
 * next.  A network may also go without a word: who is let in is pinged every
 * 15 s, and cut off when nothing came for four times as long, or within 5 s of a
 * ping when somebody else says hello for the same block with its token.  That
 * one is refused, and is let in when it comes again.
 */
struct home_ops {
    /* Is this token right for this block?  */
    bool (*admit)(const char *block, const char *token, void *arg);
    void (*message)(const char *block, const struct wire_msg *m, void *arg);
    void (*gone)(const char *block, void *arg);
    /* Everything queued for this block is written, and since the last call
     * some order was turned away: the owner orders what is still to be ordered
     * again.  Once for any number of -ENOBUFS; from the loop, never from
     * inside home_send; not when the connection ended first (`gone` is said,
     * and the next hello settles).  Orders may be sent from inside of it; when
     * they do not all fit either, it comes again.  May be NULL.
     */
    void (*drained)(const char *block, void *arg);
    /* Somebody was not let in: from where, why, and how many more there were
     * since the last call that were not told of, which is so for all beyond 10
     * within 10 s.  Who connects and hangs up without a byte is nobody.  May be
     * NULL.
     */
    void (*refused)(const char *from, const char *why, unsigned more,
                    void *arg);
};

int home_open(struct loop *l, const char *socket_path,
              const struct home_ops *ops, void *arg, struct home **ret,
              struct err *err);
void home_close(struct home *h);
/* On the network as well, once: "127.0.0.1:8444", port 0 for any; *ret_port is
 * which.  `tls` is borrowed until home_close.
 */
int home_listen(struct home *h, const char *address, struct tls_end *tls,
                uint16_t *ret_port, struct err *err);
/* -ENOTCONN when no runner of that block is here, or this call cut it off: it
 * will say hello again and the owner settles then.  -ENOBUFS: an order that
 * does not fit now, see `drained`.  -EMSGSIZE: longer than a frame may be; it
 * can never be sent, nothing happened.
 */
int home_send(struct home *h, const char *block, const struct wire_msg *m,
              struct err *err);
bool home_connected(const struct home *h, const char *block);

#include "control/outside.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "engine/home.h"
#include "net/authority.h"
#include "net/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

/* The certificate is made at each start and lives in memory alone, so that what
 * it names is always what was asked for; the authority's key is what is kept.
 */
enum {
    LOOK_MS = 3600 * 1000,             /* is it time for the next one? */
    AGAIN_MS = 1000,                   /* to listen, where that failed */
};

struct outside {
    struct authority *authority;
    struct tls_end *tls;
    char *address;                     /* to listen at; with its port, once it
                                        * is known */
    char *url;                         /* what runners dial; NULL: not known */
    char names[2][TLS_HOST_SIZE];
    size_t nnames;
    uint64_t issued_ms;                /* wall clock */
    struct watch *look, *again;
    bool deaf;                         /* that it cannot listen was told */
};

/* ---- names ---- */

static bool anywhere(const char *host)
{
    static const unsigned char mapped[] = {
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff,
    };
    struct in_addr four;
    struct in6_addr six;

    if (inet_pton(AF_INET, host, &four) == 1)
        return four.s_addr == htonl(INADDR_ANY);
    if (inet_pton(AF_INET6, host, &six) != 1)
        return false;
    four.s_addr = htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&six) ||
           (memcmp(&six, mapped, sizeof mapped) == 0 &&
            memcmp(six.s6_addr + sizeof mapped, &four, sizeof four) == 0);
}

/* Is it neither an address nor a name, but what the C library makes one of: "0",
 * "127.1"?  No certificate can be for that.
 */
static bool shortened(const char *host)
{
    struct in_addr four;

    return inet_pton(AF_INET, host, &four) != 1 && inet_aton(host, &four);
}

static char *with_port(const char *address, unsigned port)
{
    const char *colon = strrchr(address, ':');

    return mem_printf("%.*s:%u", colon ? (int) (colon - address) : 0, address,
                      port);
}

static void add_name(struct outside *o, const char *host)
{
    if (anywhere(host) || (o->nnames && strcmp(o->names[0], host) == 0))
        return;
    (void) snprintf(o->names[o->nnames++], TLS_HOST_SIZE, "%s", host);
}

static int read_names(struct outside *o, const struct control_conf *conf,
                      struct err *err)
{
    autofree char *any_port = with_port(conf->runners, 1);
    autofree char *here = mem_printf("tls://%s", any_port);
    char host[TLS_HOST_SIZE];
    uint16_t port;
    int rc = 0;

    if (conf->runners_url)
        rc = tls_url(conf->runners_url, host, &port, err);
    if (rc < 0)
        return rc;
    if (conf->runners_url && (anywhere(host) || shortened(host)))
        return err_set(err, EINVAL, "'%s': that is no address to dial",
                       conf->runners_url);
    if (conf->runners_url)
        add_name(o, host);
    if (tls_url(here, host, &port, NULL) < 0)
        return err_set(err, EINVAL, "runners at '%s': expected ADDRESS:PORT",
                       conf->runners);
    if (shortened(host))
        return err_set(err, EINVAL, "runners at '%s': expected a whole "
                       "address, as 127.0.0.1", conf->runners);
    if (anywhere(host) && !conf->runners_url)
        return err_set(err, EINVAL, "runners at '%s': that is no address to "
                       "dial; --runners-url tls://HOST:PORT says which is",
                       conf->runners);
    add_name(o, host);
    return 0;
}

/* ---- the certificate ---- */

static int issue(struct outside *o, struct err *err)
{
    const char *const names[] = { o->names[0], o->names[1] };
    uint64_t now = clock_wall_ms();
    char *cert = NULL, *key = NULL;
    int rc = authority_issue(o->authority, now, names, o->nnames, &cert, &key,
                             err);

    if (rc == 0)
        rc = o->tls ? tls_listener_renew(o->tls, cert, key, err)
                    : tls_listener(cert, key, &o->tls, err);
    if (rc == 0)
        o->issued_ms = now;
    if (key)
        explicit_bzero(key, strlen(key));
    free(key);
    free(cert);
    return rc;
}

/* Its own certificate is written again here, too, when that is due. */
static int open_authority(struct control *c, struct err *err)
{
    autofree char *dir = mem_printf("%s/tls", c->conf->state_dir);
    struct outside *o = c->outside;
    struct authority *before = o->authority;
    int rc = authority_open(dir, clock_wall_ms(), &o->authority, err);

    if (rc == 0)
        authority_close(before);
    return rc;
}

static void on_look(struct watch *w, void *arg)
{
    struct control *c = arg;
    struct outside *o = c->outside;
    struct err err = { 0 };

    (void) w;
    o->look = loop_timer(c->loop, LOOK_MS, on_look, c);
    if (!authority_due(o->issued_ms, clock_wall_ms()))
        return;
    if (open_authority(c, &err) < 0 || issue(o, &err) < 0)
        log_say(LOG_ERROR, "the certificate that runners see", "error",
                err.text, NULL);
    else
        log_say(LOG_INFO, "runners see a new certificate", NULL);
}

/* ---- open and close ---- */

int outside_open(struct control *c, struct err *err)
{
    const struct control_conf *conf = c->conf;
    struct outside *o;
    int rc;

    if (!conf->runners)
        return 0;
    o = c->outside = mem_new(sizeof *o);
    o->address = mem_str(conf->runners);
    o->url = mem_str(conf->runners_url);
    rc = read_names(o, conf, err);
    if (rc == 0)
        rc = open_authority(c, err);
    if (rc == 0)
        rc = issue(o, err);
    if (rc == 0)
        o->look = loop_timer(c->loop, LOOK_MS, on_look, c);
    return rc;
}

int outside_listen(struct control *c, struct err *err)
{
    struct outside *o = c->outside;
    uint16_t port = 0;
    char *address;
    int rc;

    if (!o)
        return 0;
    rc = home_listen(c->home, o->address, o->tls, &port, err);
    if (rc < 0)
        return err_prefix(err, rc, "for runners");
    address = with_port(o->address, port);
    free(o->address);
    o->address = address;
    if (!o->url)
        o->url = mem_printf("tls://%s", address);
    log_say(LOG_INFO, "runners may dial in", "listen", address, "url", o->url,
            "ca", authority_path(o->authority), NULL);
    return 0;
}

static void on_again(struct watch *w, void *arg)
{
    struct control *c = arg;

    (void) w;
    c->outside->again = NULL;
    outside_again(c);
}

/* Without a home there is trouble, at whose end this is called again. */
void outside_again(struct control *c)
{
    struct outside *o = c->outside;
    struct err err = { 0 };
    int rc;

    if (!o || !c->home)
        return;
    watch_remove(take(o->again));
    rc = outside_listen(c, &err);
    if (rc < 0 && !o->deaf)
        log_say(LOG_ERROR, "runners cannot dial in for now", "error", err.text,
                NULL);
    o->deaf = rc < 0;
    if (rc < 0)
        o->again = loop_timer(c->loop, AGAIN_MS, on_again, c);
}

void outside_close(struct control *c)
{
    struct outside *o = take(c->outside);

    if (!o)
        return;
    watch_remove(o->look);
    watch_remove(o->again);
    tls_end_free(o->tls);
    authority_close(o->authority);
    free(o->address);
    free(o->url);
    free(o);
}

const char *outside_url(const struct control *c)
{
    return c->outside ? c->outside->url : NULL;
}

const char *outside_ca(const struct control *c)
{
    return c->outside ? authority_path(c->outside->authority) : NULL;
}

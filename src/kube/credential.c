#include "kube/credential.h"

#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "kube/object.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static void wipe(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void credential_clear(struct credential *c)
{
    wipe(c->token);
    free(c->cert);
    wipe(c->key);
    *c = (struct credential) { 0 };
}

static int get(const json_t *status, const char *field, char **ret,
               struct err *err)
{
    const json_t *j = json_object_get(status, field);
    const char *s = json_string_value(j);

    if (!j || json_is_null(j) || (s && !*s))
        return 0;
    if (!s || strlen(s) != json_string_length(j))
        return err_set(err, EPROTO, "status.%s: expected a text", field);
    *ret = mem_str(s);
    return 0;
}

static int read_status(const json_t *status, struct credential *c,
                       struct err *err)
{
    autofree char *until = NULL;
    int rc = get(status, "token", &c->token, err);

    if (rc == 0)
        rc = get(status, "clientCertificateData", &c->cert, err);
    if (rc == 0)
        rc = get(status, "clientKeyData", &c->key, err);
    if (rc == 0)
        rc = get(status, "expirationTimestamp", &until, err);
    if (rc == 0 && until) {
        char line[64];

        object_line(until, strlen(until), line, sizeof line);
        rc = clock_parse(line, &c->until_ms, err);
        if (rc < 0)
            return err_prefix(err, rc, "status.expirationTimestamp");
    }
    if (rc < 0)
        return rc;
    if (c->token && c->token[strcspn(c->token, "\r\n")])
        return err_set(err, EPROTO, "status.token: expected one line");
    if (!c->cert != !c->key)
        return err_set(err, EPROTO, "status: a certificate and its key go "
                       "together");
    if (!c->token && !c->cert)
        return err_set(err, EPROTO, "status: neither a token nor a "
                       "certificate");
    return 0;
}

int credential_read(const char *text, size_t len, const char *version,
                    struct credential *ret, struct err *err)
{
    struct credential c = { 0 };
    autojson json_t *o = NULL;
    int rc = object_read(text, len, CREDENTIAL_MAX, &o, err);

    if (rc < 0)
        return rc;
    if (strcmp(json_get_str(o, "kind", ""), "ExecCredential") != 0)
        return err_set(err, EPROTO, "kind: expected ExecCredential");
    if (strcmp(json_get_str(o, "apiVersion", ""), version) != 0)
        return err_set(err, EPROTO, "apiVersion: expected %s", version);
    rc = read_status(json_object_get(o, "status"), &c, err);
    if (rc < 0) {
        credential_clear(&c);
        return rc;
    }
    *ret = c;
    return 0;
}

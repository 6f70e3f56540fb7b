#include "kube/credential.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

#define V1 "client.authentication.k8s.io/v1"
#define HEAD "{\"kind\":\"ExecCredential\",\"apiVersion\":\"" V1 "\""

static int read_one(const char *text, struct credential *c, struct err *err)
{
    return credential_read(text, strlen(text), V1, c, err);
}

static void test_good(void)
{
    struct credential c = { 0 };
    struct err err = { 0 };

    ok(read_one(HEAD ",\"status\":{\"token\":\"t\",\"expirationTimestamp\":"
                "\"2026-11-16T20:00:00Z\"}}", &c, &err) == 0 &&
       strcmp(c.token, "t") == 0 && !c.cert &&
       c.until_ms == UINT64_C(1794859200000), "a token with its end");
    credential_clear(&c);
    ok(read_one(HEAD ",\"spec\":{},\"status\":{\"clientCertificateData\":"
                "\"c\",\"clientKeyData\":\"k\",\"token\":\"\"}}", &c, &err)
       == 0 && strcmp(c.cert, "c") == 0 && strcmp(c.key, "k") == 0 &&
       !c.token && !c.until_ms, "a certificate");
    credential_clear(&c);
    credential_clear(&c);
}

static void test_bad(void)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        { "", "not JSON" },
        { "hello\nworld", "not JSON" },
        { "{}", "kind: expected ExecCredential" },
        { "{\"kind\":\"ExecCredential\",\"apiVersion\":\"v2\"}",
          "apiVersion: expected " V1 },
        { HEAD "}", "neither a token nor a certificate" },
        { HEAD ",\"status\":[]}", "neither a token" },
        { HEAD ",\"status\":{\"token\":7}}", "status.token: expected a text" },
        { HEAD ",\"status\":{\"token\":\"a\\u0000b\"}}", "status.token" },
        { HEAD ",\"status\":{\"token\":\"a\\nb\"}}", "expected one line" },
        { HEAD ",\"status\":{\"clientKeyData\":\"k\"}}", "go together" },
        { HEAD ",\"status\":{\"token\":\"t\",\"expirationTimestamp\":"
          "\"soon\"}}", "status.expirationTimestamp: 'soon'" },
        { HEAD ",\"status\":{\"token\":\"t\",\"expirationTimestamp\":"
          "\"so\\non\"}}", "status.expirationTimestamp: 'so on'" },
    };

    for (size_t i = 0; i < array_size(bad); i++) {
        struct credential c = { 0 };
        struct err err = { 0 };

        ok(read_one(bad[i].text, &c, &err) < 0 && !c.token && !c.cert &&
           strstr(err.text, bad[i].says) && !strchr(err.text, '\n'), "%s",
           err.text);
    }
}

int main(void)
{
    test_good();
    test_bad();
    return tap_done();
}

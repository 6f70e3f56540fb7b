#include "engine/devices.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static void good(const char *text, const char *want)
{
    autojson json_t *list = NULL;
    autofree char *got = NULL;
    struct err err = { 0 };

    ok(devices_parse(text, "sim", &list, &err) == 0, "read %s %s", text,
       err.text);
    got = list ? json_text(list) : mem_str("");
    ok(strcmp(got, want) == 0, "gives %s", got);
}

static void bad(const char *text, const char *says)
{
    json_t *list = NULL;
    struct err err = { 0 };

    ok(devices_parse(text, "sim", &list, &err) == -EINVAL && !list &&
       strstr(err.text, says), "refused: '%s': %s", text, err.text);
}

int main(void)
{
    autojson json_t *many = NULL;

    good("none", "[]");
    good("sim:1xH100-80GB",
         "[{\"model\":\"H100\",\"memory\":80000000000}]");
    good("sim:2xRTX-4090-24Gi,1xA100-40GB",
         "[{\"model\":\"RTX-4090\",\"memory\":25769803776},"
         "{\"model\":\"RTX-4090\",\"memory\":25769803776},"
         "{\"model\":\"A100\",\"memory\":40000000000}]");
    ok(devices_parse("sim:4096xH100-80GB", "sim", &many, NULL) == 0 &&
       json_array_size(many) == 4096, "as many as there may be");
    bad("", "expected");
    bad("sim", "expected");
    bad("sim:", "expected");
    bad("nvidia:1xH100-80GB", "expected");
    bad("sim:H100", "expected");
    bad("sim:4xH100", "expected");
    bad("sim:0xH100-80GB", "from 1 to");
    bad("sim:4097xH100-80GB", "from 1 to");
    bad("sim:4096xH100-80GB,1xH100-80GB", "from 1 to");
    bad("sim:-1xH100-80GB", "count");
    bad("sim:1xH100-lots", "memory");
    bad("sim:1xH100-0GB", "");
    bad("sim:1x-80GB", "model");
    bad("sim:1xH 100-80GB", "model");
    bad("sim:1xH100-80GB,", "expected");
    return tap_done();
}

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/kubernetes/guestspec.h"
#include "engine/kubernetes/podstate.h"
#include "kube/object.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define must(cond) do { if (!(cond)) abort(); } while (0)

/* What is not planned says why; what is has all that is needed for it. */
static void check_guest(const json_t *pod)
{
    json_t *o = NULL;
    struct err err = { 0 };
    int rc = guestspec_read(pod, "a,b", "t", &o, &err);

    must(rc <= 0 && (rc == 0) == (o != NULL) && (rc == 0) == !err.text[0]);
    must(!o || json_is_integer(json_object_get(o, "gpus")));
    json_decref(o);
}

/* Any Pod is coming, running or over, and what is over has a cause and one line
 * that says why.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct podstate *s)
{
    must(memchr(s->why, '\0', sizeof s->why));
    must(utf8_valid(s->why, strlen(s->why)) && !strpbrk(s->why, "\r\n"));
    must((s->cause == SPEC_CAUSE_NONE) == !s->why[0]);
    must(s->status >= -64 && s->status < 256);
    must(s->leaving || s->grace_s == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    autojson json_t *o = NULL;
    struct podstate s;

    if (object_read((const char *) data, size, 1 << 20, &o, NULL) < 0)
        return 0;
    podstate_read(o, &s);
    check(&s);
    must(s.kind != PODSTATE_OVER || s.cause != SPEC_CAUSE_NONE);
    podstate_gone(&s);
    check(&s);
    must(s.kind == PODSTATE_OVER && s.cause != SPEC_CAUSE_NONE);
    podstate_read_guest(o, &s);
    check(&s);
    must(s.kind != PODSTATE_OVER || s.cause || s.status == 0);
    podstate_gone(&s);
    must(s.kind == PODSTATE_OVER);
    check_guest(o);
    return 0;
}

#include "base/json.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "engine/kubernetes/podstate.h"
#include "kube/object.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Any Pod is coming, running or over, and what is over has a cause and one line
 * that says why.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static void check(const struct podstate *s)
{
    must(memchr(s->why, '\0', sizeof s->why));
    must(utf8_valid(s->why, strlen(s->why)) && !strpbrk(s->why, "\r\n"));
    must((s->cause == SPEC_CAUSE_NONE) == !s->why[0]);
    must(s->kind != PODSTATE_OVER || s->cause != SPEC_CAUSE_NONE);
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
    podstate_gone(&s);
    check(&s);
    must(s.kind == PODSTATE_OVER);
    return 0;
}

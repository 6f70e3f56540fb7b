#include "api/handlers.h"

#include "api/api_int.h"
#include "base/json.h"
#include "spec/doc.h"
#include "spec/policy_doc.h"

#include <string.h>

/* What the service says about itself. */

void get_healthz(struct call *c)
{
    reply_text(c, 200, "text/plain", "ok\n");
}

void get_readyz(struct call *c)
{
    const char *trouble = c->api->ops->trouble(c->api->arg);

    if (*trouble)                      /* not ready, whatever the reason */
        reply_error(c, 503, "%s", trouble);
    else
        reply_text(c, 200, "text/plain", "ok\n");
}

void get_openapi(struct call *c)
{
    reply_text(c, 200, "application/json", api_openapi());
}

void get_schema(struct call *c)
{
    const char *of = call_arg(c, "of");

    reply_text(c, 200, "application/schema+json",
               of && strcmp(of, "policy") == 0 ? policy_doc_schema() :
               doc_schema());
}

void get_version(struct call *c)
{
    json_t *o = json_object();

    json_put_str(o, "version", WEIR_VERSION);
    json_put_u64(o, "api", 1);
    reply_json(c, 200, o);
}

void get_stat(struct call *c)
{
    reply_json(c, 200, c->api->ops->stat(c->api->arg));
}

#include "api/api.h"

#include "api/route.h"
#include "api/shape.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The OpenAPI document: the rows of the routes and the schemas, put together
 * once.
 */
static json_t *ref(const char *schema)
{
    autofree char *path = mem_printf("#/components/schemas/%s", schema);
    json_t *o = json_object();

    json_put_str(o, "$ref", path);
    return o;
}

static json_t *typed(const char *type)
{
    json_t *o = json_object();

    json_put_str(o, "type", type);
    return o;
}

static json_t *text_schema(const char *pattern, uint64_t min, uint64_t max)
{
    json_t *o = typed("string");

    json_put_str(o, "pattern", pattern);
    if (min)
        json_put_u64(o, "minLength", min);
    if (max)
        json_put_u64(o, "maxLength", max);
    return o;
}

static json_t *words_schema(const char *words)
{
    autofree char *copy = mem_str(words);
    json_t *o = typed("string"), *list = json_array();
    char *rest = copy, *word;

    while ((word = strsep(&rest, " "))) {
        if (*word)
            (void) json_array_append_new(list, json_string(word));
    }
    json_put(o, "enum", list);
    return o;
}

static json_t *fields_schema(const char *name)
{
    json_t *o = typed("array"), *items = typed("string");
    json_t *list = json_array();
    const char *member;
    json_t *shape;

    json_object_foreach(json_object_get(shape_get(name), "properties"),
                        member, shape)
        (void) json_array_append_new(list, json_string(member));
    json_put(items, "enum", list);
    json_put(o, "items", items);
    json_put_u64(o, "minItems", 1);
    return o;
}

static json_t *cursor_schema(void)
{
    json_t *o = text_schema("^[0-9]{1,18}:[0-9]{1,18}$", 0, 0);

    json_put_str(o, "format", "cursor");
    json_put(o, "examples", json_pack("[s]", "0:42"));
    return o;
}

static json_t *arg_schema(const struct arg *a)
{
    json_t *o;

    switch (a->kind) {
    case ARG_COUNT:
    case ARG_NUMBER:
        o = typed("integer");
        json_put(o, "minimum", json_integer(a->kind == ARG_COUNT ?
                                            (json_int_t) a->min :
                                            -(json_int_t) a->max));
        json_put_u64(o, "maximum", a->max);
        return o;
    case ARG_FLAG:
        return words_schema("1 0 true false");
    case ARG_WORD:
        return words_schema(a->words);
    case ARG_CURSOR:
        return cursor_schema();
    case ARG_WORKLOAD:
        return text_schema("^w[1-9][0-9]{0,17}$", 0, 0);
    case ARG_FIELDS:
        return fields_schema(a->words);
    case ARG_PARAM:
        o = typed("array");
        json_put(o, "items",
                 text_schema("^[^=\\x00-\\x1f\\x7f]+=[^\\x00-\\x1f\\x7f]*$",
                             0, 0));
        return o;
    case ARG_TEXT:
    case ARG_NONE:
        break;
    }
    return text_schema("^[^\\x00-\\x1f\\x7f]+$", 1, a->max);
}

static json_t *parameter(const char *name, const char *in, bool required,
                         const char *help, json_t *schema)
{
    json_t *o = json_object();

    json_put_str(o, "name", name);
    json_put_str(o, "in", in);
    json_put_bool(o, "required", required);
    json_put_str(o, "description", help);
    json_put(o, "schema", schema);
    return o;
}

static const char *path_pattern(const struct route *r, const char *name)
{
    if (strcmp(name, "id") == 0)
        return strstr(r->path, "/tokens/") ? "^[0-9a-f]{12}$" :
               "^w[1-9][0-9]{0,17}$";
    return "^[A-Za-z0-9][A-Za-z0-9_.-]{0,126}$";
}

static json_t *parameters(const struct route *r)
{
    json_t *list = json_array();
    const char *at = r->path;

    while ((at = strchr(at, '{'))) {
        size_t len = strcspn(++at, "}");
        autofree char *name = mem_strn(at, len);

        (void) json_array_append_new(
            list, parameter(name, "path", true, NULL,
                            text_schema(path_pattern(r, name), 0, 0)));
    }
    for (const struct arg *a = r->args; a->kind != ARG_NONE; a++) {
        json_t *p = parameter(a->name, "query", false, a->help,
                              arg_schema(a));

        if (a->kind == ARG_FIELDS)     /* with commas, not repeated */
            json_put_bool(p, "explode", false);
        (void) json_array_append_new(list, p);
    }
    if (strcmp(r->id, "submit") == 0 || strcmp(r->id, "retry") == 0)
        (void) json_array_append_new(
            list, parameter("Idempotency-Key", "header", false,
                            "the same key with the same document submits "
                            "once",
                            text_schema("^[!-~]{1,128}$", 0, 0)));
    if (strcmp(r->id, "watch") == 0)
        (void) json_array_append_new(
            list, parameter("Last-Event-ID", "header", false,
                            "as `since`, and before it",
                            cursor_schema()));
    return list;
}

static json_t *content(const char *type, json_t *schema)
{
    json_t *o = json_object(), *media = json_object();

    if (schema)
        json_put(media, "schema", schema);
    json_put(o, type, media);
    return o;
}

static json_t *response(const char *text, json_t *body)
{
    json_t *o = json_object();

    json_put_str(o, "description", text);
    if (body)
        json_put(o, "content", body);
    return o;
}

static json_t *answer(const struct route *r)
{
    if (!r->type)
        return response("Done", NULL);
    if (r->schema)
        return response("Well", content(r->type, ref(r->schema)));
    /* A stream of events is no text to those who read it: OpenAPI 3.1 has no
     * schema for it.
     */
    return response("Well", content(
        r->type, strcmp(r->type, "text/event-stream") ? typed("string")
                                                      : NULL));
}

static const char *error_text(unsigned status)
{
    static const struct {
        unsigned status;
        const char *text;
    } texts[] = {
        { 400, "Not understood" }, { 401, "Who asks is not known" },
        { 403, "Not allowed" }, { 404, "Not there, or not theirs" },
        { 409, "Not possible as things are" },
        { 410, "Gone: read the state anew" }, { 413, "Too large" },
        { 415, "Of a type that is not taken" },
        { 422, "The document has problems" }, { 500, "It failed" },
        { 503, "Not now" }, { 507, "The disk is full" },
    };

    for (size_t i = 0; i < array_size(texts); i++) {
        if (texts[i].status == status)
            return texts[i].text;
    }
    return "Refused";
}

static void put_status(json_t *o, const struct route *r, unsigned status)
{
    char name[12];

    (void) snprintf(name, sizeof name, "%u", status);
    json_put(o, name, status < 300 ? answer(r) :
             response(error_text(status), content("application/problem+json",
                                                  ref("Problem"))));
}

static json_t *responses(const struct route *r)
{
    json_t *o = json_object();

    put_status(o, r, r->status);
    put_status(o, r, 400);
    if (r->role != ROLE_NONE) {
        put_status(o, r, 401);
        put_status(o, r, 403);
    }
    for (const char *e = r->errors; e && *e;) {
        char *end;

        put_status(o, r, (unsigned) strtoul(e, &end, 10));
        e = end + strspn(end, " ");
    }
    json_put(o, "default", response("Refused by the server itself",
                                    content("application/problem+json",
                                            ref("Problem"))));
    return o;
}

static json_t *request_body(const struct route *r)
{
    json_t *o = json_object(), *body;

    if (r->body == BODY_DOCUMENT) {
        body = content("application/yaml", typed("string"));
        (void) json_object_update_new(
            body, content("application/json", ref("Any")));
    } else {
        body = content("application/json", ref(r->body_schema));
    }
    json_put_bool(o, "required", r->body == BODY_DOCUMENT ||
                  json_object_get(shape_get(r->body_schema), "required"));
    json_put(o, "content", body);
    return o;
}

static json_t *operation(const struct route *r)
{
    json_t *o = json_object(), *security = json_array();

    json_put_str(o, "operationId", r->id);
    json_put_str(o, "summary", r->summary);
    json_put_str(o, "x-weir-role", role_name(r->role));
    if (r->role != ROLE_NONE) {
        json_t *scheme = json_object();

        json_put(scheme, "token", json_array());
        (void) json_array_append_new(security, scheme);
        /* On the Unix socket the peer's uid is enough. */
        (void) json_array_append_new(security, json_object());
    }
    json_put(o, "security", security);
    json_put(o, "parameters", parameters(r));
    if (r->body != BODY_NONE)
        json_put(o, "requestBody", request_body(r));
    json_put(o, "responses", responses(r));
    return o;
}

static json_t *paths(void)
{
    json_t *all = json_object();

    for (size_t i = 0; i < routes_count; i++) {
        const struct route *r = &routes[i];
        json_t *path = json_object_get(all, r->path);
        char method[8];

        if (!path) {
            path = json_object();
            json_put(all, r->path, path);
        }
        (void) snprintf(method, sizeof method, "%s",
                        strcmp(r->method, "GET") == 0 ? "get" :
                        strcmp(r->method, "POST") == 0 ? "post" :
                        strcmp(r->method, "PUT") == 0 ? "put" : "delete");
        json_put(path, method, operation(r));
    }
    return all;
}

static json_t *document(void)
{
    json_t *o = json_object(), *info = json_object();
    json_t *components = json_object(), *schemes = json_object();
    json_t *token = typed("http");

    json_put_str(info, "title", "Weir");
    json_put_str(info, "version", WEIR_VERSION);
    json_put_str(info, "description", "An elastic GPU service.");
    json_put_str(token, "scheme", "bearer");
    json_put_str(token, "bearerFormat", "weir_ID_SECRET");
    json_put(schemes, "token", token);
    json_put(components, "securitySchemes", schemes);
    json_put(components, "schemas", json_deep_copy(shape_all()));
    json_put_str(o, "openapi", "3.1.0");
    json_put(o, "info", info);
    json_put(o, "paths", paths());
    json_put(o, "components", components);
    return o;
}

static char *text;

__attribute__((destructor)) static void forget(void)
{
    free(text);
}

const char *api_openapi(void)
{
    if (!text) {
        autojson json_t *o = document();

        text = json_text(o);
    }
    return text;
}

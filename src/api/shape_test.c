#include "api/shape.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

static int check(const char *shape, const char *text, struct err *err)
{
    autojson json_t *v = json_loads(text, JSON_DECODE_ANY, NULL);

    return v ? shape_check(shape_get(shape), v, err) : -EBADMSG;
}

static void good(const char *shape, const char *text)
{
    struct err err = { 0 };

    ok(check(shape, text, &err) == 0, "%s: %s %s", shape, text, err.text);
}

static void bad(const char *shape, const char *text, const char *words)
{
    struct err err = { 0 };

    ok(check(shape, text, &err) == -EINVAL && strcmp(err.text, words) == 0,
       "%s: %s: %s", shape, text, err.text);
}

/* A reference to a schema that is not there would end the program. */
static void references(const json_t *v)
{
    const char *ref = json_string_value(json_object_get(v, "$ref"));
    const char *key;
    json_t *member;
    size_t i;

    if (ref)
        ok(strrchr(ref, '/') && shape_get(strrchr(ref, '/') + 1), "%s is there",
           ref);
    json_object_foreach((json_t *) (intptr_t) v, key, member)
        references(member);
    json_array_foreach(v, i, member)
        references(member);
}

static void settles(void)
{
    autojson json_t *o = json_loads("{\"a\": 3.0, \"b\": 3.5, \"c\": \"x\"}", 0,
                                    NULL);

    shape_settle(o);
    ok(json_is_integer(json_object_get(o, "a")) &&
       json_integer_value(json_object_get(o, "a")) == 3 &&
       json_is_real(json_object_get(o, "b")) &&
       json_is_string(json_object_get(o, "c")), "3.0 becomes 3, 3.5 stays");
}

int main(void)
{
    references(shape_all());

    good("Abort", "{}");
    good("Abort", "{\"task\": \"a\", \"force\": true}");
    bad("Abort", "{\"force\": 1}", "force: expected boolean, not integer");
    bad("Abort", "{\"task\": \"\"}", "task: may not be empty");
    bad("Abort", "{\"forec\": true}",
        "unknown member 'forec'; did you mean 'force'?");
    bad("Abort", "{\"zzzzzz\": true}", "unknown member 'zzzzzz'");
    bad("Abort", "[]", "expected object, not array");
    bad("Abort", "null", "expected object, not null");

    bad("Backup", "{\"file\": \"\"}", "file: may not be empty");
    bad("Backup", "{\"file\": \"/\"}",
        "file: expected a file by its whole path, such as /backup/weir.db");
    good("Backup", "{\"file\": \"/b\"}");

    bad("Release", "{}", "'abort' is missing");
    good("Release", "{\"abort\": false}");

    good("TenantSet", "{\"members\": [\"uid:0\", \"uid:1000\"]}");
    bad("TenantSet", "{\"members\": [\"uid:0\", \"root\"]}",
        "members[1]: expected a user by number, such as uid:1000");
    bad("TenantSet", "{\"members\": [\"uid:01\"]}",
        "members[0]: expected a user by number, such as uid:1000");
    bad("TenantSet", "{\"members\": [\"uid:1\\n\"]}",
        "members[0]: expected a user by number, such as uid:1000");
    bad("TenantSet", "{\"members\": \"uid:1\"}",
        "members: expected array, not string");
    good("TenantSet", "{\"max_gpus\": \"unlimited\"}");
    good("TenantSet", "{\"max_gpus\": 0.5}");
    good("TenantSet", "{\"max_gpus\": 4}");
    bad("TenantSet", "{\"max_gpus\": \"many\"}",
        "max_gpus: expected one of: unlimited");
    bad("TenantSet", "{\"max_gpus\": -1}",
        "max_gpus: expected a number from 0 to 1e+06");
    bad("TenantSet", "{\"max_gpus\": true}",
        "max_gpus: expected number, not boolean");
    bad("TenantSet", "{\"weight\": 0}",
        "weight: expected a number from 1 to 1e+06");
    bad("TenantSet", "{\"weight\": 1.5}",
        "weight: expected integer, not number");

    bad("TenantSet", "{\"budget\": {\"amount\": 5, \"unit\": \"money\", "
        "\"period\": \"0s\"}}", "budget.period: expected day, week, month, "
        "year, or a time such as 90m, 12h, 30d or 2w");

    good("TokenNew", "{\"name\": \"ci\", \"role\": \"user\"}");
    good("TokenNew", "{\"name\": \"ci\", \"role\": \"user\", \"uid\": 3.0}");
    bad("TokenNew", "{\"name\": \"ci\", \"role\": \"user\", \"uid\": 1e300}",
        "uid: expected integer, not number");
    settles();
    bad("TokenNew", "{\"name\": \"ci\", \"role\": \"root\"}",
        "role: expected one of: viewer user operator admin");
    bad("TokenNew", "{\"role\": \"user\"}", "'name' is missing");

    ok(shape_fields_check("Workload", "id,state", NULL) == 0 &&
       shape_fields_check("Workload", "id,,state", NULL) == -EINVAL,
       "fields: names with one comma between");
    return tap_done();
}

#include "gpu/health_rules.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <string.h>

#define DOC(rules) "{\"weir\": 1, \"kind\": \"health\", \"rules\": [" rules "]}"
#define HEAD "\"name\": \"r\", \"action\": \"note\""

static struct health_rules rules;

static void test_shipped(void)
{
    autofree struct health_rules *back = mem_new(sizeof *back);
    autojson json_t *o = NULL, *again = NULL;
    autofree char *text = NULL;
    struct err err = { 0 };

    health_rules_default(&rules);
    o = health_rules_json(&rules);
    text = json_text(o);
    ok(health_rules_read(text, strlen(text), back, &err) == 0,
       "the shipped rules are a document: %s", err.text);
    again = health_rules_json(back);
    ok(json_equal(o, again), "that reads back as the same");
    for (unsigned i = 0; i < rules.n; i++)
        ok(rules.all[i].name[0] && rules.all[i].action > HEALTH_NONE &&
           rules.all[i].action < HEALTH_ACTION_COUNT, "%s",
           rules.all[i].name);
}

/* No XID leads to two different actions at its first sight. */
static void test_classes(void)
{
    static unsigned seen[HEALTH_XID_MAX + 1];

    for (unsigned i = 0; i < rules.n; i++)
        for (unsigned k = 0; rules.all[i].count == 1 &&
                             k < rules.all[i].nxids; k++)
            seen[rules.all[i].xids[k]]++;
    for (unsigned x = 0; x <= HEALTH_XID_MAX; x++)
        if (seen[x] > 1)
            ok(false, "XID %u is in %u classes", x, seen[x]);
    ok(seen[13] == 1 && seen[79] == 1 && seen[94] == 1 && seen[95] == 1,
       "each XID is in one class");
}

static void test_good(void)
{
    static const char *const good[] = {
        DOC(""),
        DOC("{" HEAD ", \"when\": \"lost\"}"),
        DOC("{" HEAD ", \"when\": \"temperature\", \"limit\": 200}"),
        DOC("{" HEAD ", \"when\": \"leak\", \"limit\": \"1.5Gi\","
            " \"clear\": 4096, \"for\": \"1h30m\"}"),
        DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1, 1023],"
            " \"within\": \"30d\", \"count\": 16, \"until\": \"quiet\","
            " \"probation\": \"0s\"}"),
    };

    for (size_t i = 0; i < array_size(good); i++) {
        struct err err = { 0 };

        ok(health_rules_read(good[i], strlen(good[i]), &rules, &err) == 0,
           "good: %.60s%s", good[i], err.text);
    }
    ok(rules.all[0].count == 16 && rules.all[0].probation_ms == 0 &&
       rules.all[0].nxids == 2 && rules.all[0].xids[1] == 1023,
       "the last is as it was written");
}

static void test_wrong(void)
{
    static const struct {
        const char *text, *why;
    } wrong[] = {
        { "", "line 1, column 0: " },
        { "[]", "expected an object with weir, kind and rules, got []" },
        { "{}", "'weir' is missing" },
        { "{\"weir\": 2, \"kind\": \"health\", \"rules\": []}",
          "weir: expected 1, got 2" },
        { "{\"weir\": 1, \"kind\": \"policy\", \"rules\": []}",
          "kind: expected \"health\", got \"policy\"" },
        { "{\"weir\": 1, \"kind\": \"health\", \"rules\": {}}",
          "rules: expected a list of rules" },
        { "{\"weir\": 1, \"kind\": \"health\", \"rules\": [], \"rule\": 1}",
          "\"rule\" is no member of the document; did you mean 'rules'?" },
        { "{\"weir\": 1, \"weir\": 1}", "line 1, column " },
        { "[1 \xc3\xa4\x1b", "line 1, column 4: ']' expected near '??" },
        { DOC("7"), "rules[0]: expected an object with name, when and action,"
          " got 7" },
        { DOC("{}"), "rules[0]: 'when' is missing" },
        { DOC("{\"when\": \"lost\", \"action\": \"note\"}"),
          "rules[0]: 'name' is missing" },
        { DOC("{\"when\": \"lost\", \"name\": \"r\"}"),
          "rules[0]: 'action' is missing" },
        { DOC("{" HEAD ", \"when\": 3}"), "rules[0]: when: expected a"
          " condition such as \"temperature\", got 3" },
        { DOC("{" HEAD ", \"when\": \"temperatures\"}"), "rules[0]: when:"
          " \"temperatures\" is no condition; did you mean 'temperature'?" },
        { DOC("{\"name\": \"r\", \"when\": \"lost\","
              " \"action\": \"cordn\"}"), "rules[0]: action: \"cordn\" is no"
          " action; did you mean 'cordon'?" },
        { DOC("{\"name\": \"r\", \"when\": \"lost\", \"action\": \"none\"}"),
          "rules[0]: action: \"none\" is no action; did you mean 'note'?" },
        { DOC("{\"name\": \"R\", \"when\": \"lost\", \"action\": \"note\"}"),
          "rules[0]: name: expected 1 to 31 of a-z, 0-9 and '-', got \"R\"" },
        { DOC("{\"name\": \"12345678901234567890123456789012\","
              " \"when\": \"lost\", \"action\": \"note\"}"),
          "rules[0]: name: expected 1 to 31" },
        { DOC("{" HEAD ", \"when\": \"lost\"}, {" HEAD
              ", \"when\": \"lost\"}"),
          "rules[1]: name: 'r' is the name of rules[0], too" },
        { DOC("{" HEAD ", \"when\": \"lost\", \"limit\": 1}"),
          "rules[0]: a rule on 'lost' has no 'limit'" },
        { DOC("{" HEAD ", \"when\": \"lost\", \"fors\": \"1s\"}"), "rules[0]:"
          " \"fors\" is no member of a rule; did you mean 'for'?" },
        { DOC("{" HEAD ", \"when\": \"lost\", \"\xc3\xa4\": 1}"),
          "rules[0]: \"\\u00E4\" is no member of a rule" },
        { DOC("{" HEAD ", \"when\": \"temperature\"}"),
          "rules[0]: 'limit' is missing" },
        { DOC("{" HEAD ", \"when\": \"temperature\", \"limit\": 0}"),
          "rules[0]: limit: expected a whole number from 1 to 200, got 0" },
        { DOC("{" HEAD ", \"when\": \"temperature\", \"limit\": \"85\"}"),
          "rules[0]: limit: expected a whole number from 1 to 200, got"
          " \"85\"" },
        { DOC("{" HEAD ", \"when\": \"temperature\", \"limit\": 80,"
              " \"clear\": 81}"),
          "rules[0]: clear: expected at most the limit, 80, got 81" },
        { DOC("{" HEAD ", \"when\": \"leak\", \"limit\": \"1Gb\"}"),
          "rules[0]: limit: expected bytes such as \"512Mi\", at least 1" },
        { DOC("{" HEAD ", \"when\": \"lost\", \"for\": 30}"), "rules[0]: for:"
          " expected a time such as \"30s\", at most 7d, got 30" },
        { DOC("{" HEAD ", \"when\": \"lost\", \"for\": \"8d\"}"), "rules[0]:"
          " for: expected a time such as \"30s\", at most 7d, got \"8d\"" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"within\": \"1h\"}"),
          "rules[0]: 'xids' is missing" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1]}"),
          "rules[0]: 'within' is missing" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": []}"), "rules[0]:"
          " xids: expected a list of 1 to 64 numbers, got []" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1, 2, 1]}"),
          "rules[0]: xids: [2]: 1 is there already" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1024]}"), "rules[0]:"
          " xids: [0]: expected a whole number from 1 to 1023, got 1024" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1],"
              " \"within\": \"0s\"}"), "rules[0]: within: expected a time such"
          " as \"1h\", from 1ms to 30d, got \"0s\"" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1], \"count\": 17}"),
          "rules[0]: count: expected a whole number from 1 to 16, got 17" },
        { DOC("{" HEAD ", \"when\": \"xid\", \"xids\": [1],"
              " \"until\": \"never\"}"), "rules[0]: until: expected \"quiet\""
          " or \"reset\", got \"never\"" },
        { DOC("{" HEAD ", \"when\": \"driver-reload\", \"within\": \"1s\","
              " \"until\": \"reset\"}"),
          "rules[0]: a rule on 'driver-reload' has no 'until'" },
    };

    memset(&rules, 1, sizeof rules);
    for (size_t i = 0; i < array_size(wrong); i++) {
        struct err err = { 0 };

        ok(health_rules_read(wrong[i].text, strlen(wrong[i].text), &rules,
                             &err) == -EINVAL &&
           !strncmp(err.text, wrong[i].why, strlen(wrong[i].why)), "%s",
           err.text);
    }
    ok(rules.n == 0x01010101, "what is wrong leaves no trace");
}

static void test_limits(void)
{
    struct buf b = BUF_INIT(1 << 20);
    struct err err = { 0 };

    (void) buf_str(&b, "{\"weir\": 1, \"kind\": \"health\", \"rules\": [");
    for (unsigned i = 0; i <= HEALTH_RULES; i++)
        (void) buf_printf(&b, "%s{\"name\": \"r%u\", \"when\": \"lost\","
                          " \"action\": \"note\"}", i ? ", " : "", i);
    (void) buf_str(&b, "]}");
    ok(health_rules_read(b.data, b.len, &rules, &err) == -EINVAL &&
       !strcmp(err.text, "rules: 65; at most 64 are allowed"), "%s",
       err.text);
    while (b.len <= HEALTH_DOC_MAX)
        (void) buf_char(&b, ' ');
    ok(health_rules_read(b.data, b.len, &rules, &err) == -EINVAL &&
       strstr(err.text, "at most 65536"), "%s", err.text);
    buf_free(&b);
}

int main(void)
{
    test_shipped();
    test_classes();
    test_good();
    test_wrong();
    test_limits();
    return tap_done();
}

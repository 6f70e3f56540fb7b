#include "gpu/health.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

/* Made-up reports, a look a second unless said otherwise.  What changed is
 * written down as "raised hot move" (the change, the rule, what is in force),
 * one after the other, with the device in front when it is not the first.
 */
enum { GAP_MS = 5000 };

static struct health *h;
static struct node_report *report;
static uint64_t now_ms;
static struct buf said = BUF_INIT(1 << 20);
static struct health_change last;

static void on_change(const struct health_change *c, void *arg)
{
    (void) arg;
    if (said.len)
        (void) buf_str(&said, ", ");
    if (strcmp(c->uuid, "GPU-0") != 0)
        (void) buf_printf(&said, "%s ", c->uuid);
    (void) buf_printf(&said, "%s %s %s", health_kind_name(c->kind),
                      c->rule->name, health_action_name(c->device));
    last = *c;
}

static void say_all(void)
{
    health_look(h, report, now_ms, on_change, NULL);
}

/* What is said in the next `n` looks, each a second after the one before. */
static const char *looks(unsigned n)
{
    buf_clear(&said);
    for (unsigned i = 0; i < n; i++) {
        now_ms += 1000;
        say_all();
        report->nxids = 0;
    }
    return buf_text(&said);
}

static void told(const char *got, const char *want, const char *what)
{
    ok(!strcmp(got, want), "%s", what);
    if (strcmp(got, want) != 0)
        printf("# got '%s'\n# not '%s'\n", got, want);
}

static void set(unsigned i, enum telemetry_field f, uint64_t v)
{
    report->samples[i].has |= UINT64_C(1) << f;
    report->samples[i].value[f] = v;
}

static void unset(unsigned i, enum telemetry_field f)
{
    report->samples[i].has &= ~(UINT64_C(1) << f);
}

static void heat(uint64_t celsius)
{
    set(0, TELEMETRY_TEMPERATURE, celsius);
}

static void state(unsigned i, enum nvml_state s)
{
    report->list.all[i].state = s;
    report->sampled[i] = s == NVML_READY;
}

static void xid(unsigned i, uint64_t number)
{
    struct node_xid *x = &report->xids[report->nxids++];

    *x = (struct node_xid) { .xid = number };
    (void) snprintf(x->uuid, sizeof x->uuid, "GPU-%u", i);
}

static void driver(enum nvml_state s)
{
    report->list.state = s;
    report->list.n = s == NVML_READY || s == NVML_STUCK ? 2 : 0;
    for (unsigned i = 0; i < 2; i++)
        report->sampled[i] = s == NVML_READY &&
                             report->list.all[i].state == NVML_READY;
}

/* Two devices that are well, and the rules of a list. */
static void begin(const char *rules)
{
    autofree struct health_rules *r = mem_new(sizeof *r);
    autofree char *text = mem_printf("{\"weir\": 1, \"kind\": \"health\","
                                     " \"rules\": [%s]}", rules);
    struct err err = { 0 };

    if (health_rules_read(text, strlen(text), r, &err) < 0)
        ok(false, "%s", err.text);
    health_free(h);
    h = health_new(r, GAP_MS);
    free(report);
    report = mem_new(sizeof *report);
    (void) snprintf(report->list.driver, NVML_TEXT, "580.1");
    for (unsigned i = 0; i < 2; i++) {
        (void) snprintf(report->list.all[i].uuid, NVML_TEXT, "GPU-%u", i);
        report->list.all[i].index = i;
        set(i, TELEMETRY_TEMPERATURE, 40);
    }
    driver(NVML_READY);
    now_ms = 1000000;
    (void) looks(1);
}

#define HOT "{\"name\": \"hot\", \"when\": \"temperature\", \"limit\": 85," \
    " \"clear\": 80, \"for\": \"10s\", \"action\": \"alert\"," \
    " \"probation\": \"20s\"}"

static void test_time(void)
{
    begin(HOT);
    heat(84);
    told(looks(100), "", "below the limit nothing is said");
    heat(85);
    told(looks(10), "", "at the limit it must hold for its time");
    told(looks(1), "raised hot alert", "then it is raised");
    ok(last.evidence.value == 85 && last.evidence.limit == 85 &&
       last.evidence.held_ms == 10000, "with value, limit and time");
    ok(!strcmp(last.text, "GPU-0: the temperature: 85 C, limit 85 C, for 10s:"
               " alert"), "and a sentence: %s", last.text);
    told(looks(100), "", "once");
    heat(81);
    told(looks(10), "", "between the two limits it holds on");
    heat(79);
    told(looks(1), "probation hot alert", "below the lower one it does not");
    told(looks(19), "", "the probation is waited for");
    told(looks(1), "cleared hot none", "then it is over");
    heat(84);
    told(looks(50), "", "and must reach the limit again");
    ok(health_action(h, "GPU-1") == HEALTH_NONE &&
       health_action(h, "GPU-9") == HEALTH_NONE, "others are well");
}

static void test_flapping(void)
{
    begin(HOT);
    buf_clear(&said);
    for (unsigned i = 0; i < 50; i++) {
        heat(i % 5 ? 90 : 50);
        now_ms += 1000;
        say_all();
    }
    told(buf_text(&said), "", "a value that flaps is raised by none");
    heat(90);
    told(looks(11), "raised hot alert", "one that stays is");
    heat(50);
    told(looks(11), "probation hot alert", "half of the probation passes");
    heat(90);
    told(looks(1), "", "a sign of it");
    heat(50);
    told(looks(20), "", "starts it anew");
    told(looks(1), "cleared hot none", "all of it");
    heat(90);
    (void) looks(11);
    heat(50);
    (void) looks(15);
    heat(90);
    told(looks(11), "raised hot alert", "a relapse raises it again");
    ok(last.evidence.relapses == 1, "and is counted: %u",
       last.evidence.relapses);
    heat(50);
    told(looks(21), "probation hot alert, cleared hot none",
         "with a whole probation after it");
}

static void test_gaps(void)
{
    begin(HOT);
    heat(90);
    told(looks(6), "", "it holds for 5 s");
    unset(0, TELEMETRY_TEMPERATURE);
    told(looks(100), "", "then nothing is told for 100 s");
    heat(90);
    told(looks(5), "", "which do not count");
    told(looks(1), "raised hot alert", "the 5 s after them do");
    report->sampled[0] = false;
    told(looks(100), "", "without a sample it stays raised");
    report->sampled[0] = true;
    heat(50);
    told(looks(6), "probation hot alert", "5 s of the probation");
    unset(0, TELEMETRY_TEMPERATURE);
    told(looks(100), "", "do not pass while nothing is told");
    heat(50);
    told(looks(15), "", "15 s are left");
    told(looks(1), "cleared hot none", "it is over");
    unset(0, TELEMETRY_TEMPERATURE);
    told(looks(3), "", "a gap that is short");
    heat(90);
    told(looks(11), "raised hot alert", "is none");
}

static void test_clock(void)
{
    begin(HOT);
    heat(90);
    told(looks(2), "", "it holds");
    now_ms += 3600 * 1000;
    told(looks(1), "", "an hour in which nobody looked does not count");
    now_ms -= 7200 * 1000;
    told(looks(9), "", "a clock that went back passes no time");
    now_ms += 7200 * 1000;
    told(looks(20), "raised hot alert", "it is raised after all");
    begin("{\"name\": \"r\", \"when\": \"xid\", \"xids\": [13], \"count\": 2,"
          " \"within\": \"1m\", \"action\": \"note\", \"probation\": \"0s\"}");
    xid(0, 13);
    (void) looks(1);
    now_ms += 3600 * 1000;
    xid(0, 13);
    told(looks(1), "", "events an hour apart are not within a minute");
}

static void test_two_rules(void)
{
    begin(HOT ", {\"name\": \"hotter\", \"when\": \"temperature\","
          " \"limit\": 90, \"for\": \"2s\", \"action\": \"move\","
          " \"probation\": \"5s\"}, {\"name\": \"brake\","
          " \"when\": \"power-brake\", \"action\": \"cordon\","
          " \"probation\": \"60s\"}");
    set(0, TELEMETRY_CLOCK_REASONS, 0);
    heat(86);
    told(looks(11), "raised hot alert", "the weaker rule");
    heat(95);
    told(looks(3), "escalated hotter move", "the stronger one");
    set(0, TELEMETRY_CLOCK_REASONS, 1 << 7);
    told(looks(1), "raised brake move", "one between them changes nothing");
    heat(85);
    told(looks(1), "probation hotter cordon",
         "on probation no more than a cordon is in force");
    told(looks(5), "cleared hotter cordon", "the brake's cordon stays");
    set(0, TELEMETRY_CLOCK_REASONS, 1 << 6);
    told(looks(1), "probation brake cordon", "also on its probation");
    ok(health_penalty(h, "GPU-0") == 1000, "nothing is placed there");
    told(looks(60), "cleared brake alert", "the alert is what is left");
}

static void test_xids(void)
{
    begin("{\"name\": \"app\", \"when\": \"xid\", \"xids\": [13, 31],"
          " \"count\": 3, \"within\": \"10s\", \"action\": \"cordon\","
          " \"probation\": \"5s\"}");
    for (unsigned i = 0; i < 20; i++) {
        xid(0, 13);
        (void) looks(5);
        ok(!said.len, "two in ten seconds are not three");
    }
    told(looks(20), "", "all are forgotten");
    xid(0, 13);
    xid(0, 13);
    xid(0, 48);
    xid(1, 13);
    told(looks(1), "", "those of others do not count");
    xid(0, 31);
    told(looks(1), "raised app cordon", "three are");
    ok(last.evidence.value == 3 && last.evidence.limit == 3 &&
       last.evidence.events == 3, "counted: %llu",
       (unsigned long long) last.evidence.events);
    ok(last.evidence.nxids == 2 && last.evidence.xids[0] == 31 &&
       last.evidence.xids[1] == 13, "and named, the newest first");
    ok(strstr(last.text, "XID 31, 13: 3 within 10s") != NULL, "%s",
       last.text);
    told(looks(8), "", "it holds while they are within the time");
    told(looks(1), "probation app cordon", "and then no more");
    xid(0, 31);
    told(looks(5), "cleared app none", "one more is no relapse of three");
    for (unsigned i = 0; i < 30; i++)
        xid(1, 31);
    told(looks(1), "GPU-1 raised app cordon", "more than are kept");
    ok(last.evidence.events == 30, "are counted: %llu",
       (unsigned long long) last.evidence.events);
}

#define BROKEN "{\"name\": \"broken\", \"when\": \"xid\", \"xids\": [95]," \
    " \"within\": \"2s\", \"until\": \"reset\", \"action\": \"restart\"," \
    " \"probation\": \"5s\"}"

static void test_reset(void)
{
    begin(BROKEN);
    set(0, TELEMETRY_ENERGY, 1000);
    xid(0, 95);
    told(looks(1), "raised broken restart", "an XID that wants a reset");
    told(looks(1000), "", "is not over by time");
    set(0, TELEMETRY_ENERGY, 1001);
    told(looks(10), "", "nor when energy grows");
    set(0, TELEMETRY_ENERGY, 7);
    told(looks(6), "probation broken cordon, cleared broken none",
         "a counter that began anew is a reset");
    xid(0, 95);
    (void) looks(1);
    state(0, NVML_RESET);
    told(looks(3), "", "a device that wants a reset");
    state(0, NVML_READY);
    told(looks(1), "probation broken cordon", "and answers again had one");
    xid(0, 95);
    told(looks(1), "escalated broken restart", "it relapses");
    driver(NVML_NO_DRIVER);
    told(looks(10), "", "the driver is unloaded");
    driver(NVML_READY);
    told(looks(6), "probation broken cordon, cleared broken none",
         "and loaded, which is a reset, too");
    xid(0, 95);
    (void) looks(1);
    driver(NVML_STUCK);
    (void) looks(10);
    driver(NVML_READY);
    told(looks(10), "", "a driver that was stuck was not");
    (void) snprintf(report->list.driver, NVML_TEXT, "590.1");
    told(looks(1), "probation broken cordon", "another driver was loaded");
    begin("{\"name\": \"r\", \"when\": \"xid\", \"xids\": [48],"
          " \"within\": \"1h\", \"until\": \"reset\","
          " \"action\": \"drain\", \"probation\": \"5s\"}");
    xid(0, 48);
    (void) looks(1);
    (void) snprintf(report->list.driver, NVML_TEXT, "590.1");
    told(looks(6), "probation r cordon, cleared r none",
         "what was before a reset counts no more, within its time or not");
}

/* Another health, with what is left of the one that was. */
static void restart(void)
{
    autojson json_t *kept = health_save(h);
    autofree char *text = json_text(kept);
    autojson json_t *back = NULL;
    autofree struct health_rules *r = mem_new(sizeof *r);
    static const char rules[] = "{\"weir\": 1, \"kind\": \"health\","
        " \"rules\": [" HOT ", " BROKEN "]}";
    struct err err = { 0 };

    ok(json_read(text, strlen(text), 1 << 20, &back, &err) == 0 &&
       health_rules_read(rules, strlen(rules), r, &err) == 0, "%s", text);
    health_free(h);
    h = health_new(r, GAP_MS);
    health_restore(h, back);
}

static void test_keep(void)
{
    begin(BROKEN ", {\"name\": \"other\", \"when\": \"power-brake\","
          " \"action\": \"note\"}, " HOT);
    set(0, TELEMETRY_ENERGY, 1000);
    set(0, TELEMETRY_CLOCK_REASONS, 1 << 7);
    heat(90);
    (void) looks(11);
    xid(0, 95);
    told(looks(1), "escalated broken restart", "before the restart");
    restart();
    ok(health_action(h, "GPU-0") == HEALTH_RESTART &&
       health_action(h, "GPU-1") == HEALTH_NONE, "it is in force");
    set(0, TELEMETRY_ENERGY, 1500);
    told(looks(100), "", "and stays so");
    heat(82);
    restart();
    told(looks(10), "", "what was above its limit must be below the lower one");
    heat(50);
    told(looks(1), "probation hot restart", "what is over is over");
    told(looks(10), "", "half of the probation");
    restart();
    told(looks(20), "", "begins anew");
    told(looks(1), "cleared hot restart", "and ends");
    restart();
    set(0, TELEMETRY_ENERGY, 3);
    told(looks(6), "probation broken cordon, cleared broken none",
         "a reset meanwhile is seen");
    xid(0, 95);
    (void) looks(1);
    restart();
    (void) snprintf(report->list.driver, NVML_TEXT, "590.1");
    told(looks(1), "probation broken cordon", "so is another driver");
    xid(0, 95);
    (void) looks(1);
    state(0, NVML_LOST);
    (void) looks(1);
    restart();
    state(0, NVML_READY);
    told(looks(1), "probation broken cordon", "and a device that was lost");
    (void) looks(10);
    xid(0, 95);
    (void) looks(1);
    ok(health_was_reset(h, "GPU-1") == 0 && health_was_reset(h, "") == 0,
       "somebody says so of another");
    told(looks(10), "", "which says nothing of this one");
    ok(health_was_reset(h, "GPU-0") == 1, "somebody says so");
    restart();
    told(looks(6), "probation broken cordon, cleared broken none",
         "and is believed, after the probation");
}

static void test_lost(void)
{
    begin("{\"name\": \"lost\", \"when\": \"lost\", \"action\": \"restart\","
          " \"probation\": \"5s\"}, " HOT);
    heat(90);
    (void) looks(11);
    state(0, NVML_LOST);
    told(looks(1), "escalated lost restart", "a device falls off the bus");
    told(looks(100), "", "for long");
    report->list.all[0] = report->list.all[1];
    report->list.n = 1;
    report->samples[0] = report->samples[1];
    told(looks(10), "", "the driver lists it no more: nothing is known");
    ok(health_action(h, "GPU-0") == HEALTH_RESTART, "what was said stays");
    (void) snprintf(report->list.all[0].uuid, NVML_TEXT, "GPU-1");
    (void) snprintf(report->list.all[1].uuid, NVML_TEXT, "GPU-0");
    report->list.n = 2;
    state(1, NVML_READY);
    set(1, TELEMETRY_TEMPERATURE, 50);
    told(looks(1), "probation lost cordon, probation hot cordon",
         "it is back in another place, and cool");
    driver(NVML_STUCK);
    told(looks(20), "", "with the driver stuck nothing is known of it");
    driver(NVML_READY);
    told(looks(5), "", "so its time does not pass");
    told(looks(1), "cleared lost alert", "before it is well");
}

static void test_fault(void)
{
    begin("{\"name\": \"f\", \"when\": \"fault\", \"action\": \"cordon\","
          " \"probation\": \"2s\"}");
    state(0, NVML_FAULT);
    told(looks(1), "raised f cordon", "the driver answers with an error");
    state(0, NVML_READY);
    told(looks(3), "probation f cordon, cleared f none", "and then does not");
    unset(0, TELEMETRY_TEMPERATURE);
    told(looks(1), "raised f cordon", "no question is answered");
    report->samples[0].has_processes = true;
    told(looks(3), "probation f cordon, cleared f none", "one is");
}

static void test_driver(void)
{
    begin("{\"name\": \"gone\", \"when\": \"driver-gone\", \"for\": \"5s\","
          " \"action\": \"cordon\", \"probation\": \"5s\"},"
          "{\"name\": \"reload\", \"when\": \"driver-reload\","
          " \"within\": \"3s\", \"action\": \"note\","
          " \"probation\": \"0s\"}");
    driver(NVML_NO_DRIVER);
    told(looks(6), "raised gone cordon, GPU-1 raised gone cordon",
         "without a driver every device has the matter");
    driver(NVML_READY);
    told(looks(1), "probation gone cordon, raised reload cordon,"
         " GPU-1 probation gone cordon, GPU-1 raised reload cordon",
         "with the next one it is over");
    told(looks(3), "cleared reload cordon, GPU-1 cleared reload cordon",
         "the note passes");
    told(looks(2), "cleared gone none, GPU-1 cleared gone none", "all of it");
    driver(NVML_STUCK);
    told(looks(6), "raised gone cordon, GPU-1 raised gone cordon",
         "a driver that is stuck is gone, too");
    driver(NVML_READY);
    told(looks(6), "probation gone cordon, GPU-1 probation gone cordon,"
         " cleared gone none, GPU-1 cleared gone none",
         "but was not loaded anew");
}

static void test_memory(void)
{
    begin("{\"name\": \"leak\", \"when\": \"leak\", \"limit\": \"1Gi\","
          " \"for\": \"3s\", \"action\": \"cordon\", \"probation\": \"0s\"},"
          "{\"name\": \"ecc\", \"when\": \"ecc-uncorrected\", \"limit\": 2,"
          " \"action\": \"drain\", \"probation\": \"0s\"},"
          "{\"name\": \"life\", \"when\": \"ecc-uncorrected-life\","
          " \"count\": 3, \"within\": \"1h\", \"action\": \"alert\","
          " \"probation\": \"0s\"}");
    set(0, TELEMETRY_MEMORY_USED, UINT64_C(2) << 30);
    told(looks(10), "", "who cannot tell of processes tells of no leak");
    report->samples[0].has_processes = true;
    report->samples[0].nprocesses = 1;
    told(looks(10), "", "memory of a process is none");
    report->samples[0].nprocesses = 0;
    told(looks(4), "raised leak cordon", "what nobody has is");
    ok(last.evidence.value == UINT64_C(2) << 30, "with the bytes");
    report->samples[0].nprocesses = 2;
    told(looks(1), "cleared leak none", "without a probation it ends at once");
    set(0, TELEMETRY_ECC_UNCORRECTED, 2);
    told(looks(1), "raised ecc drain", "errors since the start");
    set(0, TELEMETRY_ECC_UNCORRECTED, 0);
    told(looks(1), "cleared ecc none", "are over with it");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 100);
    told(looks(5), "", "those of a life count from the first look on");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 102);
    told(looks(5), "", "two more");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 103);
    told(looks(5), "raised life alert", "three more");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 5000);
    told(looks(5), "", "many more");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 1);
    for (unsigned i = 0; i < 3600 && !said.len; i++)
        (void) looks(1);
    told(buf_text(&said), "cleared life none", "an hour later it is over");
    set(0, TELEMETRY_ECC_UNCORRECTED_LIFE, 101);
    told(looks(1), "raised life alert", "a hundred at once");
    ok(last.evidence.events == 100 && last.evidence.value == 16,
       "are counted, and of those within the time the last are");
    report->list.n = 0;
    told(looks(10), "", "without devices nothing is said");
}

static void test_penalty(void)
{
    begin(HOT);
    ok(health_penalty(h, "GPU-0") == 0, "a cool device");
    heat(70);
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 300, "half way to the limit: %u",
       health_penalty(h, "GPU-0"));
    heat(85);
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 600, "at the limit, not raised yet");
    set(0, TELEMETRY_CLOCK_REASONS, 1 << 6);
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 700, "slow");
    set(0, TELEMETRY_CLOCK_REASONS, 1 << 2);
    heat(40);
    set(0, TELEMETRY_POWER_LIMIT, 700000);
    set(0, TELEMETRY_POWER, 665000);
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 100, "near its power limit: %u",
       health_penalty(h, "GPU-0"));
    report->sampled[0] = false;
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 0, "nothing told counts nothing");
    ok(health_penalty(h, "GPU-9") == 0, "nor does who was never seen");
    begin("{\"name\": \"x\", \"when\": \"xid\", \"xids\": [92],"
          " \"within\": \"1h\", \"action\": \"alert\"}");
    xid(0, 92);
    (void) looks(1);
    ok(health_penalty(h, "GPU-0") == 500, "an alert");
}

/* As many other devices as there are places, again and again. */
static void test_many(void)
{
    begin(HOT);
    report->list.n = DEVICE_MAX;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < DEVICE_MAX; i++) {
            (void) snprintf(report->list.all[i].uuid, NVML_TEXT, "GPU-%u-%u",
                            round, i);
            report->sampled[i] = true;
            set(i, TELEMETRY_TEMPERATURE, 40);
        }
        set(31, TELEMETRY_TEMPERATURE, 99);
        (void) looks(11);
        ok(said.len && health_action(h, last.uuid) == HEALTH_ALERT &&
           strstr(last.uuid, "-31"), "%s", buf_text(&said));
    }
    ok(health_action(h, "GPU-0-31") == HEALTH_NONE,
       "the first have made room");
    report->list.all[0].uuid[0] = '\0';
    (void) looks(1);
    ok(!said.len, "one without a name is nobody's");
}

static void test_json(void)
{
    autojson json_t *change = NULL;
    autojson json_t *all = NULL;
    autofree char *text = NULL;
    const json_t *one;

    begin(BROKEN ", " HOT);
    xid(0, 95);
    heat(99);
    (void) looks(4);
    last.at_ms = 5000;
    change = health_change_json(&last);
    text = json_text(change);
    ok(!strcmp(text, "{\"at_ms\":5000,\"uuid\":\"GPU-0\",\"change\":"
       "\"raised\",\"rule\":\"broken\",\"when\":\"xid\",\"action\":"
       "\"restart\",\"in_force\":\"restart\",\"text\":\"GPU-0: XID 95: 1"
       " within 2s: restart\",\"since_ms\":5000,\"evidence\":{\"value\":1,"
       "\"limit\":1,\"within_ms\":2000,\"count\":1,\"for_ms\":0,"
       "\"xids\":[95]}}"), "%s", text);
    all = health_json(h, now_ms);
    one = json_array_get(json_object_get(all, "devices"), 0);
    ok(!strcmp(json_get_str(one, "action", ""), "restart") &&
       json_get_u64(one, "penalty", 0) == 1000, "a device");
    ok(!json_object_get(json_array_get(json_object_get(one, "rules"), 0),
                        "left_ms"), "no time is left of what is raised");
    one = json_array_get(json_object_get(one, "rules"), 1);
    ok(!strcmp(json_get_str(one, "state", ""), "pending") &&
       json_get_u64(one, "left_ms", 0) == 7000, "a rule that is about to be");
    one = json_array_get(json_object_get(all, "devices"), 1);
    ok(json_array_size(json_object_get(one, "rules")) == 0, "one that is well");
}

int main(void)
{
    test_time();
    test_flapping();
    test_gaps();
    test_clock();
    test_two_rules();
    test_xids();
    test_reset();
    test_keep();
    test_lost();
    test_fault();
    test_driver();
    test_memory();
    test_penalty();
    test_many();
    test_json();
    health_free(h);
    free(report);
    buf_free(&said);
    return tap_done();
}

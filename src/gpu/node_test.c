#include "gpu/node.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"
#include "standin/standin.h"

#include <malloc.h>
#include <string.h>
#include <time.h>

/* Against the libnvidia-ml.so.1 of tests/standin, which does what the files of
 * this folder say.
 */
static char folder[] = "/tmp/weir-gpu-XXXXXX";
static uint64_t now_ms = 1000000;

static const char h200[] =
    "model=NVIDIA H200\nmemory=150754820096\nreserved=1000\ncc=9.0\n"
    "numa=1\nmig=0\ntemperature=31\nmemory_temperature=40\npower=77000\n"
    "power_limit=700000\nenergy=5000000000000\nsm_clock=345\n"
    "memory_clock=3201\nreasons=5\necc_corrected=2\necc_uncorrected=0\n"
    "ecc_corrected_life=12\necc_uncorrected_life=3\nremapped=1,2,1,0\n"
    "replays=4\n";

static void put(const char *name, const void *data, size_t len)
{
    autofree char *path = mem_printf("%s/%s", folder, name);
    struct err err = { 0 };

    if (fs_write(path, data, len, 0600, false, &err) < 0)
        ok(false, "%s", err.text);
}

static void drop(const char *name)
{
    autofree char *path = mem_printf("%s/%s", folder, name);

    (void) unlink(path);
}

static void driver(const char *text)
{
    put("driver", text, strlen(text));
}

static void gpu(unsigned i, const char *more)
{
    autofree char *text = mem_printf("uuid=GPU-%u\npci=00000000:1%u:00.0\n"
                                     "%s%s", i, i, h200, more);
    char name[16];

    (void) snprintf(name, sizeof name, "gpu%u", i);
    put(name, text, strlen(text));
}

static const struct node_report *look(struct node *n, unsigned after_ms)
{
    now_ms += after_ms;
    node_look(n, now_ms, now_ms + 1794800000000u);
    return node_report(n);
}

static struct node *two_devices(void)
{
    struct node *n = node_new();

    driver("version=580.1\ncuda=13000\n");
    gpu(0, "nvlinks=4:00000000:11:00.0,2:00000000:99:00.0\nswitch=0\n");
    gpu(1, "nvlinks=4:00000000:10:00.0\nswitch=0\n");
    drop("gpu2");
    (void) look(n, 1);
    return n;
}

static void test_no_driver(void)
{
    struct node *n = node_new();
    const struct node_report *r;

    drop("driver");
    gpu(0, "");
    r = look(n, 1);
    ok(r->list.state == NVML_NO_DRIVER && r->list.n == 0,
       "without a driver: %s", r->list.why);
    ok(strstr(r->list.why, "not loaded") != NULL, "the sentence says so");
    driver("version=580.1\n");
    ok(look(n, 500)->list.state == NVML_NO_DRIVER,
       "a driver is not looked for before the pause is over");
    r = look(n, 500);
    ok(r->list.state == NVML_READY && r->list.n == 1 && r->sampled[0] &&
       !r->list.why[0], "then it is found, and sampled at once");
    node_free(n);
}

static void test_states(void)
{
    static const struct {
        const char *driver, *word;
        enum nvml_state state;
    } cases[] = {
        { "version=580.1\nnvml=570.9\n", "different versions", NVML_MISMATCH },
        { "version=580.1\ndenied=1\n", "no permission", NVML_DENIED },
        { "version=580.1\n", "no device", NVML_NO_DEVICE },
    };

    drop("gpu0");
    for (size_t i = 0; i < array_size(cases); i++) {
        struct node *n = node_new();
        const struct node_report *r;

        driver(cases[i].driver);
        r = look(n, 1);
        ok(r->list.state == cases[i].state &&
           strstr(r->list.why, cases[i].word), "%s: %s",
           nvml_state_name(r->list.state), r->list.why);
        ok(r->list.n == 0, "with no devices");
        node_free(n);
    }
}

static void test_pause(void)
{
    struct node *n = node_new();
    uint64_t all = 0;

    drop("driver");
    (void) look(n, 1);
    for (uint64_t pause = NODE_PAUSE_MS; all < 200000;) {
        (void) look(n, (unsigned) pause);
        all += pause;
        pause = pause * 2 > NODE_PAUSE_MAX_MS ? NODE_PAUSE_MAX_MS : pause * 2;
    }
    driver("version=580.1\n");
    gpu(0, "");
    ok(look(n, NODE_PAUSE_MAX_MS - 1)->list.state == NVML_NO_DRIVER,
       "pauses grow");
    ok(look(n, 1)->list.state == NVML_READY, "to a longest one");
    node_free(n);
}

static void test_inventory(void)
{
    struct node *n = two_devices();
    const struct device_list *l = &node_report(n)->list;
    const struct device *d = &l->all[0];

    ok(l->n == 2 && !strcmp(l->driver, "580.1") && l->cuda == 13000,
       "driver %s, %u devices", l->driver, l->n);
    ok(!strcmp(d->uuid, "GPU-0") &&
       !strcmp(d->model, "NVIDIA H200 (simulated)"), "%s %s", d->uuid,
       d->model);
    ok(d->memory_bytes == 150754820096u && d->cc_major == 9 &&
       d->cc_minor == 0 && d->numa == 1 && d->minor == 0 && d->mig_mode == 0,
       "memory, compute capability, NUMA node, minor, MIG");
    ok(d->near[1] == DEVICE_NEAR_SWITCH &&
       d->near[0] == DEVICE_NEAR_UNKNOWN, "the other is on the same switch");
    ok(d->nvlinks == 6 && d->links[1] == 4 && l->all[1].links[0] == 4,
       "six links, four of them to the other device");
    node_free(n);
}

static void test_mig(void)
{
    struct node *n = node_new();
    const struct device *d;

    driver("version=580.1\n");
    gpu(0, "");
    autofree char *text = mem_printf(
        "uuid=GPU-0\nmodel=A\nmemory=80\nmig=1\nmig0=MIG-a:1:0:40\n"
        "mig3=MIG-b:2:1:20\n");
    put("gpu0", text, strlen(text));
    drop("gpu1");
    d = &look(n, 1)->list.all[0];
    ok(d->mig_mode == 1 && d->nmigs == 2, "MIG is on, with two instances");
    ok(!strcmp(d->migs[1].uuid, "MIG-b") && d->migs[1].gpu_instance == 2 &&
       d->migs[1].compute_instance == 1 && d->migs[1].memory_bytes == 20,
       "the second is %s", d->migs[1].uuid);
    ok(!telemetry_has(&node_report(n)->samples[0], TELEMETRY_UTILISATION),
       "and no utilisation is told of the whole");
    node_free(n);
}

static void test_sample(void)
{
    static const uint64_t want[TELEMETRY_FIELD_COUNT] = {
        [TELEMETRY_UTILISATION] = 0, [TELEMETRY_MEMORY_UTILISATION] = 0,
        [TELEMETRY_MEMORY_USED] = 0,
        [TELEMETRY_MEMORY_FREE] = 150754820096u - 1000,
        [TELEMETRY_MEMORY_RESERVED] = 1000, [TELEMETRY_TEMPERATURE] = 31,
        [TELEMETRY_MEMORY_TEMPERATURE] = 40, [TELEMETRY_POWER] = 77000,
        [TELEMETRY_POWER_LIMIT] = 700000,
        [TELEMETRY_ENERGY] = 5000000000000u, [TELEMETRY_SM_CLOCK] = 345,
        [TELEMETRY_MEMORY_CLOCK] = 3201, [TELEMETRY_CLOCK_REASONS] = 5,
        [TELEMETRY_ECC_CORRECTED] = 2, [TELEMETRY_ECC_UNCORRECTED] = 0,
        [TELEMETRY_ECC_CORRECTED_LIFE] = 12,
        [TELEMETRY_ECC_UNCORRECTED_LIFE] = 3,
        [TELEMETRY_REMAPPED_CORRECTED] = 1,
        [TELEMETRY_REMAPPED_UNCORRECTED] = 2,
        [TELEMETRY_REMAPPED_PENDING] = 1, [TELEMETRY_REMAPPED_FAILED] = 0,
        [TELEMETRY_REPLAYS] = 4,
    };
    struct node *n = two_devices();
    const struct telemetry *t = &node_report(n)->samples[0];

    for (unsigned f = 0; f < TELEMETRY_FIELD_COUNT; f++)
        ok(telemetry_has(t, f) && t->value[f] == want[f], "field %u: %llu", f,
           (unsigned long long) t->value[f]);
    gpu(0, "utilisation=90\n");
    (void) look(n, 1000);
    ok(t->value[TELEMETRY_UTILISATION] == 90, "the next sample is a new one");
    node_free(n);
}

static void test_absent(void)
{
    static const char bare[] = "uuid=GPU-0\nmodel=A\nmemory=80\n";
    struct node *n = node_new();
    const struct telemetry *t;
    autojson json_t *j = NULL;

    drop("gpu1");
    put("gpu0", bare, sizeof bare - 1);
    t = &look(n, 1)->samples[0];
    j = telemetry_json(t);
    ok(node_report(n)->sampled[0] && telemetry_has(t, TELEMETRY_MEMORY_USED),
       "a device that tells little is sampled");
    ok(!telemetry_has(t, TELEMETRY_POWER) &&
       !json_object_get(j, "power_milliwatts") &&
       !telemetry_has(t, TELEMETRY_ECC_UNCORRECTED) &&
       !telemetry_has(t, TELEMETRY_REMAPPED_FAILED),
       "what it does not tell is absent, not zero");
    ok(node_report(n)->list.all[0].numa == -1 &&
       node_report(n)->list.all[0].mig_mode == -1, "also in the inventory");
    node_free(n);
}

static void test_processes(void)
{
    struct standin_proc p = { .version = STANDIN_VERSION, .contexts = 2 };
    struct node *n = two_devices();
    const struct telemetry *t = &node_report(n)->samples[1];
    struct timespec ts;
    char name[32];

    p.used[1] = 4096;
    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    p.busy_until_ns = (uint64_t) (ts.tv_sec + 60) * 1000000000u;
    (void) snprintf(name, sizeof name, "proc/%d", (int) getpid());
    put(name, &p, sizeof p);
    put("proc/999999999", &p, sizeof p);
    now_ms = (uint64_t) time(NULL) * 1000 - 1794800000000u - 5000;
    (void) look(n, 0);
    ok(t->has_processes && t->nprocesses == 1 &&
       t->processes[0].pid == (unsigned) getpid(),
       "the process with a context is told, the dead one is not");
    ok(t->processes[0].has_bytes && t->processes[0].bytes == 4096 &&
       t->processes[0].has_use && t->processes[0].use_percent == 100,
       "with its memory and its utilisation");
    ok(t->value[TELEMETRY_MEMORY_USED] == 4096 &&
       t->value[TELEMETRY_UTILISATION] == 100, "and so is the device");
    ok(node_report(n)->samples[0].has_processes &&
       node_report(n)->samples[0].nprocesses == 0,
       "on the other device is none");
    drop(name);
    drop("proc/999999999");
    node_free(n);
}

static void test_lost(void)
{
    struct node *n = two_devices();
    const struct node_report *r;

    gpu(1, "lost=1\nxid=79\n");
    r = look(n, 1000);
    ok(r->list.state == NVML_READY && r->list.all[1].state == NVML_LOST &&
       !r->sampled[1], "a device is lost: %s", r->list.all[1].why);
    ok(r->nxids == 1 && r->xids[0].xid == 79 &&
       !strcmp(r->xids[0].uuid, "GPU-1"), "its XID comes with its name");
    ok(r->sampled[0], "the other is sampled as before");
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.all[1].state == NVML_LOST &&
       !strcmp(r->list.all[1].uuid, "GPU-1") && r->nxids == 0,
       "asked again, it is still lost and still has its name");
    gpu(1, "");
    ok(look(n, 1000)->list.all[1].state == NVML_LOST,
       "the next time comes after twice the pause");
    r = look(n, 1000);
    ok(r->list.all[1].state == NVML_READY && r->sampled[1] &&
       !r->list.all[1].why[0], "and the device is back");
    node_free(n);
}

static void test_struck_off(void)
{
    struct node *n = two_devices();
    const struct node_report *r;

    drop("gpu1");
    (void) look(n, 1000);
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.n == 2 && r->list.all[1].state == NVML_LOST &&
       !strcmp(r->list.all[1].uuid, "GPU-1") &&
       strstr(r->list.all[1].why, "lists it no more"),
       "a device the driver struck off stays: %s", r->list.all[1].why);
    ok(r->list.all[1].near[0] == DEVICE_NEAR_UNKNOWN &&
       r->list.all[1].nvlinks == 0 && !r->sampled[1],
       "without neighbours and without a sample");
    gpu(1, "");
    r = look(n, 2 * NODE_PAUSE_MS);
    ok(r->list.n == 2 && r->list.all[1].state == NVML_READY && r->sampled[1],
       "and comes back");
    node_free(n);
}

static void test_swapped(void)
{
    struct node *n = two_devices();
    const struct node_report *r;
    static const char other[] = "uuid=GPU-9\nmodel=A\nmemory=80\n";

    driver("version=580.2\n");
    put("gpu0", other, sizeof other - 1);
    drop("gpu1");
    (void) look(n, 1000);
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.n == 3 && !strcmp(r->list.all[0].uuid, "GPU-9") &&
       r->list.all[0].state == NVML_READY, "another device is itself");
    ok(!strcmp(r->list.all[1].uuid, "GPU-0") &&
       r->list.all[1].state == NVML_LOST &&
       !strcmp(r->list.all[2].uuid, "GPU-1") &&
       r->list.all[2].state == NVML_LOST, "those before it are lost");
    node_free(n);
}

static void test_device_states(void)
{
    struct node *n = two_devices();
    const struct node_report *r;

    gpu(0, "reset=1\n");
    r = look(n, 1000);
    ok(r->list.all[0].state == NVML_RESET, "%s", r->list.all[0].why);
    gpu(0, "fault=1\n");
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.all[0].state == NVML_FAULT &&
       strstr(r->list.all[0].why, "999"), "%s", r->list.all[0].why);
    gpu(0, "denied=1\n");
    r = look(n, 2 * NODE_PAUSE_MS);
    ok(r->list.all[0].state == NVML_DENIED, "%s", r->list.all[0].why);
    node_free(n);
}

static void test_reload(void)
{
    struct node *n = two_devices();
    const struct node_report *r;

    drop("driver");
    r = look(n, 1000);
    ok(r->list.state == NVML_NO_DRIVER && r->list.n == 0 && !r->sampled[0],
       "the driver goes away: %s", r->list.why);
    driver("version=590.2\n");
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.state == NVML_READY && r->list.n == 2 && r->sampled[1] &&
       !strcmp(r->list.driver, "590.2"), "another one comes: %s",
       r->list.driver);
    driver("version=600.1\n");
    r = look(n, 1000);
    ok(r->list.state == NVML_MISMATCH, "replaced underneath: %s",
       r->list.why);
    r = look(n, NODE_PAUSE_MS);
    ok(r->list.state == NVML_READY && !strcmp(r->list.driver, "600.1"),
       "opened anew it is well");
    node_free(n);
}

static void test_xids(void)
{
    struct node *n = node_new();
    const struct node_report *r;

    driver("version=580.1\n");
    gpu(0, "xid=13/1\n");
    gpu(1, "");
    r = look(n, 1);
    ok(r->nxids == 0 && r->list.all[0].xids, "what was before is not told");
    gpu(0, "xid=13/2\n");
    gpu(1, "xid=31\n");
    r = look(n, 1000);
    ok(r->nxids == 2 && r->xids[0].xid == 13 && r->xids[1].xid == 31 &&
       !strcmp(r->xids[1].uuid, "GPU-1"), "XIDs of two devices");
    ok(look(n, 1000)->nxids == 0, "are told once");
    node_free(n);
    n = node_new();
    gpu(1, "no_events=1\n");
    r = look(n, 1);
    ok(r->list.all[0].xids && !r->list.all[1].xids && r->sampled[1],
       "a device that tells no events says so and is sampled");
    node_free(n);
}

#ifdef __has_feature
#define SANITIZED __has_feature(address_sanitizer)
#elif defined __SANITIZE_ADDRESS__
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void test_memory(void)
{
    struct node *n = two_devices();
    struct mallinfo2 before;
    struct mallinfo2 after;

    (void) look(n, 1000);
    before = mallinfo2();
    for (int i = 0; i < 100; i++)
        (void) look(n, 1000);
    after = mallinfo2();
    /* Where malloc is another, it counts nothing. */
    ok(before.uordblks == after.uordblks &&
       (before.uordblks > 0 || SANITIZED || getenv("WEIR_VALGRIND")),
       "a hundred looks hold no more memory (%zu bytes)", after.uordblks);
    node_free(n);
}

static void test_json(void)
{
    struct node *n = two_devices();
    autojson json_t *list = device_list_json(&node_report(n)->list);
    autojson json_t *sample = node_sample_json(node_report(n));
    autofree char *one = json_text(json_array_get(
        json_object_get(list, "devices"), 1));
    autojson json_t *reasons = telemetry_reasons_json(0xc1);
    autofree char *names = json_text(reasons);

    ok(!strcmp(one, "{\"index\":1,\"state\":\"ready\",\"uuid\":\"GPU-1\","
               "\"model\":\"NVIDIA H200 (simulated)\","
               "\"memory_bytes\":150754820096,"
               "\"compute_capability\":\"9.0\",\"pci\":\"00000000:11:00.0\","
               "\"minor\":1,\"numa\":1,\"mig\":false,\"xids\":true,"
               "\"nvlinks\":4,"
               "\"near\":[{\"index\":0,\"pcie\":\"switch\",\"nvlinks\":4}]}"),
       "a device reads %s", one);
    ok(json_array_size(json_object_get(sample, "devices")) == 2,
       "a sample has both");
    ok(!strcmp(names, "[\"idle\",\"hardware-thermal\","
               "\"hardware-power-brake\"]"), "clock reasons: %s", names);
    node_free(n);
}

int main(void)
{
    autofree char *proc = NULL;

    if (!mkdtemp(folder) || setenv(STANDIN_VAR, folder, 1) < 0)
        return 1;
    proc = mem_printf("%s/proc", folder);
    ok(fs_mkdir(proc, 0700, NULL) == 0, "a folder");
    test_no_driver();
    test_states();
    test_pause();
    test_inventory();
    test_mig();
    test_sample();
    test_absent();
    test_processes();
    test_lost();
    test_struck_off();
    test_swapped();
    test_device_states();
    test_reload();
    test_xids();
    test_memory();
    test_json();
    ok(fs_remove_tree(folder, NULL) == 0, "and away with it");
    return tap_done();
}

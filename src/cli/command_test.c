#include "cli/command.h"

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <stdlib.h>
#include <string.h>

/* argv is not const, as main has it. */
#define TEXT(s) ((char[]) { s })

static bool makes(const struct command *cmd, const char *want)
{
    struct err err = { 0 };
    autojson json_t *doc = command_document(cmd, &err);
    autofree char *text = doc ? json_text(doc) : mem_str(err.text);

    if (strcmp(text, want) != 0)
        printf("# got: %s\n", text);
    return strcmp(text, want) == 0;
}

static void test_documents(void)
{
    char *simple[] = { TEXT("true"), NULL };
    char *path[] = { TEXT("/usr/bin/my prog!.sh"), TEXT("a b"), NULL };
    char *odd[] = { TEXT("./"), NULL };
    char *braces[] = { TEXT("echo"), TEXT("{{ x }} {{{"), NULL };
    const char *env[] = { "A=1", "B=", "C=x=y", "WEIR_TEST_HERE" };
    struct command all = {
        .argv = simple, .name = "n", .dir = "/d", .gpu_milli = 250,
        .cpu_milli = 2000, .memory = UINT64_C(4) << 30, .ranks = 4,
        .retries = 2, .timeout_ms = 90000, .env = env, .nenv = 4,
    };

    ok(makes(&(struct command) { .argv = simple },
             "{\"weir\":1,\"kind\":\"job\",\"name\":\"true\","
             "\"argv\":[\"true\"]}"), "what is not said is left out");
    ok(makes(&(struct command) { .argv = path },
             "{\"weir\":1,\"kind\":\"job\",\"name\":\"myprog.sh\","
             "\"argv\":[\"/usr/bin/my prog!.sh\",\"a b\"]}"),
       "the name is that of the program, as a name may be");
    ok(makes(&(struct command) { .argv = odd },
             "{\"weir\":1,\"kind\":\"job\",\"name\":\"command\","
             "\"argv\":[\"./\"]}"), "a program without letters");
    ok(makes(&(struct command) { .argv = braces },
             "{\"weir\":1,\"kind\":\"job\",\"name\":\"echo\","
             "\"argv\":[\"echo\",\"{{{{ x }} {{{{{\"]}"),
       "braces arrive as they are");
    (void) setenv("WEIR_TEST_HERE", "h", 1);
    ok(makes(&all,
             "{\"weir\":1,\"kind\":\"job\",\"name\":\"n\","
             "\"argv\":[\"true\"],\"env\":{\"A\":\"1\",\"B\":\"\","
             "\"C\":\"x=y\",\"WEIR_TEST_HERE\":\"h\"},\"dir\":\"/d\","
             "\"gpus\":0.25,\"cpus\":2,\"memory\":\"4Gi\",\"ranks\":4,"
             "\"retries\":2,\"timeout\":\"90s\"}"), "everything");
}

static void test_refusals(void)
{
    char *simple[] = { TEXT("true"), NULL };
    char *bytes[] = { TEXT("\xff"), NULL };
    const char *unset[] = { "WEIR_TEST_NOT_SET" };
    const char *noname[] = { "=1" };
    char *huge[] = { NULL, NULL };

    huge[0] = mem_new((2 << 20) + 1);
    memset(huge[0], 'a', 2 << 20);
    ok(makes(&(struct command) { .argv = simple, .env = unset, .nenv = 1 },
             "--env WEIR_TEST_NOT_SET: not set here; say "
             "WEIR_TEST_NOT_SET=VALUE"), "a variable that is not set here");
    ok(makes(&(struct command) { .argv = simple, .env = noname, .nenv = 1 },
             "--env '=1': expected NAME=VALUE, or NAME to hand on your own"),
       "a variable without name");
    ok(makes(&(struct command) { .argv = bytes }, "'\xff' is not UTF-8"),
       "bytes that are no text");
    ok(makes(&(struct command) { .argv = huge },
             "an argument is longer than 1048576 bytes"), "too long");
    free(huge[0]);
}

int main(void)
{
    test_documents();
    test_refusals();
    return tap_done();
}

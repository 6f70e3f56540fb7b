#include "engine/kubernetes/name.h"

#include "base/mem.h"
#include "base/tap.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

static const char INSTANCE[] = "0123456789abcdef";
static const char RUNNER[] = "lab/n1#w12/3.0#2@1";

static bool is_dns_label(const char *s)
{
    size_t n = strlen(s);

    if (n == 0 || n > 63 || s[0] == '-' || s[n - 1] == '-')
        return false;
    for (; *s; s++)
        if (!islower((unsigned char) *s) && !isdigit((unsigned char) *s) &&
            *s != '-')
            return false;
    return true;
}

static void test_pod(void)
{
    static const struct {
        const char *instance, *pool, *runner;
    } others[] = {
        { "0123456789abcdee", "lab", "lab/n1#w12/3.0#2@1" },
        { INSTANCE, "lab2", "lab/n1#w12/3.0#2@1" },
        { INSTANCE, "lab", "lab/n1#w12/3.0#3@1" },
        { INSTANCE, "lab", "lab/n1#w12/3.0#2@2" },
        { INSTANCE, "lab", "lab/n2#w12/3.0#2@1" },
    };
    char name[NAME_POD], again[NAME_POD];

    name_pod(INSTANCE, "lab", RUNNER, "w12/3.0", name);
    name_pod(INSTANCE, "lab", RUNNER, "w12/3.0", again);
    ok(strcmp(name, again) == 0 && strncmp(name, "weir-w12-3-0-", 13) == 0 &&
       is_dns_label(name), "a pod's name: %s", name);
    for (size_t i = 0; i < array_size(others); i++) {
        name_pod(others[i].instance, others[i].pool, others[i].runner,
                 "w12/3.0", again);
        ok(strcmp(name, again) != 0 && is_dns_label(again),
           "another one is called otherwise: %s", again);
    }
    name_pod(INSTANCE, "lab", RUNNER,
             "w18446744073709551615/4294967295.4294967295", name);
    ok(is_dns_label(name) && strlen(name) <= 63, "the longest key: %s", name);
    name_pod(INSTANCE, "lab", RUNNER, "//", name);
    ok(is_dns_label(name), "one without a letter: %s", name);
}

static void test_block(void)
{
    static const char first[] =
        "gpu-node-17.cluster-of-the-institute.example.org";
    static const char second[] =
        "gpu-node-17.cluster-of-the-institute.example.com";
    char a[NAME_BLOCK], b[NAME_BLOCK], long_pool[NAME_POOL_MAX + 1];

    name_block("lab", "n1", a);
    ok(strcmp(a, "lab/n1") == 0, "a block: %s", a);
    name_block("lab", first, a);
    name_block("lab", second, b);
    ok(strlen(a) == NAME_BLOCK - 1 && strcmp(a, b) != 0 &&
       strncmp(a, "lab/gpu-node-17.", 16) == 0, "cut, and still two: %s", a);
    memset(long_pool, 'p', NAME_POOL_MAX);
    long_pool[NAME_POOL_MAX] = '\0';
    name_block(long_pool, first, a);
    name_block(long_pool, second, b);
    ok(strlen(a) == NAME_BLOCK - 1 && strcmp(a, b) != 0 &&
       strncmp(a + NAME_POOL_MAX, "/gpu-no", 7) == 0,
       "of the longest pool, too: %s", a);
}

static void test_node(void)
{
    char text[254], a[NAME_NODE], b[NAME_NODE];

    memset(text, 'n', 253);
    text[253] = '\0';
    name_node(text, a);
    text[252] = 'm';
    name_node(text, b);
    ok(strlen(a) == NAME_NODE - 1 && strcmp(a, b) != 0, "a long node");
    name_node("n1", a);
    ok(strcmp(a, "n1") == 0, "a short one");
}

static void test_label(void)
{
    static const struct {
        const char *text, *label;
    } cases[] = {
        { "train", "train" }, { "a b/c", "a_b_c" }, { "-x-", "x" },
        { "", "" }, { "@@", "" }, { "x.y_z-1", "x.y_z-1" },
        { "\xc3\xa4rger", "rger" }, { "end\xc3\xa4", "end" },
        { "123456789012345678901234567890123456789012345678901234567890.-_4",
          "123456789012345678901234567890123456789012345678901234567890" },
    };
    char label[NAME_LABEL];

    for (size_t i = 0; i < array_size(cases); i++) {
        name_label(cases[i].text, label);
        ok(strcmp(label, cases[i].label) == 0, "label '%s'", label);
    }
}

int main(void)
{
    test_pod();
    test_block();
    test_node();
    test_label();
    return tap_done();
}

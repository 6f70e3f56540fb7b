#include "kube/fit.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

static json_t *parsed(const char *text)
{
    json_error_t e;
    json_t *o = json_loads(text, 0, &e);

    if (!o)
        printf("# %s: %s\n", e.text, text);
    return o;
}

static const char node_text[] =
    "{'metadata':{'name':'n1','labels':{'gpu':'h100','n':'8','bad':7,"
    "'empty':''}},'spec':{'taints':["
    "{'key':'nvidia.com/gpu','value':'yes','effect':'NoSchedule'},"
    "{'key':'soft','effect':'PreferNoSchedule'}]}}";

static char *quoted(const char *text)
{
    char *s = mem_str(text);

    for (char *p = s; *p; p++)
        if (*p == '\'')
            *p = '"';
    return s;
}

/* A pod with this in its spec; tolerates what the node has unless it says. */
static bool may(const char *rest)
{
    autofree char *node = quoted(node_text);
    autofree char *text = mem_printf("{'spec':{%s%s%s}}", rest,
                                     *rest ? "," : "",
                                     strstr(rest, "tolerations") ? "'x':1" :
                                     "'tolerations':[{'operator':'Exists'}]");
    autofree char *pod = quoted(text);
    json_t *o = parsed(pod), *n = parsed(node), *fit = fit_read(o);
    struct fit_node at = { 0 };
    bool is;

    fit_node_read(n, &at);
    is = fit_may(fit, &at);
    fit_node_clear(&at);
    json_decref(o);
    json_decref(n);
    json_decref(fit);
    return is;
}

static bool needs(const char *term)
{
    autofree char *text = mem_printf(
        "'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuring"
        "Execution':{'nodeSelectorTerms':[%s]}}}", term);

    return may(text);
}

static bool rule(const char *key, const char *op, const char *values)
{
    autofree char *text = mem_printf("{'matchExpressions':[{'key':'%s',"
                                     "'operator':'%s','values':[%s]}]}",
                                     key, op, values);

    return needs(text);
}

static void test_selector(void)
{
    ok(may(""), "nothing is asked");
    ok(may("'nodeSelector':{'gpu':'h100'}"), "a label it has");
    ok(!may("'nodeSelector':{'gpu':'a100'}"), "another value");
    ok(!may("'nodeSelector':{'gpu':'h100','zone':'b'}"), "one it lacks");
    ok(may("'nodeSelector':{'empty':''}"), "an empty value");
    ok(!may("'nodeSelector':{'bad':'7'}"), "a label that is no text is none");
}

static void test_affinity(void)
{
    ok(rule("gpu", "In", "'a100','h100'") && !rule("gpu", "In", "'a100'") &&
       !rule("zone", "In", "'b'"), "In");
    ok(!rule("gpu", "NotIn", "'h100'") && rule("gpu", "NotIn", "'a100'") &&
       rule("zone", "NotIn", "'b'"), "NotIn, also of a label it lacks");
    ok(rule("gpu", "Exists", "") && !rule("zone", "Exists", ""), "Exists");
    ok(!rule("gpu", "DoesNotExist", "") && rule("zone", "DoesNotExist", ""),
       "DoesNotExist");
    ok(rule("n", "Gt", "'7'") && !rule("n", "Gt", "'8'") &&
       rule("n", "Lt", "'9'") && !rule("n", "Lt", "'8'") &&
       !rule("gpu", "Gt", "'1'") && !rule("zone", "Gt", "'1'") &&
       !rule("n", "Gt", "'x'") && !rule("n", "Gt", "'1','2'"), "Gt and Lt");
    ok(!rule("gpu", "Near", "'h100'"), "an operator nobody knows");
    ok(!needs("") && !needs("{}"), "no term, and an empty one, match nothing");
    ok(needs("{'matchFields':[{'key':'metadata.name','operator':'In',"
             "'values':['n1']}]}") &&
       !needs("{'matchFields':[{'key':'metadata.name','operator':'In',"
              "'values':['n2']}]}"), "the name");
    ok(needs("{'matchExpressions':[{'key':'zone','operator':'Exists'}]},"
             "{'matchExpressions':[{'key':'gpu','operator':'Exists'}]}"),
       "one term is enough");
    ok(!needs("{'matchExpressions':[{'key':'zone','operator':'Exists'},"
              "{'key':'gpu','operator':'Exists'}]}"), "all rules of it");
}

static void test_taints(void)
{
    ok(!may("'tolerations':[]"), "a taint keeps away");
    ok(may("'tolerations':[{'key':'nvidia.com/gpu','operator':'Exists'}]"),
       "whoever tolerates its key comes");
    ok(may("'tolerations':[{'key':'nvidia.com/gpu','value':'yes',"
           "'effect':'NoSchedule'}]"), "or its value");
    ok(!may("'tolerations':[{'key':'nvidia.com/gpu','value':'no'}]"),
       "not another value");
    ok(!may("'tolerations':[{'key':'nvidia.com/gpu','operator':'Exists',"
            "'effect':'NoExecute'}]"), "nor another effect");
    ok(!may("'tolerations':[{'key':''}]"), "no key and no Exists is nothing");
}

static void test_same(void)
{
    autofree char *text = quoted(node_text);
    json_t *o = parsed(text), *labels;
    struct fit_node a = { 0 }, b = { 0 }, c = { 0 };

    fit_node_read(o, &a);
    fit_node_read(o, &b);
    labels = json_object_get(json_object_get(o, "metadata"), "labels");
    (void) json_object_set_new(labels, "gpu", json_string("h200"));
    fit_node_read(o, &c);
    ok(fit_node_same(&a, &b) && !fit_node_same(&a, &c), "the same or not");
    fit_node_clear(&a);
    fit_node_clear(&b);
    fit_node_clear(&c);
    json_decref(o);
}

/* Who tolerates all, so many times. */
static bool tolerates(unsigned times)
{
    autofree char *text = quoted(node_text);
    json_t *node = parsed(text), *list = json_array(), *fit;
    json_t *pod = json_pack("{s:{s:o}}", "spec", "tolerations", list);
    struct fit_node at = { 0 };
    bool is;

    for (unsigned i = 0; i < times; i++)
        (void) json_array_append_new(list, json_pack("{s:s}", "operator",
                                                     "Exists"));
    fit_node_read(node, &at);
    fit = fit_read(pod);
    is = fit_may(fit, &at);
    fit_node_clear(&at);
    json_decref(node);
    json_decref(pod);
    json_decref(fit);
    return is;
}

static void test_words(void)
{
    ok(tolerates(FIT_WORDS / 2 - 1) && !tolerates(FIT_WORDS / 2),
       "who has too much to say fits nowhere");
}

int main(void)
{
    test_words();
    test_selector();
    test_affinity();
    test_taints();
    test_same();
    return tap_done();
}

#include "base/err.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/kube.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* bind KUBECONFIG PREFIX PODS NODES - a bare loop that binds pod PREFIX<k> of
 * the namespace default to node n<k mod NODES>, for the rate at which a server
 * takes that.  As many are on the way as our client has connections.
 */
struct bind {
    struct loop *loop;
    struct kube *kube;
    uint64_t left, failed;
    char text[200];                    /* of the last that failed */
};

static void no_head(void *arg)
{
    (void) arg;
}

static int no_bytes(const char *p, size_t n, void *arg, struct err *err)
{
    (void) p;
    (void) n;
    (void) arg;
    (void) err;
    return 0;
}

static void on_done(const struct kube_answer *a, void *arg)
{
    struct bind *b = arg;

    if (a->rc < 0) {
        b->failed++;
        (void) snprintf(b->text, sizeof b->text, "%s", a->text);
    }
    if (--b->left == 0)
        loop_stop(b->loop);
}

static const struct kube_ops ops = {
    .head = no_head, .bytes = no_bytes, .done = on_done,
};

static int start(struct bind *b, const char *pod, const char *node,
                 struct err *err)
{
    autofree char *path = mem_printf("/api/v1/namespaces/default/pods/%s"
                                     "/binding", pod);
    autofree char *text = mem_printf(
        "{\"apiVersion\":\"v1\",\"kind\":\"Binding\",\"metadata\":{\"name\":"
        "\"%s\"},\"target\":{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":"
        "\"%s\"}}", pod, node);
    struct kube_request q = { .method = "POST", .path = path,
                              .type = "application/json", .body = text,
                              .len = strlen(text), .repeats = true };
    struct kube_call *call;

    return kube_start(b->kube, &q, &ops, b, &call, err);
}

static int run(struct bind *b, char **argv, struct err *err)
{
    uint64_t pods = strtoull(argv[3], NULL, 10);
    uint64_t nodes = strtoull(argv[4], NULL, 10);

    for (uint64_t k = 0; k < pods; k++) {
        autofree char *pod = mem_printf("%s%" PRIu64, argv[2], k);
        autofree char *node = mem_printf("n%" PRIu64, k % nodes);
        int rc = start(b, pod, node, err);

        if (rc < 0)
            return rc;
        b->left++;
    }
    return loop_run(b->loop, err);
}

int main(int argc, char **argv)
{
    struct bind b = { 0 };
    struct config *conf = NULL;
    struct err err = { 0 };
    int rc;

    if (argc != 5) {
        (void) fprintf(stderr, "usage: bind KUBECONFIG PREFIX PODS NODES\n");
        return 2;
    }
    rc = config_load(argv[1], NULL, &conf, &err);
    if (rc == 0)
        rc = loop_open(&b.loop, &err);
    if (rc == 0)
        rc = kube_open(b.loop, conf, &b.kube, &err);
    if (rc == 0)
        rc = run(&b, argv, &err);
    if (rc < 0 || b.failed > 0)
        (void) fprintf(stderr, "bind: %" PRIu64 " failed: %s\n", b.failed,
                       rc < 0 ? err.text : b.text);
    kube_close(b.kube);
    loop_close(b.loop);
    config_free(conf);
    return rc < 0 || b.failed > 0;
}

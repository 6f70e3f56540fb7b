/* follow - what a cluster has and what is taken, told line by line.
 *
 *     follow KUBECONFIG [CONTEXT]
 *
 * One JSON object a line: {"listed": "pods"}, {"trouble": TEXT}, {"well":
 * "pods"}; and the sums, for each line on standard input.  Ends with that.
 */
#include "base/err.h"
#include "base/json.h"
#include "base/loop.h"
#include "base/mem.h"
#include "kube/config.h"
#include "kube/inventory.h"
#include "kube/kube.h"
#include "kube/track.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

struct follow {
    struct loop *loop;
    struct kube *kube;
    struct inventory *inventory;
    struct side {
        struct follow *of;
        enum inventory_kind kind;
        const char *name;
        unsigned listed;
        struct track *track;
    } sides[2];
};

static void say(json_t *o)
{
    autofree char *text = json_text(o);

    printf("%s\n", text);
    (void) fflush(stdout);
    json_decref(o);
}

static void on_list(void *arg)
{
    struct side *s = arg;

    inventory_list(s->of->inventory, s->kind);
}

static void on_listed(void *arg)
{
    struct side *s = arg;

    s->listed++;
    inventory_listed(s->of->inventory, s->kind);
    say(json_pack("{s:s}", "listed", s->name));
}

static int on_put(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;

    return inventory_put(s->of->inventory, s->kind, object, err);
}

static int on_gone(const json_t *object, void *arg, struct err *err)
{
    struct side *s = arg;

    return inventory_drop(s->of->inventory, s->kind, object, err);
}

static void on_trouble(const char *text, void *arg)
{
    (void) arg;
    say(json_pack("{s:s}", "trouble", text));
}

static void on_well(void *arg)
{
    struct side *s = arg;

    say(json_pack("{s:s}", "well", s->name));
}

static const struct track_ops track_ops = {
    .list = on_list, .listed = on_listed, .put = on_put, .gone = on_gone,
    .odd = on_trouble, .trouble = on_trouble, .well = on_well,
};

static void say_sums(const struct follow *f)
{
    json_t *o = json_object();
    struct inventory_sum s;
    struct rusage use;

    (void) getrusage(RUSAGE_SELF, &use);
    inventory_total(f->inventory, &s);
    json_put_u64(o, "nodes", s.nodes);
    json_put_u64(o, "closed", s.closed);
    json_put_u64(o, "pods", s.pods);
    json_put_u64(o, "waiting", s.waiting);
    json_put_u64(o, "cpu_milli", s.taken.cpu_milli);
    json_put_u64(o, "gpus", resources_count(&s.has, "nvidia.com/gpu"));
    json_put_u64(o, "taken", resources_count(&s.taken, "nvidia.com/gpu"));
    json_put_u64(o, "lists", f->sides[0].listed + f->sides[1].listed);
    json_put_u64(o, "sent", kube_sent(f->kube));
    json_put_u64(o, "rss_kib", (uint64_t) use.ru_maxrss);
    json_put_u64(o, "cpu_ms",
                 (uint64_t) (use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
                 (uint64_t) (use.ru_utime.tv_usec + use.ru_stime.tv_usec) /
                 1000);
    say(o);
    resources_clear(&s.has);
    resources_clear(&s.taken);
}

static void on_input(struct watch *w, int fd, unsigned ready, void *arg)
{
    struct follow *f = arg;
    char bytes[256];
    ssize_t n = read(fd, bytes, sizeof bytes);

    (void) w;
    (void) ready;
    if (n <= 0)
        loop_stop(f->loop);
    for (ssize_t i = 0; i < n; i++)
        if (bytes[i] == '\n')
            say_sums(f);
}

static int run(struct follow *f, const struct config *conf, struct err *err)
{
    struct watch *input = NULL;
    int rc = kube_open(f->loop, conf, &f->kube, err);

    if (rc < 0)
        return rc;
    f->inventory = inventory_new();
    f->sides[0] = (struct side) { f, INVENTORY_NODE, "nodes", 0, NULL };
    f->sides[1] = (struct side) { f, INVENTORY_POD, "pods", 0, NULL };
    f->sides[0].track = track_open(f->kube, "nodes", "/api/v1/nodes", "",
                                   &track_ops, &f->sides[0]);
    f->sides[1].track = track_open(f->kube, "pods", "/api/v1/pods", "",
                                   &track_ops, &f->sides[1]);
    rc = loop_fd(f->loop, STDIN_FILENO, LOOP_READ, on_input, f, &input, err);
    if (rc == 0)
        rc = loop_run(f->loop, err);
    watch_remove(input);
    track_close(f->sides[0].track);
    track_close(f->sides[1].track);
    kube_close(f->kube);
    inventory_free(f->inventory);
    return rc;
}

int main(int argc, char **argv)
{
    struct follow f = { 0 };
    struct config *conf = NULL;
    struct err err = { 0 };
    int rc;

    if (argc < 2 || argc > 3) {
        (void) fprintf(stderr, "usage: follow KUBECONFIG [CONTEXT]\n");
        return 2;
    }
    rc = config_load(argv[1], argv[2], &conf, &err);
    if (rc == 0)
        rc = loop_open(&f.loop, &err);
    if (rc == 0)
        rc = run(&f, conf, &err);
    if (rc < 0)
        say(json_pack("{s:s}", "failed", err.text));
    loop_close(f.loop);
    config_free(conf);
    return rc < 0;
}

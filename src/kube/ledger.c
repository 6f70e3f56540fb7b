#include "kube/ledger_int.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/quantity.h"
#include "kube/node.h"
#include "kube/object.h"
#include "kube/pod.h"
#include "kube/tally.h"

#include <string.h>

/* What is told of becomes changes, each with its time, in a heap; LEDGER_LAG_S
 * later they are made in order of time.  While nothing is seen there is no order
 * to keep: changes are made at once, so that the state is as the lists say when
 * the cluster is seen again.
 */
static const char GPU[] = "nvidia.com/gpu";

enum { WHY_MAX = 400, JOBS_BYTES = 64 * 1024 * 1024 };

/* Anybody may ask for anything: more than any node has is counted as so much,
 * with which the sums of RESOURCES_HOLDERS pods are still numbers.
 */
enum { GPUS_MAX = 1 << 16, CPUS_MAX = 1 << 27 };

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

static bool change_before(const void *va, const void *vb)
{
    const struct change *a = va, *b = vb;

    return a->at_s != b->at_s ? a->at_s < b->at_s : a->number < b->number;
}

static uint32_t *change_slot(void *item)
{
    return &((struct change *) item)->slot;
}

struct ledger *ledger_new(void)
{
    struct ledger *l = mem_new(sizeof *l);

    l->pods = map_new();
    l->told = map_new();
    l->places = map_new();
    l->shapes = map_new();
    l->changes = (struct heap) { .before = change_before,
                                 .slot = change_slot };
    l->tally = tally_new();
    l->waits = json_array();
    l->jobs = (struct buf) BUF_INIT(JOBS_BYTES);
    return l;
}

static void change_free(struct change *c)
{
    facts_free(c->facts);
    free(c->name);
    free(c);
}

void ledger_free(struct ledger *l)
{
    struct change *c;
    size_t pos = 0;
    void *one;

    if (!l)
        return;
    while ((c = heap_top(&l->changes))) {
        heap_remove(&l->changes, c);
        if (c->pod && --c->pod->changes == 0 && c->pod->gone)
            pod_free(l, c->pod);
        change_free(c);
    }
    heap_free(&l->changes);
    while ((one = map_next(l->pods, &pos, NULL)))
        pod_free(l, one);
    for (pos = 0; (one = map_next(l->places, &pos, NULL));)
        place_free(one);
    for (pos = 0; (one = map_next(l->told, &pos, NULL));) {
        facts_free(((struct told *) one)->facts);
        free(one);
    }
    map_free(l->pods);
    map_free(l->told);
    map_free(l->places);
    map_free(l->shapes);
    tally_free(l->tally);
    json_decref(l->rows);
    json_decref(l->waits);
    buf_free(&l->jobs);
    free(l->dirty);
    free(l);
}

/* ---- time ---- */

static void offer_waiting(struct ledger *l, json_t *waits)
{
    const struct pod *p;
    size_t pos = 0;

    while ((p = map_next(l->pods, &pos, NULL)))
        if (p->is == STAGE_WAITING && p->gpus)
            wait_offer(waits, p, l->now_s);
}

static void row_end(struct ledger *l)
{
    json_t *row;

    if (l->now_s > l->row_s) {
        row = tally_row(l->tally);
        offer_waiting(l, l->waits);
        json_put(row, "waits", take(l->waits));
        json_put_str(row, "jobs", buf_text(&l->jobs));
        json_put_u64(row, "jobs_left_out", l->left_out);
        if (!l->rows)
            l->rows = json_array();
        (void) json_array_append_new(l->rows, row);
        l->waits = json_array();
    }
    buf_clear(&l->jobs);
    l->njobs = l->left_out = 0;
    tally_clear(l->tally);
    l->row_s = l->now_s;
}

/* The state holds until then; one that holds for no time is not looked at. */
static void pass(struct ledger *l, uint64_t to_s)
{
    if (l->now_s < to_s)
        fits_find(l);
    while (l->now_s < to_s) {
        uint64_t edge = (l->now_s / LEDGER_ROW_S + 1) * LEDGER_ROW_S;
        uint64_t end = edge < to_s ? edge : to_s;

        fits_pass(l, end - l->now_s);
        tally_advance(l->tally, end);
        l->now_s = end;
        if (end == edge)
            row_end(l);
    }
}

static void make(struct ledger *l, struct change *c)
{
    struct pod *p = c->pod;

    if (p) {
        ledger_pod_step(l, p, c->to, c->at_s);
        if (--p->changes == 0 && p->gone)
            pod_free(l, p);
    } else {
        node_step(l, c->name, take(c->facts));
    }
    change_free(c);
}

/* All changes up to then, and time until then if it counts. */
static void advance(struct ledger *l, uint64_t to_s)
{
    struct change *c;

    while ((c = heap_top(&l->changes)) && c->at_s <= to_s) {
        if (l->seeing)
            pass(l, c->at_s);
        heap_remove(&l->changes, c);
        make(l, c);
    }
    if (l->seeing)
        pass(l, to_s);
}

/* What is between was not seen. */
static void skip(struct ledger *l, uint64_t now_ms)
{
    ledger_seen(l, false, l->now_s * 1000);
    ledger_seen(l, true, now_ms);
}

static bool has_jumped(const struct ledger *l, uint64_t now_s)
{
    return l->seeing && (now_s > l->now_s + LEDGER_JUMP_S ||
                         l->now_s > now_s + LEDGER_JUMP_S);
}

static void catch_up(struct ledger *l, uint64_t now_ms)
{
    uint64_t now_s = now_ms / 1000;

    if (has_jumped(l, now_s))
        skip(l, now_ms);
    if (!l->seeing)
        advance(l, UINT64_MAX);
    else if (now_s > LEDGER_LAG_S)
        advance(l, now_s - LEDGER_LAG_S);
}

static void push(struct ledger *l, struct change *c, uint64_t at_s,
                 uint64_t now_ms)
{
    uint64_t now_s = now_ms / 1000;

    c->at_s = at_s && at_s < now_s ? at_s : now_s;
    if (c->at_s < l->now_s)
        c->at_s = l->now_s;
    if (c->pod && c->pod->changes > 1 && c->at_s < c->pod->last_s)
        c->at_s = c->pod->last_s;
    if (c->pod)
        c->pod->last_s = c->at_s;
    c->number = l->number++;
    heap_add(&l->changes, c);
    catch_up(l, now_ms);
}

/* ---- what an object says ---- */

/* In seconds; 0: it says nothing. */
static uint64_t time_of(const char *text)
{
    uint64_t ms;

    return *text && clock_parse(text, &ms, NULL) == 0 ? ms / 1000 : 0;
}

static const json_t *condition(const json_t *object, const char *type)
{
    const json_t *all = object_at(object, "status", "conditions", NULL), *c;
    size_t i;

    json_array_foreach(all, i, c)
        if (strcmp(json_get_str(c, "type", ""), type) == 0)
            return c;
    return NULL;
}

static uint64_t created(const json_t *object)
{
    return time_of(object_str(object, "metadata", "creationTimestamp", NULL));
}

/* When the API says that it was bound. */
static uint64_t bound(const json_t *object)
{
    const json_t *c = condition(object, "PodScheduled");

    return strcmp(json_get_str(c, "status", ""), "True") == 0
           ? time_of(json_get_str(c, "lastTransitionTime", "")) : 0;
}

static bool has_ended(const json_t *object)
{
    const char *phase = object_str(object, "status", "phase", NULL);

    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* When the last of its containers ended, if all did and the API says when. */
static uint64_t ended(const json_t *object)
{
    const json_t *all = object_at(object, "status", "containerStatuses",
                                  NULL), *c;
    uint64_t last = 0;
    size_t i;

    json_array_foreach(all, i, c) {
        uint64_t at = time_of(object_str(c, "state", "terminated",
                                         "finishedAt", NULL));

        if (!at)
            return 0;
        last = at > last ? at : last;
    }
    return last;
}

/* When a deletion without grace was asked for; 0: it had some, or nothing is
 * said.
 */
static uint64_t deleted(const json_t *object)
{
    const json_t *meta = json_object_get(object, "metadata");

    return json_get_u64(meta, "deletionGracePeriodSeconds", 1) == 0
           ? time_of(json_get_str(meta, "deletionTimestamp", "")) : 0;
}

/* ---- pods ---- */

static void pod_tell(struct ledger *l, struct pod *p, enum stage to,
                     uint64_t at_s, uint64_t now_ms)
{
    struct change *c = mem_new(sizeof *c);

    p->told = to;
    p->changes++;
    c->pod = p;
    c->to = to;
    push(l, c, at_s, now_ms);
}

static char *pod_id(const json_t *object)
{
    const char *uid = object_str(object, "metadata", "uid", NULL);

    return *uid ? mem_str(uid) : kube_pod_key(object);
}

static int pod_make(struct ledger *l, const json_t *object, char *id,
                    struct pod **ret, struct err *err)
{
    const char *space = object_str(object, "metadata", "namespace", NULL);
    struct kube_pod *read = NULL;
    struct pod *p;
    int rc = kube_pod_read(object, &read, err);

    if (rc < 0) {
        free(id);
        return rc;
    }
    p = mem_new(sizeof *p);
    p->id = id;
    p->key = take(read->key);
    p->takes = read->takes;
    read->takes = (struct resources) { 0 };
    kube_pod_free(read);
    p->takes.cpu_milli = at_most(p->takes.cpu_milli, CPUS_MAX);
    p->gpus = at_most(resources_count(&p->takes, GPU), GPUS_MAX);
    p->space = tally_space(l->tally, space);
    p->created_s = created(object);
    (void) map_set(l->pods, p->id, p);
    *ret = p;
    return 0;
}

/* What the cluster's scheduler says why it is not bound. */
static void keep_why(struct pod *p, const json_t *object)
{
    const char *text = json_get_str(condition(object, "PodScheduled"),
                                    "message", "");
    char line[WHY_MAX];

    if (!*text)
        return;
    object_line(text, strlen(text), line, sizeof line);
    if (p->why && strcmp(p->why, line) == 0)
        return;
    free(p->why);
    p->why = mem_str(line);
}

static void pod_wait(struct ledger *l, struct pod *p, const json_t *object,
                     uint64_t now_ms)
{
    if (!p->created_s || p->gated)
        p->created_s = now_ms / 1000;
    p->shape = shape_join(l, object, p);
    pod_tell(l, p, STAGE_WAITING, p->created_s, now_ms);
}

/* A pod that was there bound before it was heard of has been so since it was
 * made, if nothing says when.
 */
static void pod_hold(struct ledger *l, struct pod *p, const json_t *object,
                     uint64_t now_ms)
{
    uint64_t at_s = bound(object);

    if (!at_s && p->told == STAGE_NONE && !p->gated)
        at_s = p->created_s;
    p->node = mem_str(object_str(object, "spec", "nodeName", NULL));
    pod_tell(l, p, STAGE_HELD, at_s, now_ms);
}

static int put_pod(struct ledger *l, const json_t *object, uint64_t now_ms,
                   struct err *err)
{
    char *id = pod_id(object);
    struct pod *p = id ? map_get(l->pods, id) : NULL;
    bool is_bound = *object_str(object, "spec", "nodeName", NULL);
    bool is_over = has_ended(object);
    int rc = p ? 0 : pod_make(l, object, take(id), &p, err);

    free(id);
    if (rc < 0)
        return rc;
    p->seen = l->lists[INVENTORY_POD];
    if (p->told == STAGE_GONE)
        return 0;
    if (!is_bound && json_array_size(object_at(object, "spec",
                                               "schedulingGates", NULL)) > 0) {
        p->gated = true;
        return 0;
    }
    keep_why(p, object);
    if (*object_str(object, "metadata", "deletionTimestamp", NULL) &&
        !deleted(object))
        p->leaving = true;
    if (is_over && !l->seeing) {       /* of a list: long ago, perhaps */
        pod_tell(l, p, STAGE_GONE, 0, now_ms);
        return 0;
    }
    if (p->told == STAGE_NONE && (!is_bound || (bound(object) && l->seeing)))
        pod_wait(l, p, object, now_ms);
    if (p->told != STAGE_HELD && is_bound)
        pod_hold(l, p, object, now_ms);
    if (is_over)
        pod_tell(l, p, STAGE_GONE, ended(object), now_ms);
    return 0;
}

static void pod_gone(struct ledger *l, struct pod *p, uint64_t at_s,
                     uint64_t now_ms)
{
    (void) map_del(l->pods, p->id);
    p->gone = true;
    if (p->told != STAGE_GONE)
        pod_tell(l, p, STAGE_GONE, at_s, now_ms);
    else if (p->changes == 0)
        pod_free(l, p);
}

/* ---- nodes ---- */

static bool is_ready(const json_t *object)
{
    return strcmp(json_get_str(condition(object, "Ready"), "status", ""),
                  "True") == 0;
}

static int facts_read(const json_t *object, struct facts **ret,
                      struct err *err)
{
    const char *pods = object_str(object, "status", "allocatable", "pods",
                                  NULL);
    struct kube_node *n = NULL;
    struct facts *f;
    int rc = kube_node_read(object, &n, err);

    if (rc < 0)
        return rc;
    f = mem_new(sizeof *f);
    f->refs = 1;
    fit_node_read(object, &f->at);
    f->has = n->has;
    n->has = (struct resources) { 0 };
    f->has.cpu_milli = at_most(f->has.cpu_milli, CPUS_MAX);
    f->gpus = at_most(resources_count(&f->has, GPU), GPUS_MAX);
    f->model = mem_str(n->product);
    f->open = is_ready(object) &&
              !json_get_bool(json_object_get(object, "spec"), "unschedulable",
                             false);
    if (quantity_count(pods, &f->pods, NULL) < 0)
        f->pods = 0;
    kube_node_free(n);
    *ret = f;
    return 0;
}

static bool resources_same(const struct resources *a,
                           const struct resources *b)
{
    if (a->cpu_milli != b->cpu_milli || a->memory != b->memory ||
        a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (resources_count(b, a->list[i].name) != a->list[i].count)
            return false;
    return true;
}

static bool facts_same(const struct facts *a, const struct facts *b)
{
    return a->open == b->open && a->pods == b->pods &&
           strcmp(a->model ? a->model : "", b->model ? b->model : "") == 0 &&
           resources_same(&a->has, &b->has) && fit_node_same(&a->at, &b->at);
}

static void node_tell(struct ledger *l, const char *name, struct facts *facts,
                      uint64_t at_s, uint64_t now_ms)
{
    struct change *c = mem_new(sizeof *c);

    c->name = mem_str(name);
    c->facts = facts;
    push(l, c, at_s, now_ms);
}

/* Most updates of a node are of no interest. */
static int put_node(struct ledger *l, const json_t *object, uint64_t now_ms,
                    struct err *err)
{
    bool ready = is_ready(object);
    struct facts *f = NULL;
    struct told *t;
    uint64_t at_s = 0;
    int rc = facts_read(object, &f, err);

    if (rc < 0)
        return rc;
    t = map_get(l->told, f->at.name);
    if (!t) {
        t = mem_new(sizeof *t);
        (void) map_set(l->told, f->at.name, t);
        at_s = created(object);
    } else if (t->ready != ready) {
        at_s = time_of(json_get_str(condition(object, "Ready"),
                                    "lastTransitionTime", ""));
    }
    t->seen = l->lists[INVENTORY_NODE];
    t->ready = ready;
    if (t->facts && facts_same(t->facts, f)) {
        facts_free(f);
        return 0;
    }
    facts_free(t->facts);
    t->facts = f;
    f->refs++;
    node_tell(l, f->at.name, f, at_s, now_ms);
    return 0;
}

static void node_gone(struct ledger *l, struct told *t, uint64_t now_ms)
{
    autofree char *name = mem_str(t->facts->at.name);

    (void) map_del(l->told, name);
    facts_free(t->facts);
    free(t);
    node_tell(l, name, NULL, 0, now_ms);
}

/* ---- both ---- */

int ledger_put(struct ledger *l, enum inventory_kind kind,
               const json_t *object, uint64_t now_ms, struct err *err)
{
    return kind == INVENTORY_NODE ? put_node(l, object, now_ms, err)
                                  : put_pod(l, object, now_ms, err);
}

void ledger_drop(struct ledger *l, enum inventory_kind kind,
                 const json_t *object, uint64_t now_ms)
{
    autofree char *id = NULL;
    struct told *t;
    struct pod *p;

    if (kind == INVENTORY_NODE) {
        t = map_get(l->told, object_str(object, "metadata", "name", NULL));
        if (t)
            node_gone(l, t, now_ms);
        return;
    }
    id = pod_id(object);
    p = id ? map_get(l->pods, id) : NULL;
    if (p)
        pod_gone(l, p, ended(object) || p->leaving ? ended(object)
                                                   : deleted(object), now_ms);
}

void ledger_list(struct ledger *l, enum inventory_kind kind, uint64_t now_ms)
{
    l->lists[kind]++;
    l->listing[kind] = true;
    ledger_seen(l, false, now_ms);
}

void ledger_listed(struct ledger *l, enum inventory_kind kind,
                   uint64_t now_ms)
{
    const struct map *m = kind == INVENTORY_NODE ? l->told : l->pods;
    autofree void **gone = mem_array(map_count(m) + 1, sizeof *gone);
    size_t pos = 0, n = 0;
    void *one;

    while ((one = map_next(m, &pos, NULL)))
        if ((kind == INVENTORY_NODE ? ((struct told *) one)->seen
                                    : ((struct pod *) one)->seen) !=
            l->lists[kind])
            gone[n++] = one;
    for (size_t i = 0; i < n; i++) {
        if (kind == INVENTORY_NODE)
            node_gone(l, gone[i], now_ms);
        else
            pod_gone(l, gone[i], 0, now_ms);
    }
    l->listing[kind] = false;
}

void ledger_seen(struct ledger *l, bool seen, uint64_t now_ms)
{
    if (seen && (l->listing[0] || l->listing[1]))
        return;
    if (seen == l->seeing)
        return;
    if (seen) {
        advance(l, UINT64_MAX);
        l->now_s = l->row_s = l->begun_s = now_ms / 1000 + 1;
        tally_begin(l->tally, l->now_s);
        l->seeing = true;
        return;
    }
    catch_up(l, now_ms);
    advance(l, now_ms / 1000);
    row_end(l);
    l->seeing = false;
    advance(l, UINT64_MAX);
}

json_t *ledger_take(struct ledger *l, bool end, uint64_t now_ms)
{
    catch_up(l, now_ms);
    if (end && l->seeing) {
        advance(l, now_ms / 1000);
        row_end(l);
    }
    return take(l->rows);
}

json_t *ledger_row(struct ledger *l, bool going, uint64_t now_ms)
{
    autobuf struct buf jobs = BUF_INIT(JOBS_BYTES);
    json_t *row, *waits;
    uint64_t left_out;
    const struct pod *p;
    size_t pos = 0;

    catch_up(l, now_ms);
    if (!l->seeing)
        return NULL;
    row = tally_row(l->tally);
    waits = json_copy(l->waits);
    offer_waiting(l, waits);
    json_put(row, "waits", waits);
    (void) buf_str(&jobs, buf_text(&l->jobs));
    left_out = l->left_out;
    while (going && (p = map_next(l->pods, &pos, NULL)))
        if (p->is == STAGE_HELD && p->gpus && !job_add(&jobs, p, 0))
            left_out++;
    json_put_str(row, "jobs", buf_text(&jobs));
    json_put_u64(row, "jobs_left_out", left_out);
    return row;
}

#pragma once

#include "api/api.h"
#include "api/auth.h"
#include "api/held.h"
#include "api/route.h"
#include "base/err.h"
#include "net/http.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct doc_problems;
struct map;

/* api_int - what the parts of the API share.
 *
 * Each request is a call: it is made when the head is there, has its route
 * and its caller by then, and lives until the answer is sent.
 */
struct api {
    struct loop *loop;
    const struct service_ops *ops;
    void *arg;                         /* of the service */
    struct http *http[2];              /* the Unix socket; TLS or NULL */
    char *socket;
    uint32_t uid;                      /* ours */
    uint64_t started_ms;
    bool draining;
    struct pending *pending;           /* proposals without an answer */
    struct held_list held;             /* answers ahead of the disk */
    struct map *keys;                  /* idempotency keys being submitted */
    struct audit *audit;
    struct watchers *watchers;
    struct followers *followers;
};

struct call {
    struct api *api;
    struct http_req *req;
    const struct route *route;
    const char *param[ROUTE_MAX_PARAMS];   /* of the path, in order */
    struct who who;
    json_t *body;                      /* of routes that take JSON; an object */
};

/* Shorthands for the service. */
const struct world *api_world(const struct api *a);
struct plan_meter;
void api_meter(const struct api *a, struct plan_meter *ret);   /* up to now */
struct store *api_store(const struct api *a);
uint64_t api_now(const struct api *a);     /* never before the last event */

/* Nobody is told any more; those who wait are answered by http_close. */
void api_forget_pending(struct api *a);

/* Propose an event (taken); when it is durable `then` answers, when it is
 * refused the call is answered with why.  In trouble it is refused at once.
 */
typedef void (*call_then_f)(struct call *c, uint64_t seq, uint64_t workload,
                            void *arg);
void call_propose(struct call *c, struct event *e, call_then_f then,
                  void *arg);
/* As above with a word in the case of refusal too, after it was answered. */
typedef void (*call_failed_f)(void *arg);
void call_propose_or(struct call *c, struct event *e, call_then_f then,
                     call_failed_f failed, void *arg);
void call_backup(struct call *c, const char *file, call_then_f then);
/* An event of the caller's: typed, with who it is. */
void call_event(const struct call *c, struct event *e, enum event_type type);
/* Of a service that writes nothing, by what it says. */
unsigned trouble_status(const char *text);
/* Writes are refused right now: answered, true. */
bool call_in_trouble(struct call *c);
/* The audit's line of a refusal; `status` is what the caller was told. */
void call_denied(const struct call *c, unsigned status);

/* Arguments of the query: checked against the route's row already. */
const char *call_arg(const struct call *c, const char *name);   /* NULL */
uint64_t call_count(const struct call *c, const char *name, uint64_t fallback);
bool call_flag(const struct call *c, const char *name);

/* The argument `since`: so long ago, or a date; 0 without.  false: answered. */
bool call_since(struct call *c, uint64_t *ret_ms);

/* Answers.  One in JSON is sent when what it shows is durable. */
void reply_json(struct call *c, unsigned status, json_t *body);  /* taken */
/* A list, or a page of it: `next`, which may be NULL, leads on.  Both taken. */
void reply_items(struct call *c, json_t *items, json_t *next);
void reply_text(struct call *c, unsigned status, const char *type,
                const char *text);
void reply_none(struct call *c);                         /* 204 */
void reply_none_then(struct call *c, uint64_t seq, uint64_t workload,
                     void *arg);                         /* as a call_then_f */
void reply_error(struct call *c, unsigned status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Of a document: 422, or 413 when rc says that it is too large. */
void reply_problems(struct call *c, const struct doc_problems *p, int rc);
/* Of an error of core, store or service. */
void reply_rc(struct call *c, int rc, const struct err *err);
/* "workload 'w12': not found": the same for what is not there and for what is
 * not theirs.
 */
void reply_absent(struct call *c, const char *what, const char *name);

/* An object as it is shown: without the part that is ours, and with the
 * members that `fields` names.  Changes and returns `o`.
 */
json_t *show(struct call *c, json_t *o);

/* A tenant that the caller may see; NULL: answered with 404. */
const struct tenant *call_tenant(struct call *c, const char *name);
/* The tenant of this name, or with NULL the only one that the caller has; `how`
 * says how to name one.  false: answered.
 */
bool call_choose_tenant(struct call *c, const char *name, const char *how,
                        char *ret, size_t size);

/* A workload that the caller may see. */
struct target {
    uint64_t id;
    const struct workload *live;       /* or NULL: it has ended */
    json_t *row;                       /* of an ended one */
    struct spec *spec;                 /* of an ended one, when asked for */
};
#define autotarget cleanup(target_clear)
void target_clear(struct target *t);
/* Whoever may see it.  0, -ENOENT, or what went wrong in the store. */
int target_get(const struct call *c, uint64_t id, bool want_spec,
               struct target *ret, struct err *err);
/* By the words of a path or query; false: answered with 404. */
bool target_find(struct call *c, const char *id, bool want_spec,
                 struct target *ret);
/* As it is now; caller owns. */
json_t *target_view(const struct target *t);
/* A task of it by name: false: answered with 404. */
bool target_task(struct call *c, const struct target *t, const char *name,
                 uint32_t *ret);
const char *target_tenant(const struct target *t);

/* "EPOCH:N". */
int cursor_parse(const char *s, uint64_t *ret_epoch, uint64_t *ret_seq,
                 struct err *err);
void cursor_print(uint64_t epoch, uint64_t seq, char *buf, size_t size);

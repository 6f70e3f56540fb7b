#include "api/held.h"

#include "api/api_int.h"
#include "base/mem.h"
#include "core/world.h"

#include <string.h>

struct held {
    struct held *next;
    struct http_req *req;
    uint64_t seq;                      /* of the last event that it shows */
    unsigned status;
    char *text;                        /* JSON */
};

static void answer(struct http_req *req, unsigned status, char *text)
{
    http_reply(req, status, "application/json", text, strlen(text));
}

static struct held *held_pop(struct held_list *l)
{
    struct held *h = l->first;

    l->first = h->next;
    if (!l->first)
        l->last = NULL;
    return h;
}

void held_reply(struct call *c, unsigned status, char *text)
{
    struct held_list *l = &c->api->held;
    uint64_t seq = world_seq(api_world(c->api));
    struct held *h;

    if (seq <= l->durable) {
        answer(c->req, status, text);
        return;
    }
    if (call_in_trouble(c)) {          /* it may never be durable */
        free(text);
        return;
    }
    h = mem_new(sizeof *h);
    *h = (struct held) {
        .req = c->req, .seq = seq, .status = status, .text = text,
    };
    if (l->last)
        l->last->next = h;
    else
        l->first = h;
    l->last = h;
}

void held_durable(struct held_list *l, uint64_t seq)
{
    l->durable = seq;
    while (l->first && l->first->seq <= seq) {
        struct held *h = held_pop(l);

        answer(h->req, h->status, h->text);
        free(h);
    }
}

void held_fail(struct held_list *l, unsigned status, const char *why)
{
    while (l->first) {
        struct held *h = held_pop(l);

        http_problem(h->req, status, why);
        free(h->text);
        free(h);
    }
}

void held_clear(struct held_list *l)
{
    while (l->first) {
        struct held *h = held_pop(l);

        free(h->text);
        free(h);
    }
}

#include "core/spec.h"

#include "base/buf.h"
#include "base/mem.h"

#include <stdbool.h>

/* A walk in depth with its own stack over the graph in which tasks that start
 * together are one node.  A node on the stack is grey; an edge to a grey node
 * closes a cycle, which is then on the stack from that node to the top.  Each
 * edge is followed once.
 */
enum { WHITE, GREY, BLACK };
enum { SHOWN = 12 };                   /* steps of one cycle put in words */
#define NONE UINT32_MAX

struct frame {
    uint32_t into;                     /* the task the edge came to */
    uint32_t member;                   /* whose needs are looked at */
    uint32_t edge;                     /* the next of them */
};

struct walk {
    const struct spec *s;
    uint32_t *head;                    /* of each task: first of its group */
    uint32_t *next;                    /* of each task: next of its group */
    unsigned char *colour;             /* of each head */
    uint32_t *at;                      /* of each grey head: its frame */
    struct frame *stack;
    size_t depth;
};

static void group(struct walk *w)
{
    uint32_t n = w->s->ntasks;
    autofree uint32_t *last = mem_array((size_t) n + 1, sizeof(*last));

    for (uint32_t i = 0; i < n; i++) {
        uint32_t set = w->s->tasks[i].together;

        w->head[i] = i;
        w->next[i] = NONE;
        if (set == 0 || set > n)
            continue;
        if (last[set] > 0) {           /* kept plus one: 0 is none */
            w->head[i] = w->head[last[set] - 1];
            w->next[last[set] - 1] = i;
        }
        last[set] = i + 1;
    }
}

static const char *task_name(const struct walk *w, uint32_t i)
{
    return w->s->tasks[i].name ? w->s->tasks[i].name : "?";
}

/* One step: " -> x", and by whom the way goes on when that is not x itself. */
static void say_step(const struct walk *w, struct buf *out, uint32_t into,
                     uint32_t member)
{
    buf_printf(out, " -> %s", task_name(w, into));
    if (member != into)
        buf_printf(out, " (together with %s)", task_name(w, member));
}

static void say_cycle(const struct walk *w, size_t from, uint32_t back,
                      struct buf *out)
{
    size_t steps = w->depth - from;

    buf_str(out, task_name(w, w->stack[from].member));
    for (size_t i = 1; i < steps; i++) {
        const struct frame *f = &w->stack[from + i];

        if (steps > SHOWN && i == SHOWN / 2)
            buf_printf(out, " -> (%zu more)", steps - SHOWN);
        if (steps <= SHOWN || i < SHOWN / 2 || i >= steps - SHOWN / 2)
            say_step(w, out, f->into, f->member);
    }
    say_step(w, out, back, w->stack[from].member);
}

static void push(struct walk *w, uint32_t into)
{
    uint32_t head = w->head[into];

    w->colour[head] = GREY;
    w->at[head] = (uint32_t) w->depth;
    w->stack[w->depth++] = (struct frame) { .into = into, .member = head };
}

/* The needs of the top frame's member are done: on to the next member, and
 * off the stack after the last.
 */
static void member_done(struct walk *w)
{
    struct frame *f = &w->stack[w->depth - 1];
    uint32_t head = w->head[f->member];

    f->member = w->next[f->member];
    f->edge = 0;
    if (f->member != NONE)
        return;
    w->colour[head] = BLACK;
    w->depth--;
}

static size_t walk_from(struct walk *w, uint32_t root, size_t max,
                        spec_cycle_f cb, void *arg)
{
    size_t found = 0;

    push(w, root);
    while (w->depth > 0 && found < max) {
        struct frame *f = &w->stack[w->depth - 1];
        const struct spec_task *t = &w->s->tasks[f->member];
        uint32_t to, head;

        if (f->edge == t->nneeds) {
            member_done(w);
            continue;
        }
        to = t->needs[f->edge++];
        head = w->head[to];
        if (w->colour[head] == WHITE) {
            push(w, to);
        } else if (w->colour[head] == GREY) {
            autobuf struct buf words = BUF_INIT(16384);

            say_cycle(w, w->at[head], to, &words);
            cb(w->stack[w->at[head]].member, buf_text(&words), arg);
            found++;
        }
    }
    return found;
}

size_t spec_cycles(const struct spec *s, size_t max, spec_cycle_f cb,
                   void *arg)
{
    size_t n = s->ntasks, found = 0;
    autofree uint32_t *head = mem_array(n, sizeof(*head));
    autofree uint32_t *next = mem_array(n, sizeof(*next));
    autofree uint32_t *at = mem_array(n, sizeof(*at));
    autofree unsigned char *colour = mem_array(n, 1);
    autofree struct frame *stack = mem_array(n, sizeof(*stack));
    struct walk w = {
        .s = s, .head = head, .next = next, .at = at,
        .colour = colour, .stack = stack,
    };

    group(&w);
    for (uint32_t i = 0; i < n && found < max; i++)
        if (colour[head[i]] == WHITE)
            found += walk_from(&w, i, max - found, cb, arg);
    return found;
}

#include "control/guests_int.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "core/why.h"
#include "engine/engine.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Why a guest waits, as `weir why` says it, for those who look at it where it
 * is.
 *
 * They are looked at in turn, a few at a time, so that however many wait it
 * costs little; one that has its place after a moment is not looked at at all.
 * It is told when the sentence is another one, numbers aside; with other numbers
 * alone, not again before SAME_MS.
 */
enum { TICK_MS = 500, AT_ONCE = 50, FIRST_MS = 1500, NEXT_MS = 5000,
       SAME_MS = 60000 };

static uint64_t hash_text(const char *s, bool numbers)
{
    uint64_t h = UINT64_C(14695981039346656037);

    for (; *s; s++)
        if (numbers || !isdigit((unsigned char) *s))
            h = (h ^ (unsigned char) *s) * UINT64_C(1099511628211);
    return h;
}

static void tell(struct guest *g, const struct engine_word *w)
{
    struct err err = { 0 };

    if (g->of && g->of->engine &&
        g->of->ops->tell(g->of->engine, g->uid, w, &err) < 0)
        log_say(LOG_WARN, "a pod cannot be told", "uid", g->uid, "error",
                err.text, NULL);
}

void guest_say(struct guests *all, struct guest *g, const char *code,
               const char *text, bool numbers)
{
    const struct engine_word w = { .code = code, .text = text };
    uint64_t now = loop_now(all->c->loop);
    uint64_t h = hash_text(text, numbers);

    if (g->hash == h && now - g->told_ms < SAME_MS)
        return;
    g->hash = h;
    g->told_ms = now;
    tell(g, &w);
}

void guest_drop(struct guest *g)
{
    const struct engine_word w = { .code = "", .text = "", .drop = true };

    tell(g, &w);
}

/* The sentence, what would help, and when it is thought to start. */
static void look_at(struct guests *all, struct guest *g)
{
    const struct workload *wl = world_workload(all->c->world, g->workload);
    autofree char *text = NULL;
    char id[24], at[32] = "";
    struct why y;

    if (g->gang && g->gang->count < g->gang->size) {
        text = mem_printf("Its gang starts together, and %" PRIu32 " of its %"
                          PRIu32 " pods are there.", g->gang->count,
                          g->gang->size);
        guest_say(all, g, "gang", text, true);
        return;
    }
    if (!wl || g->task >= wl->spec->ntasks ||
        wl->tasks[g->task].state != TASK_WAITING)
        return;
    why_task(all->c->world, &wl->tasks[g->task], control_now(all->c), &y);
    workload_id_print(wl->id, id, sizeof id);
    if (y.start_ms)
        clock_print(y.start_ms / 1000 * 1000, at, sizeof at);
    text = mem_printf("%s%s%s%s%s (%s, %s)", y.text, y.change[0] ? " " : "",
                      y.change, at[0] ? " Predicted start: " : "", at,
                      why_code_name(y.code), id);
    guest_say(all, g, why_code_name(y.code), text, false);
}

/* ---- in turn ---- */

static void line_add(struct guests *all, struct guest *g, uint64_t after_ms)
{
    g->look_ms = loop_now(all->c->loop) + after_ms;
    g->prev_look = all->last;
    g->next_look = NULL;
    if (all->last)
        all->last->next_look = g;
    else
        all->first = g;
    all->last = g;
    g->looks = true;
}

static void on_look(struct watch *w, void *arg)
{
    struct guests *all = arg;
    uint64_t now = loop_now(all->c->loop);
    struct guest *g;

    (void) w;
    all->look = NULL;
    for (unsigned i = 0; i < AT_ONCE && (g = all->first) && g->look_ms <= now;
         i++) {
        guest_look_not(all, g);
        look_at(all, g);
        line_add(all, g, NEXT_MS);
    }
    if (all->first)
        all->look = loop_timer(all->c->loop, TICK_MS, on_look, all);
}

void guest_look(struct guests *all, struct guest *g)
{
    if (!g->looks)
        line_add(all, g, FIRST_MS);
    if (!all->look)
        all->look = loop_timer(all->c->loop, TICK_MS, on_look, all);
}

void guest_look_not(struct guests *all, struct guest *g)
{
    if (!g->looks)
        return;
    if (g->prev_look)
        g->prev_look->next_look = g->next_look;
    else
        all->first = g->next_look;
    if (g->next_look)
        g->next_look->prev_look = g->prev_look;
    else
        all->last = g->prev_look;
    g->next_look = g->prev_look = NULL;
    g->looks = false;
}

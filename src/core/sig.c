#include "core/world_int.h"

#include "base/json.h"
#include "base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By what a task is known to the predictor, from fine to coarse:
 *
 *   its command with every number as '#', the devices it wants, how many
 *   ranks, and its tenant; the command alone; the program and the tenant; and
 *   whether it wants devices at all.
 *
 * And what waits for it: the longest predicted way from its end to the end of
 * all below it.  The guesses behind that, and the levels with which tasks join
 * the line at once, are taken when the workload is submitted and kept with it,
 * one for each different signature: what is learned later does not change them,
 * so that a world that was loaded has the same ones.
 */
enum { COMMAND_MAX = 400, GUESSES_MAX = 64 };

struct known_guess {
    uint64_t key, mid_ms, high_ms;
    uint8_t level;
};

struct command {
    char text[COMMAND_MAX + 1];
    size_t len;
};

static void add_char(struct command *c, char letter)
{
    if (letter == '#' && c->len > 0 && c->text[c->len - 1] == '#')
        return;
    if (c->len < COMMAND_MAX)
        c->text[c->len++] = letter;
}

/* Digits in a row are one '#': runs that differ by a number are alike. */
static void add_shape(struct command *c, const char *text, bool first_word)
{
    for (; *text && c->len < COMMAND_MAX; text++) {
        if (first_word && isspace((unsigned char) *text))
            break;
        add_char(c, isdigit((unsigned char) *text) ? '#' : *text);
    }
}

/* A pod says what it runs by the name of what made it. */
static void command_of(const struct task *t, bool program, struct command *ret)
{
    const struct spec_task *s = t->spec;

    ret->len = 0;
    if (s->guest_uid)
        add_shape(ret, t->workload->spec->name, program);
    if (s->run)
        add_shape(ret, s->run + strspn(s->run, " \t\n"), program);
    for (uint32_t i = 0; s->argv && s->argv[i] && (i == 0 || !program); i++) {
        add_shape(ret, s->argv[i], false);
        add_char(ret, ' ');
    }
    ret->text[ret->len] = '\0';
}

void task_sig(const struct task *t, struct predict_sig *ret)
{
    const struct spec_task *s = t->spec;
    const char *model = s->nmodels ? s->models[0] : "";
    uint64_t tenant = predict_key(t->workload->tenant_name, 1);
    struct command c;
    char wants[96];

    (void) snprintf(wants, sizeof(wants), "%u %.31s %u", s->gpu_milli, model,
                    s->ranks);
    command_of(t, false, &c);
    ret->key[1] = predict_key(c.text, 2);
    ret->key[0] = predict_key(wants, ret->key[1] ^ tenant);
    command_of(t, true, &c);
    ret->key[2] = predict_key(c.text, tenant);
    ret->key[3] = predict_key(s->gpu_milli ? "devices" : "none", 3);
}

/* ---- the way below ---- */

/* More signatures than are kept count as the first one. */
static const struct known_guess *guess_of(const struct workload *wl,
                                          const struct task *t)
{
    struct predict_sig sig;

    task_sig(t, &sig);
    for (uint32_t i = 0; i < wl->nguesses; i++)
        if (wl->guesses[i].key == sig.key[0])
            return &wl->guesses[i];
    return &wl->guesses[0];
}

/* Its own time, the way below it and the policy's patience are all that is
 * left until the deadline.
 */
uint64_t task_urgent_ms(const struct world *w, const struct task *t)
{
    const struct workload *wl = t->workload;
    uint64_t left;

    if (wl->spec->deadline_ms == 0)
        return 0;
    left = add_capped(guess_of(wl, t)->high_ms, t->below_ms);
    left = add_capped(left, world_policy(w)->patience_ms);
    return wl->spec->deadline_ms > left ? wl->spec->deadline_ms - left : 1;
}

static bool has_guess(const struct workload *wl, uint64_t key)
{
    for (uint32_t i = 0; i < wl->nguesses; i++)
        if (wl->guesses[i].key == key)
            return true;
    return false;
}

/* Whose needs come first: the order in which they could all end, as indexes.
 * A task is put down once all that it needs is; `left` counts these.
 */
static uint32_t *in_order(const struct workload *wl)
{
    uint32_t n = wl->spec->ntasks, done = 0, end = 0;
    uint32_t *order = mem_array(n, sizeof(*order));
    autofree uint32_t *left = mem_array(n, sizeof(*left));

    for (uint32_t i = 0; i < n; i++) {
        left[i] = wl->spec->tasks[i].nneeds;
        if (left[i] == 0)
            order[end++] = i;
    }
    for (; done < end; done++) {
        uint32_t at = order[done];

        for (uint32_t k = wl->graph->first[at];
             k < wl->graph->first[at + 1]; k++)
            if (--left[wl->graph->next[k]] == 0)
                order[end++] = wl->graph->next[k];
    }
    return order;
}

static uint8_t level_of(const struct world *w, const struct predict_sig *sig,
                        uint64_t work)
{
    uint64_t until;
    uint32_t level = predict_level(plan_predict(w->plan), sig, work, &until);

    return (uint8_t) (level < UINT8_MAX - 1 ? level : UINT8_MAX - 1);
}

/* It gets in line now, by an event. */
void task_relevel(const struct world *w, struct task *t)
{
    struct predict_sig sig;

    task_sig(t, &sig);
    t->level = level_of(w, &sig, t->used_gpu_ms - t->attempt_gpu_ms);
}

static void ways_below(struct workload *wl)
{
    autofree uint32_t *order = in_order(wl);

    for (uint32_t i = wl->spec->ntasks; i-- > 0;) {
        const struct task *t = &wl->tasks[order[i]];
        uint64_t way = add_capped(t->below_ms, guess_of(wl, t)->mid_ms);

        for (uint32_t k = 0; k < t->spec->nneeds; k++) {
            struct task *need = &wl->tasks[t->spec->needs[k]];

            if (way > need->below_ms)
                need->below_ms = way;
        }
    }
}

static void from_guesses(struct workload *wl)
{
    if (wl->graph->first[wl->spec->ntasks] > 0)
        ways_below(wl);
    for (uint32_t i = 0; i < wl->spec->ntasks; i++)
        if (wl->spec->tasks[i].nneeds == 0)
            wl->tasks[i].level = guess_of(wl, &wl->tasks[i])->level;
}

void guesses_make(struct world *w, struct workload *wl)
{
    struct predict_sig sig;
    struct guess g;

    wl->guesses = mem_array(GUESSES_MAX, sizeof(*wl->guesses));
    for (uint32_t i = 0; i < wl->spec->ntasks && wl->nguesses < GUESSES_MAX;
         i++) {
        task_sig(&wl->tasks[i], &sig);
        if (has_guess(wl, sig.key[0]))
            continue;
        predict_guess(plan_predict(w->plan), &sig, 0, 0, &g);
        wl->guesses[wl->nguesses++] = (struct known_guess) {
            sig.key[0], g.mid_ms, g.high_ms, level_of(w, &sig, 0)
        };
    }
    wl->guesses = mem_grow(wl->guesses, wl->nguesses + 1u,
                           sizeof(*wl->guesses));
    from_guesses(wl);
}

json_t *guesses_row(const struct workload *wl)
{
    json_t *row = json_array();
    char key[24];

    for (uint32_t i = 0; i < wl->nguesses; i++) {
        (void) snprintf(key, sizeof(key), "%016" PRIx64, wl->guesses[i].key);
        json_array_append_new(row, json_pack("[s,I,I,i]", key,
                              (json_int_t) wl->guesses[i].mid_ms,
                              (json_int_t) wl->guesses[i].high_ms,
                              (int) wl->guesses[i].level));
    }
    return row;
}

int guesses_load(struct workload *wl, const json_t *row)
{
    size_t n = json_array_size(row);

    if (n > GUESSES_MAX || (n == 0 && wl->spec->ntasks > 0))
        return -EINVAL;
    wl->guesses = mem_array(n + 1, sizeof(*wl->guesses));
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_array_get(row, i);
        const char *key = json_string_value(json_array_get(one, 0));
        json_int_t mid = json_integer_value(json_array_get(one, 1));
        json_int_t high = json_integer_value(json_array_get(one, 2));
        json_int_t level = json_integer_value(json_array_get(one, 3));

        if (!key || mid < 0 || high < 0 || level < 0 || level >= UINT8_MAX)
            return -EINVAL;
        wl->guesses[wl->nguesses++] = (struct known_guess) {
            strtoull(key, NULL, 16), (uint64_t) mid, (uint64_t) high,
            (uint8_t) level
        };
    }
    from_guesses(wl);
    return 0;
}

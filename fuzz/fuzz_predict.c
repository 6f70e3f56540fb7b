#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"
#include "plan/predict.h"

#include <stdint.h>
#include <string.h>

/* Rows of predictions, a line each: the key, a blank, the body.  A row is
 * taken or refused in words; whatever was taken answers every question with
 * sense, learns on, and can be written and read again.
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define must(cond) do { if (!(cond)) abort(); } while (0)

static int load_again(const char *key, const json_t *body, void *arg)
{
    autofree char *text = body ? json_text(body) : NULL;
    autojson json_t *read = NULL;

    if (!body)
        return 0;
    must(json_read(text, strlen(text), 1 << 20, &read, NULL) == 0);
    must(predict_load(arg, key, read, NULL) == 0);
    return 0;
}

static void ask(struct predict *pr, const struct predict_sig *sig)
{
    struct predict_quality q;

    for (uint64_t age = 0; age < UINT64_C(1) << 45; age = age * 8 + 1) {
        uint64_t until = 0;
        struct guess g;

        predict_guess(pr, sig, age, age % 2 ? 0.3 : 0, &g);
        must(g.low_ms >= age && g.low_ms <= g.mid_ms &&
             g.mid_ms <= g.high_ms);
        predict_level(pr, sig, age, &until);
        must(until > age);
    }
    predict_quality(pr, &q);
    must(q.below_low >= 0 && q.error >= 0);
}

static void load_line(struct predict *pr, char *line)
{
    char *blank = strchr(line, ' ');
    autojson json_t *body = NULL;
    struct err err = { 0 };

    if (!blank)
        return;
    *blank = '\0';
    if (json_read(blank + 1, strlen(blank + 1), 1 << 20, &body, NULL) < 0)
        return;
    if (predict_load(pr, line, body, &err) < 0)
        must(err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct predict_sig sig = { { 1, 2, 3, 4 } };
    struct predict *pr = predict_new(), *copy = predict_new();
    autofree char *text = mem_new(size + 1);
    char *rest = text, *line;

    memcpy(text, data, size);
    while ((line = strsep(&rest, "\n")))
        load_line(pr, line);
    ask(pr, &sig);
    for (unsigned i = 0; i < 20; i++)
        predict_learn(pr, &sig, i * 1000, i * 8000, i);
    ask(pr, &sig);
    must(predict_rows(pr, load_again, copy) == 0);
    ask(copy, &sig);
    predict_free(pr);
    predict_free(copy);
    return 0;
}

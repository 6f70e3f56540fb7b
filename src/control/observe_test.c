#include "control/bed.h"

/* Rows of a pool that is observed, from an engine that is played here, into the
 * real journal.
 */
static json_t *over, *going;           /* what the engine has */

static json_t *history(struct engine *e, enum engine_history what)
{
    (void) e;
    if (what == ENGINE_UNDER_WAY || what == ENGINE_GOING)
        return json_incref(going);
    if (what == ENGINE_END && going) {
        over = over ? over : json_array();
        (void) json_array_extend(over, going);
        json_decref(take(going));
    }
    return take(over);
}

static void nothing(struct engine *e)
{
    (void) e;
}

static const struct engine_ops ops = {
    .name = "played", .close = nothing, .history = history,
};

/* A row of one minute. */
static json_t *row(unsigned minute)
{
    return json_pack("{s:o, s:o, s:[{s:s, s:i, s:i}]}", "from",
                     json_sprintf("2030-01-01T00:%02u:00.000Z", minute), "to",
                     json_sprintf("2030-01-01T00:%02u:00.000Z", minute + 1),
                     "devices", "model", "H100", "used", 60, "waste",
                     (int) minute);
}

static json_t *rows(unsigned first, unsigned count)
{
    json_t *list = json_array();

    for (unsigned k = 0; k < count; k++)
        (void) json_array_append_new(list, row(first + k));
    return list;
}

static void begin_pool(struct control *c, bool observe)
{
    struct reached *r = mem_new(sizeof *r);

    begin(c);
    *r = (struct reached) { .c = c, .name = "lab", .ops = &ops,
                            .engine = (struct engine *) r,
                            .observe = observe };
    (void) map_set(c->pools, r->name, r);
}

static int on_event(const struct store_event *e, void *arg)
{
    autojson json_t *j = NULL;
    const json_t *data;
    struct buf *b = arg;

    if (json_read(e->body, e->len, e->len, &j, NULL) < 0)
        return -EINVAL;
    data = json_object_get(j, "data");
    (void) buf_printf(b, "%s %.2s;", json_get_str(data, "name", "?"),
                      json_get_str(data, "from", "") + 14);
    return 0;
}

static bool journalled(struct control *c, const char *want)
{
    struct store_event_query q = { .limit = 100, .type = "pool.seen" };
    autobuf struct buf b = BUF_INIT(4096);
    struct err err = { 0 };

    if (store_events(c->store, &q, on_event, &b, &err) < 0)
        ok(false, "events: %s", err.text);
    if (strcmp(buf_text(&b), want) != 0)
        printf("# %s\n", buf_text(&b));
    return strcmp(buf_text(&b), want) == 0;
}

static size_t unwritten(struct control *c)
{
    json_t *list = observe_rows("lab", false, c);
    size_t n = json_array_size(list);

    json_decref(list);
    return n;
}

static double total(struct control *c, const char *key)
{
    autojson json_t *sum = observe_totals("lab", c);
    const json_t *models = json_object_get(sum, "models");

    return strcmp(key, "seen") == 0 ? json_get_number(sum, key)
           : json_get_number(json_object_get(models, "H100"), key);
}

static void test_rows(void)
{
    struct control c;

    begin_pool(&c, true);
    over = rows(1, 2);
    going = rows(3, 1);
    observe_leave(&c, map_get(c.pools, "lab"));
    ok(unwritten(&c) == 3, "rows are shown before they are durable");
    settle(&c);
    ok(journalled(&c, "lab 01;lab 02;lab 03;"), "they are journalled, the one "
       "under way too when the engine is let go");
    ok(unwritten(&c) == 0, "and the store has them then");
    going = rows(7, 1);
    ok(unwritten(&c) == 1 && total(&c, "seen") > 239 &&
       total(&c, "seen") < 241 && total(&c, "waste") > 12.9 &&
       total(&c, "waste") < 13.1, "what goes on is in the totals");
    over = take(going);
    going = rows(8, 1);
    ok(total(&c, "seen") > 299 && unwritten(&c) == 2,
       "and stays there when it is over, at once");
    close_control(&c);
    json_decref(take(going));
}

static void test_not_observed(void)
{
    struct control c;

    begin_pool(&c, false);
    over = rows(1, 2);
    observe_stop(&c);
    settle(&c);
    ok(journalled(&c, "") && unwritten(&c) == 0, "of a pool that is not "
       "observed nothing is kept");
    close_control(&c);
}

static void test_trouble(void)
{
    struct control c;

    begin_pool(&c, true);
    (void) snprintf(c.trouble, sizeof c.trouble, "the disk is full");
    over = rows(1, 1);
    observe_stop(&c);
    settle(&c);
    ok(journalled(&c, "") && unwritten(&c) == 1, "no write, no loss");
    c.trouble[0] = '\0';
    over = rows(2, 1);
    observe_stop(&c);
    settle(&c);
    ok(journalled(&c, "lab 01;lab 02;") && unwritten(&c) == 0,
       "written when there is room again, in order");
    over = rows(3, 1);
    observe_stop(&c);
    journal_close(&c);                 /* as a store that fails does */
    ok(unwritten(&c) == 1, "a row whose write failed is kept");
    observe_stop(&c);
    settle(&c);
    ok(unwritten(&c) == 0, "and written again");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_rows();
    test_not_observed();
    test_trouble();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

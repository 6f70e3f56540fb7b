#include "control/bed.h"

/* What runners say of the health of devices, against one that is played
 * (bed.h).
 */
static void says(struct control *c, const char *text)
{
    struct wire_msg m = { 0 };
    struct err err = { 0 };
    autofree char *body = mem_printf("{\"t\":\"health\",\"at\":1,\"health\":%s}",
                                     text);

    if (wire_read(body, strlen(body), &m, &err) < 0)
        ok(false, "%s: %s", text, err.text);
    home.ops->message(CONTROL_BLOCK, &m, c);
    wire_clear(&m);
    settle(c);
}

#define RULE(name, state, action) \
    "{\"rule\":\"" name "\",\"state\":\"" state "\",\"action\":\"" action \
    "\",\"text\":\"so\",\"evidence\":{\"value\":1}}"
#define DEVICE(uuid, rules) "{\"uuid\":\"" uuid "\",\"rules\":[" rules "]}"
#define WHOLE(uuid, rules) \
    "{\"uuid\":\"" uuid "\",\"whole\":true,\"rules\":[" rules "]}"

static enum remedy remedy(const struct control *c, unsigned device)
{
    return world_block(c->world, CONTROL_BLOCK)->devices[device].remedy;
}

static bool is(const struct control *c, enum remedy first, enum remedy second)
{
    return remedy(c, 0) == first && remedy(c, 1) == second;
}

static void test_changes(void)
{
    struct control c;
    uint64_t seq;

    begin_up(&c, 2);
    says(&c, "[" DEVICE("GPU-0", RULE("hot", "raised", "move")) ","
         DEVICE("GPU-1", RULE("leak", "raised", "cordon")) "]");
    ok(is(&c, REMEDY_MOVE, REMEDY_CORDON), "each change is an event");
    seq = world_seq(c.world);
    says(&c, "[" DEVICE("GPU-0", RULE("hot", "raised", "move")) "]");
    says(&c, "[" WHOLE("GPU-1", RULE("leak", "raised", "cordon")) "]");
    says(&c, "[" DEVICE("GPU-9", RULE("leak", "raised", "cordon")) "]");
    says(&c, "[" DEVICE("GPU-1", RULE("leak", "raised", "shout")) "]");
    ok(world_seq(c.world) == seq, "what is no news, of no device, or of no "
       "sense, is none");
    says(&c, "[" DEVICE("GPU-0", RULE("hot", "probation", "move")) "]");
    ok(is(&c, REMEDY_CORDON, REMEDY_CORDON), "probation is a cordon");
    close_control(&c);
    open_control(&c);
    ok(is(&c, REMEDY_CORDON, REMEDY_CORDON), "killed: it is so still");
    block_up(&c, 2);
    hello(&c);
    ok(is(&c, REMEDY_CORDON, REMEDY_CORDON), "until somebody says otherwise");
    says(&c, "[" DEVICE("GPU-0", RULE("hot", "cleared", "move")) "]");
    ok(is(&c, REMEDY_NONE, REMEDY_CORDON), "as now");
    close_control(&c);
}

/* What the whole of a device leaves out is over, and of others it says
 * nothing.
 */
static void test_whole(void)
{
    struct control c;

    begin_up(&c, 2);
    says(&c, "[" DEVICE("GPU-0", RULE("hot", "raised", "move") ","
                        RULE("ecc", "raised", "drain")) ","
         DEVICE("GPU-1", RULE("leak", "raised", "cordon")) "]");
    says(&c, "[]");
    ok(is(&c, REMEDY_MOVE, REMEDY_CORDON), "nothing is said: nothing changes");
    says(&c, "[" WHOLE("GPU-0", RULE("ecc", "raised", "drain") ","
                       RULE("note", "raised", "note")) "]");
    ok(is(&c, REMEDY_DRAIN, REMEDY_CORDON), "one is over, one is new");
    says(&c, "[" WHOLE("GPU-0", "") "," WHOLE("GPU-1", "") "]");
    ok(is(&c, REMEDY_NONE, REMEDY_NONE), "and all are");
    close_control(&c);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    test_changes();
    test_whole();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

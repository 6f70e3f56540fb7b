#include "base/loop.h"

#include "base/err.h"
#include "base/mem.h"
#include "base/random.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static uint64_t fake_now;

static uint64_t fake_clock(void *arg)
{
    (void) arg;
    return fake_now;
}

static struct loop *open_fake(void)
{
    struct loop *l = NULL;

    fake_now = 1000;
    if (loop_open(&l, NULL) < 0)
        return NULL;
    loop_set_clock(l, fake_clock, NULL);
    return l;
}

static void turn_at(struct loop *l, uint64_t now)
{
    struct err err = { 0 };

    fake_now = now;
    if (loop_turn(l, 0, &err) < 0)
        ok(false, "turn: %s", err.text);
}

/* What was called, one letter each. */
static char calls[64];

static void note(const char *letter)
{
    (void) strncat(calls, letter, 1);
}

static bool called(const char *what)
{
    bool same = strcmp(calls, what) == 0;

    if (!same)
        printf("# called '%s'\n", calls);
    calls[0] = '\0';
    return same;
}

static void on_timer(struct watch *w, void *arg)
{
    (void) w;
    note(arg);
}

/* Letters are writable arguments, as void * wants it. */
static char a[] = "a", b[] = "b", c[] = "c", d[] = "d", e[] = "e";

static void test_timers(void)
{
    struct loop *l = open_fake();
    struct watch *w;

    (void) loop_timer(l, 20, on_timer, c);
    (void) loop_timer(l, 10, on_timer, a);
    (void) loop_timer(l, 20, on_timer, d);
    (void) loop_timer(l, 10, on_timer, b);
    (void) loop_timer(l, UINT64_MAX, on_timer, e);
    turn_at(l, 1009);
    ok(called(""), "no timer fires early");
    turn_at(l, 1010);
    ok(called("ab") && loop_now(l) == 1010, "timers fire when due");
    turn_at(l, 1015);
    ok(called(""), "and once");
    turn_at(l, 5000);
    ok(called("cd"), "equal ones in order of adding");
    w = loop_timer(l, 5, on_timer, a);
    (void) loop_timer(l, 7, on_timer, b);
    watch_remove(w);
    watch_remove(w);
    turn_at(l, 6000);
    ok(called("b"), "a removed timer does not fire, removing twice is fine");
    fake_now = 9000;
    (void) loop_timer(l, 10, on_timer, a);
    turn_at(l, 9009);
    ok(called(""), "between turns a timer counts from now, not the last turn");
    turn_at(l, 9010);
    ok(called("a"), "and then fires");
    loop_close(l);
}

static struct watch *victim;

static void remove_victim(struct watch *w, void *arg)
{
    note(arg);
    watch_remove(victim);
    watch_remove(w);                     /* itself: already gone, still fine */
    watch_remove(NULL);
}

static struct loop *the_loop;

static void add_timer(struct watch *w, void *arg)
{
    (void) w;
    note(arg);
    (void) loop_timer(the_loop, 0, on_timer, e);
}

static void test_timers_in_callbacks(void)
{
    struct loop *l = the_loop = open_fake();

    (void) loop_timer(l, 10, remove_victim, a);
    victim = loop_timer(l, 10, on_timer, b);
    (void) loop_timer(l, 10, on_timer, c);
    turn_at(l, 1010);
    ok(called("ac"), "a timer removed in the turn it is due is not called");
    (void) loop_timer(l, 5, add_timer, a);
    (void) loop_timer(l, 9, on_timer, b);
    turn_at(l, 1020);
    ok(called("ab"), "a timer added by a callback waits for the next turn");
    turn_at(l, 1020);
    ok(called("e"), "and fires then");
    loop_close(l);
}

struct due {
    uint64_t at;
    struct watch *w;
    bool fired;
};

static uint64_t last_at;
static size_t fired, out_of_order;

static void on_due(struct watch *w, void *arg)
{
    struct due *t = arg;

    out_of_order += t->at < last_at || t->at > fake_now || t->fired ||
                    t->w != w;
    last_at = t->at;
    t->fired = true;
    fired++;
}

static void test_many_timers(void)
{
    enum { N = 20000 };
    struct loop *l = open_fake();
    struct due *all = mem_array(N, sizeof *all);
    uint64_t seed = 1;
    size_t removed = 0;

    for (int i = 0; i < N; i++) {
        uint64_t x = random_next(&seed);

        all[i].at = fake_now + x % 5000;
        all[i].w = loop_timer(l, x % 5000, on_due, &all[i]);
        if (x >> 50 & 1) {
            struct due *t = &all[(x >> 20) % (unsigned) (i + 1)];

            removed += t->w != NULL;
            watch_remove(take(t->w));
        }
    }
    for (uint64_t now = 1000; now < 7000; now += 100)
        turn_at(l, now);
    ok(fired == N - removed && out_of_order == 0,
       "%zu timers in order, %zu removed before", fired, removed);
    loop_close(l);
    free(all);
}

static void on_fd(struct watch *w, int fd, unsigned ready, void *arg)
{
    char byte;

    (void) w;
    note(arg);
    if (ready & LOOP_READ)
        while (read(fd, &byte, 1) == 1)
            ;
    if (ready & LOOP_WRITE)
        note("W");
}

static void on_fd_remove(struct watch *w, int fd, unsigned ready, void *arg)
{
    (void) fd;
    (void) ready;
    note(arg);
    watch_remove(victim);
    watch_remove(w);
}

static void make_pipe(int ends[2])
{
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        ok(false, "pipe2");
}

static void drop_pipe(const int ends[2])
{
    (void) close(ends[0]);
    (void) close(ends[1]);
}

static void send_byte(int fd)
{
    if (write(fd, "x", 1) != 1)
        ok(false, "write");
}

static void test_fds(void)
{
    struct loop *l = open_fake();
    struct watch *w = NULL, *out = NULL;
    struct err err = { 0 };
    int ends[2];

    make_pipe(ends);
    ok(loop_fd(l, ends[0], LOOP_READ, on_fd, a, &w, NULL) == 0, "watch a pipe");
    turn_at(l, 1000);
    ok(called(""), "nothing to read");
    send_byte(ends[1]);
    turn_at(l, 1000);
    ok(called("a"), "something to read");
    turn_at(l, 1000);
    ok(called(""), "once");
    ok(loop_fd(l, ends[1], LOOP_WRITE, on_fd, b, &out, NULL) == 0, "the other");
    turn_at(l, 1000);
    ok(called("bW"), "is ready to be written");
    watch_want(out, 0);
    turn_at(l, 1000);
    ok(called(""), "a sleeping watcher is not called");
    watch_remove(out);
    out = NULL;
    ok(loop_fd(l, -1, LOOP_READ, on_fd, c, &out, &err) == -EBADF && !out &&
       err.text[0], "a bad descriptor: %s", err.text);
    ok(loop_fd(l, ends[0], LOOP_READ, on_fd, c, &out, &err) == -EEXIST && !out,
       "one that is watched already: %s", err.text);
    watch_remove(w);
    send_byte(ends[1]);
    turn_at(l, 1000);
    ok(called(""), "a removed watcher is not called");
    drop_pipe(ends);
    loop_close(l);
}

static void test_fd_removes_timer(void)
{
    struct loop *l = open_fake();
    struct watch *w = NULL;
    int ends[2];

    make_pipe(ends);
    send_byte(ends[1]);
    (void) loop_timer(l, 0, on_timer, b);
    victim = loop_timer(l, 0, on_timer, c);
    (void) loop_fd(l, ends[0], LOOP_READ, on_fd_remove, a, &w, NULL);
    turn_at(l, 1000);
    ok(called("ab"), "a descriptor's callback removes a timer that is due");
    loop_close(l);
    drop_pipe(ends);
}

static struct watch *pair[2];

static void remove_both(struct watch *w, int fd, unsigned ready, void *arg)
{
    (void) w;
    (void) fd;
    (void) ready;
    note(arg);
    watch_remove(pair[0]);
    watch_remove(pair[1]);
}

static void test_each_removes_all(void)
{
    struct loop *l = open_fake();
    int one[2], two[2];

    make_pipe(one);
    make_pipe(two);
    send_byte(one[1]);
    send_byte(two[1]);
    (void) loop_fd(l, one[0], LOOP_READ, remove_both, a, &pair[0], NULL);
    (void) loop_fd(l, two[0], LOOP_READ, remove_both, a, &pair[1], NULL);
    turn_at(l, 1000);
    ok(called("a"), "of two that are ready, the one removed is never called");
    loop_close(l);
    drop_pipe(one);
    drop_pipe(two);
}

static void test_hang_up(void)
{
    struct loop *l = open_fake();
    struct watch *w = NULL;
    int ends[2];

    make_pipe(ends);
    (void) loop_fd(l, ends[0], LOOP_READ, on_fd, a, &w, NULL);
    watch_want(w, 0);
    (void) close(ends[1]);
    turn_at(l, 1000);
    turn_at(l, 1000);
    ok(called(""), "a hang-up does not wake a sleeping watcher");
    watch_want(w, LOOP_READ);
    turn_at(l, 1000);
    ok(called("a"), "it is shown when asked for");
    watch_remove(w);
    (void) close(ends[0]);

    make_pipe(ends);
    (void) loop_fd(l, ends[1], LOOP_WRITE, on_fd, b, &w, NULL);
    (void) close(ends[0]);
    turn_at(l, 1000);
    ok(called("bW"), "to a writer as ready to be written");
    watch_remove(w);
    (void) close(ends[1]);
    loop_close(l);
}

static void soon_again(struct watch *w, void *arg)
{
    (void) w;
    note(arg);
    (void) loop_soon(the_loop, on_timer, e);
}

static void test_soon(void)
{
    struct loop *l = the_loop = open_fake();
    struct watch *w;

    (void) loop_soon(l, on_timer, b);
    (void) loop_soon(l, on_timer, c);
    w = loop_soon(l, on_timer, d);
    (void) loop_timer(l, 0, on_timer, a);
    watch_remove(w);
    ok(loop_turn(l, -1, NULL) == 0 && called("abc"),
       "called at the end of the turn, in order, without waiting");
    turn_at(l, 1000);
    ok(called(""), "once");
    (void) loop_timer(l, 0, soon_again, a);
    turn_at(l, 1000);
    ok(called("ae"), "a timer's call comes in the same turn");
    (void) loop_soon(l, soon_again, a);
    turn_at(l, 1000);
    ok(called("a"), "one from within such a call waits");
    ok(loop_turn(l, -1, NULL) == 0 && called("e"), "for the next turn");
    (void) loop_soon(l, on_timer, a);    /* freed by loop_close */
    loop_close(l);
    ok(called(""), "a loop that closes calls nothing");
}

static int last_signal;

static void on_signal(int sig, void *arg)
{
    last_signal = sig;
    note(arg);
}

static void test_signals(void)
{
    struct loop *l = open_fake();
    struct err err = { 0 };

    ok(loop_signal(l, SIGUSR1, on_signal, a, NULL) == 0 &&
       loop_signal(l, SIGUSR2, on_signal, b, NULL) == 0, "watch two signals");
    turn_at(l, 1000);
    ok(called(""), "none came");
    (void) kill(getpid(), SIGUSR2);
    turn_at(l, 1000);
    ok(called("b") && last_signal == SIGUSR2, "one came");
    (void) kill(getpid(), SIGUSR1);
    (void) kill(getpid(), SIGUSR1);
    turn_at(l, 1000);
    ok(called("a"), "those that come together are one");
    ok(loop_signal(l, 1000, on_signal, a, &err) == -EINVAL && err.text[0],
       "there is no signal 1000: %s", err.text);
    loop_close(l);
}

static void stop(struct watch *w, void *arg)
{
    (void) w;
    note(arg);
    loop_stop(the_loop);
}

/* With the real clock; it may be as slow as it likes. */
static void test_run(void)
{
    struct loop *l = NULL;
    uint64_t start;

    ok(loop_open(&l, NULL) == 0, "a loop with the real clock");
    the_loop = l;
    start = loop_now(l);
    (void) loop_timer(l, 2, on_timer, a);
    (void) loop_timer(l, 20, stop, b);
    (void) loop_timer(l, 1000000, on_timer, c);
    ok(loop_run(l, NULL) == 0 && called("ab"), "runs until it is stopped");
    ok(loop_now(l) - start >= 20, "and waits no less than asked");
    (void) loop_timer(l, 0, stop, d);
    ok(loop_run(l, NULL) == 0 && called("d"), "it can run again");
    ok(loop_turn(l, 1, NULL) == 0 && called(""), "a turn ends without events");
    loop_close(l);
    loop_close(NULL);
}

int main(void)
{
    test_timers();
    test_timers_in_callbacks();
    test_many_timers();
    test_fds();
    test_fd_removes_timer();
    test_each_removes_all();
    test_hang_up();
    test_soon();
    test_signals();
    test_run();
    return tap_done();
}

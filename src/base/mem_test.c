#include "base/mem.h"

#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>

static void test_allocate(void)
{
    autofree char *zero = mem_new(100);
    autofree char *none = mem_new(0);
    autofree int *numbers = mem_array(10, sizeof *numbers);
    autofree char *copy = mem_dup("abc", 3);
    bool zeroed = true;

    for (size_t i = 0; i < 100; i++)
        zeroed = zeroed && zero[i] == 0;
    ok(zeroed, "mem_new gives zeros");
    ok(none != NULL, "mem_new of nothing is not NULL");
    ok(numbers[9] == 0, "mem_array gives zeros");
    numbers = mem_grow(numbers, 1000, sizeof *numbers);
    numbers[999] = 1;
    ok(numbers[9] == 0 && numbers[999] == 1, "mem_grow keeps what was there");
    ok(memcmp(copy, "abc", 3) == 0, "mem_dup copies");
}

static void test_more(void)
{
    autofree unsigned *list = NULL;
    unsigned wrong = 0, moves = 0;

    for (unsigned i = 0; i < 1000; i++) {
        unsigned *before = list;

        list = mem_more(list, i, sizeof *list);
        list[i] = i;
        moves += list != before;
    }
    for (unsigned i = 0; i < 1000; i++)
        wrong += list[i] != i;
    ok(wrong == 0 && moves <= 11, "mem_more: room one by one, moved %u times",
       moves);
}

static void test_texts(void)
{
    autofree char *s = mem_str("hello");
    autofree char *n = mem_strn("gateway", 4);
    autofree char *f = mem_printf("%s-%d", "a", 5);

    ok(strcmp(s, "hello") == 0, "mem_str copies");
    ok(mem_str(NULL) == NULL, "mem_str of NULL is NULL");
    ok(strcmp(n, "gate") == 0, "mem_strn copies the start");
    ok(strcmp(f, "a-5") == 0, "mem_printf prints");
}

static void test_lines(void)
{
    uint32_t wrong = 0;

    for (size_t n = 0; n < 4 * (size_t) MEM_LINE; n++) {
        autofree char *p = mem_lines(n);

        wrong += (uintptr_t) p % MEM_LINE != 0;
        for (size_t k = 0; k < n; k++)
            wrong += p[k] != 0;
    }
    ok(wrong == 0, "lines are zeroed and begin with one");
}

static int give_fd(void)
{
    autoclose int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    return take_fd(fd);
}

static int lose_fd(void)
{
    autoclose int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    return fd;
}

static void test_ownership(void)
{
    char *a = mem_str("x");
    autofree char *b = take(a);
    int kept = give_fd(), lost = lose_fd();

    ok(a == NULL && strcmp(b, "x") == 0, "take leaves NULL behind");
    ok(fcntl(kept, F_GETFD) >= 0, "take_fd hands a descriptor out");
    ok(lost != kept && fcntl(lost, F_GETFD) < 0 && errno == EBADF,
       "autoclose closes");
    (void) close(kept);
}

static void want_too_much(void)
{
    (void) mem_grow(NULL, SIZE_MAX / 2, 4);
}

static void want_too_many(void)
{
    (void) mem_array(SIZE_MAX / 2, 4);
}

/* The exit status of a child that does it; what it says goes to `said`. */
static int end_of(void (*f)(void), char *said, size_t size)
{
    int ends[2], status = 0;
    ssize_t n;
    pid_t pid;

    if (pipe(ends) < 0 || (pid = fork()) < 0)
        return -1;
    if (pid == 0) {
        (void) dup2(ends[1], STDERR_FILENO);
        f();
        _exit(0);
    }
    (void) close(ends[1]);
    n = read(ends[0], said, size - 1);
    said[n > 0 ? n : 0] = '\0';
    (void) close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return -1;
    return WEXITSTATUS(status);
}

static void test_out_of_memory(void)
{
    char said[256];

    ok(end_of(want_too_much, said, sizeof said) == 71,
       "a product that overflows ends the process with 71");
    ok(strcmp(said, "weir: out of memory\n") == 0, "which says one line");
    ok(end_of(want_too_many, said, sizeof said) == 71,
       "also for an array");
    ok(end_of(mem_none, said, sizeof said) == 71 && said[0],
       "mem_none is that end");
}

int main(void)
{
    test_allocate();
    test_more();
    test_texts();
    test_lines();
    test_ownership();
    test_out_of_memory();
    return tap_done();
}

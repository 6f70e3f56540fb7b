#include "base/log.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static char said[200000];

/* What `f` writes to standard error. */
static size_t capture(void (*f)(void))
{
    char path[] = "/tmp/weir-log-test.XXXXXX";
    autoclose int fd = mkstemp(path);
    int was = dup(STDERR_FILENO);
    ssize_t n;

    (void) unlink(path);
    (void) dup2(fd, STDERR_FILENO);
    f();
    (void) dup2(was, STDERR_FILENO);
    (void) close(was);
    n = pread(fd, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = '\0';
    return strlen(said);
}

static void say_nasty(void)
{
    log_say(LOG_INFO, "submitted", "workload", "w1", "name",
            "a \"b\"\n\x1b[2J\\ \xff \xc3\xa4 \xc2\x9b" "2J", "none", NULL,
            NULL);
}

static void say_levels(void)
{
    log_open("weir-test", LOG_WARN);     /* standard error is a file here */
    log_say(LOG_ERROR, "one", NULL);
    log_say(LOG_WARN, "two", NULL);
    log_say(LOG_INFO, "three", NULL);
    log_say(LOG_DEBUG, "four", NULL);
}

static void say_much(void)
{
    autofree char *much = mem_new(100001);

    memset(much, 'x', 100000);
    log_say(LOG_WARN, "cut", "much", much, NULL);
}

static void say_forged(void)
{
    log_say(LOG_INFO, "two\nlines\x1b[2J", NULL);
}

static void test_json(void)
{
    autojson json_t *j = NULL;
    uint64_t ms = 0;

    log_open("weir-test", LOG_INFO);
    log_format("json");
    (void) capture(say_nasty);
    ok(strchr(said, '\n') == said + strlen(said) - 1, "one line");
    ok(json_read(said, strlen(said), sizeof said, &j, NULL) == 0,
       "that is JSON: %s", said);
    ok(strcmp(json_get_str(j, "level", ""), "info") == 0 &&
       strcmp(json_get_str(j, "program", ""), "weir-test") == 0 &&
       strcmp(json_get_str(j, "message", ""), "submitted") == 0 &&
       strcmp(json_get_str(j, "workload", ""), "w1") == 0,
       "with level, program, message and fields");
    ok(clock_parse(json_get_str(j, "time", ""), &ms, NULL) == 0 && ms > 0,
       "and the time");
    ok(strcmp(json_get_str(j, "name", ""), "a \"b\"\n\x1b[2J\\ \xef\xbf\xbd "
              "\xc3\xa4 \xc2\x9b" "2J") == 0, "values survive");
    ok(!strchr(said, '\x1b') && !strstr(said, "\xc2\x9b"),
       "and command no terminal");
    ok(strcmp(json_get_str(j, "none", "-"), "") == 0, "NULL is an empty text");
}

static void test_text(void)
{
    log_format("text");
    (void) capture(say_nasty);
    ok(strchr(said, '\n') == said + strlen(said) - 1, "one line");
    ok(strstr(said, "Z info  weir-test: submitted workload=w1 name=\"a "
              "\\\"b\\\"\\u000a\\u001b[2J\\\\ \\ufffd \xc3\xa4 \\u009b2J\" "
              "none=\"\"\n"), "of text: %s", said);
    (void) capture(say_forged);
    ok(strchr(said, '\n') == said + strlen(said) - 1 && !strchr(said, '\x1b'),
       "a message cannot forge a line");
}

static void test_levels(void)
{
    enum log_level level = LOG_DEBUG;

    (void) capture(say_levels);
    ok(strstr(said, "\"one\"") && strstr(said, "\"two\"") &&
       !strstr(said, "three") && !strstr(said, "four"),
       "only what is urgent enough is said, as JSON to a file");
    ok(log_level_parse("error", &level) == 0 && level == LOG_ERROR &&
       log_level_parse("warn", &level) == 0 && level == LOG_WARN &&
       log_level_parse("info", &level) == 0 && level == LOG_INFO &&
       log_level_parse("debug", &level) == 0 && level == LOG_DEBUG,
       "the four names");
    ok(log_level_parse("loud", &level) == -EINVAL && level == LOG_DEBUG &&
       log_level_parse("", &level) == -EINVAL, "and no other");
}

static void test_much(void)
{
    autojson json_t *j = NULL;
    size_t len = capture(say_much);

    ok(len < 1000 && json_read(said, len, len, &j, NULL) == 0 &&
       strstr(json_get_str(j, "message", ""), "too long"),
       "a line too long says so and is still JSON: %s", said);
}

int main(void)
{
    test_json();
    test_text();
    test_levels();
    test_much();
    return tap_done();
}

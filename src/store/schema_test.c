#include "store/schema.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"
#include "store/sql.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char dir[] = "/tmp/weir-schema-XXXXXX";
static char path[64];

static struct sql *fresh(void)
{
    struct sql *s = NULL;
    struct err err = { 0 };
    int fd;

    (void) unlink(path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void) close(fd);
    if (sql_open(path, NULL, SQL_WRITE, &s, &err) < 0)
        printf("# %s\n", err.text);
    return s;
}

static int64_t number(struct sql *s, const char *text)
{
    int64_t n = -1;

    (void) sql_number(s, text, &n, NULL);
    return n;
}

static void test_new(void)
{
    struct sql *s = fresh();
    struct err err = { 0 };
    struct schema_head head = { .seq = 7 };

    ok(schema_expect(s, &err) == -EROFS && strstr(err.text, "version 0"),
       "an empty file is a store of version 0");
    ok(schema_migrate(s, &err) == 0, "it becomes one of the newest version");
    ok(number(s, "PRAGMA user_version") == SCHEMA_VERSION &&
       number(s, "PRAGMA application_id") == SCHEMA_APPLICATION,
       "and says so");
    ok(schema_expect(s, &err) == 0, "and is taken for one");
    ok(schema_migrate(s, &err) == 0, "doing it again changes nothing");
    ok(schema_check(s, SCHEMA_BOUNDED, &err) == 0 &&
       schema_check(s, SCHEMA_QUICK, &err) == 0 &&
       schema_check(s, SCHEMA_FULL, &err) == 0, "all checks find it whole");
    ok(schema_head(s, &head, &err) == 0 && head.seq == 0 && head.live == 0,
       "its head is at the beginning");
    sql_close(s);
}

static void test_foreign(void)
{
    struct sql *s = fresh();
    struct err err = { 0 };

    (void) sql_exec(s, "CREATE TABLE cat(name)", NULL);
    ok(schema_migrate(s, &err) == -EBADMSG && strstr(err.text, "not a store"),
       "another program's database is refused: %s", err.text);
    ok(number(s, "SELECT count(*) FROM sqlite_schema") == 1,
       "and left as it is");
    sql_close(s);
}

static void test_newer(void)
{
    struct sql *s = fresh();
    struct err err = { 0 };

    (void) schema_migrate(s, NULL);
    (void) sql_exec(s, "PRAGMA user_version = 7", NULL);
    ok(schema_migrate(s, &err) == -EPROTONOSUPPORT &&
       strstr(err.text, "version 7") && strstr(err.text, "version 1"),
       "a store from the future is refused: %s", err.text);
    ok(schema_expect(s, NULL) == -EPROTONOSUPPORT &&
       schema_sound(s, NULL) == -EPROTONOSUPPORT, "by every way in");
    sql_close(s);
}

/* A walk over steps that are not the real ones: there is but one real step. */
static void test_walk(void)
{
    static const struct schema_step good[] = {
        { "CREATE TABLE a(x); INSERT INTO a VALUES(1)" },
        { "ALTER TABLE a ADD COLUMN y DEFAULT 2" },
        { "UPDATE a SET y = x + 10" },
    };
    static const struct schema_step bad[] = {
        { "CREATE TABLE a(x)" }, { "CREATE TABLE b(x)" },
        { "INSERT INTO nowhere VALUES(1)" },
    };
    struct sql *s = fresh();
    struct err err = { 0 };

    ok(schema_migrate_with(s, good, 1, &err) == 0 &&
       number(s, "PRAGMA user_version") == 1, "a store of an older version");
    ok(schema_migrate_with(s, bad, 3, &err) < 0 &&
       strstr(err.text, "from version 2 to 3"),
       "a step that fails is named: %s", err.text);
    ok(number(s, "PRAGMA user_version") == 1 &&
       number(s, "SELECT count(*) FROM sqlite_schema") == 1,
       "and the steps before it are taken back");
    ok(schema_migrate_with(s, good, 3, &err) == 0 &&
       number(s, "PRAGMA user_version") == 3, "the good steps go through");
    ok(number(s, "SELECT y FROM a") == 11, "each ran once, in order");
    sql_close(s);
}

/* Spoil a good store by one statement; both checks must see it. */
static void spoil(const char *what, const char *text)
{
    struct sql *s = fresh();
    struct err err = { 0 };

    (void) schema_migrate(s, NULL);
    (void) sql_exec(s, "INSERT INTO event VALUES(1, 10, 'x', NULL, NULL, "
                    "'{}'), (2, 20, 'x', NULL, NULL, '{}');"
                    "INSERT INTO workload(id, live, tenant, who, body) VALUES"
                    "(1, 1, 'lab', 'uid:1', '{}'), (2, 0, 'lab', 'uid:1', "
                    "'{}'); UPDATE meta SET value = '{\"seq\":2,"
                    "\"time_ms\":20,\"events\":2,\"live\":1}'", NULL);
    if (schema_check(s, SCHEMA_FULL, &err) < 0)
        printf("# %s\n", err.text);
    ok(schema_check(s, SCHEMA_BOUNDED, NULL) == 0, "whole before: %s", what);
    if (sql_exec(s, text, &err) < 0)
        printf("# %s\n", err.text);
    ok(schema_check(s, SCHEMA_BOUNDED, &err) == -EBADMSG,
       "%s is noticed: %s", what, err.text);
    sql_close(s);
}

static void test_damage(void)
{
    struct sql *s;
    struct err err = { 0 };

    spoil("a lost newest event", "DELETE FROM event WHERE seq = 2");
    spoil("an event too many", "INSERT INTO event VALUES(3, 30, 'x', NULL, "
          "NULL, '{}')");
    spoil("a lost live workload", "DELETE FROM workload WHERE id = 1");
    spoil("a head that is no JSON", "UPDATE meta SET value = 'x'");
    spoil("a lost head", "DELETE FROM meta");
    spoil("a lost index", "DROP INDEX event_tenant");
    spoil("a table too many", "CREATE TABLE cat(name)");
    spoil("an event that is no JSON", "UPDATE event SET body = '{' "
          "WHERE seq = 1");
    spoil("events out of order", "UPDATE event SET time_ms = 30 "
          "WHERE seq = 1");

    s = fresh();
    (void) schema_migrate(s, NULL);
    (void) sql_exec(s, "UPDATE meta SET value = '{\"seq\":0,\"time_ms\":0,"
                    "\"events\":5,\"live\":0}'", NULL);
    ok(schema_check(s, SCHEMA_FULL, &err) == -EBADMSG &&
       strstr(err.text, "number of events"),
       "the full check counts the events: %s", err.text);
    sql_close(s);
}

static void test_no_database(void)
{
    struct sql *s = NULL;
    struct err err = { 0 };
    FILE *f = fopen(path, "w");

    if (f) {
        for (int i = 0; i < 500; i++)
            (void) fputs("this is a letter\n", f);
        (void) fclose(f);
    }
    ok((sql_open(path, NULL, SQL_WRITE, &s, &err) < 0 ||
        schema_migrate(s, &err) == -EBADMSG) && err.code == EBADMSG,
       "a file that is no database is refused: %s", err.text);
    sql_close(s);
}

int main(void)
{
    if (!mkdtemp(dir))
        return 1;
    (void) snprintf(path, sizeof path, "%s/store.db", dir);
    test_new();
    test_foreign();
    test_newer();
    test_walk();
    test_damage();
    test_no_database();
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

#include "runner/place.h"

#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/weir-place-XXXXXX";

static bool same(const char *a, const char *b)
{
    autofree char *one = NULL, *other = NULL;
    size_t n = 0, m = 0;

    return fs_read(a, PLACE_PROGRAM_MAX, &one, &n, NULL) == 0 &&
           fs_read(b, PLACE_PROGRAM_MAX, &other, &m, NULL) == 0 && n == m &&
           memcmp(one, other, n) == 0;
}

static bool is_mode(const char *path, mode_t mode)
{
    struct stat st;

    return stat(path, &st) == 0 && (st.st_mode & 07777) == mode;
}

int main(void)
{
    autofree char *secret = NULL, *home = NULL, *run = NULL;
    autofree char *token = NULL, *ca = NULL;
    autofree char *placed = NULL, *token2 = NULL, *ca2 = NULL;
    struct err err = { 0 };

    ok(mkdtemp(dir) != NULL, "a folder");
    secret = mem_printf("%s/secret", dir);
    home = mem_printf("%s/home", dir);
    run = mem_printf("%s/run", dir);
    token = mem_printf("%s/token", secret);
    ca = mem_printf("%s/ca.crt", secret);
    placed = mem_printf("%s/weir-runner", run);
    token2 = mem_printf("%s/token", home);
    ca2 = mem_printf("%s/ca.crt", home);
    ok(fs_mkdir(secret, 0755, NULL) == 0 && fs_mkdir(home, 0777, NULL) == 0 &&
       fs_mkdir(run, 0777, NULL) == 0 &&
       fs_write(token, "abc", 3, 0444, false, NULL) == 0, "three folders");
    ok(place(run, secret, home, &err) == -ENOENT && strstr(err.text, "ca.crt"),
       "what is missing is named: %s", err.text);
    (void) fs_write(ca, "PEM\n", 4, 0444, false, NULL);
    ok(place(run, secret, home, &err) == 0, "it is placed");
    ok(same("/proc/self/exe", placed) && is_mode(placed, 0700),
       "this very program");
    ok(same(token, token2) && is_mode(token2, 0600) && same(ca, ca2) &&
       is_mode(ca2, 0600), "token and authority, our own alone");
    ok(place(run, secret, home, &err) == 0, "once more is the same");
    (void) fs_remove_tree(dir, NULL);
    return tap_done();
}

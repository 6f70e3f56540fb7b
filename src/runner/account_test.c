#include "runner/account.h"

#include "base/mem.h"
#include "base/tap.h"

#include <string.h>

int main(void)
{
    struct accounts all = { 0 };
    const struct account *a = accounts_get(&all, 0, 0, "");
    const struct account *again = accounts_get(&all, 0, 0, "");

    ok(!strcmp(a->name, "root") && a->home[0] == '/' && a->shell[0] == '/',
       "root is %s, at %s, with %s", a->name, a->home, a->shell);
    ok(a->ngroups >= 1 && a->groups[0] == 0, "and in its own group first");
    ok(again == a && all.n == 1, "looked up once");
    a = accounts_get(&all, 4242424, 4242424, "");
    ok(!strcmp(a->name, "4242424") && !strcmp(a->home, "/") &&
       a->ngroups == 1 && a->groups[0] == 4242424,
       "an unknown number stands for itself");
    a = accounts_get(&all, 4242424, 4242424, "ghost");
    ok(!strcmp(a->name, "ghost"), "an unknown name is kept");
    a = accounts_get(&all, 4242424, 4242424, "root");
    ok(!strcmp(a->home, "/"), "a name that is another's gives nothing of it");
    all.passwd.tv_sec--;
    (void) accounts_get(&all, 0, 0, "");
    ok(all.n == 1, "a file that changed is read again");
    accounts_clear(&all);
    accounts_clear(&all);
    ok(!all.list, "cleared");
    return tap_done();
}

#include "base/list.h"

#include "base/tap.h"

#include <stdbool.h>
#include <string.h>

struct item {
    struct item *next, *prev;
    char name;
};

/* Walks forth and, from the last one, back. */
static bool reads(const struct item *first, const char *want)
{
    char forth[8] = "", back[8] = "";
    size_t n = 0, left = strlen(want);
    const struct item *last = NULL;

    for (const struct item *i = first; i && n < left; i = i->next) {
        forth[n++] = i->name;
        last = i;
    }
    if (n != left || (last && last->next))
        return false;
    for (const struct item *i = last; i && left > 0; i = i->prev)
        back[--left] = i->name;
    return left == 0 && (!first || !first->prev) &&
           strcmp(forth, want) == 0 && memcmp(back, want, n) == 0;
}

int main(void)
{
    struct item a = { .name = 'a' }, b = { .name = 'b' }, c = { .name = 'c' };
    struct item *list = NULL;

    list_push(list, &a);
    ok(reads(list, "a"), "one");
    list_push(list, &b);
    list_push(list, &c);
    ok(reads(list, "cba"), "the newest is first");
    list_unlink(list, &b);
    ok(reads(list, "ca") && !b.next && !b.prev, "without the middle one");
    list_push(list, &b);
    list_unlink(list, &b);
    ok(reads(list, "ca"), "without the first");
    list_unlink(list, &a);
    ok(reads(list, "c"), "without the last");
    list_unlink(list, &c);
    ok(list == NULL, "empty");
    return tap_done();
}

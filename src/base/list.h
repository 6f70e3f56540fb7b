#pragma once

#include <stddef.h>

/* list - a doubly linked list through the members `next` and `prev`.
 *
 *     struct conn { struct conn *next, *prev; };
 *     struct conn *conns = NULL;      // the list, by its first element
 *
 * Whoever unlinks in the midst of a walk remembers `next` first.
 */
#define list_push(first, e) do { \
        (e)->prev = NULL; \
        (e)->next = (first); \
        if ((first) != NULL) \
            (first)->prev = (e); \
        (first) = (e); \
    } while (0)

/* Leaves `next` and `prev` of the element NULL. */
#define list_unlink(first, e) do { \
        if ((e)->prev) \
            (e)->prev->next = (e)->next; \
        else \
            (first) = (e)->next; \
        if ((e)->next) \
            (e)->next->prev = (e)->prev; \
        (e)->next = (e)->prev = NULL; \
    } while (0)

#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct spec_arena;

/* node - a document as a tree that knows where each thing stands.
 *
 * Made from libyaml's events, which hold for JSON too.  Aliases share the node
 * they name, so memory follows the size of the text; `weight` counts the nodes
 * as if each alias were written out, and both that and the depth are limited
 * while reading: nobody who walks the tree can be made to walk for long.
 */
enum node_limit {
    NODE_MAX_DEPTH = 32,
    NODE_MAX_WEIGHT = 2000000,
};

enum node_kind { NODE_SCALAR, NODE_LIST, NODE_MAPPING };

struct node {
    unsigned char kind;                /* enum node_kind */
    unsigned char height;              /* 1: a scalar or an empty collection */
    bool plain;                        /* a scalar without quotes */
    bool templated;                    /* "{{" is in it or below it */
    uint32_t line, column;             /* from 1 */
    uint32_t count;                    /* bytes, items or members */
    uint32_t weight;
    union {
        const char *text;              /* NUL-terminated, no NUL inside */
        const struct node *const *items;
        const struct node_member *members;
    };
};

struct node_member {
    const struct node *key, *value;    /* the key is a scalar */
};

struct node_fault {
    unsigned line, column;
    char text[256];
};

/* Read one document.  The tree lives in the arena.  -EINVAL and *fault when
 * it is not YAML, not UTF-8, empty, several, or past a limit.
 */
int node_read(const char *text, size_t len, struct spec_arena *arena,
              const struct node **ret, struct node_fault *fault);

/* A scalar that says nothing: absent, ~ or null. */
bool node_is_null(const struct node *n);

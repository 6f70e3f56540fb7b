#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <stddef.h>

struct err;

/* split - the stream of a watch, cut into its events.
 *
 * The stream is one JSON object after the other, each on a line of its own:
 * {"type": "ADDED", "object": {...}}.  It comes in pieces of any size.  A line
 * is at most SPLIT_MAX bytes: etcd holds objects of 1.5 MiB at most, which JSON
 * makes longer.
 */
enum { SPLIT_MAX = 16 * 1024 * 1024 };

enum split_kind {
    SPLIT_PUT,                         /* ADDED, MODIFIED */
    SPLIT_GONE,                        /* DELETED */
    SPLIT_MARK,                        /* BOOKMARK: only a version */
    SPLIT_ERROR,                       /* the object is a Status */
};

struct split {
    struct buf rest;                   /* a line that has not ended */
};

#define SPLIT_INIT { .rest = BUF_INIT(SPLIT_MAX) }

/* For each event; a negative number ends the reading with it. */
typedef int (*split_f)(enum split_kind kind, const json_t *object, void *arg,
                       struct err *err);

/* More bytes.  After a failure the stream is of no use. */
int split_feed(struct split *s, const char *p, size_t n, split_f each,
               void *arg, struct err *err);
void split_clear(struct split *s);     /* for a new stream */

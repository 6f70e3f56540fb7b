#pragma once

#include <jansson.h>

struct block;
struct call;
struct task;

/* strays - put `strays`, if there are any, into the view of a device of a
 * block, or of a task that the caller may see.
 */
void put_device_strays(const struct call *c, const struct block *b,
                       const char *uuid, json_t *o);
void put_task_strays(const struct call *c, const struct task *t, json_t *o);

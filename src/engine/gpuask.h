#pragma once

#include <jansson.h>

struct err;
struct loop;

/* gpuask - a question to the weir-gpud of this node (gpu/ask.h has what it
 * may be asked), over a connection of its own.
 */
#define GPUASK_SOCKET "/run/weir/gpud.sock"

struct gpuask;
/* `answer` is the caller's until it returns; NULL: there is none, and `why` says
 * why not.  The question may have been heard all the same.
 */
typedef void (*gpuask_f)(const json_t *answer, const char *why, void *arg);

/* Takes `question`.  On failure nothing was asked, and `cb` is not called; else
 * it is, once, from the loop.  Either way the caller closes it.
 */
int gpuask_open(struct loop *l, const char *socket_path, json_t *question,
                gpuask_f cb, void *arg, struct gpuask **ret, struct err *err);
/* The same, for as long as it is open: `cb` is called for each message that
 * comes, the answers of further questions among them, and with NULL when no
 * more will.  Only then may `cb` close it.
 */
int gpuask_watch(struct loop *l, const char *socket_path, json_t *question,
                 gpuask_f cb, void *arg, struct gpuask **ret, struct err *err);
/* Takes `question`; of one that watches. */
void gpuask_more(struct gpuask *a, json_t *question);
void gpuask_close(struct gpuask *a);               /* NULL is fine */

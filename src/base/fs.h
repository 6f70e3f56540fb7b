#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct err;

/* fs - files, whole and in order. */

/* mkdir -p; the last part gets `mode`, checked to be ours (owner, no link).
 * One that is there keeps its mode; it is refused when others can write to it
 * whom `mode` shuts out.
 */
int fs_mkdir(const char *path, mode_t mode, struct err *err);
/* The whole file, NUL added; EFBIG past max.  Caller frees. */
int fs_read(const char *path, size_t max, char **ret, size_t *ret_len,
            struct err *err);
/* tmp + rename; with `sync` also fsync of file and folder. */
int fs_write(const char *path, const void *data, size_t len, mode_t mode,
             bool sync, struct err *err);
/* rm -rf that follows no link, at most 128 folders deep. */
int fs_remove_tree(const char *path, struct err *err);
/* Exclusive lock for as long as the descriptor is open; -EWOULDBLOCK when
 * somebody has it.  The file holds the owner's pid.
 */
int fs_lock(const char *path, int *ret_fd, struct err *err);
/* All n bytes, past EINTR and short counts. */
int fs_write_all(int fd, const void *p, size_t n, struct err *err);
int fs_set_nonblock(int fd, struct err *err);
/* 64-bit random from the kernel. */
uint64_t fs_random(void);
/* `bytes` random bytes as hex, NUL-terminated; out has 2*bytes+1. */
void fs_random_hex(char *out, size_t bytes);

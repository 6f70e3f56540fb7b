#pragma once

/* err - what went wrong, in words, for the person who must act on it.
 *
 * A function that can fail returns 0 or a negative errno value and takes a
 * `struct err *` last.  On failure *err holds a text; on success it is
 * untouched.  NULL is allowed and means "only the number matters".  Nothing
 * here allocates, so reporting an error cannot itself fail.
 */
struct err {
    int code;          /* positive errno value */
    char text[512];    /* always terminated; cut off when too long */
};

/* Set the text.  Returns -code, so that callers can write
 *     return err_set(err, EINVAL, "lease %s: no such block", id);
 */
int err_set(struct err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Put context in front: "open '/x/y'" + "No space left" .  Returns `rc`, the
 * negative code it was given.
 */
int err_prefix(struct err *err, int rc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A static analyzer that sees one file at a time must be told that these are
 * failures, or it follows a caller who goes on without the output.
 */
#ifdef __clang_analyzer__
#define err_set(err, code, ...) (err_set((err), (code), __VA_ARGS__), -1)
#define err_prefix(err, rc, ...) (err_prefix((err), (rc), __VA_ARGS__), (rc))
#endif

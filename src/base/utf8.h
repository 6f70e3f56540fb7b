#pragma once

#include <stdbool.h>
#include <stddef.h>

/* utf8 - is this text?
 *
 * The bytes of the character at `s`, 1 to 4, of which `left` are there; 0 when
 * they are no character: cut off, overlong, a surrogate, past U+10FFFF.
 */
size_t utf8_size(const char *s, size_t left);
bool utf8_valid(const char *s, size_t len);
/* A copy in which each byte that is no part of a character is U+FFFD. */
char *utf8_clean(const char *s, size_t len);       /* caller frees */

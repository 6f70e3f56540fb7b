#pragma once

/* elf - a function by its name in what is loaded, without asking the loader.
 *
 * The first one in the order of loading that is not `but`, or NULL.  For the
 * loader's own functions, which are in libc or in libdl, in many versions or in
 * none, and which libraries loaded first may replace.
 */
void *elf_find(const char *name, const void *but);

#pragma once

#include <stdbool.h>
#include <stddef.h>

/* nvml_text - the stand-in's files: key=value a line.
 *
 * Read anew at every question and into memory of the caller, so that a test
 * drives the values and a sample costs no allocation.
 */
enum { NVML_FILE_MAX = 4096 };

struct nvml_text {
    char data[NVML_FILE_MAX];
};

/* Is the variable set, and the file there? */
bool nvml_text_read(const char *name, struct nvml_text *ret);
/* The value of `key`, in `buf`; false and "" when it is not there. */
bool nvml_text_get(const struct nvml_text *t, const char *key, char *buf,
                   size_t size);
unsigned long long nvml_text_number(const struct nvml_text *t, const char *key,
                                    unsigned long long otherwise);
/* Is `word` in the list a,b,c that `key` has? */
bool nvml_text_has(const struct nvml_text *t, const char *key,
                   const char *word);

#pragma once

/* scrub - does the driver clear device memory before another process has it?
 *
 * It does so when memory is freed, also by the end of a process, unless the
 * kernel module was loaded with RMDisableScrubOnFree (docs/gpu.md).
 */
#define SCRUB_PARAMS "/proc/driver/nvidia/params"

enum scrub { SCRUB_UNKNOWN, SCRUB_ON, SCRUB_OFF };

/* From the file where the module shows what it was loaded with.  What cannot be
 * read, or says nothing of it, is SCRUB_UNKNOWN.
 */
enum scrub scrub_read(const char *path);

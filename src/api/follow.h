#pragma once

struct api;

/* follow - logs, read and followed.
 *
 * A log is pulled from the engine straight into what is sent.  One timer looks
 * after all followers that have reached the end of what was written.
 */
struct followers *followers_new(struct api *a);
/* When all streams are over; NULL is fine. */
void followers_free(struct followers *fs);

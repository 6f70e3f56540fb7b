#pragma once

/* log - what the daemons say: text on a terminal, one JSON object a line
 * otherwise.  Only event handlers and main() log; libraries return errors.
 * Lines go to standard error, each with one write.
 */
enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* The format is chosen by isatty(2); log_format, with "text" or "json",
 * overrides that.
 */
void log_open(const char *name, enum log_level level);
void log_format(const char *name);
int log_level_parse(const char *s, enum log_level *ret);

/* Fields come as name, value pairs of texts, ended by NULL:
 *     log_say(LOG_INFO, "submitted", "workload", id, "tenant", t, NULL);
 */
void log_say(enum log_level level, const char *text, ...)
    __attribute__((sentinel));

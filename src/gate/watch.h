#pragma once

/* watch - looks for threads of this process that are inside the locked driver,
 * and shows them in the page.  Called by threads that wait at the gate; one of
 * them looks at a time.
 */
void watch_look(void);
void watch_end(void);                  /* the driver is not locked any more */
void watch_forked(void);

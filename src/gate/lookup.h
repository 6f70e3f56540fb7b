#pragma once

#include "gate/driver.h"

/* lookup - ours for a function of the driver's. */

/* The hook or the trampoline for an address of the driver's code; the address
 * itself when there is none left, which shows in the page.
 */
void *gate_wrap(void *p);

void table_forked(void);               /* table.c: no lock is held in a child */

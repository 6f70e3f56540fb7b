#include "gate/stuck.h"

#include <stdio.h>
#include <stdlib.h>

/* stuck PID - what the gate's watchdog sees of a process, from outside. */
int main(int argc, char **argv)
{
    struct stuck found[16];
    int n = argc == 2 ? stuck_find((int) strtol(argv[1], NULL, 10), 0, found,
                                   16) : -1;

    (void) printf("%d", n);
    for (int k = 0; k < n && k < 16; k++)
        (void) printf(" %s", found[k].in);
    (void) printf("\n");
    return n < 0;
}

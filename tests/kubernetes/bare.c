#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* bare - all there is in an image without a shell; static.
 *
 *     bare              waits for its end and reaps orphans, as a pod's first
 *                       process does
 *     bare say TEXT...  prints each on a line of its own
 *     bare env NAME...  prints the values of these
 *     bare exit STATUS  ends with it
 */
static void on_end(int sig)
{
    (void) sig;
    _exit(0);
}

static void wait_for_end(void)
{
    (void) signal(SIGTERM, on_end);
    (void) signal(SIGINT, on_end);
    for (;;)
        if (wait(NULL) < 0)
            (void) usleep(50000);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        wait_for_end();
    if (strcmp(argv[1], "exit") == 0 && argc == 3)
        return (int) strtol(argv[2], NULL, 10);
    for (int i = 2; i < argc; i++) {
        const char *env = getenv(argv[i]);

        (void) puts(strcmp(argv[1], "say") == 0 ? argv[i] : env ? env : "");
    }
    return 0;
}

/* replay - runs a fuzz target over its corpus, with any compiler.
 *
 *     replay_NAME FOLDER
 *
 * One TAP point for each file.  A target that finds something aborts, which
 * ends this program without a plan: a failure.
 */
#include "base/err.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/tap.h"

#include <dirent.h>
#include <stdint.h>
#include <string.h>

enum { INPUT_MAX = 16 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int is_input(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void replay(const char *folder, const char *name)
{
    autofree char *path = mem_printf("%s/%s", folder, name);
    autofree char *data = NULL;
    struct err err = { 0 };
    size_t len = 0;

    printf("# %s\n", name);
    (void) fflush(stdout);
    if (fs_read(path, INPUT_MAX, &data, &len, &err) < 0) {
        ok(0, "%s", err.text);
        return;
    }
    /* Without the NUL that fs_read adds, so that a sanitizer sees a target
     * which reads too far.
     */
    uint8_t *exact = mem_dup(data, len);

    ok(LLVMFuzzerTestOneInput(exact, len) == 0, "%s", name);
    free(exact);
}

int main(int argc, char **argv)
{
    struct dirent **all = NULL;
    int n;

    if (argc != 2) {
        (void) fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    n = scandir(argv[1], &all, is_input, alphasort);
    ok(n > 0, "%s has %d inputs", argv[1], n);
    for (int i = 0; i < n; i++) {
        replay(argv[1], all[i]->d_name);
        free(all[i]);
    }
    free(all);
    return tap_done();
}

#include "runner/transient.h"

#include "base/tap.h"

#include <errno.h>

int main(void)
{
    uint64_t ms = 0;

    ok(transient(-ENOSPC) && transient(-EAGAIN) && transient(-EMFILE) &&
       transient(-ENFILE) && transient(-ENOMEM) && transient(-EDQUOT),
       "what passes");
    ok(!transient(0) && !transient(-ENOENT) && !transient(-EINVAL) &&
       !transient(-EPERM) && !transient(-EEXIST), "what does not");
    ok(transient_wait(&ms) == 200, "begins at 200 ms");
    ok(transient_wait(&ms) == 400, "grows");
    for (int i = 0; i < 10; i++)
        (void) transient_wait(&ms);
    ok(transient_wait(&ms) == 5000, "to 5 s and no further");
    return tap_done();
}

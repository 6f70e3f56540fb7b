#include "runner/transient.h"

#include <errno.h>

enum { WAIT_MIN_MS = 200, WAIT_MAX_MS = 5000 };

bool transient(int rc)
{
    switch (-rc) {
    case ENOSPC:
    case EDQUOT:
    case EAGAIN:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EINTR:
        return true;
    default:
        return false;
    }
}

uint64_t transient_wait(uint64_t *ms)
{
    *ms = *ms ? *ms * 2 : WAIT_MIN_MS;
    if (*ms > WAIT_MAX_MS)
        *ms = WAIT_MAX_MS;
    return *ms;
}

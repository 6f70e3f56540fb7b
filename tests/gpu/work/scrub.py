"""Writes a pattern all over device memory, or looks for it there.

Usage: scrub.py write|look|hold SHARE; of the memory that is free.  A writer
leaves a process behind (hold) that has memory there too, and hears no signal
but one; it frees nothing.  What is looked at is 1 MiB of every 16.
"""
import ctypes
import signal
import subprocess
import sys
import time

from say import say

WORD = 0x5ec4e7ed
PIECE, STEP = 1 << 20, 16 << 20
cu = ctypes.CDLL("libcuda.so.1")


def need(rc):
    if rc:
        sys.exit(f"the driver answers {rc}")


def context():
    """The bytes that are free, with our context there, and all."""
    ctx, left, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    need(cu.cuInit(0))
    need(cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
    need(cu.cuCtxSetCurrent(ctx))
    need(cu.cuMemGetInfo_v2(ctypes.byref(left), ctypes.byref(total)))
    return left.value, total.value


def take(n):
    at = ctypes.c_uint64()
    need(cu.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(n)))
    return at.value


def fill(at, n):
    need(cu.cuMemsetD32_v2(ctypes.c_uint64(at), ctypes.c_uint(WORD),
                           ctypes.c_size_t(n // 4)))
    need(cu.cuCtxSynchronize())


def count(at, n):
    """Words of the pattern in what is looked at."""
    host, found = ctypes.create_string_buffer(PIECE), 0
    for offset in range(0, n - PIECE + 1, STEP):
        need(cu.cuMemcpyDtoH_v2(host, ctypes.c_uint64(at + offset),
                                ctypes.c_size_t(PIECE)))
        found += host.raw.count(WORD.to_bytes(4, "little"))
    return found


def main(what, share):
    if what == "hold":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    left, total = context()
    n = int(left * share) // STEP * STEP
    at = take(n)
    if what == "look":
        say("free", left, total)
        say("looked", n, count(at, n))
        return
    fill(at, n)
    say("wrote", n)
    if what == "hold":
        time.sleep(600)
        return
    subprocess.Popen([sys.executable, __file__, "hold", "0.1"],
                     start_new_session=True, stdout=subprocess.PIPE) \
        .stdout.readline()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))

#!/usr/bin/env python3
"""The stand-in for libcuda: that it behaves like the driver (TAP).

Usage: cuda_test.py LIBCUDA
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
from tap import Tap  # noqa: E402

LIB = os.path.abspath(sys.argv[1])
MIB = 1 << 20
U64 = ctypes.c_uint64
TAP = Tap()
ok = TAP.ok
equal = TAP.equal


def make_world(d, memory=1024 * MIB):
    with open(d + "/driver", "w") as f:
        f.write("version=580.159.04\ncuda=13000\n")
    for k in range(2):
        with open(f"{d}/gpu{k}", "w") as f:
            f.write(f"uuid=GPU-0000000{k}-0000-0000-0000-00000000000{k}\n"
                    f"model=H200\nmemory={memory}\n")


def fault(d, text=""):
    with open(d + "/faults", "w") as f:
        f.write(text)


class Guest:
    """Another process that does what it is told, a Python line at a time."""

    START = """
import ctypes, sys
cu = ctypes.CDLL(sys.argv[1])
U64, P = ctypes.c_uint64, ctypes.byref
ctx, p = ctypes.c_void_p(), U64()
def ready():
    return [cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(P(ctx), 0),
            cu.cuCtxSetCurrent(ctx)]
def info():
    a, b = ctypes.c_size_t(), ctypes.c_size_t()
    return cu.cuMemGetInfo_v2(P(a), P(b)), a.value, b.value
def alloc(n):
    return cu.cuMemAlloc_v2(P(p), ctypes.c_size_t(n))
def launch(name, *args):
    m, f = ctypes.c_void_p(), ctypes.c_void_p()
    cu.cuModuleLoadData(P(m), b"x")
    rc = cu.cuModuleGetFunction(P(f), m, name)
    ptrs = (ctypes.c_void_p * (len(args) + 1))(
        *[ctypes.cast(P(a), ctypes.c_void_p) for a in args])
    return rc or cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, ptrs, None)
for line in sys.stdin:
    print(eval(line), flush=True)
"""

    def __init__(self, d):
        self.p = subprocess.Popen(
            [sys.executable, "-c", self.START, LIB], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env={**os.environ, "WEIR_STANDIN": d})

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def hear(self):
        return self.p.stdout.readline().strip()

    def ask(self, line):
        self.say(line)
        return eval(self.hear())

    def end(self):
        self.p.stdin.close()
        return self.p.wait(60)


def memory(d):
    g = Guest(d)
    equal(g.ask("info()")[0], 201, "no memory without a context")
    equal(g.ask("ready()"), [0, 0, 0], "a context")
    equal(g.ask("info()"), (0, 1024 * MIB, 1024 * MIB), "an empty device")
    equal(g.ask(f"alloc({300 * MIB})"), 0, "an allocation")
    other = Guest(d)
    other.ask("ready()")
    equal(other.ask("info()")[1], 724 * MIB, "which the neighbour sees")
    equal(other.ask(f"alloc({800 * MIB})"), 2, "and which it has not")
    equal(g.ask("cu.cuMemsetD32_v2(p, 7, 4)"), 0, "it can be written")
    equal(g.ask("(lambda b: [cu.cuMemcpyDtoH_v2(b, p, 16), list(b)])"
                "((ctypes.c_uint32 * 4)())"), [0, [7] * 4], "and read")
    equal(g.ask("cu.cuMemFree_v2(p)"), 0, "and freed")
    equal(g.ask("cu.cuMemFree_v2(p)"), 1, "once")
    equal(other.ask("info()")[1], 1024 * MIB, "all is there again")
    equal((g.end(), other.end()), (0, 0), "both end")
    equal(os.listdir(d + "/proc") + os.listdir(d + "/mem"), [],
          "and leave nothing")


def work(d):
    g = Guest(d)
    g.ask("ready()")
    g.ask(f"alloc({MIB})")
    g.ask("cu.cuMemsetD32_v2(p, 7, 4)")
    equal(g.ask("launch(b'none')"), 500, "no such kernel")
    equal(g.ask("launch(b'incr_300ms', p, ctypes.c_uint(2))"), 0, "a kernel")
    equal(g.ask("cu.cuStreamQuery(None)"), 600, "runs")
    start = time.monotonic()
    equal(g.ask("cu.cuCtxSynchronize()"), 0, "and ends")
    ok(time.monotonic() - start > 0.1, "later")
    equal(g.ask("cu.cuStreamQuery(None)"), 0, "then it does not run")
    equal(g.ask("(lambda b: [cu.cuMemcpyDtoH_v2(b, p, 16), list(b)])"
                "((ctypes.c_uint32 * 4)())"), [0, [8, 8, 7, 7]],
          "it did what it is for")
    g.end()


def suspend(d, cu):
    g = Guest(d)
    pid = g.p.pid
    state = ctypes.c_int(9)

    def at():
        rc = cu.cuCheckpointProcessGetState(pid, ctypes.byref(state))
        return rc, state.value

    def lock(ms):
        args = (ctypes.c_uint32 * 16)(ms)
        return cu.cuCheckpointProcessLock(pid, args)

    equal(at()[0], 1, "a process without a context has no state")
    g.ask("ready()")
    g.ask(f"alloc({300 * MIB})")
    g.ask("cu.cuMemsetD32_v2(p, 7, 4)")
    equal(at(), (0, 0), "running")
    tid = ctypes.c_int()
    cu.cuCheckpointProcessGetRestoreThreadId(pid, ctypes.byref(tid))
    ok(str(tid.value) in os.listdir(f"/proc/{pid}/task"),
       "the driver has a thread there")
    equal(cu.cuCheckpointProcessCheckpoint(pid, None), 401,
          "not to be taken unlocked")
    g.ask("launch(b'spin_1000ms')")
    equal((lock(50), at()), (600, (0, 0)),
          "a kernel keeps the lock away, and the process runs on")
    equal((lock(0), at()), (0, (0, 1)), "locked when it is over")
    fault(d, "checkpoint=2\n")
    equal((cu.cuCheckpointProcessCheckpoint(pid, None), at()), (2, (0, 1)),
          "a fault leaves it locked")
    fault(d)
    equal((cu.cuCheckpointProcessCheckpoint(pid, None), at()), (0, (0, 2)),
          "taken")
    other = Guest(d)
    other.ask("ready()")
    equal(other.ask("info()")[1], 1024 * MIB, "the device is empty")
    g.say("cu.cuCtxSynchronize()")
    time.sleep(0.2)
    equal(cu.cuCheckpointProcessUnlock(pid, None), 401, "not to be let go yet")
    other.ask(f"alloc({800 * MIB})")
    equal(cu.cuCheckpointProcessRestore(pid, None), 2, "no room")
    other.ask("cu.cuMemFree_v2(p)")
    equal((cu.cuCheckpointProcessRestore(pid, None), at()), (0, (0, 1)),
          "brought back")
    equal(other.ask("info()")[1], 724 * MIB, "to the device")
    equal((cu.cuCheckpointProcessUnlock(pid, None), at()), (0, (0, 0)),
          "and let go")
    equal(g.hear(), "0", "its call goes on")
    equal(g.ask("(lambda b: [cu.cuMemcpyDtoH_v2(b, p, 16), list(b)])"
                "((ctypes.c_uint32 * 4)())"), [0, [7] * 4], "with its memory")

    pairs = (ctypes.c_ubyte * 32)()
    pairs[15] = 0
    pairs[16 + 15] = 1
    for k in (3, 16 + 3):
        pairs[k] = 1 if k > 16 else 0
    args = (U64 * 8)(ctypes.addressof(pairs), 1)
    lock(0)
    cu.cuCheckpointProcessCheckpoint(pid, None)
    equal(cu.cuCheckpointProcessRestore(pid, args), 0, "to the other device")
    cu.cuCheckpointProcessUnlock(pid, None)
    equal(other.ask("info()")[1], 1024 * MIB, "nothing is on the first")
    equal(g.ask("cu.cuMemFree_v2(p)"), 0, "it is freed where it is")

    equal(g.ask("cu.cuMemAllocManaged(P(p), ctypes.c_size_t(4096), 1)"), 0,
          "managed memory")
    lock(0)
    equal((cu.cuCheckpointProcessCheckpoint(pid, None), at()), (801, (0, 1)),
          "cannot be taken")
    equal(cu.cuCheckpointProcessUnlock(pid, None), 0, "the process goes on")
    equal(g.ask("cu.cuMemFree_v2(p)"), 0, "unharmed")
    g.end()
    other.end()


def look(cu):
    fn, st = ctypes.c_void_p(), ctypes.c_int()

    def get(name, version):
        rc = cu.cuGetProcAddress_v2(name, ctypes.byref(fn), version, U64(0),
                                    ctypes.byref(st))
        return rc, fn.value, st.value

    def addr(name):
        return ctypes.cast(getattr(cu, name), ctypes.c_void_p).value

    for version, name in ((3020, "v2"), (11040, "v3"), (13000, "v4")):
        equal(get(b"cuCtxCreate", version), (0, addr("cuCtxCreate_" + name), 0),
              f"cuCtxCreate of {version}")
    equal(get(b"cuMemAllocAsync", 9000), (0, None, 2), "not there yet")
    equal(get(b"cuNothing", 13000), (0, None, 1), "never there")


with tempfile.TemporaryDirectory(prefix="weir-standin-") as folder:
    os.environ["WEIR_STANDIN"] = folder
    driver = ctypes.CDLL(LIB)
    equal(driver.cuInit(0), 100, "no driver, no device")
    make_world(folder)
    fault(folder, "init=999\n")
    equal(driver.cuInit(0), 999, "a driver that fails")
    fault(folder)
    equal(driver.cuInit(0), 0, "a driver")
    name = ctypes.create_string_buffer(64)
    driver.cuDeviceGetName(name, 64, 1)
    equal(name.value, b"H200 (simulated)", "says that it is none")
    look(driver)
    memory(folder)
    work(folder)
    suspend(folder, driver)
sys.exit(TAP.done())

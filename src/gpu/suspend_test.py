#!/usr/bin/env python3
"""weir-gpud takes tasks off the stand-in's devices and brings them back (TAP).

Usage: suspend_test.py WEIR_GPUD FOLDER, where the stand-ins are in FOLDER
"""
import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "tests"))
from gpudwire import receive, send  # noqa: E402
from tap import Tap  # noqa: E402

GPUD = os.path.abspath(sys.argv[1])
STANDIN = os.path.abspath(sys.argv[2])
PATIENCE = 60           # seconds; reached only when something is broken
MIB = 1 << 20
RUNNING, LOCKED, TAKEN = 0, 1, 2
UUID = ["GPU-0000000%d-0000-0000-0000-00000000000%d" % (k, k)
        for k in range(3)]
NODES = []              # to be cleared away when a test gives up
TAP = Tap()
ok = TAP.ok
is_ = TAP.equal

# A process of a task: does what it is told at its socket, a Python line at a
# time, while a second thread counts.
GUEST = r"""
import ctypes, mmap, os, socket, subprocess, sys, threading, time
path = sys.argv[2]
cu = ctypes.CDLL(os.environ["STANDIN_CUDA"])
U64, P = ctypes.c_uint64, ctypes.byref
ctx, p = ctypes.c_void_p(), U64()
with open(path + ".ticks", "w+b") as f:
    f.truncate(8)
    ticks = mmap.mmap(f.fileno(), 8)
def tick():
    n = 0
    while True:
        n += 1
        ticks[:8] = n.to_bytes(8, "little")
        time.sleep(0.001)
def use(size, device=0):
    return [cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(P(ctx), device),
            cu.cuCtxSetCurrent(ctx),
            cu.cuMemAlloc_v2(P(p), ctypes.c_size_t(size)),
            cu.cuMemsetD32_v2(p, 7, 4)]
def managed():
    return cu.cuMemAllocManaged(P(U64()), ctypes.c_size_t(4096), 1)
def launch(name, *args):
    m, f = ctypes.c_void_p(), ctypes.c_void_p()
    cu.cuModuleLoadData(P(m), b"x")
    rc = cu.cuModuleGetFunction(P(f), m, name)
    ptrs = (ctypes.c_void_p * (len(args) + 1))(
        *[ctypes.cast(P(a), ctypes.c_void_p) for a in args])
    return rc or cu.cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, None, ptrs, None)
def work(n):
    return sum(launch(b"incr_2ms", p, ctypes.c_uint(4)) or
               cu.cuCtxSynchronize() for _ in range(n))
def words():
    b = (ctypes.c_uint32 * 4)()
    return [cu.cuMemcpyDtoH_v2(b, p, 16), list(b)]
def vfork(seconds):
    # CLONE_VM | CLONE_VFORK: who calls it is in the kernel until that ends.
    libc = ctypes.CDLL(None)
    libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
                           ctypes.c_void_p]
    stack = ctypes.create_string_buffer(1 << 18)
    top = (ctypes.addressof(stack) + (1 << 18) - 64) & ~15
    fn = ctypes.cast(libc.sleep, ctypes.c_void_p)
    threading.Thread(target=lambda: libc.clone(fn, top, 0x4100 | 17, seconds)
                     and stack, daemon=True).start()
def spawn(at):
    return subprocess.Popen([sys.executable, "-c", open(sys.argv[1]).read(),
                             sys.argv[1], at]).pid
threading.Thread(target=tick, daemon=True).start()
s = socket.socket(socket.AF_UNIX)
s.bind(path + ".new")
s.listen()
os.rename(path + ".new", path)
with s.accept()[0].makefile("rw") as f:
    for line in f:
        f.write(repr(eval(line)) + "\n")
        f.flush()
"""


# What is read of a process or thread that has just ended.
GONE = (FileNotFoundError, ProcessLookupError)


def wait(cond, what):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = cond()
        if got:
            return got
        time.sleep(0.005)
    raise TimeoutError(what)


def connect(path):
    def once():
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            return s
        except (FileNotFoundError, ConnectionRefusedError):
            s.close()
            return None
    s = wait(once, path)
    s.settimeout(PATIENCE)
    return s


class Guest:
    def __init__(self, node, path, pid):
        self.node, self.path, self.pid = node, path, pid
        self.conn = connect(path)
        self.file = self.conn.makefile("rw")

    def say(self, line):
        self.file.write(line + "\n")
        self.file.flush()

    def hear(self):
        return eval(self.file.readline())

    def ask(self, line):
        self.say(line)
        return self.hear()

    def ticks(self):
        with open(self.path + ".ticks", "rb") as f:
            return int.from_bytes(f.read(8), "little")

    def runs(self):
        """Does its second thread count?"""
        before = self.ticks()
        time.sleep(0.1)
        return self.ticks() > before

    def state(self):
        with open(f"{self.node.dir}/proc/{self.pid}", "rb") as f:
            return struct.unpack("<III", f.read(12))[2]

    def locking(self):
        """Does a lock wait for its calls and kernels?"""
        with open(f"{self.node.dir}/proc/{self.pid}", "rb") as f:
            return struct.unpack_from("<I", f.read(), 372)[0]

    def calls(self):
        """How many of its threads are in the driver?"""
        with open(f"{self.node.dir}/proc/{self.pid}", "rb") as f:
            return struct.unpack_from("<I", f.read(), 172)[0]

    def spin(self, ms):
        """It waits for a kernel of its own; hear() its end."""
        if self.ask(f"launch(b'spin_{ms}ms')") != 0:
            raise AssertionError("no kernel")
        self.say("cu.cuCtxSynchronize()")
        wait(self.calls, "a call")

    def threads(self):
        """Their states, as /proc has them."""
        states = ""
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(*GONE), \
                    open(f"/proc/{self.pid}/task/{tid}/stat",
                         encoding="ascii") as f:
                states += f.read().rsplit(") ", 1)[1][0]
        return states

    def alive(self):
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
                return f.read().rsplit(") ", 1)[1][0] != "Z"
        except GONE:
            return False


class Node:
    """A folder of the stand-in, a daemon, and a task of some processes."""

    def __init__(self, processes=1, size=64 * MIB, args=()):
        self.dir = tempfile.mkdtemp(prefix="weir-susp-")
        self.args = args
        self.guests, self.others = [], []
        NODES.append(self)
        self.daemon = self.conn = self.root = None
        self.env = dict(os.environ, WEIR_STANDIN=self.dir,
                        LD_LIBRARY_PATH=STANDIN,
                        STANDIN_CUDA=STANDIN + "/libcuda.so.1")
        self.write("driver", "version=580.159.04\ncuda=13000\n")
        for k in range(3):
            self.gpu(k)
        self.write("guest.py", GUEST)
        self.start()
        self.task(processes, size)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def gpu(self, k, more=""):
        model = "NVIDIA H200" if k < 2 else "NVIDIA L4"
        self.write(f"gpu{k}", f"uuid={UUID[k]}\nmodel={model}\ncc=9.0\n"
                   f"memory={1024 * MIB}\n{more}")

    def fault(self, text=""):
        self.write("faults", text)

    @contextlib.contextmanager
    def held(self, *guests):
        """Meanwhile no checkpoint and no restore ends, of these or of all."""
        names = [f"hold.{g.pid}" for g in guests] or ["hold"]
        for name in names:
            self.write(name, "")
        yield
        for name in names:
            os.unlink(os.path.join(self.dir, name))

    def start(self):
        with open(self.dir + "/log", "a", encoding="utf-8") as log:
            # Not a "with": it lives until end().
            self.daemon = subprocess.Popen(  # pylint: disable=R1732
                [GPUD, "--socket", self.dir + "/sock", "--every", "100ms",
                 "--state", self.dir + "/state", *self.args],
                env=self.env, stderr=log)
        self.conn = connect(self.dir + "/sock")

    def task(self, processes, size):
        self.root = subprocess.Popen(  # pylint: disable=R1732
            [sys.executable, "-c", GUEST, self.dir + "/guest.py",
             self.dir + "/g0"], env=self.env)
        self.guests = [Guest(self, self.dir + "/g0", self.root.pid)]
        for k in range(1, processes):
            path = f"{self.dir}/g{k}"
            pid = self.guests[0].ask(f"spawn({path!r})")
            self.guests.append(Guest(self, path, pid))
        for g in self.guests:
            if g.ask(f"use({size})") != [0] * 5:
                raise AssertionError("no context")
        # The order in which they are taken.
        self.guests.sort(key=lambda g: g.pid)

    def other(self, name):
        """A process that is not of the task."""
        path = f"{self.dir}/{name}"
        p = subprocess.Popen(  # pylint: disable=R1732
            [sys.executable, "-c", GUEST, self.dir + "/guest.py", path],
            env=self.env)
        self.others.append(p)
        return Guest(self, path, p.pid)

    def send(self, **m):
        send(self.conn, m)

    def read(self):
        return receive(self.conn)

    def ask(self, **m):
        self.send(**m)
        return self.read()

    def suspend(self, **m):
        return self.ask(t="suspend", task="t", pid=self.root.pid, **m)

    def resume(self, **m):
        return self.ask(t="resume", task="t", **m)

    def crash(self):
        self.daemon.kill()
        self.daemon.wait(PATIENCE)
        self.conn.close()

    def logged(self, text):
        def there():
            with open(self.dir + "/log", encoding="utf-8") as f:
                return text in f.read()
        wait(there, text)

    def states(self):
        return [g.state() for g in self.guests]

    def phase(self):
        try:
            with open(self.dir + "/state/t.json", encoding="utf-8") as f:
                return json.load(f)["phase"]
        except FileNotFoundError:
            return None

    def used(self, k=0):
        m = self.ask(t="sample")
        return m["devices"][k]["memory_used_bytes"]

    def works(self, text):
        """All of the task is as if nothing had been."""
        is_((self.states(), self.phase()), ([RUNNING] * len(self.guests), None),
            text + ": running")
        ok(all(g.runs() for g in self.guests), text + ": its threads go on")
        is_([g.ask("words()") for g in self.guests],
            [[0, [7] * 4]] * len(self.guests), text + ": with its memory")

    def clear(self):
        for g in reversed(self.guests):
            if g.alive():
                os.kill(g.pid, signal.SIGKILL)
        for p in self.others:
            p.kill()
            p.wait(PATIENCE)
        if self.daemon.poll() is None:
            self.daemon.kill()

    def end(self):
        self.daemon.terminate()
        status = self.daemon.wait(PATIENCE)
        self.clear()
        self.root.wait(PATIENCE)
        self.conn.close()
        NODES.remove(self)
        if status != 0:
            with open(self.dir + "/log", encoding="utf-8") as f:
                TAP.note(f.read()[-4000:])
        is_(status, 0, "weir-gpud ends well")
        shutil.rmtree(self.dir)


def brief(answer):
    return answer.get("done"), answer.get("reason")


def test_load():
    n = Node()
    g = n.guests[0]
    n.fault("fragile=1\n")
    g.say("work(300)")
    time.sleep(0.1)
    a = n.suspend()
    is_((brief(a), a.get("bytes"), a.get("processes"), a["suspended"]),
        ((True, None), 64 * MIB, 1, True), "suspended under load")
    ok(a.get("checkpoint_us", 0) > 0 and "lock_us" in a, "with its times")
    is_((g.state(), n.phase()), (TAKEN, "suspended"), "it is off its device")
    wait(lambda: n.used() == 0, "an empty device")
    ok(not g.runs(), "its threads stand still")
    is_(brief(n.suspend()), (False, "state"), "twice is once")
    a = n.resume()
    is_((brief(a), a.get("bytes")), ((True, None), 64 * MIB), "resumed")
    is_(g.hear(), 0, "its work goes on")
    is_(g.ask("words()"), [0, [307] * 4], "and no step is lost or done twice")
    is_(n.phase(), None, "nothing is left of it")
    is_(brief(n.resume()), (False, "state"), "one that runs is not resumed")
    n.end()


def test_threads_run():
    n = Node()
    g = n.guests[0]
    n.fault("fragile=1\n")
    is_(brief(n.suspend(hold=False)), (True, None), "suspended, not held")
    ok(g.runs(), "its threads go on")
    is_(g.ask("1 + 1"), 2, "and work without the device")
    g.say("words()")
    time.sleep(0.1)
    is_(brief(n.resume()), (True, None), "resumed")
    is_(g.hear(), [0, [7] * 4], "a call that waited goes on")
    n.works("afterwards")
    n.end()


def test_all_or_none():
    n = Node(3)
    n.fault(f"checkpoint.{n.guests[1].pid}=999\n")
    a = n.suspend()
    is_(brief(a), (False, "driver"), f"the second fails: {a.get('text')}")
    n.works("after a failure of the second")
    n.fault()
    n.guests[2].ask("managed()")
    a = n.suspend()
    is_(brief(a), (False, "unsupported"), a.get("text"))
    ok("managed" in a.get("text", ""), "managed memory is named")
    n.works("after managed memory in the third")
    n.fault(f"lock.{n.guests[2].pid}=600\n")
    is_(brief(n.suspend(lock_ms=50)), (False, "busy"), "the last lock")
    n.works("after that")
    n.end()


def test_undo_fails():
    n = Node(2)
    one, two = n.guests
    n.fault(f"checkpoint.{two.pid}=999\nrestore.{one.pid}=46\n")
    a = n.suspend()
    is_(brief(a), (False, "driver"), "fails, and the way back, too")
    ok("could not be undone" in a.get("text", ""), a.get("text"))
    is_((n.states(), n.phase()), ([TAKEN, RUNNING], "stuck"),
        "what cannot be brought back is kept")
    ok("suspended" not in a, "and not called suspended: one of two is not")
    a = n.suspend()
    is_((a["t"], a.get("reason")), ("error", "again"), "nor is it later")
    is_(brief(n.resume()), (False, "lost"), "a resume may be asked for")
    n.fault()
    wait(lambda: n.phase() is None, "another try")
    n.works("tried again until it works")
    n.end()


def test_thread_in_kernel():
    """A thread that cannot be stopped: the task is unlocked, and runs."""
    n = Node()
    n.guests[0].ask("vfork(7)")
    wait(lambda: "D" in n.guests[0].threads(), "a thread in the kernel")
    a = n.suspend()
    is_((brief(a), a.get("suspended")), ((False, "threads"), False),
        a.get("text"))
    n.works("a thread that does not stop")
    wait(lambda: "D" not in n.guests[0].threads(), "the end of its call")
    ok("t" not in n.guests[0].threads(), "it is not held afterwards")
    is_(brief(n.suspend()), (True, None), "and then it can be suspended")
    is_(brief(n.resume()), (True, None), "and resumed")
    n.end()


def test_killed_in_lock():
    """The lock goes on in the program, and is granted to nobody."""
    n = Node()
    g = n.guests[0]
    g.spin(3000)
    n.send(t="suspend", task="t", pid=n.root.pid, lock_ms=600000)
    wait(g.locking, "a lock under way")
    n.crash()
    is_((n.states(), n.phase()), ([RUNNING], "suspending"), "killed in a lock")
    n.start()
    is_(g.hear(), 0, "the call that the lock waits for can end")
    wait(lambda: n.phase() is None, "recovery")
    n.works("after a lock that nobody waited for")
    n.end()


LOCK = ("import ctypes, os, sys\ncu = ctypes.CDLL(os.environ['STANDIN_CUDA'])\n"
        "sys.exit(cu.cuCheckpointProcessLock(int(sys.argv[1]), None))")


def test_late_lock():
    """One that ran when it was asked about is locked a moment later."""
    n = Node(2)
    first, second = n.guests
    first.spin(3000)
    n.send(t="suspend", task="t", pid=n.root.pid, lock_ms=12000)
    wait(first.locking, "a lock under way")
    n.crash()
    n.start()
    is_(first.hear(), 0, "the first goes on")
    wait(lambda: first.state() == RUNNING and not first.locking() and
         first.ask("1") == 1, "its recovery")
    time.sleep(0.5)
    is_(n.phase(), "suspending", "the other one may be locked yet")
    subprocess.run([sys.executable, "-c", LOCK, str(second.pid)], check=True,
                   env=n.env, timeout=PATIENCE)
    wait(lambda: second.state() == RUNNING, "it is let go")
    wait(lambda: n.phase() is None, "the end of the recovery")
    n.works("after a late lock")
    n.end()


def test_recover_again():
    n = Node()
    with n.held():
        n.send(t="suspend", task="t", pid=n.root.pid)
        wait(lambda: n.states() == [LOCKED], "a lock")
        n.crash()
    n.fault("init=999\n")
    n.start()
    n.logged("cuInit answers 999")
    ok(n.phase() == "suspending", "the driver is away")
    n.fault("told=3\n")
    n.logged("given it up")
    is_(n.phase(), "stuck", "what the driver gave up is not forgotten")
    n.fault()
    wait(lambda: n.phase() is None, "another try")
    n.works("once the driver is there")
    n.end()


def test_busy():
    n = Node()
    n.guests[0].ask("launch(b'spin_3000ms')")
    a = n.suspend(lock_ms=100)
    is_(brief(a), (False, "busy"), a.get("text"))
    n.works("a kernel that does not end")
    n.end()


def test_refused():
    n = Node(args=("--spare", "1000Ti"))
    a = n.suspend()
    is_(brief(a), (False, "memory"), a.get("text"))
    n.works("no host memory")
    n.end()
    n = Node()
    n.gpu(0, "mps=1\n")
    a = n.suspend()
    is_(brief(a), (False, "mps"), a.get("text"))
    n.gpu(0)
    is_(n.ask(t="suspend", task="t")["t"], "error", "nobody named")
    is_(n.ask(t="suspend", task="../x", pid=1)["t"], "error", "a bad name")
    is_(brief(n.ask(t="suspend", task="me", pid=os.getpid() + 0,
                    lock_ms=1000)), (True, None),
        "descendants of descendants are found")
    is_(brief(n.ask(t="resume", task="me")), (True, None), "and brought back")
    os.kill(n.root.pid, signal.SIGSTOP)
    a = n.suspend()
    is_(brief(a), (False, "state"), a.get("text"))
    os.kill(n.root.pid, signal.SIGCONT)
    is_(brief(n.ask(t="suspend", task="x", pid=n.daemon.pid)),
        (False, "no-context"), "who has no context")
    is_(brief(n.ask(t="suspend", task="x", pid=2 ** 22 + 1)),
        (False, "gone"), "who is not there")
    n.end()


def test_hung():
    n = Node(args=("--hung", "300ms"))
    with n.held():
        a = n.suspend(lock_ms=1000)
        is_((brief(a), "suspended" in a), ((False, "driver"), False),
            f"a call hangs, and it is told: {a.get('text')}")
        a = n.resume()
        is_((a["t"], a.get("reason")), ("error", "driver"), a.get("text"))
        is_([(x["task"], x["what"]) for x in n.ask(t="hello")["hung"]],
            [("t", "suspend")], "and hello says so")
    wait(lambda: not n.ask(t="hello")["hung"], "the call")
    a = n.suspend()
    is_((brief(a), a["suspended"]), ((False, "state"), True),
        "it returned after all: suspended")
    is_(brief(n.resume()), (True, None), "resumed")
    n.works("afterwards")
    n.end()


def test_forgotten():
    n = Node()
    n.suspend()
    n.crash()
    n.start()
    n.ask(t="hello")
    is_(n.phase(), "suspended", "a record of one that lives is kept")
    n.crash()
    for g in n.guests:
        os.kill(g.pid, signal.SIGKILL)
    n.root.wait(PATIENCE)
    n.start()
    n.ask(t="hello")
    is_(n.phase(), None, "of one that is gone it is removed")
    n.end()


def test_device():
    n = Node()
    is_(brief(n.suspend()), (True, None), "suspended")
    n.gpu(0, "lost=1\n")
    wait(lambda: n.ask(t="inventory")["devices"][0]["state"] == "lost", "lost")
    a = n.resume()
    is_(brief(a), (False, "lost"), a.get("text"))
    is_((n.states(), n.phase()), ([TAKEN], "suspended"), "it is kept")
    a = n.resume(devices={UUID[0]: UUID[2]})
    is_(brief(a), (False, "unlike"), a.get("text"))
    a = n.resume(devices={UUID[0]: "GPU-none"})
    is_(brief(a), (False, "lost"), a.get("text"))
    ok(a["suspended"], "each time it is told where it is")
    a = n.resume(devices={UUID[0]: UUID[1], UUID[2]: "GPU-none"})
    is_((brief(a), a["suspended"]), ((True, None), False),
        "it comes back on another like it; what it did not use is no matter")
    n.works("on another device")
    wait(lambda: n.used(1) == 64 * MIB, "the bytes")
    ok(True, "which has its bytes")
    n.end()


def test_resume_fails():
    n = Node(2)
    n.suspend()
    n.fault(f"restore.{n.guests[1].pid}=2\n")
    a = n.resume()
    is_(brief(a), (False, "memory"), a.get("text"))
    is_((n.states(), n.phase()), ([TAKEN] * 2, "suspended"),
        "none is brought back")
    ok(not any(g.runs() for g in n.guests), "and all stand still")
    n.fault()
    is_(brief(n.resume()), (True, None), "later it works")
    n.works("afterwards")
    n.end()


def test_half_elsewhere():
    """A resume elsewhere fails half way; the next one is not elsewhere."""
    n = Node(2)
    n.suspend()
    n.fault(f"restore.{n.guests[1].pid}=999\n")
    a = n.resume(devices={UUID[0]: UUID[1]})
    is_((brief(a), a.get("suspended")), ((False, "driver"), True),
        "the second cannot be brought there")
    is_(n.states(), [TAKEN] * 2, "none is")
    n.crash()
    n.fault()
    n.start()
    is_(brief(n.resume()), (True, None), "brought back where they were")
    n.works("afterwards")
    wait(lambda: n.used(0) == 128 * MIB and n.used(1) == 0, "the bytes")
    ok(True, "both of them")
    n.end()


def test_no_room():
    """What does not fit on the device is not tried."""
    n = Node()
    n.suspend()
    n.gpu(0, f"used={1000 * MIB}\n")
    wait(lambda: n.used() == 1000 * MIB, "a full device")
    a = n.resume()
    is_((brief(a), a.get("suspended"), "restore_us" in a),
        ((False, "memory"), True, False), a.get("text"))
    is_((n.states(), n.phase()), ([TAKEN], "suspended"), "it is kept")
    ok(not n.guests[0].runs(), "and stands still")
    n.gpu(0)
    wait(lambda: n.used() == 0, "an empty device")
    is_(brief(n.resume()), (True, None), "until there is room")
    n.works("afterwards")
    n.end()


def test_untold():
    """The driver does not answer about one that is on a device."""
    n = Node(2)
    wait(lambda: n.used() == 128 * MIB, "both")
    n.fault(f"state.{n.guests[1].pid}=999\n")
    a = n.suspend()
    is_((brief(a), a.get("suspended")), ((False, "driver"), False),
        a.get("text"))
    n.works("one that is not told of")
    n.end()


def test_ended():
    """SIGTERM in a suspend: it is over before weir-gpud is."""
    n = Node()
    n.fault("checkpoint_ms=6500\nfragile=1\n")
    n.send(t="suspend", task="t", pid=n.root.pid)
    wait(lambda: n.states() == [LOCKED], "a lock")
    first, n.conn = n.conn, connect(n.dir + "/sock")
    n.daemon.terminate()
    n.logged("it ends when")
    a = n.ask(t="suspend", task="u", pid=n.root.pid)
    is_((a["t"], a.get("reason")), ("error", "again"), a.get("text"))
    n.conn.close()
    n.conn = first
    a = n.read()
    is_((brief(a), a.get("suspended")), ((True, None), True),
        "what was under way is done")
    is_((n.daemon.wait(PATIENCE), n.phase()), (0, "suspended"), "and it ends")
    n.conn.close()
    n.fault()
    n.start()
    is_(brief(n.resume()), (True, None), "the next one resumes it")
    n.works("afterwards")
    n.end()


def test_one_folder():
    n = Node()
    with subprocess.Popen([GPUD, "--socket", n.dir + "/other", "--state",
                           n.dir + "/state"], env=n.env,
                          stderr=subprocess.PIPE, text=True) as p:
        try:
            text = p.communicate(timeout=10)[1]
        except subprocess.TimeoutExpired:
            p.kill()
            text = "it runs"
    is_(p.returncode, 7, f"a second one in the same folder: {text.strip()}")
    n.end()


def cpu(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_talks_on():
    """A client that says more than is read while it waits."""
    n = Node()
    with n.held():
        n.send(t="suspend", task="t", pid=n.root.pid)
        wait(lambda: n.states() == [LOCKED], "a lock")
        n.conn.sendall(b"\0" * 8192)
        before = cpu(n.daemon.pid)
        time.sleep(1.5)
        used = cpu(n.daemon.pid) - before
        ok(used < 0.3, f"weir-gpud does not spin: {used:.2f} s of 1.5 s")
    n.conn.close()
    n.conn = connect(n.dir + "/sock")
    wait(lambda: n.phase() == "suspended", "the suspend")
    ok(n.ask(t="hello")["state"] == "ready", "others are served")
    n.end()


def test_no_descriptor():
    """A client that cannot be accepted waits; so does weir-gpud."""
    n = Node()
    n.ask(t="hello")
    kind = resource.RLIMIT_NOFILE
    old = resource.prlimit(n.daemon.pid, kind)
    is_(old[0], old[1], "the limit is raised as far as it may be")
    resource.prlimit(n.daemon.pid, kind, (3, old[1]))
    with connect(n.dir + "/sock") as other:
        before = cpu(n.daemon.pid)
        time.sleep(1.5)
        used = cpu(n.daemon.pid) - before
        ok(used < 0.3, f"weir-gpud does not spin: {used:.2f} s of 1.5 s")
        resource.prlimit(n.daemon.pid, kind, old)
        n.conn.close()
        n.conn = connect(n.dir + "/sock")
        is_(n.ask(t="hello")["t"], "hello", "it is accepted later")
        other.close()
    n.end()


def big(n):
    """A device of two thirds of the host's memory, and a task on all of it."""
    with open("/proc/meminfo", encoding="ascii") as f:
        kib = [int(x.split()[1]) for x in f if x.startswith("MemAvailable")]
    size = kib[0] * 1024 * 2 // 3
    for k in range(2):
        n.write(f"gpu{k}", f"uuid={UUID[k]}\nmodel=NVIDIA H200\n"
                f"memory={size + 1024 * MIB}\n")
    return size


def test_hung_memory():
    """What was promised to one that hangs is for others."""
    n = Node(args=("--hung", "300ms", "--spare", "1Mi"))
    size = big(n)
    if n.guests[0].ask(f"use({size})") != [0] * 5:
        raise AssertionError("no memory")
    other = n.other("big")
    if other.ask(f"use({size}, 1)") != [0] * 5:
        raise AssertionError("no memory")
    wait(lambda: n.used(1) >= size, "the bytes")
    n.fault(f"checkpoint_ms.{n.root.pid}=6000\n")
    is_(brief(n.suspend(lock_ms=100)), (False, "driver"), "a call hangs")
    a = n.ask(t="suspend", task="u", pid=other.pid)
    is_(brief(a), (True, None), f"another is suspended {a.get('text', '')}")
    is_(brief(n.ask(t="resume", task="u")), (True, None), "and resumed")
    wait(lambda: not n.ask(t="hello")["hung"], "the call")
    n.end()


def end_of_one(n, state, text):
    """A child is killed once a process is in that state."""
    child = [g for g in n.guests if g.pid != n.root.pid][0]
    with n.held(*(n.guests[1:] if state == TAKEN else n.guests)):
        n.send(t="suspend", task="t", pid=n.root.pid)
        wait(lambda: state in n.states(), text)
        os.kill(child.pid, signal.SIGKILL)
    is_(brief(n.read()), (False, "gone"), f"one ends after {text}")
    n.guests.remove(child)


def test_gone():
    n = Node(2)
    end_of_one(n, TAKEN, "a checkpoint")
    n.works("the other")
    n.end()
    n = Node(2)
    end_of_one(n, LOCKED, "a lock")
    n.works("the other")
    is_(brief(n.suspend()), (True, None), "which is suspended alone")
    n.guests[0].node.root.kill()
    wait(lambda: not n.guests[0].alive(), "its end")
    is_(brief(n.resume()), (False, "gone"), "one that ended meanwhile")
    is_(n.phase(), None, "is forgotten")
    n.end()


def test_one_at_a_time():
    n = Node()
    with n.held():
        n.send(t="suspend", task="t", pid=n.root.pid)
        first, n.conn = n.conn, connect(n.dir + "/sock")
        wait(lambda: n.states() == [LOCKED], "a lock")
        a = n.resume()
        is_((a["t"], a.get("reason")), ("error", "again"),
            "one operation for a task at a time")
        is_(n.ask(t="hello")["state"], "ready", "others are served meanwhile")
        is_(n.phase(), "suspending", "while it goes on")
    first.close()
    wait(lambda: n.phase() == "suspended", "suspended")
    ok(True, "who asked may go away")
    # The record is there a moment before the operation is over.
    a = wait(lambda: [m for m in [n.resume()] if m["t"] == "resume"], "free")
    is_(brief(a[0]), (True, None), "resumed")
    n.works("afterwards")
    n.end()


def crash_at(name, held, act, at, after, want):
    """Kill weir-gpud when `at` holds; then it is started again."""
    n = Node(2)
    if act == "resume":
        n.suspend()
    if name == "lock of the second":
        n.guests[1].ask("launch(b'spin_3000ms')")
    with n.held(n.guests[held]) if held >= 0 else contextlib.nullcontext():
        n.send(t=act, task="t", **({"pid": n.root.pid} if act == "suspend"
                                   else {}))
        wait(lambda: at(n), name)
        n.crash()
    is_(n.phase(), after, f"killed at {name}: the record says {after}")
    ok(all(g.alive() for g in n.guests), "the task is alive")
    n.start()
    if want == RUNNING:
        wait(lambda: n.phase() is None, "recovery")
        n.works("after " + name)
    else:
        is_(n.ask(t="hello")["state"], "ready", "a new one is there")
        is_((n.states(), n.phase()), ([TAKEN] * 2, "suspended"), "kept")
        ok(not any(g.runs() for g in n.guests), "with its threads still")
        is_(brief(n.resume()), (True, None), "and resumed by the next")
        n.works("after " + name)
    n.end()


def test_crash():
    crash_at("lock of the second", -1, "suspend",
             lambda n: n.states() == [LOCKED, RUNNING] and
             n.guests[1].locking(), "suspending", RUNNING)
    crash_at("checkpoint of the first", 0,
             "suspend", lambda n: n.states() == [LOCKED, LOCKED] and
             not n.guests[1].runs(), "suspending", RUNNING)
    crash_at("checkpoint of the second", 1,
             "suspend", lambda n: n.states() == [TAKEN, LOCKED],
             "suspending", RUNNING)
    crash_at("the end of a suspend", -1, "suspend",
             lambda n: n.phase() == "suspended", "suspended", TAKEN)
    crash_at("restore of the first", 0, "resume",
             lambda n: n.phase() == "resuming", "resuming", RUNNING)
    crash_at("restore of the second", 1, "resume",
             lambda n: n.states() == [LOCKED, TAKEN], "resuming", RUNNING)


def test_other_user():
    if os.geteuid() != 0:
        TAP.skip("another user may not", "needs root")
        return
    n = Node(args=("--mode", "0660"))
    os.chmod(n.dir, 0o711)
    os.chmod(n.dir + "/sock", 0o666)
    code = ("import os,socket,struct,sys\nos.setuid(65534)\n"
            "s=socket.socket(socket.AF_UNIX);s.connect(sys.argv[1])\n"
            "b=sys.argv[2].encode();s.sendall(struct.pack('<I',len(b))+b)\n"
            "n=struct.unpack('<I',s.recv(4))[0]\nprint(s.recv(n).decode())")

    def nobody(**m):
        r = subprocess.run([sys.executable, "-c", code, n.dir + "/sock",
                            json.dumps(m)], capture_output=True, text=True,
                           timeout=PATIENCE, check=True)
        return json.loads(r.stdout)

    is_(brief(nobody(t="suspend", task="t", pid=n.root.pid)),
        (False, "denied"), "another user may not suspend it")
    n.works("another user")
    n.suspend()
    is_(brief(nobody(t="resume", task="t")), (False, "denied"),
        "nor resume it")
    a = nobody(t="suspend", task="t", pid=n.root.pid)
    is_((brief(a), "suspended" in a), ((False, "denied"), False),
        "nor is it told where it is")
    is_(brief(n.resume()), (True, None), "its own may")
    n.end()


def main():
    for test in (test_load, test_threads_run, test_all_or_none,
                 test_undo_fails, test_busy, test_refused, test_device,
                 test_resume_fails, test_gone, test_one_at_a_time, test_crash,
                 test_other_user, test_hung, test_forgotten,
                 test_thread_in_kernel, test_killed_in_lock, test_late_lock,
                 test_recover_again, test_half_elsewhere, test_no_room,
                 test_untold, test_ended, test_one_folder, test_talks_on,
                 test_no_descriptor, test_hung_memory):
        if len(sys.argv) > 3 and test.__name__ not in sys.argv[3:]:
            continue
        TAP.note(test.__name__)
        test()
    return TAP.done()


try:
    STATUS = main()
finally:
    for left in NODES:
        left.clear()
sys.exit(STATUS)

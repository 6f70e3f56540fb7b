#!/usr/bin/env python3
"""The gate with a runner played here and the stand-in driver (TAP).

Usage: gate_test.py LIBWEIR_GATE STANDIN_FOLDER
"""
import ctypes
import mmap
import os
import re
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests"))
from tap import Tap  # noqa: E402
from make_map import names  # noqa: E402

LIB = os.path.abspath(sys.argv[1])
STANDIN = os.path.abspath(sys.argv[2])
# In another root tree, where the folders have the same names (tree_test.py).
INTO = ((lambda: os.chroot(os.environ["WEIR_TEST_ROOT"]))
        if "WEIR_TEST_ROOT" in os.environ else None)
MUSL = os.environ.get("WEIR_TEST_LIBC") == "musl"      # has no dlmopen, dlvsym
WAYS = ("link", "dlsym", "address")
BESIDE = os.environ.get("WEIR_TEST_TOOLS", STANDIN)    # programs for here
PATIENCE = 60
MIB = 1 << 20
LEASE = "w1/2.0#1@1"
UUID = "GPU-0000000{0}-0000-0000-0000-00000000000{0}"
ACTIVE, STAGED, SUSPENDED = range(3)
TAP = Tap()
ok = TAP.ok
equal = TAP.equal
LIBC = ctypes.CDLL(None, use_errno=True)


class Page:
    """The shared page, as src/gate/gate.h has it."""

    STATE, WANTING, INSIDE, COUNT, USED = 8, 12, 16, 64, 128
    STUCK, UNHOOKED, STUCK_IN, SLOTS = 20, 24, 28, 256
    SLOT = 16 + 16 * 8
    SIZE = SLOTS + 256 * SLOT

    def __init__(self, path, state=STAGED, magic=0x72696557, version=3):
        with open(path, "wb") as f:
            f.write(struct.pack("<III", magic, version, state))
            f.truncate(self.SIZE)
        self.path = path
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), self.SIZE)

    def word(self, at):
        return struct.unpack_from("<I", self.map, at)[0]

    def count(self, kind):
        return struct.unpack_from("<Q", self.map, self.COUNT + 8 * kind)[0]

    def used(self, dev):
        return struct.unpack_from("<Q", self.map, self.USED + 8 * dev)[0]

    def pids(self):
        return [struct.unpack_from("<I", self.map, at)[0] for at in
                range(self.SLOTS, self.SIZE, self.SLOT)]

    def fill(self, pid):
        """Every free slot is that one's."""
        for at in range(self.SLOTS, self.SIZE, self.SLOT):
            if not struct.unpack_from("<I", self.map, at)[0]:
                struct.pack_into("<I", self.map, at, pid)

    def text(self, at):
        return bytes(self.map[at:at + 36]).split(b"\0")[0].decode()

    def set(self, state, wake=True):
        struct.pack_into("<I", self.map, self.STATE, state)
        at = ctypes.c_uint32.from_buffer(self.map, self.STATE)
        if wake:
            LIBC.syscall(202, ctypes.byref(at), 1, 1 << 30, None, None, 0)
        del at


class Runner:
    """Answers every hello with the grant, and keeps all that it hears."""

    def __init__(self, path, grant):
        self.path, self.grant = path, grant
        self.heard, self.conns = [], []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            conn.settimeout(PATIENCE)
            line = b""
            while not line.endswith(b"\n"):
                line += conn.recv(256) or b"\n"
            self.conns.append(conn)
            self.heard.append(line.decode().strip())
            if line.startswith(b"weir-gate"):
                self.answer(conn)

    def answer(self, conn):
        try:
            conn.sendall(self.grant.encode())
        except BrokenPipeError:
            pass                       # a long one is not heard to its end

    def hears(self, what, times=1):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if sum(h.startswith(what) for h in self.heard) >= times:
                return True
            time.sleep(0.01)
        return False

    def crowd(self):
        """So many that say nothing that nobody else can connect."""
        conns = []
        while True:
            conn = socket.socket(socket.AF_UNIX)
            conn.setblocking(False)
            conns.append(conn)
            try:
                conn.connect(self.path)
            except BlockingIOError:
                time.sleep(0.1)        # one more may be let in meanwhile
                if conn.connect_ex(self.path):
                    return conns

    def leave(self):
        """All its connections break, as when it is killed."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE)
        for conn in self.conns:
            conn.close()
        os.unlink(self.path)


class Guest:
    def __init__(self, d, way, **env):
        self.p = subprocess.Popen(
            [f"{STANDIN}/guest-{way}"], preexec_fn=INTO, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN,
                 "LD_PRELOAD": LIB, "WEIR_STANDIN": d,
                 # A sanitizer's library need not come before the gate; its
                 # search for leaks stops threads, which a fork here has not.
                 "ASAN_OPTIONS": "verify_asan_link_order=0:detect_leaks=0",
                 **env})

    def say(self, line):
        self.p.stdin.write(line.encode() + b"\n")

    def hear(self, seconds=PATIENCE):
        """A line, or None when there is none in that time."""
        if not select.select([self.p.stdout], [], [], seconds)[0]:
            return None
        line = b""
        while not line.endswith(b"\n"):
            more = self.p.stdout.read(1)
            if not more:
                return "gone"
            line += more
        return line.decode().strip()

    def ask(self, line):
        self.say(line)
        return self.hear()

    def end(self):
        self.p.stdin.close()
        return self.p.wait(PATIENCE)


class World:
    """A folder with a runner, a page and two devices."""

    def __init__(self, d, name, grant="", state=STAGED, page=True):
        self.d = f"{d}/{name}"
        os.mkdir(self.d)
        with open(self.d + "/driver", "w") as f:
            f.write("cuda=13000\n")
        for k in range(2):
            with open(f"{self.d}/gpu{k}", "w") as f:
                f.write(f"uuid={UUID.format(k)}\nmodel=H200\n"
                        f"memory={1024 * MIB}\n")
        self.page = Page(self.d + "/page", state)
        self.grant = f"page {self.page.path}\n" * page + grant + "ready\n"
        self.runner = Runner(self.d + "/gate", self.grant)

    def guest(self, way, **env):
        return Guest(self.d, way, WEIR_GATE_SOCKET=self.d + "/gate",
                     WEIR_LEASE=LEASE, **env)

    def calls(self, pid):
        """What has come to the driver."""
        with open(f"{self.d}/proc/{pid}", "rb") as f:
            return struct.unpack("<Q", f.read()[24:32])[0]

    def lock(self, pid, state):
        """The driver, as a suspend does; 0: as a resume."""
        with open(f"{self.d}/proc/{pid}", "r+b") as f:
            f.seek(8)
            f.write(struct.pack("<I", state))


def staged(d, way):
    w = World(d, "staged-" + way, f"memory {64 * MIB}\nhush 1 2\n"
              f"device {UUID.format(1)} more\nlost wait\n")
    g = w.guest(way)
    equal(g.ask("init"), "0", f"{way}: the driver starts")
    equal(w.runner.heard, [], "which nobody is told")
    equal(g.ask("count"), "0 1", "one device is leased")
    equal(w.runner.heard, [f"weir-gate 3 {LEASE} {g.p.pid}"],
          "says its version, its lease and itself")
    equal(g.ask("device 0"), f"0 H200 (simulated) 1 {64 * MIB}",
          "the second, with the memory of the lease")
    equal(g.ask("device 1"), "101  0 0", "there is no other")
    fds = set(os.listdir(f"/proc/{g.p.pid}/fd"))
    equal(fds, {"0", "1", "2"}, "no descriptor is left open")
    g.say("use")
    ok(w.runner.hears("wants"), "the first context tells that it waits")
    equal(w.runner.heard[-1], f"wants {LEASE} {g.p.pid}", "with its name")
    equal(g.hear(0.3), None, "and waits")
    ok(not os.path.exists(w.d + "/proc"), "outside the driver")
    equal(w.page.word(Page.WANTING), 1, "the page shows it")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "open: it has its context")
    equal(w.page.word(Page.WANTING), 0, "and wants no more")
    equal(g.ask("own"), "0", "another one at once")
    equal(g.end(), 0, "it ends")
    w.runner.leave()


def limited(d, way):
    w = World(d, "limit-" + way, f"memory {64 * MIB}\n", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    whole = f"0 {64 * MIB} {64 * MIB}"
    equal(g.ask("info"), whole, f"{way}: the limit is the device")
    for take, give in ((f"alloc {40 * MIB}", "free"),
                       (f"pitch 4096 {10 * 1024}", "free"),
                       (f"managed {40 * MIB}", "free"),
                       (f"async {40 * MIB}", "freeasync"),
                       (f"pool {40 * MIB}", "free"),
                       (f"create {40 * MIB}", "release"),
                       ("array 2560 1024", "destroy"),
                       ("array3d 640 1024", "destroy"),
                       ("mipmap 512 1024", "destroymip"),
                       ("layers 512 1024", "destroymip"),
                       (f"oldalloc {40 * MIB}", "oldfree"),
                       ("oldpitch 1000 40960", "oldfree"),
                       ("oldarray 2560 1024", "destroy"),
                       ("oldarray3d 640 1024", "destroy")):
        n = 36 * MIB if "mip" in take.split()[0] else 40 * MIB
        got = [g.ask(x) for x in (take, "info", take, "info", give, "info")]
        used = f"0 {64 * MIB - n} {64 * MIB}"
        equal(got, ["0", used, "2", used, "0", whole], take)
    equal([g.ask("oldtotal"), g.ask("oldinfo")], ["64", "64"],
          "with 32 bits, too")
    equal([g.ask(f"poolon {40 * MIB} 1"), w.page.used(0), w.page.used(1),
           g.ask("free"), w.page.used(1)], ["0", 0, 40 * MIB, "0", 0],
          "a pool's memory is on the pool's device")
    equal([g.ask(x) for x in (f"create {40 * MIB}", f"map {40 * MIB}",
                              "retain", "release", f"unmap {40 * MIB}")],
          ["0"] * 5, "one more handle of what is mapped")
    equal([w.page.used(0), g.ask("release"), w.page.used(0)],
          [40 * MIB, "0", 0], "keeps it until it is released")
    equal([g.ask(x) for x in (f"create {40 * MIB}", f"map {40 * MIB}",
                              "release", f"alloc {40 * MIB}")],
          ["0", "0", "0", "2"], "what is mapped is there without its handle")
    equal(w.page.used(0), 40 * MIB, "it was mapped last")
    g.end()
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    equal(g.ask("info"), whole, "what ended has nothing")
    equal([g.ask(x) for x in (f"create {40 * MIB}", f"map {40 * MIB}",
                              "release", f"unmap {40 * MIB}", "info")],
          ["0", "0", "0", "0", whole], "unmapped: free")
    equal([g.ask("free"), g.ask("info")], ["1", whole],
          "a free that fails frees nothing")
    g.ask(f"alloc {40 * MIB}")
    equal([g.ask("drop"), w.page.used(0)], ["0", 0],
          "a context takes its memory with it")
    g.end()
    w.runner.leave()


def graphs(d, way):
    w = World(d, "graphs-" + way, f"memory {64 * MIB}\n", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    equal(g.ask(f"graph {80 * MIB}"), "2",
          f"{way}: a node with more than the limit")
    for make in ("graph", "capture"):
        equal([g.ask(f"{make} {40 * MIB}"), w.page.used(0)], ["0", 0],
              f"{make}: has nothing before its graph runs")
        launches = w.page.count(1)
        equal([g.ask("rungraph"), w.page.used(0)], ["0", 40 * MIB],
              "and then what it asked for")
        equal([g.ask("rungraph"), w.page.used(0), w.page.count(1)],
              ["0", 40 * MIB, launches + 2], "once")
        equal([g.ask(f"alloc {40 * MIB}"), g.ask(f"graph {40 * MIB}")],
              ["2", "2"], "others see it")
        equal([g.ask("trim"), w.page.used(0)], ["0", 0], "until it is trimmed")
    equal([g.ask(f"capture {60 * MIB}"), g.ask(f"alloc {40 * MIB}"),
           g.ask("rungraph"), w.page.used(0)], ["0", "0", "0", 100 * MIB],
          "a launch may pass the limit")
    equal([g.ask("rungraph"), g.ask("alloc 4096")], ["2", "2"],
          "and is the last")
    equal([g.ask("free"), g.ask("rungraph")], ["0", "0"], "until there is room")
    w.page.set(SUSPENDED)
    g.say("rungraph")
    ok(w.runner.hears("wants"), "suspended: it waits")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "and goes on")
    g.p.kill()
    g.p.wait(PATIENCE)
    g = w.guest(way)
    equal([g.ask(x) for x in ("init", "use", "info")],
          ["0", "0", f"0 {64 * MIB} {64 * MIB}"], "killed, it has nothing")
    g.end()
    w.runner.leave()


def shared(d, way):
    w = World(d, "shared-" + way, f"memory {64 * MIB}\n", ACTIVE)
    g, h = w.guest(way), w.guest(way)
    for one in (g, h):
        one.ask("init")
        one.ask("use")
    g.ask(f"alloc {40 * MIB}")
    name, rc = g.ask("export").split()
    equal([rc, h.ask("import " + name.replace(".", " "))], ["0", "0"],
          f"{way}: one opens the memory of another")
    equal(w.page.used(0), 40 * MIB, "which is counted once")
    equal([h.ask("close"), w.page.used(0), g.ask("free"), w.page.used(0)],
          ["0", 40 * MIB, "0", 0], "where it was made")
    g.end()
    h.end()
    w.runner.leave()


def together(d, way):
    w = World(d, "two-" + way, f"memory {64 * MIB}\n", ACTIVE)
    g, h = w.guest(way), w.guest(way)
    for one in (g, h):
        one.ask("init")
        one.ask("use")
    equal(g.ask(f"alloc {40 * MIB}"), "0", f"{way}: two processes")
    equal(h.ask(f"alloc {40 * MIB}"), "2", "have one limit")
    equal(h.ask(f"alloc {20 * MIB}"), "0", "together")
    h.p.send_signal(signal.SIGKILL)
    h.p.wait(PATIENCE)
    equal(w.page.used(0), 60 * MIB, "one is killed")
    equal(g.ask(f"alloc {24 * MIB}"), "0", "the other has its share")
    g.end()
    w.runner.leave()


def suspended(d, way):
    w = World(d, "suspend-" + way, "", ACTIVE)
    g = w.guest(way)
    for line in ("init", "use", f"alloc {MIB}"):
        equal(g.ask(line), "0", f"{way}: {line}")
    for _ in range(5):
        g.ask("spin_0ms")
    equal(w.page.count(1), 5, "launches are counted")
    g.ask("set")
    equal(w.page.count(2), 1, "copies")
    g.ask("sync")
    g.ask("query")
    equal(w.page.count(3), 2, "and what waits")
    g.ask("spin_400ms")
    g.say("sync")
    time.sleep(0.1)
    equal(w.page.word(Page.INSIDE), 1, "a thread that waits shows")
    g.hear()
    equal(w.page.word(Page.INSIDE), 0, "until it does not")
    for k, line in enumerate(("sync", "set", "query", "spin_0ms", "info",
                              f"alloc {MIB}", "free", "count", "use")):
        w.page.set(SUSPENDED)
        before = w.calls(g.p.pid)
        g.say(line)
        ok(w.runner.hears("wants", k + 1), f"suspended: {line} wants")
        equal(g.hear(0.1), None, "waits")
        equal(w.calls(g.p.pid), before, "outside the driver")
        w.page.set(ACTIVE)
        answer = g.hear()
        ok(answer.split()[0] == "0" and "errno" not in answer,
           "and goes on", answer)
    g.ask("alarm 1")
    w.page.set(SUSPENDED)
    g.say("sync")
    equal(g.hear(1.5), None, "a signal does not end it")
    w.page.set(ACTIVE)
    g.hear()
    equal(g.ask("alarms"), "1", "and is served")
    g.end()
    w.runner.leave()


def threaded(d, way):
    w = World(d, "threads-" + way, f"memory {MIB}\n")
    g = w.guest(way)
    g.say("threads 8 200")
    ok(w.runner.hears("wants", 8), f"{way}: 8 threads stand at the gate")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "and all go on")
    equal(w.page.count(2), 1600, "each call is counted once")
    equal(w.page.used(0), 0, "and each byte")
    equal(sum(h.startswith("weir-gate") for h in w.runner.heard), 1,
          "one of them read the grant")
    g.end()
    w.runner.leave()


def forked(d, way):
    w = World(d, "fork-" + way, f"memory {64 * MIB}\n", ACTIVE)
    g = w.guest(way)
    g.say("fork")
    for line in ("init", "use", f"alloc {40 * MIB}"):
        equal(g.ask(line), "0", f"{way}: a child's {line}")
    pid = int(w.runner.heard[0].split()[-1])
    ok(pid != g.p.pid, "is its own")
    os.kill(pid, signal.SIGKILL)
    equal(g.hear(), "parent", "it is killed")
    for line in ("init", "use", f"alloc {40 * MIB}"):
        equal(g.ask(line), "0", f"the parent's {line}")
    equal(w.page.used(0), 40 * MIB, "and has all")
    g.say("fork")
    equal(g.ask("count"), "3 2", "a child of who has a context has no driver")
    g.say("end")
    equal([g.hear(), g.hear()], ["?", "parent"], "and ends")
    equal(g.ask("free"), "0", "the parent goes on")
    equal(w.page.used(0), 0, "and counts on")
    g.end()
    w.runner.leave()


def slots(d):
    w = World(d, "slots", f"memory {64 * MIB}\n", ACTIVE)
    many = [w.guest(WAYS[k % 3]) for k in range(40)]
    for line in ("init", "use", f"alloc {MIB}"):
        for g in many:
            g.say(line)
        equal([g.hear() for g in many], ["0"] * 40, f"40 processes: {line}")
    equal(w.page.used(0), 40 * MIB, "have their memory")
    for g in many[1:]:
        g.p.kill()
        g.p.wait(PATIENCE)
    g = many[0]
    equal(g.ask(f"alloc {60 * MIB}"), "0", "and when 39 are killed one has all")
    equal(w.page.used(0), 61 * MIB, "of it")
    g.say("exec")
    equal([g.ask(x) for x in ("init", "use", f"alloc {60 * MIB}")],
          ["0", "0", "0"], "an image before exec leaves nothing")
    equal(w.page.used(0), 60 * MIB, "what the new one has is counted")
    w.page.fill(os.getpid())
    h = w.guest("dlsym")
    equal([h.ask(x) for x in ("init", "use", f"alloc {4 * MIB}",
                              f"alloc {MIB}", "free")],
          ["0", "0", "0", "2", "0"], "without a slot the limit holds, too")
    equal(w.page.used(0), 60 * MIB, "and bytes are counted")
    h.end()
    g.end()
    dead = subprocess.Popen(["true"])
    dead.wait()
    w.page.fill(dead.pid)
    g = w.guest("dlsym")
    equal([g.ask(x) for x in ("init", "use")], ["0", "0"],
          "all slots are of the dead")
    ok(g.p.pid in w.page.pids(), "the next one takes one")
    equal([g.ask("spin_60000ms"), g.say("sync")], ["0", None], "it waits")
    time.sleep(0.2)
    equal(w.page.word(Page.INSIDE), 1, "inside")
    g.p.kill()
    g.p.wait(PATIENCE)
    g = w.guest("dlsym")
    g.ask("init")
    g.ask("use")
    g.ask("info")
    equal(w.page.word(Page.INSIDE), 0, "is killed there, and is no more")
    w.page.set(SUSPENDED)
    g.say("sync")
    w.runner.hears("wants")
    equal(w.page.word(Page.WANTING), 1, "one waits")
    g.p.kill()
    g.p.wait(PATIENCE)
    w.page.set(ACTIVE)
    g = w.guest("dlsym")
    equal([g.ask("init"), g.ask("use"), g.ask("info")[0]], ["0", "0", "0"],
          "and is killed")
    equal(w.page.word(Page.WANTING), 0, "nobody waits")
    g.end()
    w.runner.leave()


def gone(d, way):
    w = World(d, "gone-" + way, "", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    w.page.set(SUSPENDED)
    g.say("sync")
    w.runner.hears("wants")
    w.runner.leave()
    equal(g.hear(1.5), None, f"{way}: the runner is gone: waits on")
    w.runner = Runner(w.d + "/gate", w.grant)
    ok(w.runner.hears("wants"), "tells the next one")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "which lets it go on")
    g.end()
    w.runner.leave()

    w = World(d, "go-" + way, "lost go\n", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    w.page.set(SUSPENDED)
    g.say("sync")
    w.runner.hears("wants")
    w.runner.leave()
    equal(g.hear(), "0", "granted so: goes on")
    g.end()

    w = World(d, "full-" + way, "lost go\n", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    w.page.set(SUSPENDED)
    crowd = w.runner.crowd()
    g.say("sync")
    equal(g.hear(0.5), None, "a runner with too many at its door is not gone")
    for conn in crowd:
        conn.close()
    ok(w.runner.hears("wants"), "it hears of it when they leave")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "and lets it go on")
    g.end()
    w.runner.leave()


def older(d):
    w = World(d, "old")
    w.runner.grant = "open\n"
    g = w.guest("dlsym")
    equal([g.ask("init"), g.ask("use")], ["0", "0"], "a runner that says open")
    equal(g.ask(f"alloc {MIB}"), "0", "and nothing else")
    g.end()

    w.runner.grant = "ready\n"
    g = w.guest("dlsym")
    equal(g.ask("init"), "0", "no page")
    equal(g.ask("count"), "0 2", "all devices")
    g.say("use")
    equal(g.hear(0.3), None, "waits for the word")
    w.runner.grant = "ready\nop"
    w.runner.conns[-1].sendall(b"opener\nop")
    equal(g.hear(0.2), None, "for the whole word")
    w.runner.conns[-1].sendall(b"en\n")
    equal(g.hear(), "0", "which opens")
    g.end()

    w.runner.grant = "device GPU-1\nopen\n"
    g = w.guest("dlsym")
    equal([g.ask("init"), g.ask("count")], ["0", "0 0"],
          "a device that makes no sense is none, and not all")
    g.end()
    for limit in ("x", "", "-1", "99999999999999999999", "0"):
        w.runner.grant = f"memory {limit}\nopen\n"
        g = w.guest("dlsym")
        equal([g.ask("init"), g.ask("use"), g.ask("alloc 4096")],
              ["0", "0", "2"], f"a limit of '{limit}' is no memory")
        g.end()
    for grant in ("x" * 4096, "page\n\n \nready\nopen\n"):
        w.runner.grant = grant
        g = w.guest("dlsym", WEIR_GATE_WAIT_MS="300")
        equal([g.ask("init"), g.ask("use")], ["0", "0"],
              "a runner that babbles is passed in the end")
        g.end()
    two = Page(w.d + "/two", ACTIVE, version=2)
    os.truncate(two.path, 4608)
    w.runner.grant = f"page {two.path}\nmemory {MIB}\nready\n"
    g = w.guest("dlsym")
    equal([g.ask(x) for x in ("init", "use", f"alloc {MIB}", f"alloc {MIB}",
                              "free")], ["0", "0", "0", "2", "0"],
          "a page of version 2")
    g.end()
    cut = Page(w.d + "/cut", STAGED)
    os.truncate(cut.path, 4608)
    w.runner.grant = f"page {cut.path}\nready\nopen\n"
    g = w.guest("dlsym")
    equal([g.ask("init"), g.ask("use")], ["0", "0"], "a page cut short is none")
    g.end()
    bad = Page(w.d + "/bad", SUSPENDED, magic=1)
    w.runner.grant = f"page {bad.path}\nopen\n"
    g = w.guest("dlsym")
    equal([g.ask("init"), g.ask("use")], ["0", "0"], "a page that is none")
    g.end()
    w.runner.leave()
    g = w.guest("dlsym", WEIR_GATE_WAIT_MS="100")
    equal([g.ask("init"), g.ask("use")], ["0", "0"], "nobody, for a time")
    g.end()
    g = w.guest("dlsym")
    g.ask("init")
    g.say("use")
    equal(g.hear(1), None, "nobody, strictly")
    g.p.kill()
    g.p.wait()


def tables(d, way):
    """What the driver hands out in tables without names."""
    w = World(d, "tables-" + way, "", ACTIVE)
    g = w.guest(way)
    g.ask("init")
    g.ask("use")
    equal([g.ask(f"word 0 {k}") for k in range(5)],
          ["40", "1000", "0", "7", "1000"],
          f"{way}: a table with its size: functions are ours, the rest is not")
    equal([g.ask(f"word 1 {k}") for k in range(4)],
          ["1000", "1000", "0", "24"], "one that begins with a function")
    equal(w.page.word(Page.UNHOOKED), 0, "and nothing goes past the gate")
    equal([g.ask("word 2 0"), g.ask("word 2 1")], ["3", "2000"],
          "one that is like none is left alone")
    ok(w.page.word(Page.UNHOOKED) > 0, "which shows")
    equal([g.ask("word 3 1"), g.ask("word 4 1")], ["2000", "2000"],
          "and so are those whose addresses are compared")
    equal([g.ask("sum 0 1"), g.ask("twice 0 4"), g.ask("sum 1 0"),
           g.ask("twice 1 1")], ["36", "5", "36", "5"],
          "arguments in registers and on the stack arrive")
    before = w.page.count(0)
    g.ask("sum 0 1")
    equal(w.page.count(0), before + 1, "a call is counted")
    for k, (line, value) in enumerate((("sum 0 1", "36"), ("twice 1 1", "5"))):
        w.page.set(SUSPENDED)
        before = w.calls(g.p.pid)
        g.say(line)
        ok(w.runner.hears("wants", k + 1), f"suspended: {line} wants")
        equal(g.hear(0.1), None, "waits")
        equal(w.calls(g.p.pid), before, "outside the driver")
        w.page.set(ACTIVE)
        equal(g.hear(), value, "and goes on")
    equal(g.ask("space"), "?" if MUSL else "1", "dlmopen: ours")
    g.end()
    g = w.guest(way, LD_LIBRARY_PATH=STANDIN + "/versioned")
    equal([g.ask(x) for x in ("init", "use", f"alloc {MIB}", "version")],
          ["0", "0", "0", "?" if MUSL else "1"],
          "dlvsym: ours, in the version that is there")
    g.end()
    w.runner.leave()


def stuck_in(pid):
    """What is seen of it from outside."""
    return subprocess.run([BESIDE + "/stuck", str(pid)], timeout=PATIENCE,
                          capture_output=True, text=True).stdout.strip()


def until(see, want):
    """What was seen last: `want`, or something else for too long."""
    end = time.monotonic() + PATIENCE
    while (seen := see()) != want and time.monotonic() < end:
        time.sleep(0.05)
    return seen


def watched(d, way):
    """Threads that are inside the driver while it is locked."""
    w = World(d, "watched-" + way, "", ACTIVE)
    g = w.guest(way)
    for line in ("init", "use", "spin_10000ms", "stay"):
        equal(g.ask(line), "0", f"{way}: {line}")
    until(lambda: w.page.word(Page.INSIDE), 1)
    equal(stuck_in(g.p.pid), "1 cuCtxSynchronize",
          "a thread in the driver is seen from outside, and where it is")
    w.page.set(SUSPENDED)
    g.say("sync")
    equal(until(lambda: w.page.word(Page.STUCK), 1), 1,
          "one that was there before shows in the page")
    equal(w.page.text(Page.STUCK_IN), "cuCtxSynchronize", "with its name")
    equal(until(lambda: w.page.word(Page.STUCK), 0), 0, "until it is done")
    equal(stuck_in(g.p.pid), "0", "threads at the gate are not in the driver")
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "which opens")
    w.page.set(SUSPENDED)
    w.lock(g.p.pid, 1)
    equal(g.ask("around"), "0", "one that goes around the gate")
    equal(until(lambda: stuck_in(g.p.pid), "1 ?"), "1 ?",
          "is seen from outside")
    g.say("query")
    equal(until(lambda: w.page.word(Page.STUCK), 1), 1, "and in the page")
    w.lock(g.p.pid, 0)
    w.page.set(ACTIVE)
    equal(g.hear(), "0", "and goes on")
    equal(until(lambda: (w.page.word(Page.STUCK), stuck_in(g.p.pid)),
                (0, "0")), (0, "0"), "nobody is stuck")
    g.end()
    w.runner.leave()


def wrapped(d):
    """Somebody else's library in front of the driver, too."""
    w = World(d, "wrapped", f"device {UUID.format(1)}\n", ACTIVE)
    wrap = STANDIN + "/libwrap.so"
    for preload, what in ((f"{LIB} {wrap}", "after the gate"),
                          (f"{wrap} {LIB}", "before it")):
        g = w.guest("link", LD_PRELOAD=preload)
        equal([g.ask("init"), g.ask("count"), g.ask("wrapped")],
              ["0", "0 1", "1"], f"another that wraps, {what}")
        g.end()
    w.runner.leave()


def alone(d):
    def shell(code="echo in", **env):
        p = subprocess.run(["/bin/sh", "-c", code], capture_output=True,
                           text=True, timeout=PATIENCE, env={
                               "PATH": os.environ["PATH"], "LD_PRELOAD": LIB,
                               **env})
        return p.stdout, p.stderr, p.returncode

    said = ("in\n", "", 0)
    equal(shell(), said, "a program without a device")
    equal(shell(WEIR_GATE_SOCKET=""), said, "an empty name")
    equal(shell(WEIR_GATE_SOCKET=d + "/none"), said, "nobody there")
    equal(shell(WEIR_GATE_SOCKET="x" * 500), said, "a name too long")
    w = World(d, "alone", state=SUSPENDED)
    for way in WAYS:
        g = Guest(w.d, way)
        equal([g.ask(x) for x in ("init", "count", "use", f"alloc {MIB}",
                                  "info", "free", "next", "missing")],
              ["0", "0 2", "0", "0", f"0 {1023 * MIB} {1024 * MIB}", "0", "1",
               "1"], f"{way}: no runner, no gate")
        equal(g.ask("default"), "1" if way == "link" else "0",
              "names are in the scope they were in")
        g.end()
    g = Guest(w.d, "dlsym", LD_LIBRARY_PATH="/nowhere")
    equal(g.ask("default"), "0", "no driver: no names")
    g.end()
    w.runner.leave()


def made_of():
    nm = subprocess.run(["nm", "-D", LIB], capture_output=True, text=True,
                        check=True).stdout
    shown = sorted(x.split()[-1] for x in nm.splitlines()
                   if x.split()[-2] in "TDRBVW" and not x.startswith(" "))
    hooks = names(HERE + "/hooks.def")
    ok(len(hooks) == len(set(hooks)) > 600, f"{len(hooks)} hooks, each once")
    equal(shown, sorted(["weir_gate_version", "dlsym", "dlvsym", *hooks]),
          "shows the hooks and nothing else")
    versions = {tuple(map(int, v.split(".")))
                for v in re.findall(r"GLIBC_([0-9.]+)", nm)}
    ok(versions and max(versions) <= (2, 17), f"no younger symbol: {versions}")
    libs = re.findall(r"NEEDED\s+(\S+)", subprocess.run(
        ["objdump", "-p", LIB], capture_output=True, text=True,
        check=True).stdout)
    ok(libs == ["libc.so.6"], f"libc alone: {libs}")


with tempfile.TemporaryDirectory(prefix="weir-gate-") as folder:
    made_of()
    alone(folder)
    for one_way in WAYS:
        staged(folder, one_way)
        limited(folder, one_way)
        graphs(folder, one_way)
        shared(folder, one_way)
        together(folder, one_way)
        threaded(folder, one_way)
        forked(folder, one_way)
        suspended(folder, one_way)
        gone(folder, one_way)
        tables(folder, one_way)
        watched(folder, one_way)
    wrapped(folder)
    slots(folder)
    older(folder)
sys.exit(TAP.done())

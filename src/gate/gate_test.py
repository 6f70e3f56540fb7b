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
WAYS = ("link", "dlsym", "address")
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
    SIZE = 128 + 16 * 8 + 32 * (8 + 16 * 8)

    def __init__(self, path, state=STAGED, magic=0x72696557):
        with open(path, "wb") as f:
            f.write(struct.pack("<III", magic, 2, state))
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
            [f"{STANDIN}/guest-{way}"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
            env={"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN,
                 "LD_PRELOAD": LIB, "WEIR_STANDIN": d, **env})

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


def staged(d, way):
    w = World(d, "staged-" + way, f"memory {64 * MIB}\nhush 1 2\n"
              f"device {UUID.format(1)} more\nlost wait\n")
    g = w.guest(way)
    equal(g.ask("init"), "0", f"{way}: the driver starts")
    equal(w.runner.heard, [], "which nobody is told")
    equal(g.ask("count"), "0 1", "one device is leased")
    equal(w.runner.heard, [f"weir-gate 2 {LEASE} {g.p.pid}"],
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
                       ("mipmap 512 1024", "destroymip")):
        n = 36 * MIB if "mip" in take else 40 * MIB
        got = [g.ask(x) for x in (take, "info", take, "info", give, "info")]
        used = f"0 {64 * MIB - n} {64 * MIB}"
        equal(got, ["0", used, "2", used, "0", whole], take)
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
    equal(shown, sorted(["weir_gate_version", "dlsym", *hooks]),
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
        together(folder, one_way)
        threaded(folder, one_way)
        forked(folder, one_way)
        suspended(folder, one_way)
        gone(folder, one_way)
    older(folder)
sys.exit(TAP.done())

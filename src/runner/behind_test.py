#!/usr/bin/env python3
"""Tasks behind the gate, started by a real runner, with the stand-in driver
and a scripted home (TAP).

Usage: behind_test.py WEIR_RUNNER LIBWEIR_GATE STANDIN_FOLDER [NAME...]
"""
import contextlib
import os
import shutil
import socket
import stat
import struct
import sys
import time

import runner_test as base
from runner_test import is_, ok, read, wait_for

LIB = os.path.abspath(sys.argv[2])
STANDIN = os.path.abspath(sys.argv[3])
MIB = 1 << 20
UUID = "GPU-0000000{0}-0000-0000-0000-00000000000{0}"
NOBODY = 65534
GUESTS, QUIET = 64, 5          # as gatepost.h has them
LAUNCHES = 64 + 8              # in the page; see gate.h
base.TESTS.clear()
base.ONLY = sys.argv[4:]
test = base.test


class Driver:
    """A stand-in driver with two devices, and guests that are tasks."""

    def __init__(self, b, *args, public=False):
        self.b = b
        self.gate_dir = b.dir + "/gate"
        self.dir = b.dir + "/driver"
        self.bin, self.lib = STANDIN, LIB
        os.mkdir(self.dir)
        if public:
            self.publish()
        with open(self.dir + "/driver", "w", encoding="ascii") as f:
            f.write("cuda=13000\n")
        for k in range(2):
            with open(f"{self.dir}/gpu{k}", "w", encoding="ascii") as f:
                f.write(f"uuid={UUID.format(k)}\nmodel=H200\n"
                        f"memory={1024 * MIB}\n")
        b.args = ("--gate", self.lib, "--gate-dir", self.gate_dir, *args)
        self.pipes = {}

    def publish(self):
        """Where other users get at it, wherever the tree stands."""
        os.chmod(self.b.dir, 0o711)
        os.chmod(self.dir, 0o777)
        self.bin = self.b.dir + "/bin"
        os.mkdir(self.bin, 0o755)
        for path in (STANDIN + "/libcuda.so.1", STANDIN + "/guest-link", LIB):
            shutil.copy(path, self.bin)
        self.lib = self.bin + "/" + os.path.basename(LIB)

    def env(self, **more):
        return {"LD_LIBRARY_PATH": self.bin, "WEIR_STANDIN": self.dir, **more}

    def order(self, key, gate, way="link", **task):
        """Start a guest that does what it is told with say()."""
        fifo = f"{self.b.dir}/{key.replace('/', '.')}.in"
        os.mkfifo(fifo)
        os.chmod(fifo, 0o666)
        self.pipes[key] = os.open(fifo, os.O_RDWR)
        task = {"run": f"exec {self.bin}/guest-{way} < {fifo}", **task}
        self.b.go(key, env=self.env(), devices=[0], gate=gate, **task)

    def say(self, key, *lines):
        for line in lines:
            os.write(self.pipes[key], line.encode() + b"\n")

    def lines(self, key):
        return self.b.log(key)[1].decode().splitlines()

    def hear(self, key, n):
        """The first n lines that it said."""
        wait_for(lambda: len(self.lines(key)) >= n, f"{n} lines of {key}")
        return self.lines(key)

    def quiet(self, key, n, seconds=0.3):
        """It says no more than n lines for a while."""
        time.sleep(seconds)
        return len(self.lines(key)) == n

    def end(self, key):
        self.say(key, "end")
        m = self.b.ended(key)
        os.close(self.pipes.pop(key))
        return m

    def path(self, key, what):
        return f"{self.gate_dir}/{self.b.name()}/" \
               f"{key.replace('/', '.')}.1.{self.b.epoch}.{what}"

    def set(self, key, state):
        self.b.home.send(t="gate", gate=state, **self.b.lease(key))

    def activity(self, key, **want):
        """Wait for the one that says all of this."""
        while True:
            m = self.b.home.wait("activity", key)
            if all(m.get(k, 0) == v for k, v in want.items()):
                return m

    def used(self):
        """Has anything come to the driver?"""
        return os.path.isdir(self.dir + "/proc") and \
            bool(os.listdir(self.dir + "/proc"))

    def dial(self, key):
        s = socket.socket(socket.AF_UNIX)
        s.connect(self.path(key, "sock"))      # waits while many do
        s.settimeout(base.PATIENCE)
        return s


@test
def open_at_once(b):
    """An active lease: nothing but the gate is new."""
    d = Driver(b)
    b.start()
    d.order("w1/0.0", {}, run=f"echo $LD_PRELOAD; echo $CUDA_VISIBLE_DEVICES; "
            f"echo $WEIR_GATE_SOCKET; exec {STANDIN}/guest-link < "
            f"{b.dir}/w1.0.0.in")
    d.say("w1/0.0", "init", "count", "use", "spin_0ms", "spin_0ms", "set")
    got = d.hear("w1/0.0", 9)
    is_(got[:3], [LIB, "0", d.path("w1/0.0", "sock")], "what it sees")
    is_(got[3:8], ["0", "0 2", "0", "0", "0"], "it uses its device")
    m = d.activity("w1/0.0", launches=2)
    ok(m["gate"] == "active" and m["others"] > 0, f"which home hears of: {m}")
    d.say("w1/0.0", "spin_2500ms", "sync")
    d.activity("w1/0.0", inside=1)
    d.activity("w1/0.0", inside=0, launches=3)
    is_(d.end("w1/0.0")["status"], 0, "it ends")
    b.home.flush()
    ok(not os.path.exists(d.path("w1/0.0", "page")) and
       not os.path.exists(d.path("w1/0.0", "sock")), "nothing is left")
    b.run("w1/1.0", argv=["env"], devices=[0, 1],
          gate={"devices": [UUID.format(1), UUID.format(0)]},
          env=d.env(LD_PRELOAD="libc.so.6", WEIR_GATE_WAIT_MS="0"))
    env = dict(x.split("=", 1) for x in b.text("w1/1.0").splitlines())
    is_(env["LD_PRELOAD"], LIB + ":libc.so.6", "in front of the user's own")
    is_(env["WEIR_GATE_WAIT_MS"], "", "which cannot shorten the wait")
    is_(env["CUDA_VISIBLE_DEVICES"], f"{UUID.format(1)},{UUID.format(0)}",
        "devices by name")
    for key, task in (("w1/2.0", {"gate": {}, "devices": [0],
                                  "simulated": True}),
                      ("w1/3.0", {"devices": [0]}), ("w1/4.0", {"gate": {}})):
        b.run(key, argv=["env"], **task)
        ok("LD_PRELOAD" not in b.text(key), f"without the gate: {task}")
    b.finish()


@test
def waits(b):
    """Staged, active, suspended, active."""
    d = Driver(b)
    b.start()
    for way in ("link", "dlsym", "address"):
        key = f"w1/{len(way)}.0"
        d.order(key, {"state": "staged", "devices": [UUID.format(1)]}, way)
        b.home.wait("started", key)
        d.say(key, "init", "count", "use")
        is_(d.hear(key, 2), ["0", "0 1"], f"{way}: sees what is leased")
        m = d.activity(key, wanting=1)
        is_(m["gate"], "staged", "stands at the gate")
        ok(d.quiet(key, 2) and not d.used(), "outside the driver")
        d.set(key, "active")
        is_(d.hear(key, 3)[2], "0", "open: it has its context")
        d.activity(key, gate="active", wanting=0)
        d.set(key, "suspended")
        d.activity(key, gate="suspended")
        d.say(key, "sync")
        d.activity(key, gate="suspended", wanting=1)
        ok(d.quiet(key, 3), "suspended: it stands still")
        d.set(key, "suspended")
        ok(d.quiet(key, 3), "said again, it stays")
        d.set(key, "ajar")
        d.set(key, "active")
        is_(d.hear(key, 4)[3], "0", "and goes on")
        is_(d.end(key)["status"], 0, "it ends")
        shutil.rmtree(d.dir + "/proc")
    ok("ajar" in read(b.state + "/runner.log"), "no such state: a line")
    d.order("w1/9.0", {"state": "staged"})
    d.say("w1/9.0", "init", "use")
    d.activity("w1/9.0", wanting=1)
    b.stop("w1/9.0", grace_ms=10000)
    m = b.ended("w1/9.0")
    is_((m["cause"], m["status"]), ("signalled", -15),
        "one that waits can be stopped")
    ok(not d.used(), "it never came to the driver")
    is_(b.run("w1/11.0", run="true", devices=[0], simulated=True,
              gate={"state": "staged"})["cause"], "refused",
        "one that is to wait is not started without a gate")
    is_(b.run("w1/10.0", run="true", devices=[0],
              gate={"state": "ajar"})["cause"], "refused",
        "a state that is not known is not kept by guessing")
    b.finish()


@test
def limited(b):
    """The driver's own error past the limit, of all processes together."""
    d = Driver(b)
    b.start()
    d.order("w1/0.0", {"memory": 64 * MIB})
    d.say("w1/0.0", "init", "use", "info", f"alloc {40 * MIB}",
          f"alloc {40 * MIB}")
    is_(d.hear("w1/0.0", 5),
        ["0", "0", f"0 {64 * MIB} {64 * MIB}", "0", "2"], "its limit")
    is_(d.activity("w1/0.0", used=40 * MIB)["gate"], "active",
        "home hears what it has")
    d.order("w1/1.0", {})
    d.say("w1/1.0", "init", "use", f"alloc {400 * MIB}")
    is_(d.hear("w1/1.0", 3), ["0", "0", "0"], "a neighbour has none")
    d.end("w1/0.0")
    d.end("w1/1.0")
    b.finish()


@test
def killed(b):
    """The runner is killed while tasks stand at the gate."""
    d = Driver(b)
    b.start()
    for key in ("w1/0.0", "w1/1.0", "w1/2.0"):
        gate = {"state": "staged", "memory": 64 * MIB}
        if key == "w1/2.0":
            gate["lost"] = "go"
        d.order(key, gate)
        d.say(key, "init")
        d.hear(key, 1)
    for key in ("w1/0.0", "w1/2.0"):
        d.say(key, "use")
        d.activity(key, wanting=1)
    b.kill()
    b.home.conn.close()
    is_(d.hear("w1/2.0", 2)[1], "0", "lost go: goes on without a runner")
    d.say("w1/1.0", "count")
    ok(d.quiet("w1/0.0", 1) and d.quiet("w1/1.0", 1),
       "the others wait for the next")
    inode = os.stat(d.path("w1/0.0", "page")).st_ino
    b.home.seen = []
    hello = b.start()
    is_({x["key"]: (x["state"], x["gate"]) for x in hello["leases"]},
        {f"w1/{k}.0": ("running", "staged") for k in range(3)},
        "which finds them")
    is_(d.hear("w1/1.0", 2)[1], "0 2", "and answers")
    ok(d.quiet("w1/0.0", 1), "it is not open yet")
    is_(os.stat(d.path("w1/0.0", "page")).st_ino, inode, "the page is the same")
    b.kill()
    b.home.conn.close()
    b.start()
    d.set("w1/0.0", "active")
    is_(d.hear("w1/0.0", 2)[1], "0", "twice killed: open")
    d.say("w1/0.0", f"alloc {65 * MIB}")
    is_(d.hear("w1/0.0", 3)[2], "2", "with its limit")
    b.kill()
    b.home.conn.close()
    hello = b.start()
    is_({x["key"]: x["gate"] for x in hello["leases"]},
        {"w1/0.0": "active", "w1/1.0": "staged", "w1/2.0": "staged"},
        "what was opened is open for the next one")
    d.end("w1/0.0")
    d.end("w1/1.0")
    d.end("w1/2.0")
    b.finish()


def closed(s):
    """It hung up, without a word."""
    try:
        return s.recv(1) == b""
    except ConnectionResetError:
        return True


@test
def garbage(b):
    """Who says nonsense, too much or nothing does not keep others out."""
    d = Driver(b)
    b.start()
    d.order("w1/0.0", {"state": "staged"})
    b.home.wait("started", "w1/0.0")
    lease = f"w1/0.0#1@{b.epoch}"
    for what in (b"x" * 4096, b"weir-gate 2\n", b"weir-gate 9 a 1\n",
                 b"wants\n", b"\0\n", b"weir-gate 2 w9/9.9#1@1 7\n",
                 f"weir-gate 99 {lease} 1\n".encode(),
                 f"weir-gate 2 {lease} -1\n".encode()):
        s = d.dial("w1/0.0")
        with contextlib.suppress(BrokenPipeError):
            s.sendall(what)
        ok(closed(s), f"{what[:24]!r}: hung up")
    is_(read(b.state + "/runner.log").count("makes no sense"), 1, "one line")
    s = d.dial("w1/0.0")
    s.sendall(f"sing\nweir-gate 3 {lease} 1 more\n".encode())
    is_(s.recv(4096).decode(),
        f"page {d.path('w1/0.0', 'page')}\nlost wait\nready\n",
        "a newer one is understood")
    b.home.flush()
    s = d.dial("w1/0.0")
    with open(d.path("w1/0.0", "page"), "r+b", buffering=0) as page:
        for k in range(300):
            page.seek(LAUNCHES)
            page.write(struct.pack("<Q", k + 1))
            s.sendall(f"wants {lease} 1\n".encode())
            time.sleep(0.002)
    heard = [m for m in b.home.flush() if m["t"] == "activity"]
    ok(0 < len(heard) < 30, f"asked 300 times, home hears {len(heard)}")
    s.close()
    old = d.dial("w1/0.0")
    old.sendall(f"weir-gate 1 {lease} 1\n".encode())
    silent = [d.dial("w1/0.0") for _ in range(GUESTS + 20)]
    began = time.monotonic()
    d.say("w1/0.0", "init", "count")
    is_(d.hear("w1/0.0", 2), ["0", "0 2"], "a gate gets in")
    ok(time.monotonic() - began < 4 * QUIET, "when the silent had their time")
    is_(b.run("w1/1.0")["status"], 0, "and the runner works")
    ok(closed(silent[0]), "who says nothing is hung up on")
    for s in silent:
        s.close()
    d.set("w1/0.0", "active")
    is_(old.recv(16), b"open\n", "version 1 is told that it is open")
    d.end("w1/0.0")
    b.finish()


def as_user(uid, path, line):
    """What another user is answered there."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        got = b"none"
        try:
            os.setgroups([])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            s = socket.socket(socket.AF_UNIX)
            s.connect(path)
            s.sendall(line.encode())
            got = s.recv(4096)[:4] or b"closed"
        except ConnectionError:
            got = b"closed"
        except PermissionError:
            got = b"denied"
        finally:
            os.write(w, got)
            os._exit(0)
    os.waitpid(pid, 0)
    got = os.read(r, 64).decode()
    os.close(r)
    os.close(w)
    return got


@test
def others(b):
    """A task of another user: it alone gets at its page and socket."""
    if os.geteuid() != 0:
        base.TAP.skip("as another user", "not root")
        return
    d = Driver(b, public=True)
    b.start()
    d.order("w1/0.0", {"state": "staged"},
            user={"name": "nobody", "uid": NOBODY, "gid": NOBODY})
    d.say("w1/0.0", "init", "use")
    d.activity("w1/0.0", wanting=1)
    for what, kind in (("page", stat.S_ISREG), ("sock", stat.S_ISSOCK)):
        st = os.stat(d.path("w1/0.0", what))
        is_((kind(st.st_mode), st.st_mode & 0o777, st.st_uid),
            (True, 0o600, NOBODY), f"{what}: of that user alone")
    hello = f"weir-gate 2 w1/0.0#1@{b.epoch} 1\n"
    path = d.path("w1/0.0", "sock")
    is_(as_user(NOBODY, path, hello), "page", "it is answered")
    is_(as_user(NOBODY - 1, path, hello), "denied", "another is not")
    os.chmod(d.path("w1/0.0", "sock"), 0o666)
    is_(as_user(NOBODY - 1, path, hello), "closed", "nor when it left the door open")
    d.set("w1/0.0", "active")
    is_(d.hear("w1/0.0", 2)[1], "0", "and it has its device")
    d.end("w1/0.0")
    os.chmod(d.bin, 0o700)
    m = b.run("w1/1.0", run="true", devices=[0], gate={},
              user={"name": "nobody", "uid": NOBODY, "gid": NOBODY})
    is_((m["cause"], m["status"]), ("refused", 126),
        "a gate that it cannot load is not left out in silence")
    ok("libweir-gate" in b.text("w1/1.0"), "the log names it")
    b.finish()


@test
def spoilt(b):
    """A task that cuts its page short harms itself alone."""
    d = Driver(b, "--gate-simulated")
    b.start()
    d.order("w1/0.0", {"state": "staged"}, simulated=True)
    b.home.wait("started", "w1/0.0")
    b.go("w1/1.0", run=f": > {d.path('w1/1.0', 'page')}; sleep 2",
         devices=[0], gate={"state": "staged"})
    wait_for(lambda: "spoilt" in read(b.state + "/runner.log"), "a line")
    d.set("w1/1.0", "suspended")
    d.set("w1/1.0", "active")
    b.kill()
    b.home.conn.close()
    b.start()
    d.set("w1/0.0", "active")
    d.say("w1/0.0", "init", "use")
    is_(d.hear("w1/0.0", 2), ["0", "0"], "its neighbour goes on")
    is_(b.ended("w1/1.0")["status"], 0, "and so does it")
    d.end("w1/0.0")
    b.finish()


@test
def plain(b):
    """A program that never touches the driver, behind a closed gate."""
    d = Driver(b)
    b.start()
    m = b.run("w1/0.0", run="echo done", devices=[0],
              gate={"state": "staged"}, env=d.env())
    is_((m["status"], b.text("w1/0.0")), (0, "done\n"), "just runs")
    b.args = ("--gate", b.dir + "/none", "--gate-dir", d.gate_dir)
    b.kill()
    b.home.conn.close()
    b.start()
    m = b.run("w1/1.0", run="true", devices=[0], gate={})
    is_((m["cause"], m["status"]), ("refused", 126), "no library: refused")
    b.finish()


if __name__ == "__main__":
    sys.exit(base.main())

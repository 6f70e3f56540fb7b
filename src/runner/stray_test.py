#!/usr/bin/env python3
"""Processes that use devices otherwise than a lease says, as a real runner finds
them in what a scripted weir-gpud tells (TAP).

Usage: stray_test.py WEIR_RUNNER LIBWEIR_GATE STANDIN_FOLDER [NAME...]
"""
import contextlib
import json
import os
import queue
import socket
import stat
import struct
import subprocess
import sys
import threading

import behind_test as behind
import runner_test as base
from runner_test import is_, ok, read, wait_for

MIB = behind.MIB
UUID = [behind.UUID.format(k) for k in range(2)]
NOT_THERE = (1 << 22) + 1              # no pid
base.TESTS.clear()
base.ONLY = sys.argv[4:]
test = base.test


class Told:
    """A weir-gpud that answers for a sample when it is told to."""

    def __init__(self, path):
        self.asks = queue.Queue()      # connections that wait for one
        self.moves = queue.Queue()     # and for a word on a task
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        while True:
            threading.Thread(target=self.serve, daemon=True,
                             args=(self.sock.accept()[0],)).start()

    def serve(self, c):
        f = c.makefile("rb")
        with contextlib.suppress(OSError):
            while head := f.read(4):
                q = json.loads(f.read(struct.unpack("<I", head)[0]))
                if q["t"] == "sample":
                    self.asks.put(c)
                elif q["t"] in ("suspend", "resume"):
                    self.moves.put((c, q))

    def moved(self, kind, look=None):
        """It has done what it is asked for, after a look."""
        c, q = self.moves.get(timeout=base.PATIENCE)
        if look:
            look()
        body = json.dumps({"t": kind, "task": q["task"], "done": True,
                           "suspended": kind == "suspend"}).encode()
        is_(q["t"], kind, f"weir-gpud is asked to {kind}")
        c.sendall(struct.pack("<I", len(body)) + body)

    def answer(self, devices):
        body = json.dumps({"t": "sample", "state": "ready",
                           "devices": devices}).encode()
        while True:
            c = self.asks.get(timeout=base.PATIENCE)
            with contextlib.suppress(OSError):     # of a runner that is gone
                c.sendall(struct.pack("<I", len(body)) + body)
                return


class Node(behind.Driver):
    def __init__(self, b):
        super().__init__(b)
        self.gpud = Told(b.dir + "/gpud")
        b.args += ("--gpud", b.dir + "/gpud")

    def look(self, *processes):
        """What home hears of (device, pid, MiB)."""
        self.gpud.answer([
            {"uuid": uuid, "minor": i, "processes": [
                {"pid": pid, "memory_bytes": mib * MIB}
                for k, pid, mib in processes if k == i]}
            for i, uuid in enumerate(UUID)])
        m = self.b.home.wait("telemetry")
        is_([d["uuid"] for d in m["sample"]], UUID, "a look")
        return m["strays"]

    def kinds(self, *processes):
        return sorted((s["kind"], UUID.index(s["uuid"]), s["pid"],
                       s["bytes"] // MIB, s.get("key"))
                      for s in self.look(*processes))

    def sleeper(self, key, **task):
        """A task, its pid."""
        self.b.go(key, argv=["sleep", "1000"], **task)
        wait_for(lambda: self.b.started(key), key)
        return self.b.started(key)["task"]

    def behind(self, key, **gate):
        return self.sleeper(key, devices=[0],
                            gate={"devices": [UUID[0]], **gate})

    def state(self, key, state):
        self.set(key, state)
        self.b.home.flush()

    def finish(self, *keys):
        for key in keys:
            self.b.stop(key, force=True)
            self.b.ended(key)
        self.b.finish()


@test
def kinds(b):
    """Each kind, once two looks show it; and what is none."""
    n = Node(b)
    b.start()
    plain = n.sleeper("w1/0.0")
    good = n.behind("w1/1.0")
    staged = n.behind("w1/2.0", state="staged")
    off = n.behind("w1/3.0", state="suspended")
    with subprocess.Popen(["sleep", "1000"]) as other:
        looks = [(0, plain, 3), (0, good, 900), (1, good, 4), (0, staged, 5),
                 (0, off, 6), (0, other.pid, 7), (0, NOT_THERE, 8),
                 (1, staged, 0)]
        is_(n.kinds(*looks), [], "one look is none")
        want = [("device", 0, plain, 3, "w1/0.0"),
                ("device", 1, good, 4, "w1/1.0"),
                ("staged", 0, staged, 5, "w1/2.0"),
                ("stranger", 0, other.pid, 7, None),
                ("suspended", 0, off, 6, "w1/3.0")]
        is_(n.kinds(*looks), want, "two are")
        n.state("w1/2.0", "active")
        n.state("w1/3.0", "active")
        n.state("w1/3.0", "suspended")
        is_([k[0] for k in n.kinds(*looks)], ["device", "device", "stranger"],
            "one has its device now; one had it meanwhile")
        got = n.look((0, off, 6), (0, other.pid, 9))
        is_(sorted((s["kind"], s["comm"], s.get("gen")) for s in got),
            [("stranger", "sleep", None), ("suspended", "sleep", 1)],
            "and has not any more; what is gone is gone")
        other.kill()
    is_(n.kinds(), [], "nobody is left")
    n.finish("w1/0.0", "w1/1.0", "w1/2.0", "w1/3.0")


@test
def limit(b):
    """The limit is for all processes of a lease, the context for each."""
    n = Node(b)
    b.start()
    n.b.go("w1/0.0", run="sleep 1000 & echo $! > pid; exec sleep 1000",
           dir=b.dir, devices=[0], gate={"devices": [UUID[0]],
                                         "memory": 100 * MIB,
                                         "context": 10 * MIB})
    wait_for(lambda: os.path.exists(b.dir + "/pid") and
             read(b.dir + "/pid").endswith("\n"), "a child")
    child, main = int(read(b.dir + "/pid")), b.started("w1/0.0")["task"]
    free = n.behind("w1/1.0")
    within = [(0, main, 60), (0, child, 60), (0, free, 1000)]
    beyond = [(0, main, 60), (0, child, 61), (0, free, 1000)]
    is_(n.kinds(*beyond), [], "one look is none")
    is_(n.kinds(*within), [], "within its limit and two contexts")
    is_(n.kinds(*beyond), [], "it is looked at twice running")
    got = n.look(*beyond)
    is_([(s["kind"], s["pid"], s["bytes"], s["limit"], s["processes"],
          s["key"]) for s in got],
        [("memory", child, 121 * MIB, 100 * MIB, 2, "w1/0.0")], "beyond")
    b.kill()
    b.start()
    ok(b.home.hello["leases"], "killed, and another runner")
    is_(n.kinds(*beyond), [], "knows of no look")
    is_([s["kind"] for s in n.look(*beyond)], ["memory"], "and looks")
    n.finish("w1/0.0", "w1/1.0")


class Nodes:
    """Device nodes of numbers that no driver has, and tasks that look which of
    them they may open: those of two devices and of what they share.
    """
    GPU, SHARED = 240, 241

    def __init__(self, b):
        self.b = b
        with open(b.dir + "/devices", "w", encoding="ascii") as f:
            f.write(f"Character devices:\n{self.GPU} nvidia\n"
                    f"{self.SHARED} nvidia-uvm\n")
        b.args += ("--devices-file", b.dir + "/devices")
        for name, major, minor in (("0", self.GPU, 0), ("1", self.GPU, 1),
                                   ("s", self.SHARED, 0)):
            os.mknod(f"{b.dir}/node{name}", 0o600 | stat.S_IFCHR,
                     os.makedev(major, minor))

    def task(self, key, **task):
        d = self.b.dir
        self.b.go(key, run=f"while :; do for n in 0 1 s; do "
                  f"if (: < {d}/node$n) 2>&1 | grep -q permitted; then "
                  f"printf n; else printf y; fi; done; echo; sleep 0.02; "
                  f"done > {d}/{key.replace('/', '.')}.sees", **task)

    def sees(self, key, want, what):
        """Sooner or later, and from a look on that began after now."""
        path = f"{self.b.dir}/{key.replace('/', '.')}.sees"
        wait_for(lambda: (read(path) or "").count("\n") > 0, path)
        begun = read(path).count("\n")
        wait_for(lambda: read(path).count("\n") > begun + 1, "another look")
        is_(read(path).split("\n")[begun + 1], want, what)


def closes():
    """Can nodes be closed here?"""
    return os.geteuid() == 0 and base.cgroup2()


@test
def nodes(b):
    """Device nodes are closed to tasks that have no lease on them."""
    if not closes():
        ok(True, "nodes # SKIP no control group of version 2, or not root")
        return
    n, d = Node(b), Nodes(b)
    b.start()
    one, two = ({"devices": [u]} for u in UUID)
    d.task("w1/0.0", devices=[1], gate=two, nodes="leased")
    d.sees("w1/0.0", "yyy", "no numbers yet: all are open")
    n.look()
    d.sees("w1/0.0", "nyy", "those of its device")
    d.task("w1/1.0", nodes="leased")
    d.sees("w1/1.0", "nnn", "without a device, none")
    d.task("w1/2.0")
    d.sees("w1/2.0", "yyy", "as long as the order says nothing, all")
    d.task("w1/3.0", devices=[0], gate={"state": "staged", **one},
           nodes="active")
    d.sees("w1/3.0", "nnn", "at its gate, none")
    n.state("w1/3.0", "active")
    d.sees("w1/3.0", "yny", "active: its own")
    n.b.home.send(t="suspend", **b.lease("w1/3.0"))
    n.gpud.moved("suspend")
    is_(b.home.wait("moved", "w1/3.0")["ok"], True, "suspended")
    d.sees("w1/3.0", "nnn", "none")
    b.kill()
    b.start()
    d.sees("w1/3.0", "nnn", "killed: it stays so")
    d.sees("w1/0.0", "nyy", "of the others, too")
    n.look()
    n.b.home.send(t="resume", devices=UUID[1], **b.lease("w1/3.0"))
    n.gpud.moved("resume", lambda: d.sees("w1/3.0", "yyy", "before it is "
                                          "brought back they are open"))
    is_(b.home.wait("moved", "w1/3.0")["ok"], True, "resumed")
    d.sees("w1/3.0", "nyy", "it is on the other device")
    ok("not closed" not in read(b.state + "/runner.log"), "each time")
    n.finish(*(f"w1/{i}.0" for i in range(4)))


if __name__ == "__main__":
    sys.exit(base.main())

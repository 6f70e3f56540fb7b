#!/usr/bin/env python3
"""Tasks that a real runner takes off their devices and brings back, with a real
weir-gpud on the stand-in drivers and a scripted home (TAP).

Usage: move_test.py WEIR_RUNNER LIBWEIR_GATE STANDIN_FOLDER WEIR_GPUD [NAME...]
"""
import atexit
import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import behind_test as behind
import runner_test as base
from runner_test import is_, ok, read, wait_for

GPUD = os.path.abspath(sys.argv[4])
MIB = behind.MIB
UUID = [behind.UUID.format(k) for k in range(2)]
RUNNING, LOCKED, TAKEN = 0, 1, 2       # of the stand-in
ACTIVE, STAGED, SUSPENDED = 0, 1, 2    # of the page
KEY = "w1/0.0"
base.TESTS.clear()
base.ONLY = sys.argv[5:]
test = base.test


class Told:
    """A weir-gpud that says what it is told to, and keeps what it is asked;
    None: it says nothing.
    """

    def __init__(self, path, *answers):
        self.answers, self.asked, self.open = list(answers), [], []
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.bind(path)
        self.sock.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            c = self.sock.accept()[0]
            self.open.append(c)
            f = c.makefile("rb")
            q = json.loads(f.read(struct.unpack("<I", f.read(4))[0]))
            if q["t"] not in ("suspend", "resume"):
                continue
            self.asked.append(q)
            answer = self.answers.pop(0)
            if answer is not None:
                body = json.dumps({"t": q["t"], "task": q["task"],
                                   **answer}).encode()
                c.sendall(struct.pack("<I", len(body)) + body)


class Node(behind.Driver):
    """A driver, a weir-gpud, and a task that has 64 MiB on its device."""

    def __init__(self, b, gpud=True):
        super().__init__(b)
        self.daemon = None
        self.sock = b.dir + "/gpud"
        b.args += ("--gpud", self.sock)
        with open(self.dir + "/driver", "w", encoding="ascii") as f:
            f.write("version=580.159.04\ncuda=13000\n")
        self.fault()
        if gpud:
            self.start()

    def start(self, *args):
        with open(self.b.dir + "/gpud.log", "a", encoding="utf-8") as log:
            # Not a "with": it lives until end_gpud().
            self.daemon = subprocess.Popen(  # pylint: disable=R1732
                [GPUD, "--socket", self.sock, "--every", "100ms", "--state",
                 self.b.dir + "/gpud.d", *args], stderr=log,
                env=dict(os.environ, **self.env()))
        atexit.register(self.daemon.kill)      # when a test gives up
        wait_for(self.answers, "weir-gpud")

    def answers(self):
        with socket.socket(socket.AF_UNIX) as s:
            return s.connect_ex(self.sock) == 0

    def crash(self):
        self.daemon.kill()
        self.daemon.wait(base.PATIENCE)

    def finish(self):
        if self.daemon.poll() is None:
            self.daemon.terminate()
            self.daemon.wait(base.PATIENCE)
        is_(self.daemon.returncode, 0, "weir-gpud ends well")
        self.b.finish()

    def fault(self, text=""):
        path = self.dir + "/faults"
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    @contextlib.contextmanager
    def held(self):
        """Meanwhile no checkpoint and no restore ends; afterwards the runner
        has read all that was said.
        """
        with open(self.dir + "/hold", "w", encoding="ascii"):
            pass
        yield
        if self.b.proc.poll() is None:
            self.suspend("w1/9.0")
            self.b.ended("w1/9.0")     # who is not here is lost
        os.unlink(self.dir + "/hold")

    def task(self, key=KEY, *lines, **gate):
        self.order(key, {"devices": [UUID[0]], **gate})
        self.say(key, "init", "use", f"alloc {64 * MIB}", *lines)
        self.hear(key, 3)
        return self.pid(key)

    def pid(self, key=KEY):
        return self.b.started(key)["task"]

    def state(self, key=KEY):
        data = read(f"{self.dir}/proc/{self.pid(key)}", "rb")
        return struct.unpack("<III", data[:12])[2]

    def suspend(self, key=KEY, **m):
        self.b.home.send(t="suspend", **self.b.lease(key), **m)

    def resume(self, key=KEY, **m):
        self.b.home.send(t="resume", **self.b.lease(key), **m)

    def moved(self, key=KEY):
        m = self.b.home.wait("moved", key)
        return m["ok"], m["gate"], m.get("reason")

    def used(self, k=0):
        """Bytes on a device, as weir-gpud tells."""
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.sock)
            body = b'{"t": "sample"}'
            s.sendall(struct.pack("<I", len(body)) + body)
            f = s.makefile("rb")
            n = struct.unpack("<I", f.read(4))[0]
            return json.loads(f.read(n))["devices"][k]["memory_used_bytes"]

    def works(self, n, what):
        """It says line n after it has used its memory."""
        self.say(KEY, "set")
        is_((self.hear(KEY, n)[n - 1], self.state()), ("0", RUNNING), what)

    def records(self):
        return os.listdir(self.b.dir + "/gpud.d")


def stopped(pid):
    return read(f"/proc/{pid}/stat").rsplit(") ", 1)[1][0] == "T"


@test
def there_and_back(b):
    """Off the device, back, and both again."""
    n = Node(b)
    b.start()
    pid = n.task()
    n.suspend(grace_ms=5000)
    m = b.home.wait("moved", KEY)
    is_((m["ok"], m["gate"], m["used"]), (True, "suspended", 64 * MIB),
        f"suspended: {m['ms']} ms")
    is_((n.state(), stopped(pid)), (TAKEN, True), "it is off its device")
    wait_for(lambda: n.used() == 0, "an empty device")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "said again, it is so already")
    n.say(KEY, "set")
    n.set(KEY, "suspended")
    ok(n.quiet(KEY, 3), "it stands still")
    n.resume()
    is_(n.moved(), (True, "active", None), "resumed")
    is_(n.hear(KEY, 4)[3], "0", "it goes on")
    n.resume()
    is_(n.moved(), (True, "active", None), "said again, it is so already")
    n.suspend(awake=True)
    is_(n.moved(), (True, "suspended", None), "suspended, its threads awake")
    ok(not stopped(pid), "they run")
    n.say(KEY, "set")
    n.activity(KEY, wanting=1, gate="suspended")
    ok(n.quiet(KEY, 4), "its next call waits, and home hears of it")
    n.set(KEY, "active")
    is_(n.moved(), (True, "active", None), "opened: it is brought back first")
    is_(n.hear(KEY, 5)[4], "0", "it goes on")
    is_(n.end(KEY)["status"], 0, "it ends")
    is_(n.records(), [], "nothing is left")
    n.finish()


@test
def refused(b):
    """What cannot be moved is where it was."""
    n = Node(b)
    b.start()
    n.task()
    n.fault("checkpoint=999\n")
    n.suspend()
    is_(n.moved(), (False, "active", "driver"), "the driver fails")
    n.works(4, "it runs on")
    n.fault("lock=600\n")
    n.suspend(grace_ms=50)
    is_(n.moved(), (False, "active", "busy"), "its kernels do not end")
    n.fault()
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "suspended")
    n.fault("restore=2\n")
    n.resume()
    is_(n.moved(), (False, "suspended", "memory"), "it does not come back")
    n.resume(devices=f"{UUID[0]},{UUID[1]}")
    is_(n.moved(), (False, "suspended", "state"), "not as many as it has")
    is_(n.state(), TAKEN, "it stays suspended")
    n.fault()
    n.resume(devices=UUID[1])
    is_(n.moved(), (True, "active", None), "on another device")
    n.works(5, "it works there")
    wait_for(lambda: n.used(1) == 64 * MIB, "its bytes there")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "off that one")
    b.kill()
    b.home.conn.close()
    b.start()
    n.resume(devices=UUID[0])
    is_(n.moved(), (True, "active", None), "and to the first one")
    wait_for(lambda: n.used(0) == 64 * MIB, "its bytes there")
    n.works(6, "it works there")
    b.home.send(t="suspend", **b.lease("w1/9.0"))
    is_(b.ended("w1/9.0")["cause"], "lost", "who is not here is lost")
    n.order("w1/1.0", {"state": "staged"})
    b.home.wait("started", "w1/1.0")
    n.suspend("w1/1.0")
    is_(n.moved("w1/1.0"), (False, "staged", "state"), "who has had none yet")
    n.end("w1/1.0")
    n.end(KEY)
    n.finish()


@test
def empty(b):
    """Who has nothing on a device is kept from it by its page alone."""
    n = Node(b)
    b.start()
    n.order(KEY, {"devices": [UUID[0]]})
    n.say(KEY, "init")
    n.hear(KEY, 1)
    n.suspend()
    m = b.home.wait("moved", KEY)
    is_((m["ok"], m["gate"], m.get("used")), (True, "suspended", None),
        "no context")
    n.say(KEY, "use")
    n.activity(KEY, wanting=1)
    ok(n.quiet(KEY, 1), "nor does it get one")
    n.resume()
    is_(n.moved(), (True, "active", None), "resumed")
    is_(n.hear(KEY, 2)[1], "0", "now it does")
    n.end(KEY)
    n.finish()


@test
def changed(b):
    """Home changes its mind in the midst of it."""
    n = Node(b)
    b.start()
    n.task()
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        n.suspend()
        n.resume()
    is_(n.moved(), (True, "active", None), "the last word counts")
    n.works(4, "it runs")
    ok(not [m for m in b.home.flush() if m["t"] == "moved"],
       "and alone is answered")
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        n.resume()
        n.suspend()
    is_(n.moved(), (True, "suspended", None), "back and forth")
    n.resume()
    n.moved()
    n.end(KEY)
    n.finish()


@test
def other_devices(b):
    """Home changes its mind about where it is to be."""
    n = Node(b)
    b.start()
    n.task()
    n.suspend()
    n.moved()
    with n.held():
        n.resume(devices=UUID[0])
        wait_for(lambda: not stopped(n.pid()), "a resume")
        n.resume(devices=UUID[1])
    is_(n.moved(), (True, "active", None), "the last word counts")
    wait_for(lambda: n.used(1) == 64 * MIB, "its bytes there")
    is_(n.used(0), 0, "and nowhere else")
    ok(not [m for m in b.home.flush() if m["t"] == "moved"],
       "and alone is answered")
    n.fault("checkpoint=999\n")
    n.resume(devices=UUID[0])
    n.say(KEY, "set")
    is_(n.hear(KEY, 4)[3], "0", "it cannot leave: it runs where it is")
    ok(not [m for m in b.home.flush() if m["t"] == "moved"],
       "and nobody hears that it is back")
    n.fault()
    is_(n.moved(), (True, "active", None), "it moves when it can")
    wait_for(lambda: n.used(0) == 64 * MIB, "its bytes there")
    n.works(5, "it runs")
    with n.held():
        n.resume(devices=UUID[1])
        wait_for(lambda: n.state() != RUNNING, "it to leave")
        n.resume(devices=UUID[0])
    is_(n.moved(), (True, "active", None), "back again")
    wait_for(lambda: n.used(0) == 64 * MIB, "its bytes there")
    is_(n.used(1), 0, "and nowhere else")
    n.works(6, "it runs")
    n.end(KEY)
    n.finish()


@test
def words(b):
    """What an answer says of where the task is, and what it does not."""
    n = Node(b, gpud=False)
    t = Told(n.sock,
             {"done": False, "reason": "threads", "suspended": True},
             {"done": False, "reason": "state", "suspended": True},
             {"done": False, "reason": "state"},
             {"done": False, "reason": "memory", "suspended": True},
             {"done": False, "reason": "state", "suspended": False},
             {"done": True, "suspended": True},
             {"done": True, "suspended": False})
    b.start()
    n.order(KEY, {"devices": [UUID[0]]})
    b.home.wait("started", KEY)
    n.suspend()
    is_(n.moved(), (False, "suspended", "threads"),
        "one that failed and is in the books: its device is not free")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "suspended before: it is")
    n.resume()
    is_(n.moved(), (False, "suspended", "state"),
        "a resume by who does not know where it is: not back")
    keeper = b.started(KEY)["keeper"]
    is_([q["pid"] for q in t.asked], [keeper] * 3, "each names the keeper")
    n.resume()
    is_(n.moved(), (False, "suspended", "memory"), "a resume that failed")
    n.resume()
    is_(n.moved(), (True, "active", None), "it is back already")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "suspended")
    n.resume()
    is_(n.moved(), (True, "active", None), "resumed")
    is_(t.answers, [], "each was asked for")
    n.end(KEY)
    b.finish()


@test
def hung(b):
    """A call into the driver does not return."""
    n = Node(b, gpud=False)
    n.start("--hung", "300ms")
    b.start()
    n.task()
    n.fault("checkpoint_ms=3000\n")
    n.suspend(grace_ms=100)
    is_(n.moved(), (False, "suspended", "driver"), "nobody knows where it is")
    n.resume()
    is_(n.moved(), (False, "suspended", "driver"), "it cannot be resumed yet")
    n.fault()

    def back():
        n.resume()
        return n.moved() == (True, "active", None)
    ok(wait_for(back, "a resume"), "when the call has returned it can")
    n.works(4, "it runs")
    n.end(KEY)
    n.finish()


def kill_runner(b, between=lambda: None):
    b.kill()
    b.home.conn.close()
    b.home.seen = []
    between()
    return {x["key"]: x.get("gate") for x in b.start()["leases"]}


def write_state(n, state):
    """As a task that knows better."""
    with open(n.path(KEY, "page"), "r+b", buffering=0) as p:
        p.seek(8)
        p.write(struct.pack("<I", state))


def read_state(n):
    return struct.unpack("<I", read(n.path(KEY, "page"), "rb")[8:12])[0]


@test
def own_word(b):
    """What the task writes into its page says nothing of where it is."""
    n = Node(b)
    b.start()
    n.task()
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        write_state(n, ACTIVE)
    is_(n.moved(), (True, "suspended", None), "it says active: suspended")
    is_(kill_runner(b, lambda: write_state(n, ACTIVE)), {KEY: "suspended"},
        "a new runner is not told otherwise")
    is_(read_state(n), SUSPENDED, "and shuts its page again")
    is_(kill_runner(b, lambda: os.truncate(n.path(KEY, "page"), 0)),
        {KEY: "suspended"}, "nor by one that is spoilt")
    is_(read_state(n), SUSPENDED, "the new page is shut")
    n.resume()
    is_(n.moved(), (True, "active", None), "resumed")
    write_state(n, STAGED)
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "it says staged: suspended")
    n.resume()
    is_(n.moved(), (True, "active", None), "resumed")
    b.stop(KEY, force=True)
    b.ended(KEY)
    n.finish()


@test
def no_post(b):
    """A runner that cannot take up its post knows what is off its devices."""
    n = Node(b)
    b.start()
    n.task()
    n.suspend()
    n.moved()
    sock = n.path(KEY, "sock")

    def block():
        os.unlink(sock)
        os.mkdir(sock)
    is_(kill_runner(b, block), {KEY: "suspended"}, "hello says it")
    n.resume()
    is_(n.moved(), (False, "suspended", "state"), "so does the answer")
    ok(stopped(n.pid()), "for so it is")
    is_(kill_runner(b, lambda: os.rmdir(sock)), {KEY: "suspended"},
        "one that can")
    n.resume()
    is_(n.moved(), (True, "active", None), "brings it back")
    n.works(4, "it runs")
    n.end(KEY)
    n.finish()


@test
def full_disk(b):
    """No room for its post after a restart; later there is."""
    n = Node(b)
    os.mkdir(n.gate_dir)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k,mode=711", "tmpfs"]
    if subprocess.run([*mount, n.gate_dir], check=False,
                      capture_output=True).returncode:
        ok(True, "a small disk # SKIP nothing can be mounted here")
        n.finish()
        return
    away = ["umount", "-l", n.gate_dir]
    atexit.register(subprocess.run, away, check=False, capture_output=True)
    b.start()
    n.task()
    n.suspend()
    n.moved()

    def fill():
        os.unlink(n.path(KEY, "page"))
        with contextlib.suppress(OSError):
            with open(n.gate_dir + "/full", "wb", buffering=0) as f:
                while f.write(bytes(4096)):
                    pass
    is_(kill_runner(b, fill), {KEY: "suspended"}, "hello says suspended")
    n.resume()
    is_(n.moved(), (False, "suspended", "state"), "it cannot be resumed yet")
    os.unlink(n.gate_dir + "/full")

    def back():
        n.resume()
        return n.moved() == (True, "active", None)
    ok(wait_for(back, "a resume"), "with room again it can")
    is_(read_state(n), ACTIVE, "its new page is open")
    b.stop(KEY, force=True)
    b.ended(KEY)
    subprocess.run(away, check=True)
    n.finish()


@test
def runner_killed(b):
    """At each step, and what home wants is said again."""
    n = Node(b)
    b.start()
    n.task()
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        is_(kill_runner(b), {KEY: "suspended"}, "killed in a suspend")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "which comes to its end")
    is_(n.state(), TAKEN, "once")
    is_(kill_runner(b), {KEY: "suspended"}, "killed while it is suspended")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "it is so")
    is_(kill_runner(b), {KEY: "suspended"}, "and again")
    with n.held():
        n.set(KEY, "active")
        wait_for(lambda: not stopped(n.pid()), "a resume")
        is_(kill_runner(b), {KEY: "suspended"}, "killed in a resume")
    n.resume()
    is_(n.moved(), (True, "active", None), "which comes to its end")
    n.works(4, "it runs")
    n.fault("checkpoint=999\n")
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        kill_runner(b)
    n.resume()
    is_(n.moved(), (True, "active", None), "killed in one that fails")
    n.works(5, "it runs")
    is_(kill_runner(b), {KEY: "active"}, "as the next one finds")
    n.end(KEY)
    n.finish()


@test
def gpud_killed(b):
    """weir-gpud is not there, or goes away in the midst of it."""
    n = Node(b, gpud=False)
    b.start()
    n.task()
    n.suspend()
    is_(n.moved(), (False, "active", "node"), "nobody to ask")
    n.works(4, "it runs on")
    n.start()
    with n.held():
        n.suspend()
        wait_for(lambda: n.state() == LOCKED, "a lock")
        n.crash()
        ok(n.quiet(KEY, 4), "killed in a suspend: nothing is said")
    n.start()
    is_(n.moved(), (True, "suspended", None), "it is asked again")
    n.crash()
    n.resume()
    is_(n.moved(), (False, "suspended", "node"), "nobody to ask")
    ok(stopped(n.pid()), "it stays suspended")
    n.start()
    with n.held():
        n.resume()
        wait_for(lambda: not stopped(n.pid()), "a resume")
        n.crash()
    n.start()
    is_(n.moved(), (True, "active", None), "killed in a resume")
    n.works(5, "it runs")
    n.end(KEY)
    n.finish()


@test
def gpud_stands(b):
    """weir-gpud is there, and says nothing; and one that takes its time."""
    n = Node(b)
    b.start()
    n.task()
    n.fault("checkpoint_ms=15000\n")
    n.suspend()
    is_(n.moved(), (True, "suspended", None), "a long one is waited for")
    n.fault()
    n.daemon.send_signal(signal.SIGSTOP)
    n.resume()
    wait_for(lambda: "it does not answer" in read(b.state + "/runner.log"),
             "a word of it")
    n.crash()
    n.start()
    is_(n.moved(), (True, "active", None), "another one is asked")
    n.works(4, "it runs")
    n.end(KEY)
    n.finish()


@test
def stopped_while(b):
    """A suspended task can be ended."""
    n = Node(b)
    b.start()
    for k, how in enumerate(({"force": True}, {"grace_ms": 60000})):
        key = f"w1/{k}.0"
        n.task(key)
        n.suspend(key)
        is_(n.moved(key), (True, "suspended", None), "suspended")
        began = time.monotonic()
        b.stop(key, **how)
        is_(b.ended(key)["status"], -9 if k == 0 else -15, f"ended: {how}")
        ok(time.monotonic() - began < 30, "at once")
    n.task("w1/2.0")
    n.suspend("w1/2.0")
    n.moved("w1/2.0")
    os.kill(n.pid("w1/2.0"), signal.SIGSTOP)
    n.resume("w1/2.0")
    is_(n.moved("w1/2.0"), (True, "active", None), "stopped twice: resumed")
    with n.held():
        n.suspend("w1/2.0")
        wait_for(lambda: n.state("w1/2.0") == LOCKED, "a lock")
        b.stop("w1/2.0", grace_ms=60000)
    is_(b.ended("w1/2.0")["status"], -15, "stopped in the midst of it")
    n.finish()


if __name__ == "__main__":
    sys.exit(base.main())

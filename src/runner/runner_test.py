#!/usr/bin/env python3
"""The runner and its keepers against a scripted home (TAP).

Usage: runner_test.py WEIR_RUNNER [NAME...]
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
import traceback

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "tests"))
from tap import Tap  # noqa: E402

RUNNER = sys.argv[1]
ONLY = sys.argv[2:]
PATIENCE = 60           # seconds; reached only when something is broken
TOKEN = "t" * 32
TAP = Tap()
is_ = TAP.equal


class Home:
    """The control plane's side of the wire, as a script."""

    def __init__(self, path):
        self.path = path
        self.listener = None
        self.conn = None
        self.data = b""
        self.hello = None
        self.seen = []
        self.listen()

    def listen(self):
        self.listener = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(PATIENCE)

    def accept(self, welcome=True):
        self.conn, _ = self.listener.accept()
        self.conn.settimeout(PATIENCE)
        self.data = b""
        self.hello = self.read()
        assert self.hello["t"] == "hello", self.hello
        if welcome:
            self.send(t="welcome", v=1, epoch=1)
        return self.hello

    def away(self):
        """Hang up and do not listen."""
        if self.conn:
            self.conn.close()
        self.conn = None
        self.listener.close()
        os.unlink(self.path)

    def back(self, welcome=True):
        self.listen()
        return self.accept(welcome)

    def close(self):
        with contextlib.suppress(OSError):
            self.away()

    def send(self, **m):
        body = json.dumps(m).encode()
        self.conn.sendall(struct.pack("<I", len(body)) + body)

    def read(self, timeout=PATIENCE):
        """The next message; None when nothing came in time."""
        self.conn.settimeout(timeout)
        while True:
            if len(self.data) >= 4:
                n = struct.unpack("<I", self.data[:4])[0]
                if len(self.data) >= 4 + n:
                    body = self.data[4:4 + n]
                    self.data = self.data[4 + n:]
                    return json.loads(body)
            try:
                more = self.conn.recv(65536)
            except socket.timeout:
                return None
            if not more:
                raise EOFError("the runner hung up")
            self.data += more

    def wait(self, kind, key=None, timeout=PATIENCE):
        """The next message of that kind; others are put aside."""
        end = time.monotonic() + timeout
        while True:
            for i, m in enumerate(self.seen):
                if m["t"] == kind and (key is None or m["key"] == key):
                    return self.seen.pop(i)
            left = end - time.monotonic()
            m = self.read(left) if left > 0 else None
            if m is None:
                raise TimeoutError(f"no {kind} of {key}; seen {self.seen}")
            self.seen.append(m)

    def flush(self):
        """Everything the runner has sent up to now."""
        self.send(t="ping")
        self.wait("pong")
        seen, self.seen = self.seen, []
        return seen


class Block:
    """A runner in a folder of its own, with its home."""

    def __init__(self, *args):
        self.dir = tempfile.mkdtemp(prefix="weir-runner-")
        self.state = self.dir + "/block"
        os.mkdir(self.state, 0o700)
        with open(self.dir + "/token", "w", encoding="ascii") as f:
            f.write(TOKEN + "\n")
        self.args = args
        self.mark = f"{os.getpid()}{time.monotonic_ns()}"
        self.epoch = time.monotonic_ns() % 10**9 + 1   # tells our processes
        self.home = Home(self.dir + "/home")
        self.proc = None
        self.block = "local"
        self.user = None               # runs as, when not as ourselves

    def program(self):
        """Another user cannot run it where the tree stands in a closed home."""
        if self.user is None:
            return RUNNER
        return shutil.copy2(RUNNER, self.dir + "/weir-runner")

    def start(self, accept=True):
        self.proc = subprocess.Popen(
            [self.program(), "--block", self.block, "--home", self.home.path,
             "--dir", self.state, "--token-file", self.dir + "/token", *self.args],
            start_new_session=True, user=self.user, group=self.user)
        return self.home.accept() if accept else None

    def lease(self, key, gen=1):
        return {"key": key, "gen": gen, "epoch": self.epoch}

    def order(self, key, gen=1, **task):
        task = {"name": "t", "workload": key.split("/")[0], "tenant": "me",
                "attempt": gen, **task}
        if "argv" not in task and "run" not in task:
            task["run"] = "true"
        self.home.send(t="order", task=task, **self.lease(key, gen))

    def go(self, key, gen=1, **task):
        """Order, claim, grant."""
        self.order(key, gen, **task)
        claim = self.home.wait("claim", key)
        assert claim["gen"] == gen and claim["epoch"] == self.epoch
        self.home.send(t="grant", ok=True, **self.lease(key, gen))

    def ended(self, key, gen=1, ack=True):
        m = self.home.wait("ended", key)
        assert m["gen"] == gen, m
        if ack:
            self.home.send(t="ack", **self.lease(key, gen))
        return m

    def run(self, key, gen=1, **task):
        self.go(key, gen, **task)
        return self.ended(key, gen)

    def stop(self, key, gen=1, **how):
        self.home.send(t="stop", **self.lease(key, gen), **how)

    def record(self, key, gen=1):
        """The path of a lease's record."""
        return f"{self.state}/leases/{key.replace('/', '.')}.{gen}." \
               f"{self.epoch}"

    def fact(self, key, name, gen=1):
        """What the record says; None: nothing (yet)."""
        for line in (read(self.record(key, gen)) or "").splitlines()[1:]:
            if name in json.loads(line):
                return json.loads(line)[name]
        return None

    def segments(self, key, gen=1):
        """Paths of a log's segments by start."""
        w, leaf = key.split("/")
        prefix = f"{leaf}.{gen}.{self.epoch}.log."
        d = f"{self.state}/logs/{w}"
        names = os.listdir(d) if os.path.isdir(d) else []
        return {int(n[len(prefix):]): f"{d}/{n}" for n in names
                if n.startswith(prefix)}

    def log(self, key, gen=1):
        """(start, bytes) of what is kept."""
        found = self.segments(key, gen)
        first = min(found, default=0)
        text = b""
        for s in sorted(found):
            assert s == first + len(text), found
            text += read(found[s], "rb")
        return first, text

    def text(self, key, gen=1):
        self.home.flush()
        return self.log(key, gen)[1].decode()

    def started(self, key, gen=1):
        return wait_for(lambda: self.fact(key, "started", gen), "started")

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def processes(self):
        """Pids whose environment or work says they are of this block."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            env = read(f"/proc/{pid}/environ", "rb") or b""
            if f"@{self.epoch}".encode() in env or \
                    self.mark.encode() in (read(f"/proc/{pid}/cmdline", "rb")
                                           or b""):
                found.append(int(pid))
        return found

    @staticmethod
    def of(name):
        """Pids of the block of that name."""
        want = f"WEIR_BLOCK={name}".encode()
        return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))
                if want in (read(f"/proc/{pid}/environ", "rb")
                            or b"").split(b"\0")]

    def marked(self):
        """Pids that have our mark in their environment."""
        return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc"))
                if self.mark.encode() in (read(f"/proc/{pid}/environ", "rb")
                                          or b"")]

    def name(self):
        """What tells our tasks from those of another block's."""
        st = os.stat(self.state)
        return f"{st.st_dev:x}-{st.st_ino:x}"

    def groups(self):
        """Control groups of this block."""
        name = f"weir-{self.block.replace('/', '.')}-{self.name()}"
        return subprocess.run(
            ["find", "/sys/fs/cgroup", "-name", name], text=True,
            capture_output=True, check=False).stdout.split()

    def keepers(self):
        """Records that a keeper still holds."""
        held = []
        for name in os.listdir(self.state + "/leases"):
            rc = subprocess.run(["flock", "-n", "-s", self.state + "/leases/"
                                 + name, "true"], check=False).returncode
            if rc:
                held.append(name)
        return held

    def finish(self):
        """Quit, and see that nothing is left."""
        if self.proc.poll() is None and self.home.conn:
            self.home.send(t="quit")
            ok(wait_for(lambda: self.proc.poll() is not None, "end"),
               "the runner ends when told to quit")
            ok(self.proc.returncode == 0, "with status 0")
        wait_for(lambda: not self.processes(), "no processes")
        ok(not self.processes(), "no process is left")
        ok(not self.keepers(), "no keeper is left")

    def clean(self):
        self.home.close()
        if self.proc and self.proc.poll() is None:
            self.kill()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for group in self.groups():     # of a runner that was killed
            for path in [*os.scandir(group)]:
                if path.is_dir():
                    os.rmdir(path.path)
            os.rmdir(group)
        shutil.rmtree(self.dir)


def ok(cond, text):
    frame = sys._getframe(1)
    TAP.ok(cond, text, f"{frame.f_code.co_name} line {frame.f_lineno}")


def read(path, mode="r"):
    try:
        with open(path, mode) as f:
            return f.read()
    except OSError:
        return None


def wait_for(what, text):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        got = what()
        if got:
            return got
        time.sleep(0.005)
    raise TimeoutError(text)


def cgroup2():
    """Can we make groups of version 2?"""
    for line in read("/proc/mounts").splitlines():
        if line.split()[2] == "cgroup2":
            own = [x.split("::", 1)[1] for x in
                   read("/proc/self/cgroup").splitlines() if "::" in x]
            return os.access(line.split()[1] + own[0], os.W_OK)
    return False


def alive(pid):
    stat = read(f"/proc/{pid}/stat")
    return bool(stat) and stat.rsplit(")", 1)[1].split()[0] not in "ZX"


TESTS = []


def test(f):
    TESTS.append(f)
    return f


@test
def ends(b):
    """What is reported for each way to end."""
    b.start()
    m = b.run("w1/0.0", run="exit 0")
    is_((m["cause"], m["status"]), ("none", 0), "success")
    ok(m["started"] > 1.6e12 and m["ended"] >= m["started"], "has its times")
    m = b.run("w1/1.0", run="exit 3")
    is_((m["cause"], m["status"]), ("failed", 3), "exit status")
    m = b.run("w1/2.0", run="kill -SEGV $$")
    is_((m["cause"], m["status"]), ("signalled", -11), "signal")
    m = b.run("w1/3.0", argv=["/bin/sh", "-c", "exit 127"])
    is_((m["cause"], m["status"]), ("failed", 127),
        "a program's own 127 is a failure")
    m = b.run("w1/4.0", argv=["no-such-program"])
    is_((m["cause"], m["status"]), ("refused", 127), "no such program")
    ok("no-such-program" in b.text("w1/4.0"), "the log names it")
    m = b.run("w1/5.0", argv=["/etc/passwd"])
    is_((m["cause"], m["status"]), ("refused", 126), "no program")
    m = b.run("w1/6.0", run="true", dir="/no/such/folder")
    is_((m["cause"], m["status"]), ("refused", 126), "no such folder")
    m = b.run("w1/9.0", run="true", image="a/b:1")
    is_((m["cause"], m["status"]), ("refused", 126),
        "an image is not left out in silence")
    ok("/no/such/folder" in b.text("w1/6.0"), "the log names it")
    m = b.run("w1/7.0", argv=[])
    is_(m["cause"], "refused", "an order that makes no sense")
    is_(m["started"], 0, "never started")
    m = b.run("w1/8.0", run="i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
    ok(m["cpu_ms"] > 0 and m["rss"] > 100000, "usage is counted")
    b.finish()


@test
def environment(b):
    """A task sees what it is meant to see and nothing else."""
    os.environ["WEIR_TEST_SECRET"] = "x"
    r, w = os.pipe()
    os.set_inheritable(r, True)
    b.start()
    b.run("w1/0.0", argv=["env"], env={"A": "1", "PATH": "/bin:/usr/bin",
                                        "WEIR_RANK": "99"},
          ranks=4, rank=2, rendezvous="127.0.0.1:4000", devices=[1, 3],
          simulated=True, tenant="lab", name="train")
    env = dict(x.split("=", 1) for x in b.text("w1/0.0").splitlines())
    for key in ("HOME", "USER", "LOGNAME", "SHELL", "LANG"):
        ok(env.pop(key, ""), f"{key} is set")
    ok(env.pop("WEIR_PROGRESS", "").startswith("/proc/"),
       "WEIR_PROGRESS is a path")
    is_(env, {
        "A": "1", "PATH": "/bin:/usr/bin", "WEIR_WORKLOAD": "w1",
        "WEIR_TASK": "train", "WEIR_TENANT": "lab", "WEIR_RANK": "2",
        "WEIR_WORLD_SIZE": "4", "WEIR_ATTEMPT": "1",
        "WEIR_RENDEZVOUS": "127.0.0.1:4000",
        "WEIR_PROGRESS_FD": "3",
        "WEIR_LEASE": f"w1/0.0#1@{b.epoch}", "WEIR_BLOCK": b.name(),
        "CUDA_VISIBLE_DEVICES": "1,3",
        "WEIR_SIMULATED_DEVICES": "1"}, "the environment, whole")
    b.run("w1/1.0", argv=["ls", "-l", "/proc/self/fd"])
    fds = [x for x in b.text("w1/1.0").splitlines() if "->" in x]
    is_(len(fds), 5, "stdin, stdout, stderr, progress, and what ls opens")
    ok("/dev/null" in fds[0], "stdin is /dev/null")
    b.run("w1/2.0", run="umask; pwd; ulimit -c; test $(ulimit -n) -le 1024; grep SigBlk /proc/self/status;"
          " grep SigIgn /proc/self/status; ps -o sid=,pgid=,pid= -p $$",
          dir="/usr")
    out = b.text("w1/2.0").split()
    is_(out[:3], ["0022", "/usr", "0"], "umask, folder, no core files")
    is_(out[4], "0" * 16, "no signal is blocked")
    # 32 and 33 are the C library's own: nobody outside of it can reset them.
    is_(int(out[6], 16) & ~(3 << 31), 0, "no signal is ignored")
    ok(out[7] == out[8] == out[9], "a session of its own")
    b.run("w1/3.0", argv=["sh", "-c", 'echo "<$CUDA_VISIBLE_DEVICES>"'])
    is_(b.text("w1/3.0"), "<>\n", "no device: none is visible")
    os.close(r)
    os.close(w)
    b.finish()


@test
def user(b):
    """As root: the submitting user, with their groups, and no way back."""
    b.start()
    if os.geteuid() != 0:
        m = b.run("w1/0.0", run="true",
                  user={"name": "root", "uid": 0, "gid": 0})
        is_(m["cause"], "refused", "without root nobody else's tasks")
        b.finish()
        return
    b.run("w1/0.0", run="id -u; id -g; id -G; cat " + b.dir + "/token",
          user={"name": "nobody", "uid": 65534, "gid": 65534}, dir="/")
    out = b.text("w1/0.0").split()
    is_(out[:3], ["65534"] * 3, "user and groups")
    ok("denied" in " ".join(out).lower(), "cannot read the block's token")
    b.go("w1/1.0", run="sleep 600",
         user={"name": "nobody", "uid": 65534, "gid": 65534}, dir="/")
    pid = b.started("w1/1.0")["task"]
    os.kill(b.started("w1/1.0")["keeper"], signal.SIGKILL)
    is_(b.ended("w1/1.0")["cause"], "lost", "keeper of another user killed")
    ok(not alive(pid), "the task died with it")
    b.finish()


@test
def stop(b):
    """Signal, grace, SIGKILL; command; force; before the start."""
    b.start()
    b.go("w1/0.0", run="trap 'echo bye; exit 5' TERM; echo on;"
         "while :; do sleep 0.02; done")
    wait_for(lambda: b.log("w1/0.0")[1], "output")
    b.stop("w1/0.0", grace_ms=50000)
    m = b.ended("w1/0.0", ack=False)
    is_((m["cause"], m["status"]), ("failed", 5), "SIGTERM by default")
    ok(b.log("w1/0.0")[1].endswith(b"bye\n"), "and it could say good-bye")
    b.home.send(t="ack", **b.lease("w1/0.0"))

    b.go("w1/1.0", run="trap '' TERM; echo on; while :; do sleep 0.02; done")
    wait_for(lambda: b.log("w1/1.0")[1], "output")
    b.stop("w1/1.0", grace_ms=100)
    b.stop("w1/1.0", grace_ms=10**9)
    m = b.ended("w1/1.0")
    is_((m["cause"], m["status"]), ("signalled", -9),
        "SIGKILL after the grace, which a second stop does not renew")

    b.go("w1/2.0", run="trap 'echo usr1; exit 0' USR1; echo on;"
         "while :; do sleep 0.02; done")
    wait_for(lambda: b.log("w1/2.0")[1], "output")
    b.stop("w1/2.0", signal=int(signal.SIGUSR1), grace_ms=50000)
    is_(b.ended("w1/2.0")["status"], 0, "another signal")

    b.go("w1/3.0", env={"A": "7"},
         run="trap 'exit 0' INT; echo on; while :; do sleep 0.02; done")
    wait_for(lambda: b.log("w1/3.0")[1], "output")
    b.stop("w1/3.0", grace_ms=50000,
           command="echo saving $A $WEIR_PID; kill -INT $WEIR_PID")
    m = b.ended("w1/3.0", ack=False)
    is_(m["status"], 0, "a checkpoint command ended it")
    ok(b"saving 7 " in b.log("w1/3.0")[1], "in the task's environment")
    b.home.send(t="ack", **b.lease("w1/3.0"))

    b.go("w1/4.0", run="trap '' TERM; echo on; sleep 600")
    wait_for(lambda: b.log("w1/4.0")[1], "output")
    b.stop("w1/4.0", grace_ms=10**9)
    b.stop("w1/4.0", force=True)
    is_(b.ended("w1/4.0")["status"], -9, "force cuts the grace short")

    b.order("w1/5.0", run="touch " + b.dir + "/started")
    b.home.wait("claim", "w1/5.0")
    b.stop("w1/5.0")
    m = b.home.wait("ended", "w1/5.0")
    is_((m["cause"], m["started"]), ("aborted", 0), "before it started")
    b.home.send(t="grant", ok=True, **b.lease("w1/5.0"))
    b.home.flush()
    ok(not os.path.exists(b.dir + "/started"), "a late grant starts nothing")
    b.home.send(t="ack", **b.lease("w1/5.0"))

    b.stop("w1/6.0")
    is_(b.ended("w1/6.0")["cause"], "lost", "a stop of what is not here")
    b.finish()


@test
def refused(b):
    """A claim that is refused is forgotten."""
    b.start()
    b.order("w1/0.0", run="touch " + b.dir + "/started")
    b.home.wait("claim", "w1/0.0")
    b.home.send(t="grant", ok=False, **b.lease("w1/0.0"))
    b.home.flush()
    ok(not os.path.exists(b.record("w1/0.0")), "its record is gone")
    ok(not os.path.exists(b.dir + "/started"), "nothing was started")
    b.home.away()
    is_(b.home.back()["leases"], [], "and it is not told of")
    b.finish()


@test
def once(b):
    """Whatever home repeats, a generation starts once."""
    b.start()
    count = f"echo x >> {b.dir}/count; sleep 0.1"
    b.go("w1/0.0", run=count)
    for _ in range(3):
        b.order("w1/0.0", run=count)
        b.home.send(t="grant", ok=True, **b.lease("w1/0.0"))
    m = b.ended("w1/0.0", ack=False)
    b.home.send(t="grant", ok=True, **b.lease("w1/0.0"))
    b.order("w1/0.0", run=count)
    is_(b.ended("w1/0.0"), m, "an order of what ended is answered by its end")
    is_(read(b.dir + "/count"), "x\n", "one start")
    b.run("w1/0.0", gen=2, run=count)
    is_(read(b.dir + "/count"), "x\nx\n", "another generation starts again")
    claims = [m for m in b.home.flush() if m["t"] == "claim"]
    is_(claims, [], "a claim is asked once")
    b.finish()


@test
def escapees(b):
    """Nothing survives the end of its lease."""
    b.start()
    script = ("import os,time,sys\n"
              "for i in range(3):\n"
              "    if os.fork() == 0:\n"
              "        os.setsid()\n"
              "        if os.fork() == 0:\n"
              f"            os.execve('/bin/sleep', ['sleep', '600', ], "
              f"{{'M': '{b.mark}'}} if i else dict(os.environ))\n"
              "        os._exit(0)\n"
              "    os.wait()\n"
              "print('on', flush=True)\n")
    with open(b.dir + "/escape.py", "w", encoding="ascii") as f:
        f.write(script + "time.sleep(float(sys.argv[1]))\n")

    def sleepers():
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            env = read(f"/proc/{pid}/environ", "rb") or b""
            if b.mark.encode() in env or f"@{b.epoch}".encode() in env:
                found.append(pid)
        return found

    m = b.run("w1/0.0", argv=["python3", b.dir + "/escape.py", "0"])
    is_(m["status"], 0, "its own status counts")
    is_(sleepers(), [], "daemons are gone before the end is told")

    b.go("w1/1.0", argv=["python3", b.dir + "/escape.py", "600"])
    wait_for(lambda: b.log("w1/1.0")[1], "output")
    wait_for(lambda: len(sleepers()) >= 4, "daemons")
    ok(True, "daemons are there")
    b.stop("w1/1.0", grace_ms=50000)
    b.ended("w1/1.0")
    is_(sleepers(), [], "and gone after a stop")

    b.go("w1/2.0", argv=["python3", b.dir + "/escape.py", "600"])
    wait_for(lambda: b.log("w1/2.0")[1], "output")
    os.kill(b.started("w1/2.0")["keeper"], signal.SIGKILL)
    m = b.ended("w1/2.0")
    is_(m["cause"], "lost", "its keeper killed")
    ok(m["started"] > 0, "the start is known")
    is_(sleepers(), [], "daemons are gone")

    b.go("w1/3.0", run="(trap '' TERM HUP; while :; do sleep 0.01; done) &"
         " (sleep 600 &) ; exit 0")
    is_(b.ended("w1/3.0")["status"], 0, "background jobs hold nothing up")
    b.finish()


@test
def log(b):
    """Bounded, rotated, every byte at its offset."""
    b.start()
    n = 20000
    b.run("w1/0.0", log_bytes=65536, argv=[
        "sh", "-c", f"i=0; while [ $i -lt {n} ]; do echo $i; i=$((i+1)); "
        "done"])
    b.home.flush()
    whole = "".join(f"{i}\n" for i in range(n)).encode()
    start, text = b.log("w1/0.0")
    is_(start + len(text), len(whole), "the end is where it belongs")
    ok(whole[start:] == text, "what is kept are the newest bytes")
    ok(32768 <= len(text) <= 65536, "at least half the bound is kept")
    ok(start % 32768 == 0, "segments are half the bound")
    is_(os.listdir(b.state + "/leases"), [], "no record is left")
    b.run("w1/1.0", run="echo out; echo err >&2; printf end")
    is_(b.text("w1/1.0"), "out\nerr\nend", "both streams, in order")
    b.run("w1/2.0", run="true")
    b.home.flush()
    is_(b.segments("w1/2.0"), {}, "silence leaves nothing behind")
    b.home.send(t="drop", key="w1/0.0")
    b.home.flush()
    is_(b.segments("w1/0.0"), {}, "dropped")
    ok(b.segments("w1/1.0"), "the other is kept")
    b.go("w1/3.0", run="echo now; exec sleep 600")
    wait_for(lambda: b.log("w1/3.0")[1] == b"now\n", "live log")
    ok(True, "a log can be read while its task runs")
    b.stop("w1/3.0", force=True)
    b.ended("w1/3.0")
    b.finish()


@test
def away(b):
    """Home goes away and comes back."""
    b.start()
    b.go("w1/0.0", run="exit 4")
    m = b.ended("w1/0.0", ack=False)
    b.go("w1/1.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done")
    b.started("w1/1.0")
    b.order("w1/2.0", run=f"echo x >> {b.dir}/count")
    b.home.wait("claim", "w1/2.0")
    b.home.away()
    open(b.dir + "/go", "w").close()
    wait_for(lambda: b.fact("w1/1.0", "exit"), "exit")
    hello = b.home.back()
    is_({x["key"]: x["state"] for x in hello["leases"]},
        {"w1/0.0": "ended", "w1/1.0": "ended", "w1/2.0": "new"},
        "hello tells all")
    is_((hello["block"], hello["token"], hello["v"]), ("local", TOKEN, 1),
        "who it is")
    is_(b.ended("w1/0.0"), m, "a report that was not acknowledged, again")
    is_(b.ended("w1/1.0")["status"], 0, "what ended meanwhile")
    b.home.send(t="grant", ok=True, **b.lease("w1/2.0"))
    is_(b.ended("w1/2.0")["status"], 0, "a grant that was lost on the way")
    is_(read(b.dir + "/count"), "x\n", "started once")
    b.home.away()
    is_(b.home.back()["leases"], [], "what is acknowledged is not told again")
    b.finish()


@test
def progress(b):
    """What a task says about itself reaches home: the newest counts."""
    b.start()
    b.go("w1/0.0", run="echo 0.25 loss=2 >&3; echo loss=1 > $WEIR_PROGRESS;"
         " sleep 1.5; echo 0.5 acc=0.75 >&3; while :; do sleep 1; done")
    said = b.home.wait("progress", "w1/0.0")
    is_(said["said"].get("progress"), 0.25, "how far it is")
    ok(said["at"] > 0, "and when it said so")
    while "acc" not in said["said"]["metrics"]:
        said = b.home.wait("progress", "w1/0.0")
    is_(said["said"], {"progress": 0.5,
                       "metrics": {"loss": 1.0, "acc": 0.75}},
        "each metric keeps the value said last")
    b.home.away()
    b.home.back()
    is_(b.home.wait("progress", "w1/0.0")["said"], said["said"],
        "home hears of it again when it was away")
    b.kill()
    b.start()
    is_(b.home.wait("progress", "w1/0.0")["said"], said["said"],
        "also from another runner")
    b.stop("w1/0.0", force=True)
    b.ended("w1/0.0")

    b.go("w1/1.0", run="echo nonsense >&3; echo loss=x >&3; echo 1 a=1 >&3;"
         " echo 1 a=2 >&3")
    end = b.home.wait("ended", "w1/1.0")
    said = [m for m in b.home.seen if m["t"] == "progress"
            and m["key"] == "w1/1.0"]
    is_(said[-1]["said"], {"progress": 1.0, "metrics": {"a": 2.0}},
        "the last word is told before the end")
    b.home.send(t="ack", **b.lease("w1/1.0"))
    is_(end["status"], 0, "a wrong word does not hurt the task")
    is_(b.text("w1/1.0").count("weir: progress: 'nonsense'"), 1,
        "but the log names it, once")
    wait_for(lambda: not os.listdir(b.state + "/progress"),
             "nothing is left when the end is acknowledged")
    if os.geteuid() == 0:
        b.run("w1/2.0", argv=["/usr/bin/env", "python3", "-c",
              "import subprocess; subprocess.run("
              "'echo x=1 > $WEIR_PROGRESS', shell=True, check=True)"],
              user={"name": "", "uid": 65534, "gid": 65534})
        is_([m["said"] for m in b.home.seen if m["t"] == "progress"
             and m["key"] == "w1/2.0"], [{"metrics": {"x": 1.0}}],
            "another user's task may, also without the descriptor")
    b.finish()


@test
def runner_killed(b):
    """kill -9 of the runner: tasks go on, nothing is lost."""
    b.start()
    b.go("w1/0.0", run=f"echo a; while [ ! -e {b.dir}/go ]; do sleep 0.02; "
         "done; echo b; exit 7")
    b.go("w1/1.0", run="trap '' TERM; echo on; sleep 600")
    wait_for(lambda: b.log("w1/1.0")[1], "output")
    b.order("w1/2.0", run="exit 2")
    b.home.wait("claim", "w1/2.0")
    b.go("w1/3.0", run="exit 3")
    b.ended("w1/3.0", ack=False)
    pid = b.started("w1/0.0")["task"]
    b.started("w1/1.0")
    b.kill()
    b.home.conn.close()
    b.home.seen = []
    ok(alive(pid), "the task goes on")
    hello = b.start()
    is_({x["key"]: x["state"] for x in hello["leases"]},
        {"w1/0.0": "running", "w1/1.0": "running", "w1/2.0": "new",
         "w1/3.0": "ended"}, "everything is found again")
    is_(b.home.wait("started", "w1/0.0")["pid"], pid, "the same process")
    open(b.dir + "/go", "w").close()
    m = b.ended("w1/0.0", ack=False)
    is_((m["cause"], m["status"]), ("failed", 7), "its exit status is kept")
    is_(b.log("w1/0.0")[1], b"a\nb\n", "and its log whole")
    b.home.send(t="ack", **b.lease("w1/0.0"))
    is_(b.ended("w1/3.0")["status"], 3, "the report from before")
    b.stop("w1/1.0", grace_ms=50)
    is_(b.ended("w1/1.0")["status"], -9, "one found again can be stopped")
    b.home.send(t="grant", ok=True, **b.lease("w1/2.0"))
    is_(b.ended("w1/2.0")["status"], 2, "one not claimed can be started")

    b.go("w1/4.0", run=f"while [ ! -e {b.dir}/go4 ]; do sleep 0.02; done;"
         "exit 9")
    b.started("w1/4.0")
    b.kill()
    b.home.conn.close()
    open(b.dir + "/go4", "w").close()
    wait_for(lambda: b.fact("w1/4.0", "exit"), "exit")
    b.start()
    is_(b.ended("w1/4.0")["status"], 9, "an end while no runner was there")
    b.finish()


@test
def keeper_killed(b):
    """kill -9 of the keeper, then of both: the lease is lost, nothing runs."""
    b.start()
    b.go("w1/0.0", run="(setsid sleep 600 &); echo on; sleep 600")
    wait_for(lambda: b.log("w1/0.0")[1], "output")
    os.kill(b.started("w1/0.0")["keeper"], signal.SIGKILL)
    m = b.ended("w1/0.0")
    is_((m["cause"], m["status"]), ("lost", 0), "lost")
    ok(m["started"] > 0 and m["ended"] >= m["started"], "with its times")
    is_(b.processes(), [], "nothing runs")

    b.go("w1/1.0", run="(setsid sleep 600 &); echo on; sleep 600")
    wait_for(lambda: b.log("w1/1.0")[1], "output")
    keeper = b.started("w1/1.0")["keeper"]
    os.kill(b.proc.pid, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    b.kill()
    b.home.conn.close()
    b.home.seen = []
    b.start()
    is_(b.ended("w1/1.0")["cause"], "lost", "both killed: lost")
    is_(b.processes(), [], "nothing runs")

    # Without a name in its environment only its group tells whose it is.
    if cgroup2():
        b.go("w1/3.0", run="(setsid env -i M=" + b.mark + " sh -c 'sleep 600;"
             ":' &); echo on; sleep 600")
        wait_for(b.marked, "the orphan")
        keeper = b.started("w1/3.0")["keeper"]
        os.kill(b.proc.pid, signal.SIGSTOP)
        os.kill(keeper, signal.SIGKILL)
        b.kill()
        b.home.conn.close()
        b.home.seen = []
        ok(b.marked(), "an orphan without a name is there")
        b.start()
        is_(b.ended("w1/3.0")["cause"], "lost", "both killed: lost")
        is_(b.marked(), [], "and it is gone")
    else:
        TAP.skip("orphans without a name", "needs a writable cgroup2")

    b.go("w1/2.0", run="sleep 600")
    b.started("w1/2.0")
    os.kill(b.proc.pid, signal.SIGSTOP)
    os.kill(b.started("w1/2.0")["keeper"], signal.SIGKILL)
    b.kill()
    b.home.conn.close()
    with open(b.record("w1/2.0"), encoding="utf-8") as f:
        lines = f.readlines()
    with open(b.record("w1/2.0"), "w", encoding="utf-8") as f:
        f.writelines(lines[:2])
        f.write(lines[2][:9])          # cut off in the middle
    b.start()
    m = b.ended("w1/2.0")
    is_((m["cause"], m["started"]), ("lost", 0),
        "claimed, and no sign of a start")
    b.finish()


@test
def reboot(b):
    """After a reboot nothing from before is started or believed to run."""
    b.start()
    b.order("w1/0.0", run=f"echo x >> {b.dir}/count")
    b.home.wait("claim", "w1/0.0")
    b.kill()
    b.home.conn.close()
    with open(b.state + "/boot", "w", encoding="ascii") as f:
        f.write("another boot\n")
    hello = b.start()
    is_(hello["leases"][0]["state"], "ended", "a claim may have been granted")
    is_(b.ended("w1/0.0")["cause"], "lost", "lost")
    ok(not os.path.exists(b.dir + "/count"), "not started")
    b.finish()


@test
def disk_full(b):
    """Reports survive a full disk (a file system of 256 KiB)."""
    if os.geteuid() != 0:
        TAP.skip("a full disk", "needs root to mount")
        b.start()
        b.finish()
        return
    def others():
        """What was said, of all but the first lease."""
        seen = b.home.flush()
        b.home.seen = [m for m in seen if m["key"] == "w1/0.0"]
        return [m for m in seen if m["key"] != "w1/0.0"]

    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700",
                    "tmpfs", b.state], check=True)
    try:
        b.start()
        b.go("w1/0.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
             "echo hello; exit 6")
        b.started("w1/0.0")
        with contextlib.suppress(OSError), open(b.state + "/fill", "wb",
                                                buffering=0) as f:
            while f.write(b"x" * 4096):
                pass
        open(b.dir + "/go", "w").close()
        for key in ("w1/1.0", "w1/2.0", "w1/3.0", "w1/4.0"):
            b.order(key, run=f"echo {key} >> {b.dir}/ran")
        time.sleep(0.5)
        b.order("w1/1.0", run="never, being a repetition")
        is_(others(), [], "orders wait for room: no claim, no end")
        b.stop("w1/2.0")
        m = b.ended("w1/2.0")
        is_((m["cause"], m["started"]), ("aborted", 0),
            "one that waits can be stopped")
        b.home.send(t="grant", ok=False, **b.lease("w1/4.0"))
        b.home.away()
        hello = b.home.back()
        is_({x["key"]: x["state"] for x in hello["leases"]
             if x["key"] != "w1/0.0"}, {"w1/1.0": "new", "w1/3.0": "new"},
            "those that wait are told, those that are over are not")
        b.home.send(t="grant", ok=True, **b.lease("w1/3.0"))
        is_(others(), [], "a grant of one that waits is kept")
        os.unlink(b.state + "/fill")
        is_(b.ended("w1/0.0")["status"], 6, "the report came when it could")
        is_(b.ended("w1/3.0")["status"], 0, "what was granted starts by itself")
        b.home.wait("claim", "w1/1.0")
        b.home.send(t="grant", ok=True, **b.lease("w1/1.0"))
        is_(b.ended("w1/1.0")["status"], 0, "the other is claimed, and starts")
        is_(sorted(read(b.dir + "/ran").split()), ["w1/1.0", "w1/3.0"],
            "each once, and only those")
        is_(b.run("w1/5.0", gen=2)["status"], 0, "service goes on")
        b.finish()
    finally:
        if b.proc.poll() is None:
            b.kill()
        subprocess.run(["umount", "-l", b.state], check=True)


@test
def no_room(b):
    """Neither processes nor descriptors to be had: a grant waits for them."""
    if os.geteuid() != 0:
        TAP.skip("no room", "needs root to take and give limits")
        b.start()
        b.finish()
        return
    b.start()
    pid = b.proc.pid
    kind = resource.RLIMIT_NOFILE
    old = resource.prlimit(pid, kind)
    b.order("w1/0.0", run=f"echo a >> {b.dir}/ran")
    b.order("w1/1.0", run=f"echo b >> {b.dir}/ran")
    b.home.wait("claim", "w1/0.0")
    b.home.wait("claim", "w1/1.0")
    resource.prlimit(pid, kind, (3, old[1]))
    b.home.send(t="grant", ok=True, **b.lease("w1/0.0"))
    b.home.send(t="grant", ok=True, **b.lease("w1/1.0"))
    b.order("w1/2.0", run=f"echo c >> {b.dir}/ran")
    time.sleep(0.5)
    b.home.send(t="grant", ok=True, **b.lease("w1/0.0"))
    is_(b.home.flush(), [], "nothing is refused and nothing lost")
    b.stop("w1/1.0")
    m = b.ended("w1/1.0")
    is_((m["cause"], m["started"]), ("aborted", 0), "a stop meanwhile")
    resource.prlimit(pid, kind, old)
    is_(b.ended("w1/0.0")["status"], 0, "then it starts")
    b.home.wait("claim", "w1/2.0")
    b.home.send(t="grant", ok=True, **b.lease("w1/2.0"))
    is_(b.ended("w1/2.0")["status"], 0, "and the order is taken")
    is_(read(b.dir + "/ran"), "a\nc\n", "each once")
    log_text = read(b.state + "/runner.log")
    ok("not started yet" in log_text and "w1/0.0" in log_text,
       "the log says why it took so long")
    b.finish()


@test
def no_processes(b):
    """A keeper that could not be forked, and a task that could not be."""
    if os.geteuid() != 0:
        TAP.skip("no processes", "needs root to change users")
        b.start()
        b.finish()
        return
    # Root is not held to RLIMIT_NPROC, so the runner is somebody else.
    uid = 54321
    os.chmod(b.dir, 0o755)
    for path in (b.state, b.dir + "/token"):
        os.chown(path, uid, uid)
    os.chmod(b.home.path, 0o666)
    b.user = uid
    b.start()

    def allow(n):
        subprocess.run(["prlimit", f"--pid={b.proc.pid}", f"--nproc={n}:"],
                       user=uid, group=uid, check=True)

    allow(1)
    b.go("w1/0.0", run="exit 3")
    wait_for(lambda: b.fact("w1/0.0", "claimed"), "the claim")
    time.sleep(0.3)
    is_([m["t"] for m in b.home.flush()], [], "no fork: it waits")
    allow(2)
    m = b.ended("w1/0.0")
    is_((m["cause"], m["started"]), ("lost", 0),
        "a keeper without a task is lost, and the order not to blame")
    allow(1000)
    is_(b.run("w1/0.0", gen=2, run="exit 3")["status"], 3, "service goes on")
    b.finish()


@test
def unreadable(b):
    """A runner that cannot read a record does not take it for nothing."""
    b.start()
    b.go("w1/0.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "exit 5")
    pid = b.started("w1/0.0")["task"]
    b.kill()
    b.home.conn.close()
    path = b.record("w1/0.0")
    os.rename(path, b.dir + "/aside")
    os.mkdir(path)                     # opens, and does not read
    b.start(accept=False)
    wait_for(lambda: b.proc.poll() is not None, "end")
    ok(b.proc.returncode not in (0, 75), "it does not go on")
    ok("w1.0.0" in (read(b.state + "/runner.log") or ""), "and says why")
    os.rmdir(path)
    os.rename(b.dir + "/aside", path)
    ok(alive(pid), "the task goes on")
    hello = b.start()
    is_([x["state"] for x in hello["leases"]], ["running"], "found again")
    open(b.dir + "/go", "w").close()
    is_(b.ended("w1/0.0")["status"], 5, "with its end")
    b.finish()


@test
def report_unread(b):
    """The report of a keeper that ended is read when it can be."""
    if os.geteuid() != 0:
        TAP.skip("a report unread", "needs root to give limits back")
        b.start()
        b.finish()
        return
    b.start()
    b.go("w1/0.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "exit 5")
    b.home.wait("started", "w1/0.0")
    old = resource.prlimit(b.proc.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(b.proc.pid, resource.RLIMIT_NOFILE, (3, old[1]))
    open(b.dir + "/go", "w").close()
    wait_for(lambda: "not read yet" in read(b.state + "/runner.log"), "log")
    is_(b.home.flush(), [], "nothing is said that is not known")
    resource.prlimit(b.proc.pid, resource.RLIMIT_NOFILE, old)
    m = b.ended("w1/0.0")
    is_((m["cause"], m["status"]), ("failed", 5), "and then it is")
    b.finish()


@test
def signals_full(b):
    """A keeper whose queue of signals is full is told again."""
    b.start()
    for i, how in enumerate(({"grace_ms": 10**6}, {"force": True})):
        key = f"w1/{i}.0"
        b.go(key, run="sleep 600")
        keeper = b.started(key)["keeper"]
        old = resource.prlimit(keeper, resource.RLIMIT_SIGPENDING)
        resource.prlimit(keeper, resource.RLIMIT_SIGPENDING, (0, old[1]))
        b.stop(key, **how)
        time.sleep(0.3)
        is_([m["t"] for m in b.home.flush() if m["t"] == "ended"], [],
            f"not told yet ({i})")
        resource.prlimit(keeper, resource.RLIMIT_SIGPENDING, old)
        is_(b.ended(key)["status"], -9 if i else -15, "told")
    b.finish()


@test
def neighbours(b):
    """Another block on the machine with the same leases is left alone."""
    other = Block()
    other.epoch = b.epoch
    try:
        b.start()
        other.start()
        for x in (b, other):
            x.go("w1/0.0", run="(setsid sleep 600 &); echo on; sleep 600")
            wait_for(lambda x=x: x.log("w1/0.0")[1], "output")
        theirs = other.started("w1/0.0")["task"]
        ok(len(b.of(b.name())) >= 2 and len(b.of(other.name())) >= 2,
           "both run")
        os.kill(b.started("w1/0.0")["keeper"], signal.SIGKILL)
        is_(b.ended("w1/0.0")["cause"], "lost", "the keeper of one is killed")
        is_(b.of(b.name()), [], "nothing of it is left")
        ok(alive(theirs) and len(b.of(other.name())) >= 2,
           "everything of the other lives")
        is_([m["t"] for m in other.home.flush() if m["t"] == "ended"], [],
            "and goes on")
        other.stop("w1/0.0", force=True)
        other.ended("w1/0.0")
        other.finish()
    finally:
        other.clean()
    b.finish()


@test
def many_lost(b):
    """Many keepers killed at once: each is lost, nothing of any is left."""
    b.start()
    n = 30
    for i in range(n):
        b.go(f"w1/{i}.0", run="(setsid sleep 600 &); sleep 600")
    keepers = [b.started(f"w1/{i}.0")["keeper"] for i in range(n)]
    b.go("w2/0.0", run="sleep 600")
    rest = b.started("w2/0.0")["task"]
    for pid in keepers:
        os.kill(pid, signal.SIGKILL)
    is_({b.ended(f"w1/{i}.0")["cause"] for i in range(n)}, {"lost"}, "lost")
    ok(alive(rest), "the one that was not killed lives")
    b.stop("w2/0.0", force=True)
    b.ended("w2/0.0")
    b.finish()


@test
def wanted_again(b):
    """An order after a quit: the runner stays for it and after it."""
    b.start()
    b.go("w1/0.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done")
    b.started("w1/0.0")
    b.home.send(t="quit")
    b.order("w1/1.0")
    b.home.wait("claim", "w1/1.0")
    open(b.dir + "/go", "w").close()
    b.ended("w1/0.0")
    b.home.send(t="grant", ok=True, **b.lease("w1/1.0"))
    is_(b.ended("w1/1.0")["status"], 0, "it runs what was ordered")
    b.go("w1/2.0", run=f"while [ ! -e {b.dir}/go2 ]; do sleep 0.02; done")
    b.started("w1/2.0")
    b.home.send(t="quit")
    b.home.flush()
    b.home.away()
    b.home.back()
    open(b.dir + "/go2", "w").close()
    b.ended("w1/2.0")
    b.home.flush()
    ok(b.proc.poll() is None, "a welcome takes a quit back")
    b.finish()


@test
def limits(b):
    """A limit on memory holds, by group or by rlimit."""
    before = b.groups()                # of a folder that was here once
    b.start()
    kind, pid = read(b.state + "/limits").split()
    is_(int(pid), b.proc.pid, "the limits file says whose it is")
    ok(kind in ("cgroup1", "cgroup2", "rlimits"), f"limits by {kind}")
    m = b.run("w1/0.0", memory=64 << 20, argv=[
        "python3", "-c", "x = bytearray(256 << 20); print(len(x))"])
    want = ("failed", 1) if kind == "rlimits" else ("memory", -9)
    is_((m["cause"], m["status"]), want, "past its memory")
    m = b.run("w1/1.0", memory=512 << 20, argv=[
        "python3", "-c", "x = bytearray(64 << 20); print(len(x))"])
    is_(m["status"], 0, "within its memory")
    b.finish()
    is_([g for g in b.groups() if g not in before], [], "no group is left")


@test
def limits_of_pool(b):
    """A block of a pool of many has the limits that any other has."""
    b.start()
    kind = read(b.state + "/limits").split()[0]
    count = len(b.groups())
    b.finish()
    b.block = "pool/one"
    b.start()
    is_((read(b.state + "/limits").split()[0], len(b.groups())),
        (kind, count), "the same limits, and as many groups")
    b.finish()


@test
def idle(b):
    """It ends by itself when home stays away, and not before."""
    b.args = ("--idle", "500ms")
    b.start()
    b.go("w1/0.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "exit 8")
    b.started("w1/0.0")
    b.home.away()
    time.sleep(2.5)
    ok(b.proc.poll() is None, "not while something runs")
    open(b.dir + "/go", "w").close()
    wait_for(lambda: b.proc.poll() is not None, "end")
    is_(b.proc.returncode, 0, "then it ends")
    b.home.listen()
    b.start()
    is_(b.ended("w1/0.0")["status"], 8, "and the report is there")
    b.finish()


@test
def refusals(b):
    """One runner per block; wrong words are answered."""
    b.start()
    p = subprocess.run([RUNNER, "--block", "local", "--home", b.home.path,
                        "--dir", b.state, "--token-file", b.dir + "/token"],
                       capture_output=True, text=True, timeout=PATIENCE,
                       check=False)
    is_(p.returncode, 75, "a second runner is refused")
    ok(str(b.proc.pid) in p.stderr, "and told who is there")
    p = subprocess.run([RUNNER, "--block", "local"], capture_output=True,
                       text=True, timeout=PATIENCE, check=False)
    is_(p.returncode, 2, "usage")
    b.home.send(t="sing", song="x")
    ok("sing" in b.home.wait("error")["text"], "an unknown kind is answered")
    is_(b.run("w1/0.0")["status"], 0, "and the connection goes on")
    b.home.conn.sendall(struct.pack("<I", 0xffffffff))
    hello = b.home.accept()
    is_(hello["leases"], [], "a broken stream is dropped and dialled again")
    is_(b.run("w1/1.0")["status"], 0, "and works")
    b.finish()


@test
def many(b):
    """Many at once, killed runner in between: each ends once."""
    b.start()
    n = 200
    for i in range(n):
        b.order(f"w2/{i}.0", run=f"echo {i} >> {b.dir}/out; exit {i % 7}")
    for i in range(n):
        b.home.wait("claim", f"w2/{i}.0")
        b.home.send(t="grant", ok=True, **b.lease(f"w2/{i}.0"))
    status = {}
    while len(status) < n:
        m = b.home.wait("ended")
        if len(status) == n // 4:
            b.kill()
            b.home.conn.close()
            hello = b.start()
            b.home.seen = []
            for x in hello["leases"]:
                if x["state"] == "new":
                    b.home.send(t="grant", ok=True, **b.lease(x["key"]))
        if status.setdefault(m["key"], m) != m:
            ok(False, f"two ends of {m['key']}")
        with contextlib.suppress(OSError):
            b.home.send(t="ack", **b.lease(m["key"]))
    # Killed between claim and start: one at most, and that never ran.
    lost = {k for k, m in status.items() if m["cause"] == "lost"}
    ok(len(lost) <= 1, f"lost in the moment of its start: {lost}")
    ok(all(status[k]["started"] == 0 for k in lost), "and not started")
    bad = {k: m for k, m in status.items() if k not in lost
           and m["status"] != int(k[3:].split(".")[0]) % 7}
    is_(bad, {}, "every status is right")
    lines = read(b.dir + "/out").split()
    is_(sorted(lines, key=int),
        [str(i) for i in range(n) if f"w2/{i}.0" not in lost],
        "every one ran exactly once")
    b.finish()


def main():
    for f in TESTS:
        if ONLY and f.__name__ not in ONLY:
            continue
        print(f"# {f.__name__}: {f.__doc__}", flush=True)
        b = Block()
        try:
            f(b)
        except Exception as e:     # a broken test is a failed one
            ok(False, f"{f.__name__}: {type(e).__name__}: {e}")
            for line in traceback.format_exc().splitlines():
                print("# " + line)
            log_text = read(b.state + "/runner.log") or ""
            for line in log_text.splitlines()[-20:]:
                print("# runner: " + line)
        finally:
            b.clean()
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())

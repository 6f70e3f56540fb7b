#!/usr/bin/env python3
"""A runner that has one lease alone, against a scripted home (TAP).

Usage: alone_test.py WEIR_RUNNER [NAME...]
"""
import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

import runner_test
from dial_test import Certs, TlsHome
from runner_test import PATIENCE, TAP, TOKEN, Block, alive, ok, read, wait_for

is_ = TAP.equal
KEY = "w7/2.1"
NOBODY = 65534
MIB = 1 << 20


class Alone(Block):
    """A runner of one lease, with its standard output."""

    def __init__(self, *args, certs=None):
        super().__init__("--alone", *args)
        self.gen = 3
        self.block = f"lab/n1#{KEY}#{self.gen}@{self.epoch}"
        self.env = {"PATH": os.environ["PATH"]}
        self.folder = self.dir
        self.ca = None
        self.shown = bytearray()
        self.reader = None
        self.prefix = []               # of the command
        if certs:
            self.home.close()
            self.home = TlsHome(certs.context("good"))
            self.home.path = f"tls://127.0.0.1:{self.home.port}"
            self.ca = self.dir + "/ca.pem"
            shutil.copy(certs.path("ca.pem"), self.ca)
            self.args += ("--home-ca", self.ca)

    def start(self, accept=True, reads=True, into=subprocess.PIPE):
        self.proc = subprocess.Popen(
            [*self.prefix, self.program(), "--block", self.block, "--home",
             self.home.path, "--dir", self.state, "--token-file",
             self.dir + "/token", *self.args],
            start_new_session=True, user=self.user, group=self.user,
            extra_groups=None if self.user is None else [], stdout=into,
            env=self.env, cwd=self.folder)
        if reads and into == subprocess.PIPE:
            self.reader = threading.Thread(target=self.show)
            self.reader.start()
        return self.home.accept() if accept else None

    def show(self):
        while True:
            more = self.proc.stdout.read1(65536)
            if not more:
                return
            self.shown += more

    def own(self, uid):
        """Everything is this user's."""
        os.chmod(self.dir, 0o755)
        for path in (self.dir, self.state, self.dir + "/token"):
            os.chown(path, uid, uid)
        with contextlib.suppress(FileNotFoundError):
            os.chmod(self.home.path, 0o666)
        if self.ca:
            os.chown(self.ca, uid, uid)
        self.user = uid

    def lease(self, key=KEY, gen=None):
        return super().lease(key, self.gen if gen is None else gen)

    def go(self, **task):
        super().go(KEY, self.gen, **task)

    def listen(self, hears=True, until="ended"):
        """What it says up to the end: ([[offset, bytes], ...], end)."""
        parts = []
        while True:
            m = self.home.read()
            assert m is not None, "nothing more came"
            if m["t"] == until:
                return parts, m
            if m["t"] != "output":
                continue
            put(parts, m)
            if hears:
                self.heard(m["offset"] + len(data_of(m)))

    def heard(self, offset):
        self.home.send(t="heard", offset=offset, **self.lease())

    def ack(self):
        self.home.send(t="ack", **self.lease())

    def stop(self, **how):
        self.home.send(t="stop", **self.lease(), **how)

    def status(self):
        """What it ended with; all of standard output is there then."""
        wait_for(lambda: self.proc.poll() is not None, "its end")
        if self.reader:
            self.reader.join()
        return self.proc.returncode

    def quit(self):
        self.ack()
        self.home.send(t="quit")
        return self.status()

    def run(self, **task):
        """All of it: (printed, end, status)."""
        self.go(**task)
        parts, m = self.listen()
        printed = joined(parts)
        self.wait_shown(len(printed))
        return printed, m, self.quit()

    def wait_shown(self, n):
        """Standard output has so much, if anybody reads it."""
        if self.reader:
            wait_for(lambda: len(self.shown) >= n, "standard output")

    def clean(self):
        if self.proc and self.proc.poll() is None:
            self.kill()
        if self.reader:
            self.reader.join()
        if self.proc and self.proc.stdout:
            self.proc.stdout.close()
        super().clean()


def data_of(m):
    return base64.b64decode(m["data"], validate=True)


def put(parts, m):
    """Add to stretches: told again is the same, told on goes on."""
    at, data = m["offset"], data_of(m)
    assert data, "an output of nothing"
    if parts:
        first, have = parts[-1]
        if at < first + len(have):
            assert at >= first, (at, first)
            again = have[at - first:at - first + len(data)]
            assert data[:len(again)] == again, "told again, and other bytes"
            data = data[len(again):]
            at = first + len(have)
        if at == first + len(have):
            have += data
            return
    parts.append([at, bytearray(data)])


def joined(parts):
    """There is no gap."""
    assert len(parts) <= 1 and all(at == 0 for at, _ in parts), \
        [(at, len(data)) for at, data in parts]
    return bytes(parts[0][1]) if parts else b""


TESTS = []


def test(f):
    TESTS.append(f)
    return f


@test
def life(certs):
    """From hello to the exit status."""
    b = Alone("--address", "10.1.2.3")
    yield b
    hello = b.start()
    is_((hello["block"], hello["token"], hello["address"], hello["leases"]),
        (b.block, TOKEN, "10.1.2.3", []), "who it is")
    b.go(run="echo one; echo two >&2; exit 7", image="lab/any:1",
         user={"name": "x", "uid": os.geteuid(), "gid": os.getegid()})
    parts, m = b.listen()
    is_(joined(parts), b"one\ntwo\n", "what it printed, before its end")
    is_((m["cause"], m["status"], m["key"], m["gen"], m["epoch"]),
        ("failed", 7, KEY, 3, b.epoch), "its end")
    ok(b.proc.poll() is None, "it waits for home")
    is_(b.quit(), 7, "the status is the task's")
    is_(b.shown, b"one\ntwo\n", "standard output has it, too")
    is_(read(b.state + "/limits").split()[0], "container", "the limits")
    ok(not b.processes() and not b.keepers(), "nothing is left")


@test
def by_tls(certs):
    """The same over the network, and silence of the task."""
    b = Alone(certs=certs)
    yield b
    b.start()
    printed, m, status = b.run(run="true")
    is_((printed, m["cause"], status, b.shown), (b"", "none", 0, b""),
        "nothing printed, nothing told")


@test
def killed(certs):
    b = Alone()
    yield b
    b.start()
    _, m, status = b.run(run="kill -9 $$")
    is_((m["cause"], m["status"], status), ("signalled", -9, 137),
        "a signal is told as a shell tells it")


@test
def nothing_to_start(certs):
    b = Alone()
    yield b
    b.start()
    printed, m, status = b.run(argv=["/no/such/program"])
    is_((m["cause"], m["status"], status), ("refused", 127, 127), "refused")
    ok(b"/no/such/program" in printed and b.shown == printed,
       f"and why is in the log: {printed}")


@test
def binary(certs):
    """Every byte there is, and lines without an end."""
    b = Alone()
    yield b
    b.start()
    want = bytes(range(256)) * 400 + b"\xff\xfe\x00\xc3"
    with open(b.dir + "/bytes", "wb") as f:
        f.write(want)
    printed, _, _ = b.run(run=f"cat {b.dir}/bytes")
    ok(printed == want, "as it was printed")
    ok(b.shown == want, "on standard output, too")


def pattern(n):
    return b"".join(b"%15d\n" % i for i in range(n // 16))


@test
def much(certs):
    """50 MiB, of which all is kept."""
    b = Alone()
    yield b
    b.start()
    want = pattern(50 * MIB)
    with open(b.dir + "/bytes", "wb") as f:
        f.write(want)
    printed, _, _ = b.run(run=f"cat {b.dir}/bytes", log_bytes=128 * MIB)
    ok(printed == want, "whole and in order")
    ok(b.shown == want, "on standard output, too")


def right(parts, want):
    """Each stretch is what was printed there."""
    return all(want[at:at + len(data)] == data for at, data in parts)


@test
def too_much(certs):
    """50 MiB while home hears nothing: what is kept is bounded."""
    b = Alone()
    yield b
    b.start()
    want = pattern(50 * MIB)
    with open(b.dir + "/bytes", "wb") as f:
        f.write(want)
    b.go(run=f"cat {b.dir}/bytes; touch {b.dir}/done", log_bytes=2 * MIB)
    wait_for(lambda: os.path.exists(b.dir + "/done"), "its end")
    ok(True, "the task was not held up")
    wait_for(lambda: b.fact(KEY, "exit", b.gen), "its report")
    parts = []
    first = [m for m in b.home.flush() if m["t"] == "output"]
    while sum(len(data_of(m)) for m in first) < MIB and \
            (m := b.home.read(0.5)):
        first.append(m)
    for m in first:
        put(parts, m)
    ok(0 < sum(len(data_of(m)) for m in first) <= MIB,
       "no more than 1 MiB is on its way")
    b.heard(first[-1]["offset"] + len(data_of(first[-1])))
    more, m = b.listen()
    parts += more
    ok(right(parts, want), "what came is right")
    at, data = parts[-1]
    ok(at + len(data) == len(want) and len(data) >= MIB,
       "the newest came to the end")
    ok(at > 2 * MIB, "after a gap")
    is_(m["status"], 0, "and then its end")
    is_(b.quit(), 0, "all is well")


@test
def deaf(certs):
    """Home takes what was printed and never says that it heard."""
    b = Alone()
    yield b
    b.start()
    b.go(run="yes | head -c 3000000", log_bytes=8 * MIB)
    began = time.monotonic()
    _, m = b.listen(hears=False)
    ok(time.monotonic() - began >= 9, "it has some time to")
    is_(m["status"], 0, "then the end is told all the same")
    is_(b.quit(), 0, "and that is it")


@test
def hung_up(certs):
    """Home goes in the middle, and hears again from where it heard."""
    b = Alone(certs=certs)
    yield b
    b.start()
    b.go(run=f"seq 1 100000; while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "seq 100001 200000", log_bytes=8 * MIB)
    m = b.home.wait("output")
    parts = []
    put(parts, m)
    heard = len(data_of(m)) - 10
    b.heard(heard)
    b.home.send(t="ping")
    while (m := b.home.read())["t"] != "pong":
        if m["t"] == "output":
            put(parts, m)
    b.home.away()
    open(b.dir + "/go", "w").close()
    wait_for(lambda: b.fact(KEY, "exit", b.gen), "exit")
    hello = b.home.back()
    is_([x["state"] for x in hello["leases"]], ["ended"], "it ended meanwhile")
    first = b.home.wait("output")
    is_(first["offset"], heard, "told again from what was heard")
    b.heard(10**9)                     # more than was ever sent
    put(parts, first)
    more, m = b.listen()
    for at, data in more:
        put(parts, {"offset": at, "data": base64.b64encode(data)})
    want = "".join(f"{i}\n" for i in range(1, 200001)).encode()
    ok(right(parts, want) and parts[-1][0] + len(parts[-1][1]) == len(want),
       "to the end")
    is_(m["status"], 0, "then its end")
    is_(b.quit(), 0, "all is well")


@test
def away(certs):
    """It ends while home is away, and home comes back."""
    b = Alone()
    yield b
    b.start()
    b.go(run=f"echo before; while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "echo after; exit 4")
    is_(data_of(b.home.wait("output")), b"before\n", "soon, and not at its end")
    b.home.away()
    open(b.dir + "/go", "w").close()
    wait_for(lambda: b.fact(KEY, "exit", b.gen), "exit")
    time.sleep(0.2)
    ok(b.proc.poll() is None, "it waits for home")
    b.home.back()
    parts, m = b.listen()
    is_((joined(parts), m["status"]), (b"before\nafter\n", 4),
        "all of it, and then its end")
    b.home.away()
    b.home.back()
    is_(b.listen()[1]["status"], 4, "told again until it is acknowledged")
    is_(b.quit(), 4, "all is well")


@test
def unread(certs):
    """Nobody reads standard output."""
    b = Alone()
    yield b
    b.start(reads=False)
    b.go(run="yes | head -c 1000000; echo over", log_bytes=4 * MIB)
    parts, m = b.listen()
    ok(joined(parts).endswith(b"over\n") and m["status"] == 0,
       "the task was not held up")
    began = time.monotonic()
    b.ack()
    b.home.send(t="quit")
    is_(b.status(), 0, "it ends")
    ok(time.monotonic() - began >= 2.5, "after waiting for a reader")


@test
def slowly_read(certs):
    """Who reads late has all that is kept."""
    b = Alone()
    yield b
    b.start(reads=False)
    b.go(run="seq 1 100000", log_bytes=4 * MIB)
    parts, m = b.listen()
    b.reader = threading.Thread(target=b.show)
    b.reader.start()
    b.wait_shown(len(joined(parts)))
    ok(b.shown == joined(parts), "when it ended long ago")
    is_(b.quit(), 0, "then it ends")


@test
def closed(certs):
    """Who read standard output has gone."""
    b = Alone()
    yield b
    b.start(reads=False)
    b.proc.stdout.close()
    b.go(run="seq 1 100000", log_bytes=4 * MIB)
    parts, m = b.listen()
    is_((len(joined(parts)), m["status"]), (588895, 0), "all is well")
    is_(b.quit(), 0, "to the end")
    b.proc.stdout = None


@test
def into_a_file(certs):
    """Standard output is a file."""
    b = Alone()
    yield b
    with open(b.dir + "/out", "wb") as f:
        b.start(into=f)
    printed, _, _ = b.run(run="seq 1 500000", log_bytes=16 * MIB)
    ok(read(b.dir + "/out", "rb") == printed, "all of it is there")


# The needle itself is written nowhere.
LOOK = """
needle=$(printf 't%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
look() {
  (exec 3<$1/mem) 2>/dev/null && echo "opened its memory"
  for f in environ maps auxv fd/3 fd/4 fd/5 fd/6 fd/7; do
    cat $1/$f >/dev/null 2>&1 && echo "read $f"
  done
  readlink $1/fd/[0-9]* >/dev/null 2>&1 && echo "followed"
}
look /proc/$RUNNER
for p in /proc/[0-9]*; do
  [ "$(cat $p/comm 2>/dev/null)" = weir-keeper ] || continue
  grep -qs "PPid:.$RUNNER" $p/status || continue
  echo keeper
  look $p
done
env | grep -c $needle
grep -rl $needle "$FOLDER" 2>/dev/null
echo looked
"""


@test
def secrets(certs):
    """Token and authority are nowhere for the task to find."""
    b = Alone(certs=certs)
    yield b
    if os.geteuid() != 0:
        TAP.skip("secrets", "only root can be another user")
        return
    b.own(NOBODY)
    hide(b, NOBODY)


@test
def secrets_of_root(certs):
    """Nor for root as containers have it."""
    b = Alone(certs=certs)
    yield b
    if os.geteuid() != 0:
        TAP.skip("secrets of root", "we are not root")
        return
    b.prefix = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    hide(b, 0)


def hide(b, uid):
    hello = b.start()
    is_(hello["token"], TOKEN, "let in")
    ok(not os.path.exists(b.dir + "/token") and not os.path.exists(b.ca),
       "their files are gone")
    b.home.away()
    b.home.listen()
    is_(b.home.accept()["token"], TOKEN, "it dials again without them")
    printed, _, _ = b.run(
        run="id -u; " + LOOK, user={"name": "", "uid": uid, "gid": uid},
        env={"RUNNER": str(b.proc.pid), "FOLDER": b.dir})
    is_(printed.decode().split("\n"), [str(uid), "keeper", "0", "looked", ""],
        "nothing can be read")


@test
def not_removable(certs):
    """A token whose file stays is one that the task can read: no start."""
    b = Alone()
    yield b
    if os.geteuid() != 0:
        TAP.skip("not removable", "only root can be another user")
        return
    b.own(NOBODY)
    os.chown(b.dir, 0, 0)
    os.chown(b.dir + "/token", NOBODY, NOBODY)
    b.start(accept=False)
    is_(b.status(), 1, "it ends")


@test
def other_lease(certs):
    """Nothing is done for a lease that is another's."""
    b = Alone()
    yield b
    b.start()
    task = {"name": "t", "workload": "w7", "tenant": "me",
            "run": f"touch {b.dir}/wrong"}
    for wrong in ({"key": "w7/2.0"}, {"gen": 4}, {"epoch": b.epoch + 1}):
        lease = {**b.lease(), **wrong}
        b.home.send(t="order", task=task, **lease)
        b.home.send(t="grant", ok=True, **lease)
        b.home.send(t="stop", **lease)
        said = b.home.flush()
        is_([m["t"] for m in said], ["error"] * 3, f"refused: {wrong}")
        ok("its own lease" in said[0]["text"], said[0]["text"])
    is_(b.run(run="exit 5")[2], 5, "its own is done")
    ok(not os.path.exists(b.dir + "/wrong"), "the other was not")


@test
def environment(certs):
    """What the container has is the task's, the order's is on top."""
    b = Alone()
    yield b
    b.env = {"PATH": os.environ["PATH"], "IMAGE": "a=b", "BOTH": "image",
             "HOME": "/image/home", "WEIR_RANK": "99", "EMPTY": "",
             "CUDA_VISIBLE_DEVICES": "GPU-7,GPU-9",
             "NVIDIA_VISIBLE_DEVICES": "GPU-7,GPU-9"}
    b.folder = b.dir + "/work"
    os.mkdir(b.folder)
    b.start()
    printed, _, _ = b.run(run="pwd; env", devices=[4, 5], rank=1, ranks=2,
                          env={"BOTH": "order", "OWN": "1",
                               "CUDA_VISIBLE_DEVICES": "0"},
                          rendezvous="10.0.0.1:2", memory=64 * MIB)
    lines = printed.decode().splitlines()
    env = dict(x.split("=", 1) for x in lines[1:])
    is_(lines[0], b.folder, "the folder it was started in")
    is_({k: env.get(k) for k in ("IMAGE", "BOTH", "OWN", "HOME", "EMPTY",
                                 "WEIR_RANK", "WEIR_RENDEZVOUS",
                                 "CUDA_VISIBLE_DEVICES",
                                 "NVIDIA_VISIBLE_DEVICES")},
        {"IMAGE": "a=b", "BOTH": "order", "OWN": "1", "HOME": "/image/home",
         "EMPTY": "", "WEIR_RANK": "1", "WEIR_RENDEZVOUS": "10.0.0.1:2",
         "CUDA_VISIBLE_DEVICES": "GPU-7,GPU-9",
         "NVIDIA_VISIBLE_DEVICES": "GPU-7,GPU-9"}, "the environment")


@test
def environment_without(certs):
    """Devices that the container does not name are counted."""
    b = Alone()
    yield b
    b.start()
    printed, _, _ = b.run(
        run="echo $CUDA_VISIBLE_DEVICES; pwd; ulimit -d; ulimit -v",
        devices=[4, 5], dir="/usr/lib", memory=64 * MIB, nodes="leased",
        gate={"state": "active", "devices": ["GPU-4", "GPU-5"]})
    is_(printed.decode().split(), ["0,1", "/usr/lib", "unlimited",
                                   "unlimited"],
        "devices, the order's folder, and no limit of our own")


@test
def no_devices(certs):
    """An image may name devices; a task without one sees none."""
    b = Alone()
    yield b
    b.env["CUDA_VISIBLE_DEVICES"] = "all"
    b.start()
    printed, _, _ = b.run(run='echo "<$CUDA_VISIBLE_DEVICES>"')
    is_(printed, b"<>\n", "none")


@test
def other_user(certs):
    """Who is not root cannot become another."""
    b = Alone()
    yield b
    if os.geteuid() != 0:
        TAP.skip("other user", "only root can be another user")
        return
    b.own(NOBODY)
    b.start()
    printed, m, status = b.run(run="id -u", user={
        "name": "", "uid": NOBODY, "gid": NOBODY - 1})
    is_((m["cause"], status), ("refused", 126), "refused")
    ok(b"as user" in printed, printed)


@test
def as_root(certs):
    """Root can."""
    b = Alone()
    yield b
    if os.geteuid() != 0:
        TAP.skip("as root", "we are not root")
        return
    os.chmod(b.dir, 0o755)
    b.start()
    is_(b.run(run="id -u; id -g", user={
        "name": "", "uid": NOBODY, "gid": NOBODY})[0],
        b"65534\n65534\n", "it is that user")


TRAP = "trap 'echo got; sleep 0.1; exit 3' USR1; echo ready; " \
       "while :; do sleep 0.02; done"


@test
def sigterm(certs):
    """The container is to end: the task is stopped as its order says."""
    b = Alone()
    yield b
    b.start()
    b.go(run=TRAP, stop={"signal": int(signal.SIGUSR1), "grace_ms": 60000})
    is_(data_of(b.home.wait("output")), b"ready\n", "it runs")
    b.proc.send_signal(signal.SIGTERM)
    parts, m = b.listen()
    ok(parts[0][1].endswith(b"got\n"), "by its signal")
    is_((m["cause"], m["status"]), ("deleted", 3), "home hears why")
    ok(b.proc.poll() is None, "it waits for home")
    b.ack()
    is_(b.status(), 3, "and ends")


@test
def sigterm_command(certs):
    b = Alone()
    yield b
    b.start()
    b.go(run="trap 'echo wrong' TERM; echo ready; "
         "while :; do sleep 0.02; done",
         stop={"command": "echo command; kill -KILL $WEIR_PID",
               "grace_ms": 60000})
    is_(data_of(b.home.wait("output")), b"ready\n", "it runs")
    b.proc.send_signal(signal.SIGTERM)
    parts, m = b.listen()
    is_((bytes(parts[0][1]), m["status"]), (b"command\n", -9), "by its command")
    b.ack()
    is_(b.status(), 137, "and ends")


@test
def other_signals(certs):
    """An image may say with which signal it wants to be stopped."""
    b = Alone()
    yield b
    b.start()
    b.go(run="trap 'echo got' TERM; trap '' INT QUIT HUP; echo ready; "
         "while :; do sleep 0.02; done", stop={"grace_ms": 500})
    b.home.wait("output")
    b.proc.send_signal(signal.SIGQUIT)
    b.proc.send_signal(signal.SIGINT)
    parts, m = b.listen()
    ok(parts[0][1].endswith(b"got\n") and b"got\ngot" not in parts[0][1],
       "the task has its own, once")
    is_((m["cause"], m["status"]), ("deleted", -9), "and ends")
    b.ack()
    is_(b.status(), 137, "so does it")


@test
def quit_early(certs):
    """Home says quit while it runs: it hears the end all the same."""
    b = Alone()
    yield b
    b.start()
    b.go(run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done; "
         "yes | head -c 3000000; exit 5", log_bytes=8 * MIB)
    b.home.wait("started")
    b.home.send(t="quit")
    b.home.flush()
    open(b.dir + "/go", "w").close()
    parts, m = b.listen()
    is_((len(joined(parts)), m["status"]), (3000000, 5), "all of it")
    b.ack()
    is_(b.status(), 5, "then it ends")


@test
def sigterm_grace(certs):
    """A task that does not go is ended, also while home is away."""
    b = Alone()
    yield b
    b.start()
    b.go(run="trap '' TERM; echo ready; while :; do sleep 0.02; done",
         stop={"grace_ms": 300})
    b.home.wait("output")
    b.home.away()
    b.proc.send_signal(signal.SIGTERM)
    is_(b.status(), 137, "after its grace")
    ok(not b.processes(), "nothing is left")


@test
def sigterm_stopped(certs):
    """Home has said stop before: that is why it ends."""
    b = Alone()
    yield b
    b.start()
    b.go(run="trap 'sleep 0.3; exit 6' TERM; echo ready; "
         "while :; do sleep 0.02; done")
    b.home.wait("output")
    b.stop(grace_ms=60000)
    b.home.flush()
    b.proc.send_signal(signal.SIGTERM)
    _, m = b.listen()
    is_((m["cause"], m["status"]), ("failed", 6), "home's stop")
    b.ack()
    is_(b.status(), 6, "it ends")


@test
def sigterm_unstarted(certs):
    """Before anything ran."""
    b = Alone()
    yield b
    b.start()
    b.order(KEY, b.gen)
    b.home.wait("claim")
    b.proc.send_signal(signal.SIGTERM)
    m = b.home.wait("ended")
    is_((m["cause"], m["started"]), ("deleted", 0), "told")
    b.order(KEY, b.gen)
    b.ack()
    is_(b.status(), 1, "nothing ran")


@test
def nothing_ran(certs):
    """Told to end, or to quit, before there was an order."""
    b = Alone()
    yield b
    b.start()
    b.home.send(t="quit")
    is_((b.status(), b.shown), (1, b"weir: no task ran here\n"), "quit")
    with open(b.dir + "/token", "w", encoding="ascii") as f:
        f.write(TOKEN)
    b.start()
    b.proc.send_signal(signal.SIGTERM)
    is_(b.status(), 1, "SIGTERM")


@test
def idle(certs):
    """Home is away for long, and nothing runs."""
    b = Alone("--idle", "2s")
    yield b
    b.home.away()
    b.start(accept=False)
    is_(b.status(), 1, "nothing ran")
    ok(b.shown.startswith(b"weir: no task ran here: home is away: "), b.shown)


@test
def idle_ended(certs):
    b = Alone("--idle", "2s")
    yield b
    b.start()
    b.go(run=f"echo yes; while [ ! -e {b.dir}/go ]; do sleep 0.02; done; exit 9")
    b.home.wait("output")
    b.home.away()
    time.sleep(3)
    ok(b.proc.poll() is None, "what runs, runs on")
    open(b.dir + "/go", "w").close()
    is_((b.status(), b.shown), (9, b"yes\n"), "the task's status")


@test
def goes_together(certs):
    """A runner that is killed takes its task along."""
    b = Alone()
    yield b
    b.start()
    b.go(run="echo $$; sleep 600")
    pid = int(data_of(b.home.wait("output")))
    b.kill()
    wait_for(lambda: not alive(pid), "the end of its task")
    ok(True, "the task is gone")


@test
def progress(certs):
    """How far it is comes home without a watch on files."""
    b = Alone()
    yield b
    b.start()
    b.go(run=f"echo '0.5 loss=2' >&3; while [ ! -e {b.dir}/go ]; do "
         "sleep 0.02; done")
    m = b.home.wait("progress")
    is_(m["said"], {"progress": 0.5, "metrics": {"loss": 2}}, "told")
    links = [os.readlink(f"/proc/{b.proc.pid}/fd/{fd}")
             for fd in os.listdir(f"/proc/{b.proc.pid}/fd")]
    ok(not any("inotify" in x for x in links), "inotify is scarce on a node")
    open(b.dir + "/go", "w").close()
    b.listen()
    is_(b.quit(), 0, "all is well")


@test
def as_init(certs):
    """As the first process of a container, orphans and all."""
    b = Alone()
    yield b
    if os.geteuid() != 0:
        TAP.skip("as init", "only root can make a container")
        return
    b.prefix = ["unshare", "--pid", "--fork", "--mount-proc"]
    b.start()
    b.go(run="(setsid sleep 600 & ) ; echo $PPID; trap 'exit 2' TERM; "
         "while :; do sleep 0.02; done")
    ok(int(data_of(b.home.wait("output"))) < 10, "in its own namespace")
    kids = read(f"/proc/{b.proc.pid}/task/{b.proc.pid}/children").split()
    os.kill(int(kids[0]), signal.SIGTERM)
    _, m = b.listen()
    is_((m["cause"], m["status"]), ("deleted", 2), "it hears SIGTERM")
    b.ack()
    is_(b.status(), 2, "and ends")
    ok(not b.processes(), "nothing is left")


def memory_group():
    """(a new group of our own, its limit's file), or None."""
    for line in read("/proc/self/mounts").splitlines():
        _, point, kind, options = line.split()[:4]
        one = kind == "cgroup" and "memory" in options.split(",")
        two = kind == "cgroup2" and "memory" in (
            read(point + "/cgroup.subtree_control") or "").split()
        if not one and not two:
            continue
        path = f"{point}/weir-alone-{os.getpid()}"
        with contextlib.suppress(OSError):
            os.mkdir(path)
            return path, "memory.limit_in_bytes" if one else "memory.max"
    return None


EATER = "import os; x = bytearray(400 << 20); print(len(x))"


@test
def out_of_memory(certs):
    """The container's limit kills the task: that is its memory."""
    b = Alone()
    yield b
    group = memory_group()
    if not group:
        TAP.skip("out of memory", "no control group can be made here")
        return
    path, limit = group
    try:
        with open(f"{path}/{limit}", "w", encoding="ascii") as f:
            f.write(str(100 * MIB))
        for swap, value in (("memory.swap.max", 0),
                            ("memory.memsw.limit_in_bytes", 100 * MIB)):
            with contextlib.suppress(OSError):
                with open(f"{path}/{swap}", "r+", encoding="ascii") as f:
                    f.write(str(value))
        b.prefix = ["sh", "-c", f'echo $$ >{path}/cgroup.procs; exec "$@"',
                    "sh"]
        b.start()
        _, m, status = b.run(argv=[sys.executable, "-c", EATER])
        is_((m["cause"], m["status"], status), ("memory", -9, 137), "told")
    finally:
        if b.proc and b.proc.poll() is None:
            b.kill()
        wait_for(lambda: not read(path + "/cgroup.procs"), "an empty group")
        os.rmdir(path)


@test
def usage(certs):
    """What makes no sense is refused before anything is done."""
    b = Alone()
    yield b
    for args, words in (
            (["--block", "lab/n1", "--alone"], "names no lease"),
            (["--block", b.block], "--alone is needed"),
            (["--block", "a b", "--alone"], "is no name"),
            (["--block", b.block, "--alone", "--address", "here"],
             "is no address")):
        p = subprocess.run(
            [runner_test.RUNNER, *args, "--home", b.home.path, "--dir", b.state,
             "--token-file", b.dir + "/token"], capture_output=True, text=True,
            check=False, timeout=PATIENCE)
        ok(p.returncode == 2 and words in p.stderr, p.stderr.strip())
    ok(os.path.exists(b.dir + "/token"), "the token is left")


def run(f, certs):
    print(f"# {f.__name__}: {f.__doc__ or ''}", flush=True)
    body = f(certs)
    b = next(body)
    try:
        next(body, None)
    except Exception as e:             # a broken test is a failed one
        ok(False, f"{f.__name__}: {type(e).__name__}: {e}")
        for line in traceback.format_exc().splitlines():
            print("# " + line)
        for line in (read(b.state + "/runner.log") or "").splitlines()[-20:]:
            print("# runner: " + json.dumps(line))
    finally:
        b.clean()


def main():
    certs = Certs()
    try:
        for f in TESTS:
            if not runner_test.ONLY or f.__name__ in runner_test.ONLY:
                run(f, certs)
    finally:
        shutil.rmtree(certs.folder)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""A runner that dials home over TLS, through a network that does its worst.

The real programs: `weir up --runners`, and as its runner the real one with the
way home exchanged.  Between the two stands a proxy that drops, holds, delays,
truncates and garbles.  Whatever it does, every task runs once for each of its
attempts, all of them end, and home and its other guests feel nothing.

    tests/dialhome.py [--seconds N] [--seed N]
"""
import argparse
import contextlib
import json
import os
import random
import socket
import subprocess
import threading
import time

import weirtest
from weirtest import BUILD, Weir, until

TASKS = 8                       # of each workload
FAR = """#!/bin/sh
# weir-runner, with the way home that a runner on another machine has.
n=$# last=
while [ "$n" -gt 0 ]; do
    word=$1
    shift
    if [ "$last" = --home ]; then
        set -- "$@" tls://127.0.0.1:{port} --home-ca {state}/tls/ca.pem
    else
        set -- "$@" "$word"
    fi
    last=$word
    n=$((n - 1))
done
exec {runner} "$@"
"""


class Proxy:
    """A network between two ports of this machine.  `mode` is how it is:

    pass, delay, hold (nothing arrives, nothing is lost), truncate (half of
    what comes, then the end), garble (a wrong byte now and then), refuse.
    """

    def __init__(self, to, seed):
        self.to = to
        self.mode = "pass"
        self.random = random.Random(seed)
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.count = 0
        self._thread(self._accept)

    @staticmethod
    def _thread(f, *args):
        threading.Thread(target=f, args=args, daemon=True).start()

    def _accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.mode == "refuse":
                    raise OSError("refused")
                far = socket.create_connection(("127.0.0.1", self.to), 5)
                far.settimeout(None)
            except OSError:
                near.close()
                continue
            self.count += 1
            with self.lock:
                self.pairs.append((near, far))
            self._thread(self._pump, near, far)
            self._thread(self._pump, far, near)

    def _worsen(self, data):
        """What becomes of some bytes; None: the end, after the first half."""
        while self.mode == "hold":
            time.sleep(0.01)
        if self.mode == "delay":
            time.sleep(self.random.uniform(0, 0.05))
        if self.mode == "garble" and self.random.random() < 0.3:
            data = bytearray(data)
            data[self.random.randrange(len(data))] ^= 1 << \
                self.random.randrange(8)
        return data

    def _pump(self, source, sink):
        with contextlib.suppress(OSError):
            while True:
                data = source.recv(65536)
                if not data:
                    break
                data = self._worsen(data)
                if self.mode == "truncate" and self.random.random() < 0.3:
                    sink.sendall(data[:len(data) // 2])
                    break
                sink.sendall(data)
        self._shut(source)
        self._shut(sink)

    @staticmethod
    def _shut(s):
        with contextlib.suppress(OSError):
            s.shutdown(socket.SHUT_RDWR)

    def cut(self, far=True):
        """End all connections; without `far` home's side does not hear."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for near, other in pairs:
            if far:
                self._shut(other)
            self._shut(near)

    def lose(self):
        """The runner's side ends, and home's stays open without a word."""
        with self.lock:
            pairs, self.pairs = self.pairs, []
        kept = []
        for near, far in pairs:
            kept.append(far.dup())
            near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                            b"\1\0\0\0\0\0\0\0")
        # The pumps would tell the other side: they are given another socket.
        for near, far in pairs:
            dead, other = socket.socketpair()
            os.dup2(dead.fileno(), far.fileno())
            dead.close()
            other.close()
            self._shut(near)
        return kept

    def close(self):
        self.listener.close()
        self.cut()


class Far(Weir):
    """A control plane whose only runner comes through the proxy."""

    def __init__(self, seed):
        super().__init__()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.proxy = Proxy(self.port, seed)
        runner = os.path.join(self.folder, "far-runner")
        with open(runner, "w", encoding="ascii") as f:
            f.write(FAR.format(port=self.proxy.port, state=self.state,
                               runner=os.path.join(BUILD, "weir-runner")))
        os.chmod(runner, 0o755)
        self.marks = os.path.join(self.folder, "marks")
        self.args = ["--runners", f"127.0.0.1:{self.port}", "--runner", runner,
                     "--log-format", "json"]

    def end(self):
        self.proxy.close()
        super().end()

    def said(self, text):
        with open(self.log, encoding="utf-8") as f:
            lines = [json.loads(x) for x in f if x.startswith("{")]
        return [x for x in lines if x["message"] == text]

    def submit(self, n, seconds=0.0):
        """A workload of TASKS tasks, each of which leaves a mark."""
        run = (f"echo $WEIR_WORKLOAD/$WEIR_TASK#$WEIR_ATTEMPT >> {self.marks};"
               f" sleep {seconds}")
        doc = {"weir": 1, "kind": "pipeline", "name": f"far-{n}", "tasks": {
            f"t{i}": {"run": run, "cpus": 0.1} for i in range(TASKS)}}
        r = self.client.submit(doc, key=f"far-{n}")
        if r.status not in (200, 201):
            raise RuntimeError(str(r))
        return r.json["id"]

    def marked(self):
        return weirtest.read_text(self.marks).split()

    def judge(self, tap, workloads, what):
        """All ended well, and nothing ran twice."""
        for w in workloads:
            self.client.wait(w)
        tasks = {f"{w}/{t['task']}": t for w in workloads
                 for t in self.client.tasks(w)}
        bad = {k: t for k, t in tasks.items()
               if t["state"] != "ended" or t.get("outcome") != "succeeded"}
        tap.equal(bad, {}, f"{what}: all of {len(tasks)} ended well")
        marks = self.marked()
        twice = sorted({m for m in marks if marks.count(m) > 1})
        tap.none(twice, f"{what}: no attempt ran twice")
        ran = {m.rsplit("#", 1)[0] for m in marks}
        tap.none(sorted(set(tasks) - ran), f"{what}: each ran")


def test_works(tap, w):
    ids = [w.submit(n) for n in range(3)]
    w.judge(tap, ids, "a good network")
    tap.ok(w.proxy.count >= 1, "through the proxy")
    url = w.said("runners may dial in")[0]
    tap.equal(url["url"], f"tls://127.0.0.1:{w.port}", "and it was said where")
    mode = os.stat(w.state + "/tls/ca.key").st_mode & 0o777
    tap.equal(mode, 0o600, "the authority's key is its owner's")


def test_chaos(tap, w, seconds, rng):
    """Everything at once, with home and runner killed in between."""
    ids, n = [], 10
    end = time.monotonic() + seconds
    kills = [end - seconds * 0.6, end - seconds * 0.3]
    while time.monotonic() < end:
        w.proxy.mode = rng.choice(["pass", "delay", "hold", "truncate",
                                   "garble", "garble", "refuse"])
        ids.append(w.submit(n, rng.choice([0, 0, 0.2])))
        n += 1
        time.sleep(rng.uniform(0.05, 0.4))
        if rng.random() < 0.3:
            w.proxy.cut()
        if kills and time.monotonic() > kills[0]:
            kills.pop(0)
            if kills:
                w.kill()
                w.start()
            else:
                runner = w.runner()
                if runner:
                    os.kill(runner.pid, 9)
    w.proxy.mode = "pass"
    w.proxy.cut()
    w.judge(tap, ids, f"chaos, {w.proxy.count} connections")


def test_lost(tap, w):
    """The runner's side of a connection is gone and home does not know."""
    slow = w.submit(1000, 2)
    until(lambda: len([m for m in w.marked() if m.startswith(slow + "/")])
          == TASKS, "all to run")
    before = len(w.said("a runner is here"))
    kept = w.proxy.lose()
    until(lambda: len(w.said("a runner is here")) > before,
          "the runner to be let in again", 30)
    tap.ok(True, "a connection that is lost makes room for the next")
    w.judge(tap, [slow], "over a lost connection")
    for s in kept:
        s.close()


def most_lines(begun):
    """About who was not let in, since then: 10 within 10 seconds."""
    return 10 * (2 + (time.monotonic() - begun) // 10)


def rubbish(w):
    for said in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4096,
                 b"\x16\x03\x01\x02\x00\x01\x00"):
        with socket.create_connection(("127.0.0.1", w.port)) as s:
            s.sendall(said)
            s.settimeout(0.3)
            with contextlib.suppress(OSError):
                s.recv(100)


def test_guests(tap, w):
    """Others that come to the same port."""
    def told():
        return w.said("a runner was not let in")[before:]

    begun = time.monotonic()
    before = len(w.said("a runner was not let in"))
    silent = [socket.create_connection(("127.0.0.1", w.port))
              for _ in range(200)]
    # What came before may have used up the lines of these ten seconds.
    until(lambda: rubbish(w) or len(told()) >= 3, "lines about rubbish")
    ids = [w.submit(2000 + n) for n in range(3)]
    w.judge(tap, ids, "with 200 who say nothing")
    why = " ".join(x["why"] for x in told())
    tap.ok("TLS" in why and len(told()) <= most_lines(begun),
           f"{len(told())} lines for all of them")
    for s in silent:
        s.close()


def test_token(tap, w):
    """Another runner for this block, without its token."""
    folder = os.path.join(w.folder, "other")
    os.mkdir(folder, 0o700)
    token = os.path.join(w.folder, "wrong")
    with open(token, "w", encoding="ascii") as f:
        f.write("0" * 48 + "\n")
    begun = time.monotonic()
    before = len(w.said("a runner was not let in"))
    p = subprocess.Popen(
        [os.path.join(BUILD, "weir-runner"), "--block", "local", "--home",
         f"tls://127.0.0.1:{w.port}", "--home-ca", w.state + "/tls/ca.pem",
         "--dir", folder, "--token-file", token, "--idle", "12s"])
    tap.equal(p.wait(60), 0, "it ends by itself: home does not have it")
    said = weirtest.read_text(folder + "/runner.log").splitlines()
    said = [x for x in said if "not its token" in x]
    tap.equal(len(said), 1, "it said why, once")
    lines = w.said("a runner was not let in")[before:]
    tap.ok(any("token" in x["why"] for x in lines) and
           len(lines) <= most_lines(begun), f"so did home: {len(lines)} lines")
    ids = [w.submit(3000)]
    w.judge(tap, ids, "beside a stranger")


def test_default(tap):
    """Told nothing, nothing listens; port 0 is any, and is said."""
    with Weir(args=["--log-format", "json"]) as w:
        w.start()
        with open("/proc/net/tcp", encoding="ascii") as f:
            listening = {x.split()[9] for x in f.readlines()[1:]
                         if x.split()[3] == "0A"}
        mine = set()
        for name in os.listdir(f"/proc/{w.proc.pid}/fd"):
            with contextlib.suppress(OSError):
                link = os.readlink(f"/proc/{w.proc.pid}/fd/{name}")
                mine.add(link.removeprefix("socket:[").rstrip("]"))
        tap.ok(not listening & mine, "nothing listens on the network")
        tap.ok(not os.path.exists(w.state + "/tls"), "and has no certificate")
        w.stop()
    with Weir(args=["--runners", "0.0.0.0:0", "--runners-url",
                    "tls://weir.example:8444", "--log-format", "json"]) as w:
        w.start()
        with open(w.log, encoding="utf-8") as f:
            tap.ok("tls://weir.example:8444" in f.read(), "the URL as given")
        w.stop()
    for args, why in ((["--runners", "0.0.0.0:0"], "--runners-url"),
                      (["--runners", "[::0]:0"], "--runners-url"),
                      (["--runners", "[::ffff:0.0.0.0]:0"], "--runners-url"),
                      (["--runners", "0:0"], "whole address"),
                      (["--runners", "127.1:0"], "whole address"),
                      (["--runners", "127.0.0.1:65537"], "0 to 65535"),
                      (["--runners", "127.0.0.1:0", "--runners-url",
                        "tls://0.0.0.0:1"], "no address to dial"),
                      (["--runners-url", "tls://a:1"], "--runners"),
                      (["--runners", "nowhere"], "ADDRESS:PORT"),
                      (["--runners", "127.0.0.1:0", "--runners-url", "x"],
                       "tls://HOST:PORT")):
        with Weir(args=args) as w:
            w.start(wait=False)
            tap.equal(w.proc.wait(60), 2, f"{args}: usage")
            tap.ok(why in w.tail(), w.tail().strip())


def main(tap):
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=float, default=20)
    p.add_argument("--seed", type=int, default=random.randrange(10 ** 6))
    a = p.parse_args()
    tap.note(f"seed {a.seed}")
    rng = random.Random(a.seed)
    with Far(a.seed) as w:
        w.start()
        test_works(tap, w)
        test_chaos(tap, w, a.seconds, rng)
        test_lost(tap, w)
        test_guests(tap, w)
        test_token(tap, w)
        tap.equal(w.faults(), [], "no word of a sanitizer")
        w.settled()
        tap.equal(w.stop(), 0, "the end of it")
        tap.none(w.wait_alone(60), "no process is left")
    test_default(tap)


weirtest.main(main)

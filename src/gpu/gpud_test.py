#!/usr/bin/env python3
"""weir-gpud against the stand-in for the driver (TAP).

Usage: gpud_test.py WEIR_GPUD FOLDER, where the stand-ins are in FOLDER
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "tests"))
from gpudwire import receive, send  # noqa: E402
from tap import Tap  # noqa: E402

GPUD = sys.argv[1]
STANDIN = sys.argv[2]
PATIENCE = 60           # seconds; reached only when something is broken
TAP = Tap()
ok = TAP.ok
is_ = TAP.equal


class Node:
    """A folder of the stand-in, and the daemon that looks at it."""

    def __init__(self, devices=2):
        self.dir = tempfile.mkdtemp(prefix="weir-gpud-")
        self.socket = self.dir + "/gpud.sock"
        self.env = dict(os.environ, WEIR_STANDIN=self.dir,
                        LD_LIBRARY_PATH=STANDIN)
        self.daemon = None
        self.left = None                # was the socket there at the end?
        self.driver("version=580.159.04\ncuda=13000\n")
        for i in range(devices):
            self.gpu(i)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path + ".new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(path + ".new", path)

    def driver(self, text):
        if text is None:
            os.unlink(self.dir + "/driver")
        else:
            self.write("driver", text)

    def gpu(self, i, more=""):
        self.write(f"gpu{i}", f"uuid=GPU-{i}\nmodel=NVIDIA H200\ncc=9.0\n"
                   f"memory=150754820096\ntemperature=30\npower=70000\n{more}")

    def once(self, *args, env=None):
        return subprocess.run([GPUD, "--once", *args], env=env or self.env,
                              capture_output=True, text=True,
                              timeout=PATIENCE, check=False)

    def start(self, *args):
        with open(self.dir + "/log", "a", encoding="utf-8") as log:
            # Not a "with": it lives until end().
            self.daemon = subprocess.Popen(  # pylint: disable=R1732
                [GPUD, "--socket", self.socket, "--every", "100ms", *args],
                env=self.env, stderr=log)

    def log(self):
        with open(self.dir + "/log", encoding="utf-8") as f:
            return f.read()

    def end(self):
        status = None
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            status = self.daemon.wait(PATIENCE)
        self.left = os.path.exists(self.socket)
        shutil.rmtree(self.dir)
        return status


class Client:
    def __init__(self, path):
        end = time.monotonic() + PATIENCE
        while True:
            self.conn = socket.socket(socket.AF_UNIX)
            self.conn.settimeout(PATIENCE)
            try:
                self.conn.connect(path)
                break
            except (FileNotFoundError, ConnectionRefusedError):
                self.conn.close()
                if time.monotonic() > end:
                    raise
                time.sleep(0.01)

    def send(self, **message):
        send(self.conn, message)

    def read(self):
        return receive(self.conn)

    def ask(self, **message):
        self.send(**message)
        return self.read()

    def until(self, cond):
        """The first message for which it holds."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            m = self.read()
            if cond(m):
                return m
        raise TimeoutError

    def close(self):
        self.conn.close()


def test_once():
    n = Node()
    r = n.once()
    is_(r.returncode, 0, "--once")
    doc = json.loads(r.stdout)
    is_([d["uuid"] for d in doc["inventory"]["devices"]], ["GPU-0", "GPU-1"],
        "prints the devices")
    ok(doc["inventory"]["devices"][0]["model"].endswith("(simulated)"),
       "which say that they are simulated")
    is_(doc["sample"]["devices"][1]["power_milliwatts"], 70000,
        "and how they are")
    n.gpu(1, "lost=1\n")
    r = n.once()
    is_(r.returncode, 0, "with a lost device")
    is_(json.loads(r.stdout)["inventory"]["devices"][1]["state"], "lost",
        "it says which")
    ok("fell off the bus" in r.stderr, "and why", r.stderr)
    n.driver(None)
    r = n.once()
    is_((r.returncode, r.stdout, r.stderr.count("\n")), (4, "", 1),
        "without a driver: one line and 4")
    ok("not loaded" in r.stderr, r.stderr.strip())
    n.driver("version=1\ndenied=1\n")
    is_(n.once().returncode, 5, "without permission: 5")
    n.driver("version=1\nnvml=2\n")
    is_(n.once().returncode, 8, "with another driver's library: 8")
    n.driver("version=1\n")
    n.gpu(0, "slow_ms=3000\n")
    begun = time.monotonic()
    r = n.once("--stuck", "200ms")
    is_(r.returncode, 8, "with a driver that hangs: 8")
    ok("has not answered for 200 ms" in r.stderr, r.stderr.strip())
    ok(time.monotonic() - begun < 2.9, "in its time",
       time.monotonic() - begun)
    n.end()


def test_no_library():
    n = Node()
    env = dict(n.env)
    env.pop("LD_LIBRARY_PATH")
    r = n.once(env=env)
    if r.returncode == 0:
        TAP.skip("a node without the library", "this one has it")
    else:
        is_((r.returncode, r.stderr.count("\n")), (4, 1),
            "a node without the library: " + r.stderr.strip())
    n.end()


def test_old_library():
    n = Node()
    r = n.once(env=dict(n.env, LD_LIBRARY_PATH=STANDIN + "/old"))
    is_(r.returncode, 0, "a library that has only what it must")
    doc = json.loads(r.stdout)
    is_(sorted(doc["inventory"]["devices"][0]),
        ["index", "memory_bytes", "model", "near", "state", "uuid", "xids"],
        "tells what the devices are")
    ok(not doc["inventory"]["devices"][0]["xids"], "but no XIDs")
    is_(sorted(doc["sample"]["devices"][0]),
        ["at_ms", "index", "memory_free_bytes", "memory_used_bytes", "state",
         "uuid"], "and what memory is used")
    os.symlink(STANDIN + "/libcuda.so.1", n.dir + "/libnvidia-ml.so.1")
    r = n.once(env=dict(n.env, LD_LIBRARY_PATH=n.dir))
    is_(r.returncode, 8, "one that has not even that")
    ok("too old: it has no nvmlInit_v2" in r.stderr, r.stderr.strip())
    n.end()


def test_usage():
    for args in ([], ["--once", "--socket", "x"], ["--mode", "0666"],
                 ["--once", "--every", "1ms"], ["--once", "more"], ["--no"]):
        r = subprocess.run([GPUD, *args], capture_output=True, text=True,
                           timeout=PATIENCE, check=False)
        ok(r.returncode == 2 and r.stderr, f"wrong usage: {args}", r)
    r = subprocess.run([GPUD, "--help"], capture_output=True, text=True,
                       timeout=PATIENCE, check=False)
    ok(r.returncode == 0 and "--once" in r.stdout, "--help")


def test_ask():
    n = Node()
    n.start()
    c = Client(n.socket)
    hello = c.ask(t="hello", v=1)
    is_((hello["t"], hello["v"], hello["state"]), ("hello", 1, "ready"),
        "hello")
    is_(stat.S_IMODE(os.stat(n.socket).st_mode), 0o600,
        "the socket is its owner's")
    is_(len(c.ask(t="inventory")["devices"]), 2, "inventory")
    s = c.ask(t="sample")
    is_(s["devices"][0]["temperature_celsius"], 30, "sample")
    ok("energy_millijoules" not in s["devices"][0],
       "what is not told is not in it")
    is_(c.ask(t="reboot"), {"t": "error", "text": "no request 'reboot'"},
        "what it does not know is an error")
    is_(c.ask(t="hello")["t"], "hello", "after which it goes on")
    c.conn.sendall(struct.pack("<I", 4097))
    is_(c.read()["t"], "error", "a request too long is refused")
    with contextlib.suppress(ConnectionError):
        is_(c.conn.recv(1), b"", "and ends the connection")
    second = subprocess.run([GPUD, "--socket", n.socket], env=n.env,
                            capture_output=True, text=True, timeout=PATIENCE,
                            check=False)
    is_(second.returncode, 7, "a second one at the same socket: 7")
    n.daemon.kill()
    n.daemon.wait(PATIENCE)
    n.start()
    is_(Client(n.socket).ask(t="hello")["state"], "ready",
        "after a kill the next one takes the socket")
    is_(n.end(), 0, "it ends when told to")
    ok(not n.left, "and leaves none behind")


def test_watch():
    n = Node()
    n.start("--mode", "0660")
    c = Client(n.socket)
    is_(c.ask(t="watch", every_ms=100), {"t": "watch", "every_ms": 100},
        "watch")
    is_(stat.S_IMODE(os.stat(n.socket).st_mode), 0o660, "for a group")
    is_(c.read()["t"], "sample", "a sample comes at once")
    n.gpu(0, "utilisation=77\n")
    c.until(lambda m: m["devices"][0]["utilisation_percent"] == 77)
    ok(True, "samples follow the device")
    n.gpu(1, "lost=1\nxid=79\n")
    x = c.until(lambda m: m["t"] == "xid")
    is_((x["uuid"], x["xid"]), ("GPU-1", 79), "an XID comes")
    s = c.until(lambda m: m["t"] == "sample" and
                m["devices"][1]["state"] != "ready")
    is_(s["devices"][1]["state"], "lost", "the device is lost")
    ok("temperature_celsius" not in s["devices"][1], "and has no values")
    n.gpu(1)
    c.until(lambda m: m["t"] == "sample" and
            m["devices"][1]["state"] == "ready")
    ok(True, "and is back")
    n.driver(None)
    s = c.until(lambda m: m.get("state") == "no-driver")
    is_(s["devices"], [], "the driver is gone: " + s["why"])
    n.driver("version=590.1\n")
    c.until(lambda m: m.get("state") == "ready")
    is_(Client(n.socket).ask(t="inventory")["driver"], "590.1",
        "another one is there")
    for text in ("XID", "fell off the bus", "a device answers again",
                 "not loaded", "the driver answers"):
        ok(text in n.log(), f"the log has '{text}'", n.log())
    is_(n.end(), 0, "it ends when told to")


def test_slow_client():
    n = Node(devices=16)
    wide = "".join(f"{key}=1000000\n" for key in (
        "energy", "power_limit", "sm_clock", "memory_clock", "reasons",
        "ecc_corrected", "ecc_uncorrected", "ecc_corrected_life",
        "ecc_uncorrected_life", "replays", "memory_temperature"))
    for i in range(16):
        n.gpu(i, wide + "remapped=1,1,1,1\n")
    n.start()
    slow = Client(n.socket)
    slow.conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.send(t="watch", every_ms=100)
    other = Client(n.socket)
    other.send(t="watch", every_ms=100)
    for _ in range(45):
        other.until(lambda m: m["t"] == "sample")
    ok(True, "who reads nothing holds up nobody")
    for k in range(30):
        for i in range(16):
            n.gpu(i, wide + f"xid=13/{k}\n")
        for _ in range(16):
            other.until(lambda m: m["t"] == "xid")
    n.gpu(0, wide + "utilisation=55\n")
    other.until(lambda m: m["t"] == "sample" and
                m["devices"][0]["utilisation_percent"] == 55)
    count = xids = missed = 0
    while True:
        m = slow.read()
        count += m["t"] == "sample"
        xids += m["t"] == "xid"
        missed += m.get("missed", 0)
        if m["t"] == "sample" and \
                m["devices"][0]["utilisation_percent"] == 55:
            break
    with open(f"/proc/{n.daemon.pid}/status", encoding="ascii") as f:
        rss = [line for line in f if line.startswith("VmRSS")]
    TAP.note(rss)
    ok(count < 40, "and then gets the newest, not all there were", count)
    is_((xids, missed), (256, 480 - 256),
        "XIDs waited for it, and what was too many is counted")
    TAP.note(f"{count} samples, {xids} XIDs, {missed} missed")
    n.end()


def test_flood():
    n = Node()
    n.start()
    c = Client(n.socket)
    body = json.dumps({"t": "inventory"}).encode()
    frame = struct.pack("<I", len(body)) + body
    c.conn.settimeout(1)
    sent = 0
    with contextlib.suppress(TimeoutError):
        while sent < 10000:
            c.conn.sendall(frame)
            sent += 1
    ok(sent < 10000, "requests wait until answers are read", sent)
    is_(Client(n.socket).ask(t="hello")["t"], "hello", "others are served")
    with contextlib.ExitStack() as all_of_them:
        many = [Client(n.socket) for _ in range(80)]
        for m in many:
            all_of_them.callback(m.close)
        answered = 0
        for m in many:
            with contextlib.suppress(EOFError, ConnectionError):
                answered += m.ask(t="hello")["t"] == "hello"
        ok(50 < answered <= 64, "as many clients as allowed", answered)
    n.end()


def test_process():
    """The stand-ins for libcuda and libnvidia-ml see the same processes."""
    n = Node()
    guest = """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
ctx, p = ctypes.c_void_p(), ctypes.c_uint64()
rc = [cu.cuInit(0), cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 1),
      cu.cuCtxSetCurrent(ctx),
      cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))]
print(rc, flush=True)
input()
"""
    with subprocess.Popen([sys.executable, "-c", guest], env=n.env, text=True,
                          stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE) as p:
        is_(p.stdout.readline().strip(), "[0, 0, 0, 0]", "a CUDA program")
        doc = json.loads(n.once().stdout)
        devices = doc["sample"]["devices"]
        is_([(x["pid"], x["memory_bytes"] >= 1 << 20)
             for x in devices[1]["processes"]], [(p.pid, True)],
            "is told, with its memory")
        is_(devices[0]["processes"], [], "on its device alone")
        p.kill()
        p.wait(PATIENCE)
        doc = json.loads(n.once().stdout)
        is_(doc["sample"]["devices"][1]["processes"], [], "and not when dead")
    n.end()


def test_stuck():
    n = Node()
    n.start("--stuck", "300ms")
    c = Client(n.socket)
    is_(c.ask(t="hello")["state"], "ready", "before")
    c.ask(t="watch", every_ms=100)
    n.gpu(0, "slow_ms=200\n")
    s = c.until(lambda m: m.get("state") == "stuck")
    ok("has not answered" in s["why"], s["why"])
    is_(len(s["devices"]), 2, "the devices are still named")
    n.gpu(0)
    c.until(lambda m: m.get("state") == "ready")
    ok(True, "an answer after all makes it well")
    n.end()
    n = Node()
    n.gpu(0, "slow_ms=1000\n")
    n.start("--stuck", "300ms")
    is_(Client(n.socket).ask(t="hello")["state"], "stuck",
        "stuck from the start, it still answers")
    begun = time.monotonic()
    is_(n.end(), 0, "and ends when told to")
    ok(time.monotonic() - begun < 20, "soon")


def main():
    for test in (test_once, test_no_library, test_old_library, test_usage,
                 test_ask, test_watch, test_slow_client, test_flood,
                 test_process, test_stuck):
        TAP.note(test.__name__)
        test()
    return TAP.done()


sys.exit(main())

"""A node with a real GPU: weir-gpud, a control plane, and programs on it."""
import datetime
import json
import os
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import weirtest                        # noqa: E402
from gpudwire import receive, send      # noqa: E402,F401
from weirtest import Weir, until       # noqa: E402

WORK = os.path.join(HERE, "work")
GIB = 1 << 30
LIKE = 6                       # of a kind, until something is thought of it
DEVICES = os.environ.get("WEIR_GPU_DEVICES", "auto")


def missing():
    """Why nothing can be tested here, in a few words; or None."""
    r = subprocess.run([os.path.join(weirtest.BUILD, "weir-gpud"), "--once"],
                       capture_output=True, text=True)
    try:
        found = json.loads(r.stdout)
    except ValueError:
        return f"weir-gpud --once: {(r.stderr or r.stdout).strip()[:200]}"
    inventory = found.get("inventory", found)
    if not any(d.get("state") == "ready"
               for d in inventory.get("devices", ())):
        return f"no GPU here ({inventory.get('why') or 'none is ready'})"
    r = subprocess.run([sys.executable, "-c", "import torch; "
                        "assert torch.cuda.is_available()"],
                       capture_output=True, text=True)
    return "no PyTorch here that sees the GPU" if r.returncode else None


class Gpud:
    """weir-gpud, and questions to it."""

    def __init__(self, folder):
        self.socket = folder + "/gpud.sock"
        self.state = folder + "/gpud"
        self.log = folder + "/gpud.log"
        self.proc = None

    def start(self):
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(
                [os.path.join(weirtest.BUILD, "weir-gpud"), "--socket",
                 self.socket, "--state", self.state], stderr=log)
        until(lambda: self.ask(t="hello")["state"] == "ready", "weir-gpud")
        return self

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def connect(self):
        def there():
            s = socket.socket(socket.AF_UNIX)
            try:
                s.connect(self.socket)
            except OSError:
                s.close()
                return None
            return s
        s = until(there, "weir-gpud's socket")
        s.settimeout(300)
        return s

    def ask(self, **msg):
        with self.connect() as s:
            send(s, msg)
            return receive(s)

    def stuck(self):
        """Where its threads are, and what it wrote last: for a test that
        waited in vain."""
        lines = []
        for tid in os.listdir(f"/proc/{self.proc.pid}/task"):
            at = f"/proc/{self.proc.pid}/task/{tid}/"
            lines.append(" ".join([tid] + [
                weirtest.read_text(at + name)[:60]
                for name in ("comm", "wchan", "syscall")]))
        return lines + weirtest.read_text(self.log).splitlines()[-20:]

    def sample(self):
        """What is used now: a look that was not taken yet."""
        time.sleep(1.1)
        return self.ask(t="sample")["devices"][0]

    def pids(self):
        return {p["pid"] for p in self.sample().get("processes", ())}


class Node:
    """A control plane with its device, and jobs on it."""

    def __init__(self, *args, devices=DEVICES):
        self.weir = Weir(devices=devices, args=args)
        self.gpud = Gpud(self.weir.folder)
        self.says = {}

    def __enter__(self):
        self.gpud.start()
        self.weir.args += ["--gpud", self.gpud.socket] \
            if DEVICES == "auto" else []
        self.weir.start()
        self.weir.wait_devices()
        return self

    def __exit__(self, *_):
        self.weir.end()
        self.gpud.kill()

    def submit(self, program, *args, env=None, **doc):
        """A job that runs one of the programs in work/."""
        path = f"{self.weir.folder}/{len(self.says)}.say"
        body = {"weir": 1, "kind": "job", "name": program, "gpus": 1,
                "cpus": 1, "memory": "8Gi", "env": {"SAY": path, **(env or {})},
                "argv": [sys.executable, f"{WORK}/{program}.py",
                         *map(str, args)], **doc}
        r = self.weir.client.submit(body)
        if r.status != 201:
            raise RuntimeError(f"submit {program}: {r}")
        self.says[r.json["id"]] = path
        return r.json["id"]

    def said(self, wid):
        """[(time, words)] of the lines that it has said."""
        try:
            with open(self.says[wid], encoding="ascii") as f:
                lines = f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [(float(x.split()[0]), x.split()[1:]) for x in lines]

    def log(self, wid):
        task = self.weir.client.tasks(wid)[0]["task"]
        r = self.weir.client.get(f"/v1/workloads/{wid}/tasks/{task}/log")
        return r.body.decode(errors="replace")

    def saw(self, wid, word):
        """[(time, words after it)] of the lines with that first word."""
        return [(t, x[1:]) for t, x in self.said(wid) if x[0] == word]

    def hears(self, wid, word, seconds=120):
        """Waits for a line with that first word."""
        def there():
            lines = self.saw(wid, word)
            if lines:
                return lines[-1]
            w = self.weir.client.need("GET", f"/v1/workloads/{wid}")
            if w["state"] == "ended":
                raise RuntimeError(f"{wid} ended without '{word}': "
                                   f"{self.log(wid)[-800:]}")
            return None
        return until(there, f"'{word}' of {wid}", seconds)

    def result(self, wid, seconds=240):
        """How it ended and what it says at its end."""
        w = self.weir.client.wait(wid, seconds=seconds)
        return w["outcome"], [x for _, x in self.saw(wid, "sum")]

    def left(self):
        """What has not ended, and why it waits: for a test that failed."""
        return [self.weir.cli("why", w["id"]).stdout.strip()[:400]
                for w in self.weir.client.workloads(state="live")]

    def clear(self):
        """... ends, so that the next test has the device."""
        for w in self.weir.client.workloads(state="live"):
            self.weir.cli("abort", "--force", w["id"])
        self.weir.settled()

    def learn(self):
        """Enough short holders, that something is thought of the next."""
        for _ in range(LIKE):
            self.weir.client.wait(self.submit("hold", 0))

    def holder(self, name):
        """One that has the device until go(name)."""
        wid = self.submit("hold", 300,
                          env={"HOLD_UNTIL": self.flag(name)})
        self.hears(wid, "ready")
        return wid

    def flag(self, name):
        return f"{self.weir.folder}/{name}.go"

    def go(self, name):
        with open(self.flag(name), "w", encoding="ascii"):
            pass

    def task(self, wid):
        return self.weir.client.tasks(wid)[0]

    def suspend(self, wid):
        """An operator takes it off its device; the seconds that took."""
        begun = time.monotonic()
        self.asks(wid, "suspend")
        until(lambda: self.task(wid)["state"] == "suspended",
              f"{wid} suspended")
        return time.monotonic() - begun

    def resume(self, wid):
        begun = time.monotonic()
        self.asks(wid, "resume")
        until(lambda: [x["state"] for x in self.task(wid)["leases"]] ==
              ["active"], f"{wid} resumed")
        return time.monotonic() - begun

    def asks(self, wid, word):
        """An operator's word; what comes of it is not waited for."""
        self.weir.client.need("POST", f"/v1/workloads/{wid}/{word}",
                              {"task": self.task(wid)["task"]}, want=202)

    def events(self, wid, kind):
        """[(seconds, data)] of its events of that type."""
        return [(datetime.datetime.fromisoformat(
                     e["time"].replace("Z", "+00:00")).timestamp(),
                 e.get("data", {}))
                for e in self.weir.client.events(workload=wid)
                if e["type"] == kind]

    def staged(self, wid):
        return self.weir.client.tasks(wid)[0].get("staged")

    def pids(self, wid):
        """The processes of a workload's tasks."""
        word = f"WEIR_WORKLOAD={wid}".encode()
        return {p.pid for p in self.weir.processes("task")
                if word in weirtest.environ(p.pid)}


class Session:
    """An interactive Python session as a job; type() runs a statement."""

    def __init__(self, n, **doc):
        self.n, self.typed = n, 0
        self.path = f"{n.weir.folder}/{len(n.says)}.pipe"
        os.mkfifo(self.path)
        self.wid = n.submit("session", self.path, **doc)
        n.hears(self.wid, "begun")
        # Opened by both at once, so not before the other is there.
        self.pipe = open(self.path, "w",  # pylint: disable=R1732
                         encoding="utf-8", buffering=1)

    def type(self, text):
        """Seconds until it has run."""
        begun = time.time()
        self.pipe.write(text + "\n")
        number = str(self.typed)
        self.typed += 1
        until(lambda: [t for t, x in self.n.saw(self.wid, "ran")
                       if x == [number]], f"'{text}'", 240)
        return self.n.saw(self.wid, "ran")[-1][0] - begun

    def end(self):
        self.pipe.close()
        return self.n.weir.client.wait(self.wid)["outcome"]

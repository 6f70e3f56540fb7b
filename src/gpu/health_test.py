#!/usr/bin/env python3
"""weir-gpud's health on the stand-in: every row of the shipped rules.

The rules are those that weir-gpud prints, with shorter times.  For each there
is a way to drive a device of the stand-in into the condition and out again; a
row without one is a failure, and so is one that does not exist.

    health_test.py WEIR_GPUD FOLDER
"""
import atexit
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.abspath(__file__)) + "/../.."
sys.path.insert(0, ROOT + "/tests")
from gpudwire import receive, send  # noqa: E402
from tap import Tap  # noqa: E402

GPUD = sys.argv[1]
STANDIN = sys.argv[2]
PATIENCE = 60           # seconds; reached only when something is broken
TAP = Tap()
ok = TAP.ok
is_ = TAP.equal

WELL = {"uuid": "GPU-0", "model": "NVIDIA H200", "memory": 150754820096,
        "temperature": 40, "memory_temperature": 45, "power": 70000,
        "power_limit": 700000, "energy": 1000000, "reasons": 1,
        "ecc_corrected": 0, "ecc_uncorrected": 0, "ecc_corrected_life": 5,
        "ecc_uncorrected_life": 5, "remapped": "0,0,0,0"}


class Node:
    """A folder of the stand-in, and the daemon that looks at it."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="weir-health-")
        self.socket = self.dir + "/gpud.sock"
        self.env = dict(os.environ, WEIR_STANDIN=self.dir,
                        LD_LIBRARY_PATH=STANDIN)
        self.daemon = self.watch = None
        self.serial = 0
        self.energy = WELL["energy"]
        self.driver("version=580.1\n")
        self.gpu(0)
        self.gpu(1, uuid="GPU-1")

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

    def gpu(self, i=0, **values):
        values = dict(WELL, energy=self.energy) | values
        self.write(f"gpu{i}", "".join(f"{k}={v}\n"
                                      for k, v in values.items()))

    def xid(self, number):
        """Another one, also when it has the same number."""
        self.serial += 1
        self.gpu(xid=f"{number}/{self.serial}")

    def reset(self):
        """The device counts its energy from the start again."""
        self.energy -= 10
        self.gpu()

    def start(self, *args):
        with open(self.dir + "/log", "a", encoding="utf-8") as log:
            # Not a "with": it lives until end().
            self.daemon = subprocess.Popen(  # pylint: disable=R1732
                [GPUD, "--socket", self.socket, "--every", "100ms", *args],
                env=self.env, stderr=log)
        atexit.register(self.daemon.kill)   # should the test itself fail

    def log(self):
        with open(self.dir + "/log", encoding="utf-8") as f:
            return f.read()

    def end(self):
        self.daemon.send_signal(signal.SIGTERM)
        status = self.daemon.wait(PATIENCE)
        shutil.rmtree(self.dir)
        return status


class Client:
    def __init__(self, path):
        self.passed = []                # changes read while others were sought
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

    def read(self):
        return receive(self.conn)

    def ask(self, **message):
        send(self.conn, message)
        return self.read()

    def until(self, cond):
        """The first message for which it holds."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            m = self.read()
            if cond(m):
                return m
            if m["t"] == "health-change":
                self.passed.append(m)
        raise TimeoutError

    def change(self, rule, *kinds):
        """The next change of that rule, which has to be one of these."""
        def is_it(m):
            return m["t"] == "health-change" and m["rule"] == rule and \
                m["uuid"] == "GPU-0" and m["change"] in kinds
        while self.passed:
            m = self.passed.pop(0)
            if is_it(m):
                return m
        return self.until(is_it)

    def device(self, uuid="GPU-0"):
        all_of_them = self.ask(t="health")["devices"]
        return next(d for d in all_of_them if d["uuid"] == uuid)


# For each row: how the device gets into the condition.  What is returned is
# what the evidence has to have.  It is over with `well`, or by itself.

def values(**v):
    def drive(n):
        n.gpu(**v)
        return {}
    return drive


def level(key, value):
    def drive(n):
        n.gpu(**{key: value})
        return {"value": value}
    return drive


def xids(*numbers):
    def drive(n):
        for x in numbers:
            n.xid(x)
            n.watch.until(lambda m: m["t"] == "xid")   # one at each look
        return {"xids": sorted(set(numbers))}
    return drive


def growth(n):
    n.gpu(ecc_uncorrected_life=WELL["ecc_uncorrected_life"] + 3)
    return {"count": 3}


def no_driver(n):
    n.driver(None)
    return {}


def reload(n):
    n.driver(None)
    time.sleep(0.5)
    n.driver("version=580.1\n")
    return {"count": 1}


DRIVERS = {
    "hot": level("temperature", 87),
    "too-hot": level("temperature", 93),
    "memory-hot": level("memory_temperature", 96),
    "memory-too-hot": level("memory_temperature", 104),
    "slow-for-heat": values(reasons=1 << 5),
    "braked-for-heat": values(reasons=1 << 6),
    "power-brake": values(reasons=1 << 7),
    "program-fault": xids(13),
    "program-faults": xids(*[13, 31] * 5),
    "engine-fault": xids(39),
    "engine-faults": xids(39, 68, 39),
    "row-remapped": xids(63),
    "many-corrected": xids(92),
    "person-wanted": xids(154),
    "link-event": xids(144),
    "link-fault": xids(74),
    "memory-contained": xids(94),
    "memory-broken": xids(95),
    "firmware-halt": xids(119),
    "device-stopped": xids(79),
    "ecc": level("ecc_uncorrected", 1),
    "ecc-again": growth,
    "rows-pending": values(remapped="0,1,1,0"),
    "rows-failed": values(remapped="0,1,0,1"),
    "leak": level("used", 2 << 30),
    "lost": values(lost=1),
    "reset-required": values(reset=1),
    "fault": values(fault=1),
    "driver-gone": no_driver,
    "driver-reload": reload,
}


def make_well(n, rule):
    if rule["when"] == "driver-gone":
        n.driver("version=580.1\n")
    if rule.get("until") == "reset":
        n.reset()
    else:
        n.gpu()


def shorter(rule):
    """The same rule, for somebody who cannot wait."""
    rule = dict(rule)
    if rule.get("for", "0s") != "0s":
        rule["for"] = "300ms"
    if "within" in rule:
        # Long enough for all of its events, at a look each, and for a
        # question in between on a machine that is busy.
        rule["within"] = "2s" if rule["count"] == 1 else "8s"
    if rule["probation"] != "0s":
        rule["probation"] = "400ms"
    return rule


def check_evidence(rule, m, want):
    e = m["evidence"]
    if "limit" in rule and isinstance(rule["limit"], int):
        is_(e["limit"], rule["limit"], "  with the limit")
    if "value" in want:
        is_(e["value"], want["value"], "  and the value")
    if "xids" in want:
        is_(sorted(e["xids"]), want["xids"], "  and the XIDs")
    if "count" in rule:
        ok(e["count"] >= rule["count"] and e["value"] >= rule["count"],
           "  and how many", e)
    if rule.get("for", "0s") != "0s":
        ok(e["for_ms"] >= 300 and m["since_ms"] <= m["at_ms"] - 300,
           "  and since when", m)
    ok(m["text"].startswith("GPU-0: "), "  " + m["text"])


def test_row(n, ask, rule):
    watch = n.watch
    name = rule["name"]
    out = ["cordon", "drain", "move", "restart"]
    watch.passed = []
    want = DRIVERS[name](n)
    m = watch.change(name, "raised", "escalated")
    ok(True, f"{name}: {m['change']}")
    is_(m["action"], rule["action"], "  with its action")
    ok(m["in_force"] == rule["action"] or m["action"] not in out or
       m["in_force"] in out[out.index(rule["action"]):],
       "  or a stronger one in force", m)
    check_evidence(rule, m, want)
    d = ask.device()
    row = [r for r in d["rules"] if r["rule"] == name]
    if rule["when"] != "driver-reload":
        ok(row and row[0]["state"] in ("raised", "probation"),
           "  health tells of it", d)
    if rule["action"] in out:
        is_(d["penalty"], 1000, "  and nothing is to be placed there")
    make_well(n, rule)
    if rule["probation"] != "0s":
        m = watch.change(name, "probation")
        ok(rule["action"] not in out or m["in_force"] in out,
           "  on probation it is not back yet", m)
    m = watch.change(name, "cleared")
    ok(True, "  and then it is: " + m["text"])
    if m["in_force"] != "none":
        watch.until(lambda m: m["t"] == "health-change" and
                    m["uuid"] == "GPU-0" and m["in_force"] == "none")
    is_(ask.device()["action"], "none", "  with nothing in force")


def test_rows():
    n = Node()
    shipped = json.loads(subprocess.run(
        [GPUD, "--print-health"], capture_output=True, check=True,
        timeout=PATIENCE).stdout)
    is_(sorted(r["name"] for r in shipped["rules"]), sorted(DRIVERS),
        "each shipped rule has a driver, and each driver a rule")
    rules = dict(shipped, rules=[shorter(r) for r in shipped["rules"]])
    n.write("rules.json", json.dumps(rules))
    n.start("--health", n.dir + "/rules.json")
    n.watch = Client(n.socket)
    n.watch.ask(t="watch", every_ms=1000)
    ask = Client(n.socket)
    is_([(d["uuid"], d["action"], d["rules"])
         for d in ask.ask(t="health")["devices"]],
        [("GPU-0", "none", []), ("GPU-1", "none", [])], "all are well")
    for rule in rules["rules"]:
        if rule["name"] in DRIVERS:
            test_row(n, ask, rule)
    is_(ask.device("GPU-1")["action"], "none", "the other device is well")
    log = n.log()
    for rule in rules["rules"]:
        ok(f'"{rule["name"]}"' in log, f"the log has {rule['name']}")
    is_(n.end(), 0, "it ends when told to")


def test_escalation():
    """Two rules on one device: the stronger counts, also when it ends."""
    n = Node()
    n.write("rules.json", json.dumps({"weir": 1, "kind": "health", "rules": [
        {"name": "warm", "when": "temperature", "limit": 60,
         "action": "alert", "probation": "200ms"},
        {"name": "hot", "when": "temperature", "limit": 80,
         "action": "move", "probation": "200ms"}]}))
    n.start("--health", n.dir + "/rules.json")
    watch = Client(n.socket)
    watch.ask(t="watch", every_ms=1000)
    n.gpu(temperature=70)
    is_(watch.change("warm", "raised")["in_force"], "alert", "an alert")
    is_(Client(n.socket).device()["penalty"], 600, "its penalty is of heat")
    n.gpu(temperature=90)
    is_(watch.change("hot", "escalated")["in_force"], "move", "is escalated")
    n.gpu(temperature=70)
    is_(watch.change("hot", "probation")["in_force"], "cordon",
        "and rests as a cordon")
    is_(watch.change("hot", "cleared")["in_force"], "alert",
        "before it is an alert again")
    n.end()


def test_stuck():
    """Time goes on for the rules while the driver does not answer."""
    n = Node()
    n.write("rules.json", json.dumps({"weir": 1, "kind": "health", "rules": [
        {"name": "gone", "when": "driver-gone", "for": "500ms",
         "action": "cordon", "probation": "200ms"}]}))
    n.start("--health", n.dir + "/rules.json", "--stuck", "300ms")
    watch = Client(n.socket)
    watch.ask(t="watch", every_ms=1000)
    n.gpu(slow_ms=400)
    m = watch.change("gone", "raised")
    ok(m["evidence"]["for_ms"] >= 500, "a driver that is stuck", m)
    n.gpu()
    watch.change("gone", "cleared")
    ok(True, "and answers after all")
    n.end()


def test_restart():
    """What lasts until a reset outlives weir-gpud, and ends with one."""
    n = Node()
    n.write("rules.json", json.dumps({"weir": 1, "kind": "health", "rules": [
        {"name": "broken", "when": "xid", "xids": [95], "within": "1s",
         "until": "reset", "action": "restart", "probation": "300ms"}]}))
    args = ["--health", n.dir + "/rules.json", "--state", n.dir + "/state"]

    def again():
        n.start(*args)
        watch = Client(n.socket)
        watch.ask(t="watch", every_ms=1000)
        return watch

    watch = again()
    n.xid(95)
    watch.change("broken", "raised")
    n.daemon.kill()
    n.daemon.wait(PATIENCE)
    watch = again()
    ask = Client(n.socket)
    is_(ask.device()["action"], "restart", "a kill forgets nothing")
    is_(ask.ask(t="was-reset")["t"], "error", "was-reset wants a device")
    is_(ask.ask(t="was-reset", uuid="GPU-1")["rules"], 0, "which had nothing")
    is_(ask.ask(t="was-reset", uuid="GPU-0")["rules"], 1, "or had something")
    watch.change("broken", "probation")
    watch.change("broken", "cleared")
    ok(True, "which is over then")
    n.xid(95)
    watch.change("broken", "raised")
    n.daemon.terminate()
    n.daemon.wait(PATIENCE)
    n.reset()
    watch = again()
    watch.change("broken", "cleared")
    ok(True, "a reset between two starts is seen")
    n.daemon.terminate()
    n.daemon.wait(PATIENCE)
    n.write("state/health", "{")
    again()
    is_(Client(n.socket).device()["action"], "none", "what is no JSON")
    ok("what was known of devices is lost" in n.log(), "is said to be lost")
    n.end()


def test_slow_watcher():
    """Who reads late gets the changes it missed, or how many they were."""
    n = Node()
    n.write("rules.json", json.dumps({"weir": 1, "kind": "health", "rules": [
        {"name": f"r{i}", "when": "temperature", "limit": 60,
         "action": "note", "probation": "0s"} for i in range(64)]}))
    n.start("--health", n.dir + "/rules.json")
    slow = Client(n.socket)
    slow.conn.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.ask(t="watch", every_ms=3600000)
    other = Client(n.socket)
    other.ask(t="watch", every_ms=3600000)
    for _ in range(12):
        n.gpu(temperature=70)
        other.change("r63", "raised")
        n.gpu(temperature=40)
        other.change("r63", "cleared")
    got = missed = 0
    while got + missed < 12 * 128:
        m = slow.read()
        got += m["t"] == "health-change"
        missed += m.get("missed", 0)
    TAP.note(f"{got} got, {missed} missed")
    ok(missed > 0, "what was too many is counted")
    is_(got + missed, 12 * 128, "and none is lost without a word")
    n.end()


def documented():
    """{rule: (action, probation, XIDs or None)} of docs/health.md."""
    rules = {}
    with open(ROOT + "/docs/health.md", encoding="utf-8") as f:
        text = f.read().split("## The shipped rules", 1)[1]
    for line in text.splitlines():
        m = re.match(r"\| `([a-z-]+)` \| ([^|]*) \| (\w+) \| (\w+) \|", line)
        if not m:
            continue
        name, when, action, probation = m.groups()
        listed = re.match(r"XID ([0-9, to]+[0-9])", when)
        numbers = None
        if listed:
            numbers = []
            for part in listed[1].split(", "):
                ends = [int(x) for x in part.split(" to ")]
                numbers += range(ends[0], ends[-1] + 1)
        rules[name] = (action, probation.replace("none", "0s"), numbers)
    return rules


def test_documented():
    rules = documented()
    shipped = json.loads(subprocess.run(
        [GPUD, "--print-health"], capture_output=True, check=True,
        timeout=PATIENCE).stdout)["rules"]
    is_(list(rules), [r["name"] for r in shipped],
        "docs/health.md argues each rule, in their order")
    for r in shipped:
        action, probation, numbers = rules.get(r["name"], (None,) * 3)
        ok((action, probation) == (r["action"], r["probation"]) and
           numbers in (None, r.get("xids")), f"  {r['name']} as it is",
           r, rules.get(r["name"]))
    is_(sum(n is not None for _, _, n in rules.values()),
        sum(r["when"] == "xid" and r["count"] == 1 for r in shipped),
        "with its XIDs")


def test_options():
    n = Node()

    def run(*args):
        r = subprocess.run([GPUD, *args], capture_output=True, text=True,
                           env=n.env, timeout=PATIENCE, check=False)
        return r.returncode, r.stdout, r.stderr

    status, text, _ = run("--print-health")
    is_(status, 0, "--print-health")
    n.write("good.json", text)
    is_(run("--check-health", n.dir + "/good.json"), (0, "", ""),
        "what it prints --check-health takes, without a word")
    n.write("bad.json", text.replace('"limit": 85', '"limit": 850'))
    path = n.dir + "/bad.json"
    want = (2, "", f"weir-gpud: {path}: rules[0]: limit: expected a whole "
            "number from 1 to 200, got 850\n")
    is_(run("--check-health", path), want, "what is wrong is one line")
    is_(run("--socket", n.socket, "--health", path), want,
        "with which it does not start, either")
    status, _, text = run("--check-health", n.dir + "/none.json")
    ok(status == 2 and "none.json" in text and text.count("\n") == 1, text)
    for args in (["--health", path], ["--once", "--health", path],
                 ["--print-health", "--once"],
                 ["--print-health", "--check-health", path]):
        ok(run(*args)[0] == 2, f"wrong usage: {args[0]} {args[1]}")
    shutil.rmtree(n.dir)


def main():
    for test in (test_documented, test_options, test_rows, test_escalation,
                 test_stuck, test_restart, test_slow_watcher):
        TAP.note(test.__name__)
        test()
    return TAP.done()


sys.exit(main())

#!/usr/bin/env python3
"""What the health of devices leads to: from an XID of the stand-in driver by
weir-gpud, the runner and the control plane to where tasks run, and back.

Usage: health.py STANDIN_FOLDER WEIR_GPUD
"""
import json
import os
import signal
import socket
import sys

import gpudwire
import guests
import weirtest
from guests import UUID
from weirtest import Weir, until

STANDIN = os.path.abspath(sys.argv[1])
GPUD = os.path.abspath(sys.argv[2])


def rule(name, xid, action, until_="reset", probation="4s"):
    return {"name": name, "when": "xid", "xids": [xid], "action": action,
            "count": 1, "within": "1s", "until": until_,
            "probation": probation}


RULES = {"weir": 1, "kind": "health", "rules": [
    rule("x-note", 13, "note", "quiet", "0s"), rule("x-cordon", 39, "cordon"),
    rule("x-drain", 74, "drain"), rule("x-move", 62, "move"),
    rule("x-restart", 95, "restart")]}


class Machine(guests.Machine):
    """... that judges by the rules above."""

    def __init__(self, folder):
        super().__init__(folder, STANDIN, GPUD)
        self.serial = 0
        with open(folder + "/rules.json", "w", encoding="ascii") as f:
            json.dump(RULES, f)

    def start(self):
        super().start("--health", self.folder + "/rules.json")

    def xid(self, k, number):
        self.serial += 1
        self.gpu(k, more=f"xid={number}/{self.serial}\n")

    def was_reset(self, k):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(weirtest.DEADLINE)
            s.connect(self.sock)
            gpudwire.send(s, {"t": "was-reset", "uuid": UUID[k]})
            if gpudwire.receive(s)["t"] != "was-reset":
                raise RuntimeError("weir-gpud does not take a reset")


class Jobs(guests.Jobs):
    def __init__(self, weir):
        super().__init__(weir, STANDIN)

    def at(self, wid):
        """(its lease's state, its device); None: it holds none."""
        t = self.client.tasks(wid)[0]
        if not t["leases"] or t["state"] == "suspended":
            return None
        return t["leases"][0]["state"], t["leases"][0]["devices"][0]


def device(weir, k):
    pools = weir.client.need("GET", "/v1/pools")["items"]
    return pools[0]["nodes"][0]["devices"][k]


def action(weir, k):
    return device(weir, k).get("health", {}).get("action")


def told(weir, k):
    """Of that device: (rule, state) of each event."""
    return [(e["data"]["rule"], e["data"]["state"])
            for e in weir.client.events(type="device.health")
            if e["data"]["uuid"] == UUID[k]]


def first(events, **data):
    """The number of the first event with such data."""
    return next(e["seq"] for e in events
                if all(e["data"].get(k) == v for k, v in data.items()))


def types(weir, wid):
    return [e["type"] for e in weir.client.events(workload=wid)
            if e["type"].startswith(("task.", "lease."))]


def shown(tap, weir, k):
    d = device(weir, k)["health"]
    tap.ok(d["action"] == "move" and d["rules"][0]["rule"] == "x-move" and
           "62" in d["rules"][0]["text"], f"the API shows it: {d}")
    text = weir.cli("pool", "show", "local", "--devices").stdout
    tap.ok("x-move (move)" in text, "so does pool show")
    text = weir.client.get("/metrics").body.decode()
    line = next((x for x in text.split("\n") if UUID[k] in x and
                 x.startswith("weir_device_health{")), "")
    tap.ok(line.endswith(" 5"), f"and /metrics: {line}")
    text = weir.cli("events", "--type", "device.health").stdout
    tap.ok("rule=x-move state=raised action=move" in text, "and events")
    e = weir.client.events(type="device.health")[-1]
    tap.equal((e["data"]["evidence"]["xids"], e["who"][:7]),
              ([62], "runner:"), "the event has the evidence")


def hears(weir, machine, k):
    """The runner listens: what comes and goes while it does not is lost."""
    def word():
        machine.xid(k, 13)
        return told(weir, k)
    until(word, "a word of it", step=0.5)
    until(lambda: told(weir, k)[-1] == ("x-note", "cleared"), "and its end")


def moves(tap, weir, machine, jobs):
    """Off the ill device, with all it has; which is not used until it is
    cleared, whoever is killed meanwhile.
    """
    wid = jobs.running("a")
    k = jobs.at(wid)[1]
    machine.xid(k, 62)
    until(lambda: "lease.resumed" in types(weir, wid), "its return")
    tap.equal(jobs.at(wid), ("active", 1 - k), "on the other device")
    tap.equal(types(weir, wid),
              ["task.planned", "lease.claimed", "task.preempting",
               "task.suspending", "lease.suspended", "task.resuming",
               "lease.resumed"], "an XID: the task goes to the other device")
    shown(tap, weir, k)
    other = jobs.submit("b")
    text = weir.cli("why", other).stdout
    tap.ok("drained, lost or ill" in text, "who waits for it is told")
    weir.kill()
    weir.start()
    weir.wait_devices()
    tap.equal((action(weir, k), jobs.at(other)), ("move", None),
              "after a restart of the control plane nothing is placed there")
    os.kill(weir.runner().pid, signal.SIGKILL)
    until(weir.runner, "another runner")
    hears(weir, machine, 1 - k)
    machine.was_reset(k)
    until(lambda: jobs.at(other) and jobs.at(other)[1] == k, "its return")
    until(lambda: len(told(weir, k)) > 2, "its events")
    tap.equal(told(weir, k), [("x-move", "raised"), ("x-move", "probation"),
                              ("x-move", "cleared")],
              "it returns, and each change is one event")
    placed = weir.client.events(type="task.planned", workload=other)
    tap.ok(placed[0]["seq"] > first(weir.client.events(type="device.health"),
                                    rule="x-move", state="cleared"),
           "nothing was placed there on probation")
    tap.equal((jobs.end("a", wid)[0], jobs.end("b", other)[0]),
              ("succeeded", "succeeded"), "both end well")
    tap.equal(types(weir, wid).count("lease.claimed"), 1, "in one attempt")


def restarts(tap, weir, machine, jobs):
    wid = jobs.running("c")
    k = jobs.at(wid)[1]
    machine.xid(k, 95)
    until(lambda: jobs.at(wid) == ("active", 1 - k), "the other device")
    stop = [e for e in weir.client.events(workload=wid)
            if e["type"] == "task.stopping"]
    tap.equal([(e["cause"], e["data"]["rule"], e["data"]["device"])
               for e in stop], [("lost", "x-restart", UUID[k])],
              "a device that can keep nothing: it is ended, and starts anew")
    tap.equal(jobs.end("c", wid)[0], "succeeded", "and ends well")
    machine.was_reset(k)
    until(lambda: action(weir, k) is None, "the end of its probation")


def drains(tap, weir, machine, jobs):
    """Who has a contract leaves by it; an operator's drain is another's."""
    wid = jobs.running("d", checkpoint={"signal": "SIGUSR1", "grace": "2s"})
    k = jobs.at(wid)[1]
    machine.xid(k, 74)
    until(lambda: jobs.at(wid) == ("active", 1 - k), "the other device")
    how = [e["data"]["how"] for e in weir.client.events(workload=wid)
           if e["type"] == "task.preempting"]
    tap.equal(how, ["checkpoint"], "drained: it leaves by its contract")
    node = weir.client.need("GET", "/v1/pools")["items"][0]["nodes"][0]["name"]
    weir.cli("node", "drain", node, "--device", str(k), check=True)
    machine.was_reset(k)
    until(lambda: action(weir, k) is None, "the end of its probation")
    tap.ok(device(weir, k)["drained"], "what an operator drained stays so")
    weir.cli("node", "undrain", node, "--device", str(k), check=True)
    tap.equal(jobs.end("d", wid)[0], "succeeded", "it ends well")


def weak(tap, weir, machine, jobs):
    wid = jobs.running("e")
    k = jobs.at(wid)[1]
    before = len(told(weir, k))
    machine.xid(k, 13)
    until(lambda: len(told(weir, k)) == before + 2, "a note")
    tap.equal(told(weir, k)[before:], [("x-note", "raised"),
                                       ("x-note", "cleared")],
              "a note is two events")
    machine.xid(k, 39)
    until(lambda: action(weir, k) == "cordon", "a cordon")
    tap.equal(jobs.at(wid), ("active", k), "a cordon: what runs there runs on")
    tap.equal(jobs.end("e", wid)[0], "succeeded", "to its end")


def forgets(tap, weir, machine):
    """A weir-gpud that knows of nothing: what was raised is over."""
    ill = [k for k in range(2) if action(weir, k)]
    tap.equal(len(ill), 1, "one is under a cordon")
    machine.daemon.kill()
    machine.daemon.wait()
    os.remove(machine.folder + "/gpud.d/health")
    tap.equal(action(weir, ill[0]), "cordon", "it stays without weir-gpud")
    machine.gpu(ill[0])
    machine.start()
    until(lambda: told(weir, ill[0])[-1] == ("x-cordon", "cleared"),
          "its return")
    tap.equal(action(weir, ill[0]), None,
              "until another says that nothing is the matter")


def run(tap):
    with Weir(devices="auto") as weir:
        machine = Machine(weir.folder)
        weir.env = machine.env()
        weir.args = ["--gpud", machine.sock]
        try:
            machine.start()
            weir.start()
            weir.wait_devices()
            jobs = Jobs(weir)
            moves(tap, weir, machine, jobs)
            restarts(tap, weir, machine, jobs)
            drains(tap, weir, machine, jobs)
            weak(tap, weir, machine, jobs)
            forgets(tap, weir, machine)
            weir.stop()
        finally:
            machine.end()


if __name__ == "__main__":
    weirtest.main(run)

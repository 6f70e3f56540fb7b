#!/usr/bin/env python3
"""Who uses a device otherwise than a lease says, around the gate: from the
stand-in driver by weir-gpud, the runner and the control plane to events, the
API and an end by policy.

Usage: strays.py STANDIN_FOLDER WEIR_GPUD
"""
import glob
import json
import os
import signal
import subprocess
import sys

import guests
import weirtest
from guests import MIB, UUID
from weirtest import Weir, until

STANDIN = os.path.abspath(sys.argv[1])
GPUD = os.path.abspath(sys.argv[2])


class Machine(guests.Machine):
    def __init__(self, folder):
        super().__init__(folder, STANDIN, GPUD)
        self.start()

    def bare(self, mib):
        """Shell text: a program on a device that no gate stands in front of,
        for as long as its standard input is open.
        """
        return (f"{{ printf 'init\\nuse\\nalloc {mib * MIB}\\n'; "
                f"exec sleep 1000; }} | env -i WEIR_STANDIN={self.dir} "
                f"LD_LIBRARY_PATH={STANDIN} CUDA_VISIBLE_DEVICES="
                f"$CUDA_VISIBLE_DEVICES {STANDIN}/guest-link")


def told(weir, **of):
    """(state, kind) of each event."""
    return [(e["data"]["state"], e["data"]["kind"])
            for e in weir.client.events(type="device.stray", **of)]


def device(weir, k):
    pools = weir.client.need("GET", "/v1/pools")["items"]
    return pools[0]["nodes"][0]["devices"][k]


def job(weir, name, run, **doc):
    r = weir.client.submit({"weir": 1, "kind": "job", "name": name,
                            "cpus": 0.01, "memory": "64Mi", "run": run, **doc})
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def policy(weir, **more):
    weir.cli("policy", "set", "-", check=True, stdin=json.dumps(
        {"weir": 1, "kind": "policy", **more}))


def stranger(tap, weir, machine):
    """A process that has nothing to do with Weir."""
    with subprocess.Popen(["sh", "-c", machine.bare(96)],
                          stdout=subprocess.DEVNULL,
                          start_new_session=True) as p:
        until(lambda: told(weir) == [("found", "stranger")], "it is found")
        d = device(weir, 0)
        s = d["strays"][0]
        tap.ok(s["kind"] == "stranger" and s["bytes"] >= 96 * MIB and
               s["comm"] == "guest-link" and s["uuid"] == UUID[0] and
               s["since"], f"the API has its device: {s}")
        tap.ok("strays" not in device(weir, 1), "and nothing of the other")
        line = weir.cli("events", "--type", "device.stray").stdout
        tap.ok("state=found" in line and "(guest-link): " in line and
               "no task's" in line, f"events says it: {line[:200]}")
        os.killpg(p.pid, signal.SIGKILL)
    until(lambda: told(weir) == [("found", "stranger"),
                                 ("gone", "stranger")], "it is gone")
    tap.ok("strays" not in device(weir, 0), "its end is an event, too")


def around(tap, weir, machine):
    """A task that has no device takes one, by an empty environment."""
    wid = job(weir, "cheat", machine.bare(64))
    until(lambda: told(weir, workload=wid) == [("found", "device")],
          "it is found")
    t = weir.client.need("GET", f"/v1/workloads/{wid}/tasks/cheat")
    s = t["strays"][0]
    tap.ok(t["state"] == "running" and s["kind"] == "device" and
           s["bytes"] >= 64 * MIB, f"it is noted, and runs: {s}")
    text = weir.cli("show", wid + "/cheat").stdout
    tap.ok("that its lease has not" in text and UUID[0] in text,
           "show says it")
    policy(weir, stray="stop")
    w = weir.client.wait(wid)
    t = weir.client.tasks(wid)[0]
    tap.equal((w["outcome"], t["outcome"], t["cause"], t["attempt"]),
              ("failed", "failed", "stray", 1), "by policy it is ended")
    until(lambda: told(weir, workload=wid)[-1] == ("gone", "device"),
          "its end")
    tap.ok("stray" in weir.cli("show", wid + "/cheat").stdout,
           "show says why")


def beyond(tap, weir, machine):
    """Half a device, and more than half of its memory."""
    policy(weir, stray="stop", context_mib=64, nodes="leased")
    good = job(weir, "good", machine.bare(400), gpus=0.5)
    until(lambda: weir.client.tasks(good)[0]["state"] == "running", "it runs")
    with open(glob.glob(f"{weir.state}/engine/local/leases/{good}.*")[0],
              encoding="utf-8") as f:
        order = f.readline()
    tap.ok(f'"context":{64 * MIB}' in order and '"nodes":"leased"' in order,
           "its order says what holds for it")
    bad = job(weir, "bad", machine.bare(600), gpus=0.5)
    w = weir.client.wait(bad)
    found = weir.client.events(type="device.stray", workload=bad)[0]["data"]
    tap.ok(found["kind"] == "memory" and found["bytes"] >= 600 * MIB and
           abs(found["limit"] - 512 * MIB) < MIB,
           f"beyond its limit and a context: {found}")
    tap.equal((w["outcome"], weir.client.tasks(bad)[0]["cause"]),
              ("failed", "stray"), "it is ended")
    tap.equal((told(weir, workload=good),
               weir.client.tasks(good)[0]["state"]), ([], "running"),
              "one within them is not")
    weir.cli("abort", good, "--force", check=True)
    weir.client.wait(good)


def run(tap):
    with Weir(devices="auto") as weir:
        machine = Machine(weir.folder)
        weir.env = machine.env()
        weir.args = ["--gpud", machine.sock]
        try:
            weir.start()
            weir.wait_devices()
            stranger(tap, weir, machine)
            around(tap, weir, machine)
            beyond(tap, weir, machine)
            weir.stop()
        finally:
            machine.end()


if __name__ == "__main__":
    weirtest.main(run)

#!/usr/bin/env python3
"""weir why, on a live control plane: each cause is made to happen, the sentence
has the numbers of it, and what it says would help is done and does.
"""
import os

import weirtest
from weirtest import Weir, until

GIB = 1 << 30


def submit(weir, name, gpus=0, run="true", **more):
    doc = {"weir": 1, "kind": "job", "name": name, "cpus": 0.01, "run": run,
           **more}
    if gpus:
        doc["gpus"] = gpus
    r = weir.client.submit(doc)
    if r.status != 201:
        raise RuntimeError(f"{name}: {r}")
    return r.json["id"]


def hold(weir, name, gpus=0, run="exec sleep 3600", **more):
    """One that runs until it is aborted."""
    wid = submit(weir, name, gpus, run, **more)
    until(lambda: weir.client.tasks(wid)[0]["state"] == "running", name)
    return wid


def abort(weir, *wids):
    for wid in wids:
        weir.cli("abort", wid, check=True)
        weir.client.wait(wid)


def why(weir, wid, task=None):
    tasks = weir.client.tasks(wid)
    return weir.client.need("GET", f"/v1/workloads/{wid}/tasks/"
                            f"{task or tasks[0]['task']}")["why"]


def says(tap, weir, wid, code, *words, task=None):
    """The reason, in the API as in what `weir why` prints."""
    got = {}

    def so():
        got.update(why(weir, wid, task))
        return got["code"] == code
    try:
        until(so, code, 30)
    except TimeoutError:
        pass
    shown = weir.cli("why", f"{wid}/{task}" if task else wid).stdout
    text = f"{got['text']} {got.get('change', '')}"
    missing = [w for w in words if w not in text]
    tap.ok(got["code"] == code and not missing, f"{code}: {text}", got, missing)
    # A table folds nothing: what is printed is what the API said.
    tap.ok(" ".join(got["text"].split()) in " ".join(shown.split()),
           f"{code}: weir why prints it", shown)
    return got


def ends(tap, weir, text, *wids):
    tap.equal([weir.client.wait(w)["outcome"] for w in wids],
              ["succeeded"] * len(wids), text)


# What can never be is said at once ----------------------------------------------

def never(tap, weir):
    cpus = os.cpu_count() + 1
    for code, words, doc in (
            ("never-devices", ["9 devices", "has 4 of 4"], {"gpus": 9}),
            ("never-model", ["model H200", "0 devices"],
             {"gpus": 1, "gpu": {"model": "H200"}}),
            ("never-gpu-memory", ["96Gi", "0 devices"],
             {"gpus": 1, "gpu": {"memory": "96Gi"}}),
            ("never-cpus", [f"{cpus} CPUs"], {"cpus": cpus}),
            ("never-memory", ["100Ti"], {"memory": "100Ti"}),
            ("never-label", ["zone=moon"], {"nodes": {"zone": "moon"}}),
            ("never-gang", ["3 ranks"], {"gpus": 2, "ranks": 3})):
        wid = submit(weir, code, **doc)
        says(tap, weir, wid, code, "never", *words)
        abort(weir, wid)


# What is taken for now --------------------------------------------------------------

def room(tap, weir):
    busy = [hold(weir, f"busy{k}", 0.6) for k in range(4)]
    wait = submit(weir, "one", 1)
    got = says(tap, weir, wait, "fragmented", "1 device", "of 4 devices")
    tap.equal(got["position"], 1, "it is the first in line")
    tap.ok(got["start"]["low"] <= got["start"]["mid"] <= got["start"]["high"],
           f"with a range of when: {got['start']}")
    big = submit(weir, "four", 4)
    got = says(tap, weir, big, "devices", "4 devices", "1.6 are free in all")
    tap.equal(got["position"], 2, "another stands behind it")
    abort(weir, busy[0], big)
    ends(tap, weir, "it starts when one is whole again", wait)
    abort(weir, *busy[1:])

    all4 = hold(weir, "all", 4)
    wait = submit(weir, "one", 1)
    says(tap, weir, wait, "devices", "1 device")
    tap.ok("in line" in weir.cli("why", wait).stdout, "its place is printed",
           weir.cli("why", wait).stdout)
    abort(weir, all4)
    ends(tap, weir, "it starts when they are free", wait)


def cpus(tap, weir):
    n = os.cpu_count()
    most = hold(weir, "most", cpus=n - 0.5)
    wait = submit(weir, "more", cpus=1)
    says(tap, weir, wait, "cpus", "1 CPU", "0.5")
    abort(weir, most)
    ends(tap, weir, "it starts when CPUs are free", wait)


def memory(tap, weir):
    pool = weir.client.need("GET", "/v1/pools")["items"][0]
    total = pool["nodes"][0]["memory"]["total"]
    most = hold(weir, "most", memory=f"{total // GIB - 1}Gi")
    wait = submit(weir, "more", memory="2Gi")
    says(tap, weir, wait, "memory", "2Gi")
    abort(weir, most)
    ends(tap, weir, "it starts when memory is free", wait)


# What somebody said ------------------------------------------------------------------

def people(tap, weir):
    """Paused, a node drained, a window; the change that is named helps."""
    wait = submit(weir, "j", 1, run="sleep 0.2")
    ends(tap, weir, "nothing is in the way", wait)

    weir.cli("node", "drain", node(weir), check=True)
    wait = submit(weir, "j", 1)
    says(tap, weir, wait, "drained", "drained", "weir node undrain")
    weir.cli("node", "undrain", node(weir), check=True)
    ends(tap, weir, "the command that it names helps", wait)

    weir.cli("reserve", "set", "visit", "--nodes", node(weir), "--to", "10m",
             check=True)
    wait = submit(weir, "j", 1)
    says(tap, weir, wait, "window", "kept")
    weir.cli("reserve", "remove", "visit", check=True)
    ends(tap, weir, "it starts when the window is gone", wait)

    busy = hold(weir, "all", 4)
    wait = submit(weir, "j", 1)
    weir.cli("pause", wait, check=True)
    abort(weir, busy)
    got = says(tap, weir, wait, "paused", "paused", f"weir unpause {wait}")
    weir.cli(*got["change"].split()[1:], check=True)
    ends(tap, weir, "the command that it names helps", wait)


def node(weir):
    return weir.client.need("GET", "/v1/pools")["items"][0]["nodes"][0]["name"]


def tenant(tap, weir):
    weir.cli("tenant", "set", "default", "--max-gpus", "2", check=True)
    two = hold(weir, "two", 2)
    wait = submit(weir, "one", 1)
    says(tap, weir, wait, "quota", "2 devices at once", "default")
    three = submit(weir, "three", 3)
    says(tap, weir, three, "never-quota", "2 devices at once")
    abort(weir, three)
    weir.cli("tenant", "set", "default", "--max-gpus", "unlimited", check=True)
    ends(tap, weir, "it starts when more is allowed", wait)
    weir.cli("tenant", "set", "default", "--budget", "0.001 gpu_hours/day",
             check=True)
    until(lambda: weir.client.need("GET", "/v1/tenants/default")["budget"]
          .get("over"), "two devices to use up 3.6 device-seconds")
    wait = submit(weir, "one", 1)
    says(tap, weir, wait, "budget", "budget", "default")
    weir.cli("tenant", "set", "default", "--budget", "none", check=True)
    ends(tap, weir, "it starts when there is a budget again", wait)
    abort(weir, two)


# What it waits for itself ------------------------------------------------------------

def own(tap, weir):
    r = weir.client.submit({
        "weir": 1, "kind": "pipeline", "name": "p", "tasks": {
            "a": {"run": "exec sleep 3600", "cpus": 0.01},
            "b": {"run": "true", "cpus": 0.01, "needs": "a"},
            "c": {"run": "true", "cpus": 0.01, "together": "s"},
            "d": {"run": "true", "cpus": 0.01, "together": "s", "needs": "a"},
            "e": {"run": "exit 3", "cpus": 0.01,
                  "retries": {"count": 1, "backoff": "1h"}}}})
    wid = r.json["id"]
    says(tap, weir, wid, "running", "attempt 1", task="a")
    says(tap, weir, wid, "needs", "1 of the 1 tasks it needs", "'a' (running)",
         task="b")
    says(tap, weir, wid, "together", "1 of them still", task="c")
    says(tap, weir, wid, "backoff", "Attempt 1 ended (failed)", "tried again",
         task="e")
    abort(weir, wid)
    says(tap, weir, wid, "ended", "aborted", task="b")


def late(tap, weir):
    """What runs says how far it is, so who waits for it cannot be in time."""
    busy = hold(weir, "all", 4, "sleep 1; echo 0.0001 >&$WEIR_PROGRESS_FD; "
                "exec sleep 3600")
    soon = submit(weir, "soon", 1, max_wait="2m")
    says(tap, weir, soon, "devices")
    until(lambda: "As predicted it will not start within its max_wait of 2m" in
          weir.cli("why", soon).stdout, "that it will be late")
    tap.ok(True, "that it will be late is said long before")
    abort(weir, soon)
    soon = submit(weir, "soon", 1, max_wait="1s")
    tap.equal(weir.client.wait(soon)["outcome"], "failed",
              "who may not wait longer is let go")
    abort(weir, busy)


def run(tap):
    with Weir() as weir:
        weir.start()
        weir.wait_devices()
        for part in never, room, cpus, memory, people, tenant, own, late:
            part(tap, weir)
        tap.none(weir.faults(), "no fault")
        weir.stop()


if __name__ == "__main__":
    weirtest.main(run)

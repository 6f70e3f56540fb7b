#!/usr/bin/env python3
"""Two tasks whose memory together exceeds the device take turns on it, with the
real programs and the stand-in drivers.

Usage: slices.py STANDIN_FOLDER
"""
import datetime

import weirtest
from away import MIB, STANDIN, machine, types
from weirtest import Weir, until

POLICY = {"weir": 1, "kind": "policy", "slice": "1s", "suspend_cost": "50ms"}
SLICES = 5                             # of each, at least


def submit(weir, name):
    """Most of the device, until told to end; then it looks at what it wrote."""
    out = f"{weir.folder}/{name}"
    r = weir.client.submit({
        "weir": 1, "kind": "job", "name": name, "gpus": 0.6, "cpus": 0.01,
        "memory": "64Mi", "env": {"LD_LIBRARY_PATH": STANDIN},
        "run": f"export WEIR_STANDIN={weir.env['WEIR_STANDIN']}; "
               f"{{ printf 'init\\nuse\\nalloc {600 * MIB}\\n'; "
               f"until test -e {out}.go; do sleep 0.05; done; "
               f"printf 'alloc {MIB}\\n'; }} | "
               f"{STANDIN}/guest-link >> {out}.out"})
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def moves(weir, wid, name):
    return types(weir, wid).count(name)


def had(weir, wid):
    """Seconds that it had the device, of each slice that is over."""
    slices, since = [], None
    for e in weir.client.events(workload=wid):
        at = datetime.datetime.fromisoformat(e["time"].replace("Z", "+00:00"))
        if e["type"] in ("task.planned", "task.resuming"):
            since = at
        elif e["type"] == "lease.suspended":
            slices.append((at - since).total_seconds())
    return slices


def leavers(weir, wids):
    """Who left the device, in that order."""
    return [e["workload"] for e in weir.client.events()
            if e["type"] == "lease.suspended" and e["workload"] in wids]


def end(weir, name, wid):
    with open(f"{weir.folder}/{name}.go", "w", encoding="ascii"):
        pass
    outcome = weir.client.wait(wid)["outcome"]
    with open(f"{weir.folder}/{name}.out", encoding="ascii") as f:
        return outcome, f.read().count("\n")


def run(tap):
    with Weir(devices="auto") as weir:
        weir.env = machine(weir)
        weir.start()
        weir.wait_devices()
        weir.client.need("PUT", "/v1/policy", POLICY)
        a, b = submit(weir, "a"), submit(weir, "b")
        until(lambda: min(moves(weir, w, "lease.suspended")
                          for w in (a, b)) >= SLICES, "their slices", 120)
        order = leavers(weir, (a, b))
        tap.ok(all(x != y for x, y in zip(order, order[1:])),
               f"they take turns: {len(order)} slices")
        why = {e["data"]["why"] for e in weir.client.events()
               if e["type"] == "task.preempting"}
        tap.equal(why, {"slice"}, "each because its slice was over")
        one, two = (sum(had(weir, w)[:SLICES]) for w in (a, b))
        print(f"# device time of {SLICES} slices: {one:.2f} and {two:.2f} s")
        tap.ok(min(had(weir, a) + had(weir, b)) >= 1,
               "each slice is whole")
        tap.equal(end(weir, "a", a), ("succeeded", 4), "one ends well")
        n = moves(weir, b, "task.preempting")
        tap.equal(end(weir, "b", b), ("succeeded", 4), "and so does the other")
        tap.equal(moves(weir, b, "task.preempting"), n,
                  "whom nobody asked to leave any more")
        tap.equal(types(weir, a).count("lease.claimed") +
                  types(weir, b).count("lease.claimed"), 2, "in one attempt each")
        weir.stop()


if __name__ == "__main__":
    weirtest.main(run)

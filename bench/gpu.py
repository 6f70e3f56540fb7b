#!/usr/bin/env python3
"""What the gate, staging and suspending cost on a real GPU, as JSON.

Usage: gpu.py [overhead] [handover] [suspend] [idle]; all of them unless named.
"""
import json
import os
import statistics
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "tests", "gpu"))
import node                            # noqa: E402
from node import Node, Session, until  # noqa: E402

PAIRS, ROUNDS = 4, 5
SIZES = (1, 4, 16, 64)                 # GiB


def overhead(n):
    """Best and median rates in turns with and without the gate."""
    wid = n.submit("pairs", PAIRS, cpus=4, memory="16Gi")
    outcome = n.weir.client.wait(wid, seconds=400)["outcome"]
    if outcome != "succeeded":
        raise RuntimeError(n.log(wid)[-800:])
    got = {name: [json.loads(x[0]) for _, x in n.saw(wid, name)]
           for name in ("plain", "gate")}
    found = {}
    for kind in got["plain"][0]:
        plain, gate = ([r[kind] for r in got[k]] for k in ("plain", "gate"))
        found[kind] = {
            "plain_best": round(max(plain), 1),
            "gate_best": round(max(gate), 1),
            "plain_all": [round(x, 1) for x in plain],
            "gate_all": [round(x, 1) for x in gate],
            "overhead_percent": round(100 * (max(plain) / max(gate) - 1), 2)}
    return found


def cold(n):
    """From a device that is free to a program that is ready on it."""
    begun = time.time()
    wid = n.submit("train", 1)
    took = n.hears(wid, "ready")[0] - begun
    n.result(wid)
    return took


def staged(n, k):
    """From the end of the one to the other that stands at the gate."""
    name = f"hand{k}"
    first = n.holder(name)
    wid = n.submit("train", 1)
    n.hears(wid, "imported")
    time.sleep(0.5)
    n.go(name)
    ended = n.hears(first, "end")[0]
    took = n.hears(wid, "ready")[0] - ended
    n.result(wid)
    return took


def handover(n):
    n.learn()
    colds = [cold(n) for _ in range(ROUNDS)]
    stages = [staged(n, k) for k in range(ROUNDS)]
    return {"cold_s": [round(x, 3) for x in colds],
            "staged_s": [round(x, 3) for x in stages],
            "cold_median_s": round(statistics.median(colds), 3),
            "staged_median_s": round(statistics.median(stages), 3),
            "times_faster": round(statistics.median(colds) /
                                  statistics.median(stages), 1)}


def suspend(n):
    """Seconds off the device and back on it, by bytes."""
    found = []
    for size in SIZES:
        wid = n.submit("train", 10 ** 6, size, memory=f"{size + 8}Gi")
        n.hears(wid, "step")
        row = {"ballast_gib": size}
        for word in ("suspend", "resume"):
            begun = time.monotonic()
            more = {"pid": min(n.pids(wid))} if word == "suspend" else {}
            a = n.gpud.ask(t=word, task=f"b{size}", **more)
            if not a.get("done"):
                raise RuntimeError(f"{word} of {size} GiB: {a}")
            row[word + "_s"] = round(time.monotonic() - begun, 3)
        row["bytes"] = a["bytes"]
        found.append(row)
        n.weir.client.need("POST", f"/v1/workloads/{wid}/abort", {}, want=202)
        n.weir.client.wait(wid)
    return found


def idle(n):
    """From the end of its grace to a free device; from a statement of an idle
    session to its result.
    """
    found = {"grace_s": 2, "gib": 1, "released_s": [], "woken_s": [],
             "statement_s": []}
    s = Session(n, idle={"grace": "2s"})
    s.type("import torch")
    s.type("x = torch.ones(1 << 28, device='cuda', dtype=torch.float32)")
    for k in range(ROUNDS):
        s.type("y = x.sum().item()")
        found["statement_s"].append(round(s.type("y = x.sum().item()"), 4))
        until(lambda: len(n.events(s.wid, "lease.suspended")) > k,
              "it to be released", step=0.1)
        at, _ = n.events(s.wid, "lease.suspended")[k]
        _, why = n.events(s.wid, "task.suspending")[k]
        over = (why["used_ms"] + why["grace_ms"]) / 1000
        found["released_s"].append(round(at - over, 3))
        time.sleep(1)
        found["woken_s"].append(round(s.type("y = x.sum().item()"), 3))
    s.end()
    for name in "released_s", "woken_s", "statement_s":
        found[name.replace("_s", "_median_s")] = statistics.median(found[name])
    return found


def main():
    why = node.missing()
    if why:
        sys.exit(f"bench/gpu: {why}: nothing to measure")
    want = sys.argv[1:] or ["overhead", "handover", "suspend",
                             "idle"]
    found = {}
    with Node() as n:
        device = n.gpud.ask(t="inventory")
        found["device"] = {"model": device["devices"][0]["model"],
                           "driver": device["driver"]}
        for name in want:
            begun = time.monotonic()
            found[name] = globals()[name](n)
            print(f"{name}: {time.monotonic() - begun:.0f} s",
                  file=sys.stderr, flush=True)
            print(json.dumps({name: found[name]}), file=sys.stderr)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()

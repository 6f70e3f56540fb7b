#!/usr/bin/env python3
"""Pipelines of CPU and GPU stages on one real GPU, as JSON.

The same pipelines, three times: (a) each holds the device from its start to its
end, (b) each GPU stage holds it, first come first served, started when it is its
turn, (c) Weir.  Usage: gpu_mixed.py [--duty 0.3,0.5,0.7] [--pipelines 6]

The duty of a pipeline is the time on the device over its length, both as in (a),
where it is one process that imports the framework once.  No allocation gives
more than 1/duty times the throughput of (a).
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), "tests", "gpu"))
import node                            # noqa: E402
from node import WORK, Node            # noqa: E402

KINDS = ("prepare", "train", "evaluate", "infer")
ON_DEVICE = ("train", "infer")
TENANTS = ("red", "green", "blue")
# How the time of a pipeline falls to its stages of a kind; as seeded by its
# number, so that they are not all alike.
CPU_PART, GPU_PART = 0.6, 0.65
SECONDS = {0.3: 4.0, 0.5: 6.0, 0.7: 9.0}       # on the device, by duty


def command(kind, seed, amounts, folder):
    return [sys.executable, f"{WORK}/stage.py", kind, str(seed),
            *map(str, amounts), folder]


def run(cmd, say=None):
    env = dict(os.environ, OMP_NUM_THREADS="1")
    if say:
        env["SAY"] = say
    r = subprocess.run(cmd, env=env, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{cmd}: {r.stderr[-800:]}")


def said(path):
    """{word: [times]} of a file that say.py wrote."""
    found = collections.defaultdict(list)
    with open(path, encoding="ascii") as f:
        for line in f:
            at, word = line.split()[:2]
            found[word].append(float(at))
    return found


def on_device(path):
    """Seconds between `ready` and `done`."""
    s = said(path)
    return sum(b - a for a, b in zip(s["ready"], s["done"]))


class Set:
    """The pipelines of one duty."""

    def __init__(self, amounts, n, top):
        self.top = top
        self.n = n
        # From 80 to 120 % of the mean, each stage on its own.
        self.amounts = [[max(1, int(a * (0.8 + 0.1 * ((7 * k + 3 * j) % 5))))
                         for j, a in enumerate(amounts)] for k in range(n)]

    def folder(self, mode, k):
        path = f"{self.top}/{mode}{k}"
        os.makedirs(path, exist_ok=True)
        return path

    def results(self, mode):
        found = []
        for k in range(self.n):
            with open(f"{self.folder(mode, k)}/result",
                      encoding="ascii") as f:
                found.append(f.read())
        return found


def whole(s):
    """(a): one after the other, each with the device from start to end."""
    begun, busy = time.monotonic(), 0
    for k in range(s.n):
        say = f"{s.folder('a', k)}/say"
        run(command("all", k, s.amounts[k], s.folder("a", k)), say)
        busy += on_device(say)
    took = time.monotonic() - begun
    return {"seconds": took, "device_seconds": busy, "duty": busy / took}


class Turn:
    """One device, first come first served."""

    def __init__(self):
        self.lock = threading.Condition()
        self.waiting, self.next = 0, 0

    def __enter__(self):
        with self.lock:
            mine, self.waiting = self.waiting, self.waiting + 1
            self.lock.wait_for(lambda: self.next == mine)

    def __exit__(self, *_):
        with self.lock:
            self.next += 1
            self.lock.notify_all()


def by_task(s):
    """(b): each GPU stage holds the device while its process lives."""
    turn, failed = Turn(), []

    def pipeline(k):
        try:
            for kind, amount in zip(KINDS, s.amounts[k]):
                cmd = command(kind, k, [amount], s.folder("b", k))
                if kind in ON_DEVICE:
                    with turn:
                        run(cmd)
                else:
                    run(cmd)
        except RuntimeError as e:
            failed.append(e)
    begun = time.monotonic()
    threads = [threading.Thread(target=pipeline, args=(k,))
               for k in range(s.n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]
    return {"seconds": time.monotonic() - begun}


def document(s, k, mode):
    tasks = {}
    for j, kind in enumerate(KINDS):
        tasks[kind] = {
            "argv": command(kind, k, [s.amounts[k][j]], s.folder(mode, k)),
            "cpus": 1, "memory": "6Gi", "env": {"OMP_NUM_THREADS": "1"}}
        if kind in ON_DEVICE:
            tasks[kind]["gpus"] = 1
        if j:
            tasks[kind]["needs"] = KINDS[j - 1]
    return {"weir": 1, "kind": "pipeline", "name": "mixed", "tasks": tasks}


def shares(n):
    """Device-seconds since the beginning, by what they were."""
    found = {}
    for line in n.weir.client.get("/metrics").body.decode().splitlines():
        if line.startswith("weir_device_seconds_total{"):
            kind = line.split('"')[1]
            found[kind] = float(line.split()[-1])
    return found


def by_weir(s, n, mode="c"):
    """(c): as pipelines of three tenants."""
    before, begun = shares(n), time.monotonic()
    wids = []
    for k in range(s.n):
        r = n.weir.client.submit(document(s, k, mode),
                                 tenant=TENANTS[k % len(TENANTS)])
        if r.status != 201:
            raise RuntimeError(f"submit: {r}")
        wids.append(r.json["id"])
    for wid in wids:
        w = n.weir.client.wait(wid, seconds=500)
        if w["outcome"] != "succeeded":
            raise RuntimeError(f"{wid}: {w}")
    took, after = time.monotonic() - begun, shares(n)
    spent = {k: after[k] - before.get(k, 0) for k in after}
    total = sum(spent.values())
    return {"seconds": took, "shares": {k: round(v / total, 4)
                                        for k, v in spent.items()},
            "wr": (spent["waste"] + spent["idle_frag"]) / total}


def calibrate(top):
    """Units of work a second of each stage, and the length of a start."""
    folder, rates = f"{top}/calibrate", {}
    os.makedirs(folder)
    for kind, amount in zip(KINDS, (10, 400, 10, 400)):
        say = f"{folder}/{kind}"
        times = []
        for a in (amount, 3 * amount):
            begun = time.monotonic()
            run(command(kind, 1, [a], folder), say + str(a))
            times.append(on_device(say + str(a)) if kind in ON_DEVICE
                         else time.monotonic() - begun)
        rates[kind] = 2 * amount / (times[1] - times[0])
    begun = time.monotonic()
    run(command("all", 1, [1, 1, 1, 1], folder), folder + "/all")
    return rates, time.monotonic() - begun


def amounts(duty, rates, start):
    gpu = SECONDS[duty]
    cpu = max(0.2, gpu / duty - gpu - start)
    return [cpu * CPU_PART * rates["prepare"],
            gpu * GPU_PART * rates["train"],
            cpu * (1 - CPU_PART) * rates["evaluate"],
            gpu * (1 - GPU_PART) * rates["infer"]]


def measure(duty, pipelines, rates, start, n, top):
    s = Set(amounts(duty, rates, start), pipelines, f"{top}/{duty}")
    a, b, c = whole(s), by_task(s), by_weir(s, n)
    gain = a["seconds"] / c["seconds"]
    same = s.results("a") == s.results("b") == s.results("c")
    return {"duty_wanted": duty, "duty": round(a["duty"], 3),
            "whole_s": round(a["seconds"], 1),
            "by_task_s": round(b["seconds"], 1),
            "weir_s": round(c["seconds"], 1),
            "device_s": round(a["device_seconds"], 1),
            "gain": round(gain, 3), "of_bound": round(gain * a["duty"], 3),
            "over_by_task": round(b["seconds"] / c["seconds"], 3),
            "wr": round(c["wr"], 4), "shares": c["shares"],
            "results_identical": same}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--duty", default="0.3,0.5,0.7")
    p.add_argument("--pipelines", type=int, default=6)
    args = p.parse_args()
    why = node.missing()
    if why:
        sys.exit(f"bench/gpu_mixed: {why}: nothing to measure")
    found = []
    with Node() as n, tempfile.TemporaryDirectory() as top:
        for t in TENANTS:
            n.weir.client.need("PUT", f"/v1/tenants/{t}", {}, want=201)
        rates, start = calibrate(top)
        # What has been seen is known: as many of a kind as that takes.
        by_weir(Set([1, 1, 1, 1], node.LIKE, top + "/like"), n)
        for duty in map(float, args.duty.split(",")):
            found.append(measure(duty, args.pipelines, rates, start, n, top))
            print(json.dumps(found[-1]), file=sys.stderr, flush=True)
    print(json.dumps({"rates": rates, "start_s": start, "runs": found},
                     indent=1))


if __name__ == "__main__":
    main()

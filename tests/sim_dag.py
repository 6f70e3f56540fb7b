#!/usr/bin/env python3
"""weir sim dag and weir sim mixed: the small workflow of tests/sim against a
plain list scheduler, the committed scenario against its bounds, and, where
WEIR_TRACES names them, the workflows of WfCommons against their anchors.
"""
import csv
import heapq
import json
import os
import subprocess

import weirtest
from weirtest import ROOT, WEIR

HERE = os.path.join(ROOT, "tests", "sim")
TRACES = os.environ.get("WEIR_TRACES", "")
SLOTS = {4: "listsched_blevel_P4", 8: "P8", 16: "P16", 32: "P32"}
LEARNED = 1.05                         # of the anchor
OF_BOUND, WR = 0.95, 0.01


def weir(*args):
    out = subprocess.run([WEIR, "sim", *args, "-o", "json"],
                         capture_output=True, text=True, timeout=300,
                         check=True)
    return json.loads(out.stdout)


def dag(path, slots, *more):
    return weir("dag", path, "--slots", str(slots), *more)["items"][0]


# The second program -----------------------------------------------------------

def read(path):
    """[(seconds, parents)], programs of several lines joined."""
    tasks, open_task = [], None
    with open(path) as f:
        for line in f:
            words = line.rstrip("\n").rstrip(" ").split(" ")
            if open_task is None:
                if not words[0] or words[0].startswith("#"):
                    continue
                open_task, rest = float(words[1]), words[3:]
            else:
                rest = words[1:]
            if rest:
                tasks.append((open_task, [int(w) for w in rest[1:]]))
                open_task = None
    return tasks


def list_schedule(tasks, slots):
    kids = [[k for k, t in enumerate(tasks) if i in t[1]]
            for i in range(len(tasks))]
    ways = {}

    def way(i):
        if i not in ways:
            ways[i] = tasks[i][0] + max(map(way, kids[i]), default=0)
        return ways[i]

    missing = [len(t[1]) for t in tasks]
    ready = [(-way(i), i) for i, n in enumerate(missing) if n == 0]
    running, now = [], 0.0
    while ready or running:
        ready.sort()
        while ready and len(running) < slots:
            i = ready.pop(0)[1]
            heapq.heappush(running, (round(now + tasks[i][0], 3), i))
        now = running[0][0]
        while running and running[0][0] <= now:
            for k in kids[heapq.heappop(running)[1]]:
                missing[k] -= 1
                if missing[k] == 0:
                    ready.append((-way(k), k))
    return now


# Tests ------------------------------------------------------------------------

def small(tap):
    path = os.path.join(HERE, "dag.txt")
    tasks = read(path)
    for slots in (1, 2, 3, 4, 16):
        want = list_schedule(tasks, slots)
        r = dag(path, slots)
        tap.ok(abs(r["length_s"] - want) < 1e-9 and r["tasks"] == 10,
               f"{slots} slots: {r['length_s']} s, list scheduling {want} s")
        learned = dag(path, slots, "--learned-from", "run")
        tap.ok(learned["learned"] and learned["length_s"] <= want * LEARNED,
               f"{slots} slots, learned: {learned['length_s']} s")
    out = [subprocess.run([WEIR, "sim", "dag", path, "--slots", "2", "-o",
                           "json"], capture_output=True, timeout=60,
                          check=True).stdout for _ in range(2)]
    tap.ok(out[0] == out[1], "the same input gives the same bytes")
    bad = subprocess.run([WEIR, "sim", "dag", os.path.join(HERE, "jobs.csv"),
                          "--slots", "2"], capture_output=True, text=True,
                         timeout=60, check=False)
    tap.ok(bad.returncode == 3 and "jobs.csv:1: index" in bad.stderr,
           "what is no workflow is refused, with its line", bad.stderr)


def mixed(tap):
    for duty in (0.3, 0.5, 0.7):
        r = weir("mixed", "--seed", "0", "--duty", str(duty))
        tap.ok(r["pipelines"] == 1000 and abs(r["duty"] - duty) < 0.02 and
               r["of_bound"] >= OF_BOUND,
               f"duty {duty}: {r['gain']:.3f} times the throughput of "
               f"holding, {r['of_bound']:.3f} of the bound")
        tap.ok(r["weir"]["wr_while_queued"] <= WR,
               f"duty {duty}: WR {r['weir']['wr_while_queued']:.4f} while "
               "some task waits for GPUs")


def anchors(tap):
    folder = os.path.join(TRACES, "wfcommons")
    with open(os.path.join(folder, "anchors.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        path = os.path.join(folder, row["instance"] + ".txt")
        for slots, column in SLOTS.items():
            want = float(row[column])
            known = dag(path, slots)["length_s"]
            learned = dag(path, slots, "--learned-from", "run")["length_s"]
            # Anchors are rounded, and so are the run times they were
            # made from.
            tap.ok(known <= want + 0.0015 and learned <= want * LEARNED,
                   f"{row['instance']}, {slots} slots: {known / want:.4f} "
                   f"known, {learned / want:.4f} learned")


def run(tap):
    small(tap)
    mixed(tap)
    if not TRACES:
        tap.skip("the workflows of WfCommons", "WEIR_TRACES is not set")
        return
    anchors(tap)


if __name__ == "__main__":
    weirtest.main(run)

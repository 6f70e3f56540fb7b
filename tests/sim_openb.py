#!/usr/bin/env python3
"""weir sim pack: the small lists of tests/sim against a plain second program,
and, where WEIR_TRACES names them, all published results of openb.
"""
import csv
import gzip
import json
import math
import os
import subprocess
import tempfile

import weirtest
from weirtest import ROOT, WEIR

HERE = os.path.join(ROOT, "tests", "sim")
TRACES = os.environ.get("WEIR_TRACES", "")
LISTS = ["default", "cpu100", "gpushare60", "gpuspec20", "multigpu30"]
POLICIES = {"dotprod": "DotProd", "clustering": "GpuClustering",
            "packing": "GpuPacking", "bestfit": "BestFit", "fgd": "FGD"}


def sim(nodes, pods, order, seed, policy):
    out = subprocess.run(
        [WEIR, "sim", "pack", "--nodes", nodes, "--pods", pods, "--order",
         order, "--seed", str(seed), "--policy", policy, "-o", "json"],
        capture_output=True, text=True, timeout=300, check=True)
    return json.loads(out.stdout)


# The second program ----------------------------------------------------------

class Node:
    def __init__(self, row):
        self.cpu = int(row["cpu_milli"])
        self.mem = int(row["memory_mib"])
        self.gpu = [1000] * int(row["gpu"])
        self.model = row["model"]
        self.classes = set()


class Pod:
    def __init__(self, row):
        self.cpu = int(row["cpu_milli"])
        self.mem = int(row["memory_mib"])
        self.n = int(row["num_gpu"])
        self.milli = int(row["gpu_milli"]) if self.n else 0
        self.spec = row["gpu_spec"]

    def key(self):
        return self.cpu, self.milli, self.n, self.spec

    def allowed(self, node):
        return not self.spec or node.model in self.spec.split("|")


def typical(pods):
    count = {}
    for p in pods:
        count[p.key()] = count.get(p.key(), 0) + 1
    kinds = sorted(count.items(), key=lambda x: (x[1], x[0]), reverse=True)
    kept, covered = [], 0
    for key, n in kinds:
        if covered >= 0.95 * len(pods):
            break
        kept.append((key, n))
        covered += n
    return [(key, n / len(pods) / (covered / len(pods))) for key, n in kept]


def frag(cpu, gpu, model, types):
    free, sums = sum(gpu), [0.0] * 6
    for (need, milli, n, spec), weight in types:
        fits = cpu >= need
        lost = free
        if n == 0:
            why = 3 if fits else 4
        elif spec and model not in spec.split("|"):
            why = 5
        elif sum(x >= milli for x in gpu) < n:
            why = 1 if fits else 0
        elif not fits:
            why = 2
        else:
            why, lost = 1, sum(x for x in gpu if x < milli)
        sums[why] += weight * lost
    total = 0.0
    for x in sums:
        total += x
    return total


def after(gpu, pod, at):
    gpu = list(gpu)
    if pod.n == 1:
        gpu[at] -= pod.milli
    elif pod.n:
        for i in [i for i, x in enumerate(gpu) if x == 1000][:pod.n]:
            gpu[i] = 0
    return gpu


def fgd(node, pod, types):
    before = frag(node.cpu, node.gpu, node.model, types)
    places = [i for i, x in enumerate(node.gpu)
              if x >= pod.milli] if pod.n == 1 else [0]
    best = None
    for at in places:
        gain = before - frag(node.cpu - pod.cpu, after(node.gpu, pod, at),
                             node.model, types)
        score = int(100 * (1 / (1 + math.exp(-gain / 1000))))
        if best is None or score > best[0]:
            best = score, at
    return best


def tight(node, pod):
    return min((x, i) for i, x in enumerate(node.gpu)
               if x >= pod.milli)[1] if pod.n == 1 else 0


def packing(node, pod):
    if pod.n == 0:
        return 0
    if all(x == 1000 for x in node.gpu):
        return max(33 - len(node.gpu), len(node.gpu))
    used = sorted(x for x in node.gpu if x >= pod.milli)[:pod.n]
    whole = used.count(1000)
    if whole:
        return max(50 - whole, 33)
    return max(100 - sum(x * 100 // 1000 for x in used) // 10, 50)


def clustering(node, pod):
    if pod.n == 0:
        return 0
    base = 25 * (8000 - sum(node.gpu)) // 8000
    mine = pod.n if pod.milli == 1000 else "share"
    if mine in node.classes:
        return base + (75 if len(node.classes) == 1 else 50)
    return base + (0 if node.classes else 25)


def score(policy, node, pod, types):
    free, want = sum(node.gpu), pod.n * pod.milli
    if policy == "fgd":
        return fgd(node, pod, types)
    if policy == "bestfit":
        s = int(100 * (1 - (0.5 * ((node.cpu - pod.cpu) / 128000) +
                            0.5 * ((free - want) / 8000))))
    elif policy == "dotprod":
        s = int(100 * (1 - (node.cpu / 128000 * (pod.cpu / 128000) +
                            free / 8000 * (want / 8000)) / 2))
    else:
        s = {"packing": packing, "clustering": clustering}[policy](node, pod)
    return s, tight(node, pod)


def fits(node, pod):
    return (node.cpu >= pod.cpu and node.mem >= pod.mem and
            (pod.n == 0 or pod.allowed(node) and
             sum(x >= pod.milli for x in node.gpu) >= pod.n))


def replay(nodes, pods, order, rank, policy):
    types = typical(pods)
    used = failed = 0
    for i in order:
        pod = pods[i]
        best = None
        for k, node in enumerate(nodes):
            if not fits(node, pod):
                continue
            s, at = score(policy, node, pod, types)
            if best is None or (s, -rank[k]) > best[0]:
                best = (s, -rank[k]), node, at
        if best is None:
            failed += 1
            continue
        node = best[1]
        node.gpu = after(node.gpu, pod, best[2])
        node.cpu -= pod.cpu
        node.mem -= pod.mem
        if pod.n:
            node.classes.add(pod.n if pod.milli == 1000 else "share")
        used += pod.n * pod.milli
    return used, failed, sum(frag(n.cpu, n.gpu, n.model, types)
                             for n in nodes)


# The tests -------------------------------------------------------------------

def rows(name):
    with open(os.path.join(HERE, name)) as f:
        return list(csv.DictReader(f))


def orders(path):
    with open(path) as f:
        for line in f:
            if not line.startswith("#"):
                word, seed, _, *numbers = line.split()
                yield word, int(seed), [int(x) for x in numbers]


def small(tap):
    files = [os.path.join(HERE, f)
             for f in ("nodes.csv", "pods.csv", "order.txt")]
    pods = [Pod(r) for r in rows("pods.csv")]
    found = {(word, seed): n for word, seed, n in orders(files[2])}
    for policy in POLICIES:
        for seed in (1, 2, 3):
            nodes = [Node(r) for r in rows("nodes.csv")]
            used, failed, lost = replay(nodes, pods, found["pods", seed],
                                        found["nodes", seed], policy)
            r = sim(*files, seed, policy)
            tap.ok((r["allocated_milli_gpu"], r["failed_pods"]) ==
                   (used, failed) and abs(r["frag_milli_gpu"] - lost) < 0.01,
                   f"{policy}, seed {seed}: {used} used, {failed} dropped, "
                   f"{lost:.2f} fragmented", r)
    for policy in ("random", "weir"):
        r = sim(*files, 1, policy)
        tap.ok(0 < r["allocated_milli_gpu"] <= r["capacity_milli_gpu"] and
               r == sim(*files, 1, policy),
               f"{policy}: {r['allocated_milli_gpu']}, twice the same", r)


def unpack(path, folder):
    name = os.path.join(folder, os.path.basename(path).removesuffix(".gz"))
    with gzip.open(path) as f, open(name, "wb") as out:
        out.write(f.read())
    return name


def published(tap, folder):
    openb = os.path.join(TRACES, "openb")
    with open(os.path.join(openb, "expected", "final_integers.csv")) as f:
        want = {(r["workload"], r["policy"], int(r["seed"])): r
                for r in csv.DictReader(f)}
    seeds = sorted({seed for _, _, seed in want})
    nodes = os.path.join(openb, "openb_node_list_gpu_node.csv")
    above = 0
    for name in LISTS:
        work = "openb_pod_list_" + name
        pods = unpack(f"{openb}/{work}.csv.gz", folder)
        order = unpack(f"{openb}/orders/{work}.txt.gz", folder)
        for policy, title in POLICIES.items():
            wrong = []
            for seed in seeds:
                r = sim(nodes, pods, order, seed, policy)
                w = want[work, title, seed]
                if (any(r[k] != int(w[k]) for k in
                        ("arrived_pods", "arrived_milli_gpu",
                         "allocated_milli_gpu", "failed_pods")) or
                        abs(r["frag_milli_gpu"] -
                            float(w["frag_milli_gpu"])) > 0.01):
                    wrong.append((seed, r, w))
            tap.none(wrong, f"{name}, {policy}: {len(seeds)} rows as published")
        ours = [sim(nodes, pods, order, seed, "weir")["allocated"]
                for seed in seeds]
        ours = 100 * sum(ours) / len(ours)
        theirs = sum(int(want[work, "FGD", s]["allocated_milli_gpu"])
                     for s in seeds) / len(seeds) / 62120
        above += ours > theirs
        tap.ok(ours >= theirs, f"{name}: weir allocates {ours:.3f} %, FGD "
               f"{theirs:.3f} %")
    tap.ok(above >= 3, f"weir is above FGD on {above} of 5 lists")


def run(tap):
    small(tap)
    if not TRACES:
        tap.skip("the published results", "WEIR_TRACES is not set")
        return
    with tempfile.TemporaryDirectory() as folder:
        published(tap, folder)


if __name__ == "__main__":
    weirtest.main(run)

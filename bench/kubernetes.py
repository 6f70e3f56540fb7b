#!/usr/bin/env python3
"""What it costs to know a large Kubernetes, one JSON object a line.

    bench/kubernetes.py [--nodes 5000] [--pods 50000] [--seconds 30]
                        [--rate 100] [--quick]

A real API server with its etcd, in a network of its own, has nodes and pods as
objects alone.  `first` is the time from the start of our client to its whole
inventory; `quiet` is what it costs while nothing changes, and `busy` while
pods change at that rate.  Then the same of a whole control plane that looks at
the cluster (`observed`), and of one that works on it (`worked`), where each node
is a block and a change of a pod may be one of what that has.  Wants root; the first time the programs of
Kubernetes are built, which takes minutes.
"""
import argparse
import glob
import os
import shutil
import sys
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests"))
sys.path.insert(0, os.path.join(ROOT, "tests", "kubernetes"))
from cluster import Cluster, programs  # noqa: E402
from figures import say                # noqa: E402
from follow import Follow              # noqa: E402
from objects import PODS, each, node, pod          # noqa: E402
from space import apart                # noqa: E402
from weirtest import BUILD, Weir, as_sigterm_exit, until  # noqa: E402


def fill(cluster, nodes, pods):
    start = time.monotonic()
    each(cluster, (("POST", "/api/v1/nodes", node(f"n{k}"))
                   for k in range(nodes)), 8)
    each(cluster, (("POST", PODS, pod(f"p{k}", k % 2, f"n{k % nodes}"))
                   for k in range(pods)), 8)
    say("kubernetes-fill", nodes=nodes, pods=pods,
        seconds=round(time.monotonic() - start, 1))


def used(f, before, start):
    now = f.sums()
    return {"seconds": round(time.monotonic() - start, 1),
            "cpu_ms": now["cpu_ms"] - before.get("cpu_ms", 0),
            "rss_mib": now["rss_kib"] >> 10}


def first(follow, conf):
    start = time.monotonic()
    f = Follow(follow, conf)
    f.listed()
    s = f.sums()
    say("kubernetes-first", nodes=s["nodes"], pods=s["pods"],
        taken=s["taken"], **used(f, {}, start))
    return f


def quiet(f, seconds, what="quiet"):
    before, start = f.sums(), time.monotonic()
    time.sleep(seconds)
    say(f"kubernetes-{what}", **used(f, before, start))


def busy(cluster, f, pods, seconds, rate, what="busy"):
    before, start, n = f.sums(), time.monotonic(), 0
    conn = cluster.connect()
    while time.monotonic() < start + seconds:
        if n > (time.monotonic() - start) * rate:
            time.sleep(0.001)
            continue
        cluster.need("PATCH", f"{PODS}/p{n % pods}",
                     {"metadata": {"labels": {what: str(n)}}}, conn,
                     "application/merge-patch+json")
        n += 1
    conn.close()
    say(f"kubernetes-{what}", changes=n, **used(f, before, start))


class Control:
    """A control plane with the cluster as a pool."""

    def __init__(self, conf, *more):
        self.weir = Weir(devices="none", args=["--runners", "127.0.0.1:0"])
        self.weir.start()
        self.weir.cli("pool", "add", "lab", "--engine", "kubernetes",
                      "--kubeconfig", conf, *more, check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.weir.end()

    def pool(self):
        return self.weir.client.need("GET", "/v1/pools/lab")

    def until_listed(self, nodes):
        """Every node is known, and what pods take of it."""
        until(lambda: self.pool()["state"] == "ready" and
              len(self.pool()["nodes"]) == nodes, "its nodes", 300, 0.2)

    def sums(self):
        ran = 0
        for path in glob.glob(f"/proc/{self.weir.proc.pid}/task/*/schedstat"):
            with open(path, encoding="ascii") as f:
                ran += int(f.read().split()[0])
        with open(f"/proc/{self.weir.proc.pid}/status",
                  encoding="ascii") as f:
            rss = next(x for x in f if x.startswith("VmRSS:"))
        return {"cpu_ms": ran // 1000000,
                "rss_kib": int(rss.split()[1])}


def control(cluster, conf, a, what, *more):
    start = time.monotonic()
    with Control(conf, *more) as c:
        c.until_listed(a.nodes)
        say(f"kubernetes-{what}-first", nodes=a.nodes, pods=a.pods,
            **used(c, {}, start))
        quiet(c, a.seconds, f"{what}-quiet")
        busy(cluster, c, a.pods, a.seconds, a.rate, f"{what}-busy")


def main():
    as_sigterm_exit()
    args = argparse.ArgumentParser()
    for name, value in (("nodes", 5000), ("pods", 50000), ("seconds", 30),
                        ("rate", 100)):
        args.add_argument(f"--{name}", type=int, default=value)
    args.add_argument("--quick", action="store_true")
    a = args.parse_args()
    if a.quick:
        a.nodes, a.pods, a.seconds = 200, 2000, 5
    if os.geteuid() != 0 or not shutil.which("go"):
        print("# no root or no go here: nothing of Kubernetes is measured",
              file=sys.stderr)
        return 0
    apart()
    with Cluster(programs()) as cluster:
        fill(cluster, a.nodes, a.pods)
        conf = cluster.kubeconfig(cluster.by_cert(*cluster.admin))
        with first(os.path.join(BUILD, "tests", "kubernetes", "follow"),
                   conf) as f:
            quiet(f, a.seconds)
            busy(cluster, f, a.pods, a.seconds, a.rate)
        control(cluster, conf, a, "observed", "--observe")
        control(cluster, conf, a, "worked", "--conf", "image=none")
    return 0


if __name__ == "__main__":
    sys.exit(main())

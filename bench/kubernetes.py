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

    bench/kubernetes.py bind [--nodes 1000] [--pods 10000] [--quick]

How fast waiting pods are bound, so many each time: `raw` by a bare loop with as
many connections as Weir has, `weir`, and `kube-scheduler` with its limits to
the API server raised; then `raw` again.  What is bound is counted by a watch,
the same for all.  A rate is from the first binding to the last.
"""
import argparse
import contextlib
import glob
import os
import shutil
import subprocess
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
from weirtest import (BUILD, Weir, as_sigterm_exit, read_text,  # noqa: E402
                      until)


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


# ---- bind ----

FOLLOW = os.path.join(BUILD, "tests", "kubernetes", "follow")
BIND = os.path.join(BUILD, "tests", "kubernetes", "bind")
QPS = 100000                           # kube-scheduler's limits, out of its way
STILL = 120                            # seconds without a binding: it failed


def memory(pid):
    lines = read_text(f"/proc/{pid}/status").splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines
                if line.startswith("VmHWM"))


def cpu_ms(pid):
    fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(int(x) for x in fields[11:13]) * 1000 // os.sysconf(
        "SC_CLK_TCK")


@contextlib.contextmanager
def raw(cluster, prefix, a):
    conf = cluster.kubeconfig(cluster.by_cert(*cluster.admin))
    with subprocess.Popen([BIND, conf, prefix, str(a.pods),
                           str(a.nodes)]) as p:
        yield p.pid


@contextlib.contextmanager
def scheduler(cluster, *_):
    conf = cluster.kubeconfig(cluster.by_cert(*cluster.pki.sign(
        "scheduler", "/CN=system:kube-scheduler", "clientAuth")))
    p = cluster.program(
        "kube-scheduler", f"--kubeconfig={conf}", "--leader-elect=false",
        f"--authentication-kubeconfig={conf}", f"--kube-api-qps={QPS}",
        f"--authorization-kubeconfig={conf}", f"--kube-api-burst={QPS}",
        "--bind-address=127.0.0.1", "--secure-port=0")
    p.start()
    yield p.proc.pid
    p.end()


@contextlib.contextmanager
def weir(cluster, *_):
    conf = cluster.kubeconfig(cluster.by_cert(*cluster.admin))
    with Weir(args=["--runners", "127.0.0.1:8446"]) as w:
        w.start()
        w.wait_devices()
        w.cli("pool", "add", "lab", "--engine", "kubernetes", "--kubeconfig",
              conf, "--conf", "image=none", check=True)
        yield w.proc.pid


def bind(cluster, name, how, a, number):
    """All that wait are bound; what that took."""
    prefix = f"b{number}-"
    by = {weir: "weir", scheduler: "default-scheduler"}.get(how, "none")

    def waiting(k):
        o = pod(f"{prefix}{k}")
        o["spec"]["schedulerName"] = by
        del o["spec"]["nodeName"]
        return "POST", PODS, o
    each(cluster, (waiting(k) for k in range(a.pods)), 8)
    conf = cluster.kubeconfig(cluster.by_cert(*cluster.admin))
    with Follow(FOLLOW, conf) as f:
        f.listed()
        start = time.monotonic()
        with how(cluster, prefix, a) as pid:
            first = last = None
            left, rss, cpu = a.pods, None, None
            while left:
                now, time_is = f.sums()["waiting"], time.monotonic()
                if now < left:
                    first, last, left = first or (time_is, left - now), \
                        time_is, now
                if time_is - (last or start) > STILL:
                    break
                with contextlib.suppress(StopIteration):   # it has ended
                    rss, cpu = memory(pid), cpu_ms(pid)
                time.sleep(0.05)
            say(f"kubernetes-bind-{name}", pods=a.pods - left, nodes=a.nodes,
                seconds=round(last - start, 2) if last else None, rss_mib=rss, cpu_ms=cpu,
                rate=round((a.pods - left - first[1]) / (last - first[0]))
                if last and last > first[0] else None)


def binds(a):
    with Cluster(programs()) as cluster:
        each(cluster, (("POST", "/api/v1/nodes", node(f"n{k}"))
                       for k in range(a.nodes)), 8)
        for k, (name, how) in enumerate((
                ("raw", raw), ("weir", weir), ("kube-scheduler", scheduler),
                ("raw", raw))):
            bind(cluster, name, how, a, k)
    return 0


def main():
    as_sigterm_exit()
    args = argparse.ArgumentParser()
    args.add_argument("what", nargs="?", choices=["know", "bind"],
                      default="know")
    for name, value in (("nodes", 0), ("pods", 0), ("seconds", 30),
                        ("rate", 100)):
        args.add_argument(f"--{name}", type=int, default=value)
    args.add_argument("--quick", action="store_true")
    a = args.parse_args()
    a.nodes = a.nodes or (1000 if a.what == "bind" else 5000)
    a.pods = a.pods or (10000 if a.what == "bind" else 50000)
    if a.quick:
        a.nodes, a.pods, a.seconds = 200, 2000, 5
    if os.geteuid() != 0 or not shutil.which("go"):
        print("# no root or no go here: nothing of Kubernetes is measured",
              file=sys.stderr)
        return 0
    apart()
    if a.what == "bind":
        return binds(a)
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

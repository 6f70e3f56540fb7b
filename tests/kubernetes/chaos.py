#!/usr/bin/env python3
"""chaos.py STANDIN_FOLDER BARE [--kills N] [--tasks N] [--seed S] [--away S] -
work on a real cluster while all that can break does.

While tasks run, the control plane is killed with -9 at random instants, what it
has open with the API server is cut every second, the API server is stopped,
etcd restarted, a kubelet stopped for longer than its node is waited for, and
pods of somebody else take GPUs and give them back.  Then all is let finish, and
the journal, the logs, what is left in the cluster, and what the tasks
themselves told the test are held against each other.

A task tells "start LEASE ID" and "end LEASE ID", ID being its container's own;
LEASE names the generation, so a second start of the same one shows.
"""
import argparse
import collections
import contextlib
import os
import random
import shutil
import socket
import struct
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from crash import check_marks, check_submissions, said, talk  # noqa: E402
from journal import Journal  # noqa: E402
from node import GATE  # noqa: E402
from pods import (PODS, PORT, Lab, cgroups, clean, foreign,  # noqa: E402
                  grow, images)
from space import apart, until  # noqa: E402
from weirtest import GONE, Client, Weir, query  # noqa: E402

MARKS = 8445
LIVE = 14                              # tasks at a time
AHEAD = 0.15                           # kills may be, of the tasks
SETTLE = 900                           # seconds that all may take to end
RBAC = "/apis/rbac.authorization.k8s.io/v1"
USER = "follower"                      # has these rights and no others
RIGHTS = [([""], ["nodes"], ["list", "watch"]),
          ([""], ["pods"], ["list", "watch", "create", "delete"]),
          ([""], ["secrets"], ["create", "delete"])]

SCRIPT = """
id=$(cat /proc/sys/kernel/random/uuid)
mark() {
until [ "$(echo $1 $WEIR_LEASE $id | busybox nc %s %d)" = ok ]; do sleep 1; done
}
mark start; %%s; %%s; mark end
""" % (GATE, MARKS)


def serve(sock, body):
    """A thread for each connection."""
    def guarded(conn):
        with contextlib.suppress(OSError), contextlib.closing(conn):
            body(conn)

    def accept():
        with contextlib.suppress(OSError):
            while True:
                conn, _ = sock.accept()
                threading.Thread(target=guarded, args=(conn,),
                                 daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()


class Marks:
    """What tasks tell, each once, in a file."""

    def __init__(self, path):
        self.path = path
        self.have = set()
        self.lock = threading.Lock()
        with open(path, "w", encoding="ascii"):
            pass
        self.sock = socket.create_server((GATE, MARKS), backlog=100)
        serve(self.sock, self.hear)

    def hear(self, conn):
        conn.settimeout(weirtest.DEADLINE)
        with conn.makefile("r", encoding="ascii") as f:
            line = f.readline()
        if not line.endswith("\n"):
            return
        with self.lock, open(self.path, "a", encoding="ascii") as f:
            if line not in self.have:
                f.write(line)
            self.have.add(line)
        conn.sendall(b"ok\n")

    def close(self):
        self.sock.close()


class Cutter:
    """A way to the API server that is cut every second."""

    def __init__(self, cluster):
        self.to = (cluster.host, cluster.port)
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = self.sock.getsockname()[1]
        self.open = set()
        self.cuts = 0
        self.lock = threading.Lock()
        self.stop = threading.Event()
        serve(self.sock, self.join)
        self.thread = threading.Thread(target=self.cut, daemon=True)
        self.thread.start()

    def join(self, conn):
        with contextlib.closing(socket.create_connection(self.to, 10)) as far:
            far.settimeout(None)
            with self.lock:
                self.open |= {conn, far}
            back = threading.Thread(target=self.pump, args=(far, conn),
                                    daemon=True)
            back.start()
            self.pump(conn, far)
            back.join()
            with self.lock:
                self.open -= {conn, far}

    @staticmethod
    def pump(one, other):
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        for s in one, other:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def cut(self):
        """Not in good order: what was under way is lost."""
        while not self.stop.wait(1):
            with self.lock:
                self.cuts += len(self.open) // 2
                for s in self.open:
                    with contextlib.suppress(OSError):
                        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                     struct.pack("ii", 1, 0))
                        s.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.stop.set()
        self.thread.join()
        self.sock.close()


class CutLab(Lab):
    """A pool by that way, with no more rights than it needs."""

    def __init__(self, name, cluster, port):
        super().__init__(name, cluster)
        self.port = port
        rules = [dict(zip(("apiGroups", "resources", "verbs"), r))
                 for r in RIGHTS]
        cluster.need("POST", f"{RBAC}/clusterroles", {
            "kind": "ClusterRole", "apiVersion":
            "rbac.authorization.k8s.io/v1", "metadata": {"name": "weir"},
            "rules": rules})
        cluster.need("POST", f"{RBAC}/clusterrolebindings", {
            "kind": "ClusterRoleBinding", "apiVersion":
            "rbac.authorization.k8s.io/v1", "metadata": {"name": "weir"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole", "name": "weir"},
            "subjects": [{"kind": "User", "name": USER}]})

    def kubeconfig(self):
        return self.cluster.kubeconfig({"token": "follow-token"}, self.port)


# ---- what runs ----

class Load:
    """Documents by a seeded generator, and how each has to end."""

    ENDS = {"fail": "failed", "sleeper": "aborted"}

    def __init__(self, rng):
        self.rng = rng

    @staticmethod
    def task(key, middle, **fields):
        return {"run": SCRIPT % (talk(key), middle), "cpus": 0.05,
                "memory": "96Mi", "checkpoint": {"grace": "2s"}, **fields}

    def document(self, key):
        rng = self.rng
        pause = f"sleep {rng.randint(0, 8)}"
        pick = rng.choice(("cpu", "gpu", "gpu", "gang", "fail", "again",
                           "sleeper", "pipeline", "pipeline"))
        jobs = {
            "cpu": {"middle": pause}, "gpu": {"middle": pause, "gpus": 1},
            "gang": {"middle": pause, "gpus": 1, "ranks": 2},
            "fail": {"middle": "exit 3"},
            "sleeper": {"middle": "sleep 3600", "gpus": rng.randint(0, 1)},
            "again": {"middle": "[ $WEIR_ATTEMPT -ge 2 ] || exit 5",
                      "retries": {"count": 5, "backoff": "100ms"}},
        }
        doc = {"weir": 1, "name": pick, "labels": {"key": key}}
        if pick != "pipeline":
            return doc | {"kind": "job", **self.task(key, **jobs[pick])}
        return doc | {"kind": "pipeline", "tasks": {
            "first": self.task(key, pause),
            "left": self.task(key, pause, needs="first", gpus=1),
            "right": self.task(key, pause, needs="first"),
            "last": self.task(key, pause, needs=["left", "right"])}}


class Clients:
    """Submits as many tasks, so many at a time, and aborts the sleepers.  Kills
    and tasks go on side by side.
    """

    def __init__(self, weir, opts):
        self.weir, self.opts = weir, opts
        self.rng = random.Random(opts.seed * 10)
        self.load = Load(self.rng)
        self.acked, self.docs = {}, {}
        self.count = self.kills = 0
        self.done = threading.Event()
        self.errors = []

    def start(self):
        def body():
            try:
                self.submits()
            except Exception as e:
                self.errors.append(f"{type(e).__name__}: {e}")
            self.done.set()
        threading.Thread(target=body, daemon=True).start()

    def submits(self):
        client = Client(self.weir.socket, timeout=20)
        while self.count < self.opts.tasks:
            self.tend(client)
            key = f"k{len(self.acked)}"
            doc = self.load.document(key)
            self.docs[key] = doc
            self.acked[key] = self.submit(client, key, doc)
            self.count += len(doc.get("tasks", "1"))
        while True:
            with contextlib.suppress(*GONE):
                if not self.look(client):
                    return
            time.sleep(0.5)

    def submit(self, client, key, doc):
        """Sent until somebody answers."""
        while True:
            with contextlib.suppress(*GONE):
                r = client.submit(doc, key)
                if r.status in (200, 201):
                    return r.json["id"]
                if r.status != 503:
                    raise RuntimeError(f"submit {key}: {r}")
            time.sleep(0.05)

    def tend(self, client):
        """Until there is room for more."""
        while True:
            with contextlib.suppress(*GONE):
                if self.look(client) < LIVE and self.is_time():
                    return
            time.sleep(0.2)

    def share(self):
        """Of the tasks that are submitted."""
        return self.count / self.opts.tasks

    def is_time(self):
        return self.count < LIVE or \
            self.share() <= self.kills / self.opts.kills

    def look(self, client):
        """How many tasks are live; sleepers go, at any moment of theirs."""
        r = client.get(query("/v1/workloads", state="live", limit=1000))
        if r.status != 200:
            return LIVE
        live = r.json["items"]
        for w in live:
            if w["name"] == "sleeper" and self.rng.random() < 0.05:
                client.post(f"/v1/workloads/{w['id']}/abort",
                            {"force": self.rng.random() < 0.3})
        return sum(w["tasks"]["total"] for w in live)


# ---- what breaks ----

def kills(weir, clients, opts, found):
    """At random instants, also while it comes up."""
    rng = random.Random(opts.seed)
    for n in range(opts.kills):
        time.sleep(rng.uniform(0, 3))
        until(lambda n=n: n < (AHEAD + clients.share()) * opts.kills,
              "the tasks to catch up", SETTLE)
        early = weir.kill()
        if early is not None:
            found.append(f"weir up ended by itself with {early}")
        weir.start(wait=False)
        if rng.random() < 0.7:
            weir.wait_ready()
        clients.kills = n + 1
        if clients.kills % 20 == 0:
            print(f"# {n + 1} kills, {clients.count} tasks", flush=True)


class Racer:
    """Somebody else, who takes GPUs without asking us, and gives them back."""

    def __init__(self, cluster, seed):
        self.cluster = cluster
        self.rng = random.Random(seed + 1)
        self.made = 0
        self.there = []
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.race, daemon=True)
        self.thread.start()

    def race(self):
        while not self.stop.wait(self.rng.uniform(1, 6)):
            with contextlib.suppress(*GONE, RuntimeError):
                if len(self.there) > 1:
                    self.leave()
                else:
                    self.come()

    def come(self):
        name = f"other-{self.made}"
        on = self.rng.choice(self.cluster.nodes).name
        self.made += 1
        self.there.append(name)
        self.cluster.need("POST", PODS, foreign(name, on, 1))

    def leave(self):
        name = self.there[0]
        if self.cluster.ask("DELETE", f"{PODS}/{name}")[0] in (200, 404):
            self.there.pop(0)

    def close(self):
        self.stop.set()
        self.thread.join()

        def gone():
            if self.there:
                self.leave()
            return not self.there
        until(gone, "foreign pods to be told to go")


def troubles(tap, cluster, clients, opts):
    """One after the other, between the first task and the last.  Programs belong
    to the thread that starts them, which is the main one.
    """
    rng = random.Random(opts.seed + 2)
    node = rng.choice(cluster.nodes)
    plan = ((cluster.api, cluster.start_api, opts.away),
            (cluster.etcd, cluster.etcd.start, rng.uniform(0, 5)),
            (node.kubelet, node.kubelet.start, rng.uniform(5, 15)),
            (node.kubelet, node.kubelet.start, rng.uniform(25, 40)))
    for n, (part, start, seconds) in enumerate(plan):
        until(lambda n=n: clients.share() >= (n + 1) / (len(plan) + 1),
              "more tasks", SETTLE)
        tap.note(f"{part.name} is away for {seconds:.0f} s, after "
                 f"{clients.kills} kills and {clients.count} tasks")
        part.end()
        time.sleep(seconds)
        start()


def storm(tap, weir, cluster, clients, opts):
    found = []

    def body():
        try:
            kills(weir, clients, opts, found)
        except Exception as e:
            found.append(f"{type(e).__name__}: {e}")
    killer = threading.Thread(target=body, daemon=True)
    killer.start()
    troubles(tap, cluster, clients, opts)
    killer.join()
    tap.none(found, f"killed {opts.kills} times")
    for n in cluster.nodes:
        n.ready()


# ---- and what came of it ----

def check_ends(tap, clients, items):
    bad = []
    for w in items:
        kind = clients.docs[w["labels"]["key"]]["name"]
        want = Load.ENDS.get(kind, "succeeded")
        if w.get("outcome") != want:
            bad.append(f"{w['id']} {kind}: {w.get('outcome')}")
    tap.none(bad, f"{len(items)} workloads end as they have to")


def check_logs(tap, weir, items):
    """Of the last attempt, all that it printed."""
    bad, read = [], 0
    for w in items:
        for t in weir.client.tasks(w["id"]):
            if t.get("outcome") != "succeeded":
                continue
            for rank in range(t.get("ranks", 1)):
                text = weir.client.get(
                    f"/v1/workloads/{w['id']}/tasks/{t['task']}/log",
                    rank=rank).body.decode()
                read += 1
                if text != said(w["labels"]["key"]):
                    bad.append(f"{w['id']}/{t['task']}.{rank}: {text!r}")
    tap.none(bad, f"{read} logs of what succeeded are whole")


def check(tap, weir, clients, marks):
    items, events = weir.client.workloads(), weir.client.events()
    counts = {w["id"]: w["tasks"]["total"] for w in items}
    journal = Journal(events)
    causes = collections.Counter(e.get("cause", "none")
                                 for _, e in journal.ends())
    tap.note(f"{len(items)} workloads, {sum(counts.values())} tasks, "
             f"{len(journal.leases)} leases, {len(events)} events")
    tap.note(f"ends: {dict(causes)}")
    check_submissions(tap, clients, items)
    tap.none(journal.problems(counts),
             "one end for every lease, task and workload")
    check_marks(tap, journal, marks.path)
    check_ends(tap, clients, items)
    check_logs(tap, weir, items)
    return items


def explain(weir, lab):
    """Why it does not end."""
    for w in weir.client.workloads(state="live"):
        for t in weir.client.tasks(w["id"]):
            if t["state"] != "ended":
                why = weir.cli("why", f"{w['id']}/{t['task']}").stdout
                print(f"# {w['id']}/{t['task']}: {t['state']}: "
                      f"{why.strip()[:300]}")
    for p in lab.pods():
        print(f"# {p['metadata']['name']} {p['status'].get('phase')} "
              f"{p['metadata'].get('deletionTimestamp')}", flush=True)


def finish(weir, clients, lab):
    until(weir.ready, "the control plane")
    try:
        until(clients.done.is_set, "the load to end", SETTLE, 0.5)
    except TimeoutError:
        explain(weir, lab)
        raise


def options():
    p = argparse.ArgumentParser()
    p.add_argument("standin")
    p.add_argument("bare")
    p.add_argument("--kills", type=int, default=20)
    p.add_argument("--tasks", type=int, default=60)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--away", type=float, default=20)
    p.add_argument("--keep", help="a folder for the logs of a run")
    return p.parse_args()


def run(tap):
    opts = options()
    tap.note(f"seed {opts.seed}, {opts.kills} kills, {opts.tasks} tasks")
    apart()
    folder = tempfile.mkdtemp(prefix="weir-chaos.")
    try:
        with Cluster(programs(), control=True) as cluster, \
                Weir(devices="none", args=[
                    "--runners", f"0.0.0.0:{PORT}",
                    "--runners-url", f"tls://{GATE}:{PORT}"]) as weir:
            try:
                chaos(tap, weir, cluster, folder, opts)
            finally:
                if opts.keep:
                    keep(weir, cluster, opts.keep)
    finally:
        shutil.rmtree(folder)


def keep(weir, cluster, folder):
    os.makedirs(folder, exist_ok=True)
    for path in [weir.log, *[p.log for n in cluster.nodes for p in n.parts],
                 cluster.api.log, cluster.audit]:
        name = "-".join(path.split("/")[-2:])
        with contextlib.suppress(OSError):
            shutil.copy(path, os.path.join(folder, name))
    with contextlib.suppress(OSError):
        shutil.copytree(weir.state, os.path.join(folder, "state"),
                        dirs_exist_ok=True)


def chaos(tap, weir, cluster, folder, opts):
    grow(cluster, images(folder), 2)
    marks = Marks(os.path.join(folder, "marks"))
    with contextlib.ExitStack() as stack:
        stack.callback(marks.close)
        cutter = Cutter(cluster)
        stack.callback(cutter.close)
        lab = CutLab("lab", cluster, cutter.port)
        weir.start()
        lab.join(weir)
        weir.cli("pool", "drain", "local", check=True)
        clients = Clients(weir, opts)
        clients.start()
        until(lambda: marks.have, "the load to begin")
        racer = Racer(cluster, opts.seed)
        storm(tap, weir, cluster, clients, opts)
        racer.close()
        finish(weir, clients, lab)
        tap.none(clients.errors, "no client was told anything wrong")
        tap.ok(racer.made and cutter.cuts, f"{racer.made} foreign pods, "
               f"{cutter.cuts} connections cut")
        clean(tap, [lab], "after it all")
        until(lambda: not cgroups([lab]), "processes of pods to be gone")
        check(tap, weir, clients, marks)
        tap.none(weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

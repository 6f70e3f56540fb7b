#!/usr/bin/env python3
"""What a pool that is observed wastes, on a real API server: pods of others
come, wait, run and end, and what `weir waste` says is compared to a count from
the API's own records (its objects, and its audit log for what is deleted or
changed without a stamp).  Nothing is written there by us.
"""
import collections
import json
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from client import may  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from objects import node, pod  # noqa: E402
from recount import KINDS, Node, Pod, count, stamp  # noqa: E402
from space import apart  # noqa: E402
from weirtest import Weir, until  # noqa: E402

SEED = int(os.environ.get("WEIR_SEED", "0")) or random.randrange(1, 10**6)
SPACES = "vision", "speech", "batch"
PRICES = {"H100": 4.5, "A100": 1.25}
ROUNDS = 40


class Recorded(Cluster):
    """Its audit log has what others than us did, with what came of it."""

    def api_args(self, etcd, crt, key):
        args = super().api_args(etcd, crt, key)
        with open(os.path.join(self.folder, "audit.json"), "w",
                  encoding="ascii") as f:
            json.dump({"apiVersion": "audit.k8s.io/v1", "kind": "Policy",
                       "omitStages": ["RequestReceived"], "rules": [
                           {"level": "Metadata", "userGroups": ["followers"]},
                           {"level": "RequestResponse",
                            "verbs": ["delete", "patch"], "resources": [
                                {"group": "", "resources": ["pods", "nodes"]}]},
                           {"level": "None"}]}, f)
        return args

    def records(self):
        with open(self.audit, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]


def gpu_node(name, model, taint=None):
    n = node(name, 8)
    n["metadata"]["labels"] = {"nvidia.com/gpu.product": model, "zone": name}
    n["status"]["allocatable"]["cpu"] = "16"
    if taint:
        n["spec"] = {"taints": [{"key": taint, "effect": "NoSchedule"}]}
    return n


NODES = [gpu_node("n0", "H100"), gpu_node("n1", "H100", "gpu"),
         gpu_node("n2", "A100"), gpu_node("n3", "A100")]


class Work:
    """Pods of others, and who binds and ends them."""

    def __init__(self, cluster, rng):
        self.cluster, self.rng = cluster, rng
        self.waiting, self.running = [], []
        self.number = self.since = 0

    def path(self, p, more=""):
        return f"/api/v1/namespaces/{p[0]}/pods/{p[1]}{more}"

    def make(self):
        rng = self.rng
        space, name = rng.choice(SPACES), f"p{self.number}"
        self.number += 1
        gpus = rng.choice([0, 1, 2, 4, 8, 16])
        o = pod(name, gpus, cpu=rng.choice(["500m", "2", "7"]))
        if rng.random() < 0.3:
            o["spec"]["nodeSelector"] = {"zone": rng.choice(["n0", "n2", "x"])}
        if rng.random() < 0.5:
            o["spec"]["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
        self.cluster.need("POST", f"/api/v1/namespaces/{space}/pods", o)
        self.waiting.append((space, name, gpus))

    def bind(self):
        """Anywhere with room, whatever it asked for: somebody else's will."""
        if not self.waiting:
            return
        p = self.waiting.pop(self.rng.randrange(len(self.waiting)))
        free = {n["metadata"]["name"]: 8 for n in NODES}
        for r in self.running:
            free[r[3]] -= r[2]
        there = [k for k, v in free.items() if v >= p[2]]
        if not there:
            self.waiting.append(p)
            return
        to = self.rng.choice(there)
        self.cluster.need("POST", self.path(p, "/binding"), {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": p[1]},
            "target": {"kind": "Node", "name": to}})
        self.running.append((*p, to))

    def end(self):
        """As a kubelet tells it, some seconds late; of nothing before the last
        start, when sums were closed.
        """
        if not self.running:
            return
        p = self.running.pop(self.rng.randrange(len(self.running)))
        o = self.cluster.need("GET", self.path(p))
        bound = stamp(next(c for c in o["status"]["conditions"]
                           if c["type"] == "PodScheduled")
                      ["lastTransitionTime"])
        now = int(time.time())
        at = max(bound, min(now, self.since), now - self.rng.randrange(4))
        text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))
        self.cluster.need("PATCH", self.path(p, "/status"), {"status": {
            "phase": self.rng.choice(["Succeeded", "Failed"]),
            "containerStatuses": [{
                "name": "c", "image": "i", "imageID": "", "ready": False,
                "restartCount": 0, "state": {"terminated": {
                    "exitCode": 0, "startedAt": text, "finishedAt": text}}}]}},
            kind="application/merge-patch+json")

    def drop(self):
        """Deleted while it waits or runs."""
        line = self.rng.choice([self.waiting, self.running])
        if line:
            p = line.pop(self.rng.randrange(len(line)))
            self.cluster.need("DELETE", self.path(p),
                              {"gracePeriodSeconds": 0})

    def cordon(self, closed):
        self.cluster.need("PATCH", "/api/v1/nodes/n3",
                          {"spec": {"unschedulable": closed}},
                          kind="application/merge-patch+json")

    def go_on(self, rounds):
        self.since = int(time.time()) + 1
        steps = [self.make] * 5 + [self.bind] * 4 + [self.end] * 3
        for k in range(rounds):
            self.rng.choice(steps)()
            if k % 10 == 4:
                self.drop()
            if k % 20 in (6, 14):
                self.cordon(k % 20 == 6)
            time.sleep(self.rng.random() * 0.8)
        self.rest()

    def rest(self):
        """Who waits fits on no node, and then nobody waits."""
        for fits in True, False:
            for p in [p for p in self.waiting if fits == (p[2] <= 8)]:
                self.waiting.remove(p)
                self.cluster.need("DELETE", self.path(p),
                                  {"gracePeriodSeconds": 0})
            time.sleep(2.5)


# ---- from the records ----

def facts(cluster, delays):
    """Pods and nodes.  What has no stamp of the API's is known from the audit
    log, and was heard of so many seconds later: delays by number."""
    found, closed, number = {}, [], 0
    for o in cluster.need("GET", "/api/v1/pods")["items"]:
        found[o["metadata"]["uid"]] = Pod(o)
    for e in cluster.records():
        if e["user"]["username"] == "follower" or \
                not 200 <= e["responseStatus"]["code"] < 300 or \
                e["verb"] not in ("delete", "patch"):
            continue
        o, at = e["responseObject"], stamp(e["stageTimestamp"])
        if e["verb"] == "delete":
            when = stamp(o["metadata"].get("deletionTimestamp"))
            found[o["metadata"]["uid"]] = Pod(o, when or at)
        elif e["objectRef"]["resource"] == "nodes":
            at += delays[number]
            number += 1
            if o["spec"].get("unschedulable"):
                closed.append([at, 1 << 40])
            else:
                closed[-1][1] = at
    nodes = [Node(o, closed if o["metadata"]["name"] == "n3" else ())
             for o in cluster.need("GET", "/api/v1/nodes")["items"]]
    return list(found.values()), nodes, number


def spans(weir):
    return [(stamp(e["data"]["from"]), stamp(e["data"]["to"]))
            for e in weir.client.need("GET", "/v1/events?type=pool.seen"
                                      "&limit=1000")["items"]]


def shown(w):
    """The answer, in the form of count()."""
    return {
        "models": {m["model"]: {k: round(m[k]) for k in KINDS}
                   for m in w["models"]},
        "cpus": {k: round(w["cpus"][k] * 1000) for k in KINDS},
        "asked": round(w["devices"]["asked"]), "seconds": w["seen_seconds"]}


def distance(a, b):
    """In device-seconds and hundredths of a CPU's."""
    sums = [abs(a["models"].get(m, {}).get(k, 0) -
                b["models"].get(m, {}).get(k, 0))
            for m in PRICES for k in KINDS]
    return sum(sums) + sum(abs(a["cpus"][k] - b["cpus"][k]) / 10
                           for k in a["cpus"]) + abs(a["asked"] - b["asked"])


def recounted(cluster, want, over):
    """The count that comes nearest, with each word that has no stamp taken as
    heard within the second, or up to 5 later.  -> count, delays"""
    delays = collections.Counter()
    number = facts(cluster, delays)[2]

    def tried():
        pods, nodes, _ = facts(cluster, delays)
        return count(pods, nodes, over)
    best = tried()
    for k in range(number):
        for d in range(1, 6):
            if distance(best, want) == 0:
                return best, delays
            before = delays[k]
            delays[k] = d
            other = tried()
            if distance(other, want) < distance(best, want):
                best = other
            else:
                delays[k] = before
    return best, delays


def money(c):
    """(cost by share, cost by namespace) of a count."""
    costs = collections.Counter()
    for m, v in c["models"].items():
        for k, s in v.items():
            costs[k] += s / 3600 * PRICES.get(m, 0)
    spaces = {name: sum(s / 3600 * PRICES.get(m, 0) for m, s in v.items())
              for name, v in c["spaces"].items()}
    return costs, spaces


def near(a, b):
    return abs(a - b) <= 1e-3


def compare(tap, cluster, weir, text):
    """What ended under SIGTERM is whole: no word was on its way."""
    w = weir.client.need("GET", "/v1/waste/lab?since=1h")
    over = spans(weir)
    last = stamp(w["to"])
    known = sum(b - a for a, b in over)
    if w["seen_seconds"] > known:      # the row under way
        over.append((last - (w["seen_seconds"] - known), last))
    want = shown(w)
    got, delays = recounted(cluster, want, over)
    tap.note(f"{len(over)} rows, delays {+delays}")
    tap.equal(want["models"], got["models"], f"{text}: devices by model")
    tap.equal(want["cpus"], got["cpus"], f"{text}: CPUs")
    tap.equal((want["asked"], want["seconds"]),
              (got["asked"], got["seconds"]), f"{text}: asked for, seen")
    total = sum(sum(v.values()) for v in got["models"].values())
    idle = sum(v["waste"] + v["idle_frag"] for v in got["models"].values())
    tap.ok(near(w["devices"]["wr"], idle / total) and
           all(w["devices"][k] for k in KINDS), f"{text}: WR is "
           f"{w['devices']['wr']:.4f}", idle / total)
    costs, spaces = money(got)
    tap.ok(all(near(w["devices"]["cost"][k], costs[k])
               for k in w["devices"]["cost"]), f"{text}: cost",
           w["devices"]["cost"], dict(costs))
    said = {s["name"]: s for s in w["namespaces"]}
    ran = weir.client.need("GET", "/v1/waste/lab?since=1h&jobs=1")["jobs"]
    known = {(p.space, p.gpus, p.made, p.bound, p.ended)
             for p in facts(cluster, delays)[0]}
    over = [(j["namespace"], j["devices"], *(stamp(j.get(k)) for k in (
        "made", "bound", "ended"))) for j in ran if "ended" in j]
    tap.ok(over and set(over) <= known and len(set(over)) == len(over),
           f"{text}: {len(over)} pods that ended", set(over) - known)
    tap.ok(set(said) == set(got["spaces"]) and all(
        near(said[k]["cost"], spaces[k]) and
        said[k]["waited_device_seconds"] == v["waited"] and
        round(said[k]["cpu_seconds"] * 1000) == v["cpus"] and
        said[k]["device_seconds"] == sum(v[m] for m in PRICES)
        for k, v in got["spaces"].items()), f"{text}: by namespace",
        said, got["spaces"])
    return w


def ready(weir):
    return weir.client.need("GET", "/v1/pools/lab")["state"] == "ready"


def test_away(tap, cluster, weir, work):
    """The server is away: that time is not seen, and nothing is guessed."""
    cluster.api.end()
    until(lambda: not ready(weir), "it to be noticed")
    time.sleep(5)
    cluster.start_api()
    until(lambda: ready(weir), "it to be back")
    work.go_on(ROUNDS)
    weir.stop()
    weir.start()
    w = compare(tap, cluster, weir, "after a gap")
    tap.ok(w["not_seen_seconds"] >= 5, f"{w['not_seen_seconds']} s were not "
           "seen")


def test_killed(tap, cluster, weir, work):
    def cut():
        """Rows that ended otherwise than by the clock."""
        return sum(b % 900 > 0 for _, b in spans(weir))
    before = cut()
    until(lambda: ready(weir), "the pool")
    work.go_on(10)
    weir.kill()
    weir.start()
    tap.equal(cut(), before, "killed: what was under way is lost")
    until(lambda: ready(weir), "the pool")
    work.go_on(10)
    weir.stop()
    weir.start()
    tap.ok(cut() > before, "and it goes on")
    compare(tap, cluster, weir, "after kill -9")


def test_faces(tap, weir):
    text = weir.cli("waste", "lab").stdout
    tap.ok("GPU-hours stood idle" in text and "fragments" in text and
           "vision" in text, "the table", text)
    page = weir.cli("waste", "--since", "7d", "-o", "html").stdout
    tap.ok(page.startswith("<!DOCTYPE html>") and "What lab wastes" in page and
           "src=" not in page and "http" not in page,
           "the page, which loads nothing")
    keep = os.environ.get("WEIR_KEEP_PAGE")
    if keep:
        with open(keep, "w", encoding="utf-8") as f:
            f.write(page)
    csv = weir.cli("waste", "-o", "csv").stdout.splitlines()
    tap.ok(csv[0].startswith("pool,from,") and len(csv) > 1, "the series")


def run(tap):
    apart()
    tap.note(f"seed {SEED}")
    with Recorded(programs()) as cluster, Weir(devices="none") as weir:
        for n in NODES:
            cluster.need("POST", "/api/v1/nodes", n)
        for s in SPACES:
            cluster.need("POST", "/api/v1/namespaces",
                         {"metadata": {"name": s}})
        may(cluster, ["list", "watch"])
        work = Work(cluster, random.Random(SEED))
        for _ in range(6):
            work.make()
            work.bind()
        weir.start()
        policy = os.path.join(weir.folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as f:
            json.dump({"weir": 1, "kind": "policy", "models": [
                {"model": m, "price": p} for m, p in PRICES.items()]}, f)
        weir.cli("policy", "set", policy, check=True)
        weir.cli("pool", "add", "lab", "--engine", "kubernetes",
                 "--kubeconfig", cluster.kubeconfig({"token": "follow-token"}),
                 "--observe", check=True)
        until(lambda: ready(weir), "the pool")
        work.go_on(ROUNDS)
        weir.stop()
        weir.start()
        compare(tap, cluster, weir, "on a cluster full of others' work")
        until(lambda: ready(weir), "the pool")
        test_away(tap, cluster, weir, work)
        test_killed(tap, cluster, weir, work)
        test_faces(tap, weir)
        ours = [e for e in cluster.records()
                if e["user"]["username"] == "follower"]
        tap.none([e["requestURI"] for e in ours
                  if e["verb"] not in ("list", "watch")],
                 f"{len(ours)} requests of ours in the audit log, and none "
                 "that writes")
        tap.ok(len(ours) > 8, "the log is whole")
        tap.none(weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

"""What stood idle, counted anew second by second from Kubernetes' own records.

An interval is [from, to) in whole seconds.  Nothing here is shared with the
program that is tested.
"""
import calendar
import collections
import math
import time

KINDS = ("used", "waste", "idle_frag", "idle_nodemand")


def stamp(text):
    """Whole seconds since 1970 of "2030-01-31T18:00:00.123Z"; None of None."""
    if not text:
        return None
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S"))


def milli(quantity):
    q = str(quantity)
    return int(q[:-1]) if q.endswith("m") else int(float(q) * 1000)


class Pod:
    """Of a Pod object as it was last; `gone`: when it was deleted."""

    def __init__(self, o, gone=None):
        want = o["spec"]["containers"][0]["resources"].get("requests", {})
        self.space = o["metadata"]["namespace"]
        self.name = o["metadata"]["name"]
        self.gpus = int(want.get("nvidia.com/gpu", 0))
        self.cpus = milli(want.get("cpu", "0"))
        self.node = o["spec"].get("nodeName")
        self.selector = o["spec"].get("nodeSelector", {})
        self.tolerates = {t["key"] for t in o["spec"].get("tolerations", [])
                          if "key" in t}
        self.made = stamp(o["metadata"]["creationTimestamp"])
        self.bound = next((stamp(c["lastTransitionTime"])
                           for c in o["status"].get("conditions", [])
                           if c["type"] == "PodScheduled"
                           and c["status"] == "True"), None)
        ends = [stamp(c["state"]["terminated"]["finishedAt"])
                for c in o["status"].get("containerStatuses", [])
                if "terminated" in c.get("state", {})]
        self.ended = max(ends) if ends else gone
        if self.ended is None:
            self.ended = math.inf

    def waits(self, s):
        until = self.ended if self.bound is None else self.bound
        return self.made <= s < until

    def holds(self, s):
        return self.bound is not None and self.bound <= s < self.ended


class Node:
    """`closed`: intervals in which it was cordoned."""

    def __init__(self, o, closed=()):
        has = o["status"]["allocatable"]
        self.name = o["metadata"]["name"]
        self.labels = o["metadata"].get("labels", {})
        self.model = self.labels.get("nvidia.com/gpu.product", "")
        self.gpus = int(has.get("nvidia.com/gpu", 0))
        self.cpus = milli(has["cpu"])
        self.taints = {t["key"] for t in o["spec"].get("taints", [])
                       if t["effect"] in ("NoSchedule", "NoExecute")
                       and not t["key"].startswith("node.kubernetes.io/")}
        self.closed = list(closed)

    def open(self, s):
        return not any(a <= s < b for a, b in self.closed)


def would_fit(p, n, free):
    return (free[0] >= p.gpus and free[1] >= p.cpus
            and all(n.labels.get(k) == v for k, v in p.selector.items())
            and n.taints <= p.tolerates)


def demand(waiting, nodes, free):
    """"idle_nodemand", "idle_frag" or "waste"."""
    if not waiting:
        return "idle_nodemand"
    return "waste" if any(would_fit(p, n, free[n.name]) for p in waiting
                          for n in nodes) else "idle_frag"


def count(pods, nodes, spans):
    """Sums over the seconds of these spans: of devices by model, of
    thousandths of CPUs, and by namespace."""
    models = collections.defaultdict(lambda: dict.fromkeys(KINDS, 0))
    cpus = dict.fromkeys(KINDS, 0)
    spaces = collections.defaultdict(collections.Counter)
    where = {n.name: n for n in nodes}
    total = collections.Counter()
    for s in (s for a, b in spans for s in range(a, b)):
        free = {n.name: [n.gpus, n.cpus] for n in nodes}
        for p in pods:
            if p.holds(s):
                free[p.node][0] -= p.gpus
                free[p.node][1] -= p.cpus
                n = where[p.node]
                models[n.model]["used"] += p.gpus
                cpus["used"] += p.cpus
                spaces[p.space][n.model] += p.gpus
                spaces[p.space]["cpus"] += p.cpus
        waiting = [p for p in pods if p.waits(s)]
        wanting = [p for p in waiting if p.gpus]
        for p in wanting:
            spaces[p.space]["waited"] += p.gpus
        ready = [n for n in nodes if n.open(s)]
        kind, kind_cpus = (demand(w, ready, free) for w in (wanting, waiting))
        idle = 0
        for n in ready:
            models[n.model][kind] += max(0, free[n.name][0])
            cpus[kind_cpus] += max(0, free[n.name][1])
            idle += max(0, free[n.name][0])
        if wanting:
            total["asked"] += min(idle, sum(p.gpus for p in wanting))
        total["seconds"] += 1
    return {"models": {k: v for k, v in models.items() if any(v.values())},
            "cpus": cpus, "asked": total["asked"],
            "spaces": {k: +v for k, v in spaces.items() if +v},
            "seconds": total["seconds"]}

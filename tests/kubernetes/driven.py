#!/usr/bin/env python3
"""driven.py DRIVE - the engine alone, on a real API server: what it makes
there, and what it says when the cluster says this or that of a pod.  Nodes and
what kubelets would write are the test's.
"""
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from follow import Follow  # noqa: E402
from objects import PODS, node, pod  # noqa: E402
from space import apart, until  # noqa: E402

DRIVE = os.path.abspath(sys.argv[1])
SECRETS = "/api/v1/namespaces/default/secrets"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
MERGE = "application/merge-patch+json"
OURS = "?labelSelector=weir.dev/pool%3Dlab"


class Drive(Follow):
    """The driven engine: a line is told, and heard."""

    def __init__(self, folder, conf):
        self.blocks, self.overs, self.states = {}, {}, []
        super().__init__(DRIVE, folder, json.dumps(conf))

    def tell(self, **line):
        self.proc.stdin.write(json.dumps(line) + "\n")
        self.proc.stdin.flush()

    def next(self, *keys):
        line = super().next("up", "lost", "changed", "state", "trouble",
                            "over", "find", "list", "failed")
        if "up" in line:
            self.blocks[line["up"]] = line["has"]
        if "lost" in line:
            self.blocks.pop(line["lost"], None)
        if "over" in line:
            self.overs.setdefault(line["over"], []).append(line)
        if "state" in line:
            self.states.append((line["state"], line["why"]))
        return line if any(k in line for k in keys) else self.next(*keys)

    def ask(self, word):
        self.tell(**{word: True})
        return self.next(word)[word]

    def settle(self, cond, what):
        """Until it is so, by what the engine has said meanwhile."""
        def so():
            self.ask("find")           # all before it has been read
            return cond()
        return until(so, what)

    def over(self, runner):
        self.settle(lambda: runner in self.overs, f"{runner} to be over")
        return self.overs[runner][-1]


def runner(n, on="n0", gen=1):
    return f"lab/{on}#w{n}/0.0#{gen}@1"


class Place:
    """What the engine has made in the cluster."""

    def __init__(self, cluster):
        self.cluster = cluster

    def pods(self):
        items = self.cluster.need("GET", PODS + OURS)["items"]
        return {p["metadata"]["annotations"]["weir.dev/runner"]: p
                for p in items}

    def pod(self, name):
        return until(lambda: self.pods().get(name), f"the pod of {name}")

    def secrets(self):
        return {s["metadata"]["name"]: s for s in
                self.cluster.need("GET", SECRETS + OURS)["items"]}

    def status(self, name, **status):
        """As its kubelet would."""
        at = self.pod(name)["metadata"]["name"]
        self.cluster.need("PATCH", f"{PODS}/{at}/status", {"status": status},
                          kind=MERGE)

    def container(self, name, phase, **state):
        self.status(name, phase=phase, containerStatuses=[
            {"name": "task", "image": "i", "imageID": "", "ready": False,
             "restartCount": 0, "state": state}])

    def away(self, name):
        at = self.pod(name)["metadata"]["name"]
        self.cluster.ask("DELETE", f"{PODS}/{at}", {"gracePeriodSeconds": 0})

    def empty(self):
        """Kubelets let go of what is told to go; is nothing left?"""
        left = [p["metadata"] for p in self.pods().values()]
        for meta in left:
            if meta.get("deletionTimestamp"):
                self.cluster.ask("DELETE", f"{PODS}/{meta['name']}",
                                 {"gracePeriodSeconds": 0})
        return not left

    def leaves(self, name):
        until(lambda: self.pods()[name]["metadata"].get("deletionTimestamp"),
              f"{name} to be told to go")


def conf_of(cluster, token="good-token", **more):
    return {"kubeconfig": cluster.kubeconfig({"token": token}),
            "image": "weir:1", "task_image": "plain:1"} | more


def test_blocks(tap, cluster, d):
    """Nodes are blocks, with what others leave of them."""
    d.next("changed")
    tap.equal(d.states[-1], (True, ""), "the pool is reachable")
    tap.equal(sorted(b["block"] for b in d.ask("list")["nodes"]),
              ["lab/n0", "lab/n1"], "its nodes")
    d.tell(get="lab/n0")
    d.settle(lambda: len(d.blocks) == 2, "two blocks")
    has = d.blocks["lab/n0"]
    tap.ok(has["cpus_milli"] == 63000 and len(has["devices"]) == 6 and
           has["devices"][0]["model"] == "unknown" and has["images"] and
           has["whole"], "a block has what others leave of it", str(has))
    cluster.need("POST", PODS, pod("other2", 1, "n0", "500m"))
    d.settle(lambda: d.blocks["lab/n0"]["cpus_milli"] == 62500 and
             len(d.blocks["lab/n0"]["devices"]) == 5, "a foreign pod")
    tap.ok(True, "and less when another pod comes")
    cluster.need("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}},
                 kind=MERGE)
    d.settle(lambda: "lab/n1" not in d.blocks, "a cordoned one")
    tap.ok(True, "a cordoned node without leases is lost")
    cluster.need("PATCH", "/api/v1/nodes/n1",
                 {"spec": {"unschedulable": None}}, kind=MERGE)
    d.settle(lambda: "lab/n1" in d.blocks, "open again")
    cluster.need("POST", "/api/v1/nodes", node("n2"))
    d.settle(lambda: "lab/n2" in d.blocks, "a new one")
    tap.ok(True, "a node that comes is told of")
    cluster.need("DELETE", "/api/v1/nodes/n2")
    d.settle(lambda: "lab/n2" not in d.blocks, "one less")
    tap.ok(True, "and one that goes")


def test_made(tap, d, place):
    """A pod and its Secret, once, and gone again."""
    me = runner(1)
    d.tell(start=me, gpus=1, memory=1 << 30)
    p = place.pod(me)
    name = p["metadata"]["name"]
    s = until(lambda: place.secrets().get(name), "its Secret")
    tap.ok(p["spec"]["nodeName"] == "n0" and
           s["metadata"]["ownerReferences"][0]["uid"] ==
           p["metadata"]["uid"], f"a pod, and its Secret: {name}")
    tap.equal(sorted(c["name"] for c in p["spec"]["containers"] +
                     p["spec"]["initContainers"]), ["runner", "task"],
              "with two containers")
    d.tell(start=me, gpus=1)
    tap.equal(d.ask("find"), [me], "it is found")
    d.settle(lambda: d.blocks["lab/n0"]["cpus_milli"] == 62500,
             "no change by it")
    tap.ok(len(d.blocks["lab/n0"]["devices"]) == 5,
           "what it takes is counted by the world, not by its block")
    place.container(me, "Running", running={})
    d.tell(stop=me)
    place.leaves(me)
    place.away(me)
    until(lambda: d.ask("find") == [], "it to be gone")
    tap.equal(d.overs, {}, "what was stopped is not told to be over")
    d.tell(stop=me)
    d.tell(stop=runner(99))
    tap.equal(d.ask("find"), [], "to stop what is not there is nothing")


CASES = (
    ("exit", "lost", 3, dict(phase="Failed", exitCode=3, reason="Error")),
    ("memory", "memory", -9,
     dict(phase="Failed", exitCode=137, reason="OOMKilled")),
)


def test_causes(tap, d, place, cluster):
    """What is said of a pod is a cause; each said once."""
    n = 10
    for what, cause, status, end in CASES:
        me = runner(n := n + 1)
        d.tell(start=me)
        phase = end.pop("phase")
        place.container(me, phase, terminated=end)
        got = d.over(me)
        tap.equal((got["cause"], got["status"]), (cause, status),
                  f"{what}: {got['why']}")
    for what, cause, status in (
            ("put out", "evicted", dict(reason="Evicted", message="low")),
            ("place taken", "taken", dict(reason="OutOfnvidia.com/gpu")),
            ("node lost", "node", dict(reason="NodeLost"))):
        me = runner(n := n + 1)
        d.tell(start=me)
        place.status(me, phase="Failed", **status)
        got = d.over(me)
        tap.equal(got["cause"], cause, f"{what}: {got['why']}")
    me = runner(n := n + 1)
    d.tell(start=me)
    place.container(me, "Pending", waiting={"reason": "InvalidImageName"})
    tap.equal(d.over(me)["cause"], "image", d.over(me)["why"])
    me = runner(n := n + 1)
    d.tell(start=me)
    place.container(me, "Running", running={})
    place.away(me)
    tap.equal(d.over(me)["cause"], "deleted", d.over(me)["why"])
    me = runner(n := n + 1)
    d.tell(start=me)
    name = place.pod(me)["metadata"]["name"]
    cluster.need("POST", f"{PODS}/{name}/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": {"gracePeriodSeconds": 0}})
    tap.equal(d.over(me)["cause"], "evicted", d.over(me)["why"])
    tap.ok(all(len(x) == 1 for x in d.overs.values()), "each was told once")
    for name in list(d.overs):
        d.tell(stop=name)
    until(place.empty, "all to be gone")
    tap.ok(True, "and all are taken away")


def test_refused(tap, d, place, cluster):
    cluster.need("POST", "/api/v1/namespaces/default/resourcequotas", {
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}})
    cluster.need("PATCH",
                 "/api/v1/namespaces/default/resourcequotas/few/status",
                 {"status": {"hard": {"pods": "3"}, "used": {"pods": "3"}}},
                 kind=MERGE)
    me = runner(40)
    d.tell(start=me)
    got = d.over(me)
    tap.ok(got["cause"] == "refused" and "exceeded quota" in got["why"],
           f"a quota: {got['why']}")
    cluster.need("DELETE", "/api/v1/namespaces/default/resourcequotas/few")
    me = runner(41)
    d.tell(start=me, image="No Such/Image::")
    place.pod(me)
    d.tell(stop=me)
    me = runner(42, on="n7")
    d.tell(start=me)
    tap.equal(d.over(me)["cause"], "node", d.over(me)["why"])
    me = runner(43)
    d.tell(start=me, begun=True)
    tap.equal(d.over(me)["cause"], "lost", d.over(me)["why"])
    tap.ok(me not in place.pods(), "what was begun is not made again")


def test_place(tap, d, place):
    """A device that one of ours is about to leave is waited for."""
    first, second = runner(50), runner(51)
    d.tell(start=first, gpus=5)
    place.container(first, "Running", running={})
    d.tell(stop=first)
    place.leaves(first)
    d.tell(start=second, gpus=5)
    d.tell(start=runner(52), gpus=0)
    place.pod(runner(52))
    tap.ok(second not in place.pods(), "its successor waits")
    place.container(first, "Succeeded", terminated={"exitCode": 0})
    place.pod(second)
    tap.ok(True, "and comes when it has ended")
    for name in second, runner(52):
        d.tell(stop=name)
    until(place.empty, "all to be gone")


def test_away(tap, d, place, cluster):
    """The API server is away: what was asked for is done when it is back."""
    old, new = runner(60), runner(61)
    d.tell(start=old)
    place.container(old, "Running", running={})
    cluster.api.end()
    d.tell(start=new)
    d.tell(stop=old)
    d.settle(lambda: not d.states[-1][0], "it to be noticed")
    tap.ok(new not in d.overs, f"nothing is over: {d.states[-1][1]}")
    cluster.start_api()
    place.pod(new)
    place.leaves(old)
    tap.ok(True, "what was asked for meanwhile is done")
    place.away(old)
    d.settle(lambda: d.states[-1][0], "it to be reachable")


def test_again(tap, d, place, folder, conf):
    """Another life of the control plane."""
    me, kept = runner(61), runner(70)
    d.tell(start=kept)
    place.container(kept, "Running", running={})
    uid = place.pod(me)["metadata"]["uid"]
    d.end()
    with Drive(folder, conf) as again:
        again.next("changed")
        tap.equal(sorted(again.ask("find")), [me, kept], "both are found")
        again.tell(start=me)
        again.tell(start=kept, begun=True)
        again.tell(start=runner(71), begun=True)
        tap.equal(again.over(runner(71))["cause"], "lost",
                  "what was begun and is gone is lost")
        tap.equal(place.pod(me)["metadata"]["uid"], uid,
                  "what is there is not made again")
        for name in me, kept:
            again.tell(stop=name)
            place.leaves(name)
            place.away(name)
        until(lambda: again.ask("find") == [], "all to be gone")
        tap.equal(len(again.overs), 1, "and nothing else was told")


def test_late(tap, d, place, cluster):
    """One that comes of a request of an earlier life."""
    me = runner(80)

    def stop():
        d.tell(stop=me)
        place.leaves(me)
        place.away(me)
        until(lambda: me not in d.ask("find"), f"{me} to be forgotten")
    d.tell(start=me)
    p = place.pod(me)
    stop()
    meta = {k: p["metadata"][k] for k in ("name", "labels", "annotations")}
    cluster.need("POST", PODS, p | {"metadata": meta, "status": {}})
    d.next("changed")
    tap.ok(me in d.ask("find"), "one that nobody asked for is told of")
    stop()
    tap.ok(True, "and goes, as is said then")


def role(cluster, name, kind, rules):
    at = "/apis/rbac.authorization.k8s.io/v1/"
    where = at if kind == "ClusterRole" else at + "namespaces/default/"
    plural = kind.lower() + "s"
    cluster.need("POST", where + plural, {
        "metadata": {"name": name}, "rules": rules})
    cluster.need("POST", where + plural.replace("role", "rolebinding"), {
        "metadata": {"name": name}, "subjects": [
            {"kind": "User", "name": "follower",
             "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind,
                    "name": name}})


def test_rights(tap, cluster, folder):
    """What may not be done is said in one sentence, until it may."""
    with Drive(folder, conf_of(cluster, "follow-token")) as d:
        d.settle(lambda: d.states and "this account" in d.states[-1][1],
                 "a word")
        why = d.states[-1][1]
        tap.ok("list nodes of the cluster" in why and "\n" not in why and
               "create secrets in namespace 'default'" in why, why)
        role(cluster, "look", "ClusterRole", [
            {"apiGroups": [""], "resources": ["nodes", "pods"],
             "verbs": ["list", "watch"]}])
        role(cluster, "work", "Role", [
            {"apiGroups": [""], "resources": ["pods"],
             "verbs": ["create", "delete"]},
            {"apiGroups": [""], "resources": ["secrets"],
             "verbs": ["create"]}])
        d.settle(lambda: d.states[-1][1].endswith(
            "may not delete secrets in namespace 'default'"), "one verb")
        tap.ok(not d.states[-1][0], d.states[-1][1])
        cluster.need("PATCH", "/apis/rbac.authorization.k8s.io/v1/namespaces/"
                     "default/roles/work", {"rules": [
                         {"apiGroups": [""], "resources": ["pods", "secrets"],
                          "verbs": ["create", "delete"]}]}, kind=MERGE)
        d.settle(lambda: d.states[-1][0], "all of them")
        tap.ok(True, "with all of them it is reachable")
        test_early(tap, cluster, d)


def may_make(cluster, yes):
    """The right to make pods, once the server knows."""
    cluster.need("PATCH", f"{RBAC}/namespaces/default/roles/work", {"rules": [
        {"apiGroups": [""], "resources": ["pods", "secrets"],
         "verbs": ["delete"]},
        {"apiGroups": [""], "resources": ["secrets"] + ["pods"] * yes,
         "verbs": ["create"]}]}, kind=MERGE)
    until(lambda: cluster.need("POST", REVIEWS, {"spec": {
        "user": "follower", "resourceAttributes": {
            "verb": "create", "resource": "pods", "namespace": "default"}}}
        )["status"].get("allowed", False) == yes, "the server to know")


def denied(cluster):
    """How often it was not let make a pod."""
    with open(cluster.audit, encoding="utf-8") as f:
        told = [json.loads(line) for line in f]
    return len([e for e in told if e["verb"] == "create" and
                e.get("objectRef", {}).get("resource") == "pods" and
                e.get("responseStatus", {}).get("code") == 403])


def test_early(tap, cluster, d):
    """A server that has just come up knows no roles for a moment."""
    place = Place(cluster)
    n = denied(cluster)
    may_make(cluster, False)
    me = runner(90)
    d.tell(start=me)
    until(lambda: denied(cluster) > n, "it to be denied")
    may_make(cluster, True)
    place.pod(me)
    tap.ok(me not in d.overs, "it is not refused by a server that comes up")
    may_make(cluster, False)
    me = runner(91)
    d.tell(start=me)
    tap.ok(d.over(me)["cause"] == "refused" and "cannot create resource" in
           d.overs[me][0]["why"], f"but in time: {d.overs[me][0]['why']}")


def run(tap):
    apart()
    with Cluster(programs()) as cluster, \
            tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "authority"), "w",
                  encoding="ascii") as f:
            f.write("PEM\n")
        for name in "n0", "n1":
            cluster.need("POST", "/api/v1/nodes", node(name))
        cluster.need("POST", PODS, pod("other", 2, "n0", "1"))
        place, conf = Place(cluster), conf_of(cluster)
        with Drive(folder, conf) as d:
            test_blocks(tap, cluster, d)
            test_made(tap, d, place)
            test_causes(tap, d, place, cluster)
            test_refused(tap, d, place, cluster)
            test_place(tap, d, place)
            test_away(tap, d, place, cluster)
            test_late(tap, d, place, cluster)
            test_again(tap, d, place, folder, conf)
        test_rights(tap, cluster, folder)


if __name__ == "__main__":
    weirtest.main(run)

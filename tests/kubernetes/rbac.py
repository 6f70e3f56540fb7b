#!/usr/bin/env python3
"""rbac.py DRIVE - what deploy/kubernetes lets Weir do in a cluster: it works
with it, each verb is needed, and it is not more.  A verb that is missing is
named in one sentence.
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
from driven import Drive, runner  # noqa: E402
from objects import each, node, pod  # noqa: E402
from shipped import (ACCOUNT, NAMESPACE, RBAC, Kubectl, may,  # noqa: E402
                     overlay, token)
from space import apart  # noqa: E402
from weirtest import Weir, until  # noqa: E402

TASKS = "weir-tasks"
AT = f"/api/v1/namespaces/{TASKS}"
USER = 1000                            # a task's
# What nobody gave it, wherever that is.
NEVER = (("get", "secrets"), ("list", "secrets"), ("create", "pods"),
         ("delete", "pods"), ("create", "pods/exec"), ("patch", "nodes"),
         ("delete", "nodes"), ("create", "pods/binding"),
         ("impersonate", "users"))


class Role:
    """A role that is shipped, from which verbs can be taken."""

    def __init__(self, cluster, object_):
        meta = object_["metadata"]
        self.cluster = cluster
        self.namespace = meta.get("namespace")
        self.name = meta["name"]
        self.path = f"{RBAC}/clusterroles/{self.name}" \
            if object_["kind"] == "ClusterRole" else \
            f"{RBAC}/namespaces/{self.namespace}/roles/{self.name}"
        self.rules = object_["rules"]

    def cells(self):
        return [(group, resource, verb) for rule in self.rules
                for group in rule["apiGroups"] for resource in
                rule["resources"] for verb in rule["verbs"]]

    def give(self, cells):
        """These and no others, once the server knows."""
        have = self.cluster.need("GET", self.path)
        have["rules"] = [{"apiGroups": [g], "resources": [r], "verbs": [v]}
                         for g, r, v in cells]
        self.cluster.need("PUT", self.path, have)
        for g, r, v in self.cells():
            until(lambda g=g, r=r, v=v: may(
                self.cluster, v, r, self.namespace, g) == (
                    (g, r, v) in cells), f"{v} {r}")


class Pool:
    """A pool of that cluster, as the account of the manifests."""

    def __init__(self, cluster, weir):
        self.cluster, self.weir = cluster, weir
        self.user = {"token": token(cluster)}

    def add(self):
        """Anew, so that all is asked for again."""
        r = self.weir.cli("pool", "add", "lab", "--engine", "kubernetes",
                          "--kubeconfig", self.cluster.kubeconfig(self.user),
                          "--observe")
        if r.returncode:
            raise RuntimeError(r.stderr)

    def state(self):
        return self.weir.client.need("GET", "/v1/pools/lab")["state"]

    def line(self):
        return [x for x in self.weir.cli("pool", "ls").stdout.splitlines()
                if x.startswith("lab ")][0]


class Observed:
    """What a pool that is observed needs."""

    def __init__(self, cluster, folder, weir):
        del folder
        self.pool = Pool(cluster, weir)

    def works(self, tap):
        self.pool.add()
        self.again()
        tap.equal([f"{n['device_count']['total']} on {n['name']}" for n in
                   self.pool.weir.client.need("GET", "/v1/pools/lab")[
                       "nodes"]], ["8 on n0", "8 on n1"],
                  "with what is shipped a cluster is observed")

    def fails(self):
        self.pool.add()
        until(lambda: self.pool.state() == "unreachable", "a word")
        return self.pool.line()

    def again(self):
        until(lambda: self.pool.state() == "ready", "it to go on")

    @staticmethod
    def words(group, resource, verb):
        return ["not allowed (403)", f'cannot {verb} resource "{resource}"',
                f'API group "{group}"', ACCOUNT]


class Started:
    """What it needs to start tasks: the engine alone, which is told to."""

    def __init__(self, cluster, folder, weir):
        del weir
        self.cluster, self.folder = cluster, folder
        with open(os.path.join(folder, "authority"), "w",
                  encoding="ascii") as f:
            f.write("PEM\n")
        self.conf = {"namespace": TASKS, "image": "weir:1",
                     "task_image": "plain:1"}
        self.user = {"token": token(cluster)}

    def drive(self):
        return Drive(self.folder, self.conf | {
            "kubeconfig": self.cluster.kubeconfig(self.user)})

    def pods(self):
        return self.cluster.need("GET", f"{AT}/pods")["items"]

    def away(self, pod):
        """As its kubelet would."""
        self.cluster.need("DELETE", f"{AT}/pods/{pod['metadata']['name']}",
                          {"gracePeriodSeconds": 0})

    def begin(self, d, me):
        d.tell(start=me, uid=USER)
        until(self.pods, "its pod")
        name = self.pods()[0]["metadata"]["name"]
        until(lambda: self.cluster.ask("GET", f"{AT}/secrets/{name}")[0] ==
              200, "its Secret")
        return name

    def end(self, d, me):
        d.tell(stop=me)
        until(lambda: self.pods()[0]["metadata"].get("deletionTimestamp"),
              "it to be told to go")
        self.away(self.pods()[0])
        until(lambda: d.ask("find") == [], "it to be gone")

    def works(self, tap):
        """One is started, and again where a Secret was left."""
        me = runner(1)
        with self.drive() as d:
            d.next("changed")
            d.tell(start=runner(2))
            said = d.over(runner(2))
            tap.ok(said["cause"] == "refused" and "PodSecurity" in said["why"]
                   and "\n" not in said["why"],
                   f"root is no task's user: {said['why']}")
            d.tell(stop=runner(2))
            name = self.begin(d, me)
            self.end(d, me)
            old = self.cluster.need("GET", f"{AT}/secrets/{name}")
            tap.equal(self.begin(d, me), name, "with what is shipped a task "
                      "is started, and its pod is restricted")
            until(lambda: self.cluster.need(
                "GET", f"{AT}/secrets/{name}")["metadata"]["uid"] !=
                old["metadata"]["uid"], "its own Secret")
            tap.ok(True, "a Secret that was left is not its Secret")
            self.end(d, me)

    def fails(self):
        with self.drive() as d:
            d.settle(lambda: d.states and not d.states[-1][0], "a word")
            return d.states[-1][1]

    def again(self):
        with self.drive() as d:
            d.settle(lambda: d.states and d.states[-1][0], "it to go on")

    @staticmethod
    def words(group, resource, verb):
        del group
        return [f"this account may not {verb} {resource} in namespace "
                f"'{TASKS}'"]


# Each role that is shipped, and who needs it.
ROLES = {"weir-observe": Observed, "weir-tasks": Started}


def test_each(tap, needs, role):
    cells = role.cells()
    for cell in cells:
        role.give([c for c in cells if c != cell])
        line = needs.fails()
        tap.ok(all(w in line for w in needs.words(*cell)) and "\n" not in
               line, f"without {cell[2]} {cell[1]}: {line}")
    role.give(cells)
    needs.again()
    tap.ok(True, f"{role.name}: with all of it again, it goes on")


def used(cluster):
    """What the account has asked for, beside what anybody may ask."""
    found = set()
    with open(cluster.audit, encoding="utf-8") as f:
        for e in (json.loads(line) for line in f if line.endswith("\n")):
            o = e.get("objectRef", {})
            if e["user"]["username"] == ACCOUNT and \
                    o.get("resource") != "selfsubjectaccessreviews":
                found.add((o.get("apiGroup", ""), o["resource"] + "".join(
                    f"/{s}" for s in [o.get("subresource")] if s), e["verb"]))
    return found


def test_used(tap, cluster, roles):
    given = {c for r in roles for c in r.cells()}
    until(lambda: used(cluster) >= given, "all rights to be used")
    tap.equal(used(cluster), given, f"the audit log has each of {len(given)} "
              "rights used, and no request beside them")


def test_no_more(tap, cluster, roles):
    shipped = {(r.namespace, c[1], c[2]) for r in roles for c in r.cells()}
    for namespace in NAMESPACE, TASKS, "default", "kube-system":
        tap.none([f"{v} {r}" for v, r in NEVER if (namespace, r, v) not in
                  shipped and may(cluster, v, r, namespace)],
                 f"in {namespace} it may do nothing that was not given")


def test_apply(tap, kubectl, folder):
    """Returns what was applied."""
    at = overlay(folder, ["base", "tasks"])
    for name in NAMESPACE, TASKS:
        kubectl.need("create", "namespace", name)
    dry = kubectl.run("apply", "-k", at, "--dry-run=server", "--server-side",
                      "--validate=strict")
    tap.ok(dry.returncode == 0, "the server takes the manifests on trial",
           dry.stdout, dry.stderr)
    applied = kubectl.run("apply", "-k", at, "--server-side",
                          "--validate=strict", "--force-conflicts")
    tap.ok(applied.returncode == 0, "and for good", applied.stderr)
    return kubectl.objects(at)


def run(tap):
    apart()
    with Cluster(programs()) as cluster, \
            tempfile.TemporaryDirectory(prefix="weir-rbac.") as folder, \
            Weir(devices="none", args=["--engine", "none"]) as weir:
        made = test_apply(tap, Kubectl(cluster), folder)
        roles = [Role(cluster, o) for o in made
                 if o["kind"] in ("ClusterRole", "Role")]
        tap.equal({r.name for r in roles}, set(ROLES),
                  "of each role there is a test")
        each(cluster, [("POST", "/api/v1/nodes", node(f"n{k}"))
                       for k in range(2)])
        each(cluster, [("POST", "/api/v1/namespaces/default/pods",
                        pod("p", 1, "n0"))])
        weir.start()
        needs = {r.name: ROLES[r.name](cluster, folder, weir) for r in roles}
        for role in roles:
            needs[role.name].works(tap)
        test_used(tap, cluster, roles)
        for role in roles:
            test_each(tap, needs[role.name], role)
        test_no_more(tap, cluster, roles)
        tap.none(weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

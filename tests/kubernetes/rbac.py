#!/usr/bin/env python3
"""What deploy/kubernetes lets Weir do in a cluster: it works with it, each verb
is needed, and it is not more.  A verb that is missing is named in one sentence.
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
from objects import each, node, pod  # noqa: E402
from shipped import (ACCOUNT, NAMESPACE, RBAC, Kubectl, may,  # noqa: E402
                     overlay, token)
from space import apart  # noqa: E402
from weirtest import Weir, until  # noqa: E402

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


def observes(pool):
    """It can be reached; what a pool that is observed needs."""
    pool.add()
    until(lambda: pool.state() == "ready", "the pool to be reached")
    return [f"{n['device_count']['total']} on {n['name']}" for n in
            pool.weir.client.need("GET", "/v1/pools/lab")["nodes"]]


def observe_fails(pool):
    """What it says when it cannot."""
    pool.add()
    until(lambda: pool.state() == "unreachable", "it to be noticed")
    return pool.line()


# role: (what works with all of it, what is said without one of its verbs).
ROLES = {"weir-observe": (observes, observe_fails)}


def test_works(tap, pool, roles):
    for role in roles:
        works, _ = ROLES[role.name]
        tap.equal(works(pool), ["8 on n0", "8 on n1"],
                  f"{role.name}: with what is shipped it works")


def test_each(tap, pool, role):
    works, fails = ROLES[role.name]
    cells = role.cells()
    for cell in cells:
        group, resource, verb = cell
        role.give([c for c in cells if c != cell])
        line = fails(pool)
        tap.ok(all(w in line for w in (
            "not allowed (403)", f'cannot {verb} resource "{resource}"',
            f'API group "{group}"', NAMESPACE)) and line.count("\n") == 0,
            f"{role.name}, without {verb} {resource}: {line}")
    role.give(cells)
    until(lambda: pool.state() == "ready", "it to go on")
    tap.ok(True, f"{role.name}: with all of it again, it goes on by itself")
    return works


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
    for namespace in NAMESPACE, "default", "kube-system":
        tap.none([f"{v} {r}" for v, r in NEVER if (namespace, r, v) not in
                  shipped and may(cluster, v, r, namespace)],
                 f"in {namespace} it may do nothing that was not given")


def test_apply(tap, kubectl, folder):
    """Returns what was applied."""
    at = overlay(folder, ["base"])
    kubectl.need("create", "namespace", NAMESPACE)
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
        pool = Pool(cluster, weir)
        test_works(tap, pool, roles)
        test_used(tap, cluster, roles)
        for role in roles:
            test_each(tap, pool, role)
        test_no_more(tap, cluster, roles)
        tap.none(weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

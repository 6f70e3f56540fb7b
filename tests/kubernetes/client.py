#!/usr/bin/env python3
"""client.py FOLLOW - our client of Kubernetes' API against the real server:
what it says is compared to a count by other means, in quiet and in trouble.
What a server does only when it wants to is scripted.py's.
"""
import contextlib
import json
import os
import select
import socket
import sys
import threading
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, Pki, programs  # noqa: E402
from follow import Follow, said  # noqa: E402
from objects import PODS, each, node, pod  # noqa: E402
from space import apart, until  # noqa: E402

FOLLOW = os.path.abspath(sys.argv[1])
RBAC = "/apis/rbac.authorization.k8s.io/v1"
NODES, FIRST = 20, 700                 # pods, more than a page


class Relay:
    """A way to the server that can be cut, and closed for a while.  Ends when
    told to, with its one thread.
    """

    def __init__(self, to):
        self.to = to
        self.lock = threading.Lock()
        self.open = True
        self.pairs = {}
        self.cuts = 0
        self.wake = os.pipe()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def accept(self):
        near, _ = self.listener.accept()
        try:
            if not self.open:
                raise ConnectionRefusedError
            far = socket.create_connection(self.to)
        except OSError:
            near.close()
            return
        self.pairs |= {near: far, far: near}

    def drop(self, one):
        other = self.pairs.pop(one, None)
        self.pairs.pop(other, None)
        for s in one, other:
            if s:
                s.close()

    def serve(self):
        while True:
            ready, _, _ = select.select(
                [self.wake[0], self.listener, *self.pairs], [], [])
            if self.wake[0] in ready:
                return
            with self.lock:
                for s in ready:
                    if s is self.listener:
                        self.accept()
                    elif s in self.pairs:
                        self.pass_on(s)

    def pass_on(self, s):
        try:
            data = s.recv(65536)
            if data:
                self.pairs[s].sendall(data)
                return
        except OSError:
            pass
        self.drop(s)

    def cut(self, stay_closed=False):
        """All connections break; how many."""
        with self.lock:
            self.open = not stay_closed
            n = len(self.pairs) // 2
            for s in list(self.pairs):
                with contextlib.suppress(OSError):
                    s.shutdown(socket.SHUT_RDWR)
        return n

    def reopen(self):
        with self.lock:
            self.open = True

    def close(self):
        os.write(self.wake[1], b"x")
        self.thread.join()
        for s in [*self.pairs, self.listener]:
            s.close()
        for fd in self.wake:
            os.close(fd)


def add_pods(cluster, first, n):
    each(cluster, (("POST", PODS, pod(f"p{k}", k % 3, None if k % 5 == 0 else
                                      f"n{k % NODES}"))
                   for k in range(first, first + n)))


def drop_pods(cluster, ks):
    each(cluster, (("DELETE", f"{PODS}/p{k}", {"gracePeriodSeconds": 0})
                   for k in ks))


def end_pods(cluster, ks, phase):
    def patch(k):
        conn = cluster.connect()
        cluster.need("PATCH", f"{PODS}/p{k}/status",
                     {"status": {"phase": phase}}, conn,
                     "application/merge-patch+json")
        conn.close()
    for k in ks:
        patch(k)


def is_closed(o):
    ready = any(c["type"] == "Ready" and c["status"] == "True"
                for c in o["status"].get("conditions", []))
    return not ready or o["spec"].get("unschedulable", False) or any(
        t["effect"] in ("NoSchedule", "NoExecute")
        for t in o["spec"].get("taints", []))


def recount(cluster):
    """What there is, from the API by Python."""
    nodes = cluster.need("GET", "/api/v1/nodes")["items"]
    names = {n["metadata"]["name"] for n in nodes}
    pods = [p for p in cluster.need("GET", "/api/v1/pods")["items"]
            if p["status"]["phase"] not in ("Succeeded", "Failed")]
    taken = [p["spec"]["containers"][0]["resources"]["requests"]
             for p in pods if p["spec"].get("nodeName") in names]
    return {"nodes": len(nodes), "pods": len(pods),
            "waiting": sum(not p["spec"].get("nodeName") for p in pods),
            "closed": sum(is_closed(n) for n in nodes),
            "gpus": sum(int(n["status"]["allocatable"]["nvidia.com/gpu"])
                        for n in nodes),
            "taken": sum(int(r.get("nvidia.com/gpu", 0)) for r in taken),
            "cpu_milli": sum(int(r["cpu"].removesuffix("m")) for r in taken)}


def same(tap, cluster, f, text):
    want = recount(cluster)
    got = f.until(want)
    tap.equal({k: got[k] for k in want}, want, f"{text}: {want}")


def asked(cluster, **query):
    """Requests of `follower` that the server has begun to answer: (path,
    query, status), in order.
    """
    found = []
    with open(cluster.audit, encoding="utf-8") as f:
        for line in f:
            if not line.endswith("\n"):
                break                  # it is being written
            e = json.loads(line)
            url = urllib.parse.urlparse(e["requestURI"])
            q = dict(urllib.parse.parse_qsl(url.query))
            stage = "ResponseStarted" if "watch" in q else "ResponseComplete"
            if e["stage"] == stage and \
                    all(q.get(k) == v for k, v in query.items()):
                found.append((url.path, q, e["responseStatus"]["code"]))
    return found


def may(cluster, verbs):
    """What `follower` may do with nodes and pods, once the server knows."""
    give(cluster, verbs, "followers")

    def allowed(verb):
        conn = cluster.connect(())
        conn.request("GET", "/api/v1/nodes?limit=1" + (
            "&watch=1&timeoutSeconds=1" if verb == "watch" else ""),
            headers={"Authorization": "Bearer follow-token"})
        status = conn.getresponse().status
        conn.close()
        return status == 200
    for verb in "list", "watch":
        until(lambda: allowed(verb) == (verb in verbs), verb)


def give(cluster, verbs, name):
    rules = [{"apiGroups": [""], "resources": ["nodes", "pods"],
              "verbs": verbs}]
    role = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1",
            "metadata": {"name": name}, "rules": rules}
    if cluster.ask("POST", f"{RBAC}/clusterroles", role)[0] == 409:
        cluster.need("PUT", f"{RBAC}/clusterroles/{name}", role)
        return
    cluster.need("POST", f"{RBAC}/clusterrolebindings", {
        "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "roleRef": {"kind": "ClusterRole", "name": name,
                    "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "Group", "name": name,
                      "apiGroup": "rbac.authorization.k8s.io"}]})


def test_changes(tap, cluster, f):
    f.listed()
    same(tap, cluster, f, "the first inventory")
    tap.ok(any("continue" in q for _, q, _ in asked(cluster)),
           "it came page by page")
    add_pods(cluster, FIRST, 200)
    drop_pods(cluster, range(0, FIRST, 7))
    end_pods(cluster, range(1, FIRST, 70), "Succeeded")
    end_pods(cluster, range(2, FIRST, 70), "Failed")
    cluster.need("PATCH", "/api/v1/nodes/n1",
                 {"spec": {"unschedulable": True}},
                 kind="application/merge-patch+json")
    cluster.need("PATCH", "/api/v1/nodes/n5", {"spec": {"taints": [
        {"key": "k", "effect": "NoSchedule"}]}},
                 kind="application/merge-patch+json")
    cluster.need("PATCH", "/api/v1/nodes/n6/status", {"status": {
        "conditions": [{"type": "Ready", "status": "Unknown"}]}},
                 kind="application/merge-patch+json")
    cluster.need("PATCH", "/api/v1/nodes/n2/status",
                 {"status": {"allocatable": {"nvidia.com/gpu": "5"}}},
                 kind="application/merge-patch+json")
    cluster.need("DELETE", "/api/v1/nodes/n3")
    same(tap, cluster, f, "pods come, go and end; nodes change")
    tap.equal(f.sums()["lists"], 2, "all by watching")


def test_cut(tap, cluster, f, relay):
    for k in range(5):
        until(lambda: len(relay.pairs) >= 4, "two watches")
        relay.cut()
        add_pods(cluster, 2000 + 20 * k, 20)
        drop_pods(cluster, range(2000 + 20 * k, 2010 + 20 * k))
    same(tap, cluster, f, "watches are cut")
    tap.equal(f.sums()["lists"], 2, "and taken up where they were")


def test_restart(tap, cluster, f):
    cluster.api.end()
    until(lambda: len(set(f.troubles())) >= 1, "trouble")
    cluster.start_api()
    add_pods(cluster, 3000, 50)
    same(tap, cluster, f, "the server ends and comes again")
    cluster.etcd.end()
    cluster.etcd.start()
    cluster.wait("the server", lambda: cluster.ask("GET", "/readyz")[0] == 200)
    add_pods(cluster, 3100, 50)
    same(tap, cluster, f, "etcd does")


def test_too_old(tap, cluster, f, relay):
    """It misses changes that the server has forgotten when it asks."""
    before = f.sums()["lists"]
    relay.cut(stay_closed=True)
    add_pods(cluster, 4000, 50)
    drop_pods(cluster, range(3000, 3050))
    cluster.need("DELETE", "/api/v1/nodes/n4")
    cluster.api.end()
    cluster.compact()
    cluster.start_api()
    relay.reopen()
    same(tap, cluster, f, "etcd was compacted meanwhile")
    until(lambda: f.sums()["lists"] >= before + 2, "both lists")
    tap.ok(True, "too old to go on: it lists again")


def test_rights(tap, cluster, f, relay):
    """A right is taken away, and comes back."""
    for without, have, well in ("watch", ["list"], 2), ("list", ["watch"], 0):
        may(cluster, have)
        conf = cluster.kubeconfig({"token": "follow-token"})
        said(tap, FOLLOW, conf, ["not allowed (403)", f"cannot {without} "],
             f"without {without}", well)
    may(cluster, ["list", "watch"])
    relay.cut()
    same(tap, cluster, f, "with both all is well")


def test_refused(tap, cluster, folder):
    other = Pki(os.path.join(folder, "other"), "other-ca")
    ended = cluster.pki.sign("ended", "/O=system:masters/CN=ended",
                             "clientAuth", ended=True)
    unknown = other.sign("unknown", "/O=system:masters/CN=unknown",
                         "clientAuth")
    for what, user, ca, words in (
            ("another CA", {"token": "good-token"}, other.ca, ["certificate"]),
            ("a certificate that has ended", cluster.by_cert(*ended), None,
             ["401"]),
            ("a certificate of somebody else", cluster.by_cert(*unknown), None,
             ["401"]),
            ("a token nobody knows", {"token": "bad"}, None, ["401"]),
            ("no credential at all", {}, None, ["403", "system:anonymous"])):
        said(tap, FOLLOW, cluster.kubeconfig(user, ca=ca), words, what)


def test_bookmarks(tap, cluster, f, relay):
    """Nodes have been quiet while pods were not: the next watch of nodes is
    from a later version than any node has.
    """
    latest = max(int(n["metadata"]["resourceVersion"]) for n in
                 cluster.need("GET", "/api/v1/nodes")["items"])
    before = cluster.need("GET", "/api/v1/nodes?limit=1")["metadata"]
    add_pods(cluster, 6000, 20)

    def later():
        """Bookmarks come once a minute; a cut begins another minute."""
        with contextlib.suppress(TimeoutError):
            until(lambda: False, "", 75)
        n = len(asked(cluster, watch="true"))
        relay.cut()
        until(lambda: len([x for x in asked(cluster, watch="true")[n:]
                           if x[0].endswith("/nodes")]), "a watch of nodes")
        path, q, status = [x for x in asked(cluster, watch="true")[n:]
                           if x[0].endswith("/nodes")][0]
        return status == 200 and int(q["resourceVersion"])
    lists = f.sums()["lists"]
    got = until(lambda: (v := later()) and v > int(
        before["resourceVersion"]) and v, "a bookmark", 600)
    tap.ok(got > latest, f"bookmarks: {got} is later than {latest}")
    tap.equal(f.sums()["lists"], lists, "and no list was needed")
    same(tap, cluster, f, "all the same")


def run(tap):
    apart()
    with Cluster(programs()) as cluster:
        may(cluster, ["list", "watch"])
        each(cluster, (("POST", "/api/v1/nodes", node(f"n{k}", k % 9))
                       for k in range(NODES)))
        add_pods(cluster, 0, FIRST)
        relay = Relay((cluster.host, cluster.port))
        conf = cluster.kubeconfig({"token": "follow-token"}, relay.port)
        with Follow(FOLLOW, conf) as f:
            test_changes(tap, cluster, f)
            test_cut(tap, cluster, f, relay)
            test_restart(tap, cluster, f)
            test_too_old(tap, cluster, f, relay)
            test_rights(tap, cluster, f, relay)
            test_refused(tap, cluster, cluster.folder)
            test_bookmarks(tap, cluster, f, relay)
            tap.equal(f.end(), 0, "it ends when told to")
        relay.close()


if __name__ == "__main__":
    weirtest.main(run)

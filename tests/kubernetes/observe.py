#!/usr/bin/env python3
"""A pool that is observed, on a real API server: what `weir pool` shows is
compared to a count by other means, and nothing is written there.
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from client import add_pods, drop_pods, may, recount  # noqa: E402
from cluster import Cluster, Pki, programs  # noqa: E402
from objects import each, node  # noqa: E402
from space import apart  # noqa: E402
from weirtest import Weir, until  # noqa: E402

NODES, PODS = 20, 60


def pool(weir):
    return weir.client.need("GET", "/v1/pools/lab")


def shown(p):
    """The same numbers as recount(), of what the pool shows."""
    nodes = p["nodes"]
    return {"nodes": len(nodes), "pods": p["pods"],
            "waiting": p["pods_waiting"],
            "closed": sum("closed" in n for n in nodes),
            "gpus": p["devices"]["total"],
            "taken": sum(n["device_count"]["total"] -
                         n["device_count"]["free"] for n in nodes),
            "cpu_milli": round(1000 * (p["cpus"]["total"] -
                                       p["cpus"]["free"]))}


def same(tap, cluster, weir, text):
    want, got = recount(cluster), {}

    def so():
        p = pool(weir)
        got.clear()
        if p["state"] == "ready":
            got.update(shown(p))
        return got == want
    try:
        until(so, text)
    except TimeoutError:
        pass
    tap.equal(got, want, f"{text}: {want}")


def add(weir, conf, *more):
    return weir.cli("pool", "add", "lab", "--engine", "kubernetes",
                    "--kubeconfig", conf, *more)


def test_words(tap, weir, cluster):
    """What is refused at once, and what is missing to start there."""
    conf = cluster.kubeconfig({"token": "follow-token"})
    r = add(weir, conf, "--observe", "--conf", "kubeconf=x")
    tap.ok(r.returncode == 2 and "kubeconfig, context, namespace" in r.stderr,
           f"an unknown word: {r.stderr.strip()}")
    r = add(weir, conf)
    tap.ok(r.returncode == 2 and "conf image=" in r.stderr and
           r.stderr.count("\n") == 1, f"to start there: {r.stderr.strip()}")
    tap.equal(weir.client.call("GET", "/v1/pools/lab").status, 404,
              "and nothing was added")
    word = "start weir up with --runners"
    tap.equal(add(weir, conf, "--conf", "image=x").returncode, 0,
              "with an image")
    until(lambda: word in pool(weir).get("why", ""), word)
    tap.ok(pool(weir)["state"] == "unreachable", pool(weir)["why"])


def test_troubles(tap, weir, cluster):
    """A pool that cannot be reached says why, in one line."""
    other = Pki(os.path.join(cluster.folder, "other"), "other-ca")
    missing = os.path.join(cluster.folder, "no-such-file")
    for what, conf, word in (
            ("no such file", missing, "no-such-file"),
            ("another CA", cluster.kubeconfig({"token": "good-token"},
                                              ca=other.ca), "certificate"),
            ("a token nobody knows", cluster.kubeconfig({"token": "bad"}),
             "401"),
            ("no right to list", cluster.kubeconfig(
                {"token": "follow-token"}), "403")):
        r = add(weir, conf, "--observe")
        tap.equal(r.returncode, 0, f"{what}: the pool is there")
        until(lambda: pool(weir)["state"] == "unreachable", what)
        line = [x for x in weir.cli("pool", "ls").stdout.splitlines()
                if x.startswith("lab ")][0]
        tap.ok(word in line and "unreachable: " in line, line)


def test_counts(tap, weir, cluster):
    may(cluster, ["list", "watch"])
    same(tap, cluster, weir, "with the right to look it does")
    add_pods(cluster, PODS, 20)
    drop_pods(cluster, range(0, PODS, 7))
    cluster.need("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}},
                 kind="application/merge-patch+json")
    cluster.need("DELETE", "/api/v1/nodes/n3")
    same(tap, cluster, weir, "pods come and go, nodes change")
    text = weir.cli("pool", "show", "lab").stdout
    tap.ok("cordoned" in text and "wait for a node" in text and
           "devices" in text and "observed" in text, "show says it", text)


def test_away(tap, weir, cluster):
    cluster.api.end()
    until(lambda: pool(weir)["state"] == "unreachable", "it to be noticed")
    p = pool(weir)
    tap.ok(p["why"] and "\n" not in p["why"] and p["nodes"],
           f"the server is away, what was known is shown: {p['why']}")
    tap.equal(weir.client.wait(weir.client.submit(
        {"weir": 1, "kind": "job", "name": "j", "cpus": 0.1,
         "run": "true"}).json["id"])["outcome"], "succeeded",
        "work goes on elsewhere")
    cluster.start_api()
    add_pods(cluster, 1000, 10)
    same(tap, cluster, weir, "it is back")


def test_restart(tap, weir, cluster):
    weir.kill()
    weir.start()
    same(tap, cluster, weir, "after kill -9 the pool is observed again")


def written(cluster):
    """Requests of ours that were more than looks."""
    with open(cluster.audit, encoding="utf-8") as f:
        found = [json.loads(line) for line in f if line.endswith("\n")]
    return len(found), [e["requestURI"] for e in found
                        if e["verb"] not in ("list", "watch")]


def run(tap):
    apart()
    with Cluster(programs()) as cluster, Weir(devices="none") as weir:
        each(cluster, (("POST", "/api/v1/nodes", node(f"n{k}", 32))
                       for k in range(NODES)))
        add_pods(cluster, 0, PODS)
        weir.start()
        test_words(tap, weir, cluster)
        test_troubles(tap, weir, cluster)
        test_counts(tap, weir, cluster)
        test_away(tap, weir, cluster)
        test_restart(tap, weir, cluster)
        asked, bad = written(cluster)
        tap.ok(asked > 4 and not bad, f"{asked} requests in the audit log, "
               "none of them writes", *bad[:5])
        tap.equal(weir.cli("pool", "remove", "lab").returncode, 0, "removed")
        tap.none(weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

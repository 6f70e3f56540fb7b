#!/usr/bin/env python3
"""others.py STANDIN_FOLDER BARE [TEST...] - pods that others make, on a real
cluster: with schedulerName weir they are planned, bound and accounted like
our own work.  With names of tests those alone.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from node import GATE, Node  # noqa: E402
from pods import TOOLS, Lab, images, submit  # noqa: E402
from space import apart, until  # noqa: E402
from weirtest import Weir  # noqa: E402

STANDIN, CHOSEN = os.path.abspath(sys.argv[1]), sys.argv[3:]
SPACE = "team"
PODS = f"/api/v1/namespaces/{SPACE}/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PORT = 8445
GPUS = 2                               # of the one node


def container(run, gpus=0):
    want = {"cpu": "50m", "memory": "16Mi"} | (
        {"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"name": "c", "image": TOOLS, "command": ["sh", "-c", run],
            "imagePullPolicy": "Never",
            "resources": {"requests": want, "limits": want}}


def spec(run, gpus=0, **more):
    return {"schedulerName": "weir", "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": False,
            "containers": [container(run, gpus)]} | more


def pod(name, run, gpus=0, labels=None, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {
        "name": name, "labels": labels or {}}, "spec": spec(run, gpus, **more)}


class Audited(Lab):
    """The pool by an account whose requests are written down."""

    def join(self, weir, **conf):
        good = self.cluster.kubeconfig
        self.cluster.kubeconfig = lambda _: good({"token": "follow-token"})
        super().join(weir, **conf)
        self.cluster.kubeconfig = good


class Others:
    """What people do with kubectl."""

    def __init__(self, folder, cluster, weir):
        self.folder, self.cluster, self.weir = folder, cluster, weir
        self.kubectl = os.path.join(cluster.programs, "kubectl")
        self.conf = cluster.kubeconfig({"token": "good-token"})

    def run(self, *args, stdin=None):
        r = subprocess.run(
            [self.kubectl, "--kubeconfig", self.conf, "-n", SPACE, *args],
            input=stdin, capture_output=True, text=True, check=False,
            env=os.environ | {"HOME": self.folder})
        if r.returncode:
            raise RuntimeError(f"kubectl {args}: {r.stderr}")
        return r.stdout

    def make(self, *objects):
        for o in objects:
            self.run("create", "-f", "-", stdin=json.dumps(o))

    def delete(self, *names):
        self.run("delete", "pod", "--wait=false", *names)

    def get(self, name):
        status, text = self.cluster.ask("GET", f"{PODS}/{name}")
        return json.loads(text) if status == 200 else None

    def phase(self, name):
        o = self.get(name)
        return o and o["status"].get("phase")

    def until_phase(self, name, *phases):
        return until(lambda: self.phase(name) in phases and self.phase(name),
                     f"{name} to be {phases}", 120)

    def until_gone(self, *names):
        until(lambda: not any(self.get(n) for n in names),
              f"{names} to be gone", 120)

    def workloads(self):
        """{pod: task} of all guests, newest last."""
        found = {}
        for w in sorted(self.weir.client.workloads(), key=lambda w:
                        int(w["id"][1:])):
            for t in self.weir.client.tasks(w["id"]):
                if "pod" in t:
                    found[t["pod"]["name"].split("/")[1]] = w | {"t": t}
        return found

    def task(self, name):
        return self.workloads().get(name, {"t": {}})["t"]

    def ended(self, name):
        return until(lambda: self.task(name).get("state") == "ended" and
                     self.task(name), f"the task of {name} to end", 120)

    def wait_told(self, name, word):
        """What describe says, once the word is in it."""
        def told():
            text = self.run("describe", "pod", name)
            return text if word in text else None
        try:
            return until(told, f"'{word}' to be said of {name}", 60)
        except TimeoutError as e:
            raise TimeoutError(f"{e}: {self.run('describe', 'pod', name)} "
                               f"{self.weir.tail()}") from e

    def bound(self, name):
        """How often it was, by the server's own account."""
        with open(self.cluster.audit, encoding="utf-8") as f:
            events = [json.loads(line) for line in f if line.endswith("\n")]
        return sum(e["requestURI"].endswith(f"/pods/{name}/binding") and
                   e["stage"] == "ResponseComplete" and
                   e["responseStatus"]["code"] < 300 for e in events)


def test_job(tap, o):
    """An unmodified Job, but for who schedules it."""
    o.make({"apiVersion": "batch/v1", "kind": "Job", "metadata": {
        "name": "plain"}, "spec": {"completions": 2, "template": {
            "spec": spec("echo hello; exit 0", 1)}}})
    o.run("wait", "--for=condition=complete", "job/plain", "--timeout=120s")
    tap.ok(True, "a Job runs to its end")
    tasks = until(lambda: len(t := [w for w in o.workloads().values() if
                                    w["name"] == "plain" and
                                    w["state"] == "ended"]) == 2 and t,
                  "two workloads")
    tap.equal([(w["outcome"], w["tenant"], w["t"]["gpus"]) for w in tasks],
              [("succeeded", "team", 1)] * 2,
              "each pod is a workload of the tenant, and ended well")
    tap.ok(all(w["gpu_seconds"] > 0 for w in tasks), "their use is counted")
    o.run("delete", "job", "plain")


def test_ends(tap, o):
    o.make(pod("bad", "exit 3"))
    t = o.ended("bad")
    tap.equal((t["outcome"], t["cause"], t["status"]), ("failed", "failed", 3),
              "an exit status")
    tap.equal(o.phase("bad"), "Failed", "whose pod is left to its maker")
    o.make(pod("long", "exec sleep 3600"))
    o.until_phase("long", "Running")
    o.delete("long")
    tap.equal(o.ended("long")["cause"], "deleted", "a pod that was deleted")
    o.until_gone("long")
    o.make(pod("long", "exec sleep 3600"))
    o.until_phase("long", "Running")
    wid = until(lambda: o.task("long").get("state") == "running" and
                o.task("long")["workload"], "it to run")
    o.weir.cli("abort", wid, check=True)
    tap.equal(o.weir.client.wait(wid)["outcome"], "aborted",
              "a workload that is aborted")
    o.until_gone("long")
    tap.ok(True, "takes its pod with it")
    o.delete("bad")


def test_gang(tap, o):
    """Four pods of half a node each: two tenants' rules hold."""
    gang = {"weir.dev/gang": "four", "weir.dev/gang-size": "4"}
    names = [f"g{k}" for k in range(4)]
    o.make(pod("before", "exec sleep 3600", GPUS))
    o.until_phase("before", "Running")
    o.make(*[pod(n, "sleep 1", int(k < GPUS), gang)
             for k, n in enumerate(names[:3])])
    text = o.wait_told("g0", "3 of its 4")
    tap.ok("PodScheduled" in text, "three of four wait for the fourth")
    o.make(pod("g3", "sleep 1", 0, gang))
    text = o.wait_told("g3", "Predicted start")
    tap.equal([bool((o.get(n) or {})["spec"].get("nodeName"))
               for n in names], [False] * 4, "none is bound before there is "
              "room for all")
    o.delete("before")
    for n in names:
        o.until_phase(n, "Succeeded")
    tap.equal([o.ended(n)["outcome"] for n in names], ["succeeded"] * 4,
              "then all run to the end")
    tap.equal(len({o.task(n)["workload"] for n in names}), 1,
              "as one workload")
    o.delete(*names)


def test_quota(tap, o):
    """No more devices than the tenant may have, and the words for it."""
    o.weir.cli("tenant", "set", "team", "--max-gpus", "1", check=True)
    o.make(pod("one", "exec sleep 3600", 1))
    o.until_phase("one", "Running")
    o.make(pod("two", "sleep 1", 1))
    text = o.wait_told("two", "(quota")
    tap.ok("FailedScheduling" in text and "weir" in text,
           "describe shows Weir's reason")
    print("# " + "\n# ".join(line for line in text.splitlines()
                             if "quota" in line), flush=True)
    cond = [c for c in o.get("two")["status"]["conditions"]
            if c["type"] == "PodScheduled"]
    tap.equal([(c["status"], c["reason"]) for c in cond],
              [("False", "Unschedulable")], "as its condition")
    o.weir.cli("tenant", "set", "team", "--max-gpus", "unlimited", check=True)
    o.until_phase("two", "Succeeded")
    tap.ok(True, "with more it runs")
    o.delete("two")
    o.make(pod("three", "sleep 1", GPUS))
    text = o.wait_told("three", "(devices")
    tap.ok(True, "one that waits for devices says so")
    o.delete("one", "three")
    t = o.ended("three")
    tap.equal(t["outcome"], "aborted", "deleted while it waits: aborted")
    tap.equal(o.bound("three"), 0, "and never bound")
    o.until_gone("one", "three")


def test_odd(tap, o):
    """What cannot be planned says why and is not bound."""
    o.make(pod("pinned", "true", affinity={"podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname", "labelSelector": {
                "matchLabels": {"a": "b"}}}]}}))
    text = o.wait_told("pinned", "anti-affinity")
    tap.ok("does not look after" in text, "anti-affinity is refused in words")
    o.make(pod("nobody", "true", labels={"weir.dev/tenant": "nobody"}))
    text = o.wait_told("nobody", "no tenant")
    tap.ok("'nobody'" in text, "so is a tenant that there is not")
    o.make(pod("far", "true", nodeSelector={"where": "moon"}))
    o.wait_told("far", "where=moon")
    tap.ok(True, "and a label that no node has")
    tap.equal([o.bound(n) for n in ("pinned", "nobody", "far")], [0, 0, 0],
              "none is bound")
    o.delete("pinned", "nobody", "far")
    o.until_gone("pinned", "nobody", "far")


def test_race(tap, o):
    """Pods of another scheduler want the same devices at the same time."""
    for k in range(4):
        names = [f"r{k}a", f"r{k}b"]
        other = pod(names[0], "sleep 1", GPUS, schedulerName=
                    "default-scheduler")
        o.make(other, pod(names[1], "sleep 1", GPUS))
        ends = [o.until_phase(n, "Succeeded", "Failed") for n in names]
        t = o.ended(names[1])
        print(f"# race {k}: {ends}, {t['outcome']} {t.get('cause')}",
              flush=True)
        tap.ok((ends[1] == "Succeeded") == (t["outcome"] == "succeeded") and
               (ends[1] == "Succeeded" or t["cause"] == "taken"),
               "it runs, or its place was taken and that is said")
        o.delete(*names)
        o.until_gone(*names)


def test_own(tap, o, lab):
    """Our own work and pods share the devices."""
    wid = submit(o.weir, {"weir": 1, "kind": "job", "name": "j", "gpus": GPUS,
                          "cpus": 0.1, "memory": "48Mi", "run": "sleep 5"})
    lab.running(wid)
    o.make(pod("after", "sleep 1", GPUS))
    o.until_phase("after", "Succeeded")
    tap.equal((o.weir.client.wait(wid)["outcome"],
               o.ended("after")["outcome"]), ("succeeded", "succeeded"),
              "a pod takes the place that a task of ours leaves")
    o.delete("after")


def test_killed(tap, o):
    """The control plane is killed around the binding, again and again."""
    names = [f"k{k}" for k in range(12)]
    for n in names:
        o.make(pod(n, "sleep 1"))
        time.sleep(0.05)
        o.weir.kill()
        o.weir.start()
    for n in names:
        o.until_phase(n, "Succeeded")
    tap.equal([o.bound(n) for n in names], [1] * len(names),
              f"killed {len(names)} times: each is bound once")
    tap.equal([o.ended(n)["outcome"] for n in names],
              ["succeeded"] * len(names), "and each ends well")
    tap.equal(len([w for w in o.weir.client.workloads()
                   if w["name"] in names]), len(names),
              "each was submitted once")
    o.delete(*names)


def run(tap):
    apart()
    folder = tempfile.mkdtemp(prefix="weir-others.")
    try:
        archives = images(folder)
        with Cluster(programs(), control=True) as cluster, \
                Weir(devices="sim:1xH200-80GB", args=[
                    "--runners", f"0.0.0.0:{PORT}",
                    "--runners-url", f"tls://{GATE}:{PORT}"]) as weir:
            node = Node(cluster, archives, GPUS, STANDIN)
            node.start()
            node.ready()
            cluster.need("POST", "/api/v1/namespaces", {
                "metadata": {"name": SPACE}})
            weir.start()
            weir.cli("tenant", "create", "team", check=True)
            weir.wait_devices()
            weir.cli("pool", "drain", "local", check=True)
            cluster.need("POST", f"{RBAC}/clusterrolebindings", {
                "metadata": {"name": "all"}, "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io",
                    "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io",
                              "kind": "Group", "name": "followers"}]})
            lab = Audited("lab", cluster)
            lab.join(weir, tenant="team")
            o = Others(folder, cluster, weir)
            for test in (test_job, test_ends, test_gang, test_quota, test_odd,
                         test_race, test_own, test_killed):
                if not CHOSEN or test.__name__ in CHOSEN:
                    test(tap, o, *[lab][:test is test_own])
            tap.none(weir.faults(), "no fault")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    weirtest.main(run)

#!/usr/bin/env python3
"""real.py FOLLOW STANDIN_FOLDER BARE - a real Kubernetes with real nodes, as
tests of engines use it: it comes up, runs pods on simulated GPUs, our client
sees what it has and what is taken, and nothing of it stays.
"""
import contextlib
import json
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from follow import Follow  # noqa: E402
from image import archive, busybox, needed  # noqa: E402
from node import PAUSE, Node, hierarchies  # noqa: E402
from space import apart, until  # noqa: E402

FOLLOW, STANDIN, BARE = (os.path.abspath(a) for a in sys.argv[1:4])
TOOLS = "weir.test/tools:1"
PODS = "/api/v1/namespaces/default/pods"
ENDED = ("Succeeded", "Failed")


def images(folder):
    """One without a shell, and one with a shell and a user of GPUs."""
    bare, tools = (os.path.join(folder, n) for n in ("bare.tar", "tools.tar"))
    archive(bare, PAUSE, {"/bare": BARE}, entrypoint=["/bare"])
    guest = os.path.join(STANDIN, "guest-link")
    files, links = busybox()
    files["/bin/guest"] = guest
    files |= {lib: os.path.realpath(lib) for lib in needed(guest)
              if not lib.startswith(STANDIN)}
    archive(tools, TOOLS, files, links)
    return [bare, tools]


def pod(name, gpus=0, image=TOOLS, **container):
    want = {"cpu": "10m", "memory": "32Mi"} | (
        {"nvidia.com/gpu": str(gpus)} if gpus else {})
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"restartPolicy": "Never",
                     "terminationGracePeriodSeconds": 0,
                     "automountServiceAccountToken": False,
                     "containers": [{"name": "c", "image": image,
                                     "imagePullPolicy": "Never",
                                     "resources": {"limits": want},
                                     **container}]}}


def shell(text):
    return {"command": ["sh", "-c", text]}


class Pods:
    def __init__(self, cluster):
        self.cluster = cluster

    def make(self, name, *args, **kw):
        self.cluster.need("POST", PODS, pod(name, *args, **kw))

    def get(self, name):
        return self.cluster.need("GET", f"{PODS}/{name}")

    def phase(self, name):
        return self.get(name)["status"].get("phase")

    def until(self, name, *phases):
        try:
            until(lambda: self.phase(name) in phases, f"{name}: {phases}")
        except TimeoutError as e:
            events = self.cluster.need(
                "GET", "/api/v1/namespaces/default/events")["items"]
            raise TimeoutError(
                f"{e}: " + json.dumps(self.get(name)["status"]) + "\n" +
                "\n".join(f"{x['reason']}: {x['message']}" for x in events)
            ) from e
        return self.get(name)

    def log(self, name):
        status, text = self.cluster.ask("GET", f"{PODS}/{name}/log")
        return text.decode() if status == 200 else f"{status} {text!r}"

    def drop(self, name):
        self.cluster.need("DELETE", f"{PODS}/{name}")
        until(lambda: self.cluster.ask("GET", f"{PODS}/{name}")[0] == 404,
              f"{name} to be gone")


def code(status):
    return status["status"]["containerStatuses"][0]["state"][
        "terminated"]["exitCode"]


def comes_up(tap, cluster):
    got = sorted((o["metadata"]["name"], Node.is_ready(o),
                  o["status"]["allocatable"].get("nvidia.com/gpu"),
                  o["status"]["nodeInfo"]["containerRuntimeVersion"]
                  .split("://")[0])
                 for o in cluster.need("GET", "/api/v1/nodes")["items"])
    tap.equal(got, [(n.name, True, str(n.gpus), "containerd")
                    for n in cluster.nodes],
              f"{len(got)} nodes are ready, with their devices")


def runs(tap, pods):
    """A pod with a GPU, and what it sees."""
    pods.make("gpu", 1, **shell(
        "echo $CUDA_VISIBLE_DEVICES; "
        "{ printf 'init\\ncount\\nuse\\n'; "
        "until ls $WEIR_STANDIN/proc 2> /dev/null | grep .; do sleep 0.1; done "
        "> /tmp/users; } | guest; wc -l < /tmp/users"))
    end = pods.until("gpu", *ENDED)
    tap.equal((end["status"]["phase"], code(end)), ("Succeeded", 0),
              "a pod with a GPU runs to its end")
    lines = pods.log("gpu").split("\n")
    tap.ok(lines[0].startswith("GPU-") and "," not in lines[0],
           f"it has one by its name: {lines[0]}")
    tap.equal(lines[1:], ["0", "0 1", "0", "1", ""],
              "its log says that it sees and uses that one, alone")
    pods.make("bare", image=PAUSE, args=["say", "no shell", "here"])
    tap.equal((code(pods.until("bare", *ENDED)), pods.log("bare")),
              (0, "no shell\nhere\n"), "an image without a shell runs")
    pods.make("status", image=PAUSE, args=["exit", "7"])
    tap.equal(code(pods.until("status", *ENDED)), 7, "how it ends is told")
    pods.make("api", **shell(
        "nc -w 30 $KUBERNETES_SERVICE_HOST $KUBERNETES_SERVICE_PORT "
        "< /dev/null && echo reached; ip route | grep -c default"))
    pods.until("api", *ENDED)
    tap.equal(pods.log("api"), "reached\n1\n",
              "a pod reaches the API server by its service's address")
    for name in "gpu", "bare", "status", "api":
        pods.drop(name)


def recount(cluster):
    """What `follow` is to say, added up by other means; cpu is in thousandths
    and all here have whole ones.
    """
    nodes = cluster.need("GET", "/api/v1/nodes")["items"]
    live = [p for p in cluster.need("GET", "/api/v1/pods")["items"]
            if p["status"].get("phase") not in ENDED]
    bound = [p["spec"]["containers"][0]["resources"]["requests"] for p in live
             if p["spec"].get("nodeName")]
    return {
        "nodes": len(nodes), "pods": len(live),
        "waiting": len(live) - len(bound),
        "gpus": sum(int(n["status"]["allocatable"].get("nvidia.com/gpu", 0))
                    for n in nodes),
        "taken": sum(int(r.get("nvidia.com/gpu", 0)) for r in bound),
        "cpu_milli": sum(int(r["cpu"].removesuffix("m")) for r in bound)}


def same(tap, cluster, f, text):
    want = recount(cluster)
    got = f.until(want)
    return tap.equal({k: got[k] for k in want}, want, text)


def followed(tap, cluster, pods, f):
    """What our client says of pods that come and go."""
    total = sum(n.gpus for n in cluster.nodes)
    same(tap, cluster, f, "the client sees the nodes")
    for k in range(total):
        pods.make(f"hold-{k}", 1, **shell("sleep 3600"))
    for k in range(total):
        pods.until(f"hold-{k}", "Running")
    same(tap, cluster, f, "all devices are taken")
    pods.make("late", 1, **shell("true"))
    until(lambda: recount(cluster)["waiting"], "a pod that waits")
    same(tap, cluster, f, "one pod waits")
    tap.equal(f.sums()["taken"], total, "and takes none")
    pods.drop("hold-0")
    tap.equal(code(pods.until("late", *ENDED)), 0, "it runs on a freed one")
    same(tap, cluster, f, "which is free again")


def ails(tap, cluster, pods, f):
    """A device is lost, and a node."""
    node = cluster.nodes[0]
    have = cluster.need("GET", f"/api/v1/nodes/{node.name}")
    tap.equal(have["metadata"]["labels"].get("weir.dev/gpus"), "simulated",
              "a node says that its GPUs are simulated")
    gpus = f.sums()["gpus"]
    node.gpu(0, "lost=1\n")
    until(lambda: recount(cluster)["gpus"] == gpus - 1, "a lost device")
    same(tap, cluster, f, "a device that is lost is not offered")
    node.gpu(0)
    until(lambda: recount(cluster)["gpus"] == gpus, "the device")
    same(tap, cluster, f, "it is offered again")
    node.fail()
    got = f.until({"closed": 1})
    tap.equal(got["closed"], 1, "a node without power takes no work")
    tap.ok(not Node.is_ready(node.object()), "and is not ready")
    same(tap, cluster, f, "what it has is still counted")
    with contextlib.suppress(RuntimeError):
        pods.drop("late")


def beside(tap, cluster, other, pods):
    """Another cluster on the same machine."""
    mine = Pods(other)
    mine.make("lonely", 1, **shell("hostname; sleep 3600"))
    mine.until("lonely", "Running")
    tap.equal(cluster.ask("GET", f"{PODS}/lonely")[0], 404,
              "two clusters know nothing of each other")
    tap.ok(other.need("GET", f"{PODS}/lonely")["status"]["podIP"] !=
           pods.get("hold-1")["status"]["podIP"], "pods have addresses")
    until(lambda: mine.log("lonely") == "lonely\n", "its log")
    tap.ok(True, "the log of one that runs can be read")


def left(folders, cgroups):
    """What there still is of clusters that were closed."""
    found = [f for f in folders if os.path.exists(f)]
    for at in hierarchies():
        found += [f"{at}/{c}" for c in cgroups if os.path.exists(f"{at}/{c}")]
    for f in folders:
        found += weirtest.processes(f)
    with open("/proc/self/mounts", encoding="utf-8") as m:
        found += [x for x in m if any(f in x for f in folders)]
    return found


def run(tap):
    apart()
    where, folder = programs(), tempfile.mkdtemp(prefix="weir-real.")
    folders, cgroups = [], []
    try:
        tars = images(folder)
        with contextlib.ExitStack() as stack:
            both = [stack.enter_context(Cluster(where, control=True))
                    for _ in range(2)]
            for c, gpus in (both[0], 2), (both[0], 4), (both[1], 1):
                Node(c, tars, gpus, STANDIN).start()
            for c in both:
                folders.append(c.folder)
                cgroups += [n.cgroup for n in c.nodes]
                for n in c.nodes:
                    n.ready()
            comes_up(tap, both[0])
            pods = Pods(both[0])
            runs(tap, pods)
            conf = both[0].kubeconfig(both[0].by_cert(*both[0].admin))
            with Follow(FOLLOW, conf) as f:
                f.listed()
                followed(tap, both[0], pods, f)
                beside(tap, both[0], both[1], pods)
                ails(tap, both[0], pods, f)
                tap.equal(f.troubles(), [], "the client had no trouble")
        tap.none(left(folders, cgroups), "nothing is left of them")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    weirtest.main(run)

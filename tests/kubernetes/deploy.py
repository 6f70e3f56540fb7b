#!/usr/bin/env python3
"""deploy.py STANDIN_FOLDER BARE - deploy/kubernetes on a real cluster, from the
image of deploy/image: it comes up without privileges, looks at its cluster,
keeps its state, answers its probes, and goes without a trace.
"""
import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from image import archive  # noqa: E402
from node import PAUSE, Node  # noqa: E402
from shipped import IMAGE, NAMESPACE, Kubectl, overlay  # noqa: E402
from space import apart  # noqa: E402
from weirtest import until  # noqa: E402

STANDIN, BARE = (os.path.abspath(a) for a in sys.argv[1:3])
POD = "weir-0"
STATE = "/var/lib/weir-state"          # of the node
LIMIT = 64 * 10**6                     # of the image's archive
DEFAULT = {"kind": "Pod", "apiVersion": "v1"}


def image(tap, folder):
    """The archive that deploy/image makes, twice: it is the same."""
    found = []
    for name in "one.tar", "two.tar":
        path = os.path.join(folder, name)
        r = subprocess.run(
            [os.path.join(ROOT, "deploy", "image"), "--build", weirtest.BUILD,
             "--name", f"{IMAGE}:1", path], capture_output=True, text=True,
            check=False)
        if r.returncode:
            raise RuntimeError(f"deploy/image: {r.stdout}{r.stderr}")
        with open(path, "rb") as f:
            found.append(hashlib.sha256(f.read()).hexdigest())
    tap.equal(found[0], found[1], "the image is the same when made again")
    tap.ok(os.path.getsize(path) < LIMIT, f"it is small: {r.stdout.strip()}")
    return path


def room(cluster, node):
    """A volume on that node, for the claim of the state folder; how the test
    comes to it.
    """
    os.mkdir(os.path.join(node.path("lib"), os.path.basename(STATE)))
    node.space.run("mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "state",
                   STATE)
    cluster.need("POST", "/api/v1/persistentvolumes", {
        "kind": "PersistentVolume", "apiVersion": "v1",
        "metadata": {"name": "state"},
        "spec": {"capacity": {"storage": "10Gi"},
                 "accessModes": ["ReadWriteOnce"],
                 "persistentVolumeReclaimPolicy": "Retain",
                 "local": {"path": STATE},
                 "nodeAffinity": {"required": {"nodeSelectorTerms": [{
                     "matchExpressions": [{
                         "key": "kubernetes.io/hostname", "operator": "In",
                         "values": [node.name]}]}]}}}})
    return f"/proc/{node.space.first.pid}/root{STATE}"


class Deployed:
    """What runs, as an operator sees it."""

    def __init__(self, cluster, kubectl):
        self.cluster, self.kubectl = cluster, kubectl

    def pod(self, name=POD):
        status, text = self.cluster.ask(
            "GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}")
        return json.loads(text) if status == 200 else None

    def is_ready(self, name=POD):
        p = self.pod(name)
        return p and not p["metadata"].get("deletionTimestamp") and any(
            c["type"] == "Ready" and c["status"] == "True"
            for c in p["status"].get("conditions", [])) and p

    def up(self, name=POD):
        try:
            return until(lambda: self.is_ready(name), f"{name} to be ready")
        except TimeoutError as e:
            r = self.kubectl.run("-n", NAMESPACE, "describe", "pod", name)
            log = self.kubectl.run("-n", NAMESPACE, "logs", name)
            raise TimeoutError(f"{e}\n{r.stdout[-3000:]}\n"
                               f"{log.stdout[-2000:]}") from e

    def restarts(self):
        return self.pod()["status"]["containerStatuses"][0]["restartCount"]

    def weir(self, *args):
        """`weir`, inside of the pod."""
        return self.kubectl.run("-n", NAMESPACE, "exec", POD, "--", "weir",
                                *args)

    def here(self):
        """The pool of its own cluster."""
        r = self.weir("pool", "show", "here", "-o", "json")
        return json.loads(r.stdout) if r.returncode == 0 else {"state": r}


def test_apply(tap, kubectl, at):
    spaces = os.path.join(at, "namespaces.json")
    with open(spaces, "w", encoding="ascii") as f:
        json.dump({"kind": "List", "apiVersion": "v1", "items": [
            o for o in kubectl.objects(at) if o["kind"] == "Namespace"]}, f)
    kubectl.need("apply", "-f", spaces)
    r = kubectl.run("apply", "-k", at, "--dry-run=server")
    tap.ok(r.returncode == 0, "the server takes the manifests on trial",
           r.stderr)
    r = kubectl.run("apply", "-k", at)
    tap.ok(r.returncode == 0 and "Warning" not in r.stderr,
           "`kubectl apply -k` takes them, and nobody warns", r.stderr)


def status_of(node, program):
    """What the kernel says of the one process of that program that is PID 1 in
    its container, on that node.
    """
    def read(pid, name):
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as f:
            return f.read()
    for pid in (e for e in os.listdir("/proc") if e.isdigit()):
        try:
            if node.cgroup not in read(pid, "cgroup") or \
                    read(pid, "cmdline").split("\0")[0] != program:
                continue
            found = dict(line.split(":\t", 1)
                         for line in read(pid, "status").splitlines())
        except OSError:
            continue
        if found["NSpid"].endswith("\t1"):
            return found
    return {}


def test_unprivileged(tap, node, program):
    s = status_of(node, program)
    tap.equal({k: s.get(k) for k in ("Uid", "CapEff", "CapBnd", "Seccomp",
                                     "NoNewPrivs")},
              {"Uid": "\t".join(["65532"] * 4), "CapEff": "0" * 16,
               "CapBnd": "0" * 16, "Seccomp": "2", "NoNewPrivs": "1"},
              f"{program} runs as nobody in particular")


def test_up(tap, d, node):
    d.up()
    tap.equal(d.restarts(), 0, "it comes up at once")
    test_unprivileged(tap, node, "/usr/bin/weir")
    r = d.weir("pool", "ls")
    tap.ok(r.returncode == 0 and "local" not in r.stdout,
           "its own machine is no pool", r.stdout, r.stderr)
    r = d.weir("pool", "add", "here", "--engine", "kubernetes", "--observe")
    tap.equal(r.returncode, 0, "its cluster is added by the pod's own account")
    until(lambda: d.here()["state"] == "ready", "it to be reached")


def test_looks(tap, d, gpus):
    p = until(lambda: (p := d.here())["devices"]["total"] == gpus and p,
              "the devices")
    tap.ok(p["pods"] >= 1, f"it sees {gpus} devices and {p['pods']} pods")
    events = json.loads(d.kubectl.need("-n", NAMESPACE, "get", "events", "-o",
                                       "json"))["items"]
    tap.none([e["message"] for e in events if e["reason"] == "Unhealthy" and
              "Startup" not in e["message"]],
             "no probe has failed since it was up")


def test_runs(tap, d):
    """A task in a pod of its own, beside a pool that is only looked at."""
    r = d.weir("pool", "add", "tasks", "--engine", "kubernetes",
               "--namespace", "weir-tasks", "--conf", f"image={IMAGE}:1")
    tap.equal((r.returncode, r.stderr), (0, ""), "a pool for tasks is added")
    r = d.weir("run", "--cpus", "0.1", "--memory", "64Mi", "--", "/usr/bin/weir",
               "--version")
    tap.ok(r.returncode == 0 and "weir 0." in r.stdout,
           "a task runs in the cluster, and its output comes home",
           r.stdout, r.stderr)


def test_stays(tap, d):
    """Another pod on the same state."""
    old = d.pod()["metadata"]["uid"]
    d.kubectl.need("-n", NAMESPACE, "delete", "pod", POD)
    until(lambda: (p := d.pod()) and p["metadata"]["uid"] != old, "another")
    d.up()
    tap.ok("here" in d.weir("pool", "ls").stdout,
           "the next pod has the state of the last one")


def test_probes(tap, d, node, at):
    """One that hangs is begun anew."""
    tap.equal(sorted(os.listdir(at)), ["state"], "its state is in the volume")
    tap.equal(oct(os.stat(os.path.join(at, "state")).st_mode & 0o777),
              "0o700", "and shut to others")
    old = d.restarts()
    tap.equal((d.weir("ready").stdout, d.weir("ready", "--live").stdout),
              ("ok\n", "ok\n"), "what the probes ask is answered")
    pid = int(status_of(node, "/usr/bin/weir")["Pid"])
    os.kill(pid, signal.SIGSTOP)
    until(lambda: d.restarts() > old, "a new one")
    d.up()
    tap.ok("here" in d.weir("pool", "ls").stdout,
           "one that hangs is begun anew, and has its state")


def test_api(tap, d, kubectl, folder):
    """With the component: the API by TLS, for who has a token."""
    pki, at = d.cluster.pki, overlay(folder, ["base"], ["api"], HURRIED[:1])
    addresses = ",".join(f"IP:{d.pod()['status']['podIP'].rpartition('.')[0]}"
                         f".{k}" for k in range(1, 255))
    crt, key = pki.sign("api", "/CN=weir-api", "serverAuth", addresses)
    kubectl.need("-n", NAMESPACE, "create", "secret", "tls", "weir-api",
                 f"--cert={crt}", f"--key={key}")
    kubectl.need("apply", "-k", at)

    def listens():
        p = d.is_ready()
        return p and any(c.get("name") == "api" for c in
                         p["spec"]["containers"][0]["ports"])
    until(listens, "the pod with its API")
    token = json.loads(d.weir("token", "create", "ops", "--role", "admin",
                              "-o", "json").stdout)["token"]

    def from_outside(*args, token=token):
        return subprocess.run(
            [weirtest.WEIR, *args], capture_output=True, text=True,
            check=False, env={"WEIR_TOKEN": token, "WEIR_CA": pki.ca,
                              "HOME": "/", "WEIR_SERVER":
                              f"https://{d.pod()['status']['podIP']}:8443"})
    r = from_outside("pool", "ls")
    tap.ok(r.returncode == 0 and "here" in r.stdout,
           "the API answers who has a token", r)
    tap.equal(from_outside("pool", "ls", token="wrong").returncode, 5,
              "and nobody else")
    return from_outside


def test_full(tap, d, at, from_outside):
    """A disk that is full: not ready, and not begun anew for that."""
    ballast, old = os.path.join(at, "ballast"), d.restarts()
    with contextlib.suppress(OSError), open(ballast, "wb", 0) as f:
        while True:
            f.write(bytes(65536))
    document = os.path.join(os.path.dirname(d.kubectl.conf), "pad.json")
    with open(document, "w", encoding="ascii") as f:
        json.dump({"weir": 1, "kind": "job", "name": "pad", "run": "true",
                   "env": {"PAD": "x" * 30000}}, f)
    until(lambda: from_outside("run", "--detach", document).returncode == 7,
          "a refusal")
    until(lambda: not d.is_ready(), "the pod not to be ready")
    kubelet_looks = 8                  # the liveness probe fails in 6 s
    with contextlib.suppress(TimeoutError):
        until(lambda: d.restarts() > old, "", kubelet_looks)
    tap.equal((bool(d.is_ready()), d.restarts()), (False, old),
              "with a full disk it is not ready, and lives")
    os.unlink(ballast)
    d.up()
    tap.equal(d.restarts(), old, "with room again it is ready by itself")


def test_gpud(tap, d, node, gpus):
    """What weir-gpud says of the devices of its node."""
    names = json.loads(d.kubectl.need(
        "-n", NAMESPACE, "get", "pods", "-l",
        "app.kubernetes.io/name=weir-gpud", "-o", "json"))["items"]
    tap.equal(len(names), 1, "weir-gpud is on the node with devices")
    name = names[0]["metadata"]["name"]
    d.up(name)
    test_unprivileged(tap, node, "/usr/bin/weir-gpud")
    said = json.loads(d.kubectl.need("-n", NAMESPACE, "exec", name, "--",
                                     "weir-gpud", "--once"))
    tap.equal([x["state"] for x in said["inventory"]["devices"]],
              ["ready"] * gpus, "it sees what the runtime lets in")


def scheduler_of(cluster, namespace, name, **spec):
    meta = {"name": name}
    owner = spec.pop("owner", None)
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "apps/v1", "kind": owner,
                                    "name": "o", "uid": "1"}]
    return cluster.need(
        "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All",
        DEFAULT | {"metadata": meta, "spec": spec | {
            "containers": [{"name": "c", "image": PAUSE}]}})["spec"][
                "schedulerName"]


def test_schedule(tap, cluster, kubectl, folder):
    """Who places pods; tried without making any."""
    at = overlay(folder, ["schedule"])
    kubectl.need("apply", "-k", at)
    for name, labels in ("theirs", {}), ("ours", {"weir.dev/schedule": "yes"}):
        cluster.need("POST", "/api/v1/namespaces", {
            "metadata": {"name": name, "labels": labels}})
        until(lambda name=name: cluster.ask(
            "GET", f"/api/v1/namespaces/{name}/serviceaccounts/default")[0] ==
            200, f"the account of {name}")
    until(lambda: scheduler_of(cluster, "ours", "p") == "weir", "the policy")
    tap.equal([scheduler_of(cluster, "theirs", "p"),
               scheduler_of(cluster, "ours", "p", schedulerName="other"),
               scheduler_of(cluster, "ours", "p", owner="DaemonSet"),
               scheduler_of(cluster, "ours", "p", owner="ReplicaSet"),
               scheduler_of(cluster, "ours", "p", nodeName="n")],
              ["default-scheduler", "other", "default-scheduler", "weir",
               "default-scheduler"],
              "the policy is for pods of a namespace with the label alone")
    kubectl.need("delete", "-k", at)


def test_removed(tap, cluster, kubectl, at):
    kubectl.need("delete", "-k", at, "--timeout=100s")
    cluster.need("DELETE", "/api/v1/persistentvolumes/state")
    kinds = ("clusterroles,clusterrolebindings,persistentvolumes,"
             "mutatingadmissionpolicies,mutatingadmissionpolicybindings")
    left = json.loads(kubectl.need("get", kinds, "-l",
                                   "app.kubernetes.io/part-of=weir", "-o",
                                   "json"))["items"]
    tap.none([f"{o['kind']} {o['metadata']['name']}" for o in left],
             "removed, nothing is left in the cluster")
    until(lambda: cluster.ask("GET", f"/api/v1/namespaces/{NAMESPACE}")[0] ==
          404, "the namespace to go")
    tap.ok(True, "nor its namespace")


def container(where, value, what="replace"):
    return {"op": what, "value": value,
            "path": f"/spec/template/spec/containers/0/{where}"}


# Probes that a test can wait for, and devices by the cluster's plug-in in place
# of NVIDIA's runtime.
HURRIED = [({"kind": "StatefulSet", "name": "weir"},
            [container("startupProbe/periodSeconds", 1),
             container("readinessProbe/periodSeconds", 1),
             # There are no names here, and nobody who passes on for a Service.
             container("env/-", {"name": "POD_IP", "valueFrom": {
                 "fieldRef": {"fieldPath": "status.podIP"}}}, "add"),
             container("args/3", "--runners-url=tls://$(POD_IP):8444"),
             container("livenessProbe/periodSeconds", 2),
             container("livenessProbe/failureThreshold", 3),
             container("livenessProbe/timeoutSeconds", 3),
             container("livenessProbe/terminationGracePeriodSeconds", 1,
                       "add")]),
           ({"kind": "DaemonSet", "name": "weir-gpud"},
            [container("resources/limits/nvidia.com~1gpu", "2", "add")])]


def run(tap):
    apart()
    with tempfile.TemporaryDirectory(prefix="weir-deploy.") as folder:
        bare = os.path.join(folder, "bare.tar")
        archive(bare, PAUSE, {"/bare": BARE}, entrypoint=["/bare"])
        images = [bare, image(tap, folder)]
        with Cluster(programs(), control=True) as cluster:
            node = Node(cluster, images, 2, STANDIN)
            kubectl = Kubectl(cluster)
            state = room(cluster, node)
            node.start()
            node.ready()
            kubectl.need("label", "node", node.name,
                         "nvidia.com/gpu.present=true")
            at = overlay(folder, ["base", "tasks", "gpud"], patches=HURRIED)
            d = Deployed(cluster, kubectl)
            test_apply(tap, kubectl, at)
            test_up(tap, d, node)
            test_looks(tap, d, 2)
            test_runs(tap, d)
            test_stays(tap, d)
            test_probes(tap, d, node, state)
            test_gpud(tap, d, node, 2)
            outside = test_api(tap, d, kubectl, folder)
            test_full(tap, d, state, outside)
            test_schedule(tap, cluster, kubectl, folder)
            test_removed(tap, cluster, kubectl, at)


if __name__ == "__main__":
    weirtest.main(run)

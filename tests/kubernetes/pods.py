#!/usr/bin/env python3
"""pods.py STANDIN_FOLDER BARE [TEST...] - work on real clusters: the same
pipeline on this machine and in pods, its logs, what is left of it, and why
things end.  With names of tests those alone.
"""
import json
import os
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Cluster, programs  # noqa: E402
from image import archive, busybox, needed  # noqa: E402
from node import GATE, PAUSE, Node, hierarchies  # noqa: E402
from space import apart, until  # noqa: E402
from weirtest import BUILD, Weir  # noqa: E402

STANDIN, BARE = (os.path.abspath(a) for a in sys.argv[1:3])
CHOSEN = sys.argv[3:]
TOOLS, RUNNER = "weir.test/tools:1", "weir.test/runner:1"
PODS = "/api/v1/namespaces/default/pods"
SECRETS = "/api/v1/namespaces/default/secrets"
OURS = "?labelSelector=app.kubernetes.io/managed-by%3Dweir"
PORT = 8444

MEET = """
a=${WEIR_RENDEZVOUS%:*} p=${WEIR_RENDEZVOUS##*:}
echo rank $WEIR_RANK of $WEIR_WORLD_SIZE
if [ $WEIR_RANK = 0 ]; then echo met | busybox nc -l -p $p
else until sleep 2 | busybox nc $a $p 2> /dev/null; do sleep 0.2; done; fi
"""
PIPELINE = {
    "weir": 1, "kind": "pipeline", "name": "all",
    "defaults": {"cpus": 0.1, "memory": "48Mi"},
    "tasks": {
        "prepare": {"run": "echo prepared"},
        "left": {"needs": "prepare", "gpus": 1,
                 "run": "echo left; echo $CUDA_VISIBLE_DEVICES | wc -w"},
        "right": {"needs": "prepare", "gpus": 1, "run": "echo right"},
        "gang": {"needs": ["left", "right"], "gpus": 1, "ranks": 2,
                 "run": MEET},
        "flaky": {"needs": "gang", "run":
                  "echo try $WEIR_ATTEMPT; [ $WEIR_ATTEMPT -ge 2 ] || exit 3",
                  "retries": {"count": 2, "backoff": "100ms"}},
        "report": {"needs": "flaky", "run": "echo done"}}}
PRINTED = {"prepare": ["prepared"], "left": ["left", "1"],
           "right": ["right"],
           "gang": ["rank 0 of 2", "rank 1 of 2", "met"],
           "flaky": ["try 2"], "report": ["done"]}


def images(folder):
    """One that holds a node's pods, ours with the runner alone, and a task's
    without it.
    """
    bare, runner, tools = (os.path.join(folder, n) for n in
                           ("bare.tar", "runner.tar", "tools.tar"))
    archive(bare, PAUSE, {"/bare": BARE}, entrypoint=["/bare"])
    mine = os.path.join(BUILD, "weir-runner")
    files = {"/usr/bin/weir-runner": mine}
    files |= {lib: os.path.realpath(lib) for lib in needs(mine)}
    archive(runner, RUNNER, files)
    files, links = busybox()
    files |= {lib: os.path.realpath(lib) for lib in needs(mine)}
    archive(tools, TOOLS, files, links)
    return [bare, runner, tools]


def needs(program):
    """The static program needs none; one of a sanitizer does."""
    try:
        return needed(program)
    except Exception:                  # ldd: not a dynamic executable
        return []


class Lab:
    """A cluster that is a pool."""

    def __init__(self, name, cluster):
        self.name, self.cluster = name, cluster

    def join(self, weir, **conf):
        words = {"image": RUNNER, "task_image": TOOLS} | conf
        weir.cli("pool", "add", self.name, "--engine", "kubernetes",
                 "--kubeconfig",
                 self.kubeconfig(),
                 *[x for k, v in words.items()
                   for x in ("--conf", f"{k}={v}")], check=True)
        self.up(weir)

    def kubeconfig(self):
        return self.cluster.kubeconfig({"token": "good-token"})

    def up(self, weir):
        count = len(self.cluster.nodes)

        def there():
            p = weir.client.need("GET", f"/v1/pools/{self.name}")
            return len([n for n in p["nodes"] if n["up"] and
                        not n.get("shut")]) == count
        until(there, f"the nodes of {self.name} to be up")

    def pods(self):
        return self.cluster.need("GET", PODS + OURS)["items"]

    def secrets(self):
        return self.cluster.need("GET", SECRETS + OURS)["items"]

    def of(self, wid):
        return [p for p in self.pods() if
                p["metadata"]["labels"]["weir.dev/workload"] == wid]

    def running(self, wid, count=1):
        """Its pods, once that many run that are not told to go."""
        def so():
            found = [p for p in self.of(wid)
                     if p["status"].get("phase") == "Running" and
                     not p["metadata"].get("deletionTimestamp")]
            return found if len(found) == count else None
        return until(so, f"{count} pods of {wid} that run")


def submit(weir, doc):
    r = weir.client.submit(doc)
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def job(weir, run, **more):
    return submit(weir, {"weir": 1, "kind": "job", "name": "j", "cpus": 0.1,
                         "memory": "48Mi", "run": run, **more})


def only(weir, labs, *names):
    """Nothing new starts but in these pools."""
    for name in ["local", *[lab.name for lab in labs]]:
        word = "undrain" if name in names else "drain"
        weir.cli("pool", word, name)


def logs(weir, wid, task, ranks=1):
    return [line for rank in range(ranks) for line in weir.cli(
        "logs", f"{wid}/{task}", "--rank", str(rank),
        check=True).stdout.splitlines()]


def result(weir, wid):
    """What does not depend on where it ran."""
    w = weir.client.wait(wid)
    return {"outcome": w["outcome"], "tasks": [
        {k: t.get(k) for k in ("task", "state", "outcome", "status", "cause")}
        | {"attempts": t.get("attempt", t.get("attempts"))}
        for t in weir.client.tasks(wid)]}


def clean(tap, labs, text):
    """Of pods, Secrets and what is on nodes."""
    def left():
        return [x["metadata"]["name"] for lab in labs
                for x in lab.pods() + lab.secrets()]
    try:
        until(lambda: not left(), "nothing to be left")
    except TimeoutError:
        pass
    tap.equal(left(), [], f"{text}: no pod and no Secret is left")


def cgroups(labs):
    """Groups of pods on the nodes that still have processes."""
    found = []
    for at in hierarchies():
        for node in (n for lab in labs for n in lab.cluster.nodes):
            for path, _, files in os.walk(os.path.join(at, node.cgroup)):
                if "/pod" in path and "cgroup.procs" in files:
                    found += weirtest.read_text(
                        os.path.join(path, "cgroup.procs")).split()
    return found


def test_pipeline(tap, weir, labs, _):
    """The same document everywhere: the same result, states and logs."""
    want = None
    for names in [["local"], *[[lab.name] for lab in labs],
                  ["local", *[lab.name for lab in labs]]]:
        only(weir, labs, *names)
        start = time.monotonic()
        wid = submit(weir, PIPELINE)
        got = result(weir, wid)
        took = time.monotonic() - start
        want = want or got
        print(f"# ends: {ends(weir, wid)}", flush=True)
        tap.equal(got, want, f"on {'+'.join(names)}: the same, {took:.1f} s")
        tap.equal(got["outcome"], "succeeded", f"on {'+'.join(names)}: well")
        clean(tap, labs, f"on {'+'.join(names)}")
        for task, lines in PRINTED.items():
            have = logs(weir, wid, task, 2 if task == "gang" else 1)
            tap.equal(sorted(have), sorted(lines),
                      f"the log of {task}, after the pod is gone")


def test_abort(tap, weir, labs, lab):
    """One stage, then the workload: nothing is left there."""
    only(weir, labs, lab.name)
    wid = submit(weir, {
        "weir": 1, "kind": "pipeline", "name": "long",
        "defaults": {"cpus": 0.1, "memory": "48Mi", "run": "sleep 3600"},
        "tasks": {"one": {}, "two": {"gpus": 1}}})
    lab.running(wid, 2)
    weir.cli("abort", f"{wid}/one", check=True)
    until(lambda: len(lab.of(wid)) == 1, "one pod to be gone")
    tap.equal([t["state"] for t in weir.client.tasks(wid)],
              ["ended", "running"], "one stage is aborted, the other runs")
    weir.cli("abort", wid, check=True)
    tap.equal(weir.client.wait(wid)["outcome"], "aborted",
              "then the workload")
    clean(tap, labs, "aborted")
    until(lambda: not cgroups(labs), "processes of pods to be gone")
    tap.equal(cgroups(labs), [], "no process and no cgroup of it is left")


def ends(weir, wid):
    """(cause, status) of each attempt that ended."""
    return [(e.get("cause", "none"), e.get("status", 0))
            for e in weir.client.events(type="lease.ended")
            if e["workload"] == wid]


def first_end(weir, wid, what):
    return until(lambda: ends(weir, wid), what)[0]


def test_causes(tap, weir, labs, lab):
    """Each end by its own cause."""
    only(weir, labs, lab.name)
    wid = job(weir, "exit 7")
    weir.client.wait(wid)
    tap.equal(ends(weir, wid), [("failed", 7)], "an exit status")
    wid = job(weir, "x=x; while :; do x=$x$x; done")
    weir.client.wait(wid)
    tap.equal(first_end(weir, wid, "an end")[0], "memory", "past its memory")
    wid = job(weir, "true", image="localhost:1/no-such:1")
    weir.client.wait(wid)
    tap.equal(ends(weir, wid)[0][0], "image", "an image that is not there")
    wid = job(weir, "sleep 3600")
    name = lab.running(wid)[0]["metadata"]["name"]
    lab.cluster.need("DELETE", f"{PODS}/{name}")
    tap.equal(first_end(weir, wid, "an end")[0], "deleted",
              "a pod that somebody deleted")
    name = lab.running(wid)[0]["metadata"]["name"]
    tap.ok(True, "which is tried again")
    lab.cluster.need("POST", f"{PODS}/{name}/eviction", {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"}})
    until(lambda: len(ends(weir, wid)) == 2, "another end")
    tap.ok(ends(weir, wid)[1][0] in ("evicted", "deleted"),
           f"a pod that was evicted: {ends(weir, wid)[1]}")
    lab.running(wid)
    weir.cli("abort", wid, check=True)
    weir.client.wait(wid)
    clean(tap, labs, "after the causes")


def test_away(tap, weir, labs, lab):
    """The API server is away while tasks run; then the control plane."""
    only(weir, labs, lab.name)
    wid = job(weir, "sleep 20; echo slept")
    lab.running(wid)
    lab.cluster.api.end()
    late = job(weir, "echo late")
    start = time.monotonic()
    w = weir.client.wait(wid)
    tap.equal((w["outcome"], logs(weir, wid, "j")), ("succeeded", ["slept"]),
              "it ends well while the API server is away")
    time.sleep(max(0, 60 - (time.monotonic() - start)))
    lab.cluster.start_api()
    tap.equal(weir.client.wait(late)["outcome"], "succeeded",
              "what was submitted meanwhile runs when it is back")
    clean(tap, labs, "after the API server was away")


def test_user(tap, weir, labs, lab):
    """Somebody's task runs as that user, and cannot have the token."""
    only(weir, labs, lab.name)
    wid = job(weir, "id -u; id -g; ls /weir/home | wc -l; grep -c . /weir/"
              "home/token; cat /proc/1/environ; grep ^CapEff /proc/self/status")
    weir.client.wait(wid)
    have = logs(weir, wid, "j")
    tap.ok(have[:3] == ["0", "0", "0"] and
           have[-1].split()[1] == "0" * 16,
           "root without a capability, and no token", str(have))
    weir.cli("tenant", "set", "default", "--add-member", "uid:4711",
             check=True)
    other = weirtest.Client(weir.socket, uid=4711)
    r = other.submit({"weir": 1, "kind": "job", "name": "j", "cpus": 0.1,
                      "memory": "48Mi", "run": "id -u; id -g; pwd"})
    wid = r.json.get("id")
    if tap.ok(wid, "another user's job", str(r)):
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded", "runs")
        tap.equal(logs(weir, wid, "j")[:2], ["4711", "4711"], "as that user")


def foreign(name, on, gpus):
    want = {"cpu": "10m", "nvidia.com/gpu": str(gpus)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name},
            "spec": {"nodeName": on, "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "c", "image": TOOLS,
                                     "command": ["sleep", "3600"],
                                     "resources": {"limits": want}}]}}


def test_taken(tap, weir, labs, lab):
    """Pods of others come first: ours is turned away, and waits."""
    only(weir, labs, lab.name)
    for n in lab.cluster.nodes:
        lab.cluster.need("POST", PODS, foreign(f"f-{n.name}", n.name, n.gpus))
    wid = job(weir, "echo mine", gpus=1)
    tap.equal(first_end(weir, wid, "an end")[0], "taken",
              "a place that a foreign pod took")
    until(lambda: weir.client.tasks(wid)[0]["state"] == "waiting" and
          "device" in weir.cli("why", wid).stdout, "it to wait")
    tap.ok(True, weir.cli("why", wid).stdout.strip().splitlines()[0])
    for n in lab.cluster.nodes:
        lab.cluster.need("DELETE", f"{PODS}/f-{n.name}")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
              "and has it when they are gone")


def test_node(tap, weir, labs, lab):
    """A node without power."""
    only(weir, labs, lab.name)
    wid = job(weir, "echo $WEIR_ATTEMPT; [ $WEIR_ATTEMPT -ge 2 ] || "
              "sleep 3600")
    on = lab.running(wid)[0]["spec"]["nodeName"]
    next(n for n in lab.cluster.nodes if n.name == on).fail()
    start = time.monotonic()
    tap.equal(until(lambda: ends(weir, wid), "an end", 300)[0][0], "node",
              f"is lost after {time.monotonic() - start:.0f} s")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
              "its task runs on another one")
    clean(tap, labs, "of a lost node")


def test_killed(tap, weir, labs, lab):
    only(weir, labs, lab.name)
    wids = [job(weir, f"sleep {k}; echo {k}") for k in (1, 5, 15)]
    lab.running(wids[2])
    for _ in range(3):
        weir.kill()
        weir.start()
        time.sleep(1)
    tap.equal([weir.client.wait(w)["outcome"] for w in wids],
              ["succeeded"] * 3, "killed with -9 three times, all end well")
    tap.equal([ends(weir, w) for w in wids], [[("none", 0)]] * 3,
              "each has one end, in its first attempt")
    tap.equal([logs(weir, w, "j") for w in wids], [["1"], ["5"], ["15"]],
              "and ran once")
    clean(tap, labs, "after the kills")


TESTS = (test_pipeline, test_abort, test_causes, test_user, test_taken,
         test_away, test_killed, test_node)


def grow(cluster, archives, count):
    for _ in range(count):
        Node(cluster, archives, 2, STANDIN).start()
    for n in cluster.nodes:
        n.ready()


def run(tap):
    apart()
    folder = tempfile.mkdtemp(prefix="weir-pods.")
    try:
        archives = images(folder)
        with Cluster(programs(), control=True) as one, \
                Cluster(programs(), control=True) as two, \
                Weir(devices="sim:4xH200-80GB", args=[
                    "--runners", f"0.0.0.0:{PORT}",
                    "--runners-url", f"tls://{GATE}:{PORT}"]) as weir:
            grow(one, archives, 2)
            grow(two, archives, 1)
            weir.start()
            labs = [Lab("lab", one), Lab("annex", two)]
            for lab in labs:
                lab.join(weir)
            tap.ok(True, "two clusters are pools")
            for test in TESTS:
                if not CHOSEN or test.__name__ in CHOSEN:
                    test(tap, weir, labs, labs[0])
            tap.none(weir.faults(), "no fault")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    weirtest.main(run)

#!/usr/bin/env python3
"""Several pools beside each other: added, drained and removed while tasks run,
across kills of the control plane.
"""
import contextlib
import os
import random
import re
import threading
import time

import weirtest
from journal import Journal
from weirtest import Weir, until

NONE = "fake:1xA100-40GB"              # ends what it is given at once


def pools(weir):
    return {p["name"]: p
            for p in weir.client.need("GET", "/v1/pools")["items"]}


def add(weir, name, devices, want=201, **more):
    conf = {"devices": devices, **more.pop("conf", {})}
    return weir.client.need("PUT", f"/v1/pools/{name}",
                            {"engine": "fake", "conf": conf, **more},
                            want=want)


def up(weir, name, nodes=1):
    def there():
        p = pools(weir).get(name)
        return p and len([n for n in p["nodes"] if n["up"] and
                          not n.get("shut")]) == nodes
    until(there, f"{name} is up")


def job(weir, name, model, run="true"):
    r = weir.client.submit({"weir": 1, "kind": "job", "name": name,
                            "cpus": 0.01, "memory": "64Mi", "run": run,
                            "gpus": 1, "gpu": {"model": model}})
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def blocks(weir):
    """Of every lease that was planned: workload -> [block of each attempt]."""
    found = {}
    for e in weir.client.events(type="task.planned"):
        found.setdefault(e["workload"], []).append(e["grants"][0]["block"])
    return found


def whole(tap, weir, text):
    counts = {w["id"]: w["tasks"]["total"] for w in weir.client.workloads()}
    tap.none(Journal(weir.client.events()).problems(counts),
             f"{text}: the journal is whole")
    tap.equal(weir.faults(), [], f"{text}: no faults")


# ---- three beside each other ----

def meters(tap, weir):
    """What was counted stays, also of a pool that is gone, and adds up."""
    w = weir.client.need("GET", "/v1/waste")
    names = {p["pool"] for p in w["parts"]}
    kinds = ("used", "idle_nodemand", "idle_frag", "waste")
    total = sum(p[k] for p in w["parts"] for k in kinds)
    tap.ok({"local", "a", "b"} <= names, f"WR is counted by pool: {names}")
    tap.ok(abs(total - w["total_device_seconds"]) < 0.5,
           f"the parts make {total} of {w['total_device_seconds']}")
    used = sum(p["used"] for p in w["parts"])
    cost = weir.client.need("GET", "/v1/cost")["items"][0]["gpu_seconds"]
    tap.ok(0 < cost <= used + 0.5, f"cost {cost} is within what was used")
    text = weir.client.get("/metrics").body.decode()
    found = set(re.findall(r'pool="([^"]+)"', text))
    tap.ok({"local", "b"} <= found, f"metrics have them: {found}")


def beside(tap):
    with Weir(devices="sim:2xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        add(weir, "a", "fake:2xA100-40GB;slow=20")
        add(weir, "b", "fake:1xH200-141GB;slow=20", conf={"nodes": "2"},
            note="two nodes")
        up(weir, "a")
        up(weir, "b", 2)
        b = pools(weir)["b"]
        tap.equal((b["engine"], b["state"], b["note"], b["devices"]["total"],
                   sorted(n["block"] for n in b["nodes"])),
                  ("fake", "ready", "two nodes", 2, ["b/b-1", "b/b-2"]),
                  "a pool of two nodes")
        tap.ok(pools(weir)["local"]["own"], "and our own")
        mark = os.path.join(weir.folder, "mark")
        runs = [(job(weir, "h", "H100", f"sleep 0.2; echo $WEIR_TASK >>{mark}"),
                 "local") for _ in range(4)]
        runs += [(job(weir, "a", "A100"), "a") for _ in range(6)]
        runs += [(job(weir, "b", "H200"), "b/") for _ in range(6)]
        weir.settled()
        at = blocks(weir)
        tap.ok(all(len(at[w]) == 1 and at[w][0].startswith(where)
                   for w, where in runs), "each task ran once, where it could")
        tap.ok({at[w][0] for w, where in runs if where == "b/"} ==
               {"b/b-1", "b/b-2"}, "on both nodes")
        ends = [weir.client.tasks(w)[0] for w, _ in runs]
        tap.none([(t, weir.client.get(f"/v1/workloads/{t['workload']}/tasks/"
                                      f"{t['task']}/log").body)
                  for t in ends if t["outcome"] != "succeeded"],
                 "and ended well")
        with open(mark, encoding="utf-8") as f:
            tap.equal(len(f.readlines()), 4, "as processes, too")
        weir.client.need("DELETE", "/v1/pools/a", want=204)
        tap.ok("a" not in pools(weir), "one is removed")
        tap.ok(weir.client.tasks(runs[5][0])[0]["outcome"] == "succeeded",
               "what ran there is still known")
        meters(tap, weir)
        weir.kill()
        weir.start()
        up(weir, "b", 2)
        tap.ok("a" not in pools(weir), "nor is it there after a kill")
        meters(tap, weir)
        whole(tap, weir, "beside")


# ---- drain and remove ----

def leaving(tap):
    with Weir(devices="sim:1xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        add(weir, "a", "fake:2xA100-40GB;slow=600000")
        up(weir, "a")
        one = job(weir, "one", "A100")
        weir.client.wait(one, "running")
        r = weir.client.call("DELETE", "/v1/pools/a")
        tap.equal((r.status, r.json["detail"]),
                  (409, "pool 'a' has 1 lease: drain it, and remove it when "
                   "they have ended"), "with a lease it is not removed")
        for _ in range(2):
            p = weir.client.need("POST", "/v1/pools/a/drain")
            tap.ok(p["drained"], "drained, also the second time")
        two = job(weir, "two", "A100")
        until(lambda: "pool undrain" in weir.cli("why", two).stdout,
              "why it waits")
        tap.ok("in a pool that takes nothing new" in
               weir.cli("why", two).stdout, "why says that")
        add(weir, "c", "fake:1xA100-40GB")
        weir.client.wait(two)
        tap.equal(blocks(weir)[two], ["c"], "it starts in another")
        weir.kill()
        weir.start()
        up(weir, "c")
        tap.ok(pools(weir)["a"]["drained"], "a kill does not undrain it")
        weir.client.wait(one)          # a fake's task is lost with the kill
        tap.equal(weir.client.call("DELETE", "/v1/pools/a").status, 204,
                  "empty: removed")
        tap.equal(weir.client.call("DELETE", "/v1/pools/a").status, 404,
                  "once")
        weir.client.need("POST", "/v1/pools/local/drain")
        three = job(weir, "three", "H100")
        weir.kill()
        weir.start()
        weir.wait_devices()
        tap.ok(pools(weir)["local"]["drained"] and
               weir.client.tasks(three)[0]["state"] == "waiting",
               "our own is drained as well")
        weir.client.need("POST", "/v1/pools/local/undrain")
        weir.client.wait(three)
        whole(tap, weir, "leaving")


# ---- kills ----

def killed(tap, rounds=8):
    """Acknowledged is kept, whatever is killed when; what was not is either."""
    rng = random.Random(7)
    with Weir(devices="sim:2xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        mark = os.path.join(weir.folder, "mark")
        runs, sure, lost = [], {}, []
        for k in range(rounds):
            runs.append(job(weir, f"r{k}", "H100",
                            f"sleep 0.3; echo {k} >>{mark}"))
            name = f"p{k % 3}"
            if rng.random() < 0.3:     # in the midst of it
                sure.pop(name, None)
                cut_off(weir, name, rng)
            elif name in sure:
                weir.client.need("DELETE", f"/v1/pools/{name}", want=204)
                sure[name] = False
                weir.kill()
            else:
                r = weir.client.call("PUT", f"/v1/pools/{name}", {
                    "engine": "fake", "conf": {"devices": NONE}})
                sure[name] = r.status in (200, 201)
                weir.kill()
            weir.start()
            there = pools(weir)
            lost += [(k, n) for n, is_there in sure.items()
                     if (n in there) != is_there]
            sure = {n: s for n, s in sure.items() if s}
        tap.equal(lost, [], f"{rounds} kills: what was acknowledged is so")
        for n in sure:
            up(weir, n)
            w = job(weir, "in", "A100")
            weir.client.wait(w)
        weir.settled()
        with open(mark, encoding="utf-8") as f:
            tap.equal(sorted(int(x) for x in f), list(range(rounds)),
                      "what ran meanwhile ran once")
        whole(tap, weir, "killed")


def cut_off(weir, name, rng):
    """A request that is cut off by the kill that follows."""
    def ask():
        with contextlib.suppress(*weirtest.GONE):
            weir.client.call("PUT", f"/v1/pools/{name}", {
                "engine": "fake", "conf": {"devices": NONE}})
    t = threading.Thread(target=ask)
    t.start()
    time.sleep(rng.random() * 0.01)
    weir.kill()
    t.join()


# ---- what cannot be reached ----

def away(tap):
    with Weir(devices="sim:1xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        add(weir, "far", "fake:1xA100-40GB")
        up(weir, "far")
        add(weir, "far", "fake:1xA100-40GB;away=600000", want=200)
        until(lambda: pools(weir)["far"]["state"] == "unreachable",
              "it is away")
        line = [x for x in weir.cli("pool", "ls").stdout.splitlines()
                if x.startswith("far")][0]
        tap.ok(line.endswith("unreachable: it is told to be away"), line)
        tap.ok(pools(weir)["far"]["nodes"][0]["shut"],
               "its block takes nothing new")
        tap.ok('weir_pool_reachable{pool="far",engine="fake"} 0\n' in
               weir.client.get("/metrics").body.decode() and
               'weir_pool_reachable{pool="local",engine="local"} 1\n' in
               weir.client.get("/metrics").body.decode(),
               "metrics say which can be reached")
        tap.ok("unreachable: it is told to be away" in
               weir.cli("pool", "show", "far").stdout, "show says it, too")
        weir.kill()
        weir.start()
        w = job(weir, "here", "H100")
        weir.client.wait(w)
        tap.ok(True, "after a kill our own goes on without it")
        n = pools(weir)["far"]["nodes"][0]
        tap.ok(n["shut"], "whose block is shut")
        wait = job(weir, "there", "A100")
        until(lambda: "not known for now" in weir.cli("why", wait).stdout,
              "why it waits")
        add(weir, "far", "fake:1xA100-40GB", want=200)
        weir.client.wait(wait)
        tap.equal(blocks(weir)[wait], ["far"], "until it is back")
        whole(tap, weir, "away")


# ---- what makes no sense ----

def wrong(tap):
    with Weir(devices="sim:1xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        body = {"engine": "fake", "conf": {"devices": NONE}}

        def put(name, change=None, status=422):
            r = weir.client.call("PUT", f"/v1/pools/{name}",
                                 {**body, **(change or {})})
            tap.equal(r.status, status, f"{r.json.get('detail', '')}")
            return r.json.get("detail", "")
        tap.ok("engine:" in put("x", {"engine": "moon"}), "names the field")
        tap.ok("fake" in put("x", {"engine": "moon"}), "and what there is")
        put("x", {"engine": "local"})
        tap.ok("'device'" in put("x", {"conf": {"device": "1"}}),
               "names the key")
        put("x", {"conf": {"devices": 1}})
        put("x", {"conf": {"devices": "fake:many"}})
        put("x", {"conf": {"devices": NONE, "nodes": "0"}})
        put("x" * 32)
        put("-x")
        put("local", status=409)
        put("x", {"observe": "yes"}, 400)
        put("x", {"more": 1}, 400)
        tap.equal(set(pools(weir)), {"local"}, "nothing of that is there")
        put("x", status=201)
        put("x", status=200)
        tap.equal(len(weir.client.events(type="pool.set")), 1,
                  "the same again is no event")
        r = weir.client.call("DELETE", "/v1/pools/local")
        tap.equal(r.status, 409, r.json["detail"])
        for args, status, text in (
                (("pool", "add", "y"), 2, "--engine is needed"),
                (("pool", "add", "y", "--engine", "kubernetes",
                  "--kubeconfig", "f"), 2, "--observe"),
                (("pool", "add", "y", "--engine", "kubernetes", "--observe",
                  "--namespace", "a/../b"), 2, "namespace: 'a/../b'"),
                (("pool", "add", "y", "--engine", "moon"), 2,
                 "there is no 'moon'"),
                (("pool", "add", "y", "--engine", "fake", "--conf", "a"), 2,
                 "expected KEY=TEXT"),
                (("pool", "add", "y", "--engine", "fake", "--conf", "a=1",
                  "--conf", "a=2"), 2, "there twice"),
                (("pool", "remove", "y"), 4, "not found"),
                (("pool", "drain", "y"), 4, "not found"),
                (("pool", "undrain", "y"), 4, "not found")):
            r = weir.cli(*args)
            tap.ok(r.returncode == status and text in r.stderr and
                   r.stderr.count("\n") == 1, f"{r.returncode} "
               f"{r.stderr.strip()}")
        weir.cli("pool", "add", "y", "--engine", "fake", "--conf",
                 f"devices={NONE}", "--observe", "--note", "n", check=True)
        show = weir.cli("pool", "show", "y").stdout
        tap.ok("observed" in show and f"devices={NONE}" in show,
               "pool show says what was said")
        weir.stop()
        for name in ("a b", "", "x" * 64):
            weir.args = ["--pool", name]
            weir.start(wait=False)
            tap.ok(weir.proc.wait(60) != 0 and "cannot be the name of a pool"
                   in weir.tail(3), f"nor a name such as '{name}'")
        weir.args = ["--pool", "x"]
        weir.start(wait=False)
        tap.ok(weir.proc.wait(60) != 0 and
               "a pool 'x' was added; name this machine's otherwise" in
               weir.tail(), "our own cannot have the name of another")


def run(tap):
    beside(tap)
    leaving(tap)
    killed(tap)
    away(tap)
    wrong(tap)


if __name__ == "__main__":
    weirtest.main(run)

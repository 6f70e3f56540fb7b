#!/usr/bin/env python3
"""Leases that have a runner of their own: a pipeline, aborts, causes, logs, and
kills of the control plane, on an engine that lies on command.
"""
import collections
import os
import random
import time

import failures
import weirtest
from journal import Journal
from weirtest import Weir, until

LOST = {"lost", "evicted", "node", "deleted", "taken"}


def pool(weir, name="lab", lies="", nodes=2, devices="4xA100-40GB", want=201):
    conf = {"devices": f"fake:{devices}{lies}", "nodes": str(nodes)}
    weir.client.need("PUT", f"/v1/pools/{name}",
                     {"engine": "fake-apart", "conf": conf}, want=want)

    def there():
        items = weir.client.need("GET", "/v1/pools")["items"]
        p = next(p for p in items if p["name"] == name)
        return len([n for n in p["nodes"] if n["up"] and
                    not n.get("shut")]) == nodes
    until(there, f"{name} is up")


def task(name, run="true", **more):
    """With an image, so that it runs there and nowhere else."""
    return {"name": name, "run": run, "image": "lab/tools:1", "cpus": 0.1,
            "memory": "64Mi", **more}


def gpu(name, run="true", **more):
    return task(name, run, gpus=1, gpu={"model": "A100"}, **more)


def submit(weir, *tasks, name="p", **more):
    r = weir.client.submit({"weir": 1, "kind": "pipeline", "name": name,
                            "tasks": {t.pop("name"): t for t in tasks},
                            **more})
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def pipeline(weir, last=None):
    return submit(
        weir, task("fetch"), gpu("a", needs=["fetch"]),
        gpu("b", needs=["fetch"]),
        gpu("gang", needs=["a", "b"], ranks=2),
        gpu("flaky", "exit 3 once", needs=["gang"],
            retries={"count": 2, "backoff": "100ms"}),
        task("last", last or "true", needs=["flaky"]))


def abort(weir, wid, **body):
    weir.client.need("POST", f"/v1/workloads/{wid}/abort", body or None,
                     want=202)


def log(weir, wid, name, **args):
    r = weir.client.get(f"/v1/workloads/{wid}/tasks/{name}/log", **args)
    return r.body.decode()


def outcomes(weir, wid):
    return {t["task"]: t.get("outcome") for t in weir.client.tasks(wid)}


def whole(tap, weir, text):
    counts = {w["id"]: w["tasks"]["total"] for w in weir.client.workloads()}
    tap.none(Journal(weir.client.events()).problems(counts),
             f"{text}: the journal is whole")
    tap.equal(weir.faults(), [], f"{text}: no faults")


def only_there(tap, weir, text):
    """No task of these ran anywhere else."""
    places = {g["block"].split("/")[0] for e in
              weir.client.events(type="task.planned") for g in e["grants"]}
    tap.equal(places, {"lab"}, f"{text}: all of it ran there")


# ---- a pipeline ----

def staged(tap):
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";slow=30")
        wid = pipeline(weir)
        w = weir.client.wait(wid)
        tap.equal(w["outcome"], "succeeded", "a pipeline of six stages")
        tasks = {t["task"]: t for t in weir.client.tasks(wid)}
        tap.equal({n: t["attempt"] for n, t in tasks.items()},
                  {"fetch": 1, "a": 1, "b": 1, "gang": 1, "flaky": 2,
                   "last": 1}, "one of them was tried again")
        text = log(weir, wid, "fetch")
        tap.ok("ran: true\nrank 0 of 1, devices 0, meet nobody\n" in text,
               f"its log has what it printed: {text!r}")
        ranks = [log(weir, wid, "gang", rank=r) for r in (0, 1)]
        meets = {t.split("meet ")[1].split(":")[0] for t in ranks}
        tap.ok(len(meets) == 1 and meets.pop().startswith("127.1."),
               f"the gang meets where its first rank is: {ranks}")
        tap.ok("rank 1 of 2, devices 1" in ranks[1], "each rank has a log")
        tap.equal(len([e for e in weir.client.events(type="lease.claimed")]),
                  8, "each lease was claimed once")
        only_there(tap, weir, "pipeline")
        whole(tap, weir, "pipeline")


# ---- aborts ----

def aborted(tap):
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";slow=600000")
        one = submit(weir, gpu("one"), gpu("two"), task("never",
                                                        needs=["one"]))
        until(lambda: {t["state"] for t in weir.client.tasks(one)} >=
              {"running"} and len([t for t in weir.client.tasks(one)
                                   if t["state"] == "running"]) == 2,
              "both run")
        abort(weir, one, task="one")
        until(lambda: outcomes(weir, one)["one"] == "aborted",
              "one stage is aborted")
        tap.equal(weir.client.tasks(one)[1]["state"], "running",
                  "the other goes on")
        abort(weir, one)
        weir.client.wait(one)
        tap.equal(outcomes(weir, one), {"one": "aborted", "two": "aborted",
                                        "never": "skipped"},
                  "and then the whole")
        whole(tap, weir, "abort")


def never_came(tap):
    """What was never started ends at once, also with its runner away."""
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";never=1")
        one = submit(weir, gpu("gang", ranks=2), gpu("alone"))
        until(lambda: {t["state"] for t in weir.client.tasks(one)} ==
              {"starting"}, "they wait for their runners")
        abort(weir, one)
        w = weir.client.wait(one, seconds=20)
        tap.equal((w["outcome"], len(weir.client.events(
            type="lease.claimed"))), ("aborted", 0), "told to stop before "
            "they came: ended, and nothing ran")
        whole(tap, weir, "never came")


def torn(tap):
    """A gang one of whose runners never comes starts with none."""
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";never=2")
        one = submit(weir, gpu("gang", ranks=2))
        two = submit(weir, gpu("alone"))
        w = weir.client.wait(two)
        tap.equal(w["outcome"], "succeeded", "another is not held up")
        t = weir.client.tasks(one)[0]
        claims = weir.client.events(type="lease.claimed")
        tap.ok(t["state"] == "starting" and
               {e["workload"] for e in claims} == {two},
               "a gang with one runner here is not begun")
        abort(weir, one)
        weir.client.wait(one)
        whole(tap, weir, "torn")


# ---- causes ----

def causes(tap):
    with Weir(devices="none") as weir:
        weir.start()
        for lie in ("early", "late", "evicted", "node", "deleted", "taken"):
            pool(weir, lies=f";slow=10;{lie}=2", want=201 if lie == "early"
                 else 200)
            first = submit(weir, gpu("x"))
            weir.client.wait(first)
            wid = submit(weir, gpu("x"))
            w = weir.client.wait(wid)
            retries = weir.client.events(workload=wid, type="task.retrying")
            tap.equal((w["outcome"], [e["cause"] for e in retries],
                       weir.client.tasks(wid)[0]["tries"]),
                      ("succeeded",
                       ["lost" if lie in ("early", "late") else lie], 0),
                      f"{lie}: tried again, uncounted, under its own name")
            ends = weir.client.events(workload=wid, type="lease.ended")
            tap.ok(ends[0]["data"]["why"], f"with a reason: {ends[0]['data']}")
        whole(tap, weir, "causes")


def final(tap):
    """What is not tried again says why."""
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";refuse=1")
        one = submit(weir, gpu("x"))
        w = weir.client.wait(one)
        t = weir.client.tasks(one)[0]
        tap.equal((w["outcome"], t["cause"], t["reason"], t["attempt"]),
                  ("failed", "refused", "a quota has no room for it", 1),
                  "refused: it has failed, and says why")
        tap.ok("a quota has no room for it" in
               weir.cli("why", f"{one}/x").stdout, "so does why")
        tap.ok("a quota has no room for it" in
               weir.cli("show", f"{one}/x").stdout, "and show")
        pool(weir, lies=";image=1", want=200)
        two = submit(weir, gpu("x", retries=3))
        weir.client.wait(two)
        t = weir.client.tasks(two)[0]
        tap.equal((t["cause"], t["attempt"]), ("image", 1),
                  "an image that cannot be had is not tried again ...")
        three = submit(weir, gpu("x", retries={
            "count": 2, "backoff": "10ms", "on": ["image"]}))
        weir.client.wait(three)
        t = weir.client.tasks(three)[0]
        tap.equal((t["cause"], t["attempt"], t["tries"]), ("image", 3, 2),
                  "... unless it is asked for")
        r = weir.client.submit({"weir": 1, "kind": "job", "name": "x",
                                "run": "true", "retries": {
                                    "count": 1, "on": ["evicted"]}})
        tap.ok(r.status == 422 and "leave 'evicted' out" in r.body.decode(),
               f"evicted is always: {r.body[:200]}")
        whole(tap, weir, "final")


# ---- lies ----

def lied_to(tap):
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";slow=5;double=2;drop=3;echo=2;stay=2;lose=7")
        ids = [pipeline(weir, last="exit 0") for _ in range(6)]
        for wid in ids:
            tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                      "ends told twice, cut off, and runners that stay")
        text = log(weir, ids[0], "fetch")
        tap.equal(text.count("ran: "), 1, f"output told twice is once: {text}")
        until(lambda: "cannot be stopped" not in weir.tail(200), "no complaint")
        pool(weir, lies=";gap=1", want=200)
        wid = submit(weir, task("x"))
        weir.client.wait(wid)
        text = log(weir, wid, "x")
        tap.ok("ran: " not in text and "nobody" in text,
               f"a gap is left out: {text!r}")
        whole(tap, weir, "lies")


# ---- what a node can do ----

def able(tap):
    with Weir(devices="sim:1xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        wid = submit(weir, task("x"))
        until(lambda: "no node runs images" in
              weir.cli("why", f"{wid}/x").stdout, "never, and said at once")
        pool(weir)
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "until there is one that runs images")
        part = {"gpus": 0.5, "gpu": {"model": "A100"}}
        two = submit(weir, task("x", **part))
        until(lambda: "give whole devices only" in
              weir.cli("why", f"{two}/x").stdout, "no parts of a device")
        abort(weir, two)
        plain = {"name": "x", "run": "true", "cpus": 0.1, "memory": "64Mi"}
        three = submit(weir, {**plain, "gpus": 0.5})
        tap.equal(weir.client.wait(three)["outcome"], "succeeded",
                  "our own node gives parts")
        four = submit(weir, {**plain, "gpus": 1, "gpu": {"model": "A100"}})
        tap.equal(weir.client.wait(four)["outcome"], "succeeded",
                  "without an image it fits anywhere")
        whole(tap, weir, "able")


# ---- kills ----

def starts(weir):
    """Of every generation: how often it was claimed."""
    return collections.Counter((e["workload"], e.get("task", 0),
                                e.get("rank", 0), e["gen"])
                               for e in weir.client.events(
                                   type="lease.claimed"))


def killed(tap, rounds):
    """Runners of the fake die with the control plane: what was claimed is
    lost and tried again as another generation, what was not is made to come
    again; nothing is claimed twice.
    """
    rng = random.Random(11)
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";slow=600000")
        first = submit(weir, gpu("x"))
        until(lambda: weir.client.tasks(first)[0]["state"] == "running",
              "it to run")
        weir.kill()
        weir.start()
        until(lambda: [e for e in weir.client.events(type="task.retrying")
                       if e["cause"] == "lost"], "what ran is lost")
        pool(weir, lies=";slow=40;double=3", want=200)
        key = os.path.join(weir.state, "runners.key")
        with open(key, "rb") as f:
            before = f.read()
        tap.equal((len(before), os.stat(key).st_mode & 0o777), (32, 0o600),
                  "a key that is ours alone")
        ids = [first] + [pipeline(weir) for _ in range(3)]
        for _ in range(rounds):
            time.sleep(rng.random() * 0.4)
            weir.kill()
            weir.start()
            if rng.random() < 0.3:
                ids.append(pipeline(weir))
        bad = [(w, weir.client.wait(w)["outcome"]) for w in ids]
        tap.none([b for b in bad if b[1] != "succeeded"],
                 f"{rounds} kills: every pipeline ends well")
        tap.none([k for k, n in starts(weir).items() if n > 1],
                 "and no generation was claimed twice")
        ends = weir.client.events(type="lease.ended")
        lost = [e for e in ends if e.get("cause") in LOST]
        tap.ok(lost, f"{len(lost)} leases were lost with their runners")
        with open(key, "rb") as f:
            tap.ok(f.read() == before, "the key stays")
        whole(tap, weir, "kills")


def full(tap, times=6):
    """The disk is full now and then: the world is loaded again, and every
    runner settles with it.
    """
    rng = random.Random(5)
    with Weir(devices="none") as weir:
        mark = os.path.join(weir.folder, "full")
        failures.preload(weir, failures.FULL, WEIR_TEST_FULL=mark)
        weir.start()
        pool(weir, lies=";slow=40;evicted=9")
        ids = [pipeline(weir) for _ in range(3)]
        for _ in range(times):
            time.sleep(rng.random() * 0.3)
            failures.open_gate(mark)
            tap.equal(weir.client.submit(failures.QUICK).status, 507,
                      "the disk is full")
            os.unlink(mark)
            weir.wait_ready()
        ends = [weir.client.wait(w)["outcome"] for w in ids]
        tap.equal(ends, ["succeeded"] * 3, f"the disk was full {times} times")
        tap.none([k for k, n in starts(weir).items() if n > 1],
                 "and no generation was claimed twice")
        whole(tap, weir, "full")


def stopped_and_killed(tap):
    """Told to stop, and killed before the runner heard of it."""
    with Weir(devices="none") as weir:
        weir.start()
        pool(weir, lies=";slow=600000")
        wid = submit(weir, gpu("x"), gpu("gang", ranks=2))
        until(lambda: {t["state"] for t in weir.client.tasks(wid)} ==
              {"running"}, "all run")
        abort(weir, wid)
        weir.kill()
        weir.start()
        w = weir.client.wait(wid)
        tap.equal(w["outcome"], "aborted", "an abort and a kill")
        whole(tap, weir, "stopped and killed")


def run(tap):
    for part in (staged, aborted, never_came, torn, causes, final, lied_to,
                 able, full, stopped_and_killed):
        part(tap)
    killed(tap, int(os.environ.get("WEIR_TEST_KILLS", "8")))


if __name__ == "__main__":
    weirtest.main(run)

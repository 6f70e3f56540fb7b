#!/usr/bin/env python3
"""weir sim --from-live: what waits on a live control plane, and what would be
if there were more of it.  Asking changes nothing.
"""
import json
import os
import subprocess

import weirtest
from weirtest import Weir, until

# Half a minute is learned from one that ended; here they just wait.
JOB = {"weir": 1, "kind": "job", "cpus": 0.01, "memory": "1Mi"}


def sim(weir, changes, *more):
    path = os.path.join(weir.folder, "changes.yaml")
    with open(path, "w") as f:
        f.write(changes)
    return subprocess.run(
        [weirtest.WEIR, "sim", "--from-live", weir.client.socket, "--what-if", path,
         *more], capture_output=True, text=True, timeout=60, check=False)


def items(out):
    return {w["name"]: w for w in json.loads(out.stdout)["items"]}


def fill(weir):
    """Four devices: two jobs hold two each, two more wait, one for ever."""
    first = weir.client.submit(dict(JOB, name="short", run="true", gpus=2))
    until(lambda: weir.client.need(
        "GET", "/v1/workloads/" + first.json["id"])["state"] == "ended",
        "an end to learn from")
    for name, gpus in (("a", 2), ("b", 2), ("c", 2), ("d", 4), ("e", 8)):
        r = weir.client.submit(dict(JOB, name=name, run="sleep 600",
                                    gpus=gpus))
        if r.status != 201:
            raise RuntimeError(r)
    until(lambda: sum(w["state"] == "running" for w in weir.client.need(
        "GET", "/v1/workloads")["items"]) == 2, "two that run")


def answers(tap, weir):
    node = weir.client.need("GET", "/v1/pools")["items"][0]["nodes"][0]
    more = sim(weir, f"nodes: [{{like: {node['name']}, count: 1}}]\n", "-o",
               "json")
    tap.ok(more.returncode == 0, "a node more", more.stderr)
    got = items(more)
    tap.ok(set(got) == {"c", "d", "e"}, "those that wait are in it", got)
    tap.ok(got["c"]["then"]["start"] < got["c"]["now"]["start"],
           "the first in line would start earlier", got["c"])
    tap.ok(got["d"]["then"]["end"] < got["d"]["now"]["end"],
           "the next would end earlier", got["d"])
    tap.ok("start" not in got["e"]["now"] and "start" not in got["e"]["then"],
           "eight devices of one node never come", got["e"])
    same = items(sim(weir, "policy: {patience: 1h}\n", "-o", "json"))
    tap.ok(all(w["now"] == w["then"] for w in same.values()),
           "what does not matter changes nothing", same)
    text = sim(weir, f"nodes: [{{like: {node['name']}}}]\n")
    tap.ok(" earlier" in text.stdout and "never" in text.stdout,
           "a table for people", text.stdout)


def faults(tap, weir):
    for changes, words in (
            ("nodes: [{like: nowhere}]", "no node 'nowhere'"),
            ("nodez: []", "unknown key 'nodez'"),
            ("without: [nowhere]", "without[0]: no node 'nowhere'"),
            ("without: vm", "changes.yaml:1:10: without: expected a list"),
            ("tenants: [{name: nobody, quota: 1}]", "no tenant 'nobody'"),
            ("policy: {patience: soon}",
             "changes.yaml:1:20: policy.patience: expected a time"),
            ("a: [", "changes.yaml:")):
        out = sim(weir, changes + "\n")
        tap.ok(out.returncode == 3 and words in out.stderr,
               f"{changes}: refused", out.stderr)


def run(tap):
    with Weir() as weir:
        weir.start()
        weir.wait_devices()
        fill(weir)
        before = weir.client.need("GET", "/v1/events?limit=1000")["items"]
        answers(tap, weir)
        faults(tap, weir)
        after = weir.client.need("GET", "/v1/events?limit=1000")["items"]
        tap.ok(len(before) == len(after), "nothing has happened by asking",
               after[len(before):])


if __name__ == "__main__":
    weirtest.main(run)

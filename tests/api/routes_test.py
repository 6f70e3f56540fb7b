#!/usr/bin/env python3
"""Every route: what it gives, what it refuses, and to whom."""
import concurrent.futures
import json
import os
import re
import socket
import time

from apitest import JOB, ROOT, TIMEOUT, Client, Events, Server, Tap, until

PIPELINE = """weir: 1
kind: pipeline
name: train
labels: {team: vision}
tasks:
  prepare: {run: echo prepare}
  train: {run: echo train, needs: prepare, gpus: 1}
"""
ROLES = ("viewer", "user", "operator", "admin")


def in_pages(client):
    """The ids of all workloads, newest first, two at a time."""
    ids, before = [], None
    while True:
        page = client.get("/v1/workloads", limit=2, before=before).json
        ids += [w["id"] for w in page["items"]]
        before = page.get("next")
        if not before:
            return ids


def run(server, wid, task=0, status=0, text=None):
    """A task of one rank, from its start to its end."""
    def planned():
        t = server.admin.tasks(wid)[task]
        return t["state"] == "starting"
    until(planned, f"{wid}/{task} is planned")
    server.do(f"claim {wid[1:]} {task} 0")
    if text:
        server.do(f"log {wid[1:]} {task} 0 {text}")
    server.do(f"end {wid[1:]} {task} 0 {status}")


def plain(tap, server):
    c = server.admin
    for path, want in (("/healthz", b"ok\n"), ("/readyz", b"ok\n")):
        r = c.get(path)
        tap.ok(r.status == 200 and r.body == want, f"GET {path}", r)
    r = c.get("/v1/version")
    tap.ok(r.json["api"] == 1 and r.json["version"], "GET /v1/version", r)
    r = c.get("/v1/schema")
    tap.ok(r.json["$schema"], "GET /v1/schema is a JSON Schema")
    r = c.get("/v1/schema?of=policy")
    tap.ok("half_life" in r.json["properties"], "and there is one of a policy")
    for path in ("/v1/watch", "/v1/workloads"):
        r = c.call("HEAD", path)
        tap.ok(r.status == 200 and r.body == b"", f"HEAD {path}", r)
    r = c.call("HEAD", "/v1/version")
    tap.ok(r.status == 200 and r.body == b"" and
           int(r.headers["Content-Length"]) > 0, "HEAD of a GET", r)
    for method in ("OPTIONS", "PATCH", "DELETE", "BREW"):
        r = c.call(method, "/v1/workloads")
        tap.ok(r.status == 405 and r.headers["Allow"] == "POST, GET, HEAD",
               f"{method} /v1/workloads: 405 with Allow", r)
    r = c.get("/v1/nothing")
    tap.ok(r.status == 404 and
           r.headers["Content-Type"] == "application/problem+json",
           "an unknown path is a problem object", r)
    text = c.get("/metrics").body.decode()
    names = set(re.findall(r"^(weir_\w+)", text, re.M))
    tap.ok({"weir_device_free", "weir_wr", "weir_tasks", "weir_events_total",
            "weir_store_commits_total", "weir_http_answers_total",
            "weir_watchers", "weir_uptime_seconds"} <= names and
           'simulated="true"' in text, "GET /metrics", sorted(names))
    bad = [line for line in text.splitlines() if not re.fullmatch(
        r'#.*|weir_\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.e\d]+', line)]
    tap.none(bad, "every line of it is of the format")


def page(tap, server):
    """docs/api.md has every route with its role, and no other."""
    doc = json.loads(server.tell("openapi"))
    want = {(method.upper(), path, op["x-weir-role"])
            for path, methods in doc["paths"].items()
            for method, op in methods.items()}
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| ([A-Z]+) \| `(/\S*)` \| (\w+) \|(.*)",
                          f.read(), re.M)
    tap.equal({r[:3] for r in rows} ^ want, set(),
              f"docs/api.md has the {len(want)} routes")
    tap.none([f"{method} {path}: {arg['name']}"
              for method, path, _, text in rows
              for arg in doc["paths"][path][method.lower()]
              .get("parameters", [])
              if arg["in"] == "query" and f"`{arg['name']}" not in text],
             "with every argument")


def audit(tap, server):
    """Refusals are written down, but not one by one for ever."""
    c = server.token("viewer")
    ask = ("POST /v1/nodes/box/drain HTTP/1.1\r\nHost: x\r\nContent-Length: "
           f"0\r\nAuthorization: Bearer {c.token}\r\n").encode()
    with socket.socket(socket.AF_UNIX) as s:   # all in one go
        s.connect(server.socket)
        s.sendall((ask + b"\r\n") * 39 + ask + b"Connection: close\r\n\r\n")
        while s.recv(65536):
            pass
    server.do("later 2000")
    c.post("/v1/nodes/box/drain")

    def written():
        e = [e["data"] for e in server.admin.events(type="access.denied")
             if e["who"] == f"token:{c.id}"]
        return e if len(e) + sum(d.get("left_out", 0) for d in e) == 41 \
            else None
    e = until(written, "all refusals are counted")
    tap.ok(len(e) < 41, f"41 refusals: {len(e)} events, the rest counted",
           e[-1])
    tap.ok(e[0]["what"] == "POST /v1/nodes/box/drain" and
           e[0]["status"] == 403, "what was refused, and how", e[0])


def submit(tap, server):
    c = server.admin
    r = c.call("POST", "/v1/workloads?file=t.yaml", PIPELINE)
    w = r.json
    tap.ok(r.status == 201 and r.headers["Location"] ==
           f"/v1/workloads/{w['id']}" and w["name"] == "train" and
           w["tenant"] == "default" and w["labels"] == {"team": "vision"} and
           w["uid"] == os.geteuid() and "_" not in w, "submit YAML: 201", r)
    r = c.submit(JOB)
    tap.equal(r.status, 201, "submit JSON: 201")
    r = c.call("POST", "/v1/workloads?file=bad.yaml",
               "weir: 1\nkind: job\nrnu: true\ngpus: many\n")
    p = r.json.get("problems", [])
    tap.ok(r.status == 422 and len(p) >= 2 and
           all(x["file"] == "bad.yaml" and x["line"] for x in p) and
           "did you mean 'run'" in r.json["detail"],
           "a bad document: 422, with all problems", r)
    r = c.call("POST", "/v1/workloads", b"")
    tap.equal(r.status, 422, "no document: 422")
    doc = "weir: 1\nkind: job\nparameters: {n: 1}\nrun: 'echo {{ n }}'\n"
    r = c.call("POST", "/v1/workloads?param=n=a%3Db&priority=-5&fields="
               "id,priority", doc)
    tap.ok(r.status == 201 and r.json["priority"] == -5 and
           sorted(r.json) == ["id", "priority"],
           "param, priority and fields", r)
    spec = c.get(f"/v1/workloads/{r.json['id']}/spec").json
    tap.equal(spec["tasks"][0]["run"], "echo a=b", "the parameter's value")
    r = c.call("POST", "/v1/workloads?param=m=1", doc)
    tap.equal(r.status, 422, "a parameter that is not there: 422")
    for query, status in (("tenant=nobody", 404), ("priority=9999", 400),
                          ("param=n", 400), ("parm=n=1", 400)):
        r = c.call("POST", "/v1/workloads?" + query, PIPELINE)
        tap.equal(r.status, status, f"submit with {query}: {status}")
    return w["id"]


def once(tap, server):
    """The same key submits once, whatever happens."""
    c = server.admin
    first = c.submit(JOB, "key-1")
    again = c.submit(JOB, "key-1")
    tap.ok(first.status == 201 and again.status == 200 and
           again.json["id"] == first.json["id"], "key: the same document", again)
    other = c.submit(dict(JOB, name="other"), "key-1")
    tap.equal(other.status, 409, "key: another document: 409")
    other = c.submit(JOB, "key-1", priority=3)
    tap.equal(other.status, 409, "key: another query is another request: 409")
    for key in ("", " ", "a b", "x" * 129, "caf\xe9"):
        r = c.call("POST", "/v1/workloads", JOB, {"Idempotency-Key": key})
        tap.equal(r.status, 400, f"key {key[:10]!r}: 400")
    other = server.token("user").submit(dict(JOB, name="other"), "key-1")
    tap.equal(other.status, 201, "key: another caller's is another key")
    run(server, first.json["id"])
    until(lambda: c.get(f"/v1/workloads/{first.json['id']}").json["state"]
          == "ended", "it has ended")
    again = c.submit(JOB, "key-1")
    tap.ok(again.status == 200 and again.json["id"] == first.json["id"] and
           again.json["state"] == "ended",
           "key: found in the store after the end", again)
    before = len(c.workloads())
    server.do("hold 1")
    with concurrent.futures.ThreadPoolExecutor(9) as pool:
        same = [pool.submit(c.submit, JOB, "key-2") for _ in range(8)]
        until(lambda: c.get("/metrics").body, "it works")
        time.sleep(0.3)                # let them arrive; not needed to pass
        clash = c.submit(dict(JOB, name="clash"), "key-2")
        reads = pool.submit(Client(server.socket, timeout=TIMEOUT).get,
                            "/v1/workloads", state="live")
        time.sleep(0.3)
        early = [f for f in same + [reads] if f.done()]
        server.do("hold 0")
        got = [f.result(TIMEOUT) for f in same]
        seen = reads.result(TIMEOUT)
    tap.equal(clash.status, 409, "key under way: another document: 409")
    tap.ok(seen.status == 200 and got[0].json["id"] in
           [w["id"] for w in seen.json["items"]],
           "who looks at it meanwhile is answered when it is durable", seen)
    tap.equal(early, [], "nobody is answered before it is durable")
    tap.ok(sorted(r.status for r in got) == [200] * 7 + [201] and
           len({r.json["id"] for r in got}) == 1,
           "eight at once: one is new, all get it",
           [(r.status, r.json.get("id")) for r in got])
    tap.equal(len(c.workloads()), before + 1, "and there is one more")


def lists(tap, server):
    c = server.admin
    ids = [c.submit(dict(JOB, name=f"n{i}")).json["id"] for i in range(7)]
    page = c.get("/v1/workloads", limit=3).json
    tap.equal([w["id"] for w in page["items"]], ids[:3:-1],
              "workloads: newest first, three at a time")
    tap.equal(page["next"], ids[4], "and where to go on")
    seen = [w["id"] for w in c.workloads()]
    pages = in_pages(c)
    tap.equal(pages[::-1], seen, "page by page gives all of them")
    r = c.get("/v1/workloads", fields="id,state", limit=1).json
    tap.equal(sorted(r["items"][0]), ["id", "state"], "fields are kept")
    live = {w["state"] for w in c.get("/v1/workloads", state="live",
                                      limit=1000).json["items"]}
    ended = {w["state"] for w in c.get("/v1/workloads", state="ended",
                                       limit=1000).json["items"]}
    tap.ok("ended" not in live and ended == {"ended"}, "state=live|ended",
           live, ended)
    for query in ("limit=0", "limit=1001", "before=12", "state=x",
                  "fields=nope", "limt=1", "limit=1&limit=2"):
        r = c.get("/v1/workloads?" + query)
        tap.ok(r.status == 400 and r.json["detail"], f"?{query}: 400", r)
    r = c.get("/v1/workloads?limt=1")
    tap.ok("did you mean 'limit'" in r.json["detail"],
           "an unknown argument: the nearest is named", r)


def tasks(tap, server, wid):
    c = server.admin
    base = f"/v1/workloads/{wid}"
    r = c.get(base + "/tasks").json
    tap.equal([t["task"] for t in r["items"]], ["prepare", "train"],
              "tasks in order")
    r = c.get(base + "/tasks", limit=1).json
    tap.ok(r["next"] == 1 and len(r["items"]) == 1, "tasks: a page", r)
    r = c.get(base + "/tasks", **{"from": 1, "fields": "task"}).json
    tap.equal(r, {"items": [{"task": "train"}]}, "tasks from an index")
    t = c.get(base + "/tasks/train").json
    tap.ok(t["why"]["code"] == "needs" and t["why"]["text"], "why it waits",
           t["why"])
    for path in ("/tasks/nope", "/tasks/nope/log"):
        tap.equal(c.get(base + path).status, 404, f"{path}: 404")
    r = c.get(base + "/tasks/train/log")
    tap.equal(r.status, 404, "a log before the first attempt: 404")
    run(server, wid, 0)
    run(server, wid, 1, status=3)
    until(lambda: c.get(base).json["state"] == "ended", "it ended")
    t = c.get(base + "/tasks/train").json
    tap.ok(t["why"]["code"] == "ended" and t["outcome"] == "failed" and
           "_" not in t, "an ended task, from the store", t)
    r = c.get(base + "/tasks", limit=1).json
    tap.ok(r["next"] == 1 and r["items"][0]["outcome"] == "succeeded",
           "tasks of an ended workload, page by page", r)
    tap.equal(c.get(base + "/spec").json["name"], "train",
              "the document of an ended workload")
    for verb in ("abort", "pause", "unpause"):
        tap.equal(c.post(f"{base}/{verb}").status, 409,
                  f"{verb} after the end: 409")
    r = c.post(base + "/retry")
    tap.ok(r.status == 201 and r.json["retry_of"] == wid, "retry: 201", r)
    states = [t["state"] for t in c.tasks(r.json["id"])]
    tap.equal(states[0], "ended", "what had succeeded is kept")
    again = c.call("POST", base + "/retry", None, {"Idempotency-Key": "r1"})
    twice = c.call("POST", base + "/retry", None, {"Idempotency-Key": "r1"})
    tap.ok(again.status == 201 and twice.status == 200 and
           again.json["id"] == twice.json["id"], "retry with a key: once",
           twice)
    live = r.json["id"]
    tap.equal(c.post(f"/v1/workloads/{live}/retry").status, 409,
              "retry of what has not ended: 409")
    return live


def acts(tap, server):
    c = server.admin
    wid = c.call("POST", "/v1/workloads", PIPELINE).json["id"]
    base = f"/v1/workloads/{wid}"
    for verb, paused in (("pause", True), ("pause", True), ("unpause", False),
                         ("unpause", False)):
        r = c.post(f"{base}/{verb}")
        tap.ok(r.status == 200 and r.json["paused"] is paused,
               f"{verb}: 200, also when it is so already", r)
    tap.equal(c.post(base + "/release", {"abort": True}).status, 409,
              "release of what is not quarantined: 409")
    tap.equal(c.post(base + "/release", {}).status, 400,
              "release without saying what: 400")
    r = c.post(base + "/abort", {"task": "nope"})
    tap.equal(r.status, 404, "abort of a task that is not there: 404")
    r = c.post(base + "/abort", {"forec": True})
    tap.ok(r.status == 400 and "did you mean 'force'" in r.json["detail"],
           "abort with a wrong member: 400", r)
    r = c.post(base + "/abort", {"task": "train"})
    tap.equal(r.status, 202, "abort of one task: 202")
    tap.equal(c.get(base + "/tasks/train").json["outcome"], "aborted",
              "it is")
    tap.equal(c.post(base + "/abort").status, 202, "abort of all: 202")
    r = c.post("/v1/nodes/box/drain")
    tap.equal((r.status, r.json), (200, {"node": "box", "drained": True}),
              "drain")
    tap.ok(c.get("/v1/pools/local").json["nodes"][0]["drained"],
           "the pool shows it")
    tap.equal(c.post("/v1/nodes/box/drain").status, 200, "again: 200")
    tap.equal(c.post("/v1/nodes/box/undrain").json["drained"], False,
              "undrain")
    for path in ("/v1/nodes/nope/drain", "/v1/nodes/" + "x" * 300 + "/drain"):
        tap.equal(c.post(path).status, 404, "a node that is not there: 404")


def pools(tap, server):
    c = server.admin
    wid = c.submit(dict(JOB, gpus=0.5)).json["id"]
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "planned")
    p = c.get("/v1/pools").json["items"]
    d = [d for n in p[0]["nodes"] for d in n["devices"] if d["leases"]]
    tap.ok(len(p) == 1 and p[0]["name"] == "local" and p[0]["simulated"] and
           p[0]["devices"] == {"total": 4, "free": 3.5} and len(d) == 1 and
           d[0]["leases"][0]["workload"] == wid and d[0]["free"] == 0.5,
           "pools, devices, leases", p)
    tap.equal(c.get("/v1/pools/nope").status, 404, "no such pool: 404")
    w = c.get("/v1/waste").json
    tap.ok(abs(w["used"] + w["waste"] + w["idle_frag"] + w["idle_nodemand"]
               - 1) < 1e-9 and abs(w["wr"] - w["waste"] - w["idle_frag"])
           < 1e-9, "waste: the shares are a whole", w)
    server.do(f"claim {wid[1:]} 0 0")
    server.do(f"end {wid[1:]} 0 0 0")


def logs(tap, server):
    c = server.admin
    wid = c.submit(dict(JOB, name="logs")).json["id"]
    path = f"/v1/workloads/{wid}/tasks/logs/log"
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "planned")
    r = c.get(path)
    tap.ok(r.status == 200 and r.body == b"", "nothing was written yet", r)
    server.do(f"claim {wid[1:]} 0 0")
    server.do(f"log {wid[1:]} 0 0 one")
    r = c.get(path)
    tap.ok(r.body == b"one\n" and r.headers["Weir-Log-Start"] == "0" and
           r.headers["Weir-Log-End"] == "4", "the log and its headers", r)
    tap.equal(c.get(path, offset=1, limit=2).body, b"ne", "a part of it")
    r = c.get(path, offset=100)
    tap.ok(r.status == 200 and r.body == b"", "past its end", r)
    conn, resp = c.stream("GET", path + "?follow=1")
    tap.equal(resp.readline(), b"one\n", "follow: what is there")
    server.do(f"log {wid[1:]} 0 0 two")
    tap.equal(resp.readline(), b"two\n", "follow: what comes")
    server.do(f"log {wid[1:]} 0 0 three")
    server.do(f"end {wid[1:]} 0 0 0")
    tap.equal(resp.read(), b"three\n", "follow: until the end")
    conn.close()
    until(lambda: c.get(f"/v1/workloads/{wid}").json["state"] == "ended",
          "ended")
    tap.equal(c.get(path).body, b"one\ntwo\nthree\n", "after the end")
    tap.equal(c.get(path, follow=1).body, b"one\ntwo\nthree\n",
              "follow after the end ends")
    for args, want in ((dict(rank=1), 404), (dict(attempt=2), 404),
                       (dict(attempt=0), 400), (dict(follow="x"), 400)):
        tap.equal(c.get(path, **args).status, want, f"log {args}: {want}")
    server.do(f"forget {wid[1:]} 0 0")
    tap.equal((c.get(path).status, c.get(path).body), (200, b""),
              "a log that nobody wrote is empty")
    large = "x" * 1000
    wid = c.submit(dict(JOB, name="logs")).json["id"]
    path = f"/v1/workloads/{wid}/tasks/logs/log"
    conn, resp = c.stream("GET", path + "?follow=1")
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "planned")
    server.do(f"claim {wid[1:]} 0 0")
    for _ in range(500):
        server.do(f"log {wid[1:]} 0 0 {large}")
    server.do(f"end {wid[1:]} 0 0 0")
    tap.equal(len(resp.read()), 500 * 1001,
              "follow from before the start, half a megabyte")
    conn.close()


def events(tap, server):
    c = server.admin
    wid = c.submit(dict(JOB, name="seen")).json["id"]
    r = c.get("/v1/events", workload=wid).json["items"]
    tap.ok(r[0]["type"] == "workload.submitted" and "spec" not in r[0] and
           {e["workload"] for e in r} == {wid}, "events of one workload", r)
    first = c.get("/v1/events", limit=2).json
    second = c.get("/v1/events", limit=2, since=first["next"]).json
    tap.equal([e["seq"] for e in first["items"] + second["items"]],
              [1, 2, 3, 4], "events in order, page by page")
    r = c.get("/v1/events", type="workload.submitted", limit=1000).json
    tap.equal({e["type"] for e in r["items"]}, {"workload.submitted"},
              "events of one type")
    epoch = first["next"].split(":")[0]
    for args, want in ((dict(type="workload.submited"), 400),
                       (dict(since="7"), 400), (dict(since="99:1"), 410),
                       (dict(since=f"{epoch}:999999"), 410),
                       (dict(workload="w999"), 404), (dict(limit=0), 400)):
        tap.equal(c.get("/v1/events", **args).status, want,
                  f"events {args}: {want}")
    last = c.events()[-1]["seq"]
    server.do(f"claim {wid[1:]} 0 0")
    server.do(f"end {wid[1:]} 0 0 0")
    tap.ok(until(lambda: c.events(since=f"{epoch}:{last}"), "new events"),
           "events since")
    token = server.token("viewer")
    text = json.dumps(c.events(type="token.created"))
    tap.ok(token.id in text and "hash" not in text,
           "a token's hash is in no event that is shown")


def watch(tap, server):
    c = server.admin
    w = Events(c, "/v1/watch")
    wid = c.submit(dict(JOB, name="watched")).json["id"]
    e = w.next()
    data = json.loads(e["data"])
    tap.ok(e["event"] == "workload.submitted" and data["workload"] == wid and
           e["id"].split(":")[1] == str(data["seq"]), "watch: an event", e)
    server.do("audit 3")
    more = [w.next() for _ in range(4)]
    w.close()
    tap.equal([m["event"] for m in more], ["task.planned"] +
              ["access.denied"] * 3, "watch: the next ones, in order")
    start = e["id"].split(":")[0] + ":0"
    for head, path in ((None, "/v1/watch?since=" + e["id"]),
                       ({"Last-Event-ID": e["id"]}, "/v1/watch"),
                       ({"Last-Event-ID": e["id"]},
                        "/v1/watch?since=" + start)):
        w = Events(c, path, head)
        tap.equal(w.take(4), more, f"resumed with {head or path}")
        w.close()
    w = Events(c, f"/v1/watch?workload={wid}&since={start}")
    tap.equal([x["event"] for x in w.take(2)],
              ["workload.submitted", "task.planned"],
              "watch of one workload, from the beginning")
    server.do("audit 2")
    server.do(f"claim {wid[1:]} 0 0")
    tap.equal(w.next()["event"], "lease.claimed", "and on, without the rest")
    w.close()
    w = Events(c, "/v1/watch")
    server.do("later 16000")
    tap.equal(w.next(), {"": ""}, "a comment when nothing happens")
    w.close()
    for path, want in (("since=9:1", 410), ("since=x", 400),
                       ("workload=w999", 404), ("workload=x", 400)):
        tap.equal(c.get("/v1/watch?" + path).status, want,
                  f"watch?{path}: {want}")
    server.do(f"end {wid[1:]} 0 0 0")
    for w in c.get("/v1/workloads", state="live").json["items"]:
        c.post(f"/v1/workloads/{w['id']}/abort", {"force": True})
        for t in c.tasks(w["id"]):
            if t["state"] == "ending":
                server.do(f"end {w['id'][1:]} {t['index']} 0 0")


def numbers(stream, n):
    return [int(e["id"].split(":")[1]) for e in stream.take(n)]


def follows(tap, got, first, text):
    """Numbers without a gap from `first` on."""
    want = range(first, first + len(got))
    bad = [(g, w) for g, w in zip(got, want) if g != w]
    tap.ok(not bad, text, f"(got, wanted): {bad[:5]}")


def lag(tap, server):
    """A watcher far behind gets everything, in order, once; and one that does
    not read holds up nobody.
    """
    c = server.admin
    until(lambda: not c.get("/v1/workloads", state="live").json["items"],
          "nothing runs")
    epoch = c.get("/v1/events", limit=1).json["next"].split(":")[0]
    start = c.events()[-1]["seq"]
    idle = Events(c, f"/v1/watch?since={epoch}:{start}")   # not read for now
    for _ in range(30):
        server.do("audit 1000")
    last = start + 30000
    until(lambda: c.get("/v1/events", since=f"{epoch}:{last - 1}").json[
        "items"], "all is durable")
    w = Events(c, f"/v1/watch?since={epoch}:{start}")
    follows(tap, numbers(w, 30000), start + 1,
            "30000 events late: all of them, in order")
    server.do("audit 1")
    tap.equal(numbers(w, 1), [last + 1], "and the next")
    w.close()
    tap.equal(c.get("/healthz").status, 200, "nobody is held up")
    follows(tap, numbers(idle, 30001), start + 1,
            "one that did not read finds all of it when it does")
    idle.close()


def admin(tap, server):
    c = server.admin
    r = c.call("PUT", "/v1/tenants/red", {"members": ["uid:1000"],
                                          "max_gpus": 2.5, "note": "n"})
    tap.ok(r.status == 201 and r.json["max_gpus"] == 2.5 and
           r.json["members"] == ["uid:1000"], "a new tenant: 201", r)
    r = c.call("PUT", "/v1/tenants/red", {"max_gpus": "unlimited"})
    tap.ok(r.status == 200 and r.json["max_gpus"] == "unlimited" and
           r.json["members"] == ["uid:1000"],
           "a change: 200, what is left out stays", r)
    for body in ({"members": ["root"]}, {"max_gpus": -1}, {"max_gpus": "x"},
                 {"weight": 0}, {"mebmers": []}):
        tap.equal(c.call("PUT", "/v1/tenants/red", body).status, 400,
                  f"tenant {body}: 400")
    for name in ("-x", "a%20b", "x" * 129):
        tap.equal(c.call("PUT", f"/v1/tenants/{name}", {}).status, 400,
                  f"a tenant named {name[:8]}: 400")
    names = {t["name"] for t in c.get("/v1/tenants").json["items"]}
    tap.ok({"default", "red"} <= names, "tenants", names)
    wid = c.submit(JOB, tenant="red").json["id"]
    tap.equal(c.call("DELETE", "/v1/tenants/red").status, 409,
              "a tenant with live workloads stays: 409")
    run(server, wid)
    until(lambda: c.get(f"/v1/workloads/{wid}").json["state"] == "ended",
          "ended")
    tap.equal(c.call("DELETE", "/v1/tenants/red").status, 204, "removed: 204")
    tap.equal(c.get("/v1/tenants/red").status, 404, "and gone")
    tap.equal(c.call("DELETE", "/v1/tenants/red").status, 404, "again: 404")
    tap.equal(c.call("DELETE", "/v1/tenants/default").status, 409,
              "the default tenant stays: 409")
    file = os.path.join(server.folder, "copy.db")
    r = c.post("/v1/backup", {"file": file})
    tap.ok(r.status == 200 and os.path.getsize(file) > 0, "backup", r)
    tap.equal(c.post("/v1/backup", {"file": file}).status, 409,
              "over a file that is there: 409")
    tap.equal(c.post("/v1/backup", {"file": "x"}).status, 400,
              "a path that is not absolute: 400")
    tap.equal(c.get("/v1/stat").status, 200, "stat")


def tokens(tap, server):
    c = server.admin
    r = c.post("/v1/tokens", {"name": "ci", "role": "user"})
    t = r.json
    tap.ok(r.status == 201 and re.fullmatch(
        r"weir_[0-9a-f]{12}_[0-9a-f]{64}", t["token"]) and
        t["token"].split("_")[1] == t["id"] and t["expires"],
        "a token: shown once, ends by default", r)
    secret = t["token"].split("_")[2]
    text = c.get("/v1/tokens").body.decode()
    tap.ok(t["id"] in text and secret not in text and "hash" not in text,
           "listed without secret and hash")
    with open(os.path.join(server.folder, "store.db"), "rb") as f:
        db = f.read()
    for name in ("store.db-wal",):
        with open(os.path.join(server.folder, name), "rb") as f:
            db += f.read()
    tap.ok(t["id"].encode() in db and secret.encode() not in db,
           "the store has no secret")
    user = Client(server.socket, token=t["token"], timeout=TIMEOUT)
    r = user.submit(JOB)
    tap.ok(r.status == 201 and r.json["uid"] == os.geteuid(),
           "what it submits runs as its maker", r)
    for word in ("weir_", "weir_000000000000_" + "0" * 64, t["token"][:-1],
                 t["token"] + "0", t["token"].upper(),
                 t["token"][:-1] + ("0" if t["token"][-1] != "0" else "1"),
                 f"weir_{t['id']}_{secret[:-2]}"):
        r = Client(server.socket, token=word, timeout=TIMEOUT).get(
            "/v1/workloads")
        tap.ok(r.status == 401 and "WWW-Authenticate" in r.headers,
               f"token {word[:12]}...: 401", r)
    for word in ("Basic x", "Bearer", ""):
        r = c.call("GET", "/v1/workloads", headers={"Authorization": word})
        tap.equal(r.status, 401, f"Authorization: {word!r}: 401")
    for body, want in (({"name": "x", "role": "root"}, 400),
                       ({"role": "user"}, 400),
                       ({"name": "x", "role": "user", "expires": "0"}, 400),
                       ({"name": "x", "role": "user", "expires": "soon"}, 400),
                       ({"name": "x", "role": "user", "tenant": "no"}, 404),
                       ({"name": "x" * 65, "role": "user"}, 400),
                       ({"name": "x", "role": "user", "uid": -1}, 400)):
        tap.equal(c.post("/v1/tokens", body).status, want,
                  f"token {str(body)[:60]}: {want}")
    tap.equal(user.post("/v1/tokens", {"name": "x", "role": "operator"})
              .status, 403, "no role above one's own: 403")
    tap.equal(user.post("/v1/tokens", {"name": "x", "role": "user",
                                       "uid": 12345}).status, 403,
              "only an operator names another user: 403")
    r = c.post("/v1/tokens", {"name": "x", "role": "user", "uid": 12345})
    other = Client(server.socket, token=r.json["token"], timeout=TIMEOUT)
    tap.equal(other.submit(JOB).json["uid"], 12345, "an operator may")
    r = c.post("/v1/tokens", {"name": "x", "role": "viewer",
                              "expires": "100ms"})
    short = Client(server.socket, token=r.json["token"], timeout=TIMEOUT)
    tap.ok(until(lambda: short.get("/v1/workloads").status == 401,
                 "it expires"), "a token past its time: 401")
    r = c.post("/v1/tokens", {"name": "x", "role": "viewer",
                              "expires": "never"})
    tap.ok(r.status == 201 and "expires" not in r.json, "one without end", r)
    w = Events(user, "/v1/watch")
    tap.equal(user.call("DELETE", f"/v1/tokens/{t['id']}").status, 204,
              "revoked: 204")
    tap.equal(user.get("/v1/workloads").status, 401, "and no good: 401")
    server.do("later 16000")
    seen = [w.next() for _ in range(3)]
    tap.ok(None in seen, "its watch ends", seen)
    w.close()
    tap.equal(c.call("DELETE", f"/v1/tokens/{t['id']}").status, 204,
              "revoked again: 204")
    tap.equal(c.call("DELETE", "/v1/tokens/nope").status, 404,
              "no such token: 404")


def walk(tap, server):
    """Every route with every role: allowed from the row's role on."""
    doc = json.loads(server.tell("openapi"))
    clients = {r: server.token(r) for r in ROLES}
    wrong = []
    count = 0
    for path, methods in doc["paths"].items():
        for method, op in methods.items():
            need = op["x-weir-role"]
            target = re.sub(r"\{\w+\}", "nothing", path)
            for role in ROLES:
                if path == "/v1/watch":
                    target = "/v1/watch?workload=w999999"
                # A body that no route takes: nothing is changed by asking.
                body = None if method == "get" else {"no such": "member"}
                r = clients[role].call(method.upper(), target, body)
                count += 1
                allowed = need == "none" or \
                    ROLES.index(role) >= ROLES.index(need)
                if allowed == (r.status in (401, 403)):
                    wrong.append(f"{role}: {method} {path}: {r.status}")
                if not allowed and r.status != 403:
                    wrong.append(f"{role}: {method} {path}: {r.status}")
    tap.none(wrong, f"{count} requests: each role may what its rows say")
    refused = {f"token:{c.id}" for r, c in clients.items() if r != "admin"}

    def written():
        denied = server.admin.events(type="access.denied")
        return refused <= {e["who"] for e in denied
                           if "what" in e.get("data", {})}
    tap.ok(until(written, "refusals in the journal"),
           "refusals are in the journal")


def isolation(tap, server):
    """Another tenant's things look, byte for byte, like what is not there."""
    c = server.admin
    for name in ("ours", "theirs"):
        c.need("PUT", f"/v1/tenants/{name}", {"members": []}, want=201)
    mine, other = server.token("user", "ours"), server.token("user", "theirs")
    wid = mine.submit(dict(JOB, name="secret")).json["id"]
    done = mine.submit(dict(JOB, name="secret")).json["id"]
    run(server, done, text="hidden")
    until(lambda: c.get(f"/v1/workloads/{done}").json["state"] == "ended",
          "ended")
    for what in (wid, done):
        bad = []
        for method, path in (("GET", ""), ("GET", "/tasks"), ("GET", "/spec"),
                             ("GET", "/tasks/secret"),
                             ("GET", "/tasks/secret/log"),
                             ("GET", "/tasks/secret/log?follow=1"),
                             ("POST", "/abort"), ("POST", "/pause"),
                             ("POST", "/unpause"), ("POST", "/retry")):
            a = other.call(method, f"/v1/workloads/{what}{path}")
            b = other.call(method, f"/v1/workloads/w987654{path}")
            if a.status != 404 or b.status != 404 or a.body.replace(
                    what.encode(), b"w987654") != b.body or \
                    a.headers.keys() != b.headers.keys():
                bad.append(f"{method} {path}: {a} {b}")
        tap.none(bad, f"{what} of another tenant: the same 404")
    tap.equal(other.get("/v1/workloads").json["items"], [], "none in the list")
    tap.equal(other.get("/v1/workloads", tenant="ours").json,
              other.get("/v1/workloads", tenant="never").json,
              "nor under its tenant")
    text = json.dumps(other.events())
    tap.ok("secret" not in text and f'"{wid}"' not in text, "none in events")
    tap.equal(other.get("/v1/tenants").json["items"][0]["name"], "theirs",
              "one's own tenant alone")
    a, b = other.get("/v1/tenants/ours"), other.get("/v1/tenants/nope")
    tap.ok(a.status == 404 and a.body.replace(b"ours", b"nope") == b.body,
           "another's tenant: the same 404", a, b)
    a = other.submit(JOB, tenant="ours")
    b = other.submit(JOB, tenant="nope")
    tap.ok(a.status == 404 and a.body.replace(b"ours", b"nope") == b.body,
           "submit into it: the same 404", a, b)
    a = other.call("DELETE", f"/v1/tokens/{mine.id}")
    b = other.call("DELETE", "/v1/tokens/000000000000")
    tap.ok(a.status == 404 and a.body.replace(
        mine.id.encode(), b"000000000000") == b.body,
        "another's token: the same 404", a, b)
    for path in ("/v1/watch", "/v1/events"):
        r = other.get(path, workload=wid)
        tap.equal(r.status, 404, f"{path} of its workload: 404")
    run(server, wid)
    gpu = mine.submit(dict(JOB, name="secret", gpus=1)).json["id"]
    until(lambda: c.tasks(gpu)[0]["state"] == "starting", "planned")
    text = other.get("/v1/pools").body.decode()
    tap.ok("secret" not in text and '"leases":[{"share":1}]' in text,
           "of its lease only the share shows", text)
    w = Events(other, "/v1/watch")
    mine.submit(dict(JOB, name="secret"))
    own = other.submit(dict(JOB, name="own")).json["id"]
    e = w.next()
    tap.ok(json.loads(e["data"])["workload"] == own,
           "watch shows one's own alone", e)
    w.close()
    seen = until(lambda: [e for e in c.events(type="access.denied")
                          if e["who"] == f"token:{other.id}"], "the audit")
    tap.ok(seen and all(e["data"]["from"] == "unix" for e in seen),
           "the tries are in the journal")


def by_uid(tap, server):
    """Who is who on the Unix socket.  Needs root."""
    if os.geteuid() != 0:
        tap.skip("callers by uid", "needs root")
        return
    c = server.admin
    stranger = Client(server.socket, uid=61009, timeout=TIMEOUT)
    r = stranger.get("/v1/workloads")
    tap.ok(r.status == 403 and "member uid:61009" in r.json["detail"],
           "a uid of no tenant: 403 with what to ask for", r)
    c.need("PUT", "/v1/tenants/green", {"members": ["uid:61009"]}, want=201)
    r = stranger.submit(JOB)
    tap.ok(r.status == 201 and r.json["tenant"] == "green" and
           r.json["uid"] == 61009, "a member submits into its tenant", r)
    tap.equal(stranger.post("/v1/nodes/box/drain").status, 403,
              "and is no operator")
    c.need("PUT", "/v1/tenants/blue", {"members": ["uid:61009"]}, want=201)
    r = stranger.submit(JOB)
    tap.equal(r.status, 400, "a member of two says which")
    tap.equal(stranger.submit(JOB, tenant="blue").json["tenant"], "blue",
              "then it is that one")
    for name in ("green", "blue", "green"):
        stranger.submit(JOB, tenant=name)
    every = stranger.workloads()
    tap.equal({w["tenant"] for w in every}, {"green", "blue"}, "it sees both")
    pages = in_pages(stranger)
    tap.equal(pages, [w["id"] for w in every[::-1]],
              "newest first over both, page by page")
    server.do("single 1")
    tap.equal(stranger.get("/v1/workloads").status, 403,
              "started without root: nobody else")
    server.do("single 0")


def trouble(tap, server):
    c = server.admin
    wid = c.submit(JOB).json["id"]
    for text, want in (("the disk is full", 507), ("the disk fails", 503)):
        server.do("trouble " + text)
        for method, path, body in (
                ("POST", "/v1/workloads", JOB),
                ("POST", f"/v1/workloads/{wid}/abort", None),
                ("PUT", "/v1/tenants/x", {}),
                ("POST", "/v1/tokens", {"name": "x", "role": "user"})):
            r = c.call(method, path, body)
            tap.ok(r.status == want and r.json["detail"] == text,
                   f"{method} {path}: {want}", r)
        tap.equal(c.get("/readyz").status, 503, "readyz: 503")
        tap.equal(c.get("/healthz").status, 200, "healthz: 200")
        tap.equal(c.get(f"/v1/workloads/{wid}").status, 200, "reads go on")
    server.do("trouble")
    tap.equal(c.submit(JOB).status, 201, "and then writes again")
    server.do("single 1")
    r = c.call("PUT", "/v1/tenants/further", {})
    tap.equal(r.status, 403, "without root: no further tenants")
    server.do("single 0")


def restart(tap, server):
    """What was promised is there after a restart; a new epoch ends cursors."""
    c = server.admin
    token = server.token("user")
    before = c.workloads()
    cursor = c.get("/v1/events", limit=1).json["next"]
    tap.equal(server.end(), 0, "it ends well")
    server.start()
    c = server.admin
    tap.equal([w["id"] for w in c.workloads()], [w["id"] for w in before],
              "every workload is there")
    tap.equal(token.get("/v1/workloads").status, 200, "tokens too")
    tap.equal(c.get("/v1/events", since=cursor).status, 200, "cursors hold")
    server.do("restored")
    until(lambda: c.get("/v1/events", since=cursor).status == 410,
          "the new epoch")
    tap.equal(c.get("/v1/watch", since=cursor).status, 410,
              "after a restore: 410")


def end(tap, server):
    """Going down: streams end, what waits is answered."""
    c = server.admin
    w = Events(c, "/v1/watch")
    server.do("hold 1")
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        waits = [pool.submit(c.submit, JOB, "last") for _ in range(2)]
        time.sleep(0.3)                # let them arrive
        waits.append(pool.submit(c.get, "/v1/workloads"))
        time.sleep(0.3)
        server.do("drain")
        server.proc.stdin.write("stop\n")
        server.proc.stdin.flush()
        got = [f.result(TIMEOUT).status for f in waits]
    tap.equal(got, [503] * 3, "what has no answer yet: 503")
    tap.ok(None in (w.next(), w.next()), "streams end")
    tap.equal(server.proc.wait(TIMEOUT), 0, "it ends well")


def main():
    tap = Tap()
    with Server() as server:
        plain(tap, server)
        page(tap, server)
        audit(tap, server)
        wid = submit(tap, server)
        tasks(tap, server, wid)
        once(tap, server)
        lists(tap, server)
        acts(tap, server)
    with Server() as server:
        pools(tap, server)
        logs(tap, server)
        events(tap, server)
        watch(tap, server)
        lag(tap, server)
    with Server() as server:
        admin(tap, server)
        tokens(tap, server)
        walk(tap, server)
        isolation(tap, server)
        by_uid(tap, server)
        trouble(tap, server)
        restart(tap, server)
        end(tap, server)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())

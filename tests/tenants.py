#!/usr/bin/env python3
"""Two tenants on one machine: neither can see, stop or read anything of the
other's, every refusal looks like "there is no such thing", and is written down.

With root there are two users and two tenants.  Without, Weir serves its own
user alone, and that is what is tested.
"""
import json
import os
import re

import weirtest
from weirtest import GONE, Client, Weir, until

ALICE, BOB, CAROL = 61001, 61002, 61003    # uids nobody else has
WORK = {"weir": 1, "kind": "pipeline", "name": "secret-name", "tasks": {
    "hidden-task": {"run": "echo secret-text; sleep 600", "cpus": 0.01},
    "later": {"run": "true", "cpus": 0.01, "needs": "hidden-task"}}}
OTHER = {"weir": 1, "kind": "job", "name": "other", "run": "sleep 600",
         "cpus": 0.01}
SECRETS = (b"secret-name", b"hidden-task", b"secret-text", b"red-")


def leaks(body, asked=b""):
    """Which secrets are in there, other than in what was asked for."""
    body = body.replace(asked, b"") if asked else body
    return [s.decode() for s in SECRETS if s in body]


def tenants(weir):
    """Two tenants with one member each."""
    for name, uid in (("red-team", ALICE), ("blue-team", BOB)):
        r = weir.client.call("PUT", f"/v1/tenants/{name}",
                             {"members": [f"uid:{uid}"]})
        if r.status not in (200, 201):
            raise RuntimeError(f"tenant {name}: {r}")


# Everything of another's workload that can be asked for: method, path, body.
def reaches(wid, task="hidden-task"):
    base = f"/v1/workloads/{wid}"
    yield "GET", base, None
    yield "GET", base + "/tasks", None
    yield "GET", base + "/spec", None
    yield "GET", f"{base}/tasks/{task}", None
    yield "GET", f"{base}/tasks/{task}/log", None
    yield "GET", f"{base}/tasks/{task}/log?follow=1", None
    yield "POST", base + "/abort", {}
    yield "POST", base + "/abort", {"task": task, "force": True}
    yield "POST", base + "/pause", None
    yield "POST", base + "/unpause", None
    yield "POST", base + "/retry", None


def compare(tap, who, client, wid, missing):
    """The same answer, byte for byte, as for an id that was never given."""
    for (method, path, body), (_, other, _) in zip(reaches(wid),
                                                   reaches(missing)):
        a = client.call(method, path, body)
        b = client.call(method, other, body)
        same = a.body.replace(wid.encode(), b"ID") == \
            b.body.replace(missing.encode(), b"ID")
        heads = {k: v for k, v in a.headers.items() if k != "Date"}.keys() \
            == {k: v for k, v in b.headers.items() if k != "Date"}.keys()
        tap.ok(a.status == b.status == 404 and same and heads,
               f"{who}: {method} {path.replace(wid, 'ID')} is as if it were "
               "not there", a, b)


def lists(tap, who, client, wid):
    """Nothing of another's shows in what lists things."""
    for path in ("/v1/workloads", "/v1/workloads?tenant=red-team",
                 "/v1/events", "/v1/events?workload=" + wid,
                 "/v1/tenants", "/v1/tokens", "/v1/pools", "/v1/waste",
                 "/metrics"):
        r = client.call("GET", path)
        tap.ok(not leaks(r.body) and wid.encode() + b'"' not in r.body,
               f"{who}: GET {path.replace(wid, 'ID')} shows nothing of it", r)
    r = client.call("GET", "/v1/tenants/red-team")
    other = client.call("GET", "/v1/tenants/never-there")
    tap.ok(r.status == other.status == 404 and
           r.body.replace(b"red-team", b"T") ==
           other.body.replace(b"never-there", b"T"),
           f"{who}: the tenant itself is as if it were not there", r, other)
    r = client.submit(dict(WORK, tenant="red-team", name="intruder"))
    other = client.submit(dict(WORK, tenant="never-there", name="intruder"))
    tap.ok(r.status == other.status and r.status in (403, 404) and
           r.body.replace(b"red-team", b"T") ==
           other.body.replace(b"never-there", b"T"),
           f"{who}: cannot submit into the tenant", r, other)


def watch(tap, who, client, weir, wid):
    """A watcher sees its own events and none of the other's."""
    client = Client(client.socket, client.uid, client.token, timeout=5)
    start = weir.client.cursor(0)
    conn, resp = client.stream("GET", "/v1/watch?since=" + start)
    own = client.submit({"weir": 1, "kind": "job", "name": "own-work",
                         "run": "true", "cpus": 0.01}).json["id"]
    seen = b""
    try:
        while not re.search(rb'"workload.ended".*"%s"' % own.encode(), seen):
            seen += resp.readline()
    except GONE as e:
        tap.note(f"{type(e).__name__}: {e}")
    conn.close()
    tap.ok(own.encode() in seen, f"{who}: watch shows its own", seen[-300:])
    tap.ok(not leaks(seen) and f'"{wid}"'.encode() not in seen,
           f"{who}: watch shows nothing of the other's", leaks(seen), seen)
    r = client.call("GET", f"/v1/watch?workload={wid}")
    other = client.call("GET", "/v1/watch?workload=w999999")
    tap.ok(r.status == other.status == 404,
           f"{who}: watching it is as watching what is not there", r, other)


def guess(tap, who, client):
    """Ids all around show nothing but one's own."""
    own = {w["id"] for w in client.workloads()}
    bad = []
    for n in range(0, 40):
        wid = f"w{n}"
        r = client.call("GET", f"/v1/workloads/{wid}")
        if r.status == 200 and wid not in own or leaks(r.body):
            bad.append(f"{wid}: {r}")
    tap.none(bad, f"{who}: guessing ids finds nothing")


def cli(tap, weir, wid, missing):
    """The same through the command line."""
    for verb in (["show"], ["show", "TASK"], ["logs", "TASK"],
                 ["why", "TASK"], ["abort"], ["abort", "--force"], ["pause"],
                 ["unpause"], ["retry"], ["events"]):
        def run(ident):
            args = [a.replace("TASK", ident + "/hidden-task") for a in verb]
            if "TASK" not in verb:
                args.append(ident)
            r = weir.cli(*args, uid=BOB)
            return (r.returncode, r.stdout.replace(ident, "ID"),
                    r.stderr.replace(ident, "ID"))
        mine, other = run(wid), run(missing)
        tap.ok(mine == other and mine[0] in (4, 0) and
               not leaks("".join(mine[1:]).encode(), b"ID/hidden-task"),
               f"weir {' '.join(verb)}: as if it were not there", mine, other)
    for verb in (["ps", "-a"], ["top", "--once"], ["tenant", "ls"],
                 ["token", "ls"], ["events"]):
        r = weir.cli(*verb, uid=BOB)
        tap.ok(not leaks((r.stdout + r.stderr).encode()) and
               not re.search(rf"\b{wid}\b", r.stdout),
               f"weir {' '.join(verb)}: shows nothing of it",
               r.stdout, r.stderr)


def tokens(tap, weir, alice, bob, wid, missing):
    """A token reaches no further than its tenant, and another tenant's token
    can be neither seen nor revoked.
    """
    r = alice.post("/v1/tokens", {"name": "red-token", "role": "user"})
    tap.equal(r.status, 201, "token: a user makes one for itself")
    red = r.json
    r = bob.post("/v1/tokens", {"name": "blue", "role": "user"})
    tap.equal(r.status, 201, "token: so does the other")
    blue = r.json
    a = bob.call("DELETE", f"/v1/tokens/{red['id']}")
    b = bob.call("DELETE", "/v1/tokens/ffffffffffff")
    tap.ok(a.status == b.status == 404 and
           a.body.replace(red["id"].encode(), b"ID") ==
           b.body.replace(b"ffffffffffff", b"ID"),
           "token: another's cannot be revoked", a, b)
    r = bob.post("/v1/tokens", {"name": "up", "role": "operator"})
    tap.ok(r.status in (403, 422), "token: no role above one's own", r)
    r = bob.post("/v1/tokens", {"name": "over", "role": "user",
                                "tenant": "red-team"})
    tap.ok(r.status in (403, 404), "token: none for another's tenant", r)
    r = bob.get("/v1/tokens")
    tap.ok(red["id"].encode() not in r.body, "token: another's does not show",
           r)
    tap.ok(blue["token"].rpartition("_")[2].encode() not in r.body,
           "token: its secret is shown once", r)
    return blue


def over_tls(tap, weir, tls, blue, wid):
    """The other tenant's token, over the network."""
    client = Client(weir.socket, token=blue["token"], tls=tls)
    compare(tap, "bob's token", client, wid, "w999999")
    lists(tap, "bob's token", client, wid)
    guess(tap, "bob's token", client)
    secret = blue["token"]
    for text, token in (("none", None), ("no such", "weir_" + "0" * 12 + "_" +
                                         "0" * 64),
                        ("a wrong secret", secret[:-1] + ("0" if secret[-1] !=
                                                        "0" else "1"))):
        r = Client(weir.socket, token=token, tls=tls).get(
            f"/v1/workloads/{wid}")
        tap.ok(r.status == 401 and not leaks(r.body),
               f"a token that is wrong ({text}) is refused", r)


def audit(tap, weir, before):
    """Refusals are in the journal, with who; the one refused sees none."""
    def denied():
        events = weir.client.events(since=before, type="access.denied")
        return events if any(e["who"] == f"uid:{BOB}" for e in events) else []
    events = until(denied, "refusals in the journal")
    tap.ok(events, f"audit: {len(events)} refusals of uid {BOB} are in the "
           "journal")
    tap.ok(all("data" in e and e["data"].get("what") for e in events),
           "audit: each says what was asked for", events[:2])


def with_root(tap):
    with Weir() as weir:
        port, cert, weir.args = weirtest.listener(weir.folder)
        weir.start()
        tenants(weir)
        alice = Client(weir.socket, uid=ALICE)
        bob = Client(weir.socket, uid=BOB)
        wid = alice.submit(WORK, "common-key").json["id"]
        alice.wait(wid, "running")
        until(lambda: b"secret-text" in alice.get(
            f"/v1/workloads/{wid}/tasks/hidden-task/log").body, "its log")
        uids = {os.stat(f"/proc/{p.pid}").st_uid
                for p in weir.processes("task")}
        tap.equal(uids, {ALICE}, "a task runs as the user who submitted it")
        before = weir.client.cursor()

        compare(tap, "bob", bob, wid, "w999999")
        lists(tap, "bob", bob, wid)
        r = bob.submit(OTHER, "common-key")
        tap.ok(r.status == 201 and r.json["id"] != wid,
               "bob: another's idempotency key is not his", r)
        bob.post(f"/v1/workloads/{r.json['id']}/abort", {"force": True})
        bob.wait(r.json["id"])
        watch(tap, "bob", bob, weir, wid)
        cli(tap, weir, wid, "w999999")
        blue = tokens(tap, weir, alice, bob, wid, "w999999")
        guess(tap, "bob", bob)
        over_tls(tap, weir, (port, cert), blue, wid)
        audit(tap, weir, before)

        stranger = Client(weir.socket, uid=CAROL)
        for method, path, body in reaches(wid):
            r = stranger.call(method, path, body)
            tap.ok(r.status == 403 and not leaks(r.body),
                   f"a member of no tenant: {method} "
                   f"{path.replace(wid, 'ID')} is refused", r)
        hint = stranger.get("/v1/workloads").json["detail"]
        tap.ok(f"--add-member uid:{CAROL}'" in hint,
               "and told what to ask for, which takes nothing from others",
               hint)
        tap.ok(blue["token"].startswith("weir_"), "a token has its form")
        tap.equal(alice.need("GET", f"/v1/workloads/{wid}")["state"],
                  "running", "after all that it still runs")
        alice.post(f"/v1/workloads/{wid}/abort", {"force": True})
        tap.equal(alice.wait(wid)["outcome"], "aborted",
                  "its owner can end it")
        tap.none(weir.faults(), "nothing in the log that no run may have")


def without_root(tap):
    with Weir() as weir:
        weir.start()
        r = weir.client.call("PUT", "/v1/tenants/other",
                             {"members": ["uid:61001"]})
        tap.ok(r.status in (403, 409) and b"root" in r.body,
               "without root a further tenant is refused, with the reason", r)
        tap.equal(os.stat(weir.socket).st_mode & 0o077, 0,
                  "without root the socket is its owner's alone")
        wid = weir.client.submit({"weir": 1, "kind": "job", "name": "mine",
                                  "run": "id -u", "cpus": 0.01}).json["id"]
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "without root its own user is served")
        text = weir.client.get(f"/v1/workloads/{wid}/tasks/mine/log").body
        tap.equal(text, f"{os.getuid()}\n".encode(), "as that user")
        tap.skip("two tenants", "two users need root")


def without_root_as_root(tap):
    """Root tries the single-user rules as another user."""
    with Weir(uid=ALICE) as weir:
        weir.start()
        mine = Client(weir.socket, uid=ALICE)
        r = mine.call("PUT", "/v1/tenants/other", {"members": ["uid:61002"]})
        tap.ok(r.status in (403, 409) and b"root" in r.body,
               "started without root, a further tenant is refused, with the "
               "reason", r)
        tap.equal(os.stat(weir.socket).st_mode & 0o077, 0,
                  "started without root, the socket is its owner's alone")
        wid = mine.submit({"weir": 1, "kind": "job", "name": "mine",
                           "run": "id -u", "cpus": 0.01}).json["id"]
        tap.equal(mine.wait(wid)["outcome"], "succeeded",
                  "started without root, its own user is served")
        r = mine.call("GET", f"/v1/workloads/{wid}/tasks/mine/log")
        tap.equal(r.body, f"{ALICE}\n".encode(), "as that user")


def run(tap):
    if os.geteuid():
        without_root(tap)
        return
    with_root(tap)
    without_root_as_root(tap)


if __name__ == "__main__":
    weirtest.main(run)

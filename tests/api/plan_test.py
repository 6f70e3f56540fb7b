#!/usr/bin/env python3
"""What operators say to the plan: policy, windows, quotas, budgets, cost,
priorities, single tasks and devices."""
import time

from apitest import JOB, ROOT, Server, Tap, until

POLICY = """weir: 1
kind: policy
patience: 1h
price_hour: 3600
"""
PIPELINE = """weir: 1
kind: pipeline
tasks:
  a: {run: "true", gpus: 1}
  b: {run: "true", gpus: 1, needs: a}
"""


def finish(server, wid):
    """Abort it; whatever it holds is given back."""
    server.admin.need("POST", f"/v1/workloads/{wid}/abort", want=202)
    for t in server.admin.tasks(wid):
        if t["state"] in ("starting", "running", "ending"):
            server.do(f"end {wid[1:]} {t['index']} 0 0")
    server.admin.wait(wid)


def policy(tap, server):
    c = server.admin
    r = c.get("/v1/policy")
    tap.ok(r.status == 200 and r.json["version"] == 0 and
           r.json["policy"]["patience"] == "10m" and "who" not in r.json,
           "without one, the defaults", r)
    fresh = r.json["policy"]
    r = c.call("PUT", "/v1/policy?dry_run=1", POLICY)
    want = [{"field": "patience", "from": "10m", "to": "1h"},
            {"field": "price_hour", "from": 0, "to": 3600}]
    tap.ok(r.status == 200 and r.json["changes"] == want and
           r.json["dry_run"] and r.json["version"] == 0,
           "a try says what would change", r)
    tap.equal(c.get("/v1/policy").json["policy"], fresh, "and changes nothing")
    r = c.call("PUT", "/v1/policy", POLICY)
    tap.ok(r.status == 200 and r.json["version"] == 1 and
           r.json["changes"] == want and not r.json["dry_run"] and
           r.json["policy"]["patience"] == "1h", "set", r)
    r = c.call("PUT", "/v1/policy", POLICY)
    tap.ok(r.status == 200 and r.json["version"] == 1 and
           r.json["changes"] == [], "the same again is nothing new", r)
    r = c.call("PUT", "/v1/policy?file=p.yaml",
               "weir: 1\nkind: policy\npatiense: 1h\nquantile: 7\n")
    tap.ok(r.status == 422 and [
        (p["file"], p["line"], p["column"], p["field"])
        for p in r.json["problems"]] == [
            ("p.yaml", 3, 1, "patiense"), ("p.yaml", 4, 11, "quantile")] and
        "did you mean 'patience'" in r.json["problems"][0]["text"],
        "all that is wrong with one, with its place: 422", r)
    for name in ("default", "calm", "busy"):
        with open(f"{ROOT}/examples/policy/{name}.yaml",
                  encoding="ascii") as f:
            tap.equal(c.call("PUT", "/v1/policy", f.read()).status, 200,
                      f"examples/policy/{name}.yaml is set")
    h = c.get("/v1/policy/history").json["items"]
    tap.ok([v["version"] for v in h] == [4, 3, 2, 1] and
           h[3]["changes"] == want and h[0]["who"].startswith("uid:") and
           h[2]["changes"][0] == {"field": "patience", "from": "1h",
                                  "to": "10m"},
           "the history, newest first, with what each changed", h)
    server.do("trouble it is broken")
    tap.equal(c.call("PUT", "/v1/policy", POLICY).status, 503,
              "not while writes are refused")
    server.do("trouble")
    before = c.get("/v1/policy").json
    server.end()
    server.start()
    c = server.admin
    tap.equal(c.get("/v1/policy").json, before, "a restart keeps it")
    user = server.token("user")
    tap.ok(user.get("/v1/policy").status == 200 and
           user.call("PUT", "/v1/policy", POLICY).status == 403,
           "users see it and do not set it")
    events = [e for e in c.events(type="policy.set")]
    tap.ok(len(events) == 4 and all(e["who"] for e in events),
           "the journal says who", events)


def stages(tap, server):
    """Priority and pause, of all or of one task."""
    c = server.admin
    c.need("POST", "/v1/nodes/box/drain")
    wid = c.call("POST", "/v1/workloads", PIPELINE).json["id"]
    base = f"/v1/workloads/{wid}"
    r = c.post(base + "/prioritise", {"priority": 7})
    tap.ok(r.status == 200 and r.json["priority"] == 7, "prioritise", r)
    r = c.post(base + "/prioritise", {"priority": -3, "task": "b"})
    tap.ok(r.status == 200 and r.json["priority"] == 7 and
           c.get(base + "/tasks/b").json["priority"] == -3 and
           "priority" not in c.get(base + "/tasks/a").json,
           "one task alone", r)
    for body, status in (({}, 400), ({"priority": 1001}, 400),
                         ({"priority": "high"}, 400),
                         ({"priority": 1, "task": "nope"}, 404)):
        tap.equal(c.post(base + "/prioritise", body).status, status,
                  f"prioritise {body}: {status}")
    r = c.post(base + "/pause", {"task": "a"})
    tap.ok(r.status == 200 and not r.json["paused"] and
           c.get(base + "/tasks/a").json["paused"], "pause of one task", r)
    tap.equal(c.post(base + "/pause", {"task": "a"}).status, 200,
              "again: 200")
    c.need("POST", "/v1/nodes/box/undrain")
    tap.equal(c.get(base + "/tasks/a").json["why"]["code"], "paused",
              "it does not start")
    c.need("POST", base + "/unpause", {"task": "a"})
    until(lambda: c.get(base + "/tasks/a").json["state"] == "starting",
          "it starts after unpause")
    server.do(f"claim {wid[1:]} 0 0")
    for said in ('{"progress":0.5,"metrics":{"loss":2}}',
                 '{"metrics":{"loss":1}}'):
        server.do(f"progress {wid[1:]} 0 0 {said}")
    p = c.get(base + "/tasks/a").json["progress"]
    tap.ok(p["value"] == 0.5 and p["metrics"] == {"loss": 1} and
           [h[1:] for h in p["history"]] == [[0.5, {"loss": 2}],
                                             [None, {"loss": 1}]],
           "what it says about itself is kept", p)
    other = server.token("user", "theirs")
    bad = [v for v in ("prioritise", "pause", "unpause")
           if other.post(f"{base}/{v}", {"priority": 1} if v == "prioritise"
                         else {}).status != 404]
    tap.equal(bad, [], "others' workloads are not there")
    finish(server, wid)


def devices(tap, server):
    c = server.admin
    r = c.post("/v1/nodes/box/drain", {"device": 1})
    tap.equal((r.status, r.json),
              (200, {"node": "box", "device": 1, "drained": True}),
              "drain of one device")
    d = c.get("/v1/pools/local").json["nodes"][0]
    tap.ok([x.get("drained", False) for x in d["devices"]] ==
           [False, True, False, False] and not d["drained"],
           "the pool shows it", d)
    wid = c.submit(dict(JOB, gpus=4)).json["id"]
    why = c.get(f"/v1/workloads/{wid}/tasks/job").json["why"]
    tap.ok(why["code"] in ("drained", "devices"), "it is not used", why)
    tap.equal(c.post("/v1/nodes/box/drain", {"device": 1}).status, 200,
              "again: 200")
    tap.equal(c.post("/v1/nodes/box/drain", {"device": 9}).status, 404,
              "a device that is not there: 404")
    tap.equal(c.post("/v1/nodes/box/drain", {"device": -1}).status, 400,
              "nor can be: 400")
    tap.equal(c.post("/v1/nodes/box/undrain", {"device": 1}).json["drained"],
              False, "undrain")
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "then it starts")
    finish(server, wid)


def windows(tap, server):
    c = server.admin
    body = {"nodes": ["box"], "to": "2100-01-01T00:00:00Z",
            "from": "2099-01-01T00:00:00Z", "tenant": "ours"}
    r = c.call("PUT", "/v1/windows/demo", body)
    tap.ok(r.status == 201 and r.json["tenant"] == "ours" and
           r.json["nodes"] == ["box"] and "_" not in r.json and
           r.json["to"].startswith("2100-01-01"), "a new window: 201", r)
    r = c.call("PUT", "/v1/windows/demo", dict(body, tenant="theirs"))
    tap.ok(r.status == 200 and r.json["tenant"] == "theirs", "changed: 200",
           r)
    tap.equal([w["name"] for w in c.get("/v1/windows").json["items"]],
              ["demo"], "listed")
    ours = server.token("user", "ours")
    seen = ours.get("/v1/windows").json["items"]
    tap.equal((seen[0]["nodes"], seen[0]["tenant"]), (["box"], "another"),
              "others see where and when, not for whom")
    tap.equal(ours.call("PUT", "/v1/windows/mine", body).status, 403,
              "users reserve nothing")
    for change, status in (({"nodes": []}, 422), ({"nodes": ["nope"]}, 404),
                           ({"nodes": ["box", "box"]}, 422),
                           ({"to": "soon"}, 422), ({"tenant": "nope"}, 404),
                           ({"to": "2001-01-01T00:00:00Z"}, 422),
                           ({"form": "x"}, 400)):
        tap.equal(c.call("PUT", "/v1/windows/x", {**body, **change}).status,
                  status, f"a window with {change}: {status}")
    for name in (".x", "x" * 64):
        tap.equal(c.call("PUT", f"/v1/windows/{name}", body).status, 422,
                  "a name that cannot be: 422")
    c.need("DELETE", "/v1/windows/demo", want=204)
    r = c.call("PUT", "/v1/windows/now", {
        "nodes": ["box"], "to": "2100-01-01T00:00:00Z"})
    tap.ok(r.status == 201 and "tenant" not in r.json, "one for nobody", r)
    wid = c.submit(dict(JOB, gpus=1)).json["id"]
    why = c.get(f"/v1/workloads/{wid}/tasks/job").json["why"]
    tap.equal(why["code"], "window", "nothing starts in it")
    tap.equal(c.call("DELETE", "/v1/windows/now").status, 204, "removed: 204")
    tap.equal(c.call("DELETE", "/v1/windows/now").status, 404, "again: 404")
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "then it starts")
    finish(server, wid)


def tenants(tap, server):
    c = server.admin
    r = c.call("PUT", "/v1/tenants/ours", {
        "quota": 1.5, "parent": "theirs", "weight": 3, "budget": {
            "amount": 100, "unit": "gpu_hours", "period": "month"}})
    tap.ok(r.status == 200 and r.json["quota"] == 1.5 and
           r.json["parent"] == "theirs" and r.json["budget"]["amount"] == 100
           and r.json["budget"]["unit"] == "gpu_hours" and
           r.json["budget"]["period_s"] == 30 * 86400,
           "quota, parent and budget", r)
    tap.equal(c.call("PUT", "/v1/tenants/theirs", {"parent": "ours"}).status,
              400, "no tenant is above itself")
    tap.equal(c.call("DELETE", "/v1/tenants/theirs").status, 409,
              "one that has others below it stays")
    for body, status in (({"quota": -1}, 400), ({"parent": "nope"}, 404),
                         ({"budget": {"amount": 1}}, 400),
                         ({"budget": {"amount": 1, "unit": "euro",
                                      "period": "month"}}, 400),
                         ({"budget": {"amount": 0, "unit": "money",
                                      "period": "month"}}, 400),
                         ({"budget": {"amount": 1, "unit": "money",
                                      "period": "moon"}}, 400)):
        tap.equal(c.call("PUT", "/v1/tenants/ours", body).status, status,
                  f"tenant {body}: {status}")
    operator = server.token("operator")
    tap.equal([operator.call("PUT", "/v1/tenants/ours", b).status
               for b in ({"quota": 1}, {"budget": None}, {"max_gpus": 3},
                         {"members": []}, {"parent": ""})],
              [200, 200, 200, 403, 403],
              "operators set quota, budget and limits, not who belongs where")
    tap.equal(operator.call("PUT", "/v1/tenants/fresh", {}).status, 403,
              "nor make tenants")
    t = c.need("PUT", "/v1/tenants/ours", {"parent": ""})
    tap.ok("budget" not in t and "parent" not in t and t["quota"] == 1,
           "and both can be taken away", t)


def cost(tap, server):
    c = server.admin
    c.need("PUT", "/v1/policy", POLICY)
    ours = server.token("user", "ours")
    wid = ours.submit(dict(JOB, gpus=1, name="dear")).json["id"]
    until(lambda: c.tasks(wid)[0]["state"] == "starting", "planned")
    server.do(f"claim {wid[1:]} 0 0")
    time.sleep(0.3)
    server.do(f"end {wid[1:]} 0 0 0")
    until(lambda: c.get(f"/v1/workloads/{wid}").json["state"] == "ended",
          "ended")
    w = c.get(f"/v1/workloads/{wid}").json
    tap.ok(w["gpu_seconds"] > 0 and abs(w["cost"] - w["gpu_seconds"]) < 0.01,
           "a device at 3600 an hour costs 1 a second", w)
    items = {i["tenant"]: i for i in c.get("/v1/cost").json["items"]}
    tap.ok(abs(items["ours"]["cost"] - w["cost"]) < 0.001 and
           abs(items["ours"]["gpu_seconds"] - w["gpu_seconds"]) < 0.001,
           "the tenant pays for it", items)
    rows = c.get("/v1/cost", by="workload", tenant="ours").json["items"]
    tap.ok([r["workload"] for r in rows] == [wid] and
           rows[0]["name"] == "dear" and
           abs(rows[0]["cost"] - w["cost"]) < 0.001, "by workload", rows)
    also = [ours.submit(dict(JOB, gpus=64)).json["id"] for _ in range(2)]
    page = c.get("/v1/cost", by="workload", tenant="ours", limit=2).json
    rest = c.get("/v1/cost", by="workload", tenant="ours", limit=2,
                 before=page["next"]).json
    tap.ok([r["workload"] for r in page["items"]] == also[::-1] and
           [r["workload"] for r in rest["items"]] == [wid] and
           "next" not in rest, "page by page", page, rest)
    tap.equal(c.get("/v1/cost", before=wid).status, 422,
              "tenants have no pages")
    for w64 in also:
        ours.need("POST", f"/v1/workloads/{w64}/abort", {}, want=202)
    rows = c.get("/v1/cost", since="1h", tenant="ours").json["items"]
    tap.ok(rows[0]["workloads"] == 3 and
           abs(rows[0]["cost"] - w["cost"]) < 0.001, "of the last hour", rows)
    tap.equal(c.get("/v1/cost", since="2100-01-01T00:00:00Z",
                    tenant="ours").json["items"], [], "and of none")
    tap.equal(c.get("/v1/cost", since="soon").status, 422,
              "a time that is none: 422")
    theirs = server.token("user", "theirs")
    tap.equal({i["tenant"] for i in theirs.get("/v1/cost").json["items"]},
              {"theirs"}, "one sees one's own")
    tap.equal(theirs.get("/v1/cost", by="workload").json["items"], [],
              "and no workload of others")
    tap.equal(theirs.get("/v1/cost", tenant="ours").status, 404,
              "another's tenant is not there")
    m = c.get("/metrics").body.decode()
    tap.ok('weir_tenant_cost_total{tenant="ours"} 0.' in m and
           "weir_policy_version 5" in m and
           'weir_prediction_below{quantile="0.5"}' in m and
           'weir_pool_device_seconds_total{pool="local",model="H100"' in m,
           "metrics have it, too", m[:2000])
    m = theirs.get("/metrics").body.decode()
    tap.ok('tenant="ours"' not in m and 'tenant="theirs"' in m,
           "of one's own tenants alone")
    w = c.get("/v1/waste").json
    tap.ok(len(w["parts"]) == 1 and w["parts"][0]["pool"] == "local" and
           abs(sum(w["cpus"][k] for k in ("used", "waste", "idle_frag",
                                          "idle_nodemand")) - 1) < 1e-6,
           "waste by pool and model, and of CPUs", w)
    tap.equal([t["tenant"] for t in theirs.get("/v1/waste").json["tenants"]],
              ["theirs"], "and of one's own tenants")


def blocked(tap, server):
    """Devices stand idle while one waits for more than are free."""
    c = server.admin

    def idle():
        return {t["tenant"]: t["idle_device_seconds"]
                for t in c.get("/v1/waste").json["tenants"]}

    ours = server.token("user", "ours")
    holds = ours.submit(dict(JOB, gpus=1)).json["id"]
    until(lambda: c.tasks(holds)[0]["state"] == "starting", "planned")
    wid = ours.submit(dict(JOB, gpus=4)).json["id"]
    before = idle()
    until(lambda: idle()["ours"] > before["ours"], "idle time to be counted")
    tap.equal(idle()["theirs"], before["theirs"],
              "idle time counts for who waits alone")
    for w in (wid, holds):
        c.need("POST", f"/v1/workloads/{w}/abort", {}, want=202)
    until(lambda: c.get(f"/v1/workloads/{wid}").json["state"] == "ended",
          "ended")
    after = idle()["ours"]
    m = c.get("/metrics").body.decode()
    tap.ok('weir_tenant_idle_device_seconds_total{tenant="ours"} ' in m,
           "metrics have it", m[:500])
    tap.equal(idle()["ours"], after, "and no longer once nobody waits")


PARTS = [(policy, stages, devices, windows, tenants, cost), (blocked,)]


def main():
    tap = Tap()
    for parts in PARTS:
        with Server() as server:
            for name in ("ours", "theirs"):
                server.admin.need("PUT", f"/v1/tenants/{name}",
                                  {"members": []}, want=201)
            for part in parts:
                part(tap, server)
    return tap.done()


if __name__ == "__main__":
    raise SystemExit(main())

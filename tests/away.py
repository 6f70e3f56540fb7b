#!/usr/bin/env python3
"""Tasks leave their devices and come back, with the real programs and the
stand-in drivers.

Usage: away.py STANDIN_FOLDER
"""
import os
import signal
import sys
import time

import guests
import weirtest
from guests import MIB
from weirtest import Weir, until

STANDIN = os.path.abspath(sys.argv[1])
POLICY = {"weir": 1, "kind": "policy", "min_run": "1s", "suspend_cost": "1s"}


def machine(weir):
    d = guests.Driver(weir.folder, STANDIN)
    d.gpu(0)
    return d.env()


class Jobs(guests.Jobs):
    def __init__(self, weir):
        super().__init__(weir, STANDIN)

    def task(self, wid):
        return self.client.tasks(wid)[0]

    def lease(self, wid):
        t = self.task(wid)
        return t["leases"][0]["state"] if t["leases"] else None

    def reaches(self, wid, state):
        until(lambda: self.lease(wid) == state, f"{wid} to be {state}")

    def suspended(self, wid):
        self.weir.cli("suspend", wid, check=True)
        self.reaches(wid, "suspended")


def types(weir, wid):
    return [e["type"] for e in weir.client.events(workload=wid)
            if e["type"].startswith(("task.", "lease."))]


def free(weir):
    pools = weir.client.need("GET", "/v1/pools")["items"]
    return pools[0]["nodes"][0]["devices"][0]["free"]


def asked(tap, weir, jobs):
    wid = jobs.running("a")
    tap.equal(free(weir), 0, "its device is its own")
    jobs.suspended(wid)
    t = jobs.task(wid)
    tap.ok(t["state"] == "suspended" and t["suspend"]["held"] and
           t["suspend"]["bytes"] >= 128 * MIB, f"it is off: {t['suspend']}")
    tap.equal(free(weir), 1, "its device is free")
    text = weir.cli("why", wid).stdout
    tap.ok("kept suspended by" in text and "weir resume" in text, "why says it")
    tap.ok("suspended" in weir.cli("ps").stdout, "and ps")
    other = jobs.running("b")
    tap.equal(jobs.end("b", other), ("succeeded", 4), "another uses the device")
    tap.equal(jobs.lease(wid), "suspended", "it does not come back by itself")
    weir.cli("resume", wid, check=True)
    jobs.reaches(wid, "active")
    tap.equal(jobs.end("a", wid), ("succeeded", 4), "it goes on, to its end")
    tap.equal(types(weir, wid),
              ["task.planned", "lease.claimed", "task.suspending",
               "lease.suspended", "task.recalled", "task.resuming",
               "lease.resumed", "lease.ended", "task.ended"],
              "in one attempt")


def fault(weir, text):
    path = weir.env["WEIR_STANDIN"] + "/faults"
    with open(path + ".new", "w", encoding="ascii") as f:
        f.write(text)
    os.rename(path + ".new", path)


def kept(tap, weir, jobs):
    """The driver cannot: to leave, and to come back."""
    wid = jobs.running("g")
    fault(weir, "checkpoint=999\n")
    weir.cli("suspend", wid, check=True)
    until(lambda: "lease.kept" in types(weir, wid), "the answer")
    t = jobs.task(wid)
    tap.ok(t["state"] == "running" and jobs.lease(wid) == "active" and
           t["suspend"]["reason"] and "held" not in t["suspend"],
           f"it cannot leave, and runs on: {t['suspend']}")
    tap.ok(t["suspend"]["text"][:40] in weir.cli("show", wid + "/g").stdout,
           "show says why")
    fault(weir, "")
    jobs.suspended(wid)
    fault(weir, "restore=2\n")
    weir.cli("resume", wid, check=True)
    until(lambda: types(weir, wid).count("lease.kept") == 2, "the answer")
    tap.equal(jobs.lease(wid), "suspended", "it cannot come back, and waits")
    fault(weir, "")
    jobs.reaches(wid, "active")
    tap.equal(jobs.end("g", wid), ("succeeded", 4),
              "it does when it can, and ends well")


def killed(tap, weir, jobs):
    """The control plane, as soon as each thing was asked for, and after."""
    wid = jobs.running("c")
    weir.cli("suspend", wid, check=True)
    weir.kill()
    weir.start()
    jobs.reaches(wid, "suspended")
    weir.kill()
    weir.start()
    weir.wait_devices()
    jobs.reaches(wid, "suspended")     # shown, it need not have been on disk
    tap.equal(types(weir, wid).count("task.suspending"), 1,
              "killed twice: it is suspended, asked for once")
    weir.cli("resume", wid, check=True)
    weir.kill()
    weir.start()
    jobs.reaches(wid, "active")
    os.kill(weir.runner().pid, signal.SIGKILL)
    until(weir.runner, "another runner")
    tap.equal(jobs.end("c", wid), ("succeeded", 4), "and goes on to its end")
    tap.equal(types(weir, wid).count("lease.claimed"), 1, "in one attempt")


def ended(tap, weir, jobs):
    wid = jobs.running("d")
    jobs.suspended(wid)
    weir.cli("abort", wid, check=True)
    tap.equal(weir.client.wait(wid)["outcome"], "aborted",
              "told to stop while it is off, it ends")
    tap.equal(free(weir), 1, "and holds nothing")


def gives_way(tap, weir, jobs):
    weir.client.need("PUT", "/v1/policy", POLICY)
    wid = jobs.running("e")
    until(lambda: jobs.task(wid)["state"] == "running", "it runs")
    time.sleep(2)
    other = jobs.running("f", priority=100)
    t = jobs.task(wid)
    tap.ok(t["state"] == "suspended" and t["suspend"]["by"] == f"{other}/f",
           f"one that matters more comes: {t['suspend']}")
    tap.equal(jobs.end("f", other), ("succeeded", 4), "which ends")
    jobs.reaches(wid, "active")
    tap.equal(jobs.end("e", wid), ("succeeded", 4),
              "and the first goes on by itself")


def use(weir, path):
    """What is known once something is."""
    def get():
        return weir.client.need("GET", f"/v1/workloads/{path}").get("use")
    until(get, f"the use of {path}")
    return get()


def grace(weir, text):
    weir.cli("tenant", "set", "default", "--idle-grace", text, check=True)


def idle(tap, weir, jobs):
    """One stops using its device; another gets it; the first wants it back."""
    grace(weir, "1h")                  # whatever this machine takes to look
    wid = jobs.running("h")
    seen = use(weir, f"{wid}/tasks/h")
    tap.ok(seen["grace_seconds"] == 3600 and
           0 < seen["release_in_seconds"] <= 3600, f"countdown: {seen}")
    tap.ok("suspended in" in weir.cli("show", wid + "/h").stdout,
           "show has it, too")
    grace(weir, "3s")
    jobs.reaches(wid, "suspended")
    grace(weir, "none")
    t = jobs.task(wid)
    tap.ok(t["suspend"]["idle"]["kind"] in ("start", "memory") and
           "wanted" not in t["suspend"]["idle"], f"off: {t['suspend']}")
    tap.equal(free(weir), 1, "its device is free")
    tap.ok("\nweir_tasks_idle 1\n" in
           weir.client.get("/metrics").body.decode(), "/metrics counts it")
    tap.ok("did not use its devices for 3s" in weir.cli("why", wid).stdout,
           "why says it")
    other = jobs.running("i")
    with open(jobs.path("h") + ".go", "w", encoding="ascii"):
        pass
    until(lambda: jobs.task(wid)["suspend"]["idle"].get("wanted"),
          "it wants its device")
    time.sleep(1)
    tap.equal((jobs.lines("h"), jobs.lease(wid)), (3, "suspended"),
              "it calls the driver, and waits")
    text = weir.cli("why", wid).stdout
    tap.ok("did not use" not in text and "it was idle" in text,
           "why has its place in line")
    tap.equal(jobs.end("i", other), ("succeeded", 4), "the other ends")
    tap.equal(jobs.end("h", wid), ("succeeded", 4), "it comes back, and ends")
    tap.equal(types(weir, wid),
              ["task.planned", "lease.claimed", "task.suspending",
               "lease.suspended", "task.recalled", "task.resuming",
               "lease.resumed", "lease.ended", "task.ended"],
              "in one attempt")
    e = [e for e in weir.client.events(workload=wid)
         if e["type"] == "task.suspending"][0]
    tap.ok(e["data"]["why"] == "idle" and e["data"]["grace_ms"] == 3000 and
           e["data"]["used_ms"] > 0 and e["data"]["kind"],
           f"the evidence: {e['data']}")


def idle_killed(tap, weir, jobs):
    """The control plane, while one is idle, and while it waits."""
    wid = jobs.running("j", idle={"grace": "2s"})
    jobs.reaches(wid, "suspended")
    weir.kill()
    weir.start()
    weir.wait_devices()
    other = jobs.running("k")
    with open(jobs.path("j") + ".go", "w", encoding="ascii"):
        pass
    until(lambda: jobs.task(wid)["suspend"]["idle"].get("wanted"),
          "it wants its device")
    weir.kill()
    weir.start()
    weir.wait_devices()
    tap.equal(jobs.end("k", other), ("succeeded", 4), "the other ends")
    tap.equal(jobs.end("j", wid), ("succeeded", 4),
              "killed twice: it comes back and ends")


def busy(tap, weir, jobs):
    """A thread that waits for its work uses the device, calls or none."""
    out = jobs.path("m")
    grace(weir, "1h")
    wid = jobs.submit("m",
                      run=f"export WEIR_STANDIN={weir.env['WEIR_STANDIN']}; "
                          "printf 'init\\nuse\\nspin_6000ms\\nsync\\n' | "
                          f"{STANDIN}/guest-link >> {out}")
    until(lambda: use(weir, f"{wid}/tasks/m")["kind"] == "sync",
          "it to wait for its work")
    grace(weir, "2s")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded", "long work ends")
    tap.ok("task.suspending" not in types(weir, wid), "and was left alone")
    grace(weir, "none")


def never(tap, weir, jobs):
    wid = jobs.running("l", idle={"grace": "1s", "release": "never"})
    time.sleep(3)
    seen = use(weir, f"{wid}/tasks/l")
    tap.ok(jobs.lease(wid) == "active" and "grace_seconds" not in seen,
           f"one that does not bear it is left alone: {seen}")
    tap.equal(jobs.end("l", wid), ("succeeded", 4), "and ends")


def run(tap):
    with Weir(devices="auto") as weir:
        weir.env = machine(weir)
        weir.start()
        weir.wait_devices()
        jobs = Jobs(weir)
        asked(tap, weir, jobs)
        kept(tap, weir, jobs)
        killed(tap, weir, jobs)
        ended(tap, weir, jobs)
        idle(tap, weir, jobs)
        idle_killed(tap, weir, jobs)
        busy(tap, weir, jobs)
        never(tap, weir, jobs)
        gives_way(tap, weir, jobs)
        weir.stop()


if __name__ == "__main__":
    weirtest.main(run)

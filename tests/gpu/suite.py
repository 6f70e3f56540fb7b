#!/usr/bin/env python3
"""What Weir does on a real GPU with unmodified PyTorch programs (TAP).

Usage: suite.py [NAME...]; WEIR_BUILD names the folder of the programs.
"""
import os
import signal
import sys
import time

import node
from node import GIB, Node, send, until, weirtest

STEPS = 1500                   # of the training that results are compared of
TESTS = []


def test(f):
    TESTS.append(f)
    return f


def by_suspend(n, wid, task):
    """What asks weir-gpud for a task: its processes, below one."""
    pids = n.pids(wid)
    return {"t": "suspend", "task": task, "pid": min(pids)}


@test
def gate(tap, n):
    """It imports and prepares, and waits without a byte on the device."""
    n.learn()
    first = n.holder("gate")
    wid = n.submit("train", STEPS)
    n.hears(wid, "imported")
    tap.ok(n.staged(wid), "staged while another has the device")
    listed = n.gpud.pids()
    tap.ok(n.pids(wid) and n.pids(wid).isdisjoint(listed),
           "the driver knows no process of it", n.pids(wid), listed)
    tap.ok(n.pids(first) & listed, "and does of the one that has it")
    tap.equal(n.saw(wid, "ready"), [], "it waits")
    n.go("gate")
    until(lambda: n.saw(wid, "ready"), "it goes on")
    took = n.saw(wid, "ready")[0][0] - n.hears(first, "end")[0]
    tap.note(f"ready {took:.3f} s after the other's end")
    outcome, said = n.result(wid)
    tap.equal(outcome, "succeeded", "then it goes on to its end")
    n.solo = said
    tap.ok(len(said) == 1, f"and says {said}")


@test
def limit(tap, n):
    """The framework's own error at the limit, and a neighbour that works."""
    whole = n.gpud.ask(t="inventory")["devices"][0]["memory_bytes"]
    share = round(10 * GIB / whole, 3)
    other = n.submit("train", STEPS, gpus=round(1 - share, 3) - 0.001)
    n.hears(other, "ready")
    wid = n.submit("grab", gpus=share)
    outcome = n.weir.client.wait(wid)["outcome"]
    tap.equal((outcome, [x for _, x in n.saw(wid, "error")]),
              ("succeeded", [["OutOfMemoryError"]]),
              "the framework's own error")
    got, total = (int(n.saw(wid, w)[0][1][0]) for w in ("got", "total"))
    tap.ok(9 * GIB <= got <= 10 * GIB, f"at {got / GIB:.2f} GiB")
    tap.ok(abs(total - 10 * GIB) < GIB / 8,
           f"it was told of {total / GIB:.2f} GiB")
    tap.equal(n.result(other), ("succeeded", n.solo),
              "the neighbour's result is that of a run alone")


@test
def suspend(tap, n):
    """Under load, twice; the result is the same."""
    wid = n.submit("train", 4 * STEPS, 4)
    n.hears(wid, "ready")
    alone = None
    for _ in range(2):
        time.sleep(0.5)
        tap.ok(True, f"suspended in {n.suspend(wid):.2f} s")
        used = n.gpud.sample()["memory_used_bytes"]
        tap.ok(used < GIB, f"{used >> 20} MiB in use meanwhile")
        before = len(n.said(wid))
        time.sleep(0.5)
        tap.equal(len(n.said(wid)), before, "it stands still")
        tap.ok(True, f"resumed in {n.resume(wid):.2f} s")
    outcome, got = n.result(wid)
    alone = n.result(n.submit("train", 4 * STEPS, 4))
    tap.equal((outcome, got), alone, "the same to the bit as alone")


def all_or_none(tap, n, text, *what):
    alone = n.result(n.submit(*what))
    tap.equal(alone[0], "succeeded", f"{text}, alone")
    wid = n.submit(*what)
    n.hears(wid, "step")
    tap.ok(True, f"suspended in {n.suspend(wid):.2f} s")
    used = n.gpud.sample()["memory_used_bytes"]
    tap.ok(used < GIB, f"{used >> 20} MiB in use meanwhile")
    tap.ok(True, f"resumed in {n.resume(wid):.2f} s")
    tap.equal(n.result(wid), alone, "the same to the bit")


@test
def workers(tap, n):
    """A task with DataLoader workers."""
    all_or_none(tap, n, "DataLoader workers", "train", 600, 0, 2)


@test
def ranks(tap, n):
    """Two ranks that talk by gloo."""
    all_or_none(tap, n, "two ranks with gloo", "ranks", 2000)


@test
def slices(tap, n):
    """Two that want the whole device take turns by themselves."""
    head = {"weir": 1, "kind": "policy"}
    n.weir.client.need("PUT", "/v1/policy", {**head, "slice": "2s",
                                             "suspend_cost": "100ms"})
    wids = [n.submit("hold", 300, env={"HOLD_UNTIL": n.flag("slices")})
            for _ in range(2)]

    def left():
        return [e["workload"] for e in n.weir.client.events()
                if e["type"] == "lease.suspended" and e["workload"] in wids]
    until(lambda: min(map(left().count, wids)) >= 2, "their slices", 240)
    order = left()
    tap.ok(all(a != b for a, b in zip(order, order[1:])),
           f"{len(order)} slices, one after the other")
    n.go("slices")
    tap.equal([n.weir.client.wait(w)["outcome"] for w in wids],
              ["succeeded"] * 2, "and both go on to their ends")
    n.weir.client.need("PUT", "/v1/policy", head)


@test
def turns(tap, n):
    """Two whose memory together is more than the device has take turns."""
    whole = n.gpud.ask(t="inventory")["devices"][0]["memory_bytes"]
    sizes = [int(part * whole / GIB) for part in (0.25, 0.8)]
    # The host has memory for the state of the one that leaves, not of both.
    wids = [n.submit("train", STEPS, sizes[0], memory=f"{sizes[0] + 8}Gi")]
    n.hears(wids[0], "step")
    wids.append(n.submit("train", STEPS, sizes[1]))
    tap.ok(True, f"{sizes[0]} GiB suspended in {n.suspend(wids[0]):.1f} s")
    n.hears(wids[1], "step")
    n.asks(wids[0], "resume")
    for wid in wids:
        outcome, said = n.result(wid)
        tap.ok(outcome == "succeeded" and said[0][0] == n.solo[0][0],
               f"{sum(sizes)} GiB of {whole / GIB:.0f}: as alone", outcome,
               said, *n.log(wid).splitlines()[-5:])


@test
def scrub(tap, n):
    """Nothing that a task wrote is there for the next one."""
    for _ in range(2):
        wid = n.submit("scrub", "write", 0.8)
        tap.equal(n.weir.client.wait(wid)["outcome"], "succeeded",
                  f"{n.saw(wid, 'wrote')[0][1][0]} bytes are written")
        wid = n.submit("scrub", "look", 0.95)
        outcome = n.weir.client.wait(wid)["outcome"]
        left, total = map(int, n.saw(wid, "free")[0][1])
        looked, found = map(int, n.saw(wid, "looked")[0][1])
        tap.equal((outcome, found), ("succeeded", 0),
                  f"none of it in {looked / GIB:.1f} GiB")
        tap.ok(total - left < 2 * GIB,
               f"{(total - left) >> 20} MiB of {total >> 20} in use before")


@test
def killed(tap, n):
    """Control plane, runner and weir-gpud are killed; nothing is lost."""
    first = n.holder("killed")
    wid = n.submit("train", STEPS)
    n.hears(wid, "imported")
    pids = n.pids(wid)
    n.weir.kill()
    n.weir.start()
    os.kill(n.weir.runner().pid, signal.SIGKILL)
    until(lambda: n.weir.runner() and n.weir.ready(), "a runner")
    n.weir.wait_devices()
    n.gpud.kill()
    n.gpud.start()
    tap.equal(n.pids(wid), pids, "what is staged stands there")
    n.go("killed")
    n.weir.client.wait(first)
    tap.equal(n.result(wid), ("succeeded", n.solo), "and goes on to its end")
    for wait_s in (0.05, 0.4, 1.2):
        wid = n.submit("train", 4 * STEPS, 4)
        n.hears(wid, "ready")
        with n.gpud.connect() as s:
            send(s, by_suspend(n, wid, "k"))
            time.sleep(wait_s)
            n.gpud.kill()
        n.gpud.start()
        answers = []

        def over():
            answers.append(n.gpud.ask(t="resume", task="k"))
            return answers[-1].get("reason") == "state"
        try:
            until(over, "nothing of it is suspended any more", 40, 0.2)
        except TimeoutError:
            tap.note(answers[-3:])
            tap.none(n.gpud.stuck(), "weir-gpud goes on")
            raise
        tap.equal(n.result(wid)[0], "succeeded",
                  f"weir-gpud killed {wait_s} s into a suspend: it goes on")


def kill_control(n):
    n.weir.kill()
    n.weir.start()
    n.weir.wait_devices()


def kill_runner(n):
    os.kill(n.weir.runner().pid, signal.SIGKILL)
    until(n.weir.runner, "another runner")


def kill_gpud(n):
    n.gpud.kill()
    n.gpud.start()


def gets(n, wid, word, state):
    """It is in that state in the end; asked again if it was kept from it."""
    kept = len(n.events(wid, "lease.kept"))

    def there():
        nonlocal kept
        t = n.task(wid)
        now = len(n.events(wid, "lease.kept"))
        if now > kept and word == "suspend":
            n.asks(wid, word)
        kept = now
        return t["state"] == state and \
            {x["state"] for x in t["leases"]} <= {"active", "suspended"}
    until(there, f"{wid} to be {state}", step=0.1)


@test
def steps(tap, n):
    """Each of the three is killed at each step of a task's way off its device
    and back.
    """
    what = "train", 16 * STEPS, 2
    alone = n.result(n.submit(*what))
    for name, kill in (("control plane", kill_control),
                       ("runner", kill_runner), ("weir-gpud", kill_gpud)):
        wid = n.submit(*what)
        n.hears(wid, "step")
        kill(n)
        before = len(n.said(wid))
        until(lambda: len(n.said(wid)) > before, "it to run on")
        for word, state in (("suspend", "suspended"), ("resume", "running")):
            n.asks(wid, word)
            time.sleep(0.3)
            kill(n)                    # on its way
            gets(n, wid, word, state)
            if state == "suspended":
                kill(n)
                used = n.gpud.sample()["memory_used_bytes"]
                tap.ok(used < GIB, f"{name} killed on the way off: "
                       f"{used >> 20} MiB in use then")
        tap.equal(n.result(wid), alone, f"{name} killed when it runs, goes, "
                  "is off, and comes back: the same to the bit as alone")
        tap.equal(len(n.events(wid, "lease.claimed")), 1, "in one attempt")


@test
def idle(tap, n):
    """An interactive session loses its device and has it at its next
    statement.
    """
    s = node.Session(n, idle={"grace": "3s"})
    s.type("import torch")
    s.type("x = torch.arange(1 << 28, device='cuda', dtype=torch.int32)")
    shown = until(lambda: n.weir.client.need(
        "GET", f"/v1/workloads/{s.wid}/tasks/session").get("use"), "its use")
    tap.ok(shown["grace_seconds"] == 3, f"the countdown is shown: {shown}")
    until(lambda: n.task(s.wid)["state"] == "suspended", "it to be released")
    used = n.gpud.sample()["memory_used_bytes"]
    tap.ok(used < GIB, f"idle: {used >> 20} MiB of its device in use")
    tap.ok("did not use its devices" in n.weir.cli("why", s.wid).stdout,
           "why says it")
    tap.equal(n.weir.client.wait(n.submit("hold", 0))["outcome"],
              "succeeded", "another has the device meanwhile")
    took = s.type("say('sum', x.sum().item())")
    tap.equal(n.saw(s.wid, "sum")[-1][1], [str((1 << 27) * ((1 << 28) - 1))],
              f"the next statement, in {took:.2f} s, finds all it had")
    until(lambda: n.task(s.wid)["state"] == "suspended", "it to be released")
    other = n.holder("idle")
    s.pipe.write("say('last', x[-1].item())\n")
    s.typed += 1
    until(lambda: n.task(s.wid)["suspend"].get("idle", {}).get("wanted"),
          "it to want its device")
    tap.equal(n.saw(s.wid, "last"), [], "while another has it, it waits")
    n.go("idle")
    n.weir.client.wait(other)
    n.hears(s.wid, "last")
    tap.equal(s.end(), "succeeded", "and it ends well")


def run(tap):
    why = node.missing()
    if why:
        tap.skip("a real GPU", why)
        return
    want = sys.argv[1:]
    with Node() as n:
        n.solo = None
        for f in TESTS:
            if want and f.__name__ not in want and f is not gate:
                continue
            begun = time.monotonic()
            tap.note(f"{f.__name__}: {f.__doc__}")
            try:
                f(tap, n)
            except Exception as e:     # the next test runs all the same
                tap.ok(False, f"{f.__name__} ran to its end", repr(e),
                       *n.left())
                n.clear()
            tap.note(f"{f.__name__}: {time.monotonic() - begun:.1f} s")
        n.weir.settled()
        tap.none(n.weir.faults(), "no fault")


if __name__ == "__main__":
    weirtest.main(run)

#!/usr/bin/env python3
"""The checker itself: a whole journal has no problem, a spoilt one has."""
import copy

import weirtest
from journal import Journal, Waste, millis


def at(n):
    return f"2026-01-01T00:00:{n // 1000:02}.{n % 1000:03}Z"


def good():
    """One workload, one task, two ranks, one lost attempt and one good."""
    task = {"workload": "w1", "task": 0}
    grants = [{"rank": 0, "block": "local", "devices": [0], "milli": 500},
              {"rank": 1, "block": "local", "devices": [1, 2],
               "milli": 1000}]
    ends = {"started": at(1000), "ended": at(2500)}
    events = [
        {"type": "workload.submitted", "workload": "w1", "tenant": "red"},
        {"type": "task.planned", "gen": 1, "grants": grants, **task},
        {"type": "lease.claimed", "gen": 1, "rank": 0, **task},
        {"type": "lease.ended", "gen": 1, "rank": 0, "cause": "lost",
         **ends, **task},
        {"type": "lease.ended", "gen": 1, "rank": 1, "cause": "lost",
         **task},
        {"type": "task.planned", "gen": 2, "grants": grants, **task},
        {"type": "lease.claimed", "gen": 2, "rank": 0, **task},
        {"type": "lease.claimed", "gen": 2, "rank": 1, **task},
        {"type": "lease.ended", "gen": 2, "rank": 0, **ends, **task},
        {"type": "lease.ended", "gen": 2, "rank": 1, **ends, **task},
        {"type": "task.ended", "outcome": "succeeded", **task},
        {"type": "workload.ended", "workload": "w1"},
    ]
    return [dict(e, seq=n, time=at(n * 10)) for n, e in enumerate(events, 1)]


def dup(n):
    """A copy of event n, again right after it, numbers in order."""
    def spoil(events):
        events.insert(n, copy.deepcopy(events[n - 1]))
        for i, e in enumerate(events, 1):
            e["seq"] = i
    return spoil


def drop(n):
    def spoil(events):
        del events[n - 1]
        for i, e in enumerate(events, 1):
            e["seq"] = i
    return spoil


def hole(events):
    del events[2]


def back(events):
    events[5]["time"] = at(1)


def old_gen(events):
    events[5]["gen"] = 1


SPOILT = {
    "a submission twice": dup(1), "a claim twice": dup(3),
    "an end twice": dup(4), "a task's end twice": dup(11),
    "a workload's end twice": dup(12), "no end of a lease": drop(10),
    "no end of a task": drop(11), "no end of a workload": drop(12),
    "a lease that was never planned": drop(6), "a number left out": hole,
    "a time before the last": back, "a generation again": old_gen,
    "a workload nobody submitted": drop(1),
}


def waste(tap):
    """Two devices; one is held for 1 s while a pair, then also a half, and
    then nobody waits.
    """
    def ev(time, kind, **fields):
        return {"time": at(time), "type": kind, **fields}
    grant = [{"rank": 0, "block": "b", "devices": [1], "milli": 1000}]
    tasks = {"w1": [dict(gpu_milli=1000, ranks=1, needs=[], when="success")],
             "w2": [dict(gpu_milli=1000, ranks=2, needs=[], when="success")],
             "w3": [dict(gpu_milli=500, ranks=1, needs=[], when="success"),
                    dict(gpu_milli=500, ranks=1, needs=[0],
                         when="success")]}
    w = Waste([
        ev(0, "block.up", block="b", data={"devices": [{}, {}]}),
        ev(100, "workload.submitted", workload="w1"),
        ev(100, "task.planned", workload="w1", task=0, gen=1, grants=grant),
        ev(200, "workload.submitted", workload="w2"),
        ev(500, "workload.submitted", workload="w3"),
        ev(900, "task.ended", workload="w3", task=0, outcome="failed"),
        ev(900, "task.ended", workload="w3", task=1, outcome="skipped"),
        ev(950, "task.retrying", workload="w2", task=0, until=at(1000)),
        ev(1100, "lease.ended", workload="w1", task=0, gen=1),
        ev(1200, "task.ended", workload="w2", task=0, outcome="aborted"),
        ev(2000, "control.started")], tasks)
    tap.equal(w.used, 1000 * 1000, "one device was used for a second")
    # A pair waits beside one free device: 200-500, 900-950, 1000-1100.
    tap.equal(w.idle_frag, 1000 * (300 + 50 + 100), "free, in wrong pieces")
    # A half waits beside it: 500-900; the pair beside two: 1100-1200.
    tap.equal(w.waste, 1000 * 400 + 2000 * 100, "free, and it would fit")


def run(tap):
    waste(tap)
    whole = Journal(good(), {"w1": [250]})
    tap.none(whole.problems({"w1": 1}), "a whole journal has no problem")
    # Three ends with a start: 0.5 + 0.5 + 2 devices for 1.5 s, 0.25 CPU each.
    tap.equal(whole.usage(), {"red": (4500, 1125)},
              "usage is what the ends report")
    tap.equal(millis("1970-01-01T00:00:01.500Z"), 1500, "times are read")
    for text, spoil in SPOILT.items():
        events = good()
        spoil(events)
        tap.ok(Journal(events).problems({"w1": 1}), f"found: {text}")
    tap.ok(whole.problems({"w1": 1, "w2": 1}),
           "found: a workload that is listed and not in the journal")
    tap.ok(whole.problems({"w1": 2}), "found: a task that never ended")


if __name__ == "__main__":
    weirtest.main(run)

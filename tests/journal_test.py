#!/usr/bin/env python3
"""The checker itself: a whole journal has no problem, a spoilt one has."""
import copy

import weirtest
from journal import Journal, millis


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


def run(tap):
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

#!/usr/bin/env python3
"""weir sim run: the small trace of tests/sim against a plain second program,
and, where WEIR_TRACES names them, the published results of Muri and the
anchors of Muri's and Philly's traces.
"""
import csv
import gzip
import html.parser
import json
import os
import re
import subprocess
import tempfile

import weirtest
from weirtest import ROOT, WEIR

HERE = os.path.join(ROOT, "tests", "sim")
TRACES = os.environ.get("WEIR_TRACES", "")
NAMES = {"fifobf": "fifo-backfill", "kstrict": "quota-strict",
         "kbest": "quota-backfill", "kborrow": "quota-borrow"}
# Column of anchors.csv, member of our answer, its factor, what may differ.
COLUMNS = [("avgJCT", "avg_jct_s", 1, 0.1), ("p50JCT", "p50_jct_s", 1, 0.1),
           ("p99JCT", "p99_jct_s", 1, 0.1), ("avgQ", "avg_wait_s", 1, 0.1),
           ("p50Q", "p50_wait_s", 1, 0.1), ("p90Q", "p90_wait_s", 1, 0.1),
           ("p99Q", "p99_wait_s", 1, 0.1), ("p999Q", "p999_wait_s", 1, 0.1),
           (">60s", "waited_over_60s", 100, 0.01),
           ("makespan", "makespan_s", 1, 0.1), ("util", "util", 1, 1e-4),
           ("idle_nodemand", "idle_nodemand", 1, 1e-4),
           ("idle_frag", "idle_frag", 1, 1e-4), ("waste", "waste", 1, 1e-4),
           ("waste_usable", "waste_usable", 1, 1e-4),
           ("ovh", "overhead", 1, 1e-4), ("preempt", "preemptions", 1, 0)]
SLACK = 0.005                          # of a value, beside those


def sim(trace, nodes, policy, *more):
    out = subprocess.run(
        [WEIR, "sim", "run", "--trace", trace, "--nodes", nodes, "--policy",
         policy, "-o", "json", *more],
        capture_output=True, text=True, timeout=300, check=True)
    return json.loads(out.stdout)


# The second program: one event after the other, nodes as a list ---------------

def place(free, gpus, size):
    """Nodes for a gang, least free that fits; None when it does not fit."""
    free, took = list(free), []
    while gpus > 0:
        part = min(gpus, size)
        fits = [(f, i) for i, f in enumerate(free) if f >= part]
        if not fits:
            return None
        i = min(fits)[1]
        free[i] -= part
        gpus -= part
        took.append((i, part))
    return took


def lines(jobs, nodes, size, order, passes):
    """Policies that do not preempt; gives the ends."""
    free, running, waiting = [size] * nodes, [], []
    ends, todo = {}, list(range(len(jobs)))
    while todo or running:
        now = min([jobs[j][0] for j in todo[:1]] + [e for e, _, _ in running])
        for end, j, took in [x for x in running if x[0] <= now]:
            ends[j] = end
            for i, part in took:
                free[i] += part
        running = [x for x in running if x[0] > now]
        while todo and jobs[todo[0]][0] <= now:
            waiting.append(todo.pop(0))
        waiting.sort(key=order)
        for j in list(waiting):
            took = place(free, jobs[j][2], size)
            if took is None:
                if passes:
                    continue
                break
            waiting.remove(j)
            running.append((now + jobs[j][1], j, took))
            for i, part in took:
                free[i] -= part
    return ends


def least_left(jobs, nodes, size, area):
    left = {j: job[1] for j, job in enumerate(jobs)}
    active, running, ends, now = [], [], {}, 0
    todo = list(range(len(jobs)))
    while todo or active:
        at = min([jobs[j][0] for j in todo[:1]] +
                 [now + left[j] for j in running])
        for j in running:
            left[j] -= at - now
        now = at
        for j in [j for j in running if left[j] <= 0]:
            ends[j] = now
            active.remove(j)
        while todo and jobs[todo[0]][0] <= now:
            active.append(todo.pop(0))
        active.sort(key=lambda j: (left[j] * (jobs[j][2] if area else 1), j))
        free, running = [size] * nodes, []
        for j in active:
            took = place(free, jobs[j][2], size)
            if took is not None:
                running.append(j)
                for i, part in took:
                    free[i] -= part
    return ends


def small(tap):
    trace = os.path.join(HERE, "jobs.csv")
    with open(trace) as f:
        jobs = [(int(r["submit_s"]), int(r["duration_s"]), int(r["gpus"]))
                for r in csv.DictReader(f)]
    ends = {
        "fifo": lines(jobs, 5, 8, lambda j: j, False),
        "fifo-backfill": lines(jobs, 5, 8, lambda j: j, True),
        "sjf": lines(jobs, 5, 8, lambda j: (jobs[j][1], j), True),
        "srtf": least_left(jobs, 5, 8, False),
        "srsf": least_left(jobs, 5, 8, True),
    }
    for policy, end in ends.items():
        mean = sum(end[j] - jobs[j][0] for j in end) / len(jobs)
        last = max(end.values()) - jobs[0][0]
        r = sim(trace, "5x8", policy)
        tap.ok(len(end) == len(jobs) and abs(r["avg_jct_s"] - mean) < 1e-6 and
               abs(r["makespan_s"] - last) < 1e-6,
               f"{policy}: {mean:.2f} s on average, {last} s in all", r)
    quotas = os.path.join(HERE, "quotas.csv")
    for policy in ("easy", "las", "quota-strict", "quota-backfill",
                   "quota-borrow"):
        r = sim(trace, "5x8", policy, "--quotas", quotas)
        shares = sum(r[k] for k in ("util", "idle_nodemand", "idle_frag",
                                    "waste"))
        tap.ok(abs(shares - 1) < 1e-9 and r["jobs"] == len(jobs),
               f"{policy}: the four shares are all there is", r)


# What others published and recomputed ----------------------------------------

def muri(tap):
    names = {"SRTF": "srtf", "SRSF": "srsf", "Tiresias_L": "las"}
    with open(os.path.join(TRACES, "muri", "published_results.csv")) as f:
        wanted = [r for r in csv.DictReader(f) if r["policy"] in names and
                  not r["trace"].endswith("_pr")]
    for w in wanted:
        trace = os.path.join(TRACES, "muri", w["trace"] + ".csv")
        r = sim(trace, "8x8", names[w["policy"]], "--muri")
        tap.none([f"{k}: {r[k]} is not {w[k]}"
                  for k in ("avg_jct_s", "makespan_s", "p99_jct_s")
                  if abs(r[k] - float(w[k])) > 0.01],
                 f"Muri {w['trace']}, {w['policy']}: {r['avg_jct_s']:.3f} s")


def anchor(row, philly):
    scenario = row["scenario"]
    policy = NAMES.get(row["policy"], row["policy"])
    if scenario.startswith("A_"):
        trace = os.path.join(TRACES, "muri", scenario[2:] + ".csv")
        return sim(trace, "8x8", policy)
    more = ["--quotas", os.path.join(TRACES, "philly", "vc_quota_512.csv")]
    if scenario == "B4static":
        more.append("--pin")
    if scenario == "B1oh60":
        more += ["--suspend-cost", "60s"]
    nodes = "4x16x8" if scenario.startswith("B4") else "64x8"
    return sim(philly, nodes, policy, *more)


def anchors(tap, folder):
    philly = os.path.join(folder, "philly.csv")
    with gzip.open(os.path.join(TRACES, "philly", "philly_oct.csv.gz")) as f, \
            open(philly, "wb") as out:
        out.write(f.read())
    with open(os.path.join(TRACES, "anchors.csv")) as f:
        rows = list(csv.DictReader(f))
    for row in rows:
        r = anchor(row, philly)
        tap.none([f"{ours}: {r[ours] * factor} is not {row[theirs]}"
                  for theirs, ours, factor, may in COLUMNS
                  if abs(r[ours] * factor - float(row[theirs])) >
                  may + SLACK * float(row[theirs])],
                 f"{row['scenario']}, {row['policy']}: "
                 f"{r['avg_jct_s']:.1f} s, anchor {row['avgJCT']}")


# The plan -----------------------------------------------------------------------

# Philly October 2017, 60 s at each resume, no length known: nodes, where one
# resumes, and what each number may be at most (or, negative, must be at least).
PLAN = [
    ("64x8", "anywhere", {"avg_jct_s": 11440, "p99_wait_s": 9030,
                          "waste": 0.0005, "wr": 0.005, "used": -0.90}),
    ("64x8", "same-node", {"avg_jct_s": 14493}),
    ("4x16x8", "anywhere", {"avg_jct_s": 11670}),
]


def plan(tap, folder):
    for nodes, resume, limits in PLAN:
        r = sim(os.path.join(folder, "philly.csv"), nodes, "weir",
                "--suspend-cost", "60s", "--resume", resume)
        r["used"] = r["util"] - r["overhead"]
        tap.none([f"{k}: {r[k]}, limit {abs(most)}"
                  for k, most in limits.items()
                  if (r[k] > most if most > 0 else r[k] < -most)],
                 f"weir on {nodes}, resume {resume}: {r['avg_jct_s']:.1f} s, "
                 f"p99 wait {r['p99_wait_s']:.0f} s, WR {r['wr']:.4f}")


def small_plan(tap):
    """A trace that the plan plays; nothing is known about lengths."""
    jobs = os.path.join(HERE, "jobs.csv")
    r = sim(jobs, "5x8", "weir", "--suspend-cost", "1s")
    with open(jobs) as f:
        rows = list(csv.DictReader(f))
    longest = max(float(row["duration_s"]) for row in rows)
    total = r["util"] + r["idle_nodemand"] + r["idle_frag"] + r["waste"]
    tap.ok(r["jobs"] == len(rows) and r["makespan_s"] >= longest and
           r["prediction"]["ends"] == len(rows) - 1,
           "weir: every job comes to its end, and is learned from", r)
    tap.ok(abs(total - 1) < 1e-9, "weir: the shares sum to 1", r)
    tap.ok(r["avg_jct_s"] < sim(jobs, "5x8", "fifo")["avg_jct_s"],
           "weir: sooner than in order of arrival")


def models(tap):
    """The files that docs/simulator.md names."""
    folder = os.path.join(ROOT, "examples", "sim")
    command = (os.path.join(folder, "tens.csv"), "1x4:quick+1x4:slow", "weir")
    slow = sim(*command, "--suspend-cost", "60s")
    r = sim(*command, "--suspend-cost", "60s", "--rules",
            os.path.join(folder, "rules.yaml"))
    tap.ok(r["jobs"] == 400 and r["avg_jct_s"] < slow["avg_jct_s"] / 2 and
           r["waste"] > 0.2, "tens.csv: some wait for a quick device", r)


# The report ---------------------------------------------------------------------

class Page(html.parser.HTMLParser):
    """Every tag is closed; nothing is fetched from anywhere."""

    VOID = {"meta"}

    def __init__(self):
        super().__init__()
        self.open, self.faults, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action"):
                self.faults.append(f"{tag} {name}={value}")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")


def report(tap):
    command = [WEIR, "sim", "run", "--trace", os.path.join(HERE, "jobs.csv"),
               "--nodes", "5x8", "--policy", "fifo,las,weir"]
    out = [subprocess.run(command + ["-o", "html"], capture_output=True,
                          text=True, timeout=60, check=True).stdout
           for _ in range(2)]
    tap.ok(out[0] == out[1], "the same report, byte for byte")
    page = Page()
    page.feed(out[0])
    tap.none(page.faults + page.open, "every tag is closed, nothing is fetched")
    tap.ok(not re.search(r"https?:|url\(|@import|\bfetch\(", out[0]),
           "no address in it")
    tap.equal((page.tags.count("svg"), page.tags.count("canvas"),
               page.tags.count("section")), (7, 3, 3),
              "charts of three policies side by side")
    rows = subprocess.run(command + ["-o", "csv"], capture_output=True,
                          text=True, timeout=60, check=True).stdout
    rows = list(csv.DictReader(rows.splitlines()))
    one = sim(os.path.join(HERE, "jobs.csv"), "5x8", "las")
    tap.ok([r["policy"] for r in rows] == ["fifo", "las", "weir"] and
           abs(float(rows[1]["avg_jct_s"]) - one["avg_jct_s"]) < 1e-5,
           "csv: a row each, the same numbers", rows)


def run(tap):
    small(tap)
    small_plan(tap)
    models(tap)
    report(tap)
    if not TRACES:
        tap.skip("Muri's results and the anchors", "WEIR_TRACES is not set")
        return
    muri(tap)
    with tempfile.TemporaryDirectory() as folder:
        anchors(tap, folder)
        plan(tap, folder)


if __name__ == "__main__":
    weirtest.main(run)

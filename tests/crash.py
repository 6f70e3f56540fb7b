#!/usr/bin/env python3
"""kill -9 at random instants, under load, and nothing is lost or done twice.

    tests/crash.py --kills N --victims control|runner|keeper|mixed --seed S
                   --devices gated:4xH100-80GB

While clients submit (with idempotency keys, repeating until answered), abort,
follow logs and watch, a victim is killed again and again.  Then everything is
let finish, and the journal, the lists, the logs and what the tasks themselves
wrote down are held against each other.

A task writes "start LEASE" and "end LEASE" into one file in append mode, each
with one write; LEASE names the generation, so a second start of the same one
shows.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import signal
import threading
import time

import weirtest
from journal import Journal, Waste, number
from weirtest import GONE, Client, Weir, query, until

LINES = 5                              # of a task's log


def script(middle):
    return (f'echo "start $WEIR_LEASE $$" >>"$MARKS"; {middle}; '
            'echo "end $WEIR_LEASE $$" >>"$MARKS"')


def talk(key):
    words = " ".join(f"{key}-{n}" for n in range(LINES))
    return f"printf '%s\\n' {words}"


def said(key):
    return "".join(f"{key}-{n}\n" for n in range(LINES))


class Load:
    """The documents of a run, by a seeded generator."""

    def __init__(self, rng, marks):
        self.rng = rng
        self.env = {"MARKS": marks}

    def task(self, key, middle, **fields):
        return {"run": script(f"{talk(key)}; {middle}"), "cpus": 0.01,
                "env": self.env, "checkpoint": {"grace": "1s"}, **fields}

    def job(self, key, pick):
        pause = f"sleep 0.0{self.rng.randint(0, 9)}"
        kinds = {
            "cpu": dict(middle=pause),
            "gpu": dict(middle=pause, gpus=1),
            "share": dict(middle=pause, gpus=0.25),
            "fail": dict(middle="exit 3"),
            "gang": dict(middle=pause, gpus=1, ranks=2),
            "stray": dict(middle="setsid sleep 600 & sleep 0.02"),
            "sleeper": dict(middle="sleep 600", gpus=0.25),
            "again": dict(middle='[ "$WEIR_ATTEMPT" -ge 2 ]; '
                          'x=$?; [ $x = 0 ] || exit $x',
                          retries={"count": 5, "backoff": "20ms"}),
        }
        return {"kind": "job", **self.task(key, **kinds[pick])}

    def pipeline(self, key):
        quick = f"sleep 0.0{self.rng.randint(0, 5)}"
        return {"kind": "pipeline", "tasks": {
            "first": self.task(key, quick),
            "left": self.task(key, quick, needs="first", gpus=0.5),
            "right": self.task(key, "exit 4", needs="first"),
            "mend": self.task(key, quick, needs="right", when="failure"),
            "never": self.task(key, quick, needs="right"),
            "last": self.task(key, quick, needs=["left", "mend"],
                              when="always")}}

    def document(self, key):
        pick = self.rng.choice(("cpu", "cpu", "gpu", "share", "fail", "gang",
                                "stray", "sleeper", "again", "pipeline"))
        doc = self.pipeline(key) if pick == "pipeline" else self.job(key, pick)
        return {"weir": 1, "name": pick, "labels": {"key": key}, **doc}


class Clients:
    """Everything that happens while the victims die."""

    def __init__(self, weir, seed, marks):
        self.weir = weir
        self.seed = seed
        self.marks = marks
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.acked = {}                # key -> id
        self.docs = {}                 # key -> document
        self.live = set()
        self.seen = []                 # (cursor, type), as the watcher had them
        self.first = weir.client.cursor(0)
        self.last = None               # the cursor it ends at, once known
        self.errors = []
        self.count = collections.Counter()
        self.threads = []

    def bad(self, text):
        with self.lock:
            self.errors.append(text)

    def client(self):
        return Client(self.weir.socket, timeout=20)

    def start(self):
        for n in range(2):
            self.run(self.submits, random.Random(self.seed * 10 + n), n)
        self.run(self.aborts, random.Random(self.seed * 10 + 5))
        self.run(self.follows, random.Random(self.seed * 10 + 6))
        self.run(self.watches)

    def run(self, body, *args):
        def guarded():
            try:
                body(*args)
            except Exception as e:
                self.bad(f"{body.__name__}: {type(e).__name__}: {e}")
        t = threading.Thread(target=guarded, daemon=True)
        t.start()
        self.threads.append(t)

    def join(self):
        for t in self.threads:
            t.join(weirtest.DEADLINE)
            if t.is_alive():
                self.bad("a client hangs")

    # A submission is sent until somebody answers, also after the load's end:
    # what was sent once has to be there once.
    def submit(self, client, key, doc):
        while True:
            with contextlib.suppress(*GONE):
                r = client.submit(doc, key)
                if r.status in (200, 201):
                    return r
                if r.status not in (429, 503):
                    raise RuntimeError(f"submit {key}: {r}")
            time.sleep(0.01)

    def submits(self, rng, n):
        client, load = self.client(), Load(rng, self.marks)
        while not self.stop.is_set():
            if len(self.live) > 40:
                time.sleep(0.01)
                continue
            key = f"k{n}-{self.count[n]}"
            self.count[n] += 1
            doc = load.document(key)
            self.docs[key] = doc
            wid = self.submit(client, key, doc).json["id"]
            with self.lock:
                self.acked[key] = wid
                self.live.add(wid)
            if rng.random() < 0.1:
                again = self.submit(client, key, doc)
                if again.status != 200 or again.json["id"] != wid:
                    self.bad(f"{key} is {wid}, and when repeated {again}")
            time.sleep(rng.uniform(0, 0.03))

    def some(self, rng, live):
        """(key, id) of a live workload, or of one of the newest."""
        with self.lock:
            ids = set(self.live)
            pick = [(k, w) for k, w in self.acked.items() if w in ids] \
                if live else list(self.acked.items())[-60:]
        if not pick:
            time.sleep(0.01)
            return None, None
        return rng.choice(pick)

    def aborts(self, rng):
        client = self.client()
        while not self.stop.is_set():
            key, wid = self.some(rng, True)
            sleeper = key and self.docs[key]["name"] == "sleeper"
            if key and (sleeper or rng.random() < 0.1):
                with contextlib.suppress(*GONE):
                    r = client.post(f"/v1/workloads/{wid}/abort",
                                    {"force": rng.random() < 0.3})
                    if r.status not in (202, 409, 503):
                        self.bad(f"abort {wid}: {r}")
            time.sleep(rng.uniform(0.005, 0.03))

    def follows(self, rng):
        client = self.client()
        while not self.stop.is_set():
            key, wid = self.some(rng, False)
            if not key:
                continue
            task = "left" if self.docs[key]["name"] == "pipeline" else \
                self.docs[key]["name"]
            with contextlib.suppress(*GONE):
                conn, resp = client.stream("GET", query(
                    f"/v1/workloads/{wid}/tasks/{task}/log",
                    follow=None if self.docs[key]["name"] == "sleeper"
                    else 1))
                with contextlib.closing(conn):
                    text = resp.read().decode()
                if resp.status == 200 and not said(key).startswith(text) \
                        or resp.status not in (200, 404, 503):
                    self.bad(f"log of {wid}: {resp.status} {text!r}")
            time.sleep(rng.uniform(0, 0.02))

    # One watcher from the first event to the last, over every restart.  It
    # gives up a silent connection after a second and goes on at its cursor.
    def watches(self):
        client, cursor = Client(self.weir.socket, timeout=1), self.first
        while cursor != self.last:
            with contextlib.suppress(*GONE):
                conn, resp = client.stream("GET", query(
                    "/v1/watch", since=cursor))
                with contextlib.closing(conn):
                    if resp.status not in (200, 503):
                        raise RuntimeError(f"watch: {resp.status}")
                    for cursor in self.read_watch(resp):
                        if cursor == self.last:
                            return
            cursor = self.seen[-1][0] if self.seen else self.first
            time.sleep(0.01)

    def read_watch(self, resp):
        item = {}
        while resp.status == 200:
            line = resp.readline()
            if not line:
                return
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                item[name] = value
                continue
            if "data" in item:
                self.saw(item)
                yield item["id"]
            item = {}

    def saw(self, item):
        self.seen.append((item["id"], item["event"]))
        if item["event"] == "workload.ended":
            with self.lock:
                self.live.discard(json.loads(item["data"])["workload"])


def strike(weir, victim, rng, tap):
    """Kill one; whether there was one to kill."""
    if victim == "control":
        early = weir.kill()
        if early is not None:
            tap.ok(False, f"weir up ended by itself with {early}",
                   weir.tail())
        weir.start(wait=False)
        if rng.random() < 0.7:
            weir.wait_ready()
        return True
    found = weir.processes(victim)
    if not found:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(rng.choice(found).pid, signal.SIGKILL)
        return True
    return False


def storm(weir, opts, rng, tap):
    """The kills, at random instants; how many of each."""
    done = collections.Counter()
    while sum(done.values()) < opts.kills:
        time.sleep(rng.uniform(0, 0.3))
        victim = opts.victims
        if victim == "mixed":
            victim = rng.choice(("control", "runner", "keeper"))
        if strike(weir, victim, rng, tap):
            done[victim] += 1
        total = sum(done.values())
        if total and total % 100 == 0 and opts.kills > 100:
            tap.note(f"{total} kills")
    return done


def check_submissions(tap, clients, items):
    by_key = collections.defaultdict(list)
    for w in items:
        by_key[w["labels"]["key"]].append(w["id"])
    tap.none((f"{key}: acknowledged as {wid}, there: {by_key[key]}"
              for key, wid in clients.acked.items() if by_key[key] != [wid]),
             f"{len(clients.acked)} acknowledged submissions are there once")
    tap.none((f"{key}: {ids}" for key, ids in by_key.items()
              if key not in clients.acked),
             "nothing is there that nobody was told of")


def check_marks(tap, journal, marks):
    """What the tasks wrote down against what the journal says."""
    wrote = {"start": collections.Counter(), "end": collections.Counter()}
    with open(marks) as f:
        for line in f:
            what, lease, _pid = line.split()
            wrote[what][lease.partition("@")[0]] += 1
    starts = wrote["start"]
    tap.ok(starts, f"tasks ran: {sum(starts.values())} starts written down")
    tap.none((f"{lease}: {n} starts" for lease, n in starts.items() if n > 1),
             "at most one process per lease generation")
    ends = {f"{wid}/{task}.{rank}#{gen}": e
            for (wid, task, rank, gen), e in journal.ends()}
    early = {f"{e['workload']}/{e.get('task', 0)}.{g.get('rank', 0)}#{e['gen']}"
             for e in journal.events if e["type"] == "task.staged"
             for g in e["grants"]}
    tap.none(starts.keys() - ends.keys() - early,
             "every process that ran had a lease in the journal, or was to be "
             "ready for one")
    good = {lease for lease, e in ends.items()
            if not e.get("status") and e.get("cause", "none") == "none"}
    tap.none(good - wrote["end"].keys(),
             "every success in the journal is one that ran to its end")


def check_usage(tap, weir, journal):
    for tenant, (gpu_ms, cpu_ms) in journal.usage().items():
        got = weir.client.need("GET", f"/v1/tenants/{tenant}")
        tap.equal((round(got["gpu_seconds"] * 1000),
                   round(got["cpu_seconds"] * 1000)), (gpu_ms, cpu_ms),
                  f"usage of tenant {tenant} equals the reports' sum")


def check_logs(tap, weir, clients, items):
    """Every log of what succeeded is whole."""
    bad, read = [], 0
    for w in items:
        key = w["labels"]["key"]
        if w.get("outcome") != "succeeded" or w["kind"] != "job":
            continue
        text = weir.client.get(
            f"/v1/workloads/{w['id']}/tasks/{w['name']}/log").body.decode()
        read += 1
        if text != said(key):
            bad.append(f"{w['id']}: {text!r}")
    tap.none(bad, f"{read} logs of what succeeded are whole")


def differ(seen, have):
    """Where two lists part."""
    n = next((i for i, (a, b) in enumerate(zip(seen, have)) if a != b),
             min(len(seen), len(have)))
    return (f"{len(seen)} seen of {len(have)}, equal up to {n}",
            f"seen: {seen[n:n + 3]}", f"have: {have[n:n + 3]}")


def check(tap, weir, clients, marks):
    items = weir.client.workloads()
    events = weir.client.events()
    counts = {w["id"]: w["tasks"]["total"] for w in items}
    cpus = {wid: [10] * n for wid, n in counts.items()}
    journal = Journal(events, cpus)
    tap.note(f"{len(items)} workloads, {len(events)} events")
    tap.none(clients.errors, "no client was told anything wrong")
    check_submissions(tap, clients, items)
    tap.none(journal.problems(counts),
             "one end for every lease, task and workload")
    check_marks(tap, journal, marks)
    epoch = clients.first.partition(":")[0]
    have = [(f"{epoch}:{number(e)}", e["type"]) for e in events]
    tap.ok(clients.seen == have,
           "the watcher saw every event once and in order",
           *differ(clients.seen, have))
    check_usage(tap, weir, journal)
    check_waste(tap, weir, clients, events)
    check_logs(tap, weir, clients, items)


def shapes(doc):
    """The tasks of a document as journal.Waste wants them, in its order."""
    tasks = doc.get("tasks") or {doc["name"]: doc}
    index = {name: n for n, name in enumerate(tasks)}
    out = []
    for t in tasks.values():
        needs = t.get("needs", [])
        needs = [needs] if isinstance(needs, str) else needs
        out.append({"gpu_milli": round(t.get("gpus", 0) * 1000),
                    "ranks": t.get("ranks", 1),
                    "needs": [index[n] for n in needs],
                    "when": t.get("when", "success")})
    return out


def check_waste(tap, weir, clients, events):
    """Used, wasted and fragmented device-time, to the millisecond."""
    want = Waste(events, {wid: shapes(clients.docs[key])
                          for key, wid in clients.acked.items()})
    got = weir.client.need("GET", "/v1/waste")
    total = got["total_device_seconds"]
    for name in ("used", "waste", "idle_frag"):
        seconds = getattr(want, name) / 1e6
        tap.ok(abs(got[name] * total - seconds) < 0.01,
               f"{name}: {seconds:.3f} device-seconds by the journal too",
               f"got {got[name] * total:.3f}", got)
    parts = sum(got[k] for k in ("used", "waste", "idle_frag",
                                 "idle_nodemand"))
    tap.ok(abs(parts - 1) < 1e-6, "the shares of device-time sum to 1", got)


def run(tap):
    p = argparse.ArgumentParser()
    p.add_argument("--kills", type=int, default=30)
    p.add_argument("--victims", default="control",
                   choices=("control", "runner", "keeper", "mixed"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--devices", default=weirtest.SIM)
    opts = p.parse_args()
    tap.note(f"seed {opts.seed}, {opts.kills} kills, {opts.victims}")
    rng = random.Random(opts.seed)
    with Weir(opts.devices) as weir:
        marks = os.path.join(weir.folder, "marks")
        weir.start()
        clients = Clients(weir, opts.seed, marks)
        clients.start()
        until(lambda: len(clients.acked) > 5, "the load to begin")
        done = storm(weir, opts, rng, tap)
        tap.ok(sum(done.values()) == opts.kills, f"killed: {dict(done)}")
        weir.wait_ready()
        finish(tap, weir, clients)
        check(tap, weir, clients, marks)
        if opts.devices.startswith("gated:"):
            n = sum(e["type"] == "task.staged" for e in weir.client.events())
            tap.ok(n > 0, f"{n} stood ready meanwhile")
        tap.none(weir.faults(), "nothing in the log that no run may have")
        tap.equal(weir.stop(), 0, "SIGTERM ends it with 0")
        tap.none(weir.wait_alone(), "no runner or child is left behind")


def finish(tap, weir, clients):
    """Stop the load, abort the sleepers, let the rest end by itself."""
    clients.stop.set()
    for t in clients.threads[:3]:
        t.join(weirtest.DEADLINE)
    for key, wid in clients.acked.items():
        if clients.docs[key]["name"] == "sleeper":
            weir.client.post(f"/v1/workloads/{wid}/abort", {"force": True})
    weir.settled(300)
    clients.last = weir.client.cursor()
    clients.join()


if __name__ == "__main__":
    weirtest.main(run)

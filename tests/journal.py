"""Reads a journal (the items of /v1/events) and says what is wrong with it.

Everything is worked out again from the events alone, without the program's
help: who had which lease, how often each ended, and what each tenant used.
"""
import collections
import datetime


def number(event):
    return event["seq"]


def millis(text):
    """Milliseconds of an RFC 3339 time; 0 for none."""
    if not text:
        return 0
    t = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    return round(t.timestamp() * 1000)


class Lease:
    def __init__(self, grant, cpu_milli):
        self.grant = grant
        self.cpu_milli = cpu_milli
        self.claimed = 0
        self.ended = []

    def gpu_milli(self):
        return len(self.grant.get("devices", ())) * self.grant.get("milli", 0)


class Journal:
    """`cpus` is what each rank of each task was granted, as the documents
    said: {workload: [cpu_milli, ...]}.
    """

    def __init__(self, events, cpus=None):
        self.events = events
        self.cpus = cpus or {}
        self.leases = {}               # (workload, task, rank, gen) -> Lease
        self.tenant = {}               # workload -> tenant
        self.task_ends = collections.Counter()
        self.workload_ends = collections.Counter()
        self.found = []
        self._walk()

    def _bad(self, event, text):
        self.found.append(f"event {number(event)} {event['type']}: {text}")

    def _walk(self):
        last, newest = None, collections.Counter()
        for e in self.events:
            if last and number(e) != number(last) + 1:
                self._bad(e, f"follows {number(last)}")
            if last and millis(e["time"]) < millis(last["time"]):
                self._bad(e, "is earlier than the one before")
            last = e
            step = getattr(self, "_" + e["type"].replace(".", "_"), None)
            if step:
                step(e, newest)

    @staticmethod
    def key(e):
        return (e["workload"], e.get("task", 0), e.get("rank", 0),
                e.get("gen", 0))

    def _workload_submitted(self, e, _):
        if e["workload"] in self.tenant:
            self._bad(e, f"{e['workload']} was submitted before")
        self.tenant[e["workload"]] = e.get("tenant", "")

    def _task_planned(self, e, newest):
        wid, task = e["workload"], e.get("task", 0)
        if e["gen"] <= newest[wid, task]:
            self._bad(e, f"generation {e['gen']} after {newest[wid, task]}")
        newest[wid, task] = e["gen"]
        cpus = self.cpus.get(wid)
        for g in e["grants"]:
            k = (wid, task, g.get("rank", 0), e["gen"])
            if k in self.leases:
                self._bad(e, f"{k} was planned before")
            self.leases[k] = Lease(g, cpus[task] if cpus else 0)

    def _lease_claimed(self, e, _):
        lease = self.leases.get(self.key(e))
        if not lease:
            self._bad(e, f"{self.key(e)} was never planned")
            return
        lease.claimed += 1
        if lease.claimed > 1:
            self._bad(e, f"{self.key(e)} was claimed before")
        if lease.ended:
            self._bad(e, f"{self.key(e)} had ended")

    def _lease_ended(self, e, _):
        lease = self.leases.get(self.key(e))
        if not lease:
            self._bad(e, f"{self.key(e)} was never planned")
            return
        lease.ended.append(e)
        if len(lease.ended) > 1:
            self._bad(e, f"{self.key(e)} ended before")

    def _task_ended(self, e, _):
        k = e["workload"], e.get("task", 0)
        self.task_ends[k] += 1
        if self.task_ends[k] > 1:
            self._bad(e, f"{k} ended before")

    def _workload_ended(self, e, _):
        self.workload_ends[e["workload"]] += 1
        if self.workload_ends[e["workload"]] > 1:
            self._bad(e, "ended before")

    def problems(self, tasks):
        """All that is wrong once nothing is live: {workload: tasks} says what
        there has to be.
        """
        found = list(self.found)
        for k, lease in self.leases.items():
            if len(lease.ended) != 1:
                found.append(f"lease {k}: {len(lease.ended)} ends")
        for wid, count in tasks.items():
            if self.workload_ends[wid] != 1:
                found.append(f"{wid}: {self.workload_ends[wid]} ends")
            ends = sum(self.task_ends[wid, t] for t in range(count))
            if ends != count:
                found.append(f"{wid}: {ends} ends of {count} tasks")
        for wid in self.tenant.keys() ^ tasks.keys():
            found.append(f"{wid}: in the journal or in the list, not in both")
        return found

    def usage(self):
        """{tenant: (gpu_ms, cpu_ms)}, each lease rounded down as it ends."""
        used = collections.defaultdict(lambda: [0, 0])
        for k, lease in self.leases.items():
            for e in lease.ended[:1]:
                start = millis(e.get("started"))
                if not start:
                    continue
                took = max(0, millis(e.get("ended")) - start)
                u = used[self.tenant[k[0]]]
                u[0] += lease.gpu_milli() * took // 1000
                u[1] += lease.cpu_milli * took // 1000
        return {t: tuple(u) for t, u in used.items()}

    def ends(self):
        """(lease key, its end) of every lease that ended."""
        for k, lease in self.leases.items():
            for e in lease.ended:
                yield k, e


class Waste:
    """Where device-time went, worked out again from the journal: thousandths
    of a device times milliseconds that were used, that a waiting task would
    have fitted into (waste), and that were free in the wrong pieces
    (idle_frag).

    `tasks` is {workload: [{gpu_milli, ranks, needs, when}, ...]}.  CPUs,
    memory, models and quotas are taken to be no limit, and tasks not to start
    together: so has to be the load that is measured.
    """

    def __init__(self, events, tasks):
        self.specs = tasks
        self.used = self.waste = self.idle_frag = 0
        self.time = None
        self.blocks = {}               # block -> [free thousandths]
        self.ready = {}                # (workload, task) -> not before
        self.outcome = {}              # (workload, task) -> outcome
        self.grants = {}               # (workload, task) -> {rank: grant}
        self.held = 0
        for e in events:
            self._until(millis(e["time"]))
            step = getattr(self, "_" + e["type"].replace(".", "_"), None)
            if step:
                step(e, (e.get("workload"), e.get("task", 0)))

    def _until(self, time):
        """Count up to `time`, with a cut wherever a back-off ends."""
        for cut in sorted({t for t in self.ready.values() if
                           self.time is not None and self.time < t < time}):
            self._span(cut)
        self._span(time)

    def _span(self, time):
        if self.time is not None and time > self.time:
            took = time - self.time
            idle = sum(sum(free) for free in self.blocks.values()) * took
            self.used += self.held * took
            want = self._demand() if idle else None
            if want == "fits":
                self.waste += idle
            elif want == "stuck":
                self.idle_frag += idle
        self.time = max(time, self.time or 0)

    def _demand(self):
        shapes = set()
        for (wid, task), after in self.ready.items():
            t = self.specs[wid][task]
            if t["gpu_milli"] and after <= self.time:
                shapes.add((t["gpu_milli"], t["ranks"]))
        if not shapes:
            return None
        return "fits" if any(self._fits(*s) for s in shapes) else "stuck"

    def _fits(self, milli, ranks):
        free = [f for block in self.blocks.values() for f in block]
        if milli >= 1000:
            return free.count(1000) >= milli // 1000 * ranks
        return sum(f // milli for f in free) >= ranks

    def _hold(self, grant, sign):
        for d in grant.get("devices", ()):
            self.blocks[grant["block"]][d] -= sign * grant["milli"]
            self.held += sign * grant["milli"]

    def _block_up(self, e, _):
        if e["block"] not in self.blocks:
            self.blocks[e["block"]] = [1000] * len(e["data"]["devices"])

    def _workload_submitted(self, e, _):
        for n, t in enumerate(self.specs[e["workload"]]):
            if not t["needs"]:
                self.ready[e["workload"], n] = 0

    def _task_planned(self, e, key):
        self.ready.pop(key, None)
        self.grants[key] = {g.get("rank", 0): g for g in e["grants"]}
        for g in e["grants"]:
            self._hold(g, 1)

    def _lease_ended(self, e, key):
        self._hold(self.grants[key].pop(e.get("rank", 0)), -1)

    def _task_retrying(self, e, key):
        self.ready[key] = millis(e.get("until"))

    def _task_ended(self, e, key):
        self.ready.pop(key, None)
        wid = key[0]
        self.outcome[key] = e.get("outcome", "none")
        for n, t in enumerate(self.specs[wid]):
            if key[1] not in t["needs"] or (wid, n) in self.outcome:
                continue
            needs = [self.outcome.get((wid, k)) for k in t["needs"]]
            if None not in needs and self._runs(t["when"], needs):
                self.ready[wid, n] = 0

    @staticmethod
    def _runs(when, outcomes):
        if when == "always":
            return True
        if when == "failure":
            return any(o in ("failed", "aborted") for o in outcomes)
        return all(o == "succeeded" for o in outcomes)

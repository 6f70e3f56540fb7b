#!/usr/bin/env python3
"""End-to-end numbers of one machine, one JSON object a line.

    bench/e2e.py [--quick] [--tasks N] [rate latency accept memory start idle]

Nothing is judged here: docs/performance.md says what the lines mean.  What is
compared is compared in the same run, on the same machine: xargs always, Slurm
when WEIR_SLURM names a folder with scripts that start one (munge-up.sh,
slurm-up.sh, slurm-down.sh) and its programs are installed.
"""
import argparse
import contextlib
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "tests"))
import weirtest                        # noqa: E402
from figures import quantile, say                  # noqa: E402
from weirtest import Weir, query, until            # noqa: E402


def machine():
    with tempfile.NamedTemporaryFile() as f:
        n, start = 0, time.perf_counter()
        while time.perf_counter() - start < 1:
            os.pwrite(f.fileno(), b"x" * 4096, 0)
            os.fdatasync(f.fileno())
            n += 1
    say("machine", cpus=len(os.sched_getaffinity(0)),
        kernel=platform.release(), load=round(os.getloadavg()[0], 2),
        fdatasync_per_s=n)


# Short tasks ------------------------------------------------------------------

def pipeline(count, cpus):
    """Independent tasks that run `true`."""
    return json.dumps({
        "weir": 1, "kind": "pipeline", "name": "short",
        "defaults": {"argv": ["true"], "cpus": cpus},
        "tasks": {f"t{n}": {} for n in range(count)}})


def weir_rate(count, width):
    """Tasks a second from the submission's first byte to the seen end."""
    cpus = round(max(0.001, len(os.sched_getaffinity(0)) / width), 3)
    with Weir(devices="none") as weir:
        weir.start()
        weir.wait_devices()
        doc = pipeline(count, cpus)
        start = time.perf_counter()
        wid = weir.client.submit(doc).json["id"]
        ended(weir, wid)
        took = time.perf_counter() - start
        w = weir.client.need("GET", f"/v1/workloads/{wid}")
        if w["tasks"]["succeeded"] != count:
            raise RuntimeError(f"not all succeeded: {w}")
    return count / took


def ended(weir, wid):
    """Until it has ended, asked seldom enough to be no load."""
    path = query(f"/v1/workloads/{wid}", fields="state")
    until(lambda: weir.client.need("GET", path)["state"] == "ended",
          f"{wid} to end", 600, 0.02)


def xargs_rate(count, width):
    start = time.perf_counter()
    subprocess.run(["xargs", "-P", str(width), "-n", "1", "true"],
                   input="\n".join(map(str, range(count))), text=True,
                   check=True)
    return count / (time.perf_counter() - start)


def rate(opts):
    best = {}
    for width in (2, 8, 64) if opts.quick else (2, 4, 8, 16, 32, 64):
        got = weir_rate(opts.tasks, width)
        best["weir"] = max(best.get("weir", 0), got)
        say("rate", of="weir", tasks=opts.tasks, width=width,
            per_s=round(got, 1))
    for width in (1, 2, 4, 8, 16, 64):
        got = xargs_rate(opts.tasks, width)
        best["xargs"] = max(best.get("xargs", 0), got)
        say("rate", of="xargs -P", tasks=opts.tasks, width=width,
            per_s=round(got, 1))
    slurm = slurm_rate(1000)
    if slurm:
        best["slurm"] = slurm
        say("rate", of="slurm", tasks=1000, per_s=round(slurm, 1))
    for other in ("xargs", "slurm"):
        if other in best:
            say("ratio", of="weir", to=other,
                ratio=round(best["weir"] / best[other], 3))


def slurm_idle(env):
    """Every node is there; not an error while the controller still starts."""
    r = subprocess.run(["sinfo", "-h", "-o", "%T"], env=env, text=True,
                       capture_output=True, timeout=60, check=False)
    return r.returncode == 0 and set(r.stdout.split()) == {"idle"}


def slurm_rate(count):
    """An array of `true` on Debian's Slurm, tuned as its scripts do it."""
    scripts = os.environ.get("WEIR_SLURM")
    if not scripts:
        say("note", text="no Slurm beside it: WEIR_SLURM is not set")
        return None
    if not shutil.which("slurmctld"):
        say("note", text="no Slurm beside it: slurmctld is not installed")
        return None
    folder = tempfile.mkdtemp(prefix="weir-slurm.")
    os.chmod(folder, 0o755)
    env = dict(os.environ, MSOCK=f"{folder}/m/munge.sock",
               SLURM_CONF=f"{folder}/s/slurm.conf")

    def run(*argv):
        return subprocess.run(argv, env=env, check=True, text=True,
                              capture_output=True, timeout=120).stdout
    try:
        run(f"{scripts}/munge-up.sh", f"{folder}/m")
        run(f"{scripts}/slurm-up.sh", f"{folder}/s", "bench", "17000", "4",
            "4")
        until(lambda: slurm_idle(env), "Slurm's nodes", 60, 0.2)
        start = time.perf_counter()
        run("sbatch", f"--array=0-{count - 1}", "-o", "/dev/null", "--wrap",
            "true")
        until(lambda: not run("squeue", "-h", "-o", "%i"), "Slurm's jobs",
              600, 0.1)
        return count / (time.perf_counter() - start)
    finally:
        subprocess.run([f"{scripts}/slurm-down.sh", f"{folder}/s"], env=env,
                       check=False)
        with contextlib.suppress(OSError, ValueError):
            with open(f"{folder}/m/munged.pid") as f:
                os.kill(int(f.read()), 15)
        shutil.rmtree(folder, ignore_errors=True)


# Latency ----------------------------------------------------------------------

CLOCK = r"""
#include <stdio.h>
#include <time.h>
int main(void)
{
    struct timespec t;

    if (clock_gettime(CLOCK_REALTIME, &t) < 0)
        return 1;
    return printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec) < 0;
}
"""


def latency(opts):
    """From the submission's first byte to the first instruction of main() of
    the task, one at a time, nothing else running.
    """
    with Weir(devices="none") as weir:
        weir.start()
        weir.wait_devices()
        clock = os.path.join(weir.folder, "clock")
        subprocess.run(["cc", "-O1", "-x", "c", "-o", clock, "-"],
                       input=CLOCK, text=True, check=True)
        doc = json.dumps({"weir": 1, "kind": "job", "name": "clock",
                          "argv": [clock], "cpus": 0.1})
        starts, acks = [], []
        for _ in range(100 if opts.quick else 500):
            t0 = time.time_ns()
            r = weir.client.submit(doc)
            acks.append((time.time_ns() - t0) / 1e6)
            wid = r.json["id"]
            ended(weir, wid)
            text = weir.client.get(
                f"/v1/workloads/{wid}/tasks/clock/log").body
            starts.append((int(text) - t0) / 1e6)
    for name, values in (("submit-to-start", starts),
                         ("submit-to-reply", acks)):
        say("latency", of=name, samples=len(values),
            p50_ms=round(quantile(values, 0.5), 2),
            p99_ms=round(quantile(values, 0.99), 2),
            max_ms=round(max(values), 2))


# Size -------------------------------------------------------------------------

def layered(count):
    """Ten layers; the first waits for a device that is not there."""
    tasks, wide = {}, count // 10
    for n in range(count):
        tasks[f"t{n}"] = {"gpus": 1} if n < wide else {"needs": f"t{n - wide}"}
    return {"weir": 1, "kind": "pipeline", "name": "layers",
            "defaults": {"run": "true", "cpus": 0.1}, "tasks": tasks}


def as_yaml(doc):
    lines = ["weir: 1", "kind: pipeline", "name: layers",
             "defaults: {run: 'true', cpus: 0.1}", "tasks:"]
    lines += [f"  {n}: {json.dumps(t)}" for n, t in doc["tasks"].items()]
    return "\n".join(lines)


def accept(opts):
    with Weir(devices="none") as weir:
        weir.start()
        doc = layered(10000)
        for form, text, kind in (
                ("json", json.dumps(doc), "application/json"),
                ("yaml", as_yaml(doc), "application/yaml")):
            took = []
            for _ in range(3 if opts.quick else 10):
                start = time.perf_counter()
                r = weir.client.call("POST", "/v1/workloads", text,
                                     {"Content-Type": kind})
                took.append(time.perf_counter() - start)
                if r.status != 201:
                    raise RuntimeError(f"refused: {r}")
                weir.client.post(f"/v1/workloads/{r.json['id']}/abort", {})
                ended(weir, r.json["id"])
            say("accept", tasks=10000, form=form, bytes=len(text),
                samples=len(took), p50_ms=round(quantile(took, 0.5) * 1e3, 1),
                max_ms=round(max(took) * 1e3, 1))


def resident(pid):
    with open(f"/proc/{pid}/status") as f:
        kb = {k: int(v.split()[0]) for k, _, v in
              (line.partition(":") for line in f) if k.startswith("Vm")}
    return {"rss_mib": round(kb["VmRSS"] / 1024, 1),
            "peak_mib": round(kb["VmHWM"] / 1024, 1)}


def memory(opts):
    """100,000 tasks that are ready and wait for a device."""
    count = 100000
    doc = json.dumps({"weir": 1, "kind": "pipeline", "name": "waiting",
                      "defaults": {"run": "true", "gpus": 1, "cpus": 0.1},
                      "tasks": {f"t{n}": {} for n in range(count)}})
    with Weir(devices="none") as weir:
        weir.start()
        weir.wait_devices()
        say("memory", of="empty", tasks=0, **resident(weir.proc.pid))
        start = time.perf_counter()
        r = weir.client.submit(doc)
        took = time.perf_counter() - start
        if r.status != 201:
            raise RuntimeError(f"refused: {r}")
        path = query(f"/v1/workloads/{r.json['id']}", fields="tasks")
        until(lambda: weir.client.need("GET", path)["tasks"]["waiting"]
              == count, "all to wait")
        say("memory", of="one document of 100,000 waiting tasks", tasks=count,
            accept_ms=round(took * 1e3, 1), **resident(weir.proc.pid))
        weir.stop()
        start = time.perf_counter()
        weir.start()
        took = time.perf_counter() - start
        until(lambda: weir.client.need("GET", path)["tasks"]["waiting"]
              == count, "all to wait")
        say("memory", of="the same after a restart", tasks=count,
            start_ms=round(took * 1e3, 1), **resident(weir.proc.pid))


# Start-up ---------------------------------------------------------------------

def copied(db, wid):
    """[(insert statement, column names, row)] of everything of a workload."""
    out = []
    for table, mine in (("event", "workload"), ("workload", "id"),
                        ("spec", "workload"), ("task", "workload")):
        cursor = db.execute(f"SELECT * FROM {table} WHERE {mine} = ? "
                            "ORDER BY 1", (wid,))
        names = [c[0] for c in cursor.description]
        marks = ", ".join("?" * len(names))
        out += [(f"INSERT INTO {table} VALUES({marks})", names, row)
                for row in cursor.fetchall()]
    return out


def history(weir, events):
    """Fill the store with copies of a job that really ran.

    The rows of that job (its events, its workload, spec and task) are written
    again and again under new numbers, as many times as give `events` events,
    and the head is set to match: what the store would hold after so many jobs.
    """
    wid = int(weir.client.submit({
        "weir": 1, "kind": "job", "name": "once", "run": "true",
        "cpus": 0.1}).json["id"][1:])
    weir.client.wait(f"w{wid}")
    weir.stop()
    db = sqlite3.connect(os.path.join(weir.state, "weir.db"))
    db.execute("PRAGMA synchronous = OFF")
    rows = copied(db, wid)
    seq, last = db.execute("SELECT max(seq), max(time_ms) FROM event"
                           ).fetchone()
    first, ident, old = seq, wid, f'"w{wid}"'
    each = sum("seq" in names for _, names, _ in rows)
    for _ in range(max(0, events - seq) // each):
        ident += 1
        new = f'"w{ident}"'
        for insert, names, row in rows:
            row = dict(zip(names, row))
            row["id" if "id" in row else "workload"] = ident
            row["body"] = row["body"].replace(old, new)
            if "seq" in row:
                seq += 1
                row["body"] = row["body"].replace(
                    f'"seq":{row["seq"]},', f'"seq":{seq},')
                row["seq"], row["time_ms"] = seq, last
            db.execute(insert, list(row.values()))
    head = json.loads(db.execute("SELECT value FROM meta WHERE key = "
                                 "'store.head'").fetchone()[0])
    head["events"] += seq - first
    head["seq"] = seq
    db.execute("UPDATE meta SET value = ? WHERE key = 'store.head'",
               (json.dumps(head),))
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    return seq


def start(opts):
    with Weir(devices="none") as weir:
        weir.start()
        seq = history(weir, 100000 if opts.quick else 1000000)
        size = os.stat(os.path.join(weir.state, "weir.db")).st_size
        took = []
        for _ in range(5):
            begin = time.perf_counter()
            weir.start()
            took.append(time.perf_counter() - begin)
            said = weir.client.need("GET", "/v1/stat")
            if said["seq"] < seq:
                raise RuntimeError(f"not the store that was made: {said}")
            rss = resident(weir.proc.pid)
            weir.stop()
        say("start", events=seq, store_mib=round(size / 2**20),
            first_ms=round(took[0] * 1e3, 1),
            p50_ms=round(quantile(took, 0.5) * 1e3, 1), **rss)


# Idle -------------------------------------------------------------------------

def ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        part = f.read().rpartition(")")[2].split()
    return int(part[11]) + int(part[12])


def idle(opts):
    """CPU time of control plane and runner while nothing happens."""
    seconds = 5 if opts.quick else 20
    with Weir() as weir:
        weir.start()
        weir.wait_devices()
        weir.client.wait(weir.client.submit(
            {"weir": 1, "kind": "job", "name": "once", "run": "true",
             "cpus": 0.1}).json["id"])
        pids = {"control": weir.proc.pid, "runner": weir.runner().pid}
        time.sleep(2)
        before = {k: ticks(p) for k, p in pids.items()}
        time.sleep(seconds)
        hz = os.sysconf("SC_CLK_TCK")
        say("idle", seconds=seconds, **{
            f"{k}_percent": round(100 * (ticks(p) - before[k]) / hz / seconds,
                                  3) for k, p in pids.items()},
            **resident(weir.proc.pid))


PARTS = {f.__name__: f for f in (rate, latency, accept, memory, start, idle)}


def main():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--quick", action="store_true", help="fewer samples")
    p.add_argument("--tasks", type=int, default=2000)
    p.add_argument("parts", nargs="*", metavar="PART",
                   help=f"of {', '.join(PARTS)}; all when none is named")
    opts = p.parse_args()
    unknown = set(opts.parts) - PARTS.keys()
    if unknown:
        p.error(f"no such part: {', '.join(sorted(unknown))}")
    weirtest.as_sigterm_exit()
    machine()
    for name in opts.parts or PARTS:
        PARTS[name](opts)


if __name__ == "__main__":
    main()

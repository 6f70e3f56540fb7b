#!/usr/bin/env python3
"""What goes wrong around Weir: the disk is full, a write is torn, the store is
another's, the clock goes back, a backup is old, somebody else is at it.
"""
import contextlib
import ctypes
import os
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import time

import weirtest
from journal import Journal, millis
from weirtest import Weir, until

ROOT = os.geteuid() == 0
QUICK = {"weir": 1, "kind": "job", "name": "quick", "run": "true",
         "cpus": 0.01}


def lasting(release, then="", **fields):
    """A job that runs until the file `release` is there."""
    return {"weir": 1, "kind": "job", "name": "lasting", "cpus": 0.01,
            "run": f'until [ -e "{release}" ]; do sleep 0.05; done{then}',
            **fields}


def run_lasting(weir, **fields):
    """Start one that lasts: (its id, the file that ends it)."""
    release = os.path.join(weir.folder, "release")
    wid = weir.client.submit(lasting(release, **fields)).json["id"]
    until(lambda: running(weir, wid), "it to run")
    return wid, release


def open_gate(release):
    """What lasts until then may end."""
    open(release, "w").close()


def task(job):
    """The fields of a job that a task of a pipeline has."""
    return {k: v for k, v in job.items()
            if k not in ("weir", "kind", "name")}


def store_file(weir):
    """The database of a state folder."""
    found = [os.path.join(d, f) for d, _, files in os.walk(weir.state)
             for f in files if f.endswith(".db")]
    if len(found) != 1:
        raise RuntimeError(f"no single store in {weir.state}: {found}")
    return found[0]


def refused(weir, *args, uid=None):
    """`weir up` that ought to end by itself: (status, its lines)."""
    user = {} if uid is None else {"user": uid, "group": uid,
                                   "extra_groups": []}
    r = subprocess.run(weir.command(*args, uid=uid),
                       stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, cwd="/", timeout=weirtest.DEADLINE,
                       **user)
    return r.returncode, r.stderr.splitlines()


def one_refusal(tap, status, lines, words, text):
    """Ended with an error, and its last line says why."""
    last = lines[-1] if lines else ""
    tap.ok(status not in (0, None) and status > 0, f"{text}: ends with an "
           "error", f"status {status}", *lines)
    tap.ok(all(w in last for w in words), f"{text}: one line says why",
           f"wanted {words}", *lines)


# The disk ---------------------------------------------------------------------

def fill(path):
    """Take all the room there is."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for size in (65536, 4096, 512, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except OSError:
            pass
    os.close(fd)


def mount_small(folder):
    """A small file system of this process's own; needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    os.makedirs(folder, mode=0o700)
    if libc.mount(b"weir-test", folder.encode(), b"tmpfs", 0,
                  b"size=12m,mode=0700"):
        raise OSError(ctypes.get_errno(), "mount")


def disk_full(tap):
    if not ROOT:
        tap.skip("disk full", "a small file system needs root")
        return
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with Weir(args=["--runners", f"127.0.0.1:{port}"]) as weir:
        mount_small(weir.state)
        try:
            weir.start()
            disk_full_on(tap, weir)
            with socket.create_connection(("127.0.0.1", port)):
                tap.ok(True, "room again: runners elsewhere may dial in again")
        finally:
            if weir.proc and weir.proc.poll() is None:
                weir.kill()
            weirtest.end_all(weir.folder)
            ctypes.CDLL(None).umount2(weir.state.encode(), 2)


def submit_until_refused(weir):
    """Ids of what was acknowledged before the disk was full, and the
    refusal.
    """
    acked = []
    while len(acked) < 20000:
        r = weir.client.submit(dict(QUICK, labels={"n": str(len(acked))},
                                    env={"PAD": "x" * 2000}),
                               f"full-{len(acked)}")
        if r.status != 201:
            return acked, r
        acked.append(r.json["id"])
    raise RuntimeError("the disk does not get full")


def disk_full_on(tap, weir):
    before = weir.client.submit(QUICK).json["id"]
    weir.client.wait(before)
    release = os.path.join(weir.folder, "release")
    lasts = weir.client.submit(lasting(release)).json["id"]
    weir.client.wait(lasts, "running")
    ballast = os.path.join(weir.state, "ballast")
    fill(ballast)
    os.truncate(ballast, os.stat(ballast).st_size - 256 * 1024)
    acked, r = submit_until_refused(weir)
    tap.ok(acked, "disk full: some were taken before it was")
    tap.equal(r.status, 507, "disk full: a submission is refused with 507")
    detail = r.json.get("detail", "")
    tap.ok("full" in detail and "\n" not in detail,
           "disk full: one line that says so", r)
    ready = weir.client.get("/readyz")
    tap.equal(ready.status, 503, "disk full: readyz says 503")
    tap.equal(weir.client.get("/healthz").status, 200,
              "disk full: healthz stays 200")
    tap.equal([weir.cli("ready", *a).returncode for a in ([], ["--live"])],
              [7, 0], "disk full: weir ready says the same to probes")
    tap.equal(weir.client.get(f"/v1/workloads/{before}").status, 200,
              "disk full: reading goes on")
    cli = weir.cli("run", "--detach", "--cpus", "0.01", "--", "true")
    tap.equal(cli.returncode, 7, "disk full: weir run ends with 7")
    tap.ok(len(cli.stderr.splitlines()) == 1 and "full" in cli.stderr,
           "disk full: weir run says it in one line", cli.stderr)
    tap.equal(weir.proc.poll(), None, "disk full: the control plane lives")

    open_gate(release)
    until(lambda: not weir.processes("task"), "the task to end")
    restart_full(tap, weir)
    os.unlink(ballast)
    if weir.proc.poll() is not None:
        weir.start()
    weir.wait_ready()
    tap.equal(weir.client.wait(lasts).get("outcome"), "succeeded",
              "room again: what ended meanwhile has its end")
    after = until(lambda: accepted(weir), "a submission to be taken again")
    tap.equal(weir.client.wait(after).get("outcome"), "succeeded",
              "room again: service resumes by itself")
    weir.settled()
    have = {w["id"] for w in weir.client.workloads()}
    tap.none({before, *acked} - have,
             f"room again: nothing of {len(acked) + 1} is lost")
    check_journal(tap, weir, "room again")


def restart_full(tap, weir):
    """Started on a full disk it says so, and either waits or ends."""
    weir.kill()
    weir.start(wait=False)
    until(lambda: weir.proc.poll() is not None or answers(weir), "a word")
    said = weir.tail(1) if weir.proc.poll() is not None else \
        weir.client.get("/readyz").body.decode()
    tap.ok("full" in said, "disk full: a start on it says so", said)


FULL = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* While a file is there, the disk is full for what the thread that commits
 * writes into the store's log, and for whoever looks whether there is room; a
 * new store can still be made.
 */
static int full(int fd)
{
    const char *mark = getenv("WEIR_TEST_FULL");
    char link[64], path[4096] = "";

    if (!mark || access(mark, F_OK) < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (readlink(link, path, sizeof path - 1) < 0)
        return 0;
    return (strstr(path, ".db-wal") && gettid() != getpid()) ||
           strstr(path, "/state/room");
}

#define FAIL_WHEN_FULL(fd) do { \
    if (full(fd)) { \
        errno = ENOSPC; \
        return -1; \
    } \
} while (0)

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t at)
{
    static ssize_t (*real)(int, const void *, size_t, off64_t);

    if (!real)
        *(void **) &real = dlsym(RTLD_NEXT, "pwrite64");
    FAIL_WHEN_FULL(fd);
    return real(fd, buf, n, at);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return pwrite64(fd, buf, n, at);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    static ssize_t (*real)(int, const void *, size_t);

    if (!real)
        *(void **) &real = dlsym(RTLD_NEXT, "write");
    FAIL_WHEN_FULL(fd);
    return real(fd, buf, n);
}
"""


def start_full(tap):
    """The disk is full when the first events of all are to be written."""
    with Weir() as weir:
        mark = os.path.join(weir.folder, "full")
        open_gate(mark)
        preload(weir, FULL, WEIR_TEST_FULL=mark)
        weir.start(wait=False)
        until(lambda: answers(weir), "a word")
        tap.equal(weir.client.get("/v1/tenants/default").status, 404,
                  "start on a full disk: there is not even a tenant")
        r = weir.client.submit(QUICK)
        tap.ok(r.status == 507 and "full" in r.json["detail"] and
               "\n" not in r.json["detail"],
               "start on a full disk: one line says that it is", r)
        # The block comes while nothing can be written, and is asked for again.
        limits = os.path.join(weir.state, "engine", "local", "limits")
        until(lambda: os.path.exists(limits), "a runner")
        time.sleep(0.2)
        tap.equal(weir.proc.poll(), None, "start on a full disk: it goes on")
        os.unlink(mark)
        weir.wait_ready()
        weir.wait_devices()
        tap.equal(weir.client.get("/v1/tenants/default").status, 200,
                  "room again: the first tenant is there")
        wid = until(lambda: accepted(weir), "a submission to be taken")
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "room again: work runs")
        types = [e["type"] for e in weir.client.events()]
        tap.ok({"control.started", "tenant.set", "block.up"} <= set(types),
               "room again: the journal begins as ever", types)
        check_journal(tap, weir, "start on a full disk")


def answers(weir):
    try:
        return weir.client.get("/readyz").status != 200
    except weirtest.GONE:
        return False


def accepted(weir):
    r = weir.client.submit(QUICK, "after")
    return r.json["id"] if r.status in (200, 201) else None


def check_journal(tap, weir, text):
    counts = {w["id"]: w["tasks"]["total"] for w in weir.client.workloads()}
    tap.none(Journal(weir.client.events()).problems(counts),
             f"{text}: the journal is whole")


# Torn writes ------------------------------------------------------------------

def wal_end(path):
    """(offset after the last frame of this round, frame size, salts)."""
    with open(path, "rb") as f:
        head = f.read(32)
        if len(head) < 32:
            return None
        page = struct.unpack(">I", head[8:12])[0]
        salts, at, frame = head[16:24], 32, page + 24
        while True:
            f.seek(at)
            part = f.read(24)
            if len(part) < 24 or part[8:16] != salts:
                return at, frame, salts
            at += frame


def torn(tap):
    """A transaction that was being written when the power went: its first
    half, with the right salts, stands after the last whole one.
    """
    with Weir() as weir:
        weir.start()
        ids = [weir.client.submit(QUICK).json["id"] for _ in range(30)]
        weir.kill()
        wal = store_file(weir) + "-wal"
        end, frame, salts = wal_end(wal)
        tap.ok(end > 32, "torn: the write-ahead log has frames")
        with open(wal, "r+b") as f:
            f.seek(end)
            f.truncate()
            f.write(struct.pack(">II", 2, 9) + salts + b"\xa5" * (frame // 2))
        weir.start()
        have = {w["id"] for w in weir.client.workloads()}
        tap.none(set(ids) - have,
                 "torn: every acknowledged submission is there")
        weir.settled()
        check_journal(tap, weir, "torn")
        garbled(tap, weir)


def garbled(tap, weir):
    """The last whole transaction is damaged: the store opens at the transaction
    before it, and goes on.
    """
    path = store_file(weir)
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro",
                                            uri=True)) as reader:
        # What a reader holds on to is checkpointed no further: the last
        # transaction stays in the log alone.
        reader.execute("BEGIN")
        reader.execute("SELECT max(seq) FROM event").fetchone()
        for n in range(20):
            weir.client.submit(QUICK, f"garble-{n}")
        weir.kill()
        now = last = weir_last(weir)
        end, frame, _ = wal_end(path + "-wal")
        # Frames after it belong to one that the kill cut off already.
        while now == last and end > 32:
            end -= frame
            with open(path + "-wal", "r+b") as f:
                f.seek(end + 24 + 100)
                f.write(b"\xa5" * 200)
            now = weir_last(weir)
    tap.ok(now < last, "garbled: the last transaction is cut off",
           f"{last} events before, {now} now")
    weir.start()
    weir.settled()
    check_journal(tap, weir, "garbled")
    tap.equal(weir.stop(), 0, "garbled: goes on, and ends with 0")


def weir_last(weir):
    """The last event's number, read from a copy of the store at rest."""
    import shutil
    import tempfile
    path = store_file(weir)
    with tempfile.TemporaryDirectory() as d:
        for end in ("", "-wal"):
            if os.path.exists(path + end):
                shutil.copy(path + end, os.path.join(d, "s.db" + end))
        db = sqlite3.connect(os.path.join(d, "s.db"))
        try:
            return db.execute("SELECT max(seq) FROM event").fetchone()[0]
        finally:
            db.close()


# Stores that are not ours -----------------------------------------------------

def strangers(tap):
    with Weir() as weir:
        weir.start()
        weir.client.wait(weir.client.submit(QUICK).json["id"])
        tap.equal(weir.stop(), 0, "future: ended with 0 before")
        path = store_file(weir)
        db = sqlite3.connect(path)
        was = db.execute("PRAGMA user_version").fetchone()[0]
        db.execute(f"PRAGMA user_version = {was + 41}")
        db.commit()
        db.close()
        status, lines = refused(weir)
        one_refusal(tap, status, lines, [str(was + 41), str(was)],
                    "a store from the future")
        db = sqlite3.connect(path)
        got = db.execute("PRAGMA user_version").fetchone()[0]
        db.close()
        tap.equal(got, was + 41, "a store from the future is left as it is")

    with Weir() as weir:
        weir.start()
        tap.equal(weir.stop(), 0, "damaged: ended with 0 before")
        path = store_file(weir)
        for end in ("-wal", "-shm"):
            if os.path.exists(path + end):
                os.unlink(path + end)
        with open(path, "r+b") as f:
            f.write(b"This is no database of anybody.")
        with open(path, "rb") as f:
            was = f.read()
        status, lines = refused(weir)
        one_refusal(tap, status, lines, [path], "a store that is none")
        with open(path, "rb") as f:
            tap.ok(f.read() == was, "a store that is none is left as it is")


def neighbours(tap):
    with Weir() as weir:
        weir.start()
        status, lines = refused(weir)
        one_refusal(tap, status, lines, [weir.state],
                    "a second weir up on one state folder")
        tap.equal(weir.ready(), True, "the first one goes on")
        weir.stop()

    with Weir() as weir:
        with open(weir.state, "w") as f:
            f.write("a file\n")
        status, lines = refused(weir)
        one_refusal(tap, status, lines, [weir.state],
                    "a state folder that is a file")

    with Weir() as weir:
        os.makedirs(weir.state, 0o700)
        if not ROOT:
            os.chmod(weir.state, 0)
        status, lines = refused(weir, uid=61001 if ROOT else None)
        one_refusal(tap, status, lines, [weir.state],
                    "a state folder that is another's")
        os.chmod(weir.state, 0o700)


# The clock --------------------------------------------------------------------

SHIFT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The wall clock, shifted by the seconds that stand in a file. */
static long shift(void)
{
    char text[32] = "";
    const char *path = getenv("WEIR_TEST_SHIFT");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0)
        return 0;
    if (read(fd, text, sizeof text - 1) < 0)
        text[0] = 0;
    close(fd);
    return strtol(text, NULL, 10);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    static int (*real)(clockid_t, struct timespec *);

    if (!real)
        *(void **) &real = dlsym(RTLD_NEXT, "clock_gettime");
    int rc = real(id, ts);

    if (rc == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ts->tv_sec += shift();
    return rc;
}

int gettimeofday(struct timeval *tv, void *tz)
{
    struct timespec ts;

    (void) tz;
    if (clock_gettime(CLOCK_REALTIME, &ts) < 0)
        return -1;
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}
"""


def preload(weir, source, **env):
    """Have the control plane load this source, built as a library."""
    lib = os.path.join(weir.folder, "preload.so")
    subprocess.run([os.environ.get("CC", "cc").split()[-1], "-shared", "-fPIC",
                    "-O1", "-x", "c", "-o", lib, "-", "-ldl"], input=source,
                   text=True, check=True)
    weir.env = {"LD_PRELOAD": lib, **env,
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") +
                ":verify_asan_link_order=0"}


def set_clock(path, seconds):
    with open(path + ".new", "w") as f:
        f.write(str(seconds))
    os.rename(path + ".new", path)


def clock_back(tap):
    with Weir() as weir:
        offset = os.path.join(weir.folder, "shift")
        set_clock(offset, 7200)
        preload(weir, SHIFT, WEIR_TEST_SHIFT=offset)
        weir.start()
        release = os.path.join(weir.folder, "release")
        wid = weir.client.submit(lasting(release, gpus=1,
                                         timeout="30m")).json["id"]
        weir.client.wait(wid, "running")
        first = millis(weir.client.events()[-1]["time"])
        tap.ok(first > time.time() * 1000 + 3600e3,
               "clock: the shifted clock is what Weir sees")
        set_clock(offset, 0)
        one = weir.client.submit(QUICK).json["id"]
        tap.equal(weir.client.wait(one)["outcome"], "succeeded",
                  "clock two hours back: work goes on")
        again = weir.client.submit(dict(
            QUICK, name="again", run="exit 1",
            retries={"count": 2, "backoff": "50ms"})).json["id"]
        tap.equal(weir.client.wait(again)["outcome"], "failed",
                  "clock two hours back: back-off does not wait two hours")
        slow = weir.client.submit(dict(QUICK, name="slow", run="sleep 600",
                                       timeout="500ms")).json["id"]
        tap.equal(weir.client.wait(slow)["outcome"], "failed",
                  "clock two hours back: a timeout still comes")
        weir.kill()
        weir.start()
        tap.equal(weir.client.need("GET", f"/v1/workloads/{wid}")["state"],
                  "running", "clock back and restart: it still runs")
        open_gate(release)
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "clock back and restart: it ends well")
        check_journal(tap, weir, "clock back (times never decrease)")
        used = weir.client.need("GET", "/v1/tenants/default")["gpu_seconds"]
        tap.ok(0 <= used < 7200, "clock back: usage stays sane", used)


# An older backup --------------------------------------------------------------

def old_backup(tap):
    with Weir() as weir:
        weir.start()
        release = os.path.join(weir.folder, "release")
        done = weir.client.submit(QUICK).json["id"]
        weir.client.wait(done)
        lasts = weir.client.submit({
            "weir": 1, "kind": "pipeline", "name": "lasts", "tasks": {
                "lasting": task(lasting(release, gpus=1)),
                "behind": {"run": "true", "cpus": 0.01, "gpus": 4}}
        }).json["id"]
        until(lambda: running(weir, lasts), "its first task to run")
        waits = weir.client.submit(lasting(release, name="waits", gpus=4,
                                           ranks=2)).json["id"]
        backup = os.path.join(weir.folder, "backup.db")
        r = weir.cli("backup", backup)
        tap.equal(r.returncode, 0, "backup: made while work runs")
        tap.equal(os.stat(backup).st_mode & 0o777, 0o600,
                  "backup: readable by its owner alone")
        cursor = weir.client.cursor()
        newer = weir.client.submit(lasting(release, name="newer")).json["id"]
        weir.client.wait(newer, "running")

        r = weir.cli("restore", backup)
        tap.equal(r.returncode, 7, "restore: refused while a control plane "
                  "has the folder")
        weir.kill()
        r = weir.cli("restore", backup)
        tap.ok(r.returncode == 0, "restore: done once it is down", r.stderr)
        weir.start()
        restored(tap, weir, done, lasts, waits, newer, cursor, release)


def running(weir, wid):
    """The leases of a workload that have a process, "w1/0.0#1@0"."""
    needle = f"WEIR_LEASE={wid}/".encode()
    leases = set()
    for p in weir.processes("task"):
        for word in weirtest.environ(p.pid):
            if word.startswith(needle):
                leases.add(word.decode().partition("=")[2])
    return leases


def alone(weir, wid, epoch):
    """Nothing but one lease of that epoch comes to run."""
    try:
        return until(lambda: [lease.endswith(f"@{epoch}") for lease in
                              running(weir, wid)] == [True], "one lease", 30)
    except TimeoutError:
        return False


def restored(tap, weir, done, lasts, waits, newer, cursor, release):
    get = weir.client.get
    tap.equal(get(f"/v1/workloads/{done}").json["state"], "ended",
              "restored: what had ended has ended")
    tap.equal(get(f"/v1/workloads/{newer}").status, 404,
              "restored: what came after the backup is not there")
    tap.equal(get(f"/v1/workloads/{lasts}").json["state"], "quarantined",
              "restored: what ran is quarantined")
    tap.equal(get("/v1/watch", since=cursor).status, 410,
              "restored: a cursor of the old epoch is refused with 410")
    epoch = int(cursor.partition(":")[0])
    events = weir.client.events(type="store.restored")
    tap.equal([e.get("epoch") for e in events], [epoch + 1],
              "restored: the journal says so, with the new epoch")
    until(lambda: not running(weir, newer),
          "what nobody knows any more to be ended")
    tap.ok(True, "restored: what nobody knows any more is ended")
    why = get(f"/v1/workloads/{lasts}/tasks/behind").json["why"]
    tap.equal(why["code"], "quarantined", "restored: why says quarantined")
    r = weir.cli("release", lasts)
    tap.ok(r.returncode == 0, "restored: an operator releases it", r.stderr)
    weir.client.wait(lasts, "running")
    tap.ok(alone(weir, lasts, epoch + 1),
           "released: it runs again, and what ran before is ended",
           running(weir, lasts))
    open_gate(release)
    tap.equal(weir.client.wait(lasts)["outcome"], "succeeded",
              "released: it succeeds")
    tap.equal(get(f"/v1/workloads/{waits}").json["state"], "quarantined",
              "restored: what had not started is quarantined, too")
    r = weir.cli("release", waits)
    tap.ok(r.returncode == 0, "restored: and released", r.stderr)
    tap.equal(get(f"/v1/workloads/{waits}").json["state"], "queued",
              "released: it is queued again")
    weir.client.post(f"/v1/workloads/{waits}/abort", {})
    gens = [e["gen"] for e in weir.client.events(type="task.planned",
                                                 workload=lasts)
            if e["task"] == 0]
    tap.ok(len(gens) == 2 and gens[1] > gens[0] + 999,
           "released: its generation is past every one of the old epoch",
           gens)


def log_of(weir, wid, name):
    r = weir.client.get(f"/v1/workloads/{wid}/tasks/{name}/log")
    return r.body.decode() if r.status == 200 else ""


@contextlib.contextmanager
def stopped(pid):
    """Stand still: what is ordered stays ordered."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def same_number(tap, weir, before, text):
    """A new workload that gets the number of one that nobody knows any more
    is not shown its log, neither before it has one nor afterwards.
    """
    until(lambda: weir.runner(), "a runner")
    weir.wait_devices()
    with stopped(weir.runner().pid):
        wid = weir.client.submit(dict(QUICK, run="echo mine")).json["id"]
        tap.equal(wid, before, f"{text}: a new one has the other's number")
        until(lambda: attempts(weir, wid), "it to be planned")
        tap.equal(log_of(weir, wid, "quick"), "",
                  f"{text}: it is not shown the other's log")
    weir.client.wait(wid)
    tap.equal(log_of(weir, wid, "quick"), "mine\n",
              f"{text}: and then its own alone")


def numbers(tap):
    with Weir() as weir:
        weir.start()
        weir.client.wait(weir.client.submit(QUICK).json["id"])
        backup = os.path.join(weir.folder, "backup.db")
        weir.cli("backup", backup, check=True)
        other = weir.client.submit(dict(QUICK, run="echo other")).json["id"]
        weir.client.wait(other)
        tap.equal(log_of(weir, other, "quick"), "other\n",
                  "restored: the other one had a log")
        weir.kill()
        weir.cli("restore", backup, check=True)
        weir.start()
        same_number(tap, weir, other, "restored")
        weir.kill()
        weir.start()
        tap.equal(log_of(weir, other, "quick"), "mine\n",
                  "restored: the same after another start")


def lose_store(weir):
    """The store is gone, the rest of the folder is not."""
    path = store_file(weir)
    for end in ("", "-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path + end)


def lost_store(tap):
    """No epoch comes twice, however often the store is lost."""
    seen = []

    def epoch(text):
        now = weir.client.need("GET", "/v1/stat")["epoch"]
        tap.ok(now not in seen, f"lost store: {text}: a new epoch",
               f"{now}, after {seen}")
        seen.append(now)

    with Weir() as weir:
        weir.start()
        epoch("the first day")
        backup = os.path.join(weir.folder, "backup.db")
        weir.cli("backup", backup, check=True)
        done = weir.client.submit(dict(QUICK, run="echo done")).json["id"]
        weir.client.wait(done)
        lasts, release = run_lasting(weir)
        old = running(weir, lasts)
        weir.kill()
        lose_store(weir)
        weir.start()
        epoch("begun without it")
        same_number(tap, weir, done, "lost store")
        until(lambda: not running(weir, lasts) & old, "the old one to be ended")
        again, _ = run_lasting(weir)
        tap.ok(again == lasts and not running(weir, again) & old,
               "lost store: the old one is ended, a new one of its number is "
               "another", old, running(weir, again))
        for turn in "once", "twice":
            weir.kill()
            lose_store(weir)
            weir.cli("restore", backup, check=True)
            weir.start()
            epoch(f"restored {turn}")
        open_gate(release)


# Other devices -----------------------------------------------------------------

def devices(weir):
    """How many devices the block has."""
    pools = weir.client.need("GET", "/v1/pools")["items"]
    return sum(len(n["devices"]) for p in pools for n in p["nodes"])


def restart_with(weir, spec):
    weir.kill()
    weir.devices = spec
    weir.start()


def inventory(tap):
    """Started again with other devices than what runs there was given."""
    with Weir() as weir:
        weir.start()
        wid, release = run_lasting(weir, gpus=2)
        restart_with(weir, "sim:8xH100-80GB")
        until(lambda: devices(weir) == 8, "eight devices")
        tap.equal(weir.client.need("GET", f"/v1/workloads/{wid}")["state"],
                  "running", "more devices: taken at once, and it runs on")
        waits = weir.client.submit(dict(QUICK, name="waits",
                                        gpus=8)).json["id"]
        fits = dict(QUICK, name="fits", gpus=1)
        restart_with(weir, "sim:1xH100-80GB")
        small = weir.client.submit(fits).json["id"]
        until(lambda: "what is not there any more" in weir.tail(),
              "a word about it")
        tap.equal((devices(weir), attempts(weir, small)), (8, []),
                  "fewer than it holds: nothing new starts")
        # Its end is on its way before the block can be what it is now.
        weir.kill()
        open_gate(release)
        until(lambda: not running(weir, wid), "it to end")
        weir.start()
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "fewer than it holds: it ends well")
        weir.client.wait(small)
        tap.equal((devices(weir), attempts(weir, waits)), (1, []),
                  "then nothing starts on devices that are gone")
        weir.client.post(f"/v1/workloads/{waits}/abort", {})
        weir.client.wait(waits)
        again = weir.client.submit(dict(
            fits, run="exit 1",
            retries={"count": 1, "backoff": "1s"})).json["id"]
        until(lambda: weir.client.events(type="task.retrying", workload=again),
              "it to fail once")
        weir.kill()
        weirtest.end_all(weir.folder)  # the block is there late
        time.sleep(1.5)                # longer than it waits
        weir.devices = "none"
        weir.start()
        until(lambda: devices(weir) == 0, "no devices")
        tap.equal(attempts(weir, again), [1],
                  "what could start at once waits for the block")
        weir.client.post(f"/v1/workloads/{again}/abort", {})
        weir.client.wait(again)
        check_journal(tap, weir, "other devices")


def flood(tap):
    """More orders than a runner that reads nothing is kept: each of them gets
    there in the end.
    """
    if os.environ.get("WEIR_VALGRIND"):
        tap.skip("100 MB of orders", "takes minutes under valgrind")
        return
    env = {f"PAD{i}": "x" * 60000 for i in range(16)}
    with Weir(args=("--engine", "fake"), devices="fake:1xH100-80GB") as weir:
        weir.start()
        weir.wait_devices()
        wid = weir.client.submit(dict(QUICK, ranks=100, env=env)).json["id"]
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "100 MB of orders: the gang is started whole and ends")
        tap.equal(len(weir.client.events(type="lease.claimed", workload=wid)),
                  100, "100 MB of orders: each rank claimed once")
        check_journal(tap, weir, "100 MB of orders")


# Going away and coming back ----------------------------------------------------

def attempts(weir, wid):
    return [e["gen"] for e in weir.client.events(type="task.planned",
                                                 workload=wid)]


def polite(tap):
    """SIGTERM: what runs goes on and is found again, in the same attempt."""
    with Weir() as weir:
        weir.start()
        wid, release = run_lasting(weir, gpus=1)
        # The task's shell forks for every sleep: what is there twice, a while
        # apart, is there to stay.
        before = {p.pid for p in weir.processes("task", "keeper", "runner")}
        time.sleep(1)
        before &= {p.pid for p in weir.processes("task", "keeper", "runner")}
        tap.ok(len(before) >= 3, "stopping: runner, keeper and task are there")
        tap.equal(weir.stop(), 0, "stopped: ends with 0 while a task runs")
        tap.none(before - {p.pid for p in weir.processes()},
                 "stopped: runner, keeper and task live")
        weir.start()
        tap.equal(weir.client.need("GET", f"/v1/workloads/{wid}")["state"],
                  "running", "back: it is known to run")
        open_gate(release)
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "back: its end is seen")
        tap.equal(attempts(weir, wid), [1], "back: it was the first attempt")
        check_journal(tap, weir, "back")


def ended_meanwhile(tap):
    """Both gone while the task ends: its exit status is not lost."""
    with Weir() as weir:
        weir.start()
        wid, release = run_lasting(weir, then="; exit 7")
        weir.kill()
        os.kill(weir.runner().pid, signal.SIGKILL)
        until(lambda: not weir.runner(), "no runner")
        open_gate(release)
        until(lambda: not weir.processes(), "task and keeper to end")
        weir.start()
        task = "lasting"
        weir.client.wait(wid)
        got = weir.client.need("GET", f"/v1/workloads/{wid}/tasks/{task}")
        tap.equal((got["outcome"], got["status"], got["attempt"]),
                  ("failed", 7, 1),
                  "control plane and runner killed: the exit status is kept")


def reboot(tap):
    """Every process at once: the attempt is lost and made again."""
    with Weir() as weir:
        weir.start()
        wid, release = run_lasting(weir, gpus=1)
        weir.proc.kill()
        weirtest.end_all(weir.folder)
        weir.proc.wait()
        tap.none(weir.processes(), "reboot: nothing is left")
        weir.start()
        until(lambda: running(weir, wid), "it to run again")
        open_gate(release)
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "reboot: it is run again, without asking for retries")
        tap.equal(attempts(weir, wid), [1, 2], "reboot: in a second attempt")
        ends = weir.client.events(type="lease.ended", workload=wid)
        tap.equal([e.get("cause", "none") for e in ends], ["lost", "none"],
                  "reboot: the first one is recorded as lost")
        check_journal(tap, weir, "reboot")


def retention(tap):
    """Old history goes, whole; what is live stays."""
    with Weir() as weir:
        weir.start()
        release = os.path.join(weir.folder, "release")
        old = weir.client.submit(dict(QUICK, run="echo old")).json["id"]
        lasts = weir.client.submit(lasting(release)).json["id"]
        weir.client.wait(old)
        start = weir.client.cursor(1)
        tap.equal(weir.stop(), 0, "retention: ended with 0 before")
        weir.args = ["--retention", "10ms"]
        weir.start()
        until(lambda: weir.client.get(f"/v1/workloads/{old}").status == 404,
              "the old one to be forgotten")
        tap.ok(True, "retention: an ended workload is forgotten")
        tap.equal(weir.client.events(workload=lasts)[0]["type"],
                  "workload.submitted", "retention: a live one keeps all")
        conn, resp = weir.client.stream("GET", "/v1/watch?since=" + start)
        conn.close()
        tap.equal(resp.status, 410,
                  "retention: a cursor from before is refused with 410")
        open_gate(release)
        weir.client.wait(lasts)
        until(lambda: not [d for d, _, files in os.walk(weir.state)
                           if f"/{old}/" in d + "/"], "its logs to go")
        tap.ok(True, "retention: its logs are gone")


PARTS = {"disk": disk_full, "torn": torn, "strangers": strangers,
         "neighbours": neighbours, "clock": clock_back, "backup": old_backup,
         "polite": polite, "meanwhile": ended_meanwhile, "reboot": reboot,
         "retention": retention, "start": start_full, "numbers": numbers,
         "lost": lost_store, "inventory": inventory, "flood": flood}


def run(tap):
    if ROOT and "WEIR_TEST_UNSHARED" not in os.environ:
        # Mounts of this test are seen by it alone and go with it.
        os.environ["WEIR_TEST_UNSHARED"] = "1"
        # In a tree whose root is no mount of its own nothing can be made
        # private; there the mounts go when their part ends.
        how = ["unshare", "-m"]
        if subprocess.run([*how, "true"], check=False,
                          stderr=subprocess.DEVNULL).returncode:
            how += ["--propagation", "unchanged"]
        os.execvp("unshare", [*how, sys.executable, *sys.argv])
    for name in sys.argv[1:] or PARTS:
        PARTS[name](tap)


if __name__ == "__main__":
    weirtest.main(run)

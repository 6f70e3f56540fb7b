#!/usr/bin/env python3
"""Tasks that stand ready at the gate while another has the device, with the
real programs and the stand-in driver.

Usage: gated.py STANDIN_FOLDER
"""
import os
import signal
import sys
import time

import weirtest
from weirtest import Weir, until

STANDIN = os.path.abspath(sys.argv[1])
GIB = 1 << 30
LIKE = 6                       # of a kind, until something is thought of it


def driver(weir):
    d = weir.folder + "/driver"
    os.mkdir(d)
    os.chmod(d, 0o777)
    with open(d + "/driver", "w", encoding="ascii") as f:
        f.write("cuda=13000\n")
    with open(d + "/gpu0", "w", encoding="ascii") as f:
        f.write("uuid=GPU-00000000-0000-0000-0000-000000000000\nmodel=H200\n"
                f"memory={GIB}\n")
    return d


class Jobs:
    """Jobs alike, that write down how far they are."""

    def __init__(self, weir):
        self.weir, self.driver = weir, driver(weir)

    def path(self, name):
        return f"{self.weir.folder}/{name}.out"

    def said(self, name):
        try:
            with open(self.path(name), encoding="ascii") as f:
                return f.read().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def submit(self, name, seconds=0.0, guest=True, **doc):
        """Prepares, takes its device, works."""
        out = self.path(name)
        use = f"printf 'init\\nuse\\n' | {STANDIN}/guest-link >> {out}; " \
            if guest else ""
        r = self.weir.client.submit({
            "weir": 1, "kind": "job", "name": "alike", "gpus": 1,
            "cpus": 0.01, "memory": "64Mi",
            "env": {"LD_LIBRARY_PATH": STANDIN},
            "run": f"export WEIR_STANDIN={self.driver}; echo pid $$ >> {out}; {use}"
                   f"until test -e {out}.go; do sleep 0.05; done; "
                   f"sleep {seconds}; echo done >> {out}", **doc})
        if r.status != 201:
            raise RuntimeError(f"submit: {r}")
        return r.json["id"]

    def go(self, name):
        with open(self.path(name) + ".go", "w", encoding="ascii"):
            pass

    def run(self, name):
        self.go(name)
        return self.weir.client.wait(self.submit(name))

    def holder(self, name, **doc):
        """One that has the device, until go()."""
        wid = self.submit(name, **doc)
        until(lambda: len(self.said(name)) >= 3, f"{name} has its device")
        return wid

    def ready(self, name, wid):
        """It has prepared, and stands at the gate."""
        until(lambda: len(self.said(name)) >= 2, f"{name} stands ready")
        return self.staged(wid)

    def staged(self, wid):
        return self.weir.client.tasks(wid)[0].get("staged")


def types(weir, wid):
    return [e["type"] for e in weir.client.events(workload=wid)
            if e["type"].startswith(("task.", "lease."))]


def alive(pid):
    return os.path.exists(f"/proc/{pid}")


def pid_of(jobs, name):
    return int(jobs.said(name)[0].split()[1])


def handed(tap, weir, jobs):
    first = jobs.holder("a")
    wid = jobs.submit("b")
    tap.ok(jobs.ready("b", wid), "one stands ready while another has the device")
    time.sleep(0.3)
    tap.equal(len(jobs.said("b")), 2, "at the gate, and no further")
    tap.equal(types(weir, wid), ["task.staged"], "without an attempt")
    jobs.go("a")
    weir.client.wait(first)
    until(lambda: len(jobs.said("b")) >= 3, "b has its device")
    jobs.go("b")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded", "then it goes on")
    tap.equal(jobs.said("b")[1:], ["0", "0", "done"], "to its end")
    got = types(weir, wid)
    tap.equal([got.count(t) for t in ("task.planned", "lease.claimed",
                                      "lease.ended")], [1, 1, 1],
              "as one attempt")


def killed(tap, weir, jobs):
    first = jobs.holder("c")
    wid = jobs.submit("d")
    jobs.ready("d", wid)
    pid = pid_of(jobs, "d")
    weir.kill()
    weir.start()
    tap.ok(jobs.staged(wid) and alive(pid),
           "the control plane is killed: it stands there")
    os.kill(weir.runner().pid, signal.SIGKILL)
    until(lambda: weir.runner() and weir.ready(), "a runner")
    weir.wait_devices()
    jobs.go("c")
    weir.client.wait(first)
    until(lambda: len(jobs.said("d")) >= 3, "d has its device")
    jobs.go("d")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
              "runner, too: and it goes on")
    tap.equal(jobs.said("d"), [f"pid {pid}", "0", "0", "done"],
              "the same process, once")


def unstaged(tap, weir, jobs):
    first = jobs.holder("e")
    wid = jobs.submit("f")
    jobs.ready("f", wid)
    pid = pid_of(jobs, "f")
    weir.client.need("POST", f"/v1/workloads/{wid}/abort", {}, want=202)
    until(lambda: not alive(pid), "it is gone")
    tap.ok(len(jobs.said("f")) == 2, "aborted: it is torn down")
    wid = jobs.submit("g")
    jobs.ready("g", wid)
    pid = pid_of(jobs, "g")
    weir.client.need("POST", f"/v1/workloads/{wid}/pause", {})
    until(lambda: not alive(pid), "it is gone")
    weir.client.need("POST", f"/v1/workloads/{wid}/unpause", {})
    until(lambda: jobs.said("g").count("0") >= 2, "it stands ready again")
    jobs.go("e")
    jobs.go("g")
    weir.client.wait(first)
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
              "paused and not any more: it starts anew")
    tap.equal([x for x in jobs.said("g") if not x.startswith("pid")],
              ["0", "0", "0", "done"], "and works once")


def early(tap, weir, jobs):
    """One that ends before it is planned."""
    first = jobs.holder("h")
    jobs.go("i")
    wid = jobs.submit("i", guest=False)
    until(lambda: jobs.said("i")[-1:] == ["done"], "it ended")
    time.sleep(0.3)
    tap.equal(types(weir, wid), ["task.staged"], "its end waits for its lease")
    jobs.go("h")
    weir.client.wait(first)
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded", "and is its end")
    tap.equal(len(jobs.said("i")), 2, "it ran once")


def gate_files(weir):
    """What a runner that was killed leaves to the next; removed."""
    own = weir.state + "/engine/local"
    st = os.stat(own)
    folder = f"/run/weir-gate/{st.st_dev:x}-{st.st_ino:x}" \
        if os.geteuid() == 0 else own + "/gate"
    until(lambda: not os.listdir(folder), "all ends to be acknowledged")
    left = os.listdir(folder)
    os.kill(weir.runner().pid, signal.SIGKILL)
    os.rmdir(folder)
    return left


def run(tap):
    with Weir(devices="gated:1xH200-1GiB") as weir:
        weir.start()
        weir.wait_devices()
        jobs = Jobs(weir)
        for k in range(LIKE):
            w = jobs.run(f"like{k}")
            if k == 0:
                tap.equal((w["outcome"], jobs.said("like0")[1:]),
                          ("succeeded", ["0", "0", "done"]),
                          "a device that is free: the gate is open")
        for f in (handed, killed, unstaged, early):
            f(tap, weir, jobs)
        tap.none(weir.faults(), "no fault")
        weir.settled()
        tap.equal(weir.processes("task", "keeper"), [], "nothing is left")
        tap.equal(gate_files(weir), [], "nor a page or a socket")


if __name__ == "__main__":
    weirtest.main(run)

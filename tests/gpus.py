#!/usr/bin/env python3
"""`weir up --devices auto` finds the GPUs of a machine by weir-gpud, here those
of the stand-in drivers.

Usage: gpus.py STANDIN_FOLDER WEIR_GPUD
"""
import contextlib
import os
import signal
import subprocess
import sys

import weirtest
from guests import UUID, Driver
from weirtest import Weir, until

STANDIN = os.path.abspath(sys.argv[1])
GPUD = os.path.abspath(sys.argv[2])


def devices(weir):
    """Of its node; None: there is none yet."""
    pools = weir.client.need("GET", "/v1/pools")["items"]
    nodes = [n for p in pools for n in p["nodes"] if n["up"]]
    return nodes[0]["devices"] if nodes else None


def brief(weir):
    return [(d["uuid"], d["model"], d.get("lost", False))
            for d in devices(weir) or []]


def gpud(weir):
    """The pid of its own; None."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
            if words[0].endswith(b"/weir-gpud") and \
                    f"{weir.state}/engine/local/gpud.sock".encode() in words:
                return int(pid)
    return None


def job(weir, gpus, **doc):
    r = weir.client.submit({
        "weir": 1, "kind": "job", "name": "j", "gpus": gpus, "cpus": 0.01,
        "memory": "64Mi", "env": {"LD_LIBRARY_PATH": STANDIN}, **doc})
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    return r.json["id"]


def sees(tap, weir):
    """A task has the devices by their names, behind the gate."""
    out = weir.folder + "/out"
    wid = job(weir, 2, run=f"export WEIR_STANDIN={weir.env['WEIR_STANDIN']}; "
              f"echo $CUDA_VISIBLE_DEVICES > {out}; printf 'init"
              f"\\ncount\\nuse\\n' | {STANDIN}/guest-link >> {out}")
    tap.equal(weir.client.wait(wid)["outcome"], "succeeded", "a task runs")
    with open(out, encoding="ascii") as f:
        tap.equal(f.read().split("\n")[:-1],
                  [f"{UUID[0]},{UUID[1]}", "0", "0 2", "0"],
                  "it sees the devices by their names, and uses one")


def told(tap, weir, machine):
    """Numbers come from weir-gpud by way of the runner."""
    machine.gpu(0, 0, "temperature=61\nutilisation=93\npower=400000\n")
    until(lambda: devices(weir)[0].get("telemetry", {}).get(
        "temperature_celsius") == 61, "its temperature")
    t = devices(weir)[0]["telemetry"]
    tap.equal((t["utilisation_percent"], t["power_milliwatts"]), (93, 400000),
              "the API tells how a device is")
    text = weir.cli("pool", "show", "local", "--devices").stdout
    tap.ok(all(x in text for x in ("93%", "61 C", "400 W", UUID[0],
                                   "simulated")), "so does pool show")
    text = weir.client.get("/metrics").body.decode()
    want = f'UUID="{UUID[0]}",modelName="H200"'
    line = next((x for x in text.split("\n")
                 if x.startswith("DCGM_FI_DEV_GPU_TEMP{") and want in x), "")
    tap.ok(line.endswith('simulated="true"} 61'), f"and /metrics: {line}")
    tap.ok("DCGM_FI_DEV_POWER_USAGE{" in text and
           "DCGM_FI_DEV_MEMORY_TEMP" not in text,
           "what the driver does not tell is left out")


def lost(tap, weir, machine):
    machine.gpu(0, 0, "lost=1\n")
    until(lambda: brief(weir)[0][2], "a lost device")
    tap.equal(brief(weir), [(UUID[0], "H200", True), (UUID[1], "H200", False)],
              "one is lost, and stays in its place")
    tap.ok("lost" in weir.cli("pool", "show", "local").stdout,
           "pool show says so")
    out = weir.folder + "/one"
    wid = job(weir, 1, run=f"echo $CUDA_VISIBLE_DEVICES > {out}")
    weir.client.wait(wid)
    with open(out, encoding="ascii") as f:
        tap.equal(f.read(), UUID[1] + "\n", "the other is used")
    machine.gpu(0, 0)
    until(lambda: not brief(weir)[0][2], "it to be back")
    tap.ok(True, "it comes back")


def killed(tap, weir):
    pid = gpud(weir)
    os.kill(pid, signal.SIGKILL)
    until(lambda: gpud(weir) not in (None, pid), "another weir-gpud")
    tap.equal(len(brief(weir)), 2, "weir-gpud is killed: another is started")
    weir.kill()
    tap.ok(gpud(weir), "the control plane is killed: weir-gpud is not")
    weir.start()
    weir.wait_devices()
    tap.equal(len(brief(weir)), 2, "the next one asks it")
    os.kill(gpud(weir), signal.SIGTERM)
    until(lambda: gpud(weir) is None, "its end")
    until(lambda: gpud(weir), "another weir-gpud")
    weir.stop()
    tap.equal(gpud(weir), None, "a stop ends it")


def another(tap, weir, machine):
    """The driver counts them in another order, and one is new."""
    machine.gpu(0, 2)
    machine.gpu(1, 0)
    weir.start()
    until(lambda: len(brief(weir)) > 2, "the new one")
    tap.equal(brief(weir), [(UUID[0], "H200", False), (UUID[1], "H200", True),
                            (UUID[2], "H200", False)],
              "each keeps its place; one is gone, and a new one is last")
    os.remove(machine.dir + "/driver")
    weir.stop()
    weir.start()
    until(lambda: brief(weir)[0][2], "a lost device")
    tap.equal([x[2] for x in brief(weir)], [True] * 3,
              "without a driver all are lost")
    weir.stop()


def given(tap, machine):
    """One that runs already is asked, and left running."""
    machine.write("driver", "version=580.159.04\ncuda=13000\n")
    sock = machine.dir + "/sock"
    with subprocess.Popen([GPUD, "--socket", sock],
                          env=dict(os.environ, **machine.env())) as daemon:
        until(lambda: os.path.exists(sock), "its socket")
        with Weir(devices="auto", args=["--gpud", sock]) as weir:
            weir.start()
            weir.wait_devices()
            tap.equal([x[0] for x in brief(weir)], [UUID[2], UUID[0]],
                      "one that listens already is asked")
            tap.equal(gpud(weir), None, "and no other is started")
            weir.stop()
        tap.equal(daemon.poll(), None, "it is not ours to end")
        daemon.terminate()


def none(tap):
    with Weir(devices="auto", env={"LD_LIBRARY_PATH": "/nowhere"}) as weir:
        weir.start()
        weir.wait_devices()
        tap.equal(devices(weir), [], "no driver: no device")
        tap.ok("libnvidia-ml" in weir.tail(), "and a line that says why")
        wid = job(weir, 0, run="true", env={})
        tap.equal(weir.client.wait(wid)["outcome"], "succeeded",
                  "other work is done")
        weir.stop()


def run(tap):
    with Weir(devices="auto") as weir:
        machine = Driver(weir.folder, STANDIN)
        weir.env = machine.env()
        for k in range(2):
            machine.gpu(k, k)
        weir.start()
        weir.wait_devices()
        tap.equal(brief(weir), [(UUID[k], "H200", False) for k in range(2)],
                  "its devices")
        tap.ok(all(d["simulated"] for d in devices(weir)),
               "a stand-in's are called simulated")
        sees(tap, weir)
        told(tap, weir, machine)
        lost(tap, weir, machine)
        killed(tap, weir)
        another(tap, weir, machine)
        given(tap, machine)
    none(tap)


if __name__ == "__main__":
    weirtest.main(run)

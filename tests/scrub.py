#!/usr/bin/env python3
"""What a task wrote into device memory is not there for the next tenant's, and
nothing of the first is on the device any more: with the real programs and the
stand-in drivers, which clear memory unless told not to.

Usage: scrub.py STANDIN_FOLDER
"""
import weirtest
from away import MIB, STANDIN, fault, machine
from weirtest import Weir

WROTE, LEFT, LOOKED = 512 * MIB, 64 * MIB, 960 * MIB
# A process beside it that hears no signal but one, and has memory, too.
WRITE = f"""
trap '' TERM HUP
{{ printf 'init\\nuse\\nalloc {LEFT}\\nfill {LEFT}\\n'; sleep 600; }} |
setsid {STANDIN}/guest-link > $OUT.left &
until test "$(grep -c . $OUT.left)" = 4; do sleep 0.05; done
printf 'init\\nuse\\nalloc {WROTE}\\nfill {WROTE}\\nend\\n' |
{STANDIN}/guest-link > $OUT
"""
LOOK = f"""
printf 'init\\nuse\\ninfo\\nalloc {LOOKED}\\nfind {LOOKED}\\n' |
{STANDIN}/guest-link > $OUT
"""


def task(weir, tenant, name, run):
    """The lines that it says."""
    out = f"{weir.folder}/{name}.out"
    r = weir.client.submit({
        "weir": 1, "kind": "job", "name": name, "gpus": 1, "cpus": 0.01,
        "memory": "1Gi", "env": {"LD_LIBRARY_PATH": STANDIN, "OUT": out},
        "run": f"export WEIR_STANDIN={weir.env['WEIR_STANDIN']}" + run},
        tenant=tenant)
    if r.status != 201:
        raise RuntimeError(f"submit: {r}")
    outcome = weir.client.wait(r.json["id"])["outcome"]
    if outcome != "succeeded":
        raise RuntimeError(f"{name}: {outcome}")
    return weirtest.read_text(out).splitlines()


def written(weir):
    said = task(weir, "one", "write", WRITE)
    return said[:4] + weirtest.read_text(f"{weir.folder}/write.out.left") \
        .splitlines()


def run(tap):
    with Weir(devices="auto") as weir:
        weir.env = machine(weir)
        weir.start()
        weir.wait_devices()
        for name in ("one", "two"):
            weir.cli("tenant", "create", name, check=True)
        tap.equal(written(weir), ["0"] * 8, "two processes write")
        said = task(weir, "two", "look", LOOK)
        tap.equal(said[2], f"0 {1024 * MIB} {1024 * MIB}",
                  "then all of the device is free, though one of them had not "
                  "ended by itself")
        tap.equal(said[3:], ["0", "0 found", "0"],
                  "and the other tenant finds nothing")
        fault(weir, "left=1\n")
        tap.equal(written(weir), ["0"] * 8, "they write again")
        said = task(weir, "two", "look", LOOK)
        tap.ok(said[3] == "0" and said[4] not in ("0 found", ""),
               f"a driver that clears nothing shows here: {said[3:]}")
        weir.stop()


if __name__ == "__main__":
    weirtest.main(run)

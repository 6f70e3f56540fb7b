#!/usr/bin/env python3
"""What the gate costs, in instructions counted by callgrind (TAP).

Usage: cost_test.py LIBWEIR_GATE STANDIN_FOLDER

Instructions and not seconds, which a loaded machine does not change.  The bounds
are somewhat above what docs/gate.md says was measured.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tests"))
from tap import Tap  # noqa: E402

LIB = os.path.abspath(sys.argv[1])
STANDIN = os.path.abspath(sys.argv[2])
START_MAX = 70000                      # a program that never touches CUDA
CALL_MAX = 10                          # a call through a trampoline
TABLE_MAX = 12                         # one through a spare trampoline
SYNC_MAX = 60                          # one that is a function here
CALLS = 50000
TAP = Tap()


def instructions(d, argv, preload, text=""):
    env = {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": STANDIN,
           "WEIR_STANDIN": d}
    if preload:
        env["LD_PRELOAD"] = LIB
    p = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null",
         *argv], input=text, capture_output=True, text=True, env=env,
        timeout=120)
    found = re.search(r"Collected : (\d+)", p.stderr)
    if p.returncode or not found:
        sys.exit(f"callgrind: {p.stderr[-500:]}")
    return int(found.group(1))


def each(d, call, preload):
    """Instructions of one more of that call.  How long the stand-in waits for
    its thread differs from run to run by some thousands.
    """
    n = [instructions(d, [STANDIN + "/guest-address"], preload,
                      f"init\nuse\n{call} 1\n{call} {n}\n")
         for n in (1, 1 + CALLS)]
    return (n[1] - n[0]) / CALLS


def main(d):
    without = instructions(d, ["/bin/true"], False)
    with_it = instructions(d, ["/bin/true"], True)
    TAP.ok(with_it - without <= START_MAX,
           f"a program without CUDA: {with_it} instructions instead of "
           f"{without}, at most {START_MAX} more")
    for call, most, what in (
            ("queries", CALL_MAX, "a call through a trampoline"),
            ("sums", TABLE_MAX, "a call through a table"),
            ("syncs", SYNC_MAX, "a call that waits for the device")):
        more = each(d, call, True) - each(d, call, False)
        TAP.ok(0 < more <= most, f"{what}: {more:.1f} instructions, at most "
               f"{most}")
    return TAP.done()


if not shutil.which("valgrind"):
    print("1..0 # SKIP no valgrind")
    sys.exit(0)
with tempfile.TemporaryDirectory(prefix="weir-cost-") as folder:
    with open(folder + "/driver", "w") as f:
        f.write("cuda=13000\n")
    with open(folder + "/gpu0", "w") as f:
        f.write("uuid=GPU-00000000-0000-0000-0000-000000000000\n"
                "model=H200\nmemory=1073741824\n")
    sys.exit(main(folder))

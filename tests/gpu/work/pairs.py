"""Runs rates.py with and without the gate it stands behind, in turns.

Usage: pairs.py PAIRS; says one line of JSON for each run.
"""
import os
import subprocess
import sys

from say import say

HERE = os.path.dirname(os.path.abspath(__file__))
without = {k: v for k, v in os.environ.items()
           if k not in ("LD_PRELOAD", "WEIR_GATE_SOCKET")}
cpus = sorted(os.sched_getaffinity(0))[:2]
os.sched_setaffinity(0, cpus)
for k in range(int(sys.argv[1])):
    order = [("gate", dict(os.environ)), ("plain", without)]
    for name, env in order if k % 2 else reversed(order):
        r = subprocess.run([sys.executable, f"{HERE}/rates.py"], env=env,
                           capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"{name}: {r.stderr[-500:]}")
        say(name, r.stdout.splitlines()[-1].replace(" ", ""))

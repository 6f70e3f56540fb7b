#!/usr/bin/env python3
"""Every file of examples/ runs, and ends as its first lines say."""
import os
import re

import weirtest
from weirtest import ROOT, Weir

FOLDER = os.path.join(ROOT, "examples")


def expected(path):
    """The exit status: 0, or what a comment of the file says ("ends with
    1", "exit status 1").
    """
    with open(path) as f:
        head = "".join(line for line in f if line.lstrip().startswith("#"))
    m = re.search(r"(?:ends with|exit (?:status|code)) (\d+)", head)
    return int(m.group(1)) if m else 0


def quiet(tap, weir):
    """What says nothing has an empty log, not none."""
    wid = weir.cli("run", "--detach", "--", "true", check=True).stdout.strip()
    weir.client.wait(wid)
    r = weir.cli("logs", wid)
    tap.equal((r.returncode, r.stdout, r.stderr), (0, "", ""),
              "the log of a command without output is empty")


def run(tap):
    files = sorted(f for f in os.listdir(FOLDER)
                   if f.endswith((".yaml", ".json")))
    tap.ok(len(files) >= 12, f"there are {len(files)} examples")
    tap.equal(expected(os.path.join(FOLDER, "on-failure.yaml")), 1,
              "on-failure.yaml says that it ends with 1")
    with Weir() as weir:
        weir.start()
        for name in files:
            path = os.path.join(FOLDER, name)
            r = weir.cli("run", path)
            tap.ok(r.returncode == expected(path),
                   f"weir run {name} ends with {expected(path)}",
                   f"status {r.returncode}", r.stdout[-1500:], r.stderr)
        quiet(tap, weir)
        lasting = [w for w in weir.client.workloads() if w["state"] != "ended"]
        tap.none(lasting, "weir run waited for the end of each")
        tap.none(weir.faults(), "nothing in the log that no run may have")
        tap.equal(weir.stop(), 0, "SIGTERM ends it with 0")


if __name__ == "__main__":
    weirtest.main(run)

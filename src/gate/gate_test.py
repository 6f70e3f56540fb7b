#!/usr/bin/env python3
"""The gate against a scripted socket, and what the library is made of (TAP).

Usage: gate_test.py LIBWEIR_GATE
"""
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "tests"))
from tap import Tap  # noqa: E402

LIB = os.path.abspath(sys.argv[1])
PATIENCE = 60
TAP = Tap()
ok = TAP.ok


def guest(env, code="echo in"):
    return subprocess.Popen(
        ["/bin/sh", "-c", code], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
        env={"PATH": os.environ["PATH"], "LD_PRELOAD": LIB, **env})


def through(p):
    out, err = p.communicate(timeout=PATIENCE)
    return out, err, p.returncode


def talk(d):
    path = d + "/gate"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(PATIENCE)
    env = {"WEIR_GATE_SOCKET": path, "WEIR_LEASE": "w1/2.0#1@1"}
    conns = []

    def hear(p):
        conn, _ = listener.accept()
        conn.settimeout(PATIENCE)
        conns.append(conn)
        line = b""
        while not line.endswith(b"\n"):
            more = conn.recv(256)
            assert more, p
            line += more
        return conn, line.decode()

    # `exec` so that one process, and not its children, passes the gate.
    p = guest(env, "echo in; exec true")
    conn, line = hear(p)
    ok(line == "weir-gate 1 w1/2.0#1@1\n", "says its version and its lease")
    time.sleep(0.2)
    ok(p.poll() is None, "waits")
    conn.sendall(b"op")
    time.sleep(0.05)
    ok(p.poll() is None, "for the whole word")
    conn.sendall(b"en\n")
    conn, _ = hear(p)
    conn.sendall(b"hush\nopener\nopen now\n")
    ok(through(p) == ("in\n", "", 0), "and then lets the guest in")
    ok(conn.recv(1) == b"", "and hangs up")

    p = guest({**env, "WEIR_GATE_WAIT_MS": "50"}, "exec ls /proc/self/fd")
    hear(p)
    hear(p)
    out, err, rc = through(p)
    ok((rc, err) == (0, ""), "a gate that stays shut is passed in the end")
    ok(out.split() == ["0", "1", "2", "3"], "no descriptor is left open")

    p = guest(env, "exec true")
    hear(p)[0].close()
    hear(p)[0].close()
    ok(through(p) == ("", "", 0), "so is one that hangs up")

    p = guest(env, "exec true")
    for _ in range(2):
        conn, _ = hear(p)
        conn.sendall(b"x" * 4096)
        conn.close()
    ok(through(p) == ("", "", 0), "and one that babbles")
    listener.close()
    for conn in conns:
        conn.close()


def alone(d):
    ok(through(guest({})) == ("in\n", "", 0), "not asked: not there")
    ok(through(guest({"WEIR_GATE_SOCKET": ""})) == ("in\n", "", 0),
       "an empty name")
    ok(through(guest({"WEIR_GATE_SOCKET": d + "/none"})) == ("in\n", "", 0),
       "nobody there")
    ok(through(guest({"WEIR_GATE_SOCKET": "x" * 500})) == ("in\n", "", 0),
       "a name too long")


def made_of():
    nm = subprocess.run(["nm", "-D", LIB], capture_output=True, text=True,
                        check=True).stdout
    shown = [x.split()[-1] for x in nm.splitlines()
             if x.split()[-2] in "TDRBVW" and not x.startswith(" ")]
    ok(shown == ["weir_gate_version"], f"shows one symbol: {shown}")
    versions = {tuple(map(int, v.split(".")))
                for v in re.findall(r"GLIBC_([0-9.]+)", nm)}
    ok(versions and max(versions) <= (2, 17), f"no younger symbol: {versions}")
    libs = re.findall(r"NEEDED\s+(\S+)", subprocess.run(
        ["objdump", "-p", LIB], capture_output=True, text=True,
        check=True).stdout)
    ok(libs == ["libc.so.6"], f"libc alone: {libs}")


with tempfile.TemporaryDirectory(prefix="weir-gate-") as folder:
    made_of()
    alone(folder)
    talk(folder)
sys.exit(TAP.done())

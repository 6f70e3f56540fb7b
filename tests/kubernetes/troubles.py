#!/usr/bin/env python3
"""Clusters that cannot be talked to, for a minute, all at once: each pool says
why in one line, says it once in the log, tries again later and later, and none
of it takes the control plane's time.
"""
import contextlib
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
sys.path.insert(0, HERE)
import weirtest  # noqa: E402
from cluster import Pki, free_ports, kubeconfig  # noqa: E402
from stub import OK, Stub  # noqa: E402
from weirtest import Weir, until  # noqa: E402

MINUTE = 60
# For each of the two lists at most these tries in a minute: after 0.2 s, and
# then after twice as long each time, of which chance may take a half.
MOST, LEAST = 2 * 11, 2 * 3
TICKS = os.sysconf("SC_CLK_TCK")


def status(code, reason, message, *heads):
    body = json.dumps({"kind": "Status", "apiVersion": "v1", "code": code,
                       "status": "Failure", "reason": reason,
                       "message": message}).encode()
    return b"\r\n".join((
        f"HTTP/1.1 {code} {reason}".encode(), b"Connection: close",
        b"Content-Length: %d" % len(body), *heads, b"", body))


def empty(asked):
    """Of a cluster in which nothing is: a list, and a watch that ends."""
    if b"watch=true" in asked:
        return b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    body = b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}'
    return OK % (len(body), body)


class Trouble:
    """A pool, the server behind it, and the words it is to be told with."""

    def __init__(self, name, words, cert, answer, conf):
        self.name, self.words = name, words
        self.stub = Stub(cert, answer) if cert else None
        port = self.stub.port if cert else free_ports(1)[0]
        self.conf = conf(port)
        self.before = 0

    def asked(self):
        return self.stub.met if self.stub else None


def troubles(folder):
    pki, other = (Pki(os.path.join(folder, n), n) for n in ("pki", "other"))
    good = pki.sign("good", "/CN=good", "serverAuth", "IP:127.0.0.1")
    ended = pki.sign("ended", "/CN=ended", "serverAuth", "IP:127.0.0.1",
                     ended=True)
    user = {"token": "t"}

    def conf(port, ca=pki.ca):
        return kubeconfig(folder, port, user, ca)
    busy = status(429, "TooManyRequests", "later", b"Retry-After: 1")
    return [
        Trouble("ca", ["is not signed by an authority that is trusted"], good,
                empty, lambda port: conf(port, other.ca)),
        Trouble("ended", ["its certificate has expired"], ended, empty, conf),
        Trouble("token", ["does not take these credentials (401)"], good,
                status(401, "Unauthorized", "Unauthorized"), conf),
        Trouble("rights", ["not allowed (403)", "cannot list"], good,
                status(403, "Forbidden", 'nodes is forbidden: User "u" cannot '
                       'list resource "nodes"'), conf),
        Trouble("garbage", ["does not answer as an API server does",
                            "not JSON"], good, OK % (7, b"<html>\n"), conf),
        Trouble("nohttp", ["does not speak HTTP"], good, b"SSH-2.0-x\r\n",
                conf),
        Trouble("busy", ["too much to do (429)"], good, busy, conf),
        Trouble("nobody", ["refused"], None, None, conf)]


def took(proc):
    """Seconds of a processor that a process has had."""
    with open(f"/proc/{proc.pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def lines(weir, name):
    """What the log says of a pool."""
    found = []
    with open(weir.log, encoding="utf-8") as f:
        for line in f:
            with contextlib.suppress(ValueError):
                said = json.loads(line)
                if said.get("pool") == name and "why" in said:
                    found.append(said["why"])
    return found


def test_words(tap, weir, t):
    line = [x for x in weir.cli("pool", "ls").stdout.splitlines()
            if x.startswith(f"{t.name} ")]
    tap.ok(len(line) == 1 and "unreachable: " in line[0] and
           all(w in line[0] for w in t.words), f"{t.name}: {line[0].strip()}")


def test_minute(tap, weir, all_):
    """From the first word of the last of them on."""
    start, before = time.monotonic(), took(weir.proc)
    for t in all_:
        t.before = t.asked()
    until(lambda: time.monotonic() - start >= MINUTE, "a minute", 2 * MINUTE)
    used = took(weir.proc) - before
    # A loop that does not wait takes all of it.
    tap.ok(used < MINUTE / 10, f"{used:.2f} s of a processor in a minute, for "
           f"{len(all_)} pools that cannot be reached")
    for t in all_:
        said = lines(weir, t.name)
        tap.ok(1 <= len(said) <= 2 and len(set(said)) == len(said),
               f"{t.name}: {len(said)} in the log", *said)
        if t.stub:
            n = t.asked()
            tap.ok(LEAST <= n <= MOST, f"{t.name}: asked {n} times")


def test_back(tap, weir, t):
    """A server that has time again is asked again, within what it was."""
    t.stub.answer = empty
    until(lambda: weir.client.need("GET", f"/v1/pools/{t.name}")["state"] ==
          "ready", "the pool to be reached")
    tap.ok(True, f"{t.name}: it is asked again, and all is well")


def run(tap):
    with Weir(devices="none", args=["--engine", "none"]) as weir:
        all_ = troubles(weir.folder)
        weir.start()
        for t in all_:
            weir.cli("pool", "add", t.name, "--engine", "kubernetes",
                     "--kubeconfig", t.conf, "--observe", check=True)
        for t in all_:
            until(lambda t=t: weir.client.need(
                "GET", f"/v1/pools/{t.name}")["state"] == "unreachable",
                t.name)
            test_words(tap, weir, t)
        test_minute(tap, weir, all_)
        for t in all_:
            test_words(tap, weir, t)
        test_back(tap, weir, [t for t in all_ if t.name == "busy"][0])
        tap.none(weir.faults(), "no fault")
        for t in all_:
            if t.stub:
                t.stub.close()


if __name__ == "__main__":
    weirtest.main(run)

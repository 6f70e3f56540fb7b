#!/usr/bin/env python3
"""The runner's way home over TLS, against a scripted home (TAP).

Usage: dial_test.py WEIR_RUNNER [NAME...]
"""
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time

import runner_test
from runner_test import PATIENCE, TAP, TOKEN, Block, Home, ok, read, wait_for

is_ = TAP.equal
SILENT = 60             # seconds without a byte from home


def openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Certs:
    """Authorities and servers, made with openssl(1)."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="weir-certs-")
        self.authority("ca")
        self.authority("other")
        names = "IP:127.0.0.1,DNS:localhost"
        self.server("good", "ca", names)
        self.server("strange", "other", names)
        self.server("elsewhere", "ca", "DNS:elsewhere.example,IP:127.0.0.9")
        self.server("ended", "ca", names, -1)

    def path(self, name):
        return os.path.join(self.folder, name)

    def authority(self, name):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt",
                "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
                f"/CN={name}", "-keyout", self.path(name + ".key"), "-out",
                self.path(name + ".pem"))

    def server(self, name, ca, names, days=2):
        with open(self.path(name + ".cnf"), "w", encoding="ascii") as f:
            f.write(f"subjectAltName={names}\n")
        openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-subj", "/CN=x", "-keyout", self.path(name + ".key"),
                "-out", self.path(name + ".csr"))
        openssl("x509", "-req", "-in", self.path(name + ".csr"), "-CA",
                self.path(ca + ".pem"), "-CAkey", self.path(ca + ".key"),
                "-CAcreateserial", "-days", str(days), "-extfile",
                self.path(name + ".cnf"), "-out", self.path(name + ".pem"))

    def context(self, name, version=None):
        c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        c.load_cert_chain(self.path(name + ".pem"), self.path(name + ".key"))
        if version:
            c.maximum_version = version
        return c


class TlsHome(Home):
    """The same home on a port of 127.0.0.1; `context` None: it is mute."""

    def __init__(self, context):
        self.context = context
        self.port = 0
        self.dialled = 0
        super().__init__(None)

    def listen(self):
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        self.listener.listen()
        self.listener.settimeout(PATIENCE)

    def accept(self, welcome=True):
        raw, _ = self.listener.accept()
        raw.settimeout(PATIENCE)
        self.dialled += 1
        self.conn = self.context.wrap_socket(raw, server_side=True)
        self.data = b""
        self.hello = self.read()
        assert self.hello["t"] == "hello", self.hello
        if welcome:
            self.send(t="welcome", v=1, epoch=1)
        return self.hello

    def fails(self, count, what=None):
        """Take so many attempts that come to nothing."""
        for _ in range(count):
            raw, _ = self.listener.accept()
            raw.settimeout(PATIENCE)
            with contextlib.suppress(OSError):
                if what is not None:
                    raw.sendall(what)
                    while raw.recv(4096):
                        pass
                else:
                    self.context.wrap_socket(raw, server_side=True).recv(1)
            raw.close()

    def away(self):
        if self.conn:
            self.conn.close()
        self.conn = None
        self.listener.close()


class FarBlock(Block):
    """A block whose runner dials by TLS."""

    def __init__(self, certs, host="127.0.0.1", context="good", ca="ca"):
        super().__init__()
        self.home.close()
        self.home = TlsHome(certs.context(context) if context else None)
        self.certs = certs
        self.url = f"tls://{host}:{self.home.port}"
        self.ca = self.dir + "/ca.pem"
        shutil.copy(certs.path(ca + ".pem"), self.ca)

    def start(self, accept=True):
        self.proc = subprocess.Popen(
            [self.program(), "--block", "local", "--home", self.url,
             "--home-ca", self.ca, "--dir", self.state, "--token-file",
             self.dir + "/token", *self.args], start_new_session=True)
        return self.home.accept() if accept else None

    def lines(self):
        """What the runner said about home."""
        said = [json.loads(x) for x in
                (read(self.state + "/runner.log") or "").splitlines()]
        return [(m["message"], m.get("why", "")) for m in said
                if m["message"].startswith(("home", "token"))]

    def line(self, *words):
        """The one line there is, with these words in it."""
        wait_for(self.lines, f"a line with {words}")
        said = self.lines()
        ok(len(said) == 1 and all(w in said[0][1] for w in words),
           f"one line: {said}")

    def mended(self):
        """It is let in, and works."""
        hello = self.home.accept()
        is_(hello["token"], TOKEN, "let in, with the token as it is now")
        is_(self.run("w1/0.0")["status"], 0, "and works")
        wait_for(lambda: self.lines()[-1][0] == "home is there", "the line")
        is_(len(self.lines()), 2, "which is said once, too")
        self.finish()


TESTS = []


def test(f):
    TESTS.append(f)
    return f


@test
def works(certs):
    """Orders, ends, and home away in between."""
    b = FarBlock(certs)
    yield b
    b.start()
    is_(b.home.conn.version(), "TLSv1.3", "the version")
    is_(b.run("w1/0.0", run="exit 3")["status"], 3, "an end")
    b.go("w1/1.0", run=f"while [ ! -e {b.dir}/go ]; do sleep 0.02; done;"
         "exit 8")
    b.started("w1/1.0")
    b.home.away()
    open(b.dir + "/go", "w").close()
    wait_for(lambda: b.fact("w1/1.0", "exit"), "exit")
    hello = b.home.back()
    is_([x["key"] for x in hello["leases"]], ["w1/1.0"],
        "what ended meanwhile is told of")
    is_(b.ended("w1/1.0")["status"], 8, "with its status")
    big = "x" * (3 << 20)
    m = b.run("w1/2.0", env={"BIG": big[:100000]},
              run="printf '%s' \"$BIG\" | wc -c")
    is_((m["status"], b.text("w1/2.0").strip()), (0, "100000"),
        "an order of many records")
    b.finish()


@test
def by_name(certs):
    """A name with two addresses, of which the first is nobody's."""
    b = FarBlock(certs, host="localhost")
    yield b
    b.start()
    is_(b.run("w1/0.0")["status"], 0, "the second one is home")
    b.finish()


@test
def no_such_name(certs):
    b = FarBlock(certs, host="no-such-name.invalid")
    yield b
    b.start(accept=False)
    b.line("look up 'no-such-name.invalid'")


@test
def nobody_there(certs):
    b = FarBlock(certs)
    yield b
    b.home.away()
    b.start(accept=False)
    b.line("Connection refused")
    time.sleep(1)
    b.line("Connection refused")
    b.home.listen()
    b.mended()


@test
def wrong_authority(certs):
    b = FarBlock(certs, context="strange")
    yield b
    b.start(accept=False)
    b.home.fails(4)
    b.line("not signed by the authority", b.ca)
    shutil.copy(certs.path("other.pem"), b.ca)     # is read at each attempt
    b.mended()


@test
def ended(certs):
    b = FarBlock(certs, context="ended")
    yield b
    b.start(accept=False)
    b.home.fails(4)
    b.line("its certificate ended at 20")
    b.home.context = certs.context("good")         # renewed
    b.mended()


@test
def wrong_name(certs):
    b = FarBlock(certs, context="elsewhere")
    yield b
    b.start(accept=False)
    b.home.fails(4)
    b.line("not for '127.0.0.1'")
    b.home.context = certs.context("good")
    b.mended()


@test
def old_tls(certs):
    b = FarBlock(certs)
    yield b
    b.home.context = certs.context("good", ssl.TLSVersion.TLSv1_2)
    b.start(accept=False)
    b.home.fails(3)
    b.line("does not speak TLS 1.3")
    b.home.context = certs.context("good")
    b.mended()


@test
def no_tls(certs):
    b = FarBlock(certs)
    yield b
    b.start(accept=False)
    b.home.fails(3, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    b.line("TLS")
    b.mended()


@test
def wrong_token(certs):
    """Home says why, and hangs up; the file is read at each connection."""
    b = FarBlock(certs)
    yield b
    with open(b.dir + "/token", "w", encoding="ascii") as f:
        f.write("wrong\n")
    b.start(accept=False)
    for _ in range(4):
        is_(b.home.accept(welcome=False)["token"], "wrong", "the token")
        b.home.send(t="error", text="no such block, or not its token")
        b.home.conn.close()
    b.line("not its token")
    with open(b.dir + "/token", "w", encoding="ascii") as f:
        f.write(TOKEN + "\n")
    b.mended()


@test
def no_authority(certs):
    b = FarBlock(certs)
    yield b
    os.unlink(b.ca)
    b.start(accept=False)
    b.line(b.ca, "No such file")
    shutil.copy(certs.path("ca.pem"), b.ca)
    b.mended()


@test
def mute(certs):
    """A home that takes the connection and never a handshake."""
    b = FarBlock(certs)
    yield b
    b.start(accept=False)
    raw, _ = b.home.listener.accept()
    b.line("does not end the handshake")
    raw.close()
    b.mended()


@test
def usage(certs):
    b = FarBlock(certs)
    yield b
    for words in (["--home", b.url], ["--home", "tls://x", "--home-ca", b.ca],
                  ["--home", "/x/sock", "--home-ca", b.ca]):
        p = subprocess.run([runner_test.RUNNER, "--block", "local", *words,
                            "--dir", b.state, "--token-file", b.dir + "/token"],
                           capture_output=True, text=True, timeout=PATIENCE,
                           check=False)
        ok(p.returncode == 2 and words[1] in p.stderr, p.stderr.strip())


@test
def silence(certs):
    """A minute without a word from home, of which a ping is one."""
    b = FarBlock(certs)
    yield b
    b.start()
    began = time.monotonic()
    time.sleep(SILENT / 2)
    b.home.send(t="ping")
    b.home.wait("pong")
    with contextlib.suppress(EOFError, OSError):
        b.home.wait("nothing", timeout=2 * PATIENCE)
    ok(time.monotonic() - began >= SILENT * 1.45, "a minute after the ping")
    b.home.conn.close()
    hello = b.home.accept()
    is_(hello["leases"], [], "it dials again")
    is_(b.run("w1/0.0")["status"], 0, "and works")
    b.finish()


def run(f, certs):
    print(f"# {f.__name__}: {f.__doc__ or ''}", flush=True)
    body = f(certs)
    b = next(body)
    try:
        next(body, None)
    except Exception as e:             # a broken test is a failed one
        ok(False, f"{f.__name__}: {type(e).__name__}: {e}")
        for line in (read(b.state + "/runner.log") or "").splitlines()[-20:]:
            print("# runner: " + line)
    finally:
        b.clean()


def main():
    certs = Certs()
    waits = [f for f in TESTS if f in (silence, mute)]
    chosen = [f for f in TESTS
              if not runner_test.ONLY or f.__name__ in runner_test.ONLY]
    try:
        # Those that wait for a time to pass do so beside the others.
        beside = [threading.Thread(target=run, args=(f, certs))
                  for f in chosen if f in waits]
        for t in beside:
            t.start()
        for f in chosen:
            if f not in waits:
                run(f, certs)
        for t in beside:
            t.join()
    finally:
        shutil.rmtree(certs.folder)
    return TAP.done()


if __name__ == "__main__":
    sys.exit(main())

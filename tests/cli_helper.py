"""Helpers of cli.bats that a shell cannot be.

pty STEP... -- COMMAND...
    Runs COMMAND on a terminal of its own.  A STEP is expect:TEXT (waits until
    the screen showed it), send:TEXT (types it; \\x03 is Ctrl-C) or
    size:ROWSxCOLS.  Prints what the terminal got; ends with COMMAND's exit
    status, or with 99 when an expected text does not come.

lossy SOCKET FILE
    A server that reads submissions and closes the first two connections
    without an answer, then accepts.  Writes each Idempotency-Key to FILE.
"""
import codecs
import errno
import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time

DEADLINE = float(os.environ.get("WEIR_TEST_DEADLINE", "60"))


def read_some(fd, seconds):
    """Bytes from the terminal; b'' at its end, None when there are none yet."""
    if not select.select([fd], [], [], seconds)[0]:
        return None
    try:
        return os.read(fd, 65536)
    except OSError as e:
        if e.errno == errno.EIO:
            return b""
        raise


def expect(fd, seen, text):
    """Read until `text` is in what was seen since the last match."""
    end = time.monotonic() + DEADLINE
    want = text.encode()
    while want not in seen["new"]:
        part = read_some(fd, 0.2)
        if part == b"" or time.monotonic() > end:
            return False
        if part:
            seen["all"] += part
            seen["new"] += part
    seen["new"] = seen["new"].split(want, 1)[1]
    return True


def run_pty(args):
    at = args.index("--")
    steps, command = args[:at], args[at + 1:]
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(command[0], command)
    seen = {"all": b"", "new": b""}
    failed = None
    for step in steps:
        kind, _, text = step.partition(":")
        if kind == "expect" and not expect(fd, seen, text):
            failed = text
            break
        if kind == "send":
            os.write(fd, codecs.decode(text, "unicode_escape").encode())
        if kind == "size":
            rows, cols = (int(n) for n in text.split("x"))
            fcntl.ioctl(fd, termios.TIOCSWINSZ,
                        struct.pack("HHHH", rows, cols, 0, 0))
    end = time.monotonic() + DEADLINE
    while failed is None and time.monotonic() < end:
        part = read_some(fd, 0.2)
        if part == b"":
            break
        seen["all"] += part or b""
    sys.stdout.write(seen["all"].decode("utf-8", "replace"))
    if failed is not None or time.monotonic() >= end:
        print(f"\nnever seen: {failed}")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return 99
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xff


def read_request(conn):
    data = b""
    while b"\r\n\r\n" not in data:
        part = conn.recv(65536)
        if not part:
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    while len(body) < length:
        body += conn.recv(65536)
    return head


def run_lossy(args):
    path, log = args
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(8)
    for turn in range(3):
        conn, _ = server.accept()
        head = read_request(conn).decode()
        with open(log, "a", encoding="utf-8") as f:
            for line in head.split("\r\n"):
                if line.lower().startswith("idempotency-key:"):
                    f.write(line.split(":", 1)[1].strip() + "\n")
        if turn == 2:
            body = b'{"id": "w41"}'
            conn.sendall(b"HTTP/1.1 201 Created\r\nContent-Type: "
                         b"application/json\r\nContent-Length: %d\r\n\r\n"
                         % len(body) + body)
        conn.close()
    return 0


if __name__ == "__main__":
    todo = {"pty": run_pty, "lossy": run_lossy}
    sys.exit(todo[sys.argv[1]](sys.argv[2:]))

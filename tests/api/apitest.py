"""What the tests of the API share: a server of one's own that a script
drives, in a temporary folder of its own.

The server is src/api/api_server: the real API, store and world, without
engines; the test says what runners would report.
"""
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                ".."))
from weirtest import ROOT, Client, Tap, until  # noqa: E402,F401

TIMEOUT = float(os.environ.get("WEIR_TEST_DEADLINE", "60"))
JOB = {"weir": 1, "kind": "job", "name": "job", "run": "true"}


class Server:
    def __init__(self, *args):
        self.folder = tempfile.mkdtemp(prefix="weir-api.")
        os.chmod(self.folder, 0o755)
        self.socket = os.path.join(self.folder, "sock")
        self.args = args
        try:
            self.start()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise

    def start(self):
        self.proc = subprocess.Popen(
            [sys.argv[1], self.folder, *self.args], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True)
        line = self.proc.stdout.readline()
        if line != "ready\n":
            raise RuntimeError(f"the server says {line!r}")
        self.admin = Client(self.socket, timeout=TIMEOUT)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            # Also what a sanitizer finds at the end.
            if self.end() != 0 and kind is None:
                raise RuntimeError(f"the server ended with "
                                   f"{self.proc.returncode}")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self):
        """The exit status, after it was told to stop."""
        if self.proc.poll() is None:
            self.proc.stdin.close()
            try:
                self.proc.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        return self.proc.returncode

    def tell(self, line):
        """A line of the script; what it answers."""
        self.proc.stdin.write(line + "\n")
        self.proc.stdin.flush()
        return self.proc.stdout.readline().rstrip("\n")

    def do(self, line):
        said = self.tell(line)
        if said != "ok":
            raise RuntimeError(f"{line}: {said}")

    def rss(self):
        with open(f"/proc/{self.proc.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def token(self, role, tenant="default", **more):
        """A client with a token of that role."""
        body = {"name": role, "role": role, "tenant": tenant, **more}
        r = self.admin.need("POST", "/v1/tokens", body, want=201)
        c = Client(self.socket, token=r["token"], timeout=TIMEOUT)
        c.id = r["id"]
        return c

    def raw(self, data, half=False, timeout=10):
        """Everything that the server says to these bytes until it closes or,
        with keep-alive, until it is silent.  None: it said nothing in time.
        """
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(timeout)
            s.connect(self.socket)
            got = b""
            try:
                s.sendall(data)
                if half:
                    s.shutdown(socket.SHUT_WR)
            except OSError:
                pass               # it answers before it has read everything
            try:
                while not whole(got):
                    piece = s.recv(65536)
                    if not piece:
                        break
                    got += piece
            except ConnectionResetError:
                pass
            except TimeoutError:
                return None
            return got


def whole(data):
    """Is there one whole answer with a Content-Length?"""
    head, sep, body = data.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 100"):
        return whole(body)
    if not sep:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(value)
    return False


def status(data):
    """The status of the first answer; 0: the connection was closed without
    one; None: it hangs.
    """
    if data is None:
        return None
    while data.startswith(b"HTTP/1.1 100"):
        data = data.partition(b"\r\n\r\n")[2]
    return int(data.split(b" ", 2)[1]) if data.startswith(b"HTTP/") else 0


class Events:
    """A stream of server-sent events."""

    def __init__(self, client, path, headers=None):
        self.conn, self.resp = client.stream("GET", path, headers=headers)
        self.status = self.resp.status

    def next(self):
        """The fields of the next event; a comment is {"": text}; None: the
        stream has ended.
        """
        fields = {}
        while True:
            line = self.resp.readline().decode()
            if not line:
                return None
            line = line.rstrip("\n")
            if not line:
                return fields
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")

    def take(self, n):
        return [self.next() for _ in range(n)]

    def close(self):
        self.conn.close()

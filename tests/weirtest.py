"""What the system tests share: a control plane of one's own, its API, its
processes, and TAP.

A test makes a Weir (its own state folder and socket below a temporary
folder), talks to it over the Unix socket and leaves nothing behind: whatever
was started is ended by pid, found by the name of that temporary folder, which
is nobody else's.  Only the standard library is used.

Nothing here sleeps and hopes: `until` waits for a condition, with a deadline
that only a broken program meets.
"""
import atexit
import contextlib
import functools
import http.client
import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

from tap import Tap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(os.environ.get("WEIR_BUILD",
                                       os.path.join(ROOT, "build")))
WEIR = os.path.join(BUILD, "weir")
DEADLINE = float(os.environ.get("WEIR_TEST_DEADLINE", "120"))
SIM = "sim:4xH100-80GB"


@functools.cache
def copies():
    """A folder of programs that any user can run."""
    folder = tempfile.mkdtemp(prefix="weir-programs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.chmod(folder, 0o755)
    for name in ("weir", "weir-runner", "libweir-gate.so"):
        shutil.copy2(os.path.join(BUILD, name), folder)
    return folder


def program(uid=None):
    """`weir` for that user: the tree may stand in a home closed to them."""
    return WEIR if uid is None else os.path.join(copies(), "weir")


def until(cond, what, seconds=None, step=0.02):
    """The first true answer of cond(); TimeoutError after the deadline."""
    end = time.monotonic() + (seconds or DEADLINE)
    while True:
        got = cond()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain: {what}")
        time.sleep(step)


def as_sigterm_exit():
    """A test that is told to end runs its clean-up."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


# Processes -------------------------------------------------------------------

class Process:
    """A process that belongs to a temporary folder, and what it is."""

    def __init__(self, pid, kind, words):
        self.pid = pid
        self.kind = kind               # control, runner, keeper or task
        self.words = words

    def __repr__(self):
        return f"{self.kind} {self.pid} ({self.words})"


def _read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def read_text(path):
    """What is in a file; nothing of one that is not there."""
    return _read(path).decode(errors="replace").strip()


def _links(pid):
    for name in ("cwd", "exe"):
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/{pid}/{name}")
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                yield os.readlink(f"/proc/{pid}/fd/{fd}")


def _stat(pid):
    """(state, parent) of a process; None when it is gone."""
    rest = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return (rest[0], int(rest[1])) if rest else None


def _program(pid, cmd):
    """The name of a process's program; under valgrind that of what it runs,
    which is its first word that is no option.
    """
    exe = ""
    with contextlib.suppress(OSError):
        exe = os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)")
    if "/memcheck-" in exe:
        exe = next((word for word in cmd.decode(errors="replace").split(
            "\0")[1:] if not word.startswith("-")), "")
    return os.path.basename(exe)


def _kind(pid, cmd, links):
    name = _program(pid, cmd)
    if name == "weir":
        return "control" if b"\0up\0" in cmd else "client"
    if name in ("weir-runner", "weir-runner-dynamic"):
        lock = any(link.endswith("/runner.lock") for link in links)
        return "runner" if lock else "keeper"
    return "task"


def processes(folder):
    """All processes but this one that name `folder` in their command line,
    environment, working folder or open files, and what descends from them.
    """
    needle, found, parents = folder.encode(), {}, {}
    for pid in (int(e) for e in os.listdir("/proc") if e.isdigit()):
        stat = _stat(pid)
        if pid == os.getpid() or not stat or stat[0] in (b"Z", b"X"):
            continue
        parents[pid] = stat[1]
        cmd, links = _read(f"/proc/{pid}/cmdline"), list(_links(pid))
        if (needle in cmd or needle in _read(f"/proc/{pid}/environ")
                or any(link.startswith(folder) for link in links)):
            found[pid] = _kind(pid, cmd, links)
    for pid in parents:
        above = parents.get(pid)
        while above and above not in found:
            above = parents.get(above)
        if above and pid not in found:
            found[pid] = _kind(pid, _read(f"/proc/{pid}/cmdline"), ())
    return [Process(pid, kind, _read(f"/proc/{pid}/cmdline").replace(
        b"\0", b" ").decode("utf-8", "replace").strip()[:160])
        for pid, kind in sorted(found.items())]


def environ(pid):
    """The words of a process's environment."""
    return _read(f"/proc/{pid}/environ").split(b"\0")


def end_all(folder):
    """kill -9, by pid, until nothing names `folder` any more."""
    for _ in range(200):
        left = [p for p in processes(folder)]
        if not left:
            return
        for p in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(p.pid, signal.SIGKILL)
        time.sleep(0.02)
    print(f"# could not end: {left}", flush=True)


# The API ----------------------------------------------------------------------

class Reply:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


# What a client sees while the control plane is away or going.
GONE = (OSError, http.client.HTTPException)


def query(path, **args):
    """A path with its query; a list gives an argument several times."""
    args = {k: v for k, v in args.items() if v is not None}
    if not args:
        return path
    return path + "?" + urllib.parse.urlencode(args, doseq=True)


class Client:
    """Requests over the Unix socket, or with `tls` (port and the server's
    certificate) over TLS, each on a connection of its own.

    With `uid`, the connection is made as that user (and group of the same
    number), which is what the server sees.  That needs root, and no other
    thread that opens files meanwhile.
    """

    def __init__(self, path, uid=None, token=None, timeout=DEADLINE,
                 tls=None):
        self.socket = path
        self.tls = tls
        self.uid = uid
        self.token = token
        self.timeout = timeout

    def _open(self):
        if self.tls:
            conn = http.client.HTTPSConnection(
                "127.0.0.1", self.tls[0], timeout=self.timeout,
                context=ssl.create_default_context(cafile=self.tls[1]))
            conn.connect()
            return conn
        conn = UnixConnection(self.socket, self.timeout)
        if self.uid is None:
            conn.connect()
            return conn
        gid = os.getegid()
        os.setegid(self.uid)
        os.seteuid(self.uid)
        try:
            conn.connect()
        finally:
            os.seteuid(0)
            os.setegid(gid)
        return conn

    def stream(self, method, path, body=None, headers=None):
        """(connection, response), not read yet; the caller closes both."""
        head = dict(headers or {})
        if self.token:
            head["Authorization"] = "Bearer " + self.token
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            head.setdefault("Content-Type", "application/json")
        elif body is not None:
            head.setdefault("Content-Type", "application/yaml")
        if isinstance(body, str):
            body = body.encode()
        conn = self._open()
        try:
            conn.request(method, path, body=body, headers=head)
            return conn, conn.getresponse()
        except BaseException:
            conn.close()
            raise

    def call(self, method, path, body=None, headers=None):
        conn, resp = self.stream(method, path, body, headers)
        try:
            return Reply(resp.status, dict(resp.headers), resp.read())
        finally:
            conn.close()

    def get(self, path, **args):
        return self.call("GET", query(path, **args))

    def post(self, path, body=None, **args):
        return self.call("POST", query(path, **args), body)

    def submit(self, doc, key=None, **args):
        head = {"Idempotency-Key": key} if key else {}
        return self.call("POST", query("/v1/workloads", **args), doc, head)

    def need(self, method, path, body=None, want=200):
        """The answer's JSON; an error when the status is another."""
        r = self.call(method, path, body)
        if r.status != want:
            raise RuntimeError(f"{method} {path}: {r}")
        return r.json if r.body else None

    def workloads(self, **args):
        """All of them, page by page, oldest first."""
        items, before = [], None
        while True:
            page = self.need("GET", query("/v1/workloads", limit=1000,
                                          before=before, **args))
            items += page["items"]
            before = page.get("next")
            if not before:
                return items[::-1]

    def tasks(self, wid):
        items, start = [], None
        while True:
            page = self.need("GET", query(f"/v1/workloads/{wid}/tasks",
                                          limit=10000, **{"from": start}))
            items += page["items"]
            start = page.get("next")
            if start is None:
                return items

    def events(self, since=None, **args):
        """The journal from `since` on, page by page."""
        items = []
        while True:
            page = self.need("GET", query("/v1/events", limit=1000,
                                          since=since, **args))
            items += page["items"]
            if not page.get("next") or not page["items"]:
                return items
            since = page["next"]

    def cursor(self, seq=None):
        """A place in the journal of this epoch: its end unless said."""
        stat = self.need("GET", "/v1/stat")
        return f"{stat['epoch']}:{stat['seq'] if seq is None else seq}"

    def wait(self, wid, state="ended", seconds=None):
        """The workload, once it is in that state."""
        def there():
            w = self.need("GET", f"/v1/workloads/{wid}")
            return w if w["state"] == state else None
        return until(there, f"{wid} {state}", seconds)


# A control plane of one's own -------------------------------------------------

_folders = []


def _clean():
    for folder in _folders:
        end_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


atexit.register(_clean)


class Weir:
    """`weir up` in a temporary folder.  Use it in a `with`."""

    def __init__(self, devices=SIM, args=(), env=None, uid=None):
        self.folder = tempfile.mkdtemp(prefix="weir-t.")
        _folders.append(self.folder)
        # Others reach the socket and the marks, never the state.
        os.chmod(self.folder, 0o755)
        self.state = os.path.join(self.folder, "state")
        self.socket = os.path.join(self.folder, "sock")
        self.log = os.path.join(self.folder, "up.log")
        self.devices = devices
        self.args = list(args)
        self.env = env or {}
        self.uid = uid
        if uid is not None:
            os.chown(self.folder, uid, uid)
        self.proc = None
        self.client = Client(self.socket)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def command(self, *args, uid=None):
        return [program(uid or self.uid), "up", "--state", self.state, "--socket",
                self.socket, "--devices", self.devices, *self.args, *args]

    def start(self, wait=True):
        env = dict(os.environ, **self.env)
        user = {} if self.uid is None else {
            "user": self.uid, "group": self.uid, "extra_groups": []}
        with open(self.log, "ab") as log:
            self.proc = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env=env, start_new_session=True, **user)
        if wait:
            self.wait_ready()
        return self

    def ready(self):
        with contextlib.suppress(*GONE):
            return self.client.get("/readyz").status == 200
        return False

    def wait_ready(self, seconds=None):
        def there():
            if self.proc.poll() is not None:
                raise RuntimeError("weir up ended by itself with "
                                   f"{self.proc.returncode}:\n{self.tail()}")
            return self.ready()
        until(there, "readyz", seconds)

    def wait_devices(self):
        """The block is up and its devices are known."""
        def there():
            pools = self.client.need("GET", "/v1/pools")["items"]
            return any(n.get("up") for p in pools for n in p["nodes"])
        until(there, "a block that is up")

    def kill(self):
        """kill -9 of the control plane; its exit status before that, or
        None when it was alive, as it should be.
        """
        early = self.proc.poll()
        self.proc.kill()
        self.proc.wait()
        return early

    def stop(self):
        """SIGTERM and the exit status."""
        self.proc.terminate()
        return self.proc.wait(DEADLINE)

    def tail(self, lines=30):
        with open(self.log, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def faults(self):
        """Lines of its logs and its runner's that no run may have."""
        words = ("AddressSanitizer", "runtime error:", "LeakSanitizer",
                 "ThreadSanitizer", "Assertion", "assertion")
        logs = [self.log] + [os.path.join(d, "runner.log")
                             for d, _, files in os.walk(self.state)
                             if "runner.log" in files]
        found = []
        for path in logs:
            with open(path, errors="replace") as f:
                found += [line.rstrip() for line in f
                          if any(w in line for w in words)]
        return found

    def processes(self, *kinds):
        return [p for p in processes(self.folder)
                if not kinds or p.kind in kinds]

    def runner(self):
        found = self.processes("runner")
        return found[0] if found else None

    def cli(self, *args, uid=None, stdin=None, env=None, check=False):
        """`weir ARGS` against this control plane, run to its end."""
        user = {} if uid is None else {
            "user": uid, "group": uid, "extra_groups": []}
        full = dict(os.environ, WEIR_SOCKET=self.socket, WEIR_STATE=self.state,
                    NO_COLOR="1", **(env or {}))
        r = subprocess.run([program(uid), *args], stdin=subprocess.DEVNULL
                           if stdin is None else None, input=stdin,
                           capture_output=True, text=True, env=full,
                           cwd="/", timeout=DEADLINE, **user)
        if check and r.returncode:
            raise RuntimeError(f"weir {args}: {r.returncode}: {r.stderr}")
        return r

    def settled(self, seconds=None):
        """Nothing is live any more."""
        def none():
            with contextlib.suppress(*GONE):
                return not self.client.need(
                    "GET", query("/v1/workloads", state="live",
                                 limit=1))["items"]
            return False
        until(none, "every workload to end", seconds, 0.1)

    def wait_alone(self, seconds=None):
        """Every process of ours ends by itself; what stays is returned."""
        try:
            until(lambda: not self.processes(), "no process left", seconds,
                  0.2)
        except TimeoutError:
            pass
        return self.processes()

    def end(self):
        """End everything and remove the folder."""
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        end_all(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder in _folders:
            _folders.remove(self.folder)


def listener(folder):
    """(port, certificate, options of `weir up`) of a TLS listener."""
    cert, key = (os.path.join(folder, f) for f in ("cert.pem", "key.pem"))
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-days", "1",
                    "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out",
                    cert], check=True, capture_output=True)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    return port, cert, ["--listen", f"127.0.0.1:{port}", "--tls-cert", cert,
                        "--tls-key", key]


def main(run):
    """Run a test program's body with a Tap; its errors become a point."""
    as_sigterm_exit()
    tap = Tap()
    try:
        run(tap)
    except Exception as e:             # a test program's outermost level
        import traceback
        tap.ok(False, f"ran to its end: {type(e).__name__}: {e}",
               traceback.format_exc())
    sys.exit(tap.done())

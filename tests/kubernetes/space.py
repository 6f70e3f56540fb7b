"""Namespaces of a test's own, and programs in them.

What is in a namespace ends with it, and a namespace ends with its last
process: of a test that is killed no process, no mount and no interface stays.
"""
import contextlib
import ctypes
import os
import signal
import subprocess
import time

DEADLINE = float(os.environ.get("WEIR_TEST_DEADLINE", "120"))
LIBC = ctypes.CDLL(None, use_errno=True)
NEWNS, NEWPID, NEWNET = 0x00020000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1


def system(name, *args):
    if getattr(LIBC, name)(*args) < 0:
        e = ctypes.get_errno()
        raise OSError(e, f"{name}: {os.strerror(e)}")


def command(*argv):
    """A program that must succeed; what it printed."""
    r = subprocess.run(argv, capture_output=True, text=True, check=False)
    if r.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {r.returncode}: "
                           f"{r.stdout}{r.stderr}")
    return r.stdout


def apart():
    """From here on this process, and what it starts, has a network of its own,
    with loopback alone, and mounts that nobody else sees.  Before any thread.
    """
    if os.geteuid() != 0:
        raise PermissionError("a network of its own wants root")
    system("unshare", NEWNET | NEWNS)
    command("mount", "--make-rprivate", "/")
    command("ip", "link", "set", "lo", "up")


class Program:
    """A program that runs until it is ended, by its process id.  It does not
    outlive the thread that started it.
    """

    def __init__(self, name, argv, folder, space=None, env=None):
        self.name = name
        self.argv = argv
        self.log = os.path.join(folder, f"{name}.log")
        self.space = space
        self.env = dict(os.environ, **(env or {}))
        self.proc = None

    def begin(self):
        """In the child, before it is the program."""
        system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        if self.space:
            self.space.enter()

    def start(self):
        inside = self.space.births() if self.space else \
            contextlib.nullcontext()
        with open(self.log, "ab") as log, inside:
            # Not a "with": it lives until end().
            self.proc = subprocess.Popen(  # pylint: disable=R1732,W1509
                self.argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.env, preexec_fn=self.begin)

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def need(self):
        if not self.alive():
            raise RuntimeError(f"{self.name} ended:\n{self.tail()}")

    def end(self, sig=signal.SIGKILL):
        if self.proc is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.proc.send_signal(sig)
        try:
            self.proc.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
        self.proc = None

    def tail(self):
        with contextlib.suppress(OSError), open(self.log, "rb") as f:
            return f.read()[-3000:].decode(errors="replace")
        return ""


class Space:
    """Processes, mounts and a network of their own, like a machine's.  It is
    held by its first process; when that ends, so does all in it.
    """

    def __init__(self):
        self.files = {}
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            system("unshare", NEWPID)
            # A shell that waits reaps those who lost their parents.
            self.first = subprocess.Popen(  # pylint: disable=R1732,W1509
                ["sh", "-c", "sleep infinity & wait"],
                stdin=subprocess.DEVNULL, preexec_fn=self.begin)
        finally:
            system("setns", own, NEWPID)
            os.close(own)
        for kind in "mnt", "net", "pid":
            self.files[kind] = os.open(f"/proc/{self.first.pid}/ns/{kind}",
                                       os.O_RDONLY | os.O_CLOEXEC)
        self.run("mount", "-t", "proc", "proc", "/proc")
        self.run("ip", "link", "set", "lo", "up")

    @staticmethod
    def begin():
        system("prctl", PR_SET_PDEATHSIG, signal.SIGKILL)
        system("unshare", NEWNET | NEWNS)

    def enter(self):
        system("setns", self.files["net"], NEWNET)
        system("setns", self.files["mnt"], NEWNS)

    @contextlib.contextmanager
    def births(self):
        """Processes that are started meanwhile are in it."""
        own = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        try:
            system("setns", self.files["pid"], NEWPID)
            yield
        finally:
            system("setns", own, NEWPID)
            os.close(own)

    def run(self, *argv, check=True):
        """A program that ends; what it printed."""
        with self.births():
            p = subprocess.Popen(      # pylint: disable=R1732,W1509
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, text=True, preexec_fn=self.enter)
        out, _ = p.communicate()
        if check and p.returncode:
            raise RuntimeError(f"{' '.join(argv)}: {p.returncode}: {out}")
        return out

    def close(self, programs=()):
        """`programs` are those of ours in it: they end with it, and it is
        over when we know of that.
        """
        self.first.kill()
        for p in programs:
            p.end()
        self.first.wait()
        for fd in self.files.values():
            os.close(fd)
        self.files = {}


def until(cond, what, seconds=None, step=0.05):
    """The first true answer of cond(); TimeoutError after the deadline."""
    end = time.monotonic() + (seconds or DEADLINE)
    while True:
        got = cond()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"waited in vain: {what}")
        time.sleep(step)

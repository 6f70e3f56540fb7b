"""A machine of the stand-in drivers, and jobs that use its devices."""
import os
import signal
import subprocess

import weirtest
from weirtest import until

MIB = 1 << 20
UUID = [f"GPU-0000000{k}-0000-0000-0000-00000000000{k}" for k in range(4)]


class Driver:
    """A folder of the stand-in; devices are put there by gpu()."""

    def __init__(self, folder, standin):
        self.folder, self.standin = folder, standin
        self.dir = folder + "/driver"
        os.mkdir(self.dir)
        os.chmod(self.dir, 0o777)
        self.write("driver", "version=580.159.04\ncuda=13000\n")

    def write(self, name, text):
        with open(f"{self.dir}/{name}.new", "w", encoding="ascii") as f:
            f.write(text)
        os.rename(f"{self.dir}/{name}.new", f"{self.dir}/{name}")

    def gpu(self, index, k=None, more=""):
        """Device k, or the one of that number, at that place."""
        self.write(f"gpu{index}", f"uuid={UUID[index if k is None else k]}\n"
                   f"model=NVIDIA H200\nmemory={1024 * MIB}\n{more}")

    def env(self):
        return {"WEIR_STANDIN": self.dir, "LD_LIBRARY_PATH": self.standin}


class Machine(Driver):
    """... with two devices, and a weir-gpud from start() to end()."""

    def __init__(self, folder, standin, gpud):
        super().__init__(folder, standin)
        self.program, self.daemon = gpud, None
        self.sock = folder + "/gpud.sock"
        os.mkdir(folder + "/gpud.d", 0o700)
        for k in range(2):
            self.gpu(k)

    def start(self, *args):
        with open(self.folder + "/gpud.log", "a", encoding="utf-8") as log:
            # Not a "with": it lives until end().
            self.daemon = subprocess.Popen(  # pylint: disable=R1732
                [self.program, "--socket", self.sock, "--every", "100ms",
                 "--state", self.folder + "/gpud.d", *args],
                env=dict(os.environ, **self.env()), stderr=log)
        until(lambda: os.path.exists(self.sock), "weir-gpud's socket")

    def end(self):
        if self.daemon:
            self.daemon.send_signal(signal.SIGTERM)
            self.daemon.wait(weirtest.DEADLINE)


class Jobs:
    """Each takes its device, and memory there; told to go it takes more, and
    ends.
    """

    def __init__(self, weir, standin):
        self.weir, self.client, self.standin = weir, weir.client, standin

    def path(self, name):
        return f"{self.weir.folder}/{name}.out"

    def lines(self, name):
        try:
            with open(self.path(name), encoding="ascii") as f:
                return f.read().count("\n")
        except FileNotFoundError:
            return 0

    def submit(self, name, **doc):
        out = self.path(name)
        r = self.client.submit({
            "weir": 1, "kind": "job", "name": name, "gpus": 1, "cpus": 0.01,
            "memory": "64Mi", "env": {"LD_LIBRARY_PATH": self.standin},
            "run": f"export WEIR_STANDIN={self.weir.env['WEIR_STANDIN']}; "
                   f"{{ printf 'init\\nuse\\nalloc {64 * MIB}\\n'; "
                   f"until test -e {out}.go; do sleep 0.05; done; "
                   f"printf 'alloc {MIB}\\n'; }} | "
                   f"{self.standin}/guest-link >> {out}", **doc})
        if r.status != 201:
            raise RuntimeError(f"submit: {r}")
        return r.json["id"]

    def running(self, name, **doc):
        wid = self.submit(name, **doc)
        until(lambda: self.lines(name) >= 3, f"{name} has its device")
        return wid

    def end(self, name, wid):
        with open(self.path(name) + ".go", "w", encoding="ascii"):
            pass
        return self.client.wait(wid)["outcome"], self.lines(name)

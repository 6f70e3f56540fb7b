"""Images for containers, made from files of this machine."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "deploy"))
from oci import archive, needed  # noqa: E402,F401


def busybox():
    """(files, links) of Debian's static busybox: a shell and what goes with
    it.
    """
    path = next(p for p in ("/bin/busybox", "/usr/bin/busybox")
                if os.path.exists(p))
    names = subprocess.run([path, "--list"], check=True, capture_output=True,
                           text=True).stdout.split()
    return {"/bin/busybox": path}, {f"/bin/{n}": "busybox" for n in names
                                    if n != "busybox"}

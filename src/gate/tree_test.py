#!/usr/bin/env python3
"""The gate's test in the root tree of another libc (TAP).

Usage: tree_test.py musl|old LIBWEIR_GATE STANDIN_FOLDER

The library is the one that was built; the driver's stand-in and the programs are
built again for the tree, and run in it with nothing else there.

    musl   with musl-gcc
    old    with the headers and libraries of the tree that $WEIR_OLD_TREE names;
           tools/old-tree makes one
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STANDIN = os.path.abspath(HERE + "/../../tests/standin")
MUSL = "/lib/ld-musl-x86_64.so.1"
FLAGS = ["-O1", "-g", "-std=gnu11", "-D_GNU_SOURCE", "-fvisibility=hidden"]


def skip(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def build(cc, to):
    """What tests/standin/meson.build makes of the same sources."""
    def run(out, *args):
        os.makedirs(os.path.dirname(f"{to}/{out}"), exist_ok=True)
        subprocess.run([*cc, *FLAGS, "-o", f"{to}/{out}", *args, "-ldl",
                        "-lpthread"], check=True)

    shared = ["-shared", "-fPIC", "-Wl,-Bsymbolic"]
    driver = [*shared, "-Wl,-soname,libcuda.so.1",
              *sorted(glob.glob(STANDIN + "/cuda_*.c"))]
    run("libcuda.so.1", *driver)
    run("versioned/libcuda.so.1", *driver,
        f"-Wl,--version-script,{STANDIN}/versioned/cuda.map")
    run("libwrap.so", *shared, STANDIN + "/wrap.c")
    run("guest-link", "-DWAY_LINK", STANDIN + "/guest.c",
        to + "/libcuda.so.1")
    run("guest-dlsym", "-DWAY_DLSYM", STANDIN + "/guest.c")
    run("guest-address", "-DWAY_ADDRESS", STANDIN + "/guest.c")


def musl(root):
    if not shutil.which("musl-gcc") or not os.path.exists(MUSL):
        skip("no musl-gcc")
    os.makedirs(root + "/lib")
    shutil.copy(os.path.realpath(MUSL), root + MUSL)
    return ["musl-gcc"]


def old(root):
    tree = os.environ.get("WEIR_OLD_TREE", "")
    if not tree or not os.path.isdir(tree + "/usr/include"):
        skip("no tree in WEIR_OLD_TREE")
    for name in ("lib", "lib64"):
        shutil.copytree(f"{tree}/{name}", f"{root}/{name}", symlinks=True)
    lib = tree + "/usr/lib/x86_64-linux-gnu"
    return ["gcc", "--sysroot=" + tree, "-B" + lib, "-L" + lib,
            "-isystem", tree + "/usr/include/x86_64-linux-gnu"]


def main(which, lib):
    if os.environ.get("WEIR_TREE_INSIDE"):
        root = os.environ["WEIR_TEST_ROOT"]
        for place in ("/proc", "/dev", os.path.dirname(lib),
                      os.environ["TMPDIR"], os.environ["WEIR_TREE_INSIDE"]):
            os.makedirs(root + place, exist_ok=True)
            subprocess.run(["mount", "--rbind", place, root + place],
                           check=True)
        return subprocess.run([sys.executable, HERE + "/gate_test.py", lib,
                               os.environ["WEIR_TREE_INSIDE"]]).returncode
    with tempfile.TemporaryDirectory(prefix="weir-tree-") as d:
        root = d + "/root"
        os.makedirs(d + "/t")
        build({"musl": musl, "old": old}[which](root), d + "/s")
        if os.geteuid() != 0 and subprocess.run(
                ["unshare", "-rm", "true"], stderr=subprocess.DEVNULL
                ).returncode:
            skip("no right to change the root folder")
        return subprocess.run(
            ["unshare", "-m" if os.geteuid() == 0 else "-rm", sys.executable,
             __file__, *sys.argv[1:]],
            env={**os.environ, "TMPDIR": d + "/t", "WEIR_TEST_ROOT": root,
                 "WEIR_TEST_LIBC": which, "WEIR_TREE_INSIDE": d + "/s",
                 "WEIR_TEST_TOOLS": os.path.abspath(sys.argv[3])}
            ).returncode


sys.exit(main(sys.argv[1], os.path.abspath(sys.argv[2])))

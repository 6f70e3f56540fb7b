"""Programs of a build folder, wrapped so that valgrind runs them.

`Wrapped(BUILD)` is a folder that tests take for the build folder; its programs
are scripts around copies, for users whom the build folder is closed to.  What
valgrind finds is in `findings`; a process that was killed has said what it
found until then.
"""
import pathlib
import re
import shutil
import tempfile

OPTIONS = ["-q", "--error-exitcode=99", "--leak-check=full",
           "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite",
           "--trace-children=no",
           # No files for a debugger: those of another user's process that was
           # killed would be in the way of the next with its number.
           "--vgdb=no"]
SCRIPT = """#!/bin/sh
export WEIR_PIDFD_GIVE="{real}/pidfd-give"
export LD_PRELOAD="{real}/pidfd.so${{LD_PRELOAD:+:$LD_PRELOAD}}"
{before}exec valgrind {options} --log-file={log}/%p "{real}/{name}" "$@"
"""
OWN_RUNNER = """if [ "$1" = up ]; then
    shift
    set -- up --runner "{folder}/weir-runner" "$@"
fi
"""
# Name of a copy, and where it is in the build folder.  Valgrind sees the heap
# of a dynamic program only, and weir-runner is static.
COPIES = {"weir": "weir", "weir-runner": "tests/valgrind/weir-runner-dynamic",
          "api_server": "src/api/api_server",
          "pidfd.so": "tests/valgrind/pidfd.so",
          "pidfd-give": "tests/valgrind/pidfd-give"}
WRAPPED = {"weir": "weir", "weir-runner": "weir-runner",
           "api_server": "src/api/api_server"}
# Words of valgrind about itself.
NOISE = re.compile(r"--\d+-- (WARNING: unhandled amd64-linux syscall: 43[56]"
                   r"|You may be able to write your own handler"
                   r"|Read the file README_MISSING_SYSCALL_OR_IOCTL"
                   r"|Nevertheless we consider this a bug"
                   r"|it at http://valgrind.org)")


class Wrapped:
    def __init__(self, build):
        self.build = pathlib.Path(build)
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="weir-vg."))
        self.real = self.folder / "real"
        self.log = self.folder / "log"
        self.real.mkdir()
        self.log.mkdir()
        self.folder.chmod(0o755)
        self.real.chmod(0o755)
        self.log.chmod(0o1777)
        for name, path in COPIES.items():
            shutil.copy2(self.build / path, self.real / name)
        shutil.copy2(self.build / "libweir-gate.so", self.folder)
        self.programs = {str(self.build / path): self._wrap(name)
                         for name, path in WRAPPED.items()}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def _wrap(self, name):
        path = self.folder / name
        before = OWN_RUNNER.format(folder=self.folder) if name == "weir" else ""
        path.write_text(SCRIPT.format(
            real=self.real, before=before, options=" ".join(OPTIONS),
            log=self.log, name=name))
        path.chmod(0o755)
        return str(path)

    def command(self, argv):
        """The same with wrapped programs; meson names some of them as seen
        from the build folder.
        """
        return [self.programs.get(str(self.build / word), word)
                for word in argv]

    def findings(self):
        """What valgrind said, line by line."""
        return [line for path in sorted(self.log.iterdir())
                for line in path.read_text(errors="replace").splitlines()
                if not NOISE.match(line)]

"""The program `follow`, driven by a test."""
import json
import os
import queue
import subprocess
import threading
import time

DEADLINE = float(os.environ.get("WEIR_TEST_DEADLINE", "120"))


class Follow:
    """The program under test."""

    def __init__(self, *argv):
        self.proc = subprocess.Popen(argv, text=True,
                                     stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        self.lines = queue.Queue()
        self.said = []
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.proc.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def next(self, *keys):
        """The next line that has one of these."""
        end = time.monotonic() + DEADLINE
        while True:
            line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            if line is None:
                raise RuntimeError(f"follow ended; it said {self.said[-5:]}")
            self.said.append(line)
            if any(k in line for k in keys):
                return line

    def sums(self):
        self.proc.stdin.write("\n")
        self.proc.stdin.flush()
        return self.next("nodes")

    def until(self, want):
        """The sums once they are so; the last ones when they never are."""
        end = time.monotonic() + DEADLINE
        while True:
            s = self.sums()
            if all(s[k] == v for k, v in want.items()) or \
                    time.monotonic() > end:
                return s
            time.sleep(0.05)

    def listed(self):
        seen = set()
        while len(seen) < 2:
            seen.add(self.next("listed")["listed"])

    def troubles(self):
        self.sums()                    # so that all before it has been read
        return [x["trouble"] for x in self.said if "trouble" in x]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        if self.proc.stdin:
            self.proc.stdin.close()
            self.proc.stdin = None
        try:
            return self.proc.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            return self.proc.wait()


def said(tap, program, conf, words, text, well=0):
    """One line for each of the two lists, with these words, and no hurry;
    after that many requests that go well.
    """
    with Follow(program, conf) as f:
        start = time.monotonic()
        while f.sums()["sent"] < 6 + well:
            time.sleep(0.1)
        took = time.monotonic() - start
        lines = f.troubles()
        good = len(lines) == 2 and all(
            w in line and "\n" not in line for line in lines for w in words)
        tap.ok(good, f"{text}: {lines[0] if lines else ''}", *lines)
        tap.ok(took >= 0.25, f"six tries in {took:.1f} s are no busy loop")

"""What a test says: points that are ok or not, one a line (TAP)."""
import sys


class Tap:
    """TAP on standard output: `ok` for each point, `done` at the end."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def ok(self, cond, text, *details):
        self.count += 1
        if not cond:
            self.failed += 1
        print(f"{'ok' if cond else 'not ok'} {self.count} - {text}")
        if not cond:
            for d in details:
                self.note(d)
        sys.stdout.flush()
        return bool(cond)

    def equal(self, got, want, text):
        return self.ok(got == want, text, f"got:    {got!r}",
                       f"wanted: {want!r}")

    def none(self, problems, text):
        """A list that has to be empty; its first entries are shown."""
        problems = list(problems)
        more = len(problems) - 20
        shown = problems[:20] + ([f"... and {more} more"] if more > 0 else [])
        return self.ok(not problems, text, *shown)

    def skip(self, text, why):
        self.count += 1
        print(f"ok {self.count} - {text} # SKIP {why}", flush=True)

    def note(self, text):
        for line in str(text).splitlines() or [""]:
            print(f"# {line}", flush=True)

    def done(self):
        print(f"1..{self.count}", flush=True)
        return 1 if self.failed or not self.count else 0

"""schema_test.py PROGRAM EXAMPLES CASES - is the JSON Schema of use?

Everything that the reader accepts must be valid by the schema, read as YAML
with types and as YAML in which all is text; and the schema must refuse what
it can refuse.
"""
import json
import os
import pathlib
import re
import subprocess
import sys

import jsonschema
import yaml

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "tests"))
from tap import Tap  # noqa: E402


class Typed(yaml.SafeLoader):
    """YAML 1.2 as far as it matters here: dates, yes, no and on are texts."""


BOOL = "tag:yaml.org,2002:bool"
Typed.yaml_implicit_resolvers = {
    first: [(tag, regexp) for tag, regexp in rows
            if tag not in (BOOL, "tag:yaml.org,2002:timestamp")]
    for first, rows in yaml.SafeLoader.yaml_implicit_resolvers.items()}
Typed.add_implicit_resolver(BOOL, re.compile(
    "^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF"))

BAD = [
    "[]",
    "{kind: job, run: x}",
    "{weir: 2, kind: job, run: x}",
    "{weir: 1, kind: jobs, run: x}",
    "{weir: 1, kind: job}",
    "{weir: 1, kind: job, run: x, argv: [x]}",
    "{weir: 1, kind: job, run: [x]}",
    "{weir: 1, kind: job, run: ''}",
    "{weir: 1, kind: job, argv: []}",
    "{weir: 1, kind: job, run: x, nonsense: 1}",
    "{weir: 1, kind: job, run: x, needs: a}",
    "{weir: 1, kind: job, run: x, tasks: {}}",
    "{weir: 1, kind: job, run: x, memory: 40Gx}",
    "{weir: 1, kind: job, run: x, timeout: soon}",
    "{weir: 1, kind: job, run: x, gpus: -1}",
    "{weir: 1, kind: job, run: x, ranks: 1.5}",
    "{weir: 1, kind: job, run: x, ranks: {mim: 1}}",
    "{weir: 1, kind: job, run: x, near: there}",
    "{weir: 1, kind: job, run: x, nodes: [a]}",
    "{weir: 1, kind: job, run: x, dir: src}",
    "{weir: 1, kind: job, run: x, gpu: {modle: a}}",
    "{weir: 1, kind: job, run: x, retries: {on: [lost]}}",
    "{weir: 1, kind: job, run: x, checkpoint: {signal: KILL}}",
    "{weir: 1, kind: job, run: x, mounts: [{source: a}]}",
    "{weir: 1, kind: job, run: x, env: {A: [1]}}",
    "{weir: 1, kind: job, run: x, deadline: tomorrow}",
    "{weir: 1, kind: job, run: x, name: a b}",
    "{weir: 1, kind: pipeline}",
    "{weir: 1, kind: pipeline, tasks: {}}",
    "{weir: 1, kind: pipeline, tasks: []}",
    "{weir: 1, kind: pipeline, run: x, tasks: {a: {run: x}}}",
    "{weir: 1, kind: pipeline, tasks: [{run: x}]}",
    "{weir: 1, kind: pipeline, tasks: {a: {run: x, when: never}}}",
    "{weir: 1, kind: pipeline, tasks: {a: {run: x, matrix: {i: 1}}}}",
    "{weir: 1, kind: pipeline, defaults: {needs: a}, tasks: {a: {run: x}}}",
]


def cases(path):
    """The documents of doc_test.txt which are accepted."""
    for case in path.read_text(encoding="utf-8").split("=== ")[1:]:
        title, _, rest = case.partition("\n")
        text, _, want = rest.partition("\n---\n")
        text = "\n".join(line for line in text.split("\n")
                         if not line.startswith("-p "))
        if want.startswith("{"):
            yield title, text


def problem(validator, value):
    error = jsonschema.exceptions.best_match(validator.iter_errors(value))
    return "" if error is None else f" ({error.json_path}: {error.message})"


def main(program, examples, case_file):
    tap = Tap()
    schema = json.loads(subprocess.run([program, "print"], check=True,
                                       capture_output=True).stdout)
    jsonschema.Draft202012Validator.check_schema(schema)
    tap.ok(True, "the schema is valid by its own schema")
    validator = jsonschema.Draft202012Validator(schema)
    good = [(p.name, p.read_text(encoding="utf-8"))
            for p in sorted(pathlib.Path(examples).iterdir())
            if p.suffix in (".yaml", ".json")]
    tap.ok(len(good) >= 12, "there are examples")
    accepted = list(cases(pathlib.Path(case_file)))
    tap.ok(len(accepted) >= 10, "there are accepted cases")
    for name, text in good + accepted:
        typed = problem(validator, yaml.load(text, Typed))
        tap.ok(not typed, f"{name} is valid{typed}")
        plain = problem(validator, yaml.load(text, yaml.BaseLoader))
        tap.ok(not plain, f"{name} is valid as texts{plain}")
    for text in BAD:
        tap.ok(not validator.is_valid(yaml.load(text, Typed)),
               f"refused: {text}")
    return tap.done()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

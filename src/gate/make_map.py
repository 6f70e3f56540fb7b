#!/usr/bin/env python3
"""Writes the gate's version script: the names of hooks.def, and nothing else.

Usage: make_map.py HOOKS_DEF
"""
import re
import sys


def names(path):
    with open(path) as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return re.findall(r"\b(?:HOOK|PASS)\((\w+),", text)


if __name__ == "__main__":
    shown = ["weir_gate_version", "dlsym", "dlvsym", *names(sys.argv[1])]
    print("{ global: " + " ".join(n + ";" for n in shown) + " local: *; };")

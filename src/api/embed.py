#!/usr/bin/env python3
"""embed.py FILE NAME: FILE as the C array `const char NAME[]`."""
import sys

data = open(sys.argv[1], "rb").read() + b"\0"
print(f'#include "api/{sys.argv[2]}.h"\n')
print(f"const char {sys.argv[2]}[] = {{")
for i in range(0, len(data), 16):
    print("    " + " ".join(f"{b}," for b in data[i:i + 16]))
print("};")

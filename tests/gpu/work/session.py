"""An interactive Python session: what is typed comes through a pipe.

Usage: session.py PIPE; says `ran` and a number after each statement.
"""
import code
import sys

from say import say

console = code.InteractiveConsole({"say": say})
say("begun")
with open(sys.argv[1], encoding="utf-8") as typed:
    for number, line in enumerate(typed):
        console.push(line.rstrip("\n"))
        say("ran", number)

"""One line: to standard output, and with the time into the file $SAY."""
import os
import time


def say(*words):
    text = " ".join(map(str, words))
    print(text, flush=True)
    if "SAY" in os.environ:
        with open(os.environ["SAY"], "a", encoding="ascii") as f:
            f.write(f"{time.time():.6f} {text}\n")

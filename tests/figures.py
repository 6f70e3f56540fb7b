"""What the benchmarks say: one JSON object a line."""
import json


def say(name, **values):
    print(json.dumps({"bench": name, **values}), flush=True)


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]

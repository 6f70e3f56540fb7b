"""Steps and launches a second of one process, as JSON.

Usage: rates.py; of each the best of several goes.
"""
import json
import time

import torch


def rate(work, n):
    """n goes, a second."""
    torch.cuda.synchronize()
    begun = time.perf_counter()
    work(n)
    torch.cuda.synchronize()
    return n / (time.perf_counter() - begun)


def launches():
    a = torch.randn(256, 256, device="cuda")
    b = torch.empty_like(a)

    def work(n):
        for _ in range(n):
            torch.add(a, 1, out=b)
    return work


def steps(width, batch, dtype):
    model = torch.nn.Sequential(*[
        x for _ in range(8) for x in (torch.nn.Linear(width, width),
                                      torch.nn.GELU())]).cuda().to(dtype)
    sgd = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(batch, width, device="cuda", dtype=dtype)

    def work(n):
        for _ in range(n):
            sgd.zero_grad(set_to_none=True)
            model(x).float().square().mean().backward()
            sgd.step()
    return work


def main():
    kinds = {"launches": (launches(), 100000, 4),
             "small_steps": (steps(512, 256, torch.float32), 800, 4),
             "steps": (steps(8192, 4096, torch.bfloat16), 30, 4)}
    found = {}
    for name, (work, n, goes) in kinds.items():
        work(n // 10)
        found[name] = max(rate(work, n) for _ in range(goes))
    print(json.dumps(found))


if __name__ == "__main__":
    main()

"""Trains a small model, deterministically, and says what came of it.

Usage: train.py STEPS [BALLAST_GIB [WORKERS]]
"""
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch                           # noqa: E402
from say import say                    # noqa: E402

torch.use_deterministic_algorithms(True)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(256, generator=g)


def batches(workers):
    while True:
        yield from torch.utils.data.DataLoader(
            Numbers(), batch_size=64, num_workers=workers,
            persistent_workers=False)


def main():
    steps = int(sys.argv[1])
    ballast = float(sys.argv[2]) if len(sys.argv) > 2 else 0
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    say("imported")
    torch.manual_seed(1)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 2048), torch.nn.GELU(),
        torch.nn.Linear(2048, 2048), torch.nn.GELU(),
        torch.nn.Linear(2048, 256)).cuda()
    heavy = torch.empty(int(ballast * (1 << 28)), device="cuda",
                        dtype=torch.int32)
    parts = heavy.split(1 << 28) if ballast else ()
    for k, part in enumerate(parts):
        torch.arange(len(part), out=part).add_(k)
    adam = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = batches(workers) if workers else None
    x = torch.randn(64, 256, device="cuda")
    say("ready")
    for i in range(steps):
        if data:
            x = next(data).cuda()
        adam.zero_grad(set_to_none=True)
        loss = (model(x) - x).square().mean()
        loss.backward()
        adam.step()
        if i % 50 == 0:
            say("step", i)
    total = sum(p.double().sum() for p in model.parameters()).item()
    # Piece by piece: a sum of another type takes a copy of that type.
    say("sum", total.hex(), sum(part.sum(dtype=torch.int64).item()
                                for part in parts))


if __name__ == "__main__":
    main()

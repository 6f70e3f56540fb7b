"""Two ranks on one device that talk by gloo.

Usage: ranks.py STEPS
"""
import os
import sys
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch                           # noqa: E402
import torch.distributed as dist       # noqa: E402
import torch.multiprocessing as mp     # noqa: E402
from say import say                    # noqa: E402


def rank(r, steps, folder):
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("gloo", rank=r, world_size=2,
                            init_method=f"file://{folder}/rendezvous")
    torch.manual_seed(r)
    w = torch.randn(1024, 1024, device="cuda")
    dist.barrier()
    if r == 0:
        say("ready")
    for i in range(steps):
        w = torch.tanh(w @ w * .001 + w)
        if i % 10 == 0:
            part = w[:8].cpu()
            dist.all_reduce(part)
            w[:8] = (part / 2).cuda()
        if i % 50 == 0 and r == 0:
            say("step", i)
    if r == 0:
        say("sum", w.double().sum().item().hex())


if __name__ == "__main__":
    mp.spawn(rank, args=(int(sys.argv[1]), tempfile.mkdtemp()), nprocs=2)

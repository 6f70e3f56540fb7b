"""One stage of a pipeline, or all of them in one process.

Usage: stage.py KIND SEED AMOUNT [AMOUNT...] FOLDER

KIND: prepare, train, evaluate, infer; or all, with four amounts.  Stages pass
files in FOLDER on to each other; infer writes what came of it into `result`.
A stage that needs the device imports the framework, prepares, and says `ready`
on the device and `done` when it has no more use for it.
"""
import hashlib
import os
import sys

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
os.environ.setdefault("OMP_NUM_THREADS", "1")
import numpy                           # noqa: E402

from say import say                    # noqa: E402

WIDTH, ROWS = 2048, 8192


def prepare(seed, amount, folder):
    """Reads and sorts: a CPU, no device."""
    draw = numpy.random.default_rng(seed)
    data = draw.standard_normal((ROWS, 256), dtype=numpy.float32)
    for _ in range(amount):
        data = numpy.sort(data, axis=0)
        data = data[draw.permutation(ROWS)]
    numpy.save(f"{folder}/data.npy", data)


def framework():
    import torch
    torch.use_deterministic_algorithms(True)
    return torch


def train(seed, amount, folder):
    torch = framework()
    data = torch.from_numpy(numpy.load(f"{folder}/data.npy"))
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, WIDTH), torch.nn.GELU(),
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.GELU(),
        torch.nn.Linear(WIDTH, 256))
    say("imported")
    model, data = model.cuda(), data.cuda()
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    say("ready")
    for i in range(amount):
        x = data[i % 4 * 2048:][:2048]
        sgd.zero_grad(set_to_none=True)
        (model(x) - x).square().mean().backward()
        sgd.step()
    torch.save({k: v.cpu() for k, v in model.state_dict().items()},
               f"{folder}/model.pt")
    say("done")


def evaluate(seed, amount, folder):
    """Scores, on a CPU."""
    data = numpy.load(f"{folder}/data.npy")
    score = numpy.zeros(256, dtype=numpy.float32)
    for k in range(amount):
        score += numpy.sort(data * (1 + k % 3), axis=0)[ROWS // 2]
    numpy.save(f"{folder}/score.npy", score)


def infer(seed, amount, folder):
    torch = framework()
    weights = torch.load(f"{folder}/model.pt", weights_only=True)
    data = torch.from_numpy(numpy.load(f"{folder}/data.npy"))
    score = torch.from_numpy(numpy.load(f"{folder}/score.npy"))
    say("imported")
    w = [weights[k].cuda() for k in ("0.weight", "2.weight", "4.weight")]
    x, score = data.cuda(), score.cuda()
    say("ready")
    for _ in range(amount):
        y = x
        for part in w:
            y = torch.tanh(y @ part.T)
        x = torch.tanh(x + y + score)
    total = x.cpu()
    say("done")
    text = hashlib.sha256(total.numpy().tobytes()).hexdigest()
    with open(f"{folder}/result", "w", encoding="ascii") as f:
        f.write(text + "\n")


STAGES = {"prepare": prepare, "train": train, "evaluate": evaluate,
          "infer": infer}


def main():
    kind, seed, folder = sys.argv[1], int(sys.argv[2]), sys.argv[-1]
    amounts = [int(x) for x in sys.argv[3:-1]]
    for name, amount in zip(STAGES if kind == "all" else [kind], amounts):
        STAGES[name](seed, amount, folder)


if __name__ == "__main__":
    main()

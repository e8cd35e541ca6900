"""Prints the memory of an idle worker, and how far one question of many runs takes the peak above it; in bytes.

python -m tests.lab.peak PRESET POINTS ANSWERS DIMENSIONS RUNS [DEVICE] [-- PRESET …]

Each of several is measured in a process of its own, forked from one that has imported all it needs: one line each.
"""

import os
import sys
from pathlib import Path

import torch

import kappasharp as ks
from kappasharp.lab import schedule


def kilobytes(name: str) -> int:
    return int(Path("/proc/self/status").read_text("utf-8").split(f"{name}:")[1].split()[0])


def ask(preset: str, sizes: tuple[int, int, int], runs: int, device: str) -> None:
    """One question of that many runs with random designs, and answers that a smooth utility gives."""
    n, m, d = sizes
    generator = torch.Generator().manual_seed(0)
    points = torch.rand(runs, n, d, generator=generator)
    first, step = (torch.randint(*ends, (2, runs, m), generator=generator)[0] for ends in ((0, n), (1, n)))
    pairs = torch.stack([first, (first + step) % n], -1)
    utility = -(points - 0.4).square().sum(-1)
    wins = utility.gather(1, pairs[..., 0]) > utility.gather(1, pairs[..., 1])
    pairs = torch.where(wins.unsqueeze(-1), pairs, pairs.flip(-1))
    ks.ask(ks.init(points.to(device), pairs, method="adaptive", preset=preset, seeds=list(range(runs))))


def measure(preset: str, n: str, m: str, d: str, runs: str, device: str = "cpu") -> None:
    sizes = int(n), int(m), int(d)
    ask(preset, sizes, 1, device)
    assert schedule  # what a worker has imported belongs to it
    idle = kilobytes("VmRSS") * 1024
    if device == "cpu":
        ask(preset, sizes, int(runs), device)
        print(idle, kilobytes("VmHWM") * 1024 - idle, flush=True)
    else:
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        ask(preset, sizes, int(runs), device)
        print(idle, torch.cuda.max_memory_allocated() - before, torch.cuda.max_memory_reserved(), flush=True)


def main() -> None:
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    for words in " ".join(sys.argv[1:]).split(" -- "):
        child = os.fork()
        if not child:
            measure(*words.split())
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            sys.exit(1)


if __name__ == "__main__":
    main()

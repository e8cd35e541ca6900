"""The shape of a simulated problem: random search, a hand-tuned design, and a long search beside each other.

    python -m benchmarks.shapes plasma-16d            # about a minute
    python -m benchmarks.shapes plasma-16d --search   # the search behind the stated maximum; ten minutes

Shares its points among KAPPASHARP_WORKERS processes.
"""

import argparse

import numpy as np
import torch
from scipy.optimize import differential_evolution

from kappasharp.problems import plasma
from kappasharp.problems.problem import Problem
from kappasharp.problems.registry import find_problem

GROUPS, GROUP = 60, 106


def sample(row: Problem, count: int, seed: int) -> torch.Tensor:
    low, high = row.bounds.numpy()
    return torch.from_numpy(low + (high - low) * np.random.default_rng(seed).random((count, row.dimensions)))


def describe(row: Problem) -> None:
    X = sample(row, GROUPS * GROUP, 0)
    values = row.utility(X).reshape(GROUPS, GROUP)
    of_six, of_all = values[:, :6].amax(1), values.amax(1)
    print(f"{row.name}: {GROUPS} groups of uniform random points")
    print(f"  one point        {values.mean():9.3f} ± {values.std():.3f}")
    print(f"  best of 6        {of_six.mean():9.3f} ± {of_six.std():.3f}")
    print(f"  best of {GROUP}      {of_all.mean():9.3f} ± {of_all.std():.3f}")
    if row.name == "plasma-16d":
        print(f"  hand-tuned       {float(row.utility([plasma.HAND_TUNED])):9.3f}")
    print(f"  best known       {row.maximum.value:9.3f}")
    print("  parameter: mean ± sd of the utility in the lower half of its range | in the upper half")
    print("             and how far it moves the utility alone, across each half: 90th percentile of 100 random points")
    flat, centre = values.flatten(), row.bounds.mean(0)
    for column in range(row.dimensions):
        upper = X[:, column] > centre[column]
        halves = [f"{part.mean():8.1f} ± {part.std():5.1f}" for part in (flat[~upper], flat[upper])]
        label = row.parameters[column] if row.parameters else f"x{column + 1}"
        alone = [f"{move:6.1f}" for move in moved_alone(row, column)]
        print(f"    {label:<46} {halves[0]} | {halves[1]}   alone {alone[0]} | {alone[1]}")


def moved_alone(row: Problem, column: int) -> list[float]:
    """How far one parameter moves the utility by itself, from its lowest value to its middle and on to its highest."""
    low, high = row.bounds[:, column]
    X = sample(row, 100, 1).unsqueeze(1).repeat(1, 3, 1)
    X[..., column] = torch.stack([low, (low + high) / 2, high])
    return row.utility(X).diff(dim=1).abs().quantile(0.9, dim=0).tolist()


def search(row: Problem, generations: int, seed: int) -> tuple[float, list[float]]:
    """Differential evolution, then a shrinking random walk from what it found."""
    low, high = row.bounds.numpy()

    def cost(columns: np.ndarray) -> np.ndarray:
        return -row.utility(torch.from_numpy(np.ascontiguousarray(np.clip(columns.T, low, high)))).numpy()

    found = differential_evolution(
        cost, list(zip(low, high, strict=True)), maxiter=generations, popsize=8, rng=seed, polish=False, tol=0.0,
        vectorized=True, updating="deferred",
    )  # fmt: skip
    best, at, width, rng = -found.fun, found.x, 0.02, np.random.default_rng(seed)
    for _ in range(generations):
        moves = width * (high - low) * rng.normal(size=(32, len(at))) * (rng.random((32, len(at))) < 0.3)
        tried = np.clip(at + moves, low, high)
        values = -cost(tried.T)
        if values.max() > best:
            best, at = float(values.max()), tried[values.argmax()]
        else:
            width = max(0.8 * width, 1e-6) if width > 1e-6 else 0.02
    return float(best), at.tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem")
    parser.add_argument("--search", action="store_true")
    parser.add_argument("--generations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    row = find_problem(chosen.problem)
    if chosen.search:
        print(*search(row, chosen.generations, chosen.seed), sep="\n")
    else:
        describe(row)


if __name__ == "__main__":
    main()

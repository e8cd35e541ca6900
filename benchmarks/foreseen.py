"""How much of an outcome other designs foresee: of real outcomes, and of random waves. (docs/results/outcomes.md)

python -m benchmarks.foreseen                 copies of development problems, and waves
python -m benchmarks.foreseen pid-3d osy-6d   every outcome of these problems, as the lab's sample shows them

Copies of development problems, bent and with waves of their own: none of those that a method is confirmed on.
"""

import sys

import torch
from torch.quasirandom import SobolEngine

from kappasharp.lab import outcomes
from kappasharp.problems import warped
from kappasharp.problems.registry import find_problem
from kappasharp.regression import predictability

PROBLEMS = ("dtlz2-8d", "dtlz2-16d", "dtlz2-20d", "vehicle-5d", "carcab-7d", "speedreducer-7d", "zdt2-20d")
COPIES, SEED = 6, 7


def shares(problem, copy):
    """The shares foreseen of a bent copy's outcomes, and of waves over the same designs."""
    name = f"{problem.name}-development-{copy}"
    engine = SobolEngine(problem.dimensions, scramble=True, seed=SEED)
    X = engine.draw(predictability.MOST, dtype=torch.float64)
    real = problem.unit_outcomes(warped.Bend(name, problem.dimensions).to(X))
    return predictability.foreseen(X, real), predictability.foreseen(X, warped.Waves(name, problem.dimensions)(X))


def named(names):
    """The shares of these problems' own outcomes."""
    for name in names:
        found = predictability.foreseen(*outcomes.sample(name)).tolist()
        print(f"{name}: {', '.join(f'{share:.3f}' for share in found)}", flush=True)


def main():
    """A row for every problem: least, mean and largest share, and how many pass."""
    print("| six copies of | outcomes: least | mean | most | passing | waves: least | mean | most | passing |")
    print("| --- |" + " ---: |" * 8)
    for name in PROBLEMS:
        problem = find_problem(name)
        cells = [name]
        for found in map(torch.cat, zip(*(shares(problem, copy) for copy in range(COPIES)), strict=True)):
            passing = f"{int((found >= predictability.enough(problem.dimensions)).sum())} of {len(found)}"
            cells += [f"{float(part):.2f}" for part in (found.min(), found.mean(), found.max())] + [passing]
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    named(sys.argv[1:]) if sys.argv[1:] else main()

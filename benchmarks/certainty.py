"""Are the two certainty figures true? Simulated people answer studies of known problems.

What the model says of its best design is set beside the truth.
`python -m benchmarks.certainty [--seeds N]` prints the table of docs/study.md.
"""

import argparse
import json
import platform
from collections import defaultdict

import torch

import kappasharp as ks
from kappasharp.problems import simulated_voters
from kappasharp.randomness import stream, uniform

MOMENTS = (5, 10, 20, 40)
NOISE = 0.1
TRUTH_SAMPLE = 4000


def bowl(dimensions):
    return dimensions, (lambda X: -(2.0 * (X - 0.35)).square().sum(-1)), 0.0


def of_problem(name):
    row = ks.problem(name)
    low, high = (torch.tensor(side, dtype=torch.float64) for side in (row.low, row.high))
    return row.dimensions, (lambda X: row.utility(low + (high - low) * X)), row.maximum.value


def cases():
    named = ("hartmann-6d", "ackley-8d", "levy-10d", "vehicle-5d")
    return {"bowl-3d": bowl(3), "bowl-6d": bowl(6)} | {name: of_problem(name) for name in named}


def run(name, case, seed):
    """After each moment: said and true share of designs that the best is preferred to, said and true room left."""
    dimensions, utility, top = case
    ordinary = utility(uniform((TRUTH_SAMPLE, dimensions), stream(7, "truth"), torch.empty(0, dtype=torch.float64)))
    study = ks.create_study({f"x{i}": (0.0, 1.0) for i in range(dimensions)}, storage="sqlite://", seed=seed)
    chance = simulated_voters.draws(name, seed, "certainty", MOMENTS[-1])
    for count in range(1, MOMENTS[-1] + 1):
        pair = study.ask()
        X = torch.tensor([list(pair.a.values()), list(pair.b.values())], dtype=torch.float64)
        felt = utility(X) + NOISE * chance[count - 1, :2]
        study.tell(pair, "a" if felt[0] > felt[1] else "b")
        if count in MOMENTS:
            best = study.best
            here = float(utility(torch.tensor([list(best.params.values())], dtype=torch.float64)))
            truth = float((ordinary < here).double().mean())
            room = (top - here) / (top - float(ordinary.mean()))
            yield count, (best.beats_random, truth, best.room_left, room)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=8)
    seeds = options.parse_args().seeds
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {platform.machine()}, {seeds} seeds")
    print("| problem | answers | preferred to, said | true | room left, said | true |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    whole = {}
    for name, case in cases().items():
        found = defaultdict(list)
        for seed in range(seeds):
            for count, row in run(name, case, seed):
                found[count].append(row)
        for count, rows in found.items():
            means = [sum(column) / len(column) for column in zip(*rows, strict=True)]
            print(f"| {name} | {count} | " + " | ".join(f"{mean:.0%}" for mean in means) + " |", flush=True)
            whole[f"{name} {count}"] = rows
    print(json.dumps({"mean_overstatement": _overstatement(whole)}))


def _overstatement(whole):
    """By how much "preferred to" is overstated on average from ten answers on; negative: modest."""
    late = [row for key, rows in whole.items() if not key.endswith(" 5") for row in rows]
    return round(sum(row[0] - row[1] for row in late) / len(late), 4)


if __name__ == "__main__":
    main()

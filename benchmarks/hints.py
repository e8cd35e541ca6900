"""Is the certainty true where outcomes have hints and limits? Simulated people answer studies of three parameters.

Each person has four outcomes of their own, to be small, and says so consistently. (docs/results/outcomes.md)

python -m benchmarks.hints run FILE [--seeds 30] [--first 0] [--only hints,limits] [--answers 20] [--seconds 600]
python -m benchmarks.hints table FILE …   what is said of the best design beside what is true, in every setting

`run` goes on where it stopped: every finished study is in the file.
"""

import argparse
import csv
import math
import time
from collections import defaultdict
from pathlib import Path

import torch

import kappasharp as ks
from kappasharp.randomness import stream, uniform

MOMENTS = (10, 15, 20, 40)
SETTINGS = ("neither", "hints", "limits", "hints and limits", "two hints false")
NAMES, PARAMETERS = ("first", "second", "third", "fourth"), ("x", "y", "z")
# How steep an outcome is along each parameter, how much it counts, how its worth bends.
STEEPNESS, COUNTS, BENDS = (0.5, 8.0), (0.25, 4.0), (0.5, 2.0)
# Designs that stand for the whole space; the share of them that a limit leaves; outcomes whose hints may be false.
EVERYWHERE, LEFT, EITHER_TWO = 8192, 0.5, ((0, 2), (1, 3))
COLUMNS = ("setting", "seed", "answers", "said", "true", "room_said", "room_true", "advice")


class Person:
    """Someone who looks at four outcomes, each least at a place of its own, and likes less of every one."""

    def __init__(self, seed):
        def drawn(name, *shape, ends=(1.0, math.e)):
            numbers = uniform(shape, stream(seed, "hints", name), torch.empty(0, dtype=torch.float64))
            return numbers if ends is None else math.log(ends[0]) + math.log(ends[1] / ends[0]) * numbers

        shape = len(NAMES), len(PARAMETERS)
        self.centre, self.steepness = drawn("centre", *shape, ends=None), drawn("steep", *shape, ends=STEEPNESS).exp()
        self.counts, self.bends = drawn("counts", shape[0], ends=COUNTS).exp(), drawn("bends", 4, ends=BENDS).exp()
        self._plain = list(zip(NAMES, self.centre.tolist(), self.steepness.tolist(), strict=True))

    def outcomes(self, design):
        place = list(design.values())
        return {
            name: 1.0 - math.exp(-sum(a * (v - c) ** 2 for a, v, c in zip(steep, place, centre, strict=True)))
            for name, centre, steep in self._plain
        }

    def worth(self, outcomes):
        """The utility of outcomes (n, 4)."""
        return -(self.counts * outcomes**self.bends).sum(-1)

    def likes(self, design):
        return float(self.worth(torch.tensor([list(self.outcomes(design).values())], dtype=torch.float64)))

    def everywhere(self):
        """Outcomes of designs spread over the space."""
        X = uniform((EVERYWHERE, len(PARAMETERS)), stream(7, "truth"), torch.empty(0, dtype=torch.float64))
        return 1.0 - (-(self.steepness * (X[:, None] - self.centre).square()).sum(-1)).exp()


def known(setting, seed, outcomes):
    """Hints and limits of a study, and which designs of all keep the limits."""
    false = EITHER_TWO[seed % 2] if setting == "two hints false" else ()
    hints = [ks.More(name) if k in false else ks.Less(name) for k, name in enumerate(NAMES)]
    limited = seed % len(NAMES)
    most = float(outcomes[:, limited].quantile(LEFT)) if "limits" in setting else math.inf
    limits = [ks.AtMost(NAMES[limited], most)] if "limits" in setting else []
    return {"hints": hints if "hints" in setting else [], "limits": limits}, outcomes[:, limited] <= most


def studied(setting, seed, moments=MOMENTS):
    """The study after each moment, what it said, and what is true: rows of COLUMNS behind the study."""
    person = Person(seed)
    outcomes = person.everywhere()
    given, kept = known(setting, seed, outcomes)
    ordinary = person.worth(outcomes)[kept]
    study = ks.create_study(
        dict.fromkeys(PARAMETERS, (0.0, 1.0)), storage="sqlite://", seed=seed, outcomes=person.outcomes, **given
    )
    for count in range(1, moments[-1] + 1):
        pair = study.ask()
        study.tell(pair, "a" if person.likes(pair.a) > person.likes(pair.b) else "b")
        if count in moments:
            best = study.best
            here = person.likes(best.params)
            top = max(float(ordinary.max()), here)
            room = (top - here) / (top - float(ordinary.mean()))
            true = float((ordinary < here).double().mean())
            numbers = (round(one, 4) for one in (best.beats_random, true, best.room_left, room))
            yield study, (setting, seed, count, *numbers, best.advice.what)


def run(options):
    """The studies that the file does not have yet."""
    path, begin = Path(options.files[0]), time.monotonic()
    moments = tuple(count for count in MOMENTS if count <= options.answers)
    rows = read(path) if path.exists() else []
    done = {(row["setting"], row["seed"]) for row in rows if row["answers"] == moments[-1]}
    only = options.only.split(",") if options.only else SETTINGS
    todo = [(setting, seed) for seed in range(options.first, options.first + options.seeds) for setting in only]
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if not rows:
            writer.writerow(COLUMNS)
        for number, (setting, seed) in enumerate(todo, 1):
            if (setting, seed) in done:
                continue
            writer.writerows([row for _, row in studied(setting, seed, moments)])
            file.flush()
            spent = time.monotonic() - begin
            print(f"{number} of {len(todo)}: {setting}, seed {seed}, {spent:.0f} s", flush=True)
            if options.seconds and spent > options.seconds:
                print("stopped; the same command goes on", flush=True)
                return


def read(path):
    with Path(path).open(newline="") as file:
        rows = list(csv.DictReader(file))
    whole, shares = ("seed", "answers"), ("said", "true", "room_said", "room_true")
    return [row | {key: int(row[key]) for key in whole} | {key: float(row[key]) for key in shares} for row in rows]


def table(options):
    """Means over the seeds of what is said and true, and the root mean square of their difference in one study."""
    found, seen = defaultdict(list), set()
    for row in (row for file in options.files for row in read(file)):
        key = row["setting"], row["answers"], row["seed"]
        if key not in seen:
            found[key[:2]].append(row)
        seen.add(key)
    print("| setting | answers | seeds | said | true | difference | of one study | unclear | room said | true |")
    print("| --- |" + " ---: |" * 9)
    for (setting, answers), rows in sorted(found.items(), key=lambda one: (SETTINGS.index(one[0][0]), one[0][1])):
        said, true, room, left = (mean(rows, key) for key in ("said", "true", "room_said", "room_true"))
        error = math.sqrt(sum((row["said"] - row["true"]) ** 2 for row in rows) / len(rows))
        unclear = sum(row["advice"] == "not_enough_signal" for row in rows)
        cells = [f"{said:.3f}", f"{true:.3f}", f"{said - true:+.3f}", f"{error:.3f}", unclear, f"{room:.2f}"]
        print(" | ".join(map(str, (f"| {setting}", answers, len(rows), *cells, f"{left:.2f} |"))))


def mean(rows, key):
    return sum(row[key] for row in rows) / len(rows)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("what", choices=("run", "table"))
    options.add_argument("files", nargs="+")
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first", type=int, default=0)
    options.add_argument("--only", default="")
    options.add_argument("--answers", type=int, default=MOMENTS[-1])
    options.add_argument("--seconds", type=float, default=0.0)
    found = options.parse_args()
    torch.set_num_threads(1)
    {"run": run, "table": table}[found.what](found)


if __name__ == "__main__":
    main()

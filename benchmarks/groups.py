"""Who agrees with whom: how often `study.agreement()` finds the groups of simulated juries, by their number of answers.

`python benchmarks/groups.py` prints the table of docs/team.md: the adjusted Rand index of the groups found (1: the true
ones, 0: as good as lots), averaged over seeds. Minutes on one core.
"""

import random
from collections import Counter
from itertools import product
from math import comb

import kappasharp as ks

DIMENSIONS, SEEDS, NOISE = 4, 10, 0.05
VOTERS, ANSWERS = (4, 9), (10, 15, 25)
# The designs that people of each group like best.
TASTES = {
    "one taste": [[0.3, 0.6, 0.4, 0.7]],
    "two, apart in one parameter": [[0.1, 0.6, 0.4, 0.7], [0.9, 0.6, 0.4, 0.7]],
    "two, apart in two": [[0.1, 0.1, 0.4, 0.7], [0.9, 0.9, 0.4, 0.7]],
    "two, opposite": [[0.1] * DIMENSIONS, [0.9] * DIMENSIONS],
    "three": [[0.1, 0.1, 0.5, 0.5], [0.9, 0.1, 0.5, 0.5], [0.1, 0.9, 0.5, 0.5]],
}


def jury(tastes: list[list[float]], voters: int, answers: int, seed: int) -> ks.Study:
    """A study in which everybody compares random pairs by the distance to what they like."""
    chance, names = random.Random(seed), [f"p{i}" for i in range(DIMENSIONS)]
    study = ks.create_study({name: (0.0, 1.0) for name in names}, storage="sqlite://", seed=seed)
    rows = ["voter,answer," + ",".join(f"{side}.{name}" for side in "ab" for name in names)]
    for _, voter in product(range(answers), range(voters)):
        likes = tastes[voter % len(tastes)]
        pair = [[round(chance.random(), 6) for _ in names] for _ in "ab"]
        worth = [-sum((x - y) ** 2 for x, y in zip(one, likes, strict=True)) + chance.gauss(0.0, NOISE) for one in pair]
        values = ",".join(str(value) for one in pair for value in one)
        rows.append(f"v{voter},{'a' if worth[0] > worth[1] else 'b'},{values}")
    study.import_text("\n".join(rows) + "\n", "me")
    return study


def adjusted_rand(found: list[int], true: list[int]) -> float:
    """How well two ways to group agree, 1 for the same, 0 on average for chance."""
    both, one, other = (
        sum(comb(size, 2) for size in Counter(labels).values())
        for labels in (zip(found, true, strict=True), found, true)
    )
    expected, most = one * other / comb(len(found), 2), 0.5 * (one + other)
    return 1.0 if most == expected else (both - expected) / (most - expected)


def score(tastes: list[list[float]], voters: int, answers: int) -> float:
    """The mean index over seeds."""
    total = 0.0
    for seed in range(SEEDS):
        told = jury(tastes, voters, answers, seed).agreement().voters
        total += adjusted_rand([one.group or 0 for one in told], [i % len(tastes) for i in range(voters)])
    return total / SEEDS


if __name__ == "__main__":
    cells = list(product(VOTERS, ANSWERS))
    print("| tastes |", " | ".join(f"{voters} people, {answers} answers each" for voters, answers in cells), "|")
    print("| --- |", " | ".join("---" for _ in cells), "|")
    for name, tastes in TASTES.items():
        print(f"| {name} |", " | ".join(f"{score(tastes, *cell):.2f}" for cell in cells), "|", flush=True)

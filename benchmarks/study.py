"""A person's study: one turn at fifty comparisons, and a long study opened and asked.

Seconds on one core: what counts here is that nobody waits, not who is faster.
"""

import os
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

import kappasharp as ks
from benchmarks.certainty import cases
from kappasharp.algorithm import loop
from kappasharp.journal.events import Answered, Asked
from kappasharp.model import points
from kappasharp.native import launch
from kappasharp.planning.start import sobol
from kappasharp.randomness import stream

DIMENSIONS, ANSWERS, TURNS, LONG, LONG_TURNS = 6, 50, 16, 500, 10
NOISE = 0.1
SEED, FITS, FIRST_FIT, NOT_WORSE = 50, 45, 8, 1e-3
SPACES = {
    "float": {f"x{i}": (0.0, 1.0) for i in range(DIMENSIONS)},
    "mixed": {
        "x0": (0.0, 1.0),
        "x1": (0.0, 1.0),
        "n": ks.Int(1, 8),
        "m": ks.Int(0, 20),
        "mode": ["a", "b", "c"],
        "on": [True, False],
    },
}


def worth(study, design):
    point = torch.tensor(study.space.encode(design), dtype=torch.float64)
    return float(-(point - 0.4).square().sum())


def answer(study, pair):
    """A person as the paper simulates them: what is felt about a design differs by NOISE each time."""
    noise = NOISE * torch.randn(2, generator=stream(0, "bench person", str(pair.number)), dtype=torch.float64)
    return "a" if worth(study, pair.a) + noise[0] > worth(study, pair.b) + noise[1] else "b"


def turns(folder, name, space):
    """The mean and the longest time of tell and the next ask, over the TURNS around ANSWERS comparisons."""
    study = ks.create_study(space, storage=f"sqlite:///{folder / 'study.db'}", study_name=name)
    took = []
    pair = study.ask()
    first = ANSWERS - TURNS // 2
    for count in range(1, first + TURNS):
        said = answer(study, pair)
        start = time.perf_counter()
        study.tell(pair, said)
        pair = study.ask()
        if count >= first:
            took.append(time.perf_counter() - start)
    start = time.perf_counter()
    _ = study.best
    return statistics.mean(took), max(took), time.perf_counter() - start


def long_study(folder):
    """Open a study of LONG comparisons, a thousand designs, and ask it; seconds of either, and of a turn on average.

    In ten turns there are two searches for hyperparameters, one of them cold too: the rare ones count too.
    """
    url = f"sqlite:///{folder / 'long.db'}"
    study = ks.create_study(SPACES["float"], storage=url, study_name="long", first_pairs=2)
    designs = sobol(study.definition, 0, 2 * LONG)
    with study.storage.transaction(study.stored) as transaction:
        for i in range(LONG):
            a, b = designs[2 * i : 2 * i + 2]
            transaction.append("me", Asked(a, b, "start", 2 * i))
            said = "a" if worth(study, a) > worth(study, b) else "b"
            transaction.append("me", Answered(2 * i + 1, said))
    study.storage.close()
    start = time.perf_counter()
    again = ks.load_study("long", storage=url)
    opened = time.perf_counter() - start
    start = time.perf_counter()
    again.ask()
    asked = time.perf_counter() - start
    start = time.perf_counter()
    for _ in range(LONG_TURNS):
        pair = again.ask()
        again.tell(pair, answer(again, pair))
    again.ask()
    return opened, asked, (time.perf_counter() - start) / LONG_TURNS


def without_kernels(folder):
    """Seconds of the same turns, at ANSWERS and at LONG comparisons, where torch does the kernels' work."""
    before = os.environ.get(launch.SWITCH)
    os.environ[launch.SWITCH] = "0"
    try:
        (folder / "torch").mkdir()
        return turns(folder, "by torch", SPACES["float"])[0], long_study(folder / "torch")[2]
    finally:
        os.environ.pop(launch.SWITCH) if before is None else os.environ.update({launch.SWITCH: before})


def fits():
    """Share of a study's fits that end at most 1e-3 nats below the same fit started from the prior's mode as well."""
    good = []
    for name, (dimensions, utility, _) in cases().items():
        space = {f"x{i}": (0.0, 1.0) for i in range(dimensions)}
        found = ks.create_study(space, storage="sqlite://", seed=SEED)
        for count in range(FITS):
            pair = found.ask()
            X = points.points(found.space, [pair.a, pair.b])
            noise = torch.randn(2, generator=stream(SEED, name, str(count)), dtype=torch.float64)
            felt = utility(X) + NOISE * noise
            found.tell(pair, "a" if felt[0] > felt[1] else "b")
            if count >= FIRST_FIT:
                state, learnt = found.model().state, found.model().learnt
                both = loop.learn(replace(state, preset=replace(state.preset, cold_fit=True)))
                good.append(float(both.fit.hyper.value - learnt.fit.hyper.value) <= NOT_WORSE)
    return sum(good) / len(good)


def study():
    """All of it, as `make bench` wants it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mean, longest, best = ({}, {}, {})
        for kind, space in SPACES.items():
            found = turns(folder, kind, space)
            for part, value in zip((mean, longest, best), found, strict=True):
                part[kind] = round(1e3 * value, 1)
        long = dict(zip(("open", "ask", "turn"), long_study(folder), strict=True))
        by_torch = without_kernels(folder)
    return {
        "study_turn_ms": mean,
        "study_turn_ratio": {
            str(ANSWERS): mean["float"] / 1e3 / by_torch[0],
            str(LONG): long["turn"] / by_torch[1],
        },
        "study_fit_not_worse": fits(),
        "study_turn_longest_ms": longest,
        "study_best_ms": best,
        "study_500_s": {name: round(value, 3) for name, value in long.items()},
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    for key, value in study().items():
        print(f"{key:<32} {value}")

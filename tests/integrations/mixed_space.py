"""Optuna's preferential studies on a space of floats, an integer and categories: samplers side by side.

    python -m tests.integrations.mixed_space 20 25 [study]

prints the best utility shown (at most 2) after 25 questions, over 20 seeds, for two people and each sampler; with the
word `study` that of the design told by our own study of the same space instead. The graded
person has an opinion of every category; the needle likes one of each and cannot tell the others apart, so that nothing
leads to it and random search is at its best.
"""

import itertools
import math
import statistics
import sys
import warnings

import optuna
from optuna.samplers import RandomSampler
from optuna.storages import InMemoryStorage
from optuna_dashboard.preferential import create_study
from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

import kappasharp as ks
from kappasharp.integrations.optuna import KappaSharpSampler

CHOICES = [None, True, 1, 2.5, "red", "blue"]
SHAPES = ["round", "square", "flat", "long"]
SAMPLERS = {"random": RandomSampler, "PreferentialGPSampler": PreferentialGPSampler, "ours": KappaSharpSampler}


def suggest(trial):
    return {
        "x": trial.suggest_float("x", 0.0, 1.0),
        "rate": trial.suggest_float("rate", 1e-4, 1.0, log=True),
        "layers": trial.suggest_int("layers", 1, 8),
        "colour": trial.suggest_categorical("colour", CHOICES),
        "shape": trial.suggest_categorical("shape", SHAPES),
    }


TASTES = {
    "graded": {"colour": (0.0, 0.2, 0.4, 0.7, 1.0, 0.8), "shape": (0.0, 0.4, 1.0, 0.7)},
    "needle": {"colour": (0.0, 0.0, 0.0, 0.0, 1.0, 0.0), "shape": (0.0, 0.0, 1.0, 0.0)},
}


def utility(parameters, taste):
    """ "red" and "flat" are best; the numbers are worth about as much."""
    colour, shape = (TASTES[taste][name] for name in ("colour", "shape"))
    position = [(type(one), one) for one in CHOICES].index((type(parameters["colour"]), parameters["colour"]))
    return (
        -((parameters["x"] - 0.3) ** 2)
        - 0.1 * (math.log10(parameters["rate"]) + 2.0) ** 2
        - 0.05 * abs(parameters["layers"] - 6)
        + colour[position]
        + shape[SHAPES.index(parameters["shape"])]
    )


def best(sampler, questions, taste="graded"):
    """The best utility shown in so many questions; the better of two designs stays on the screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = create_study(n_generate=2, storage=InMemoryStorage(), sampler=sampler)
        shown = []
        for _ in range(questions):
            while study.should_generate():
                trial = study.ask()
                shown.append((utility(suggest(trial), taste), trial.number))
            shown.sort(reverse=True)
            (_, better), (_, worse) = shown[:2]
            study.report_preference(study.trials[better], study.trials[worse])
            del shown[1]
    return shown[0][0]


def told(seed, questions, taste):
    """The utility of the design that our own study tells after so many questions."""
    names = [str(position) for position in range(len(CHOICES))]
    floats = {"x": (0.0, 1.0), "rate": ks.Float(1e-4, 1.0, log=True)}
    space = floats | {"layers": ks.Int(1, 8), "colour": names, "shape": SHAPES}

    def worth(design):
        return utility(design | {"colour": CHOICES[int(design["colour"])]}, taste)

    return worth(ks.optimize(space, lambda a, b: worth(a) > worth(b), questions, seed=seed).best.params)


def main(seeds, questions, which):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    by = {name: lambda seed, taste, one=one: best(one(seed=seed), questions, taste) for name, one in SAMPLERS.items()}
    if which == "study":
        by = {"our study": lambda seed, taste: told(seed, questions, taste)}
    for taste, (name, play) in itertools.product(TASTES, by.items()):
        found = [play(seed, taste) for seed in range(seeds)]
        spread = statistics.stdev(found) / math.sqrt(seeds)
        print(f"{taste}, {name}: {statistics.mean(found):.2f} ± {spread:.2f} (lowest {min(found):.2f})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:] or [""])

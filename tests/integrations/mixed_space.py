"""Optuna's preferential studies on a space of floats, an integer and categories: samplers side by side.

    python -m tests.integrations.mixed_space 8 25

prints the best utility shown (at most 2) after 25 questions, over 8 seeds, for each sampler.
"""

import math
import statistics
import sys
import warnings

import optuna
from optuna.samplers import RandomSampler
from optuna.storages import InMemoryStorage
from optuna_dashboard.preferential import create_study
from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

from kappasharp.optuna_sampler import KappaSharpSampler

CHOICES = [None, True, 1, 2.5, "red", "blue"]
SAMPLERS = {"random": RandomSampler, "PreferentialGPSampler": PreferentialGPSampler, "ours": KappaSharpSampler}


def suggest(trial):
    return {
        "x": trial.suggest_float("x", 0.0, 1.0),
        "rate": trial.suggest_float("rate", 1e-4, 1.0, log=True),
        "layers": trial.suggest_int("layers", 1, 8),
        "colour": trial.suggest_categorical("colour", CHOICES),
        "shape": trial.suggest_categorical("shape", ["round", "square", "flat", "long"]),
    }


def utility(parameters):
    """One of 24 pairs of categories is best; the numbers are worth about as much."""
    return (
        -((parameters["x"] - 0.3) ** 2)
        - 0.1 * (math.log10(parameters["rate"]) + 2.0) ** 2
        - 0.05 * abs(parameters["layers"] - 6)
        + (1.0 if parameters["colour"] == "red" else 0.0)
        + (1.0 if parameters["shape"] == "flat" else 0.0)
    )


def best(sampler, questions):
    """The best utility shown in so many questions; the better of two designs stays on the screen."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = create_study(n_generate=2, storage=InMemoryStorage(), sampler=sampler)
        shown = []
        for _ in range(questions):
            while study.should_generate():
                trial = study.ask()
                shown.append((utility(suggest(trial)), trial.number))
            shown.sort(reverse=True)
            (_, better), (_, worse) = shown[:2]
            study.report_preference(study.trials[better], study.trials[worse])
            del shown[1]
    return shown[0][0]


def main(seeds, questions):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for name, sampler in SAMPLERS.items():
        found = [best(sampler(seed=seed), questions) for seed in range(seeds)]
        spread = statistics.stdev(found) / math.sqrt(seeds)
        print(f"{name}: {statistics.mean(found):.2f} ± {spread:.2f} (lowest {min(found):.2f})", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

"""Where a straight slider loses on CarCab-7D.

python -m benchmarks.slider [--problems carcab-7d …] [--seeds 100] [--first 1000]

Sliders from zero against the slider as it is, seed by seed: other priors, another count of first questions or of other
places, other lines, a person without noise, and hyperparameters that are known. These last are what fits the
hidden utility itself best, at Sobol designs: no method could know them, but they say what not knowing them costs.
(docs/results/answers.md)
"""

import argparse
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from kappasharp.acquisition import line
from kappasharp.kernels import priors, stationary
from kappasharp.kernels.priors import Gamma, Priors
from kappasharp.lab import grid, run
from kappasharp.lab.experiment import parse
from kappasharp.problems.registry import find_problem
from kappasharp.problems.simulated_voters import PERSONS

QUESTIONS, CHUNK = (10, 15, 20), 25
# The person's noise is the unit of the model's utilities; at so many designs the utility is fitted.
NOISE, FITTED_AT = PERSONS["paper"].noise, 300
KNOWN = "known"


@dataclass(frozen=True)
class Candidate:
    """What is changed: choices of the method and of the preset, and what the search for a line goes by."""

    method: dict = field(default_factory=dict)
    preset: dict = field(default_factory=dict)
    search: dict = field(default_factory=dict)
    name: str = "slider"
    person: str = "paper"


@dataclass(frozen=True)
class Fixed(Priors):
    """Hyperparameters that are known: a box about them too small to matter."""

    theta: tuple[float, ...] = ()

    def bounds(self, like):
        """Lower and upper ends of theta."""
        theta = like.new_tensor(self.theta)
        return (theta - 0.01).expand_as(like), (theta + 0.01).expand_as(like)

    def starts(self, dimension):
        """Where cold fits start."""
        del dimension
        return [torch.tensor(self.theta, dtype=torch.float64)]

    def start(self, dimension):
        """Where a cold fit starts."""
        return self.starts(dimension)[0]


def through_eubo(fitted, found, maximizer, request):
    """No search: the line through the pair that EUBO finds, as far as the cube."""
    del fitted, maximizer, request
    return found._replace(pair=line.lengthened(found.pair, FACES))


FACES = 100.0
AS_IS = "as it is"
CANDIDATES = {
    AS_IS: Candidate(),
    "best of four": Candidate(name="choice_4"),
    "order of four": Candidate(name="order_4"),
    "through four designs": Candidate(name="slider_4"),
    "through five": Candidate(method={"designs": 5}),
    "through six": Candidate(method={"designs": 6}),
    "a person without noise": Candidate(person="exact"),
    "known hyperparameters": Candidate(preset={"priors": KNOWN}),
    "output scale near 100": Candidate(preset={"priors": "outputscale_near_100"}),
    "length scales longer": Candidate(preset={"priors": "long_lengthscale"}),
    "length scales firm about 0.8": Candidate(preset={"priors": "firm_near_30"}),
    "Hvarfner's length scales": Candidate(preset={"priors": "dimension_scaled"}),
    "Matérn-5/2": Candidate(preset={"kernel": "matern52"}),
    "one first question": Candidate(method={"first": 1}),
    "two first questions": Candidate(method={"first": 2}),
    "eight others, none nearer than 0.05": Candidate(method={"others": 8, "near": 0.05}),
    "lines as far as the cube": Candidate(search={"lengthened": partial(line.lengthened, times=FACES)}),
    "E max over four places": Candidate(search={"PLACES": 4}),
    "E max over sixteen places": Candidate(search={"PLACES": 16}),
    "eight times the copies": Candidate(search={"COPIES": 128}),
    "through EUBO's pair, no search": Candidate(search={"propose": through_eubo}),
}


def known(problem):
    """Priors at the hyperparameters that fit the utility itself best."""
    X = torch.quasirandom.SobolEngine(problem.dimensions, scramble=True, seed=1).draw(FITTED_AT, dtype=torch.float64)
    y = problem.unit_utility(X) / NOISE
    y = (y - y.mean()).unsqueeze(-1)
    theta = torch.zeros(problem.dimensions + 1, dtype=torch.float64)
    theta[-1] = y.var().log()
    theta.requires_grad_()
    search = torch.optim.LBFGS([theta], lr=0.5, max_iter=150, line_search_fn="strong_wolfe")

    def loss():
        search.zero_grad()
        # Not `kernel.covariance`, which writes into what it returns.
        K = stationary.between("rbf", X, X, theta) + torch.eye(FITTED_AT, dtype=torch.float64)
        L = torch.linalg.cholesky(K)
        log_density = 0.5 * (y * torch.cholesky_solve(y, L)).sum() + L.diagonal().log().sum()
        value = log_density + 0.25 * (theta[:-1] - 0.3).square().sum()
        value.backward()
        return value

    search.step(loss)
    return Fixed(Gamma(2.4, 2.7), (1e-2, 1e6), outputscale_spread=1.0, theta=tuple(theta.detach().tolist()))


@contextmanager
def changed(module, values):
    """Other values of a module's names, for a while."""
    before = {name: getattr(module, name) for name in values}
    for name, value in values.items():
        setattr(module, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)


def courses(problem, seeds, candidate):
    """The best utility seen and the one told (seeds, questions), from zero."""
    values = {"problems": [problem], "initializations": ["from_zero"], "methods": [candidate.name]}
    values |= {"presets": ["modern"], "queries": max(QUESTIONS), "person": candidate.person, "block_size": CHUNK}
    blocks = [
        replace(
            block,
            method_values=replace(block.method_values, **candidate.method),
            preset_values=replace(block.preset_values, **candidate.preset),
        )
        for block in grid.blocks(parse("slider", values | {"seeds": list(seeds)}))
    ]
    with changed(line, candidate.search):
        rows = [row for block in blocks for row in run.run_together([block])[0]]
    failed = [row["error"] for row in rows if row["error"]]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(rows)} runs failed: {failed[0]}")
    return [np.array([row[name] for row in rows], float) for name in ("best_utility", "told_utility")]


def gain(ours, theirs):
    """The mean of the paired gain in units of its own deviation."""
    difference = ours - theirs
    return difference.mean() / max(difference.std(ddof=1), 1e-12)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", nargs="+", default=["carcab-7d", "vehicle-5d", "hartmann-6d"])
    parser.add_argument("--candidates", nargs="+", default=list(CANDIDATES), choices=list(CANDIDATES))
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--first", type=int, default=1000)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    for problem in options.problems:
        priors.PRIORS[KNOWN] = known(find_problem(problem))
        usual = courses(problem, seeds, CANDIDATES[AS_IS])
        print(f"\n{problem}, {len(seeds)} seeds, each gain ± {len(seeds) ** -0.5:.2f}")
        print("| candidate | seen 10 | 15 | 20 | gain seen 10 | 15 | 20 | told 10 | 15 | 20 |\n| --- |" + " ---: |" * 9)
        for name in options.candidates:
            found = usual if name == AS_IS else courses(problem, seeds, CANDIDATES[name])
            means = [f"{found[0][:, q - 1].mean():.3f}" for q in QUESTIONS]
            gains = [
                f"{gain(*(part[:, q - 1] for part in pair)):+.2f}"
                for pair in zip(found, usual, strict=True)
                for q in QUESTIONS
            ]
            print(f"| {name} | {' | '.join(means + gains)} |", flush=True)


if __name__ == "__main__":
    main()

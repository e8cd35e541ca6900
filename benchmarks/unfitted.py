"""Our own loop where the fit is lost: python -m benchmarks.unfitted [--table].

What BoTorch 0.6.0 comes to where its fit raises (docs/results/botorch-0-6.md), but in the lab and so with sixty seeds.
`unfitted`: ℓ = 0.4 and an output scale of log 2 at every step, as a new `PairwiseGP` has them. `frozen`: those of the
fit to the first answers, kept. `_searched`: with our default search for EUBO, whose pairs are like those of BoTorch's
`optimize_acqf` (both beside the leader), where the preset's own often leaves one far away. `confirmed` is
`unfitted_searched` on more problems, with fresh seeds; `fitted_searched` has every fit, for comparison. Final best
utilities go to docs/results/botorch-0-6/lab.json, problem by problem; what is there is not run again.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

from kappasharp.algorithm import loop
from kappasharp.algorithm.loop import init
from kappasharp.kernels import priors
from kappasharp.kernels.priors import Gamma, Priors
from kappasharp.lab import grid
from kappasharp.lab import run as lab_run
from kappasharp.lab.analysis import results
from kappasharp.lab.analysis.statistics import Sample, compare, family, gain_percent
from kappasharp.lab.experiment import parse

OUT = Path(__file__).parent.parent / "docs/results/botorch-0-6/lab.json"
PROBLEMS, METHODS, SEEDS = ("dtlz2-16d", "levy-10d", "hartmann-6d"), ("baseline", "static", "adaptive"), 60
FRESH = (*PROBLEMS, "dtlz2-8d", "ackley-8d", "dtlz2-20d", "levy-20d")
LENGTHSCALE, OUTPUTSCALE = 0.4, math.log(2.0)
# BoTorch adds to K what its Cholesky factor asks for, which is rarely anything.
NUGGET = 1e-6
KINDS = ("unfitted", "frozen", "unfitted_searched", "frozen_searched", "confirmed", "fitted_searched")
UNFITTED = "never_fitted"
priors.PRIORS[UNFITTED] = Priors(Gamma(1.2, 0.5), (OUTPUTSCALE,) * 2, lengthscale_bounds=(LENGTHSCALE,) * 2)


def run(kind, problem):
    """Final best utilities and shares of corrected steps, by method; all methods and seeds in lockstep."""
    variant = {"preset": "paper", "nugget": NUGGET}
    variant |= {"priors": UNFITTED} if kind.startswith(("unfitted", "confirmed")) else {}
    variant |= {"maximizer": "default"} if kind.endswith(("searched", "confirmed")) else {}
    table = {"problems": [problem], "initializations": ["pool_n6_k15"], "methods": list(METHODS)}
    table |= {"seeds": {"first": SEEDS if kind == "confirmed" else 0, "count": SEEDS}}
    blocks = grid.blocks(parse(kind, table | {"preset_variants": {kind: variant}}))
    begin = time.perf_counter()
    loop.init = frozen if kind.startswith("frozen") else init
    rows = lab_run.run_together(blocks)
    print(kind, problem, f"{time.perf_counter() - begin:.0f} s", flush=True)
    return {block.method: columns(part) for block, part in zip(blocks, rows, strict=True)}


def frozen(*arguments, **choices):
    """A state whose first hyperparameters are kept."""
    return replace(init(*arguments, **choices), keep=True)


def columns(rows):
    """What is kept of a method's runs, seed by seed: the outcome, steps that failed, the share of corrected ones."""
    return {
        "final_best": [float(f"{row['final_best']:.7g}") for row in rows],
        "failed_steps": [row["failed_steps"] for row in rows],
        "corrected": [sum(row["active"]) / len(row["active"]) for row in rows],
    }


def table(stored):
    """Gains in Markdown, and how the runs went."""
    for method in METHODS[1:]:
        tests = {problem: compare(sample(rows["baseline"]), sample(rows[method])) for problem, rows in stored.items()}
        for problem, test in family(tests).members.items():
            before, after = (results.paper()["table1"][problem][one] for one in ("baseline", method))
            words = [problem, method, test.pairs]
            words += [f"{one.mean:.3f} ± {one.sd:.3f}" for one in (test.baseline, test.method)]
            words += [f"{test.gain_percent:+.1f} ({test.gain_low:+.1f} to {test.gain_high:+.1f})"]
            words += [f"{test.p:.2g}", f"{test.p_holm:.2g}", f"{before[0]} ± {before[1]}"]
            print("| " + " | ".join(map(str, [*words, f"{gain_percent(before[0], after[0]):+.1f}"])) + " |")
    for problem, rows in stored.items():
        for method, runs in rows.items():
            troubled = sum(count > 0 for count in runs["failed_steps"])
            corrected = sum(runs["corrected"]) / SEEDS
            print(problem, method, f"corrected in {100 * corrected:.0f} % of steps, {troubled} runs with a failed step")


def against_fitted(everything):
    """What is left of a fit's worth: runs without one against the fitted baseline, of the same seeds."""
    for problem, method in product(PROBLEMS, METHODS[:2]):
        fitted = sample(everything["fitted_searched"][problem]["baseline"])
        test = compare(fitted, sample(everything["unfitted_searched"][problem][method]))
        gain = f"{test.gain_percent:+.1f} ({test.gain_low:+.1f} to {test.gain_high:+.1f})"
        print(f"{problem} unfitted {method} against the fitted baseline: {gain}, p = {test.p:.2g}")


def sample(runs):
    """Final best utilities by seed."""
    return Sample(dict(enumerate(runs["final_best"])), tuple(range(SEEDS)))


def main():
    """Run what is missing, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    everything = json.loads(OUT.read_text("utf-8")) if OUT.exists() else {}
    for kind in KINDS:
        stored = everything.setdefault(kind, {})
        wanted = FRESH if kind == "confirmed" else PROBLEMS
        for problem in () if options.table else [name for name in wanted if name not in stored]:
            stored[problem] = run(kind, problem)
            OUT.write_text(json.dumps(everything), "utf-8")
        print(f"\n{kind}")
        table(stored)
    against_fitted(everything)


if __name__ == "__main__":
    main()

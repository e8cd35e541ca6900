"""Our own loop where the fit is lost: python -m benchmarks.unfitted [--table].

What BoTorch 0.6.0 comes to where its fit raises (docs/results/botorch-0-6.md), but in the lab and so with sixty seeds.
`unfitted`: ℓ = 0.4 and an output scale of log 2 at every step, as a new `PairwiseGP` has them. `frozen`: those of the
fit to the first answers, kept. `_searched`: with our default search for EUBO, whose pairs are like those of BoTorch's
`optimize_acqf` (both beside the leader), where the preset's own often leaves one far away. `confirmed` is
`unfitted_searched` on more problems, with fresh seeds; `fitted_searched` has every fit, for comparison. Final best
utilities go to docs/results/botorch-0-6/KIND.json, problem by problem; what is there is not run again.
"""

import argparse
import json
import math
import time
from dataclasses import replace
from pathlib import Path

from kappasharp.core import kernel
from kappasharp.core.kernel import Gamma, Priors
from kappasharp.lab import grid, results
from kappasharp.lab import run as lab_run
from kappasharp.lab.experiment import parse
from kappasharp.lab.statistics import Sample, compare, family, gain_percent
from kappasharp.methods.loop import init

FOLDER = Path(__file__).parent.parent / "docs/results/botorch-0-6"
PROBLEMS, METHODS, SEEDS = ("dtlz2-16d", "levy-10d", "hartmann-6d"), ("baseline", "static", "adaptive"), 60
FRESH = (*PROBLEMS, "dtlz2-8d", "ackley-8d", "dtlz2-20d", "levy-20d")
LENGTHSCALE, OUTPUTSCALE = 0.4, math.log(2.0)
# BoTorch adds to K what its Cholesky factor asks for, which is rarely anything.
NUGGET = 1e-6
KINDS = ("unfitted", "frozen", "unfitted_searched", "frozen_searched", "confirmed", "fitted_searched")
UNFITTED = "never_fitted"
kernel.PRIORS[UNFITTED] = Priors(Gamma(1.2, 0.5), (OUTPUTSCALE,) * 2, lengthscale_bounds=(LENGTHSCALE,) * 2)


def run(kind, problem):
    """Final best utilities and shares of corrected steps, by method; all methods and seeds in lockstep."""
    variant = {"preset": "paper", "nugget": NUGGET}
    variant |= {"priors": UNFITTED} if kind.startswith(("unfitted", "confirmed")) else {}
    variant |= {"maximizer": "default"} if kind.endswith(("searched", "confirmed")) else {}
    table = {"problems": [problem], "initializations": ["pool_n6_k15"], "methods": list(METHODS)}
    table |= {"seeds": {"first": SEEDS if kind == "confirmed" else 0, "count": SEEDS}}
    blocks = grid.blocks(parse(kind, table | {"preset_variants": {kind: variant}}))
    begin = time.perf_counter()
    lab_run.init = frozen if kind.startswith("frozen") else init
    rows = lab_run.run_together(blocks)
    print(kind, problem, f"{time.perf_counter() - begin:.0f} s", flush=True)
    return {block.method: [short(row) for row in part] for block, part in zip(blocks, rows, strict=True)}


def frozen(*arguments, **choices):
    """A state whose first hyperparameters are kept."""
    return replace(init(*arguments, **choices), keep=True)


def short(row):
    """What is kept of a run; two output scales, which tell whether it was fitted."""
    return {
        "outputscale": [round(row["outputscale"][at], 4) for at in (0, -1)],
        "final_best": row["final_best"],
        "status": row["status"],
        "failed_steps": row["failed_steps"],
        "corrected": sum(row["active"]) / len(row["active"]),
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
            troubled = sum(run["status"] != "ok" for run in runs)
            corrected = sum(run["corrected"] for run in runs) / len(runs)
            print(problem, method, f"corrected in {100 * corrected:.0f} % of steps, {troubled} runs with a failed step")


def sample(runs):
    """Final best utilities by seed."""
    return Sample({seed: run["final_best"] for seed, run in enumerate(runs)}, tuple(range(SEEDS)))


def main():
    """Run what is missing, then the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    for kind in KINDS:
        out = FOLDER / f"{kind}.json"
        stored = json.loads(out.read_text("utf-8")) if out.exists() else {}
        wanted = FRESH if kind == "confirmed" else PROBLEMS
        for problem in () if options.table else [name for name in wanted if name not in stored]:
            stored[problem] = run(kind, problem)
            out.write_text(json.dumps(stored), "utf-8")
        print(f"\n{kind}")
        table(stored)


if __name__ == "__main__":
    main()

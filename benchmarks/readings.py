"""Every reading of the paper, and solvers that fail on purpose. (docs/results/readings.md)

python -m benchmarks.readings run experiments/readings/nine.toml … --out FILE [--device cuda --workers 15]
python -m benchmarks.readings failing experiments/readings/failing.toml --out FILE [--ways newton_1,cg_3]
python -m benchmarks.readings table FILE … [--told]     every reading's gains over its own baseline
python -m benchmarks.readings random                    the paper's baselines against the best of 106 random designs

A packed run keeps the best utility seen and the one told after every question. What breaks a solver is done to this
process alone; a row carries its name as the preset's.
"""

import argparse
import contextlib
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow.parquet as pq
import torch
from scipy.stats import ttest_ind_from_stats

from benchmarks import collecting
from benchmarks.collecting import SCHEMA, packed
from kappasharp.inference import hyperparameters, laplace, likelihood
from kappasharp.inference.laplace import DualFit
from kappasharp.lab import experiment, grid
from kappasharp.lab.analysis import results
from kappasharp.lab.analysis.statistics import SIGNIFICANT, Sample, compare, family
from kappasharp.lab.run import run_together
from kappasharp.problems import initial_designs
from kappasharp.problems.registry import find_problem
from kappasharp.randomness import stream, uniform
from kappasharp.settings import MAXIMIZERS, Maximizer
from kappasharp.tensors import apply

BASELINE, PIECEWISE = "baseline", "piecewise"
# One in so many fits fails in silence.
FAILING = 3


# --- solvers that fail ----------------------------------------------------------------------------------------------


def _unfinished(A, margin, start, ties=None, *, steps, cg=None):
    """Newton's method from zero, stopped after so many steps; each linear system by `cg` steps of conjugate gradients.

    Nothing says that it has not converged.
    """
    z = alpha = torch.zeros_like(start)
    for _ in range(steps if start.shape[-1] else 0):
        sites = likelihood.sites(z, margin, ties)
        alpha = laplace.newton_target(A, z, sites) if cg is None else _by_conjugate_gradients(A, z, sites, cg)
        z = apply(A, alpha)
    none = start.new_zeros(start.shape[:-1])
    return DualFit(alpha, z, none == 0, none.long(), none)


def _by_conjugate_gradients(A, z, sites, steps):
    """The α of `laplace.newton_target`, with its system (I + ω^½ A ω^½) x = ω^½ A b solved roughly."""
    root, b = sites.omega.sqrt(), sites.slope + sites.omega * z
    residual = root * apply(A, b)
    x, direction, size = torch.zeros_like(residual), residual, residual.square().sum(-1, keepdim=True)
    for _ in range(steps):
        image = direction + root * apply(A, root * direction)
        length = size / (direction * image).sum(-1, keepdim=True).clamp(min=1e-300)
        x, residual = x + length * direction, residual - length * image
        before, size = size, residual.square().sum(-1, keepdim=True)
        direction = residual + size / before.clamp(min=1e-300) * direction
    return b - root * x


def _fails_in_silence(search, model, space, starts, z, *, warm, share):
    """The search, of which one in `share` leaves the library's defaults; the same runs for every method."""
    found = search(model, space, starts, z, warm=warm)
    chance = torch.rand(len(z), generator=stream(0, "failing fit", str(z.shape[-1])))
    failed = (chance < 1.0 / share).to(z.device).unsqueeze(-1)
    default = model.priors.start(space.answers.X.shape[-1]).to(z).expand(len(z), -1)
    theta = torch.where(failed, default, found.hyper.theta)
    return found._replace(hyper=found.hyper._replace(theta=theta))


def _in_single_precision(start, *given):
    found = start(*given)
    return found._replace(points=found.points.float())


def _few_rounds(tolerances, dtype, gain=hyperparameters.FINE, *, rounds):
    return tolerances(dtype, gain)._replace(max_rounds=rounds)


def _solver(**how):
    return lambda: mock.patch.object(laplace, "solve", partial(_unfinished, **how))


def _search(share):
    return lambda: mock.patch.object(
        hyperparameters, "search", partial(_fails_in_silence, hyperparameters.search, share=share)
    )


def _starts(raw):
    poor = Maximizer(raw=raw, starts=1, finalists=1, from_pool=False)
    return lambda: mock.patch.dict(MAXIMIZERS, paper=poor)


WAYS = {
    "newton_1": _solver(steps=1),
    "newton_2": _solver(steps=2),
    "newton_3": _solver(steps=3),
    "cg_1": _solver(steps=10, cg=1),
    "cg_3": _solver(steps=10, cg=3),
    "fit_3_rounds": lambda: mock.patch.object(
        hyperparameters, "tolerances", partial(_few_rounds, hyperparameters.tolerances, rounds=3)
    ),
    "fit_fails_1_in_3": _search(FAILING),
    "fit_always_fails": _search(1),
    "one_start_of_32": _starts(32),
    "one_start": _starts(1),
    "single_precision": lambda: mock.patch.object(
        initial_designs, "start", partial(_in_single_precision, initial_designs.start)
    ),
}


def broken(blocks, device, way):
    """The blocks' rows with a solver that is broken in this way, which stands in the place of the preset's name."""
    with WAYS[way]():
        return [[row | {"preset": way} for row in rows] for rows in run_together(blocks, device)]


def failing(options):
    """Every way to fail, one after another, each in a file of its own beside `--out`."""
    blocks = [block for name in options.sources for block in grid.blocks(experiment.read(Path(name)))]
    out = Path(options.out)
    for way in options.ways.split(",") if options.ways else WAYS:
        part = argparse.Namespace(**vars(options) | {"out": str(out.with_name(f"{out.stem}-{way}{out.suffix}"))})
        # A block stays alone, so that the same runs fail for every method.
        part.batch = None
        collecting.collect(blocks, part, packed, SCHEMA, work=partial(broken, way=way))


def run(options):
    """The experiments' runs, packed."""
    blocks = [block for name in options.sources for block in grid.blocks(experiment.read(Path(name)))]
    collecting.collect(blocks, options, packed, SCHEMA)


# --- what came out --------------------------------------------------------------------------------------------------


def read(sources, measure):
    """(reading, problem) → method → seed → last value; and how often each method ended with which status."""
    found, status = defaultdict(lambda: defaultdict(dict)), Counter()
    for source in sources:
        for row in pq.read_table(source).to_pylist():
            # Another utility is another reading.
            reading = f"{PIECEWISE}, {row['preset']}" if row["problem"].endswith(PIECEWISE) else row["preset"]
            found[reading, row["problem"]][row["method"]][row["seed"]] = row[measure][-1]
            status[row["preset"], row["method"], row["status"]] += 1
    return found, status


def sample(values):
    """The runs of one method on one problem."""
    return Sample(values, tuple(sorted(values)))


def table(options):
    """For every reading and problem: the baseline's level and every method's gain; stars and daggers after Holm."""
    found, status = read(options.sources, "told" if options.told else "seen")
    for reading in sorted({preset for preset, _ in found}):
        cells = {problem: by_method for (preset, problem), by_method in found.items() if preset == reading}
        methods = [name for name in sorted({name for cell in cells.values() for name in cell}) if name != BASELINE]
        rows = {name: _compared(cells, name) for name in methods}
        print(f"\n### `{reading}`\n\n| problem | baseline | {' | '.join(methods)} |\n|{' --- |' * (len(methods) + 2)}")
        for problem, cell in sorted(cells.items()):
            level = sample(cell[BASELINE])
            shown = [_shown(rows[name].members[problem]) for name in methods]
            print(f"| {problem} | {level.mean:.3f} ± {level.sd:.3f} | {' | '.join(shown)} |")
        tallies = [f"{name} {rows[name].plain}, after Holm {rows[name].corrected}" for name in methods]
        print("\nBetter / worse / neutral: " + "; ".join(tallies) + ".")
    bad = Counter()
    for (preset, _, word), count in status.items():
        bad[preset, word] += count
    words = [f"{preset} {word} {count}" for (preset, word), count in sorted(bad.items()) if word != "ok"]
    print("\nRuns that are not `ok`: " + ("; ".join(words) or "none"))


def _compared(cells, name):
    """A method against the baseline on every problem, with Holm's correction over the problems of this reading."""
    problems = [problem for problem, cell in cells.items() if name in cell]
    pairs = [compare(sample(cells[problem][BASELINE]), sample(cells[problem][name])) for problem in problems]
    return family(dict(zip(problems, pairs, strict=True)))


def _shown(row):
    """A gain in per cent, with the paper's stars, and a dagger where it stands after Holm's correction."""
    return f"{row.gain_percent:+.1f}" + row.stars.replace("*", "\\*") + ("†" if row.p_holm < SIGNIFICANT else "")


def random(_):
    """The paper's baseline where it is stated against the best of as many random designs as a run makes."""
    count, seeds = 106, range(1000)
    print(f"| problem | paper's baseline | best of {count} random designs | p |\n| --- | ---: | ---: | ---: |")
    like = torch.empty(0, dtype=torch.float64)
    for problem, stated in results.paper()["table1"].items():
        row, (mean, sd), n = find_problem(problem), stated["baseline"], 60
        if problem in results.paper()["not_comparable"] or row.is_simulated:
            continue
        shape = (count, row.dimensions)
        points = torch.stack([uniform(shape, stream(seed, "random level"), like) for seed in seeds])
        best = row.unit_utility(points).amax(-1).numpy()
        p = ttest_ind_from_stats(mean, sd, n, best.mean(), best.std(ddof=1), len(best), equal_var=False).pvalue
        print(f"| {problem} | {mean:.3f} ± {sd:.3f} | {best.mean():.3f} ± {np.std(best, ddof=1):.3f} | {p:.2g} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = {"run": run, "failing": failing, "table": table, "random": random}
    parser.add_argument("command", choices=commands)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--out", default="readings.parquet")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--ways", help="some of the ways to fail, with commas between")
    parser.add_argument("--told", action="store_true", help="the design told instead of the best one seen")
    options = parser.parse_args()
    with contextlib.suppress(BrokenPipeError):
        commands[options.command](options)


if __name__ == "__main__":
    main()

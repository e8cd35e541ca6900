"""Runs from zero, and what they say.

python -m benchmarks.from_zero run EXPERIMENT.toml... --out OUT.parquet [--device cuda] [--workers 15] [--batch 1024]
python -m benchmarks.from_zero score OUT.parquet...          the candidates of a screening
python -m benchmarks.from_zero table OUT.parquet... --ours NAME [--theirs NAME]      problem by problem, with tests

`run` keeps of every run what the scores need: best seen and told after every fifth question, and how the chances that
the model gave to the answers were spread, so that reliability can be read off. Needs torch, NumPy, SciPy and PyArrow.
"""

import argparse
import contextlib
import os
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks.gpu import start_mps, stop_mps
from kappasharp.lab import engines, execution, experiment, grid
from kappasharp.lab.execution import Limit
from kappasharp.lab.statistics import holm, paired_t

EVERY = 5
TENTHS = 10
DEFAULT = ("baseline", "modern_0_2")
NUMBERS = (("seen", 20), ("seen", 40), ("told", 20), ("told", 40))


def packed(row):
    """What is kept of one run."""
    seen, told = ([None if v is None else v for v in row[name]] for name in ("best_utility", "told_utility"))
    chance = np.array([c for c in row["chance"] or [] if c is not None and np.isfinite(c)])
    place = np.minimum((chance * TENTHS).astype(int), TENTHS - 1)
    kept = ("problem", "method", "preset", "seed", "status", "failed_steps", "commit", "queries", "settling", "person")
    return {name: row[name] for name in kept} | {
        "seen": seen[EVERY - 1 :: EVERY],
        "told": told[EVERY - 1 :: EVERY],
        "chances": np.bincount(place, minlength=TENTHS).tolist(),
        "chance_sums": np.bincount(place, weights=chance, minlength=TENTHS).tolist(),
        "outputscale": row["outputscale"][-1] if row["outputscale"] else None,
        "seconds": row["seconds"],
    }


SCHEMA = pa.schema(
    [
        (name, pa.dictionary(pa.int32(), pa.string()))
        for name in ("problem", "method", "preset", "status", "commit", "person", "experiment")
    ]
    + [(name, pa.int32()) for name in ("seed", "failed_steps", "queries", "settling")]
    + [(name, pa.list_(pa.float32())) for name in ("seen", "told", "chance_sums")]
    + [("chances", pa.list_(pa.int8())), ("outputscale", pa.float32()), ("seconds", pa.float32())]
)


def run(options):
    """The experiment's runs, each packed as soon as it is there; what a time limit leaves out is said."""
    plans = [(Path(name).stem, grid.blocks(experiment.read(Path(name)))) for name in options.experiments]
    work = [job for _, blocks in plans for job in execution.jobs(blocks, Limit(options.batch))]
    names = {key: name for name, blocks in plans for block in blocks for key in block.keys}
    total, rows, errors, shown = len(names), [], [], 0.0
    begin = time.perf_counter()
    with contextlib.ExitStack() as ending:
        if options.device == "cuda" and start_mps():
            ending.callback(stop_mps)
        engine = engines.engine("processes", options.device, options.workers)
        outcomes = engine(work)
        for outcome in outcomes:
            rows += [packed(row) | {"experiment": names[row["key"]]} for part in outcome.rows or [] for row in part]
            errors += [outcome.error] if outcome.error else []
            spent = time.perf_counter() - begin
            if spent - shown > 10.0 or len(rows) == total:
                shown = spent
                print(f"{len(rows)} of {total} runs, {spent:.0f} s, {len(errors)} errors {errors[:1]}", flush=True)
            if options.seconds and spent > options.seconds:
                print(f"stopped after {spent:.0f} s with {len(rows)} of {total} runs", flush=True)
                break
        # Before anything is closed: what was run must not wait for that.
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), options.out, compression="zstd", compression_level=15)
        print(f"{len(rows)} runs in {options.out}, {os.path.getsize(options.out) / 1e6:.1f} MB", flush=True)
        outcomes.close()


def read(sources, only=None):
    """candidate → problem → seed → row."""
    found = defaultdict(lambda: defaultdict(dict))
    for source in sources:
        for row in pq.read_table(source).to_pylist():
            if only is None or row.get("experiment") == only:
                found[row["method"], row["preset"]][row["problem"]][row["seed"]] = row
    return found


def at(row, measure, questions):
    value = row[measure][questions // EVERY - 1]
    return np.nan if value is None else value


def gains(ours, theirs, measure, questions):
    """Standardised paired gain, p and mean gain of every problem."""
    found = {}
    for problem, rows in ours.items():
        seeds = sorted(set(rows) & set(theirs.get(problem, {})))
        if len(seeds) < 3:
            continue
        difference = np.array(
            [at(rows[s], measure, questions) - at(theirs[problem][s], measure, questions) for s in seeds]
        )
        if np.isnan(difference).any():
            continue
        _, p = paired_t(torch.zeros(len(difference), dtype=torch.float64), torch.from_numpy(difference))
        found[problem] = difference.mean() / max(difference.std(ddof=1), 1e-12), float(p), difference.mean()
    return found


def counts(found):
    """Wins and losses, plain and after Holm's correction over the problems."""
    p = np.array([one[1] for one in found.values()])
    sign = np.array([np.sign(one[2]) for one in found.values()])
    corrected = np.array(holm(p.tolist()))
    return [(int(((q < 0.05) & (sign > 0)).sum()), int(((q < 0.05) & (sign < 0)).sum())) for q in (p, corrected)]


def score(options):
    found = read(options.sources, options.only)
    base = found[options.baseline]
    rows = []
    for name, runs in found.items():
        parts = [gains(runs, base, *number) for number in NUMBERS]
        if not all(parts):
            continue
        means = [np.mean([one[0] for one in part.values()]) for part in parts]
        spread = np.std([np.mean([part[p][0] for part in parts]) for p in parts[0]], ddof=1) / np.sqrt(len(parts[0]))
        tests = [counts(part)[1] for part in parts]
        rows.append((np.mean(means), spread, means, tests, name))
    print("| candidate | score | ± | seen 20 | seen 40 | told 20 | told 40 | wins / losses after Holm |")
    print("| --- |" + " ---: |" * 6 + " --- |")
    for total, spread, means, tests, name in sorted(rows, key=lambda row: -row[0]):
        numbers = " | ".join(f"{value:+.2f}" for value in means)
        print(
            f"| {name[1] if name[0] == 'baseline' else name} | {total:+.3f} | {spread:.3f} | {numbers} | {' · '.join(f'{w}/{l}' for w, l in tests)} |"
        )


def table(options):
    found = read(options.sources, options.only)
    for questions in (10, 20, 30, 40):
        for measure in ("seen", "told"):
            result = gains(found[options.ours], found[options.theirs], measure, questions)
            if result:
                corrected = holm([one[1] for one in result.values()])
                plain, after = counts(result)
                print(
                    f"\n{measure} after {questions}: wins / losses {plain[0]}/{plain[1]}, after Holm {after[0]}/{after[1]} of {len(result)}"
                )
                if options.problems:
                    for (problem, one), q in zip(
                        sorted(result.items()), [c for _, c in sorted(zip(result, corrected))]
                    ):
                        print(f"  {problem:18} {one[0]:+.2f}  mean {one[2]:+.3f}  p {one[1]:.2g}  Holm {q:.2g}")


def reliability(options):
    """Of the answers to which the model gave a chance in each tenth, how many came so; a pair's two sides are one."""
    for name, problems in read(options.sources, options.only).items():
        rows = [row for seeds in problems.values() for row in seeds.values()]
        n = np.sum([row["chances"] for row in rows], 0)
        sums = np.sum([row["chance_sums"] for row in rows], 0)
        n, sums = n[5:] + 0.0, sums[5:]
        other, other_sums = (
            np.sum([row["chances"] for row in rows], 0)[:5][::-1],
            np.sum([row["chance_sums"] for row in rows], 0)[:5][::-1],
        )
        total = n + other
        said = (sums + other - other_sums) / np.maximum(total, 1)
        came = n / np.maximum(total, 1)
        words = "  ".join(f"{s:.2f}→{c:.2f} ({int(t)})" for s, c, t in zip(said, came, total))
        print(f"{name[1]:34} {words}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run")
    one.add_argument("experiments", nargs="+")
    one.add_argument("--out", required=True)
    one.add_argument("--device", default="cpu")
    one.add_argument("--workers", type=int)
    one.add_argument("--batch", type=int, default=1024)
    one.add_argument("--seconds", type=float, default=0.0)
    for verb in ("score", "table", "reliability"):
        two = verbs.add_parser(verb)
        two.add_argument("sources", nargs="+")
        two.add_argument("--only", help="the runs of this experiment")
        two.add_argument("--baseline", nargs=2, type=str, default=DEFAULT)
        two.add_argument("--ours", nargs=2, default=DEFAULT)
        two.add_argument("--theirs", nargs=2, default=DEFAULT)
        two.add_argument("--problems", action="store_true")
    options = parser.parse_args()
    for name in ("baseline", "ours", "theirs"):
        if hasattr(options, name):
            setattr(options, name, tuple(getattr(options, name)))
    {"run": run, "score": score, "table": table, "reliability": reliability}[options.verb](options)


if __name__ == "__main__":
    sys.exit(main())

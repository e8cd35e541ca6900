"""Scores of the candidates in a folder of results: python -m benchmarks.what_wins FOLDER [--problems] [--at 20].

A candidate's gain on a problem is its paired gain in best utility over the baseline, in units of the baseline's
standard deviation there; its score is the mean over problems, and the error that of the mean.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy import stats

BASELINE = ("baseline", "modern")


def read(folders, at):
    """Best utility after `at` questions (the last by default), and seconds, by candidate, problem, and seed."""
    best, seconds = defaultdict(lambda: defaultdict(dict)), defaultdict(list)
    for folder in folders:
        for path in sorted(Path(folder).glob("blocks/**/*.parquet")):
            for row in pq.read_table(path).to_pylist():
                if row["status"] == "error":
                    continue
                name = (row["method"], row["preset"])
                cell = (row["problem"], row["initialization"])
                best[name][cell][row["seed"]] = row["best_utility"][-1 if at is None else at]
                seconds[name].append(row["seconds"])
    return best, {name: float(np.mean(values)) for name, values in seconds.items()}


def gains(candidate, baseline):
    """Standardised paired gains and p-values, problem by problem."""
    found = {}
    for cell, ours in candidate.items():
        seeds = sorted(set(ours) & set(baseline.get(cell, {})))
        if len(seeds) < 3:
            continue
        theirs = np.array([baseline[cell][seed] for seed in seeds])
        difference = np.array([ours[seed] for seed in seeds]) - theirs
        p = float(stats.ttest_1samp(difference, 0.0).pvalue) if difference.std() > 0 else 1.0
        found[cell] = (difference.mean() / max(theirs.std(ddof=1), 1e-12), p, float(difference.mean()))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--at", type=int)
    parser.add_argument("--problems", action="store_true", help="the gain on every problem too")
    parser.add_argument("--baseline", nargs=2, default=BASELINE)
    options = parser.parse_args()
    best, seconds = read(options.folders, options.at)
    baseline = best[tuple(options.baseline)]
    rows = []
    for name, cells in best.items():
        found = gains(cells, baseline)
        values = np.array([value for value, _, _ in found.values()])
        if len(values) > 1:
            wins = sum(p < 0.05 and value > 0 for value, p, _ in found.values())
            losses = sum(p < 0.05 and value < 0 for value, p, _ in found.values())
            error = values.std(ddof=1) / np.sqrt(len(values))
            rows.append((values.mean(), error, wins, losses, len(values), name, found))
    print("| candidate | score | ± | wins / losses of problems | seconds a run |\n| --- | --- | --- | --- | --- |")
    for score, error, wins, losses, count, name, found in sorted(rows, key=lambda row: -row[0]):
        label = " + ".join(part for part in name if part not in BASELINE) or "baseline, modern"
        print(f"| {label} | {score:+.3f} | {error:.3f} | {wins} / {losses} of {count} | {seconds[name]:.2f} |")
        if options.problems:
            for (problem, _), (value, p, _) in sorted(found.items()):
                print(f"    {problem:22} {value:+.2f} (p {p:.3f})")


if __name__ == "__main__":
    main()

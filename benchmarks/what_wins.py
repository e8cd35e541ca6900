"""Scores of the candidates in folders of results, or in a packed file: python -m benchmarks.what_wins FOLDER...

`--problems` shows every problem, `--at 25` an earlier question, `--designs 50` where fifty designs had been made after
the first ones, `--pack FILE.parquet` keeps what the scores need.
A candidate's gain on a problem is its paired gain in best utility over the baseline, in units of the baseline's
standard deviation there, or with `--own` of the gain's own. That is estimated from the seeds, which makes the ratio too
large where they are few, by a factor that is taken out (Hedges). Its score is the mean over problems, and the error
that of the mean. `--table` shows the baseline's and every other's mean on every problem with the paired tests instead.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from kappasharp.lab.analysis.statistics import holm, paired_t
from kappasharp.lab.store import Store
from kappasharp.problems.registry import find_problem

BASELINE = ("baseline", "modern")


def rows_of(source):
    """The runs of a folder of results or of a packed file."""
    if Path(source).suffix == ".parquet":
        yield from pq.read_table(source).to_pylist()
        return
    for row in Store(Path(source)).existing().read().to_pylist():
        # Runs of an older version of a problem are runs of another problem.
        if row["status"] != "error" and row["problem_version"] == find_problem(row["problem"]).version:
            yield row


def read(sources, at, designs):
    """Best utility by candidate, problem and seed; and mean seconds and designs made, by candidate."""
    best, costs = defaultdict(lambda: defaultdict(dict)), defaultdict(list)
    for source in sources:
        for row in rows_of(source):
            name, cell = (row["method"], row["preset"]), (row["problem"], row["initialization"])
            if at is not None and at >= len(row["best_utility"]):
                sys.exit(
                    f"{source} has {len(row['best_utility'])} values a run: the last one only, or fewer questions."
                )
            made = np.subtract(row["n_points"], row["n_points"][0]) if row.get("n_points") else np.array([np.nan])
            last = (-1 if at is None else at) if designs is None else last_within(made, designs)
            if last is not None:
                best[name][cell][row["seed"]] = row["best_utility"][last]
            seconds = row.get("seconds")
            costs[name].append((np.nan if seconds is None else seconds, made[-1]))
    return best, {name: np.mean(values, axis=0) for name, values in costs.items()}


def last_within(made, designs):
    """The last question until which at most this many designs had been made; None where the run made fewer."""
    return int(np.searchsorted(made, designs, side="right")) - 1 if made[-1] >= designs else None


def pack(sources, target, where=()):
    """What the scores need of every run, in one small file: names, seed, and best utility in single precision."""
    kept = ("problem", "initialization", "method", "preset", "seed", "seconds", "commit", "n_points")
    wanted = dict(pair.split("=", 1) for pair in where)
    found = (
        row for source in sources for row in rows_of(source) if all(row[key] == value for key, value in wanted.items())
    )
    rows = [{name: row.get(name) for name in (*kept, "best_utility")} for row in found]
    table = pa.Table.from_pylist(rows)
    at = table.schema.get_field_index("best_utility")
    table = table.set_column(at, "best_utility", table["best_utility"].cast(pa.list_(pa.float32())))
    pq.write_table(table, target, compression="zstd", compression_level=19)


def gains(candidate, baseline, own=False):
    """Standardised paired gains and p-values, problem by problem."""
    found = {}
    for cell, ours in candidate.items():
        seeds = sorted(set(ours) & set(baseline.get(cell, {})))
        if len(seeds) < 3:
            continue
        theirs = np.array([baseline[cell][seed] for seed in seeds])
        difference = np.array([ours[seed] for seed in seeds]) - theirs
        _, p = paired_t(torch.zeros(len(difference), dtype=torch.float64), torch.from_numpy(difference))
        unit = (difference if own else theirs).std(ddof=1)
        # A mean in units of an estimated deviation is too large on average: Hedges' factor, nearly exact.
        less = 1.0 - 3.0 / (4.0 * (len(seeds) - 1) - 1.0)
        found[cell] = (less * difference.mean() / max(unit, 1e-12), p, float(difference.mean()))
    return found


def table(best, baseline):
    """For every start: the baseline's mean and every other's with its p, and how often the baseline wins and loses."""
    for start in sorted({cell[1] for cell in best[baseline]}):
        for name in sorted(set(best) - {baseline}):
            found = {
                cell[0]: value
                for cell, value in gains(best[name], best[baseline], own=True).items()
                if cell[1] == start
            }
            if not found:
                continue
            problems = sorted(found)
            p = [found[one][1] for one in problems]
            corrected = np.array(holm(p))
            print(f"\n`{start}`: {' '.join(baseline)} against {' '.join(name)}\n")
            print("| problem | pairs | ours | theirs | p | p, Holm |\n| --- | ---: | ---: | ---: | ---: | ---: |")
            for name_of, one, many in zip(problems, p, corrected, strict=True):
                ours, theirs = best[baseline][name_of, start], best[name][name_of, start]
                seeds = sorted(set(ours) & set(theirs))
                means = [np.mean([part[seed] for seed in seeds]) for part in (ours, theirs)]
                print(f"| {name_of} | {len(seeds)} | {means[0]:.3f} | {means[1]:.3f} | {one:.2g} | {many:.2g} |")
            ahead = np.array([found[one][2] < 0 for one in problems])
            counts = [
                (int((ahead & (level < 0.05)).sum()), int((~ahead & (level < 0.05)).sum()))
                for level in (np.array(p), corrected)
            ]
            print(f"\nwins / losses: {counts[0][0]} / {counts[0][1]}; after Holm {counts[1][0]} / {counts[1][1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--at", type=int)
    parser.add_argument("--designs", type=int)
    parser.add_argument("--problems", action="store_true", help="the gain on every problem too")
    parser.add_argument("--baseline", nargs=2, default=BASELINE)
    parser.add_argument("--own", action="store_true", help="gains in units of their own deviation")
    parser.add_argument("--table", action="store_true", help="the baseline against every other, problem by problem")
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--where", nargs="*", default=(), help="pack these runs only: method=baseline …")
    options = parser.parse_args()
    if options.pack:
        pack(options.folders, options.pack, options.where)
        return
    best, costs = read(options.folders, options.at, options.designs)
    if options.table:
        table(best, tuple(options.baseline))
        return
    baseline = best[tuple(options.baseline)]
    rows = []
    for name, cells in best.items():
        found = gains(cells, baseline, options.own)
        values = np.array([value for value, _, _ in found.values()])
        if len(values) > 1:
            wins = sum(p < 0.05 and value > 0 for value, p, _ in found.values())
            losses = sum(p < 0.05 and value < 0 for value, p, _ in found.values())
            error = values.std(ddof=1) / np.sqrt(len(values))
            rows.append((values.mean(), error, wins, losses, len(values), name, found))
    counted = not all(np.isnan(made) for _, made in costs.values())  # an older file does not say
    header = ["candidate", "score", "±", "wins / losses of cells", "seconds a run", *["designs made"] * counted]
    print(f"| {' | '.join(header)} |\n|{' --- |' * len(header)}")
    for score, error, wins, losses, count, name, found in sorted(rows, key=lambda row: -row[0]):
        seconds, made = ("–" if np.isnan(v) else f"{v:.{k}f}" for v, k in zip(costs[name], (2, 0), strict=True))
        label = " + ".join(part for part in name if part not in BASELINE) or "baseline, modern"
        shown = [label, f"{score:+.3f}", f"{error:.3f}", f"{wins} / {losses} of {count}", seconds, *[made] * counted]
        print(f"| {' | '.join(shown)} |")
        if options.problems:
            for (where, start), (value, p, _) in sorted(found.items()):
                print(f"    {where:22} {start:12} {value:+.2f} (p {p:.3f})")


if __name__ == "__main__":
    main()

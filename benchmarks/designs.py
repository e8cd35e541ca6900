"""Best utility against questions and designs made: python -m benchmarks.designs [--seeds 12] [--file FILE] [--show].

Methods differ in how many designs a question makes: two, one where the best design seen is asked about again, three
or four where the person names the best of so many. On the development problems, `pool_n6_k15`, the person `paper`.
Runs what is missing of FILE (a Parquet file, by default docs/results/what-wins/designs.parquet) and shows both tables.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from scipy import stats

from kappasharp.lab.provenance import machine
from kappasharp.lab.run import judge
from kappasharp.methods import loop
from kappasharp.methods.asking import NEW
from kappasharp.problems import initial, oracle
from kappasharp.problems.registry import DEVELOPMENT

FILE = Path(__file__).parent.parent / "docs" / "results" / "what-wins" / "designs.parquet"
METHODS = ("baseline", "bridging", "incumbent", "best_of_3", "best_of_4")
FIRST_SEED, QUESTIONS, INITIALIZATION = 5000, 50, "pool_n6_k15"
# Where the curves are compared: so many questions, so many designs made after the first.
AT_QUESTIONS, AT_DESIGNS = (25, 50), (50,)


def run(problem, method, seeds):
    """Best utility after every question, and how many designs were made until then, for every seed."""
    person, cells = oracle.person("paper"), [(problem.name, seed) for seed in seeds]
    start = initial.start(problem, INITIALIZATION, seeds, person)
    state = loop.init(start.points, start.comparisons, method=method, seeds=seeds)
    chance = torch.stack([oracle.draws(problem.name, seed, "oracle noise", QUESTIONS) for seed in seeds])
    seen, best, made = start.utility, [start.utility.amax(1)], [torch.zeros(len(seeds), dtype=torch.long)]
    for step in range(QUESTIONS):
        question, state, _ = loop.ask(state)
        utility, seen = judge([(problem, len(seeds))], question, seen)
        state = loop.tell(state, question, oracle.answer_about(person, cells, utility, chance[:, step], step))
        best.append(seen.amax(1))
        made.append(made[-1] + (question.known == NEW).sum(1))
    return torch.stack(best, 1), torch.stack(made, 1)


def complete(path, count):
    """Run what the file does not have; it is written after every block."""
    rows = pq.read_table(path).to_pylist() if path.exists() else []
    have = {(row["problem"], row["method"], row["seed"]) for row in rows}
    for problem in DEVELOPMENT.values():
        for method in METHODS:
            left = [s for s in range(FIRST_SEED, FIRST_SEED + count) if (problem.name, method, s) not in have]
            if not left:
                continue
            # Runs that bridge go one by one: each makes designs at a pace of its own.
            batches = [[seed] for seed in left] if method == "bridging" else [left]
            best, made = (torch.cat(part) for part in zip(*(run(problem, method, b) for b in batches), strict=True))
            commit = machine("cpu")["commit"]
            rows += [
                {
                    "problem": problem.name,
                    "method": method,
                    "seed": seed,
                    "commit": commit,
                    "best_utility": b,
                    "made": m,
                }
                for seed, b, m in zip(left, best.float().tolist(), made.tolist(), strict=True)
            ]
            pq.write_table(pa.Table.from_pylist(rows), path, compression="zstd", compression_level=19)
            print(f"{problem.name} {method}: {len(left)} runs", flush=True)
    return rows


def after_designs(row, count):
    """Best utility when at most so many designs had been made; None if the run never made so many."""
    made = np.asarray(row["made"])
    return None if made[-1] < count else row["best_utility"][int(np.searchsorted(made, count, side="right")) - 1]


def compare(rows, value):
    """Over problems: the mean paired gain over the baseline in units of its own deviation, and wins and losses."""
    cells = defaultdict(dict)
    for row in rows:
        if (found := value(row)) is not None:
            cells[row["method"], row["problem"]][row["seed"]] = found
    for method in METHODS[1:]:
        effects, wins, losses = [], 0, 0
        for problem in DEVELOPMENT:
            ours, theirs = cells[method, problem], cells["baseline", problem]
            seeds = sorted(set(ours) & set(theirs))
            if len(seeds) < 3:
                continue
            difference = np.array([ours[s] - theirs[s] for s in seeds])
            effects.append(difference.mean() / max(difference.std(ddof=1), 1e-12))
            p = stats.ttest_1samp(difference, 0.0).pvalue
            wins, losses = wins + (p < 0.05 and effects[-1] > 0), losses + (p < 0.05 and effects[-1] < 0)
        if effects:
            error = np.std(effects, ddof=1) / np.sqrt(len(effects))
            yield f"| `{method}` | {np.mean(effects):+.2f} ± {error:.2f} | {wins} / {losses} of {len(effects)} |"


def show(rows):
    """Both tables, and how many designs the methods made."""
    for count in AT_QUESTIONS:
        print(f"\n| after {count} questions | gain over `baseline` | wins / losses |\n| --- | --- | --- |")
        print("\n".join(compare(rows, lambda row, at=count: row["best_utility"][at])))
    for count in AT_DESIGNS:
        print(f"\n| after {count} designs made | gain over `baseline` | wins / losses |\n| --- | --- | --- |")
        print("\n".join(compare(rows, lambda row, at=count: after_designs(row, at))))
    print("\n| method | designs made in 50 questions |\n| --- | --- |")
    for method in METHODS:
        made = [row["made"][-1] for row in rows if row["method"] == method]
        if made:
            print(f"| `{method}` | {np.mean(made):.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--show", action="store_true", help="run nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    show(pq.read_table(options.file).to_pylist() if options.show else complete(options.file, options.seeds))


if __name__ == "__main__":
    main()

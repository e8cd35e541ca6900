"""A study settled by galleries instead of duels: what is told after each. (docs/results/from-zero.md, Galleries)

python -m benchmarks.galleries run FILE [--seeds 60] [--first 14000] [--person paper] [--problems NAME …]
python -m benchmarks.galleries table FILE …
python -m benchmarks.galleries summary FILE        what five galleries of nine leave, into benchmarks/from_zero.json

`run` plays the default for forty questions from zero, once, and settles from there by every form: the design told and
its likeliest betters among those seen. A row holds the utility told after none to five of these, and the best seen.
"""

import argparse
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from benchmarks import from_zero, paired
from kappasharp.algorithm import loop
from kappasharp.lab import experiment, grid
from kappasharp.lab import run as lab_run
from kappasharp.lab.analysis.statistics import holm
from kappasharp.lab.run import People, play
from kappasharp.problems.registry import PROBLEMS, find_problem
from kappasharp.questions.kind import Kind
from kappasharp.settings import Query

FORMS = {"pair": (Kind.PAIR, 2), "choice:4": (Kind.CHOICE, 4), "choice:9": (Kind.CHOICE, 9), "order:4": (Kind.ORDER, 4)}
QUESTIONS, SETTLING, BAR = 40, 5, 1.1
# Compared with five duels, and as many of them.
AGAINST = (("choice:9", 5), ("choice:9", 2), ("choice:9", 1), ("choice:4", 5), ("order:4", 5))


def blocks(problem, options):
    """Forty questions and those that settle, as one block: the person's chance is drawn for all of them."""
    made = {"problems": [problem], "initializations": ["from_zero"], "methods": ["baseline"], "presets": ["modern"]}
    seeds = {"first": options.first, "count": options.seeds}
    more = {"seeds": seeds, "queries": QUESTIONS + SETTLING, "block_size": options.seeds, "person": options.person}
    return grid.blocks(experiment.parse("galleries", made | more))


def told(state, seen):
    return seen.gather(1, loop.leader(state, loop.learn(state)).unsqueeze(-1)).squeeze(-1)


def settled(state, seen, people, form):
    """The utility told after none to five questions of a form (runs, 6), and which runs failed to converge at one."""
    kind, designs = FORMS[form]
    state = replace(state, method=replace(state.method, query=Query.SETTLING, kind=kind, designs=designs))
    found, failed = [told(state, seen)], torch.zeros(len(seen), dtype=torch.long)
    for number in range(QUESTIONS, QUESTIONS + SETTLING):
        question, state, info = loop.ask(state)
        failed += torch.tensor([status != "ok" for status in info.status])
        state = loop.tell(state, question, people.answer(state.method, question, seen, number)[0])
        found.append(told(state, seen))
    return torch.stack(found, 1), failed


def run(options):
    """Every problem, written as it comes."""
    rows = []
    for problem in options.problems or PROBLEMS:
        chosen = blocks(problem, options)
        people = People(chosen)
        steps = play(chosen)
        *_, last = (next(steps) for _ in range(QUESTIONS - (QUESTIONS + SETTLING - chosen[0].asked)))
        state, seen = last.after, last.seen
        for form in FORMS:
            utilities, failed = settled(state, seen, people, form)
            best = seen.amax(1).tolist()
            for seed, values, top, bad in zip(chosen[0].seeds, utilities.tolist(), best, failed.tolist(), strict=True):
                rows.append(
                    {"problem": problem, "seed": seed, "person": options.person, "form": form, "seen": top}
                    | {"told": values, "failed_steps": bad, "commit": lab_run.commit()}
                )
        pq.write_table(pa.Table.from_pylist(rows), options.files[0], compression="zstd")
        print(f"{problem}: {len(rows)} rows", flush=True)


def ratio(rows, top, count):
    """Regret of the design told after so many questions over that of the best seen, of means over the seeds."""
    return np.mean([top - row["told"][count] for row in rows]) / np.mean([top - row["seen"] for row in rows])


def table(options):
    """Ratios by problem, and what is sure against five duels after Holm over the problems."""
    found = {}
    for row in (row for file in options.files for row in pq.read_table(file).to_pylist()):
        found.setdefault(row["form"], {}).setdefault(row["problem"], {})[row["seed"]] = row
    columns = [("pair", 0), ("pair", 5), *AGAINST]
    print("| problem | seeds | before |" + "".join(f" {n} × {form} |" for form, n in columns[1:]))
    print("| --- |" + " ---: |" * (len(columns) + 1))
    ratios = {column: {} for column in columns}
    for problem, rows in found["pair"].items():
        top = find_problem(problem).maximum.value
        for form, n in columns:
            ratios[form, n][problem] = ratio(found[form][problem].values(), top, n)
        print(f"| {problem} | {len(rows)} |" + "".join(f" {ratios[column][problem]:.2f} |" for column in columns))
    within = [sum(value <= BAR for value in ratios[column].values()) for column in columns]
    print("| **within 1.1** | |" + "".join(f" {count} |" for count in within))
    for form, n in AGAINST:
        gains = paired.gains(found[form], found["pair"], lambda row, n=n: row["told"][n], lambda row: row["told"][5])
        corrected = holm([p for _, p, _ in gains.values()])
        sure = [np.sign(mean) for (_, _, mean), p in zip(gains.values(), corrected, strict=True) if p < 0.05]
        print(f"{n} × {form} against five duels: {sure.count(1.0)} won, {sure.count(-1.0)} lost after Holm", end="; ")
        print("mean gain " + ", ".join(f"{name} {one[0]:+.2f}" for name, one in gains.items()))


def summary(options):
    """What five galleries of nine leave, beside the rest that is known from zero."""
    rows = [row for file in options.files for row in pq.read_table(file).to_pylist() if row["form"] == "choice:9"]
    found = {}
    for problem in sorted({row["problem"] for row in rows}):
        own = [row for row in rows if row["problem"] == problem]
        found[problem] = round(float(ratio(own, find_problem(problem).maximum.value, SETTLING)), 3)
    from_zero.note({"told_over_seen_galleries": found, "told_within_galleries": sum(v <= BAR for v in found.values())})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "table", "summary"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--problems", nargs="*")
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--first", type=int, default=14000)
    parser.add_argument("--person", default="paper")
    options = parser.parse_args()
    torch.set_num_threads(1)
    {"run": run, "table": table, "summary": summary}[options.verb](options)


if __name__ == "__main__":
    main()

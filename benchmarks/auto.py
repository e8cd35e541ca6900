"""Whether `question="auto"` spends attention well: studies with a simulated person of a stated pace, kind against kind.

python -m benchmarks.auto run FOLDER [--set 41] [--seeds 20] [--workers 2]    # what the folder lacks; may be stopped
python -m benchmarks.auto pack FOLDER FILE                         # all its runs in one Parquet file
python -m benchmarks.auto table FILE

Each run is a `Study` that is asked and told until the person has spent ATTENTION seconds. A packed run keeps
for every answer its kind, its seconds, and the utility of the best design seen and of the one told.
(docs/results/answers.md)
"""

import argparse
import json
import math
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import kappasharp as ks
from benchmarks import paired
from kappasharp import rehearsal
from kappasharp.errors import KappaSharpError
from kappasharp.lab import run as lab_run
from kappasharp.planning import question_kind
from kappasharp.problems import simulated_voters
from kappasharp.problems.registry import find_problem
from kappasharp.questions.kind import Kind
from kappasharp.randomness import stream, uniform

# Of a generated set the first so many problems that have neither steps nor choices: a slider needs a line.
PROBLEMS = 10
ATTENTION, LOOKS = 160.0, (80.0, 160.0)
# The deviation of the logarithm of one answer's time.
UNEVEN = 0.3
# How a person's seconds differ from the usual ones (planning/question_kind.py), by kind of question.
PEOPLE = {"usual": {}, "slow slider": {Kind.SLIDER: 3.0}, "quick slider": {Kind.SLIDER: 0.4}}
# An arm is what the study asks; `again` is the null: pairs of a study with another seed.
ARMS = {"pair": "pair", "again": "pair", "choice": "choice:4", "slider": "slider", "auto": "auto"}


def problems(number):
    """The names of a set's problems."""
    every = (find_problem(f"drawn-{number}-{at:02}") for at in range(1, 31))
    return [one.name for one in every if not any(one.steps) and not one.choices][:PROBLEMS]


def cells(number, seeds, arms):
    """Every run: where the person's pace changes nothing that is asked, it is run once, at the quickest pace."""
    for problem, seed, arm in product(problems(number), range(seeds), arms):
        for person in PEOPLE if arm == "auto" else ("quick slider",):
            yield problem, seed, arm, person


def took(form, person, problem, seed, number):
    """Seconds of one answer: what the kind takes this person, times a chance that is the same for every arm."""
    chance = uniform((1,), stream(seed, problem, "pace", str(number)), torch.empty(0, dtype=torch.float64))
    normal = float(torch.special.ndtri(chance.clamp(1e-9, 1.0 - 1e-9)))
    return question_kind.usual(form) * PEOPLE[person].get(form.kind, 1.0) * math.exp(UNEVEN * normal)


def play(cell):
    """One run, answer by answer."""
    problem, seed, arm, person = cell
    torch.set_num_threads(1)
    of, who = find_problem(problem), simulated_voters.person("paper")
    space = {f"x{at}": (0.0, 1.0) for at in range(of.dimensions)}
    study = ks.create_study(space, question=ARMS[arm], seed=seed + 1000 * (arm == "again"), storage="sqlite://")

    def utility(design):
        return float(of.unit_utility(torch.tensor([[design[name] for name in space]], dtype=torch.float64)))

    chance, spent, best, rows = simulated_voters.draws(problem, seed, "auto", 200), 0.0, -math.inf, []
    while spent < ATTENTION:
        question = study.ask()
        further = simulated_voters.further_draws(problem, seed, len(rows), simulated_voters.STEPS)
        answer = rehearsal.answer(question, utility, who, chance[len(rows)], further)
        seconds = took(question.form, person, problem, seed, len(rows))
        study.tell(question, answer, seconds=seconds)
        spent += seconds
        # What a slider showed is the design at which it was left; the others of its line were passed by.
        shown = [question.at(answer)] if question.form.kind is Kind.SLIDER else question.designs
        best = max(best, *map(utility, shown))
        rows.append((question.form.kind.value, seconds, best, utility(study.best_params)))
    study.storage.close()
    kinds, seconds, seen, told = (list(part) for part in zip(*rows, strict=True))
    return {
        "problem": problem, "seed": seed, "arm": arm, "person": person, "commit": lab_run.commit(),
        "kinds": kinds, "seconds": seconds, "seen": seen, "told": told,
    }  # fmt: skip


def file_of(folder, cell):
    return Path(folder) / ("_".join(map(str, cell)).replace(" ", "-") + ".json")


def played(folder, cell):
    """Run a cell and keep it; a run that fails is kept as its error."""
    try:
        found = play(cell)
    except KappaSharpError as error:
        found = dict(zip(("problem", "seed", "arm", "person"), cell, strict=True)) | {"error": str(error)}
    target = file_of(folder, cell)
    target.with_suffix(".part").write_text(json.dumps(found), "utf-8")
    target.with_suffix(".part").rename(target)
    return cell


def run(options):
    """Everything that the folder lacks."""
    Path(options.folder).mkdir(parents=True, exist_ok=True)
    missing = [
        cell for cell in cells(options.set, options.seeds, options.arms) if not file_of(options.folder, cell).exists()
    ]
    # Seed by seed, so that what is there when it is stopped is whole.
    missing.sort(key=lambda cell: cell[1])
    with ProcessPoolExecutor(options.workers) as pool:
        for count, _ in enumerate(pool.map(played, [options.folder] * len(missing), missing), 1):
            if count % 10 == 0 or count == len(missing):
                print(f"{count} of {len(missing)}", flush=True)


def pack(options):
    rows = [json.loads(path.read_text("utf-8")) for path in sorted(Path(options.folder).glob("*.json"))]
    failed = [row for row in rows if "error" in row]
    print(f"{len(rows)} runs, {len(failed)} failed", *(row["error"] for row in failed), sep="\n")
    pq.write_table(pa.Table.from_pylist([row for row in rows if "error" not in row]), options.file, compression="zstd")


def at(row, measure, person, seconds):
    """A measure after so many seconds of this person's attention, by the answers that were given within them."""
    slower = [PEOPLE[person].get(Kind(kind), 1.0) / PEOPLE[row["person"]].get(Kind(kind), 1.0) for kind in row["kinds"]]
    ended = np.cumsum([one * more for one, more in zip(row["seconds"], slower, strict=True)])
    within = int((ended <= seconds).sum())
    return row[measure][max(within, 1) - 1]


def table(options):
    """Every arm against pairs, and `auto` against each kind: mean standardised gain, wins / losses after Holm."""
    found = defaultdict(lambda: defaultdict(dict))
    for row in pq.read_table(options.file).to_pylist():
        found[row["arm"], row["person"] if row["arm"] == "auto" else ""][row["problem"]][row["seed"]] = row
    words = [f"{measure} {seconds:g} s" for measure in ("seen", "told") for seconds in LOOKS]
    print(f"| person | | {' | '.join(words)} |\n| --- | --- |" + " ---: |" * len(words))
    for person in PEOPLE:
        rivals = [(arm, "pair") for arm in ("again", "choice", "slider", "auto")]
        for ours, theirs in [*rivals, ("auto", "choice"), ("auto", "slider")]:
            a, b = (found[arm, person if arm == "auto" else ""] for arm in (ours, theirs))
            line = []
            for measure, seconds in product(("seen", "told"), LOOKS):
                gains = paired.gains(a, b, partial(at, measure=measure, person=person, seconds=seconds))
                wins, losses = paired.counts(gains)[1]
                line.append(f"{np.mean([one[0] for one in gains.values()]):+.2f} ({wins} / {losses})")
            print(f"| {person} | {ours} against {theirs} | {' | '.join(line)} |")
        rows = [row for of in found["auto", person].values() for row in of.values()]
        asked = Counter(kind for row in rows for kind in row["kinds"])
        shares = ", ".join(f"{kind} {count / sum(asked.values()):.0%}" for kind, count in asked.most_common())
        print(f"| {person} | `auto` asked | {shares} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_subparsers(required=True)
    one = parts.add_parser("run")
    one.add_argument("folder")
    one.add_argument("--set", type=int, default=41)
    one.add_argument("--arms", nargs="+", default=list(ARMS), choices=list(ARMS))
    one.add_argument("--seeds", type=int, default=20)
    one.add_argument("--workers", type=int, default=2)
    one.set_defaults(act=run)
    one = parts.add_parser("pack")
    one.add_argument("folder")
    one.add_argument("file")
    one.set_defaults(act=pack)
    one = parts.add_parser("table")
    one.add_argument("file")
    one.set_defaults(act=table)
    options = parser.parse_args()
    options.act(options)

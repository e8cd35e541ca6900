"""Taste learnt on outcomes against taste learnt on parameters, and against BoTorch's BOPE. (docs/results/outcomes.md)

python -m benchmarks.outcomes run FOLDER [--only eight,plain,noise] [--seeds 60] [--workers 2] [--seconds 3600]
python -m benchmarks.outcomes pack FOLDER … --out docs/results/outcomes/runs.parquet
python -m benchmarks.outcomes table FILE …          every problem, by the last file that has it: gains, what is sure
python -m benchmarks.outcomes turn                  seconds of a turn with and without outcomes; into the summary
python -m benchmarks.outcomes summary FILE …        benchmarks/outcomes.json
python -m benchmarks.outcomes noise FILE …          what noise costs there, of these runs in the place of the summary's
python -m benchmarks.outcomes starts FILE …         every candidate of the third round against five first pairs

`run` goes on where it stopped: every finished block is in the folder.
"""

import argparse
import json
import math
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

import kappasharp as ks
from benchmarks import collecting, paired
from kappasharp.lab import experiment, grid, schedule
from kappasharp.lab.analysis.statistics import holm
from kappasharp.lab.run import OK, play
from kappasharp.lab.schedule import Limit, Workload
from kappasharp.lab.store import Store

EXPERIMENTS = Path("experiments/outcomes")
PLAIN, OURS, BOPE = (("baseline", "modern"), ("outcomes", "modern"), ("botorch_bope", "modern"))
# The eight of the bar.
EIGHT = (
    "dtlz2-8d-warped", "dtlz2-16d-warped", "dtlz2-20d-warped", "vehicle-5d-warped", "carcab-7d-warped", "osy-6d",
    "pid-3d", "plasma-16d",
)  # fmt: skip
QUESTIONS, FIRST = 40, 5
# Where a turn is timed: outcomes that cost nothing, few and many of them; and a simulator, which takes its own time.
TIMED, BESIDE, TIMED_FROM = ("vehicle-5d-warped", "carcab-7d-warped", "dtlz2-20d-warped"), ("pid-3d",), 15
FILE = Path(__file__).with_suffix(".json")


def plan(name, folder, seeds):
    """What is missing of an experiment, of its first so many seeds."""
    path = EXPERIMENTS / f"{name}.toml"
    wanted = experiment.read(path)
    wanted = replace(wanted, seeds=wanted.seeds[: seeds or len(wanted.seeds)])
    blocks = grid.blocks(wanted)
    store = Store(folder).open()
    store.remember(name, path.read_text("utf-8"))
    return Workload(wanted.name, store, blocks, grid.missing(blocks, store.done()))


def run(options):
    """What is missing, within the seconds."""
    begin, folder = time.monotonic(), Path(options.sources[0])
    engine = schedule.engine("processes" if options.workers != 1 else "serial", options.device, options.workers)
    for name in options.only.split(","):
        todo = plan(name, folder, options.seeds)
        print(f"{name}: {todo.n_runs} runs, {todo.n_left} to do", flush=True)
        done, steps = 0, schedule.run_missing(todo, engine, Limit(options.batch))
        for step in steps:
            done += step.runs
            spent = time.monotonic() - begin
            words = f" failed: {step.error}" if step.error else ""
            print(f"{name}: {done} of {todo.n_left}, {step.block.problem}, {spent:.0f} s{words}", flush=True)
            if options.seconds and spent > options.seconds:
                steps.close()
                print(f"stopped after {spent:.0f} s; the same command goes on", flush=True)
                return


def pack(options):
    """The runs of folders in one small file; what failed is said."""
    rows = [row for folder in options.sources for row in Store(Path(folder)).existing().read().to_pylist()]
    failed = [row for row in rows if row["status"] == "error"]
    for row in failed:
        print(f"left out: {row['problem']}, {row['method']}, seed {row['seed']}: {row['error']}")
    kept = {row["key"]: collecting.packed(row) for row in rows if row["status"] != "error"}
    collecting.write(pa.Table.from_pylist(list(kept.values()), collecting.SCHEMA), options.out)
    print(f"{len(kept)} runs in {options.out}, {len(failed)} left out")


def seen(questions=QUESTIONS):
    return lambda row: paired.at(row, "seen", questions)


def of(runs, problems):
    return {problem: runs[problem] for problem in problems if problem in runs}


def level_reached(ours, theirs):
    """By problem the first question at which our median is theirs at the last; one more than the last where never."""
    found = {}
    for problem, seeds in paired.shared(ours, theirs).items():
        goal = np.median([seen()(theirs[problem][s]) for s in seeds])
        course = np.median([ours[problem][s]["seen"] for s in seeds], 0)
        reached = np.flatnonzero(course >= goal)
        found[problem] = int(reached[0]) + 1 if len(reached) else len(course) + 1
    return found


def noise_costs(ours, theirs):
    """By problem the share of what parameters gain between the first questions and the last that we do not gain."""
    found = {}
    for problem, seeds in paired.shared(ours, theirs).items():
        if problem.endswith("-noise"):
            means = [
                [np.mean([seen(q)(rows[problem][s]) for s in seeds]) for q in (FIRST, QUESTIONS)]
                for rows in (theirs, ours)
            ]
            (start, end), (_, other) = means
            found[problem] = (end - other) / (end - start)
    return found


def latest(sources):
    """(method, preset) → problem → seed → row: of each problem, what the last file says that has it."""
    found = defaultdict(dict)
    for source in sources:
        for key, runs in paired.read([source]).items():
            found[key] |= runs
    return found


def table(options):
    """Every problem against parameters, then against BOPE."""
    found = latest(options.sources)
    ours = found[OURS]
    reached = level_reached(ours, found[PLAIN])
    for label, theirs in (("parameters", found[PLAIN]), ("BoTorch's BOPE", found[BOPE])):
        print(f"| against {label} | seeds | 10 | 20 | 40 | p at 40 | Holm | level at |\n| --- |" + " ---: |" * 7)
        parts = {q: paired.gains(ours, theirs, seen(q)) for q in (10, 20, QUESTIONS)}
        corrected = _holm(parts[QUESTIONS])
        for problem, (_, p, _) in parts[QUESTIONS].items():
            cells = [f"{part[problem][0]:+.2f}" if problem in part else "" for part in parts.values()]
            n = len(paired.shared(ours, theirs)[problem])
            where = reached.get(problem, "") if label == "parameters" else ""
            print(
                f"| {problem} | {n} | {' | '.join(cells)} | {p:.2g} | {corrected.get(problem, np.nan):.2g} | {where} |"
            )
    print("noise costs: " + ", ".join(f"{name} {cost:+.1%}" for name, cost in noise_costs(ours, found[PLAIN]).items()))


def _holm(found):
    """Adjusted p-values over the eight, which are the family."""
    family = [problem for problem in found if problem in EIGHT]
    return dict(zip(family, holm([found[problem][1] for problem in family]), strict=True))


def turn_seconds(problem, method, seed=0):
    """Seconds of every turn (question, answer) of one run, after its first ones."""
    made = {"problems": [problem], "initializations": ["from_zero"], "methods": [method], "presets": ["modern"]}
    (block,) = grid.blocks(experiment.parse("turn", made | {"seeds": [seed], "queries": QUESTIONS, "block_size": 1}))
    found, before = [], time.perf_counter()
    for _ in play([block]):
        now = time.perf_counter()
        found.append(now - before)
        before = now
    return found[TIMED_FROM - FIRST :]


def quick(design):
    """Three outcomes of six parameters, in no time."""
    x = list(design.values())
    return {"far": sum((v - 0.3) ** 2 for v in x), "wave": math.sin(3.0 * x[0]) * x[1], "gap": x[2] - x[3]}


def study_seconds(given, seed=0):
    """Seconds of every turn of a study, after its first ones: `ask`, the function in a worker, SQLite, `tell`."""
    study = ks.create_study({f"x{i}": (0.0, 1.0) for i in range(6)}, storage="sqlite://", seed=seed, outcomes=given)
    found = []
    for _ in range(QUESTIONS - FIRST):
        begin = time.perf_counter()
        pair = study.ask()
        better = sum(map(abs, quick(pair.a).values())) < sum(map(abs, quick(pair.b).values()))
        study.tell(pair, "a" if better else "b")
        found.append(time.perf_counter() - begin)
    return found[TIMED_FROM - FIRST :]


def turn(options):
    """The largest ratio over the problems, of median turns; runs take turns, so that both meet the same machine."""
    torch.set_num_threads(1)
    ratios, times = {}, {None: [], "benchmarks.outcomes:quick": []}
    for seed in range(options.seeds or 3):
        for given, seconds in times.items():
            seconds.extend(study_seconds(given, seed))
    plain, ours = (float(np.median(seconds)) for seconds in times.values())
    print(f"a study: {1e3 * plain:.0f} ms plain, {1e3 * ours:.0f} ms with outcomes", flush=True)
    note({"turn_ratio_in_a_study": round(ours / plain, 2)})
    for problem in (*TIMED, *BESIDE):
        times = {"baseline": [], "outcomes": []}
        for seed in range(options.seeds or 3):
            for method, seconds in times.items():
                seconds.extend(turn_seconds(problem, method, seed))
        plain, ours = (float(np.median(seconds)) for seconds in times.values())
        ratios[problem] = round(ours / plain, 2)
        print(f"{problem}: {1e3 * plain:.0f} ms plain, {1e3 * ours:.0f} ms with outcomes", flush=True)
    note({"turn_ratio": max(ratios[problem] for problem in TIMED), "turn_ratios": ratios})


def summary(options):
    """benchmarks/outcomes.json, from packed runs."""
    found = latest(options.sources)
    ours, theirs, bope = (found[name] for name in (OURS, PLAIN, BOPE))
    reached, costs = level_reached(ours, theirs), noise_costs(ours, theirs)
    eight = of(ours, EIGHT)
    values = {"level_reached": of(reached, EIGHT), "level_reached_elsewhere": {}}
    values["level_reached_elsewhere"] = {
        name: question for name, question in reached.items() if name not in EIGHT and name not in costs
    }
    values["reached_by_20"] = sum(question <= 20 for question in values["level_reached"].values())
    values["wins"], values["losses"] = paired.counts(paired.gains(eight, theirs, seen()))[1]
    against = paired.gains(eight, bope, seen())
    values["bope_wins"], values["bope_losses"] = paired.counts(against)[1]
    values["bope_seeds"] = {name: len(seeds) for name, seeds in paired.shared(eight, bope).items()}
    values["seeds"] = {name: len(seeds) for name, seeds in paired.shared(eight, theirs).items()}
    values["noise_cost"] = round(float(np.mean(list(costs.values()))), 4) if costs else None
    values["noise_costs"] = {name: round(float(cost), 4) for name, cost in costs.items()}
    values["noise_seeds"] = {name: len(paired.shared(ours, theirs)[name]) for name in costs}
    every = [row for runs in (ours, theirs) for rows in runs.values() for row in rows.values()]
    values["runs"], values["runs_not_ok"] = len(every), sum(row["status"] != OK for row in every)
    note(values)
    print(FILE.read_text())


def noise(options):
    """What noise costs in these runs, into the summary: where the others were not run again."""
    found = latest(options.sources)
    costs = noise_costs(found[OURS], found[PLAIN])
    seeds = {name: len(found[OURS][name]) for name in costs}
    rounded = {name: round(float(cost), 4) for name, cost in costs.items()}
    note({"noise_cost": round(float(np.mean(list(costs.values()))), 4), "noise_costs": rounded, "noise_seeds": seeds})
    print(rounded)


def starts(options):
    """Of every candidate the mean over problems of the standardised gain over five pairs, seen and told."""
    found = paired.read(options.sources)
    print("| against five first pairs | measure | 10 | 20 | 40 | mean |\n| --- | --- |" + " ---: |" * 4)
    for (_, preset), ours in sorted((key, rows) for key, rows in found.items() if key != OURS):
        for measure in ("seen", "told"):
            parts = [
                paired.gains(ours, found[OURS], lambda row, q=q: paired.at(row, measure, q))  # noqa: B023
                for q in (10, 20, QUESTIONS)
            ]
            means = [float(np.mean([one[0] for one in part.values()])) for part in parts]
            cells = " | ".join(f"{mean:+.2f}" for mean in [*means, np.mean(means)])
            print(f"| {preset} | {measure} | {cells} |")


def note(values):
    """Write these values beside those that are there."""
    before = json.loads(FILE.read_text()) if FILE.exists() else {}
    FILE.write_text(json.dumps(before | values, indent=2, sort_keys=True) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "pack", "table", "turn", "summary", "noise", "starts"])
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--only", default="eight,plain,noise")
    parser.add_argument("--out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.0)
    options = parser.parse_args()
    if options.verb != "turn" and not options.sources:
        parser.error(f"{options.verb} needs {'a folder' if options.verb in ('run', 'pack') else 'packed files'}.")
    if options.verb == "pack" and not options.out:
        parser.error("pack needs --out, the file to write.")
    verbs = (run, pack, table, turn, summary, noise, starts)
    {verb.__name__: verb for verb in verbs}[options.verb](options)


if __name__ == "__main__":
    main()

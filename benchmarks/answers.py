"""What an answer is worth: kinds of question against pairs, from the first question on. (docs/results/answers.md)

python -m benchmarks.answers run experiments/answers/eleven_paper.toml … --out FILE [--device cuda --workers 15]
python -m benchmarks.answers score FILE [--person human]  screening: every variant against its kind
python -m benchmarks.answers table FILE … [--person human] [--against slider] [--of drawn-8]
python -m benchmarks.answers summary FILE …             benchmarks/answers.json
python -m benchmarks.answers figure FILE … --out PNG

A packed run keeps the best utility seen and the one told after every question.
"""

import argparse
import importlib
import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.stats import ttest_ind

from benchmarks import collecting, paired
from benchmarks.collecting import SCHEMA, packed
from benchmarks.paired import at
from kappasharp.lab import experiment, grid

# BoTorch's runs from zero, which keep every fifth question. (benchmarks/from_zero.py)
BOTORCH, BOTORCH_EVERY = Path("docs/results/from-zero/botorch.parquet"), 5

PAIRS = "baseline"
KINDS = {
    "rating": "rating",
    "choice_4": "best of four",
    "order_4": "order of four",
    "slider": "straight slider",
    "slider_4": "slider through four",
}
# What the summary calls them: "slider" is what a study asks by that name.
CALLED = {"rating": "rating", "choice_4": "choice", "order_4": "order", "slider": "straight", "slider_4": "slider"}
# The fresh problems of each: a slider through four came later, and has another set.
FRESH, USUAL_FRESH = {"slider_4": "drawn-8"}, "drawn-7"
# Seconds of attention in units of a pair's: assumptions, not measurements.
PACES = {PAIRS: 1.0, "rating": 1.2, "choice_4": 1.5, "slider": 2.5, "order_4": 3.0, "slider_4": 3.75}
COUNTS = (10, 20, 30, 40)
COLOURS = {
    PAIRS: "#8a8a8a",
    "rating": "#b07aa1",
    "choice_4": "#e0a030",
    "order_4": "#3a9d6e",
    "slider": "#7fb8d0",
    "slider_4": "#0b6e99",
}


def run(options):
    """The experiments' runs, packed."""
    blocks = [block for name in options.sources for block in grid.blocks(experiment.read(Path(name)))]
    collecting.collect(blocks, options, packed, SCHEMA)


def read(sources, person="paper"):
    """(method, preset) → problem → seed → row, of one simulated person."""
    return paired.read(sources, lambda row, _: row["person"] == person)


def gains(ours, theirs, measure, questions, against=None):
    """Standardised paired gain, p and mean gain of every problem; `against` is the other's number of questions."""
    return paired.gains(
        ours, theirs, lambda row: at(row, measure, questions), lambda row: at(row, measure, against or questions)
    )


def counts(found):
    """Wins and losses after Holm's correction over the problems."""
    return paired.counts(found)[1]


def score(options):
    """Every variant against the kind that it varies, over the problems."""
    found = read(options.sources, options.person)
    numbers = [(measure, q) for measure in ("seen", "told") for q in (10, 20)]
    rows = []
    for (method, preset), runs in list(found.items()):
        kind = next((kind for kind in KINDS if method.startswith(kind)), PAIRS)
        parts = [gains(runs, found[kind, "modern"], *number) for number in numbers]
        if not all(parts) or (method, preset) == (kind, "modern"):
            parts = [gains(runs, found[PAIRS, "modern"], *number) for number in numbers]
            kind = PAIRS
        if not all(parts):
            # Nothing to compare with: the runs are of one kind alone.
            continue
        means = [np.mean([one[0] for one in part.values()]) for part in parts]
        each = [np.mean([part[p][0] for part in parts]) for p in parts[0] if all(p in part for part in parts)]
        rows.append((kind, method, preset, np.mean(means), np.std(each, ddof=1) / np.sqrt(len(each)), means))
    print("| variant | against | score | ± | seen 10 | seen 20 | told 10 | told 20 |")
    print("| --- | --- |" + " ---: |" * 6)
    for kind, method, preset, total, spread, means in sorted(rows, key=lambda row: (row[0], -row[3])):
        label = method if preset == "modern" else f"{method}, {preset}"
        print(f"| {label} | {kind} | {total:+.3f} | {spread:.3f} | {' | '.join(f'{m:+.2f}' for m in means)} |")


def level(ours, theirs, measure="seen", questions=40):
    """By problem the first question at which the mean is that of so many pairs, or the number of questions plus 1."""
    found = {}
    for problem, rows in ours.items():
        seeds = sorted(set(rows) & set(theirs.get(problem, {})))
        if not seeds:
            continue
        goal = np.mean([at(theirs[problem][s], measure, questions) for s in seeds])
        course = np.array([[np.nan if v is None else v for v in rows[s][measure]] for s in seeds]).mean(0)
        reached = np.flatnonzero(course >= goal)
        found[problem] = int(reached[0]) + 1 if len(reached) else len(course) + 1
    return found


def table(options):
    """Wins and losses against pairs, and the level of forty pairs."""
    found = read(options.sources, options.person)
    kept = {one: {p: rows for p, rows in every.items() if p.startswith(options.of)} for one, every in found.items()}
    pairs = kept.get((options.against, "modern"), {})
    if not pairs:
        raise SystemExit(
            f"There are no runs of {options.against} with {options.person} on {options.of or 'any'} problems."
        )
    print("| kind | 10 | 20 | 30 | 40 | told 10 | 20 | 40 | level of forty of these: median, worst |")
    print("| --- |" + " ---: |" * 8)
    for method, name in KINDS.items():
        runs = {} if method == options.against else kept.get((method, "modern"), {})
        numbers = [("seen", q) for q in COUNTS] + [("told", 10), ("told", 20), ("told", 40)]
        parts = [gains(runs, pairs, *number) for number in numbers]
        if not all(parts):
            continue
        cells = [f"{np.mean([g[0] for g in p.values()]):+.2f} ({'/'.join(map(str, counts(p)))})" for p in parts]
        reached = level(runs, pairs)
        words = f"{np.median(list(reached.values())):g}, {max(reached.values())}"
        print(f"| {name} | {' | '.join(cells)} | {words} |")
        if options.problems:
            for problem, question in sorted(reached.items()):
                print(f"  {problem:16} at {question:2}  " + "  ".join(f"{p[problem][0]:+.2f}" for p in parts))


def attention(runs, pairs, method, seconds=40.0):
    """A kind's gain over pairs at equal seconds of attention, wins, losses, and at which pace it breaks even."""
    part = gains(runs, pairs, "seen", int(seconds / PACES[method]), int(seconds))
    reached = level(runs, pairs, questions=int(seconds))
    return {
        "pace": PACES[method],
        "gain": round(float(np.mean([one[0] for one in part.values()])), 3),
        "wins_losses": counts(part),
        "breaks_even_at_pace": round(seconds / float(np.median(list(reached.values()))), 2),
    }


def against_botorch(ours, questions=15, theirs=40):
    """Kinds after so many questions against BoTorch's pairs after forty, other seeds: Welch's t, Holm over problems."""
    rows = defaultdict(list)
    for row in pq.read_table(BOTORCH).to_pylist():
        rows[row["problem"]].append(row["seen"][theirs // BOTORCH_EVERY - 1])
    found = {}
    for problem, known in sorted(rows.items()):
        mine = [at(row, "seen", questions) for row in ours.get(problem, {}).values()]
        if len(mine) > 2:
            test = ttest_ind(mine, known, equal_var=False)
            found[problem] = (float(test.statistic), float(test.pvalue), float(np.mean(mine) - np.mean(known)))
    return found


def compared(found, method, where):
    """A kind's runs and those of pairs, by problem: of the eleven, or of its fresh set."""
    prefix = FRESH.get(method, USUAL_FRESH)
    kept = [p for p in found[method, "modern"] if (p.startswith(prefix) if where == "fresh" else "drawn" not in p)]
    return [{p: found[name, "modern"].get(p, {}) for p in kept} for name in (method, PAIRS)]


def summary(options):
    """benchmarks/answers.json, from the packed runs."""
    found = read(options.sources)
    values = {"paces": {CALLED.get(method, method): pace for method, pace in PACES.items()}}
    for where in ("eleven", "fresh"):
        for method, kind in CALLED.items():
            runs, pairs = compared(found, method, where)
            values[f"{where}_problems"] = len(pairs)
            for questions in COUNTS:
                wins, losses = counts(gains(runs, pairs, "seen", questions))
                values |= {f"{where}_{kind}_wins_at_{questions}": wins, f"{where}_{kind}_losses_at_{questions}": losses}
            reached = level(runs, pairs)
            values.setdefault(f"{where}_level_reached", {})[kind] = float(np.median(list(reached.values())))
            values.setdefault(f"{where}_level_reached_worst", {})[kind] = max(reached.values())
            values.setdefault(f"{where}_per_attention", {})[kind] = attention(runs, pairs, method)
    for kind in CALLED.values():
        values[f"{kind}_wins"] = min(values[f"eleven_{kind}_wins_at_{q}"] for q in (10, 20))
        values[f"{kind}_losses"] = max(values[f"eleven_{kind}_losses_at_{q}"] for q in (10, 20))
    values["level_reached"], values["per_attention"] = values["eleven_level_reached"], values["eleven_per_attention"]
    for method, kind in CALLED.items():
        wins, losses = counts(against_botorch(found[method, "modern"]))
        values[f"{kind}_at_15_against_botorch_at_40"] = {"wins": wins, "losses": losses}
    path = Path(__file__).with_suffix(".json")
    path.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    print(path.read_text())


def figure(options):
    """What part of forty pairs' gain is there after so many questions, and after so many seconds: one glance."""
    plt = importlib.import_module("matplotlib.pyplot")  # a GPU machine may lack it
    found = read(options.sources)
    shown, grid_of = plt.subplots(2, 2, figsize=(11, 8), layout="constrained", sharey=True, sharex=True)
    for axes, where, words in zip(
        grid_of, ("fresh", "eleven"), ("generated problems", "problems of the paper"), strict=True
    ):
        for method in (PAIRS, *KINDS):
            problems = list(compared(found, method, where)[0])
            middle = np.median(np.array([_share(found, method, problem) for problem in problems]), 0)
            questions = np.arange(1, len(middle) + 1)
            label = "pairs" if method == PAIRS else KINDS[method]
            for axis, pace in zip(axes, (1.0, PACES[method]), strict=True):
                axis.plot(questions * pace, 100 * middle, color=COLOURS[method], label=label, linewidth=2)
        for axis in axes:
            axis.set(xlim=(0, 40), ylim=(0, 140))
            axis.axhline(100, color="#8a8a8a", linewidth=0.8, linestyle=":")
        axes[0].set_ylabel(f"{len(problems)} {words}\nof what forty pairs gain, %, median")
    grid_of[1][0].set_xlabel("questions answered")
    grid_of[1][1].set_xlabel("attention, in units of a pair's seconds (assumed paces)")
    grid_of[0][0].legend(frameon=False, loc="lower right")
    shown.suptitle("What an answer is worth: the best design seen, from the first question on")
    shown.savefig(options.out, dpi=110)


def _share(found, method, problem):
    """The course of one problem: 0 is pairs' mean after one question, 1 after forty."""
    pairs, rows = (found[name, "modern"][problem] for name in (PAIRS, method))
    seeds = sorted(set(pairs) & set(rows))
    low, high = (np.mean([at(pairs[s], "seen", q) for s in seeds]) for q in (1, 40))
    return (np.array([rows[s]["seen"] for s in seeds]).mean(0) - low) / (high - low)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "score", "table", "summary", "figure"])
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--out")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--person", default="paper")
    parser.add_argument("--problems", action="store_true")
    parser.add_argument("--against", default=PAIRS, choices=[PAIRS, *KINDS], help="table: what the others are against")
    parser.add_argument("--of", default="", help="table: problems that begin so, as drawn-8")
    options = parser.parse_args()
    {"run": run, "score": score, "table": table, "summary": summary, "figure": figure}[options.verb](options)


if __name__ == "__main__":
    main()

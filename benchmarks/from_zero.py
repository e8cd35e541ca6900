"""Runs from zero, and what they say.

python -m benchmarks.from_zero run EXPERIMENT.toml... --out OUT.parquet [--device cuda] [--workers 15] [--batch 1024]
python -m benchmarks.from_zero score OUT.parquet...          the candidates of a screening
python -m benchmarks.from_zero finalists | choice OUT.parquet...      of a screening, of the final choice
python -m benchmarks.from_zero table OUT.parquet... --ours METHOD PRESET      wins and losses against today's default
python -m benchmarks.from_zero sharpness | reliability | told | figure OUT.parquet...
python -m benchmarks.from_zero summary FOLDER      benchmarks/from_zero.json
python -m benchmarks.from_zero people      two hundred consistent people

`run` keeps of every run what the scores need: best seen and told after every fifth question, and the chances that the
model gave to the answers, so that reliability can be read off. Needs torch, NumPy, SciPy and PyArrow.
"""

import argparse
import importlib
import json
import random
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

import kappasharp as ks
from benchmarks import collecting, paired
from benchmarks.paired import counts
from kappasharp.lab import experiment, grid
from kappasharp.lab.analysis.statistics import holm
from kappasharp.lab.store import Store
from kappasharp.problems.registry import find_problem

EVERY = 5
TENTHS = 10
FINE = 10_000  # a chance is kept in whole steps of this size, answer by answer
DEFAULT = ("baseline", "modern_0_2")
FIVE = ("baseline", "near_30_five")
BOTORCH = ("botorch_0_18", "five_pairs")
FINALISTS = 6
EARLY = (("seen", 10), ("told", 10))
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
        "chance": np.round(chance * FINE).astype(int).tolist(),
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
    + [
        ("chance", pa.list_(pa.int16())),
        ("chances", pa.list_(pa.int8())),
        ("outputscale", pa.float32()),
        ("seconds", pa.float32()),
    ]
)


def run(options):
    """The experiments' runs, packed, each with the name of its experiment."""
    plans = [(Path(name).stem, grid.blocks(experiment.read(Path(name)))) for name in options.experiments]
    names = {key: name for name, blocks in plans for block in blocks for key in block.keys}
    blocks = [block for _, some in plans for block in some]
    collecting.collect(blocks, options, lambda row: packed(row) | {"experiment": names[row["key"]]}, SCHEMA)


def pack(options):
    """The runs of folders that `kappasharp run` made, packed."""
    rows = [
        packed(row) | {"experiment": Path(folder).name}
        for folder in options.sources
        for row in Store(Path(folder)).existing().read().to_pylist()
        if row["status"] != "error"
    ]
    collecting.write(pa.Table.from_pylist(rows, SCHEMA), options.ours[0])


def read(sources, only=None):
    """candidate → problem → seed → row; `only` names experiments, with commas between them, or a file without any."""
    named = None if only is None else only.split(",")
    return paired.read(
        sources, lambda row, source: named is None or (row.get("experiment") or Path(source).stem) in named
    )


def at(row, measure, questions):
    """The measure after so many questions; NaN where a run has none, as a peer tells no design."""
    values = row[measure][questions // EVERY - 1 :]
    return np.nan if not values or values[0] is None else values[0]


def gains(ours, theirs, measure, questions):
    """Standardised paired gain, p and mean gain of every problem."""
    return paired.gains(ours, theirs, lambda row: at(row, measure, questions))


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
        counted = " · ".join(f"{wins}/{losses}" for wins, losses in tests)
        label = name[1] if name[0] == "baseline" else " ".join(name)
        print(f"| {label} | {total:+.3f} | {spread:.3f} | {numbers} | {counted} |")


def finalists(options):
    """The best few of a screening by score whose mean gain at ten questions is not negative: one name a line."""
    found = read(options.sources, options.only)
    base, rows = found[options.baseline], []
    for name, runs in found.items():
        parts = [gains(runs, base, *number) for number in (*EARLY, *NUMBERS)]
        means = [np.mean([one[0] for one in part.values()]) if part else -np.inf for part in parts]
        if name[0] == "baseline" and name != options.baseline and np.mean(means[: len(EARLY)]) >= 0.0:
            rows.append((np.mean(means[len(EARLY) :]), name[1]))
    for total, name in sorted(rows, reverse=True)[:FINALISTS]:
        print(f"{total:+.3f} {name}")


def choice(options):
    """The winner among finalists, the best first: fewest losses, then most wins at 20 or 40, then the score."""
    found = read(options.sources, options.only)
    rows = []
    for name, runs in found.items():
        if name == options.baseline:
            continue
        parts = [gains(runs, found[options.baseline], *number) for number in NUMBERS]
        tests = [counts(part)[1] for part in parts]
        wins = max(won for (measure, _), (won, _) in zip(NUMBERS, tests, strict=True) if measure == "seen")
        total = np.mean([one[0] for part in parts for one in part.values()])
        rows.append((sum(lost for _, lost in tests), -wins, -total, name[1]))
    for losses, wins, total, name in sorted(rows):
        print(f"{losses} {-wins} {-total:+.3f} {name}")


def table(options):
    found = read(options.sources, options.only)
    for questions in (10, 20, 30, 40):
        for measure in ("seen", "told"):
            result = gains(found[options.ours], found[options.theirs], measure, questions)
            if not result:
                continue
            (wins, losses), (sure, bad) = counts(result)
            print(
                f"{measure} after {questions}: won and lost {wins}/{losses}, after Holm {sure}/{bad} of {len(result)}"
            )
            if options.problems:
                corrected = dict(zip(result, holm([one[1] for one in result.values()]), strict=True))
                for problem, (gain, p, mean) in sorted(result.items()):
                    print(f"  {problem:18} {gain:+.2f}  mean {mean:+.3f}  p {p:.2g}  Holm {corrected[problem]:.2g}")


def chances(rows):
    """The chances that the model gave to the answers that came, before they came."""
    return np.concatenate([row["chance"] for row in rows]) / FINE


def tenths(chance):
    """For each tenth from 0.5 up: what the model said on average, how often it came so, and of how many answers.

    A chance of 0.3 for an answer that came is one of 0.7 for an answer that did not; one of a half was half right.
    """
    said, came = np.maximum(chance, 1.0 - chance), np.where(chance == 0.5, 0.5, chance > 0.5)
    place = np.minimum(((said - 0.5) * TENTHS + 1e-9).astype(int), TENTHS // 2 - 1)
    n = np.bincount(place, minlength=TENTHS // 2)
    sums = [np.bincount(place, weights=values, minlength=TENTHS // 2) for values in (said, came)]
    return [
        (float(p), float(q), int(t)) for p, q, t in zip(*(part / np.maximum(n, 1) for part in sums), n, strict=True)
    ]


def sharper(chance):
    """As a study says it."""
    certainty = importlib.import_module("kappasharp.findings.best")  # a GPU machine may lack the database behind it
    return certainty.recalibrated(torch.from_numpy(chance)).numpy()


def worst(found):
    return max(abs(p - q) for p, q, t in found if t)


def reliability(options):
    """Of the answers to which the model gave a chance in each tenth, how many came so; raw, and as a study says it."""
    runs = read(options.sources, options.only)[FIVE]
    sets = {
        "development": lambda name: name.startswith("drawn-1"),
        "set 2": lambda name: name.startswith("drawn-2"),
        "the eleven": lambda name: not name.startswith("drawn"),
        "set 2 and the eleven": lambda name: not name.startswith("drawn-1"),
    }
    for label, belongs in sets.items():
        given = chances([row for name, rows in runs.items() if belongs(name) for row in rows.values()])
        for word, values in (("raw", given), ("recalibrated", sharper(given))):
            found = tenths(values)
            words = "  ".join(f"{p:.3f} → {q:.3f} ({t})" for p, q, t in found)
            print(f"{label:21} {word:13} {words}  worst {worst(found):.3f}")


def sharpness(options):
    """The c of Φ(c Φ⁻¹(p)) that makes the development set's answers likeliest."""
    runs = read(options.sources, "default_development")[FIVE]
    given = chances([row for rows in runs.values() for row in rows.values()])
    z = torch.special.ndtri(torch.from_numpy(given).clamp(1.0 / FINE, 1.0 - 1.0 / FINE))
    tried = torch.arange(1.0, 3.0, 0.005, dtype=torch.float64)
    likelihood = torch.stack([torch.special.log_ndtr(c * z).mean() for c in tried])
    print(f"c = {float(tried[likelihood.argmax()]):.3f} for {len(z)} answers")


def regret(rows, top, measure, questions):
    return np.mean([top - at(row, measure, questions) for row in rows.values()])


def told(options):
    """The regret of the design told over that of the best one seen, before and after settling."""
    runs = read(options.sources, options.only)[options.ours]
    for problem, rows in sorted(runs.items()):
        if problem.startswith("drawn"):
            continue  # not settled
        top = find_problem(problem).maximum.value
        ratios = [regret(rows, top, "told", q) / regret(rows, top, "seen", q) for q in (40, 45)]
        print(f"{problem:14} after 40 {ratios[0]:.2f}, after five duels {ratios[1]:.2f}  ({len(rows)} runs)")


def spaces():
    return (
        {"kp": (0.2, 3.0), "ki": ks.Float(1e-3, 2.0, log=True), "mode": ["soft", "hard"]},
        {f"x{i}": (0.0, 1.0) for i in range(4)},
        {f"x{i}": (0.0, 1.0) for i in range(6)},
        {f"x{i}": (0.0, 1.0) for i in range(6)} | {"n": ks.Int(1, 9), "c": ["a", "b", "c"]},
    )


def consistent(space, seed, preset, questions=20):
    """The largest fall of "beats …" between two answers of a consistent person, and whether the best had always won."""
    study = ks.create_study(space, storage="sqlite://", seed=seed, preset=preset)
    chance = random.Random(seed)
    favourite = study.space.encode(study.space.draw([chance.random() for _ in study.space.tuned]))
    weights = [chance.uniform(0.2, 1.0) for _ in favourite]

    def worth(design):
        return -sum(w * (x - y) ** 2 for w, x, y in zip(weights, study.space.encode(design), favourite, strict=True))

    fall, before, always = 0.0, None, True
    for _ in range(questions):
        pair = study.ask()
        study.tell(pair, "a" if worth(pair.a) > worth(pair.b) else "b")
        best = study.best
        fall = fall if before is None else max(fall, before - best.beats_random)
        before = best.beats_random
        always &= best.option in {one.ordered[0] for one in study.history.counted()}
    return fall, always


def people(options):
    """Two hundred consistent people: how often the model gives up between two answers."""
    torch.set_num_threads(1)
    each = options.count // len(spaces())
    found = []
    for number, space in enumerate(spaces()):
        for seed in range(each):
            found.append(consistent(space, seed, options.preset))
        falls = sum(fall > 0.2 for fall, _ in found)
        print(
            f"{number + 1} of {len(spaces())} spaces, {len(found)} people: {falls} falls of more than 20 points, "
            f"{sum(not always for _, always in found)} with a best that never won",
            flush=True,
        )
    note(
        {
            "collapse_rate": sum(fall > 0.2 for fall, _ in found) / len(found),
            "collapse_people": len(found),
            "best_never_won": sum(not always for _, always in found),
        }
    )


def figure(options):
    """Best seen (lines) and told (dashed) against questions, the paper's eleven: the default, what it was, BoTorch."""
    plt = importlib.import_module("matplotlib.pyplot")  # a GPU machine may lack it
    found = read(options.sources)
    lines = {
        DEFAULT: ("modern until 0.2", "#8a8a8a"),
        FIVE: ("modern", "#0b6e99"),
        BOTORCH: ("BoTorch 0.18.1", "#c8553d"),
    }
    problems = sorted(name for name in found[FIVE] if not name.startswith("drawn"))
    shown, axes = plt.subplots(3, 4, figsize=(13, 8.5), layout="constrained")
    for axis, problem in zip(axes.flat, problems, strict=False):
        there = [name for name in lines if found[name].get(problem)]
        seeds = sorted(set.intersection(*(set(found[name][problem]) for name in there)))
        for name in there:
            rows, (label, colour) = [found[name][problem][seed] for seed in seeds], lines[name]
            for measure, style in (("seen", "-"), ("told", "--")):
                questions = [q for q in range(EVERY, 41, EVERY) if not np.isnan(at(rows[0], measure, q))]
                means = [np.mean([at(row, measure, q) for row in rows]) for q in questions]
                if questions:
                    axis.plot(questions, means, style, color=colour, label=f"{label}, {measure}")
        without = "" if BOTORCH in there else ", BoTorch not run"
        axis.set_title(f"{problem}, {len(seeds)} seeds{without}", fontsize=10)
    axes.flat[0].set_ylabel("mean utility")
    axes.flat[-1].axis("off")
    named = {label: line for axis in axes.flat for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    axes.flat[-1].legend(named.values(), named.keys(), loc="center", frameon=False)
    shown.supxlabel("questions answered")
    shown.savefig(options.ours[0], dpi=110)


def note(values):
    """Write these values beside those that are in benchmarks/from_zero.json."""
    path = Path(__file__).with_suffix(".json")
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(before | values, indent=2, sort_keys=True) + "\n")


def won_and_lost(key, ours, theirs):
    """Wins and losses after Holm, best seen, at 20 and at 40 questions, and at the better of the two."""
    values = {}
    for questions in (20, 40):
        wins, losses = counts(gains(ours, theirs, "seen", questions))[1]
        values |= {f"{key}_wins_at_{questions}": wins, f"{key}_losses_at_{questions}": losses}
    best = max((20, 40), key=lambda q: (-values[f"{key}_losses_at_{q}"], values[f"{key}_wins_at_{q}"]))
    return values | {f"{key}_{word}": values[f"{key}_{word}_at_{best}"] for word in ("wins", "losses")}


def summary(options):
    """benchmarks/from_zero.json, from the packed runs in a folder: docs/results/from-zero."""
    folder = Path(options.sources[0])
    base = read([folder / "runs.parquet", folder / "five.parquet"])[DEFAULT]
    ours, botorch = read([folder / "default.parquet"])[FIVE], read([folder / "botorch.parquet"])[BOTORCH]
    fresh = read([folder / "second.parquet"], "second_fresh")
    eleven = {name: rows for name, rows in ours.items() if not name.startswith("drawn")}
    second = {name: rows for name, rows in ours.items() if name.startswith("drawn-2")}
    values = won_and_lost("fresh", fresh[FIVE], fresh[DEFAULT]) | won_and_lost("fresh_set_2", second, base)
    values |= won_and_lost("eleven", eleven, base) | won_and_lost("botorch", eleven, botorch)
    values["botorch_seeds"] = {name: len(rows) for name, rows in sorted(botorch.items())}
    values["told_over_seen"] = {
        name: round(float(regret(rows, top, "told", 45) / regret(rows, top, "seen", 45)), 3)
        for name, rows in sorted(eleven.items())
        if (top := find_problem(name).maximum.value) is not None
    }
    given = chances([row for part in (eleven, second) for rows in part.values() for row in rows.values()])
    for key, chance in (("_raw", given), ("", sharper(given))):
        found = tenths(chance)
        values["reliability" + key] = [[round(p, 3), round(q, 3), t] for p, q, t in found]
        values["reliability_worst" + key] = round(worst(found), 3)
    note(values)
    print(json.dumps(values, indent=2))


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
    three = verbs.add_parser("people")
    three.add_argument("--count", type=int, default=200)
    three.add_argument("--preset", default="modern")
    for verb in (
        "score",
        "table",
        "reliability",
        "told",
        "summary",
        "pack",
        "figure",
        "finalists",
        "choice",
        "sharpness",
    ):
        two = verbs.add_parser(verb)
        two.add_argument("sources", nargs="+")
        two.add_argument("--only", help="the runs of these experiments, with commas between their names")
        two.add_argument("--baseline", nargs=2, type=str, default=DEFAULT)
        two.add_argument("--ours", nargs=2, default=DEFAULT)
        two.add_argument("--theirs", nargs=2, default=DEFAULT)
        two.add_argument("--problems", action="store_true")
    options = parser.parse_args()
    for name in ("baseline", "ours", "theirs"):
        if hasattr(options, name):
            setattr(options, name, tuple(getattr(options, name)))
    verb = {
        "run": run, "score": score, "table": table, "reliability": reliability, "told": told, "people": people,
        "summary": summary, "pack": pack, "figure": figure, "finalists": finalists, "choice": choice,
        "sharpness": sharpness,
    }[options.verb]  # fmt: skip
    verb(options)


if __name__ == "__main__":
    sys.exit(main())

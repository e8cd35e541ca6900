"""BoTorch 0.6.0 with and without the correction: python -m benchmarks.botorch_0_6_runs --python ENV/bin/python.

Plays `benchmarks/botorch_0_6.py` (which says how to make ENV) by the lab's contract: the lab's problems, first answers
and simulated person, the same random numbers for every method. One run after another, seed by seed, each appended to
docs/results/botorch-0-6/runs.jsonl; what is there is not run again. `--table` writes the tables instead.
"""

import argparse
import json
import subprocess
import time
from itertools import product
from pathlib import Path
from statistics import mean, median

from benchmarks.botorch_0_6 import FALLBACKS, FIRST_STEP, METHODS, THRESHOLD
from kappasharp.lab import run as lab_run
from kappasharp.lab.analysis import results
from kappasharp.lab.analysis.statistics import Sample, compare, family, gain_percent
from kappasharp.lab.external import methods
from kappasharp.lab.external.contract import MethodError, OwnProcess
from kappasharp.lab.external.methods import Peer
from kappasharp.problems import simulated_voters
from kappasharp.problems.registry import find_problem

HERE = Path(__file__).parent
RUNS = HERE.parent / "docs/results/botorch-0-6/runs.jsonl"
PEER = Peer("botorch 0.6.0", "0.6.0", "PairwiseGP, fit_gpytorch_model, EUBO by optimize_acqf 4/32")
START, QUERIES = "pool_n6_k15", 50
# In this order: seed by seed, so that what is finished is paired; and two baselines, for what happens in them.
SEEDS = 20
PAIRED = [
    (fallback, "dtlz2-16d", seed, method) for seed in range(SEEDS) for fallback in FALLBACKS[:2] for method in METHODS
]
SINGLE = [("last", problem, 0, "baseline") for problem in ("levy-10d", "hartmann-6d")]
# The second round: what is left where every fit that raises is passed over, on the two problems of the largest gains.
AGAIN = [
    ("defaults", problem, seed, method)
    for seed in range(1, SEEDS)
    for problem in ("dtlz2-16d", "levy-10d")
    for method in METHODS
]
# The third: the other two ways to go on where a fit raises.
OTHERS = [
    (fallback, "dtlz2-16d", seed, method) for seed in range(6) for fallback in ("modes", "last") for method in METHODS
]
CELLS = list(dict.fromkeys(PAIRED[:6] + SINGLE + AGAIN + OTHERS))
TRACES = ("outputscale", "s_bar", "strength", "condition_before", "condition_after", "shift")
DIGITS = 4


def play(python, fallback, problem, seed, method):
    """The row of one run, with what happened in it."""
    words = (python, str(HERE / "botorch_0_6.py"), "--method", method, "--fallback", fallback)
    row = {"problem": problem, "seed": seed, "method": method, "fallback": fallback}
    who, begin = simulated_voters.person("paper"), time.perf_counter()
    with OwnProcess(words) as player:
        try:
            found = methods.run(PEER, player, find_problem(problem), START, seed=seed, queries=QUERIES, person=who)
            happened = player._say({"do": "counts"})
        except MethodError as error:
            return row | {"status": "error", "error": str(error)[:600], "seconds": time.perf_counter() - begin}
    traces = {name: [short(step.get(name)) for step in happened["traces"]] for name in TRACES}
    course = {name: [short(value) for value in found[name]] for name in ("best_utility", "told_utility")}
    end = {"final_best": found["best_utility"][-1], "seconds": round(found["seconds"], 1)}
    return row | {"status": "ok"} | end | {"counts": happened["counts"]} | course | {"traces": traces}


def short(value):
    """A number with as many digits as a page needs; None where there is none."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def stored():
    """Every run so far."""
    return [json.loads(line) for line in RUNS.read_text("utf-8").splitlines()] if RUNS.exists() else []


def run(options):
    """What is missing."""
    RUNS.parent.mkdir(exist_ok=True)
    about = {"commit": lab_run.machine("cpu")["commit"], "torch": version_of("torch", options.python)}
    for cell in CELLS:
        rows = {key(row): row for row in stored()}
        if cell in rows or time.time() > options.until:
            continue
        plain = rows.get((*cell[:3], "baseline"))
        row = twin(plain) if cell[3] == "adaptive" and never_opens(plain) else play(options.python, *cell)
        with RUNS.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row | about) + "\n")
        print(*cell, row["status"], row.get("final_best"), row["seconds"], flush=True)


def version_of(library, python):
    """A library's version in the environment that is played."""
    words = [python, "-c", f"import {library}; print({library}.__version__)"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def key(row):
    """Which run it is."""
    return row["fallback"], row["problem"], row["seed"], row["method"]


def never_opens(plain):
    """Whether the baseline's own scores would never have opened the gate: then adaptive is the same run."""
    scores = (plain or {}).get("traces", {}).get("s_bar", [])[FIRST_STEP - 1 :]
    return bool(scores) and all(score < THRESHOLD for score in scores)


def twin(plain):
    """The row of an adaptive run that is its baseline's."""
    return plain | {"method": "adaptive", "same_as": "baseline", "seconds": 0.0}


def table():
    """Gains, levels and counts in Markdown."""
    rows = [row for row in stored() if row["status"] == "ok"]
    print("| fit raises → | problem | method | pairs | baseline | method | gain, % (95 %) | p | Holm | paper, % |")
    print("|---" * 10 + "|")
    for fallback, method in product(FALLBACKS, METHODS[1:]):
        mine = [row for row in rows if row["fallback"] == fallback]
        pairs = {name: paired(mine, name, method) for name in sorted({row["problem"] for row in mine})}
        tests = {name: compare(*both) for name, both in pairs.items() if both[0].values}
        for problem, test in family(tests).members.items():
            before, after = (results.paper()["table1"][problem][one][0] for one in ("baseline", method))
            words = [fallback, problem, method, test.pairs]
            words += [f"{one.mean:.3f} ± {one.sd:.3f}" for one in (test.baseline, test.method)]
            words += [f"{test.gain_percent:+.1f} ({test.gain_low:+.1f} to {test.gain_high:+.1f})"]
            words += [f"{test.p:.3f}", f"{test.p_holm:.3f}", f"{gain_percent(before, after):+.1f}"]
            print("| " + " | ".join(map(str, words)) + " |")
    happenings([row for row in rows if "same_as" not in row])
    print("errors:", [(key(row), row["error"]) for row in stored() if row["status"] != "ok"])


def paired(rows, problem, method):
    """The final best utilities of the baseline and of a method by seed, where there are both."""
    found = {
        one: {row["seed"]: row["final_best"] for row in rows if (row["problem"], row["method"]) == (problem, one)}
        for one in ("baseline", method)
    }
    both = found["baseline"].keys() & found[method].keys()
    return [Sample({seed: values[seed] for seed in sorted(both)}, tuple(range(SEEDS))) for values in found.values()]


def happenings(rows):
    """How often what happened, by fallback, problem and method."""
    names = sorted({name for row in rows for name in row["counts"]})
    for cell in sorted({(row["fallback"], row["problem"], row["method"]) for row in rows}):
        mine = [row for row in rows if (row["fallback"], row["problem"], row["method"]) == cell]
        total = {name: sum(row["counts"].get(name, 0) for row in mine) for name in names}
        print("\n", *cell, f"{len(mine)} runs, {mean(row['seconds'] for row in mine):.0f} s each", total)
        for name in TRACES:
            values = [value for row in mine for value in row["traces"][name] if value is not None]
            if values:
                print("   ", name, f"median {median(values):.4g}, {min(values):.4g} to {max(values):.4g}")


def main():
    """Run or tabulate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default="python", help="the Python of the environment with BoTorch 0.6.0")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no run after so many minutes")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    options.until = time.time() + 60.0 * options.minutes
    table() if options.table else run(options)


if __name__ == "__main__":
    main()

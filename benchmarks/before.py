"""A study's turn in this tree against the same turn in another: what has become faster since a commit.

git worktree add ../then 6db4ed4
python -m benchmarks.before ../then [--repeats 3]

Both run in processes of their own, in turns, on one thread, through the same public calls: six floats in SQLite, a
person without noise. At 50 answers the mean of the 16 turns around them; at 500, a thousand uniform designs, of ten.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve()
ANSWERS, TURNS, LONG, LONG_TURNS = 50, 16, 500, 10
NAMES = [f"x{i}" for i in range(6)]


def worth(design):
    return -sum((design[name] - 0.4) ** 2 for name in NAMES)


def turn(study, pair):
    """Seconds of an answer and the next question, which is returned too."""
    better = "a" if worth(pair.a) > worth(pair.b) else "b"
    start = time.perf_counter()
    study.tell(pair, better)
    pair = study.ask()
    return time.perf_counter() - start, pair


def measured():
    """What the package on the path takes, as JSON."""
    import torch  # noqa: PLC0415

    import kappasharp as ks  # noqa: PLC0415

    torch.set_num_threads(1)
    space = dict.fromkeys(NAMES, (0.0, 1.0))
    with tempfile.TemporaryDirectory() as folder:
        study = ks.create_study(space, storage=f"sqlite:///{Path(folder) / 'short.db'}")
        pair, took = study.ask(), []
        for _ in range(ANSWERS + TURNS // 2):
            seconds, pair = turn(study, pair)
            took.append(seconds)
        short = statistics.mean(took[-TURNS:])
        study = ks.create_study(space, storage=f"sqlite:///{Path(folder) / 'long.db'}")
        chance = random.Random(0)
        for _ in range(LONG):
            two = [{name: chance.random() for name in NAMES} for _ in range(2)]
            study.add_comparison(*sorted(two, key=worth, reverse=True))
        pair, took = study.ask(), []
        for _ in range(LONG_TURNS):
            seconds, pair = turn(study, pair)
            took.append(seconds)
    print(json.dumps({ANSWERS: short, LONG: statistics.mean(took)}))


def of_tree(tree):
    """The same in another process, with the package of that tree."""
    paths = {"PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(HERE), "--measure"]
    return json.loads(subprocess.run(words, env=os.environ | paths, check=True, capture_output=True, text=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        return measured()
    if options.tree is None:
        parser.error("Name the folder of the other tree.")
    now, then = [], []
    for _ in range(options.repeats):
        now.append(of_tree(HERE.parents[1]))
        then.append(of_tree(options.tree.resolve()))
    for answers in map(str, (ANSWERS, LONG)):
        ours, theirs = (min(1e3 * one[answers] for one in found) for found in (now, then))
        print(f"{answers} answers: {ours:.0f} ms now, {theirs:.0f} ms then: {ours / theirs:.2f}")
    return None


if __name__ == "__main__":
    main()

"""The published leaderboard of the suite pbo-1. (docs/results/leaderboard.md)

python -m benchmarks.leaderboard            ranks what lies in docs/results/leaderboard: packed runs, folders of runs
python -m benchmarks.leaderboard --out DIR  the same elsewhere, for a look

Writes the page, its tables, the profiles' figures and benchmarks/leaderboard.json: who took part, and on how many tasks
our default is better and worse than each, after Holm.
"""

import argparse
import json
from pathlib import Path

from kappasharp.lab import leaderboard, report, standings, suite, tables
from kappasharp.lab.standings import RANKED, REFERENCE
from kappasharp.lab.statistics import Verdict
from kappasharp.lab.store import MARKER

HERE = Path(__file__).parent
RUNS = HERE.parent / "docs" / "results" / "leaderboard"
# `quick` has three seeds, which decide nothing.
SHOWN = ("whole", "core")


def sources():
    """Packed runs, and folders that `kappasharp run pbo-1 --out FOLDER` goes on with."""
    folders = sorted(path.parent for path in RUNS.glob(f"*/{MARKER}"))
    return [*sorted(RUNS.glob("*.parquet")), *folders]


def against(one):
    """By measure on how many tasks our default is better, worse and neither: an entrant's verdicts turned round."""
    found = {}
    for measure in RANKED:
        verdicts = [test.verdict_holm for test in one.tests[measure].members.values()]
        better, worse = verdicts.count(Verdict.LOSS), verdicts.count(Verdict.WIN)
        found[measure] = {"wins": better, "losses": worse, "neither": len(verdicts) - better - worse}
    return found


def standing(board):
    ranks = {one.method: {name: round(of[0], 2) for name, of in one.ranks.items()} for one in board.standings}
    return {
        "tasks": len(board.tasks), "seeds": len(board.seeds), "entrants": board.methods, "ranks": ranks,
        "failed": {one.method: one.failed for one in board.standings},
        "default_against": {one.method: against(one) for one in board.standings if one.method != REFERENCE},
        "runs_lacking": dict(board.lacking),
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RUNS)
    options = parser.parse_args()
    pbo = suite.find("pbo-1")
    runs = standings.read(sources(), pbo)
    found = [board for board in standings.boards(runs) if board.subject.scope in SHOWN]
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "index.html").write_text(leaderboard.page(runs, found), "utf-8")
    shown = [
        tables.markdown(table(board)) for board in found for table in (leaderboard.rank_table, leaderboard.task_table)
    ]
    words = [*shown, tables.markdown(leaderboard.made_by(runs)), *leaderboard.remarks(runs, found)]
    (options.out / "tables.md").write_text("# The leaderboard's tables\n\n" + "\n".join(words) + "\n", "utf-8")
    for board in found:
        name = f"profile_{board.subject.scope}_{board.subject.regime}.png"
        (options.out / name).write_bytes(report.saved(leaderboard.profile(board), "png"))
    values = {f"{board.subject.scope}_{board.subject.regime}": standing(board) for board in found}
    path = HERE / "leaderboard.json" if options.out == RUNS else options.out / "leaderboard.json"
    path.write_text(json.dumps({"suite": pbo.label, "default": REFERENCE} | values, indent=1) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()

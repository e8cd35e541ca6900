"""The published leaderboards of the suites. (docs/results/leaderboard.md, juries.md and kinds.md)

python -m benchmarks.leaderboard                    ranks what lies in docs/results/leaderboard, juries and kinds:
                                                    packed runs, and folders of runs
python -m benchmarks.leaderboard --out DIR          the same elsewhere, for a look
python -m benchmarks.leaderboard --pack DIR FILE    what a ranking needs of a folder of runs, as one Parquet file

Writes pages, their tables, the profiles' figures and benchmarks/leaderboard.json: who took part, and on how many tasks
our default is better and worse than each, after Holm.
"""

import argparse
import json
from pathlib import Path

from kappasharp.lab import suite
from kappasharp.lab.analysis import leaderboard, ranking, report, tables
from kappasharp.lab.analysis.ranking import KEPT, RANKED, REFERENCE
from kappasharp.lab.analysis.statistics import Verdict
from kappasharp.lab.store import MARKER, Store
from kappasharp.parquet import write_parquet

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results"
# Where the runs of a leaderboard lie, and the tables that are made of them; and whose tasks they ran.
SUITES = {"leaderboard": "pbo-1", "juries": "pbo-juries-1", "kinds": "pbo-1"}
# `quick` has three seeds, which decide nothing.
SHOWN = ("whole", "core")


def sources(folder):
    """Packed runs, and folders that `kappasharp run SUITE --out FOLDER` goes on with."""
    folders = sorted(path.parent for path in folder.glob(f"*/{MARKER}"))
    return [*sorted(folder.glob("*.parquet")), *folders]


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


def ranked(folder, out):
    """A folder's standings as plain data, with page, tables and figures beside its runs."""
    chosen = suite.find(SUITES[folder])
    runs = ranking.read(sources(RESULTS / folder), chosen)
    found = [board for board in ranking.boards(runs) if board.subject.scope in SHOWN]
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text(leaderboard.page(runs, found), "utf-8")
    shown = [
        tables.markdown(table(board)) for board in found for table in (leaderboard.rank_table, leaderboard.task_table)
    ]
    words = [*shown, tables.markdown(leaderboard.made_by(runs)), *leaderboard.remarks(runs, found)]
    (out / "tables.md").write_text("# The leaderboard's tables\n\n" + "\n".join(words) + "\n", "utf-8")
    for board in found:
        picture = f"profile_{board.subject.scope}_{board.subject.regime}.png"
        (out / picture).write_bytes(report.saved(leaderboard.profile(board), "png"))
    boards = {f"{board.subject.scope}_{board.subject.regime}": standing(board) for board in found}
    return {"suite": chosen.label, "default": REFERENCE} | boards


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--pack", type=Path, nargs=2, metavar=("DIR", "FILE"))
    options = parser.parse_args()
    if options.pack:
        write_parquet(Store(options.pack[0]).existing().read().select(KEPT), options.pack[1])
        return
    found = {folder: ranked(folder, options.out / folder) for folder in SUITES}
    path = HERE / "leaderboard.json" if options.out == RESULTS else options.out / "leaderboard.json"
    values = found.pop("leaderboard") | found
    path.write_text(json.dumps(values, indent=1) + "\n")
    print(path.read_text())


if __name__ == "__main__":
    main()

"""What is shown of stored runs: `report` an experiment, `leaderboard` a suite. Apart from `run`, which draws none."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kappasharp.app.cli.output import in_format, in_words, show, with_extra

if TYPE_CHECKING:
    from kappasharp.lab.standings import Board


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Where to write; by default FOLDER/report."
)
@in_format
def report(folder: Path, out: Path | None, style: str) -> None:
    """Write the tables and figures of a FOLDER of results: HTML, Markdown, LaTeX, SVG, PNG."""
    with with_extra("report", "lab"):
        from kappasharp.lab.report import write
        from kappasharp.lab.store import Store
    store = Store(folder)
    with in_words():
        written = write(store, out)
    for path in store.broken:
        click.echo(f"{path} could not be read; it was set aside, and its runs are missing from the report.", err=True)
    paths = [str(path) for path in written]
    show(style, {"files": paths}, paths)


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="DIR…", type=click.Path(path_type=Path))
@click.option("--suite", "name", default="pbo-1", show_default=True, help="Which suite's runs are ranked.")
@click.option("--against", help="The method that the others are tested against; by default baseline.")
@click.option(
    "--out", default="leaderboard", show_default=True, type=click.Path(path_type=Path, file_okay=False),
    help="Where the page, the tables, the standings and the runs go.",
)  # fmt: skip
@in_format
def leaderboard(sources: tuple[Path, ...], name: str, against: str | None, out: Path, style: str) -> None:
    """Rank the methods in folders of runs of a suite: one page, tables, data."""
    with with_extra("leaderboard", "lab"):
        from kappasharp.lab import leaderboard as ranking
        from kappasharp.lab import suite
    with in_words():
        written, boards = ranking.write(sources, suite.find(name), out, against)
    show(style, {"files": [str(path) for path in written]}, [*standings(boards), *map(str, written)])


def standings(boards: "list[Board]") -> list[str]:
    """Boards for the terminal, and what is to be said beside them."""
    from kappasharp.lab.leaderboard import remarks

    beside = remarks(boards[0].runs, boards) if boards else []
    return [*(line for board in boards for line in _lines(board)), *beside, *[""] * bool(beside)]


def _lines(board: "Board") -> list[str]:
    from kappasharp.lab.standings import verdicts

    tasks = "1 task" if len(board.tasks) == 1 else f"{len(board.tasks)} tasks"
    heads = [f"Ranks by the best design seen, {board.subject.words}: {tasks}, {len(board.seeds)} seeds"]
    for place, one in enumerate(board.standings, 1):
        mean, low, high = one.ranks["seen"]
        tests = "" if not one.tests else f"   W / L / N {verdicts(one.tests['seen'])} against {board.reference}"
        failed = f"   {one.failed} runs failed" if one.failed else ""
        heads.append(f"  {place}. {one.method:<24} {mean:.2f} ({low:.2f} to {high:.2f}){tests}{failed}")
    return [*heads, ""]

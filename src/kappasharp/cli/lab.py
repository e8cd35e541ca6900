"""The commands of the lab: `run`, `check-method`, and what is shown of stored runs, `report` and `leaderboard`."""

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kappasharp.cli.output import in_format, in_words, show, stoppable, with_extra

if TYPE_CHECKING:
    from kappasharp.lab.analysis.ranking import Board
    from kappasharp.lab.schedule import FinishedBlock, Limit, Workload

# A GPU is not busy with fewer.
GPU_BATCH = 4096


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path), metavar="EXPERIMENT|SUITE")
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder of results.")
@click.option("--engine", default="processes", show_default=True, help="serial, processes, or dask://host:port.")
@click.option("--workers", type=click.IntRange(1), help="Processes; by default one per core.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--batch", type=click.IntRange(1), help="Most runs in lockstep; by default a block's on cpu, 4096 on cuda."
)
@click.option("--memory", "size", help="Most memory of one worker, as 4GB: cuts batches that would need more.")
@click.option("--method", "methods", multiple=True, help="Of a suite: what to run, by name or as module:factory.")
@click.option("--method-command", "commands", multiple=True, help="Of a suite: NAME=COMMAND, a program to run.")
@click.option(
    "--core", is_flag=True, help="Of a suite: a few of its tasks with every seed, for a slow method to be ranked."
)
@click.option("--quick", is_flag=True, help="Of a suite: the same tasks with a few seeds, and the ranking of it.")
@in_format
def run(
    experiment: Path,
    out: Path,
    engine: str,
    workers: int | None,
    device: str,
    *,
    batch: int | None,
    size: str | None,
    methods: tuple[str, ...],
    commands: tuple[str, ...],
    core: bool,
    quick: bool,
    style: str,
) -> None:
    """Run what is missing of an EXPERIMENT (a TOML file), or of a SUITE. Stop it at any time; run it again to go on."""
    with with_extra("run", "lab"):
        from kappasharp.lab import schedule
    with in_words():
        chosen = schedule.engine(engine, device, workers)
        limit = _limit(device, batch, size)
        todo = _plan(experiment, out, methods, dict(map(_named_command, commands)), _extent(core=core, quick=quick))
        if not engine.startswith("dask"):  # whose workers may have what is missing here
            schedule.check_methods(todo)
    total = todo.n_runs
    for path in todo.store.broken:
        click.echo(f"{path} could not be read; it was set aside, and its runs are run again.", err=True)
    click.echo(f"{todo.name}: {total} runs, {total - todo.n_left} stored, {todo.n_left} to do.", err=True)
    if todo.n_failed:
        words = "of the stored runs failed, and count as failed; a changed source is run anew."
        click.echo(f"{todo.n_failed} {words}", err=True)
    begin, finished, failed = time.monotonic(), 0, []
    try:
        bar = click.progressbar(length=todo.n_left, label="runs", show_pos=True, file=sys.stderr)
        with stoppable(), bar, in_words():
            for step in schedule.run_missing(todo, chosen, limit):
                finished += step.runs
                failed += [step] if step.error else []
                bar.label = f"{finished / (time.monotonic() - begin):.1f} runs/s"
                bar.update(step.runs)
    except KeyboardInterrupt:
        click.echo(f"\nStopped. {finished} runs were stored; the same command goes on from there.", err=True)
        sys.exit(130)
    if quick:
        _rank(out, todo.name)
    _conclude(todo, finished, failed, style)


def _rank(out: Path, name: str) -> None:
    """The ranking of a quick run, on stderr; the files of a leaderboard beside the runs."""

    from kappasharp.lab import suite
    from kappasharp.lab.analysis import leaderboard as analysis_leaderboard

    with in_words():
        _, boards = analysis_leaderboard.write([out], suite.find(name), out / "leaderboard")
    for line in standings(boards):
        click.echo(line, err=True)


def _plan(
    experiment: Path, out: Path, methods: tuple[str, ...], commands: dict[str, str], extent: str | None
) -> "Workload":
    """What is missing of a file's experiment, or of a suite with these methods."""
    from kappasharp.errors import InvalidValueError
    from kappasharp.lab import schedule, suite

    if experiment.exists() or str(experiment) not in suite.SUITES:
        if not experiment.exists() and not experiment.suffix:
            raise InvalidValueError(
                f"No suite and no file is called '{experiment}'. Suites: {', '.join(suite.SUITES)}; a new one is added "
                "to `SUITES` in lab/suite.py."
            )
        if methods or commands or extent:
            raise InvalidValueError(
                f"`--method`, `--method-command`, `--core` and `--quick` are for a suite ({', '.join(suite.SUITES)}), "
                f"but got the experiment {experiment}, whose file names its methods."
            )
        return schedule.plan(experiment, out)
    if not methods and not commands:
        raise InvalidValueError(f"The suite {experiment} needs `--method` or `--method-command`: what to run on it.")
    found = suite.find(str(experiment))
    extent = extent or "whole"
    found.check(task.problem for task in found.scope(extent).tasks)
    return schedule.plan_all(found.name, found.experiments(methods, commands, extent=extent), out)


def _extent(*, core: bool, quick: bool) -> str | None:
    """How much of a suite; None where nothing is said."""
    from kappasharp.errors import InvalidValueError

    if core and quick:
        raise InvalidValueError("`--core` and `--quick` are two parts of a suite; choose one.")
    return "core" if core else "quick" if quick else None


NAMED = re.compile(r"([A-Za-z_][\w-]*)=(.+)")


def _named_command(text: str) -> tuple[str, str]:
    """A command's name and words."""
    from kappasharp.errors import InvalidValueError

    found = NAMED.fullmatch(text)
    if found is None:
        raise InvalidValueError(f'`--method-command` needs a name: write NAME=COMMAND, for example "mine={text}".')
    return found[1], found[2]


def _limit(device: str, runs: int | None, size: str | None) -> "Limit":
    from kappasharp.lab import schedule

    most = runs or (None if device == "cpu" else GPU_BATCH)
    return schedule.Limit(most, None if size is None else schedule.read_memory(size))


def _conclude(todo: "Workload", finished: int, failed: "list[FinishedBlock]", style: str) -> None:
    by_reason: dict[tuple[str, str | None], list[FinishedBlock]] = {}
    for step in failed:
        by_reason.setdefault((step.block.method, step.error), []).append(step)
    for (method, error), steps in by_reason.items():
        count, of = sum(step.failed for step in steps), sum(step.runs for step in steps)
        first = steps[0].block
        where = f"{first.problem}, {first.initialization}, {first.preset}"
        click.echo(f"Failed: {count} of {of} runs of {method}, the first on {where}: {error}", err=True)
    elsewhere = todo.n_left - finished
    if elsewhere:
        click.echo(f"{elsewhere} runs were taken by another runner.", err=True)
    added = finished - sum(step.failed for step in failed)
    data = {"experiment": todo.name, "folder": str(todo.store.folder), "runs": todo.n_runs, "added": added}
    show(style, data, [f"{added} runs were added to {todo.store.folder}."])
    if failed:
        sys.exit(1)


@click.command("check-method")
@click.argument("factory", required=False, metavar="[MODULE:FACTORY]")
@click.option("--method-command", "command", help="A program that speaks the contract, in place of a factory.")
@click.option("--seconds", default=600.0, show_default=True, help="How long one reply may take.")
@click.option("--questions", default=4, show_default=True, type=click.IntRange(1), help="How many are asked in a run.")
@in_format
def check_method(factory: str | None, command: str | None, seconds: float, questions: int, style: str) -> None:
    """Say whether a method of your own can be run: every rule, kept or broken."""
    with with_extra("check-method", "lab"):
        from kappasharp.errors import InvalidValueError
        from kappasharp.lab.external import contract, methods
    with in_words():
        if (factory is None) == (command is None):
            raise InvalidValueError(
                "`check-method` needs a method: either MODULE:FACTORY or --method-command, not both."
            )
        # As `run` takes it, with its name, or without.
        command = command if command is None or NAMED.fullmatch(command) is None else _named_command(command)[1]
        peer = methods.spoken(command) if command else methods.find(str(factory), methods.PEERS)
        found = list(contract.check(peer.words, seconds, questions))
    lines = [f"{'kept  ' if rule.broken is None else 'BROKEN'}  {rule.name}" for rule in found]
    lines += [f"        {rule.broken}" for rule in found if rule.broken]
    broken = any(rule.broken for rule in found)
    well = f"This method can be run: {questions} questions a run went well."
    lines.append("This method cannot be run yet." if broken else well)
    show(style, {"rules": [rule._asdict() for rule in found], "kept": not broken}, lines)
    if broken:
        sys.exit(1)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), help="Where to write; by default FOLDER/report."
)
@in_format
def report(folder: Path, out: Path | None, style: str) -> None:
    """Write the tables and figures of a FOLDER of results: HTML, Markdown, LaTeX, SVG, PNG."""
    with with_extra("report", "lab"):
        from kappasharp.lab.analysis.report import write
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
        from kappasharp.lab import suite
        from kappasharp.lab.analysis import leaderboard as analysis_leaderboard
    with in_words():
        written, boards = analysis_leaderboard.write(sources, suite.find(name), out, against)
    show(style, {"files": [str(path) for path in written]}, [*standings(boards), *map(str, written)])


def standings(boards: "list[Board]") -> list[str]:
    """Boards for the terminal, and what is to be said beside them."""
    from kappasharp.lab.analysis.leaderboard import remarks

    beside = remarks(boards[0].runs, boards) if boards else []
    return [*(line for board in boards for line in _lines(board)), *beside, *[""] * bool(beside)]


def _lines(board: "Board") -> list[str]:
    from kappasharp.lab.analysis.ranking import verdicts

    tasks = "1 task" if len(board.tasks) == 1 else f"{len(board.tasks)} tasks"
    heads = [f"Ranks by the best design seen, {board.subject.words}: {tasks}, {len(board.seeds)} seeds"]
    for place, one in enumerate(board.standings, 1):
        mean, low, high = one.ranks["seen"]
        tests = "" if not one.tests else f"   W / L / N {verdicts(one.tests['seen'])} against {board.reference}"
        failed = f"   {one.failed} runs failed" if one.failed else ""
        heads.append(f"  {place}. {one.method:<24} {mean:.2f} ({low:.2f} to {high:.2f}){tests}{failed}")
    return [*heads, ""]

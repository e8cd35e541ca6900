"""`kappasharp run`: what is missing of an experiment."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kappasharp.app.cli.output import in_format, in_words, show, stoppable, with_extra

if TYPE_CHECKING:
    from kappasharp.lab.execution import FinishedBlock, Limit, Workload

# A GPU is not busy with fewer.
GPU_BATCH = 4096


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path, file_okay=False), help="The folder of results.")
@click.option("--engine", default="processes", show_default=True, help="serial, processes, or dask://host:port.")
@click.option("--workers", type=click.IntRange(1), help="Processes; by default one per core.")
@click.option("--device", default="cpu", show_default=True, help="cpu or cuda.")
@click.option(
    "--batch", type=click.IntRange(1), help="Most runs in lockstep; by default a block's on cpu, 4096 on cuda."
)
@click.option("--memory", "size", help="Most memory of one worker, as 4GB: cuts batches that would need more.")
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
    style: str,
) -> None:
    """Run what is missing of an EXPERIMENT (a TOML file). Stop it at any time; run it again to go on."""
    with with_extra("run", "lab"):
        from kappasharp.lab import engines, execution
    with in_words():
        chosen = engines.engine(engine, device, workers)
        limit = _limit(device, batch, size)
        todo = execution.plan(experiment, out)
    total = todo.n_runs
    for path in todo.store.broken:
        click.echo(f"{path} could not be read; it was set aside, and its runs are run again.", err=True)
    click.echo(f"{todo.experiment.name}: {total} runs, {total - todo.n_left} stored, {todo.n_left} to do.", err=True)
    begin, finished, failed = time.monotonic(), 0, []
    try:
        bar = click.progressbar(length=todo.n_left, label="runs", show_pos=True, file=sys.stderr)
        with stoppable(), bar, in_words():
            for step in execution.run_missing(todo, chosen, limit):
                finished += step.runs
                failed += [step] if step.error else []
                bar.label = f"{finished / (time.monotonic() - begin):.1f} runs/s"
                bar.update(step.runs)
    except KeyboardInterrupt:
        click.echo(f"\nStopped. {finished} runs were stored; the same command goes on from there.", err=True)
        sys.exit(130)
    _conclude(todo, finished, failed, style)


def _limit(device: str, runs: int | None, size: str | None) -> "Limit":
    from kappasharp.lab import execution

    most = runs or (None if device == "cpu" else GPU_BATCH)
    return execution.Limit(most, None if size is None else execution.read_memory(size))


def _conclude(todo: "Workload", finished: int, failed: "list[FinishedBlock]", style: str) -> None:
    for step in failed:
        block = step.block
        where = f"{block.problem}, {block.initialization}, {block.method}, {block.preset}"
        click.echo(f"Not run: {where} ({step.runs} runs): {step.error}", err=True)
    elsewhere = todo.n_left - finished
    if elsewhere:
        click.echo(f"{elsewhere} runs are in another runner's hands.", err=True)
    added = finished - sum(step.runs for step in failed)
    data = {"experiment": todo.experiment.name, "folder": str(todo.store.folder), "runs": todo.n_runs, "added": added}
    show(style, data, [f"{added} runs were added to {todo.store.folder}."])
    if failed:
        sys.exit(1)

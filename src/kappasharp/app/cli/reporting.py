"""`kappasharp report`: the tables and figures of an experiment. Apart from `run`, which needs no library that draws."""

from pathlib import Path

import click

from kappasharp.app.cli.output import in_format, in_words, show, with_extra


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

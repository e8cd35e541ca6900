"""One page about a folder of results: tables and figures, what is missing, what made the numbers.

Written as a self-contained HTML page, the tables again as Markdown and LaTeX, and every run's outcome.
"""

import base64
import html
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import pyarrow as pa
from matplotlib.figure import Figure

from kappasharp.files import write_text
from kappasharp.lab import experiment, grid
from kappasharp.lab.analysis import correction_figures, figures, results, tables
from kappasharp.lab.analysis.results import Results
from kappasharp.lab.analysis.tables import Table
from kappasharp.lab.external.methods import Peer
from kappasharp.lab.store import NUMBERS, TEXTS, WHOLES, Store, StoreError
from kappasharp.parquet import write_parquet

MOST_LISTED = 12
KINDS = ("png", "svg")
# What the report keeps of every run beside its tables and pictures: all but the traces.
SUMMARY = (*TEXTS, *WHOLES, *NUMBERS)
STYLE = """
:root { color-scheme: light dark; --ink: #1f2933; --paper: #ffffff; --line: #d5dbe1; --win: #0b6b4f; --loss: #b3243b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --paper: #16191d; --line: #3e4c59; --win: #4fd1a5; --loss: #ff8fa3; }
  img { background: #ffffff; border-radius: 4px; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1180px;
       margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid var(--line); padding-top: 1rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: 3px 9px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; }
figcaption { font-weight: 600; margin-bottom: .4rem; } .note { font-size: 12.5px; opacity: .8; }
.win { color: var(--win); font-weight: 600; } .loss { color: var(--loss); font-weight: 600; }
.missing { border-left: 4px solid var(--loss); padding-left: .8rem; } code { font-size: 90%; }
"""


@dataclass(frozen=True)
class Picture:
    """A figure with its file's name and what it shows."""

    name: str
    caption: str
    draw: Callable[[], Figure]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """The figure, drawn once, as the bytes of a file of every kind."""
        figure = self.draw()
        return {kind: saved(figure, kind) for kind in KINDS}


@dataclass(frozen=True)
class Chapter:
    """What one experiment has to show."""

    results: Results
    tables: tuple[Table, ...]
    pictures: tuple[Picture, ...]


def write(results_in: Path | Store, out: Path | None = None) -> list[Path]:
    """The report of a folder of results, into its own `report` folder unless told otherwise.

    A store that is given notes what of it could not be read, as `Store.broken`.
    """
    store = (Store(results_in) if isinstance(results_in, Path) else results_in).existing()
    folder = store.folder
    paths = store.experiments()
    if not paths:
        raise StoreError(f"`{folder}` remembers no experiment; `kappasharp run EXPERIMENT --out {folder}` runs one.")
    chapters = [chapter(results.gather(experiment.read(path), store)) for path in paths]
    target = out or folder / "report"
    target.mkdir(parents=True, exist_ok=True)
    every = [table for part in chapters for table in part.tables]
    written = [target / name for name in ("index.html", "tables.md", "tables.tex")]
    hero = Picture("hero", "A comparison graph in two components, its Hessian H, and H + R", correction_figures.hero)
    write_text(written[0], page(hero, chapters, store.broken))
    write_text(written[1], "\n".join(tables.markdown(table) for table in every))
    write_text(written[2], "\n".join(tables.latex(table) for table in every))
    written.append(target / "runs.parquet")
    write_parquet(outcomes(store, chapters), written[-1])
    for picture in (hero, *(picture for part in chapters for picture in part.pictures)):
        for kind, content in picture.files.items():
            written.append(target / f"{picture.name}.{kind}")
            written[-1].write_bytes(content)
    return written


def outcomes(store: Store, chapters: list[Chapter]) -> pa.Table:
    """Every run that an experiment wants and that is stored, without its traces."""
    wanted = {cell.key for part in chapters for cell in grid.cells(part.results.experiment)}
    table = store.read(SUMMARY)
    return table.filter(pa.array([key in wanted for key in table["key"].to_pylist()], pa.bool_()))


def chapter(found: Results) -> Chapter:
    """The tables and pictures that suit an experiment: by what varies in it."""
    return Chapter(found, tuple(_tables(found)), tuple(_pictures(found)))


def _tables(found: Results) -> Iterator[Table]:
    plan = found.experiment
    for preset in plan.presets:
        for initialization in plan.initializations:
            if plan.block_size == 1:
                yield tables.time_table(found, preset, initialization)
            yield _gains(found, preset, initialization)
        if len(plan.initializations) > 1 and "adaptive" in plan.methods:
            yield tables.robustness_table(found, preset, "adaptive")


def _gains(found: Results, preset: str, initialization: str) -> Table:
    """The paper's Table 1 where its methods are there; gains alone otherwise."""
    if {"static", "adaptive", "connected"} <= set(found.experiment.methods):
        return tables.main_table(found, preset, initialization)
    return tables.gain_table(found, preset, initialization, found.experiment.title or found.experiment.name)


def _pictures(found: Results) -> Iterator[Picture]:
    plan = found.experiment
    methods = tuple(name for name in ("static", "adaptive") if name in plan.methods)
    if methods and len({preset.nugget for preset in plan.presets.values()}) > 1:
        nugget = partial(correction_figures.nugget, found, methods)
        yield Picture(f"{plan.name}_nugget", "Gain and strength against the nugget", nugget)
        return
    for preset in plan.presets:
        yield from _pictures_of(found, preset, methods)


def _pictures_of(found: Results, preset: str, methods: tuple[str, ...]) -> Iterator[Picture]:
    """The pictures of one preset; its name is in theirs where there are several."""
    plan = found.experiment
    name = plan.name if len(plan.presets) == 1 else f"{plan.name}_{preset}"
    if methods:
        forest = partial(figures.forest, found, preset, methods)
        yield Picture(f"{name}_forest", "Gain over the baseline, 95 % intervals", forest)
    if "adaptive" in plan.methods:
        yield Picture(
            f"{name}_activation", "Where the gate opened", partial(correction_figures.activation, found, preset)
        )
        if len(plan.initializations) > 1:
            yield Picture(f"{name}_heatmap", "Gain by initialization", partial(figures.heatmap, found, preset))
    if any(isinstance(values, Peer) for values in plan.methods.values()):
        yield Picture(f"{name}_peers", "Our baseline against others", partial(figures.against_peers, found, preset))
    yield Picture(f"{name}_convergence", "Best utility against questions", partial(figures.convergence, found, preset))


def saved(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of a file."""
    file = io.BytesIO()
    # Without a date: the same results give the same bytes.
    figure.savefig(file, format=kind, dpi=130, bbox_inches="tight", metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def page(hero: Picture, chapters: list[Chapter], broken: Sequence[Path] = ()) -> str:
    """The whole report as one HTML document that needs nothing else; it names the files that could not be read."""
    aside = "was damaged and set aside; `kappasharp run` runs its runs again."
    body = "".join(f"<p class=missing>{html.escape(f'{path.name} {aside}')}</p>" for path in broken)
    body += "".join(_section(part) for part in chapters)
    return document("kappasharp: results", f"<h1>Results</h1>{image(hero)}{body}")


def document(title: str, body: str) -> str:
    """A page with the report's style."""
    return (
        '<!doctype html><html lang=en><head><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )


def _section(part: Chapter) -> str:
    plan = part.results.experiment
    shown = "".join(tables.hypertext(table) for table in part.tables)
    images = "".join(image(picture) for picture in part.pictures)
    head = f"<h2>{html.escape(plan.title or plan.name)}</h2>{_state(part.results)}"
    return f'<section id="{html.escape(plan.name)}">{head}{shown}{images}{_origin(part.results)}</section>'


def summary(found: Results) -> list[str]:
    """What is there and what is not, in sentences."""
    plan = found.experiment
    there = plan.n_runs - len(found.missing) - len(found.failed)
    lines = [f"{there} of {plan.n_runs} runs ({plan.name}); {found.troubled} of them had steps without a certificate."]
    if found.missing:
        names = sorted({f"{c.problem}, {c.initialization}, {c.method}, {c.preset}" for c in found.missing})
        more = f", and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        lines.append(f"Missing: {len(found.missing)} runs of {'; '.join(names[:MOST_LISTED])}{more}.")
    if found.failed:
        words = sorted({f"{c.problem}, {c.method}, seed {c.seed}: {word}" for c, word in found.failed})
        more = f", and {len(words) - MOST_LISTED} more" if len(words) > MOST_LISTED else ""
        lines.append(f"Failed: {'; '.join(words[:MOST_LISTED])}{more}.")
    return lines


def _state(found: Results) -> str:
    kind = "missing" if found.missing or found.failed else "note"
    return "".join(f"<p class={kind}>{html.escape(line)}</p>" for line in summary(found))


def _origin(found: Results) -> str:
    parts = [
        f"{name}: " + ", ".join(f"{key} ({n})" for key, n in seen.items()) for name, seen in found.provenance().items()
    ]
    return f"<p class=note>Made by {html.escape('; '.join(parts))} (number of runs in brackets).</p>"


def image(picture: Picture) -> str:
    """A picture in the page itself, with its caption."""
    data = base64.b64encode(picture.files["png"]).decode()
    text = html.escape(picture.caption)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'

"""A study as one HTML page that needs nothing else: the best design, how sure, what the model believes, answers."""

from collections.abc import Sequence
from html import escape
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from kappasharp.app import charts, outcome_views
from kappasharp.app.charts import Curve, Edge, Node
from kappasharp.app.words import count, text
from kappasharp.errors import StorageError
from kappasharp.files import write_text
from kappasharp.methods.method import Kind
from kappasharp.study import certainty, history, kinds, learning
from kappasharp.study.certainty import Best, slices
from kappasharp.study.events import Asked, Queued
from kappasharp.study.history import Comparison, History
from kappasharp.study.study import Study

# The model is fitted again at this many points of the past, no more: certainty over time costs a fit each.
CHECKPOINTS = 16
ROWS = 500
# Pairs of outcomes that a report draws: all of four outcomes.
FRONTS = 6
TASTE = (
    "Utility above (up) or below the best design's if one outcome changed and everything else stayed; the band is one "
    "standard deviation, the ring is the best design."
)
NO_TASTE = "There is none to show: the model learns on the parameters alone."
FRONT = (
    "Each dot is a design whose outcomes are known. On the front, coloured and numbered: no other is as good in every "
    "outcome that has a direction and better in one. The large dot is the best design by the answers. What "
    "lies far out is drawn at the edge."
)
GRAPH = (
    "Higher: the model thinks it is liked more. Each line is an answer and points to the loser; a dashed one is a tie."
)


class Section(NamedTuple):
    """A heading and HTML under it."""

    title: str
    body: str


class Checkpoint(NamedTuple):
    """How sure the model was after a number of answers."""

    answers: int
    preferred: float
    room: float


def write_html(study: Study, path: Path, pictures: Sequence[Section] = ()) -> Path:
    """Write the report, all of it or nothing; `pictures` come right after the best design."""
    page = html(study, pictures)
    try:
        return write_text(path, page)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror or error}.") from error


def html(study: Study, pictures: Sequence[Section] = ()) -> str:
    """The report as text."""
    best = study.best
    sections = [
        Section("Best design so far", _best(best, _outcome_rows(study, best))),
        *pictures,
        *_outcomes(study),
        Section("How sure, answer by answer", _certainty(past(study))),
        Section("Along one parameter at a time", _slices(study, best)),
        Section("Which answers link what", _graph(study, best)),
        Section("What the answers determine", _list(str(study.diagnostics()).splitlines())),
        Section("Every answer", _answers(study)),
    ]
    body = "\n".join(f"<section><h2>{escape(one.title)}</h2>\n{one.body}\n</section>" for one in sections)
    sheets = [
        resources.files("kappasharp.app").joinpath(name).read_text("utf-8") for name in ("charts.css", "report.css")
    ]
    style = "".join(sheets)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(study.name)}</title><style>\n{style}</style></head>\n<body>"
        f"<header><h1>{escape(study.name)}</h1><p>{escape(_origin(study))}</p></header>\n{body}\n</body></html>\n"
    )


def _origin(study: Study) -> str:
    definition, told = study.definition, study.history
    preset = definition.preset_choice if isinstance(definition.preset_choice, str) else "its own"
    return (
        f"{count(len(told.counted()), 'answer')}, {told.number} events. "
        f"Method {definition.method_name}, preset {preset}, seed {definition.seed}; made {study.stored.created}; "
        f"kappasharp {version('kappasharp')}."
    )


def _best(best: Best, outcomes: str) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}</th><td>{escape(text(value))}</td></tr>"
        for name, value in best.params.items()
    )
    figures = (
        f"<div class='figure'><b>{best.beats_random:.0%}</b><span>of designs you would like less</span></div>"
        f"<div class='figure'><b>{best.room_left:.0%}</b><span>of the way up is left</span></div>"
    )
    certificate = (
        "" if best.status == "ok" else f"<p class='warn'>A solve lacks its certificate: {escape(best.status)}.</p>"
    )
    return (
        f"<div class='design'><table>{rows}</table>{outcomes}<div class='figures'>{figures}</div></div>"
        f"<p class='advice'>{escape(str(best.advice))}</p>{certificate}"
    )


def _outcome_rows(study: Study, best: Best) -> str:
    """The table of the best design's outcomes, or why there is none."""
    outcomes = study.definition.outcomes
    if outcomes is None:
        return ""
    if best.outcomes is None:
        known = study.history.outcomes(best.params)
        why = known.failure if known is not None and known.failure is not None else "they are not known."
        return f"<p class='warn'>Its outcomes: {escape(why)}</p>"
    within = outcome_views.ranges(study.history, outcomes.names)
    better = {one.name: f" ({outcome_views.WAYS[one.better]})" for one in outcomes.table if one.better is not None}
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}{better.get(name, '')}</th>"
        f"<td>{outcome_views.rounded(value, within.get(name))}</td></tr>"
        for name, value in best.outcomes.items()
    )
    return f"<table class='outcomes'>{rows}</table>"


def _outcomes(study: Study) -> list[Section]:
    """The taste along each outcome, and the front, of a study with outcomes."""
    if study.definition.outcomes is None:
        return []
    taste, rows, better = study.taste(), study.tradeoffs(), study.directions()
    pictures = "".join(charts.html(one) for one in charts.slices(taste)) if taste else ""
    along = f"<div class='slices'>{pictures}</div><p class='small'>{TASTE if taste else NO_TASTE}</p>"
    drawn = outcome_views.fronts(rows, study.definition.outcomes.table, better)
    fronts = "".join(charts.html(one) for one in drawn[:FRONTS])
    more = len(drawn) - FRONTS
    left_out = f" {count(more, 'other pair')} of outcomes can be seen on the page." if more > 0 else ""
    traded = f"{_list(outcome_views.trades(rows, better))}<div class='fronts'>{fronts}</div>"
    notes = _list(study.notes()) if study.notes() else ""
    return [
        Section("Taste along each outcome", along + notes),
        Section("What was traded for what", f"{traded}<p class='small'>{FRONT}{left_out}</p>"),
    ]


def past(study: Study) -> list[Checkpoint]:
    """The certainty at up to CHECKPOINTS points of the past, from the study's own events: each as it was then."""
    stored = study.storage.read(study.stored, 0, study.through)
    wanted = history.spread(len(study.history.counted()), CHECKPOINTS)
    # What was undone or amended counts as it reads now: the last event that left that number of answers.
    last, told = {}, History(study.stored.uid, space=study.space)
    for one in stored:
        told.apply(one)
        if not isinstance(one.event, Asked | Queued):
            last[len(told.counted())] = one.number
    chosen = {number for answers, number in last.items() if answers in wanted}
    told, found = History(study.stored.uid, space=study.space), []
    for one in stored:
        told.apply(one)
        if one.number in chosen:
            model = learning.learn(study.definition, told)
            sure = certainty.figures(study.definition, model, learning.favourite(model))
            found.append(Checkpoint(len(told.counted()), sure.preferred, sure.room))
    return sorted(found)


def _certainty(found: list[Checkpoint]) -> str:
    given = [
        Curve("beats a random design", "first", [(one.answers, one.preferred) for one in found]),
        Curve("room left", "second", [(one.answers, one.room) for one in found]),
    ]
    chart = charts.curves(given, charts.shares(), label="Certainty over the number of answers", across="answers")
    return f"{charts.html(chart)}<p class='small'>Both are the model's own estimates, each as it stood then.</p>"


def _slices(study: Study, best: Best) -> str:
    found = slices(study.definition, study.model(), best.params)
    pictures = "".join(charts.html(one) for one in charts.slices(found, study.space))
    return (
        f"<div class='slices'>{pictures}</div><p class='small'>Utility above (up) or below the best design's while one "
        "parameter moves and the others stay; the band is one standard deviation, the ring is the best design.</p>"
    )


def _graph(study: Study, best: Best) -> str:
    model = study.model()
    groups, utility = charts.group_numbers(certainty.groups(model)), model.surrogate.utility.tolist()
    nodes = [Node(option, utility[i], groups[i], option == best.option) for i, option in enumerate(model.options)]
    edges = [Edge(*said) for one in study.history.counted() for said in one.edges]
    chart = charts.graph(nodes, edges, label="The comparison graph: higher is liked more, a line for every answer")
    return f"{charts.html(chart)}<p class='small'>{GRAPH} {_group_words(max(groups) + 1)}</p>"


def _group_words(groups: int) -> str:
    if groups == 1:
        return "All designs are linked by answers, directly or through others."
    again = "" if groups <= charts.COLOURS else f" (which come again after {charts.COLOURS})"
    return (
        f"{groups} groups, told by colours{again}; answers link designs within a group, the model alone links groups."
    )


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _answers(study: Study) -> str:
    told = study.history
    rows = list(told.comparisons.values())[-ROWS:]
    plain = all(one.form.is_pair for one in rows)
    head = "<th>A</th><th>B</th>" if plain else "<th>asked</th><th>designs</th>"
    head = f"<tr><th>event</th><th>voter</th>{head}<th>answer</th></tr>"
    body = "".join(
        f"<tr><td>{one.event}</td><td>{escape(one.voter)}</td>{_about(told, one, plain=plain)}"
        f"<td>{escape(str(kinds.cell(one.answer)))}{' (amended)' if one.amended else ''}</td></tr>"
        for one in rows
    )
    more = len(told.comparisons) - len(rows)
    left_out = f"<p class='small'>{more} earlier answers are left out here; the export has them.</p>" if more else ""
    return f"<div class='scroll'><table class='answers'>{head}{body}</table></div>{left_out}"


def _about(told: History, one: Comparison, *, plain: bool) -> str:
    """The designs of an answer: A and B, or all of them as answers number them; of a slider the one chosen."""
    designs = [_design(told, option) for option in one.options]
    if plain:
        return "".join(f"<td>{design}</td>" for design in designs)
    numbered = designs if one.form.kind is Kind.SLIDER else [f"{i}: {design}" for i, design in enumerate(designs)]
    return f"<td>{one.form}</td><td>{'<br>'.join(numbered)}</td>"


def _design(told: History, option: int) -> str:
    values = ", ".join(f"{name} {text(value)}" for name, value in told.options[option].items())
    return f"<b>{option}</b> {escape(values)}"

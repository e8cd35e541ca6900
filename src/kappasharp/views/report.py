"""A study at one moment as one HTML page that needs nothing else: the best design, how sure, beliefs, answers."""

import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

from kappasharp.analysis import Moment
from kappasharp.engine import engine
from kappasharp.errors import InvalidValueError, StorageError
from kappasharp.files import write_text
from kappasharp.journal import voters
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.messages.message import count, text
from kappasharp.questions import kind
from kappasharp.questions.kind import Kind
from kappasharp.results import diagnosis
from kappasharp.results.best import Best, Checkpoint
from kappasharp.space.space import Design
from kappasharp.views import charts, team
from kappasharp.views import outcomes as views_outcomes
from kappasharp.views.charts import Edge, Node

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


# As many designs have a picture, the best first; so large may one be, and all of them together.
PICTURES, PICTURE_BYTES, ALL_BYTES = 24, 2 * 2**20, 8 * 2**20
NO_PAGES = "Its picture is a page of HTML, which may run code: a report shows none."
TOO_LARGE = "Its picture is too large for a report."


class Drawn(Protocol):
    """The picture of a design, as cards are: a kind, bytes of a type, or a sentence where there is none."""

    @property
    def kind(self) -> str:
        """Image, audio, video, html, none, failed."""

    @property
    def type(self) -> str:
        """As browsers name it."""

    @property
    def body(self) -> bytes:
        """What it holds."""

    @property
    def sentence(self) -> str:
        """Why there is none."""


class Section(NamedTuple):
    """A heading and HTML under it."""

    title: str
    body: str


def write_html(
    now: Moment, path: Path, sections: Sequence[Section] = (), pictures: Mapping[int, Drawn] | None = None
) -> Path:
    """Write the report, all of it or nothing; more sections come right after the best design."""
    page = html(now, sections, pictures)
    try:
        return write_text(path, page)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror or error}.") from error


def pictured(now: Moment) -> dict[int, Design]:
    """The designs whose pictures a report shows, by number: the best first."""
    model, best = now.of_all, now.best
    utility = dict(zip(model.options, model.utility, strict=True))
    ordered = sorted(model.options, key=lambda option: (option != best.option, -utility[option]))
    return {option: now.history.options[option] for option in ordered[:PICTURES]}


def html(now: Moment, sections: Sequence[Section] = (), pictures: Mapping[int, Drawn] | None = None) -> str:
    """The report as text; `pictures` are those of the designs that `pictured` names."""
    best = now.best
    chapters = [
        Section("Best design so far", _best(best, _outcome_rows(now, best))),
        *sections,
        *_team(now),
        *_pictures(now, pictures),
        *_outcomes(now),
        Section("Why is this the best?", _why(now, best)),
        Section("How sure, answer by answer", _certainty(past(now))),
        Section("Along one parameter at a time", _slices(now, best)),
        Section("Which answers link what", _graph(now, best)),
        Section("What the answers determine", _list(_determined(now))),
        Section("Every answer", _answers(now)),
    ]
    body = "\n".join(f"<section><h2>{escape(one.title)}</h2>\n{one.body}\n</section>" for one in chapters)
    sheets = [
        resources.files("kappasharp.views").joinpath(name).read_text("utf-8") for name in ("charts.css", "report.css")
    ]
    style = "".join(sheets)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(now.name)}</title><style>\n{style}</style></head>\n<body>"
        f"<header><h1>{escape(now.name)}</h1><p>{escape(_origin(now))}</p></header>\n<main>{body}</main>\n</body></html>\n"
    )


def _origin(now: Moment) -> str:
    definition, told = now.definition, now.history
    preset = definition.preset_choice if isinstance(definition.preset_choice, str) else "its own"
    last = max(told.answer_numbers().values(), default=0)
    return (
        f"Up to answer {last} (event {told.number}); answers that count: {len(told.counted())}. "
        f"Method {definition.method_name}, preset {preset}, seed {definition.seed}; made {now.stored.created}; "
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
    notes = "".join(f"<p>{escape(note)}</p>" for note in best.notes)
    return (
        f"<div class='design'><table>{rows}</table>{outcomes}<div class='figures'>{figures}</div></div>"
        f"<p class='advice'>{escape(str(best.advice))}</p>{notes}{certificate}"
    )


def _team(now: Moment) -> list[Section]:
    """What several voters have in common; nothing of one, and the reason where the study's method cannot tell."""
    if len(voters.answered(now.history)) == 1:
        return []
    try:
        body = team.html(now.agreement())
    except InvalidValueError as error:
        body = f"<p class='small'>{escape(str(error))}</p>"
    return [Section("What the voters have in common", body)]


def _pictures(now: Moment, pictures: Mapping[int, Drawn] | None) -> list[Section]:
    """The designs as people saw them, the best first; or how to get them into the report."""
    title, render = "The designs, the best first", now.definition.render
    if pictures is None:
        command = shlex.join(["kappasharp", "export", now.name, "report.html", "--render", render or ""])
        why = f"Pictures are drawn by {render}, which was not named for this report: `{command}` shows them."
        return [] if render is None else [Section(title, f"<p class='small'>{escape(why)}</p>")]
    held, tiles = 0, []
    for option, one in pictures.items():
        held += len(one.body)
        shown = _picture(one, f"Design {option}", left=ALL_BYTES - held)
        tiles.append(f"<figure class='picture'>{shown}<figcaption>Design <b>{option}</b></figcaption></figure>")
    left_out = len(now.alike.options) - len(pictures)
    more = f"<p class='small'>{count(left_out, 'other design')} can be seen on the page.</p>" if left_out > 0 else ""
    return [Section(title, f"<div class='pictures'>{''.join(tiles)}</div>{more}")] if tiles else []


def _picture(one: Drawn, name: str, *, left: int) -> str:
    """A picture in the page itself. As an image nothing in it runs."""
    words = {"html": NO_PAGES, "none": "It has no picture.", "failed": one.sentence}.get(one.kind)
    if words is None and (len(one.body) > PICTURE_BYTES or left < 0):
        words = TOO_LARGE
    if words is not None:
        return f"<p class='small'>{escape(words)}</p>"
    source = f"data:{one.type};base64,{b64encode(one.body).decode()}"
    if one.kind == "image":
        return f"<img src='{source}' alt='{name}'>"
    return f"<{one.kind} controls src='{source}' aria-label='{name}'></{one.kind}>"


def _outcome_rows(now: Moment, best: Best) -> str:
    """The table of the best design's outcomes, or why there is none."""
    outcomes = now.definition.outcomes
    if outcomes is None:
        return ""
    if best.outcomes is None:
        known = now.history.outcomes(best.params)
        why = known.failure if known is not None and known.failure is not None else "they are not known."
        return f"<p class='warn'>Its outcomes: {escape(why)}</p>"
    within = views_outcomes.ranges(now.history, outcomes.names)
    better = {one.name: f" ({views_outcomes.WAYS[one.better]})" for one in outcomes.table if one.better is not None}
    rows = "".join(
        f"<tr><th scope='row'>{escape(name)}{better.get(name, '')}</th>"
        f"<td>{views_outcomes.rounded(value, within.get(name))}</td></tr>"
        for name, value in best.outcomes.items()
    )
    return f"<table class='outcomes'>{rows}</table>"


def _outcomes(now: Moment) -> list[Section]:
    """The taste along each outcome, and the front, of a study with outcomes."""
    if now.definition.outcomes is None:
        return []
    taste, rows, better = now.taste(), now.tradeoffs(), now.directions()
    pictures = "".join(charts.html(one) for one in charts.slices(taste)) if taste else ""
    along = f"<div class='slices'>{pictures}</div><p class='small'>{TASTE if taste else NO_TASTE}</p>"
    drawn = views_outcomes.fronts(rows, now.definition.outcomes.table, better)
    fronts = "".join(charts.html(one) for one in drawn[:FRONTS])
    more = len(drawn) - FRONTS
    left_out = f" {count(more, 'other pair')} of outcomes can be seen on the page." if more > 0 else ""
    traded = f"{_list(views_outcomes.trades(rows, better))}<div class='fronts'>{fronts}</div>"
    notes = _list(now.notes()) if now.notes() else ""
    return [
        Section("Taste along each outcome", along + notes),
        Section("What was traded for what", f"{traded}<p class='small'>{FRONT}{left_out}</p>"),
    ]


def past(now: Moment) -> list[Checkpoint]:
    """The certainty at points of the past, from the study's own answers."""
    return engine().certainty_so_far(now.definition, now.history)


def _why(now: Moment, best: Best) -> str:
    lines = engine().reasons(now.definition, now.history, now.of_all, best.option)
    called = now.history.answer_numbers()
    rows = "".join(
        f"<tr><td>{called[one.event]}</td><td>{escape(one.voter)}</td>"
        + "".join(f"<td>{', '.join(map(str, others))}</td>" for others in (one.beat, one.lost_to, one.equalled))
        + "</tr>"
        for one in engine().meetings(now.history, best.option)[-ROWS:]
    )
    head = "<tr><th>answer</th><th>voter</th><th>won against</th><th>lost to</th><th>no difference from</th></tr>"
    table = f"<div class='scroll'><table class='answers'>{head}{rows}</table></div>" if rows else ""
    return f"{_list(lines)}{table}"


def _certainty(found: list[Checkpoint]) -> str:
    return f"{charts.html(charts.course(found))}<p class='small'>Both are what the model expected then.</p>"


def _slices(now: Moment, best: Best) -> str:
    found = engine().slices(now.definition, now.of_all, best.params)
    pictures = "".join(charts.html(one) for one in charts.slices(found, now.space))
    return (
        f"<div class='slices'>{pictures}</div><p class='small'>Utility above (up) or below the best design's while one "
        "parameter moves and the others stay; the band is one standard deviation, the ring is the best design.</p>"
    )


def _graph(now: Moment, best: Best) -> str:
    model = now.alike
    groups, utility = charts.group_numbers(engine().components(model)), model.utility
    nodes = [Node(option, utility[i], groups[i], option == best.option) for i, option in enumerate(model.options)]
    edges = [Edge(*said) for one in now.history.counted() for said in one.edges]
    chart = charts.graph(nodes, edges, label="The comparison graph: higher is liked more, a line for every answer")
    return f"{charts.html(chart)}<p class='small'>{GRAPH} {_group_words(max(groups) + 1)}</p>"


def _group_words(groups: int) -> str:
    if groups == 1:
        return "All designs are linked by answers, directly or through others."
    again = "" if groups <= charts.COLOURS else f" (which come again after {charts.COLOURS})"
    return (
        f"{groups} groups, told by colours{again}; answers link designs within a group, the model alone links groups."
    )


def _determined(now: Moment) -> Sequence[str]:
    return diagnosis.sentences(now.diagnostics(), now.history.answer_numbers())


def _list(lines: Sequence[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


def _answers(now: Moment) -> str:
    told = now.history
    rows, called = list(told.comparisons.values())[-ROWS:], told.answer_numbers()
    plain = all(one.form.is_pair for one in rows)
    head = "<th>A</th><th>B</th>" if plain else "<th>asked</th><th>designs</th>"
    head = f"<tr><th>answer</th><th>voter</th>{head}<th>said</th></tr>"
    body = "".join(
        f"<tr><td>{called[one.event]}</td><td>{escape(one.voter)}</td>{_about(told, one, plain=plain)}"
        f"<td>{escape(kind.in_words(one.form, one.answer))}{' (amended)' if one.amended else ''}</td></tr>"
        for one in rows
    )
    more = len(told.comparisons) - len(rows)
    left_out = f"<p class='small'>{more} earlier answers are left out here; the export has them.</p>" if more else ""
    return f"<div class='scroll'><table class='answers'>{head}{body}</table></div>{left_out}"


def _about(told: History, one: Comparison, *, plain: bool) -> str:
    """The designs of an answer, called as its words call them: A and B, or 1, 2, …; of a slider the one chosen."""
    designs = [_design(told, option) for option in one.options]
    if plain:
        return "".join(f"<td>{design}</td>" for design in designs)
    names = "AB" if one.form.kind in (Kind.PAIR, Kind.RATING) else "123456789"
    numbered = [f"{name}: {design}" for name, design in zip(names, designs, strict=False)]
    numbered = designs if one.form.kind is Kind.SLIDER else numbered
    return f"<td>{one.form}</td><td>{'<br>'.join(numbered)}</td>"


def _design(told: History, option: int) -> str:
    values = ", ".join(f"{name} {text(value)}" for name, value in told.options[option].items())
    return f"<b>{option}</b> {escape(values)}"

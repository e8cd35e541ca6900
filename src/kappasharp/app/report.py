"""A study as one HTML page that needs nothing else: the best design, how sure, what the model believes, answers."""

from collections.abc import Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from kappasharp.app import charts
from kappasharp.app.tables import count, text
from kappasharp.errors import StorageError
from kappasharp.study import certainty, questions
from kappasharp.study.certainty import Best, groups, slices
from kappasharp.study.events import Asked, Queued
from kappasharp.study.history import History, spread
from kappasharp.study.study import Study

# The model is fitted again at so many points of the past, no more: certainty over time costs a fit each.
CHECKPOINTS = 16
ROWS = 500


class Section(NamedTuple):
    """A heading and HTML under it."""

    title: str
    body: str


class Moment(NamedTuple):
    """How sure the model was after so many answers."""

    answers: int
    preferred: float
    room: float


def write_html(study: Study, path: Path, pictures: Sequence[Section] = ()) -> Path:
    """Write the report, all of it or nothing; `pictures` come right after the best design."""
    page, temporary = html(study, pictures), path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(page, "utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"{path} could not be written: {error.strerror or error}.") from error
    return path


def html(study: Study, pictures: Sequence[Section] = ()) -> str:
    """The report as text."""
    best = study.best
    sections = [
        Section("Best design so far", _best(best)),
        *pictures,
        Section("How sure, answer by answer", _certainty(past(study))),
        Section("Along one parameter at a time", _slices(study, best)),
        Section("Which answers link what", _graph(study, best)),
        Section("What the answers determine", _list(str(study.diagnostics()).splitlines())),
        Section("Every answer", _answers(study)),
    ]
    body = "\n".join(f"<section><h2>{escape(one.title)}</h2>\n{one.body}\n</section>" for one in sections)
    style = files("kappasharp.app").joinpath("report.css").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(study.name)}</title><style>\n{style}</style></head>\n<body>"
        f"<header><h1>{escape(study.name)}</h1><p>{escape(_origin(study))}</p></header>\n{body}\n</body></html>\n"
    )


def _origin(study: Study) -> str:
    definition, history = study.definition, study.history
    preset = definition.preset_choice if isinstance(definition.preset_choice, str) else "its own"
    return (
        f"{count(len(history.counted()), 'answer')}, {history.number} events. "
        f"Method {definition.method_name}, preset {preset}, seed {definition.seed}; made {study.record.created}; "
        f"kappasharp {version('kappasharp')}."
    )


def _best(best: Best) -> str:
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
        f"<div class='best'><table>{rows}</table><div class='figures'>{figures}</div></div>"
        f"<p class='advice'>{escape(str(best.advice))}</p>{certificate}"
    )


def past(study: Study) -> list[Moment]:
    """The certainty at up to CHECKPOINTS moments, from the study's own events: each as it was then."""
    stored = study.storage.read(study.record, 0, study.through)
    wanted = spread(len(study.history.counted()), CHECKPOINTS)
    # What was undone or amended counts as it reads now: the last event that left so many answers.
    last, history = {}, History(study.record.uid)
    for one in stored:
        history.apply(one)
        if not isinstance(one.event, Asked | Queued):
            last[len(history.counted())] = one.number
    chosen = {number for count, number in last.items() if count in wanted}
    history, moments = History(study.record.uid), []
    for one in stored:
        history.apply(one)
        if one.number in chosen:
            model = questions.learn(study.definition, history)
            found = certainty.figures(study.definition, model, int(model.surrogate.utility.argmax()))
            moments.append(Moment(len(history.counted()), found.preferred, found.room))
    return sorted(moments)


def _certainty(moments: list[Moment]) -> str:
    given = [
        charts.Curve("beats a random design", "first", [(float(m.answers), m.preferred) for m in moments]),
        charts.Curve("room left", "second", [(float(m.answers), m.room) for m in moments]),
    ]
    picture = charts.curves(given, label="Certainty over the number of answers", across="answers")
    return f"<figure>{picture}</figure><p class='small'>Both are the model's own estimates, each as it stood then.</p>"


def _slices(study: Study, best: Best) -> str:
    found = slices(study.definition, study.model(), best.params)
    pictures = "".join(f"<figure>{charts.slice_chart(one)}</figure>" for one in found)
    return (
        f"<div class='grid'>{pictures}</div><p class='small'>Utility above (up) or below the best design's while one "
        "parameter moves and the others stay; the band is one standard deviation, the ring is the best design.</p>"
    )


def _graph(study: Study, best: Best) -> str:
    model = study.model()
    label = groups(model)
    utility = model.surrogate.utility.tolist()
    order = {name: i for i, name in enumerate(dict.fromkeys(label))}
    nodes = [
        charts.Node(option, utility[i], order[label[i]], option == best.option)
        for i, option in enumerate(model.options)
    ]
    edges = [(*one.ordered, one.answer == "tie") for one in study.history.counted()]
    return f"<figure>{charts.graph(nodes, edges)}</figure><p class='small'>{_group_words(len(order))}</p>"


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
    history = study.history
    rows = list(history.comparisons.values())[-ROWS:]
    head = "<tr><th>event</th><th>voter</th><th>A</th><th>B</th><th>answer</th></tr>"
    body = "".join(
        f"<tr><td>{one.event}</td><td>{escape(one.voter)}</td><td>{_design(history, one.options[0])}</td>"
        f"<td>{_design(history, one.options[1])}</td><td>{one.answer}{' (amended)' if one.amended else ''}</td></tr>"
        for one in rows
    )
    more = len(history.comparisons) - len(rows)
    left_out = f"<p class='small'>{more} earlier answers are left out here; the export has them.</p>" if more else ""
    return f"<div class='scroll'><table class='answers'>{head}{body}</table></div>{left_out}"


def _design(history: History, option: int) -> str:
    values = ", ".join(f"{name} {text(value)}" for name, value in history.options[option].items())
    return f"<b>{option}</b> {escape(values)}"

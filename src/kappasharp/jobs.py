"""What the page's worker processes compute: the next pair for an answer, how things stand, and what each view shows.

Every job takes a study as it stands (its definition and its history) and gives plain data. It writes nothing, so that
the same events and seed give the same pair, whether it was computed before the answer or after it.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from kappasharp import rehearsal
from kappasharp.analysis import Moment
from kappasharp.engine import engine
from kappasharp.errors import InvalidValueError
from kappasharp.exchange import study_program
from kappasharp.findings import agreement, diagnosis, outcomes
from kappasharp.findings import best as findings_best
from kappasharp.journal import changes, voters
from kappasharp.journal.definition import Definition
from kappasharp.journal.events import Answered, Asked, Bounded, Stored
from kappasharp.journal.history import History
from kappasharp.messages.message import counted, said
from kappasharp.model import fit
from kappasharp.model import voters as model_voters
from kappasharp.model.fit import StudyModel
from kappasharp.native import launch
from kappasharp.planning import batch, next_question
from kappasharp.problems import simulated_voters
from kappasharp.questions.kind import Answer, Form
from kappasharp.results import best
from kappasharp.results import diagnosis as results_diagnosis
from kappasharp.results import outcomes as results_outcomes
from kappasharp.settings import Rule
from kappasharp.space.space import Design
from kappasharp.study.snapshot import Copied, Plain, Snapshot
from kappasharp.views import charts, report, team
from kappasharp.views import outcomes as views_outcomes
from kappasharp.views.charts import Curve, Edge, Node
from kappasharp.views.report import Drawn

MOST_REHEARSED = 60
# Files of a study by their address: the ending, and the table.
FILES = {
    "json": (".json", "comparisons"),
    "csv": (".csv", "comparisons"),
    "options": (".csv", "options"),
    "parquet": (".parquet", "comparisons"),
}
CONDITION = "The condition number of the Hessian over the number of answers, with and without the correction"
REHEARSED = "Share of designs that the best one beats, in truth and by the model, over the number of answers"


def ready() -> bool:
    """What a worker does first: the kernels may take some seconds, which nobody should have to wait for later."""
    launch.begin()
    return True


def next_pairs(at: Snapshot, voters: Sequence[str], form: Form | None = None) -> list[Asked]:
    """The questions to ask now of voters who wait together, each as if those before were open: one fit serves them.

    `form` is what they want to be asked, where that is not the study's usual.
    """
    definition, history = at.opened()
    model, found = None, []
    for voter in voters:
        if model is None and next_question.rests_on_model(definition, history, form):
            model = fit.learn(definition, history)
        asked = next_question.next_question(definition, history, model, form=form, leaving=voter)
        history.apply(Stored(history.number + 1, voter, "", asked))
        # Between two of these somebody may answer: no more is certain than that they rest on the events up to here.
        found.append(replace(asked, after=min(asked.after, at.number)))
    return found


def next_pair_after(at: Snapshot, voter: str, pair: int, answer: Answer) -> Asked:
    """The pair to ask once this answer is in."""
    definition, history = at.opened()
    history.apply(Stored(history.number + 1, voter, "", Answered(pair, answer)))
    return next_question.next_question(definition, history)


def standing(at: Snapshot) -> Plain:
    """The best design, how sure that is, and what surprised the model; after so many answers."""
    definition, history = at.opened()
    return _standing(definition, history, _model(definition, history))


def stock(at: Snapshot, count: int) -> tuple[list[Asked], Plain | None]:
    """So many pairs for whoever asks next, and how things stand: one fit serves all; what fails does so alone."""
    definition, history = at.opened()
    model = _model(definition, history)
    # Weights take a fit of their own, which nobody's question waits for.
    shown = None if model is None or voters.differ(history) else _standing(definition, history, model)
    chooses = len(history.counted()) >= definition.first_pairs
    return batch.pairs(definition, history, model if chooses else None, count), shown


def _standing(definition: Definition, history: History, model: StudyModel | None) -> Plain:
    return {
        "since": history.moved_at,
        "answers": len(history.counted()),
        "best": None if model is None else asdict(agreement.best(definition, history, model)),
        "surprises": [] if model is None else diagnosis.surprises(history, model),
    }


def _model(definition: Definition, history: History) -> StudyModel | None:
    return fit.learn(definition, history) if history.counted() else None


def team_view(at: Snapshot) -> Plain:
    """What several voters have in common, as far as the study's method can tell; how many answered what."""
    definition, history = at.opened()
    model = _model(definition, history)
    counts = {one.name: one._asdict() for one in agreement.counts(history, model)}
    shown = {
        "answers": len(history.counted()),
        "counts": counts,
        "couples": [one._asdict() for one in agreement.couples(history)],
        "refused": None,
        "found": None,
    }
    if model is None:
        return shown
    try:
        found = agreement.agreement(definition, history, model_voters.told_apart(history, model))
    except InvalidValueError as error:
        return shown | {"refused": error.sentence}
    return shown | {"found": team.plain(found)}


def best_view(at: Snapshot) -> Plain:
    """The best design and the slices through it."""
    definition, history = at.opened()
    model = _model(definition, history)
    if model is None:
        return {"since": history.moved_at, "best": None, "notes": [], "slices": [], "order": []}
    seen = model_voters.of_all(history, model)
    best = agreement.best(definition, history, model, seen)
    slices = findings_best.slices(definition, seen, best.params)
    found = charts.slices(slices, definition.space)
    # The parameters by how much the model thinks that they matter here.
    order = [one.name for one in sorted(slices, key=lambda one: min(one.mean) - max(one.mean))]
    shown = {"since": history.moved_at, "best": asdict(best), "notes": best.breaches}
    shown |= {"slices": [charts.plain(one) for one in found], "order": order}
    return shown | ({} if definition.outcomes is None else {"outcomes": _outcomes_of(definition, history, best)})


def why_view(at: Snapshot) -> Plain:
    """Why the best design is the best: what the answers say of it, and how the certainty went."""
    definition, history = at.opened()
    model = _model(definition, history)
    if model is None:
        return {"sentences": [], "meetings": [], "course": None}
    seen = model_voters.of_all(history, model)
    option, called = seen.options[fit.leading(seen)], history.answer_numbers()
    course = findings_best.course(definition, history)
    return {
        "sentences": findings_best.sentences(definition, history, seen, option),
        "meetings": [one._asdict() | {"number": called[one.event]} for one in findings_best.meetings(history, option)],
        "course": charts.plain(charts.course(course)) if len(course) > 1 else None,
    }


def _outcomes_of(definition: Definition, history: History, best: best.Best) -> Plain:
    """The outcomes of the best design, and how far each goes among all that are known."""
    assert definition.outcomes is not None
    within = views_outcomes.ranges(history, definition.outcomes.names)
    known = history.outcomes(best.params)
    failure = None if known is None else known.failure
    sentence = "" if best.outcomes else failure or said("outcome.unknown", "They are not known.")
    state = "known" if best.outcomes else "none" if failure is None else "failed"
    return views_outcomes.plain(state, best.outcomes or {}, sentence, within) | {"ranges": within}


def model_view(at: Snapshot) -> Plain:
    """The graph of answers, what they determine, and κ over time with and without the correction."""
    definition, history = at.opened()
    model = _model(definition, history)
    if model is None:
        return {"since": history.moved_at, "nodes": [], "edges": [], "moments": [], "noted": [], "sentences": []}
    past, noted = diagnosis.past_models(definition, history), diagnosis.noted(history)
    now = past[-1]
    heights = dict(zip(now.options, zip(now.utility, now.corrected_utility, strict=True), strict=True))
    group = charts.group_numbers(findings_best.groups(model))
    seen = model_voters.of_all(history, model)
    found = diagnosis.diagnose(definition, history, model, seen)
    nodes = [
        {"option": option, "group": group[i], "plain": heights[option][0], "corrected": heights[option][1]}
        for i, option in enumerate(model.options)
    ]
    edges = [
        {"event": one.event, "winner": said.better, "loser": said.other, "tie": said.tie}
        for one in history.counted()
        for said in one.edges
    ]
    best = seen.options[fit.favourite(seen)]
    return {
        "since": history.moved_at,
        "nodes": nodes,
        "edges": edges,
        "best": best,
        "graphs": {which: _graph(nodes, edges, best, which) for which in ("plain", "corrected")},
        "diagnosis": {name: _finite(value) for name, value in asdict(found).items()},
        "sentences": results_diagnosis.plain_sentences(found, history.answer_numbers()),
        "technical": results_diagnosis.technical_sentences(found),
        "moments": [_number_row(one) for one in past],
        "noted": [{name: _finite(value) for name, value in one._asdict().items()} for one in noted],
        "conditions": _conditions(past, noted),
        "has_correction": definition.method.gate.rule is not Rule.NEVER,
    }


def outcomes_view(at: Snapshot) -> Plain:
    """The taste along each outcome, the designs over every two of them with their front, and what was traded."""
    definition, history = at.opened()
    if definition.outcomes is None:
        raise InvalidValueError("This study has no outcomes.")
    model = _model(definition, history)
    seen = None if model is None else model_voters.of_all(history, model)
    rows = outcomes.tradeoffs(definition, history, seen)
    better = outcomes.directions(definition, history, model)
    within = views_outcomes.ranges(history, definition.outcomes.names)
    taste = [] if seen is None else outcomes.taste(definition, history, seen)
    drawn = definition.outcomes.names[: views_outcomes.MOST_DRAWN]
    return {
        "names": definition.outcomes.names,
        "drawn": [name for name in drawn if any(name in row.outcomes for row in rows)],
        "better": better,
        "taste": [charts.plain(one) for one in charts.slices(taste)] if taste else [],
        "fronts": [charts.plain(one) for one in views_outcomes.fronts(rows, definition.outcomes.table, better)],
        "trades": views_outcomes.trades(rows, better),
        "rows": [_row(one, within) for one in rows],
        "notes": diagnosis.notes(definition, history),
    }


def _row(one: results_outcomes.TradeOff, within: dict[str, views_outcomes.Range]) -> Plain:
    words = {name: views_outcomes.rounded(value, within.get(name)) for name, value in one.outcomes.items()}
    source = views_outcomes.SOURCES[one.source]
    return {"option": one.option, "outcomes": words, "source": source, "front": one.front, "best": one.best}


def _graph(nodes: list[Plain], edges: list[Plain], best: int, which: str) -> Plain:
    """The comparison graph by the utilities of that name."""
    graph = f"Comparison graph {'with' if which == 'corrected' else 'without'} the correction"
    words = "{designs} designs, {answers} answers; design {best} is the best"
    chart = charts.graph(
        [Node(one["option"], one[which], one["group"], one["option"] == best) for one in nodes],
        [Edge(one["winner"], one["loser"], one["tie"]) for one in edges],
        label=said(f"chart.graph.{which}", f"{graph}: {words}", designs=len(nodes), answers=len(edges), best=best),
    )
    return charts.plain(chart)


def _conditions(past: list[results_diagnosis.PastModel], noted: list[results_diagnosis.Noted]) -> Plain | None:
    """κ over the number of answers; None as long as that is no line."""
    given = [
        Curve(label, kind, [(one.answers, math.log10(value)) for one, value in rows if math.isfinite(value)])
        for label, kind, rows in (
            (said("chart.without", "without correction"), "first", [(one, one.condition) for one in past]),
            (said("chart.with", "with correction"), "second", [(one, one.corrected) for one in past]),
        )
    ]
    drawn = [curve for curve in given if len(curve.points) > 1]
    if not drawn:
        return None
    chart = charts.curves(
        drawn,
        charts.powers([y for curve in drawn for _, y in curve.points]),
        label=said("chart.condition", CONDITION),
        across=charts.ANSWERS,
        shaded={one.answers: _acted(one.answers) for one in noted if one.active},
    )
    return charts.plain(chart)


def _acted(answers: int) -> str:
    return counted("chart.acted", "acted after {count} answer", "acted after {count} answers", answers)


def changed(definition: Definition, change: str, name: Any, given: Mapping[str, Any]) -> Bounded:
    """The change of a parameter, if there is still something to ask about after it; or a sentence."""
    match change:
        case "narrow":
            found = changes.narrowed(definition, name, given["low"], given["high"], given["choices"])
        case "lock":
            found = changes.locked(definition, name, given["value"])
        case _:
            found = changes.widened(definition, name, given["low"], given["high"], given["choices"])
    if definition.limits:
        engine().check_change(changes.after(definition, found))
    return found


def pictured(of: Copied) -> dict[int, Design]:
    """The designs whose pictures a report shows, by number; none where there is nothing to report yet."""
    now = of.opened().moment()
    return report.pictured(now) if now.history.counted() else {}


def exported(of: Copied, kind: str, pictures: Mapping[int, Drawn] | None) -> bytes:
    """The study as a file of that kind; a report with these pictures."""
    study = of.opened()
    if kind == "html":
        return _report(study.moment(), pictures)
    if kind == "python":
        now = study.moment()
        return study_program.program(now.name, now.definition, now.history).encode()
    ending, table = FILES[kind]
    with tempfile.TemporaryDirectory() as folder:
        return study.export(Path(folder) / f"study{ending}", table=table).read_bytes()


def _report(now: Moment, pictures: Mapping[int, Drawn] | None) -> bytes:
    if not now.history.counted():
        raise InvalidValueError("A report needs an answer; there is none yet.")
    return report.html(now, pictures=pictures).encode()


def rehearsed(definition: Definition, person: str, questions: int) -> Plain:
    """How a simulated person fares with a study like this: in memory, the real one never hears of it."""
    if not 1 <= questions <= MOST_REHEARSED:
        raise InvalidValueError(f"`questions` must be from 1 to {MOST_REHEARSED}, but got {questions}.")
    rows = list(rehearsal.rehearse(definition, questions, simulated_voters.person(person), definition.seed))
    return {"rows": [row._asdict() for row in rows], "chart": _course(rows)}


def _course(rows: list[rehearsal.Rehearsed]) -> Plain | None:
    """How good the best design was, in truth and by the model; None as long as that is no line."""
    if len(rows) < 2:  # noqa: PLR2004
        return None
    given = [
        Curve(said("chart.truth", "in truth"), "second", [(row.answers, row.truly_preferred) for row in rows]),
        Curve(said("chart.model", "what the model says"), "first", [(row.answers, row.preferred) for row in rows]),
    ]
    chart = charts.curves(
        given,
        charts.shares(min(0.4, *(y for curve in given for _, y in curve.points))),
        label=said("chart.rehearsed", REHEARSED),
        across=charts.ANSWERS,
    )
    return charts.plain(chart)


def _number_row(one: results_diagnosis.PastModel) -> Plain:
    left_out = ("options", "utility", "corrected_utility")
    return {name: _finite(value) for name, value in one._asdict().items() if name not in left_out}


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""A study, its best design, in a notebook's HTML."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from kappasharp.journal.question import StudyQuestion
from kappasharp.messages.message import count, text
from kappasharp.questions.kind import Kind
from kappasharp.results.best import Best
from kappasharp.study.study import Study

# Nothing has a colour of its own but what the notebook's text has: it is read on light and on dark ground.
BOX = "color:inherit;background:transparent;font-size:13px;line-height:1.5;max-width:60em"
LINE = "1px solid color-mix(in srgb,currentColor 25%,transparent)"
TABLE = "font:inherit;color:inherit;border-collapse:collapse;margin:.4em 0;border:0"
CELL = "padding:2px 14px 2px 0;text-align:left;background:transparent;color:inherit;vertical-align:top"
FAINT = "opacity:.7"
TRACK = "display:inline-block;width:9em;height:.6em;border-radius:.3em;vertical-align:middle;margin-right:.6em"
ANSWERS = {
    "pair": 'study.tell(question, "a") says that A is better; or "b", "tie", "skip".',
    "choice": 'study.tell(question, 2) says that design 2 is the best; or another number, or "skip".',
    "order": "study.tell(question, [2, 0, 1]) puts design 2 first, then 0, then 1; equals stand in a list.",
    "slider": 'study.tell(question, 0.35) says where on the line it is best; or "skip".',
    "rating": "study.tell(question, 2) says that A is better, from 3, much, to -3, where B is much better.",
}


def study_html(study: Study) -> str:
    """How a study stands: how many answers of how many people, and its best design so far."""
    now = study.moment()
    history = now.history
    answers, voters = len(history.counted()), len({one.voter for one in history.comparisons.values()})
    head = f"<b>{escape(study.name)}</b> <span style='{FAINT}'>in {escape(study.storage.url)}</span>"
    facts = ", ".join(
        [
            count(len(now.space.tuned), "parameter"),
            count(answers, "answer") + ("" if voters < 2 else f" of {voters} people"),  # noqa: PLR2004
            f"asks {'what promises most' if now.definition.is_auto else now.definition.form.words}",
        ]
    )
    if answers:
        return _box(f"{head}<div>{escape(facts)}</div>{_best(now.best)}")
    hint = "study.ask() gives the first question, study.show() puts the page here."
    return _box(f"{head}<div>{escape(facts)}</div><div style='{FAINT}'>{escape(hint)}</div>")


def best_html(best: Best) -> str:
    """The best design, how sure that is, and what to do next."""
    return _box(_best(best))


def question_html(question: StudyQuestion) -> str:
    """The designs of a question side by side; parameters in which they differ come in bold."""
    last = len(question.designs) - 1
    names = list(map(str, range(last + 1))) if question.more else ["A", "B"]
    if question.kind == Kind.SLIDER.value:
        names = [f"at {number / last:.4g}" for number in range(last + 1)]
    rows = {
        name: [one[name] for one in question.designs]
        for name in sorted(question.a, key=lambda name: all(one[name] == question.a[name] for one in question.designs))
    }
    head = f"<b>{escape(question.kind.capitalize())} {question.number}</b> for {escape(question.voter)}"
    return _box(f"{head}{_table(rows, names)}<div style='{FAINT}'>{escape(ANSWERS[question.kind])}</div>")


def _best(best: Best) -> str:
    values: dict[str, Sequence[Any]] = {name: [value] for name, value in best.params.items()}
    values |= {f"→ {name}": [value] for name, value in (best.outcomes or {}).items()}
    certificate = "" if best.status == "ok" else f"<div>A solve lacks its certificate: {escape(best.status)}.</div>"
    notes = "".join(f"<div>{escape(note)}</div>" for note in best.notes)
    return (
        f"{_table(values, ['best design so far'])}"
        f"<div>{_bar(best.beats_random)}{best.beats_random:.0%} of designs you would like less</div>"
        f"<div>{_bar(best.room_left)}{best.room_left:.0%} of the way up is left</div>"
        f"{certificate}<div style='margin-top:.4em'>{escape(str(best.advice))}</div>{notes}"
    )


def _box(inner: str) -> str:
    return f"<div class='kappasharp' style='{BOX}'>{inner}</div>"


def _bar(share: float) -> str:
    part = f"linear-gradient(to right,currentColor {share:.1%},color-mix(in srgb,currentColor 18%,transparent) 0)"
    return f"<span style='{TRACK};background:{part}'></span>"


def _table(rows: Mapping[str, Sequence[Any]], names: Sequence[str]) -> str:
    """Rows of values under their names; one whose values differ is bold."""
    top = "".join(f"<th style='{CELL};border-bottom:{LINE}'>{escape(name)}</th>" for name in ("", *names))
    body = "".join(
        f"<tr style='background:transparent'><th style='{CELL};font-weight:normal;{FAINT}'>{escape(name)}</th>"
        + "".join(f"<td style='{CELL}{_weight(values)}'>{escape(text(value))}</td>" for value in values)
        + "</tr>"
        for name, values in rows.items()
    )
    return f"<table style='{TABLE}'><tr>{top}</tr>{body}</table>"


def _weight(values: Sequence[Any]) -> str:
    return ";font-weight:bold" if any(value != values[0] for value in values) else ""

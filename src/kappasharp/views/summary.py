"""How a study stands, as the small box of HTML that a notebook shows for it."""

from html import escape

from kappasharp.analysis import Moment
from kappasharp.markup import FAINT, box
from kappasharp.messages.message import count


def study_html(now: Moment, where: str) -> str:
    """How a study stands: how many answers of how many people, and its best design so far."""
    history = now.history
    answers, voters = len(history.counted()), len({one.voter for one in history.comparisons.values()})
    head = f"<b>{escape(now.name)}</b> <span style='{FAINT}'>in {escape(where)}</span>"
    facts = ", ".join(
        [
            count(len(now.space.tuned), "parameter"),
            count(answers, "answer") + ("" if voters < 2 else f" of {voters} people"),  # noqa: PLR2004
            f"asks {'what promises most' if now.definition.is_auto else now.definition.form.words}",
        ]
    )
    if answers:
        return box(f"{head}<div>{escape(facts)}</div>{now.best.markup()}")
    hint = "study.ask() gives the first question, study.show() puts the page here."
    return box(f"{head}<div>{escape(facts)}</div><div style='{FAINT}'>{escape(hint)}</div>")

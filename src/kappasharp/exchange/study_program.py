"""A study as a Python program that makes the same study of the same answers."""

from dataclasses import asdict
from typing import Any

from kappasharp.journal.definition import Definition
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.questions.kind import Answer, Kind
from kappasharp.space.space import Design


def program(name: str, definition: Definition, history: History) -> str:
    """A program that makes the same study of the same answers."""
    answers = history.counted()
    rows = "\n".join(f"    {_row(history, one)!r}," for one in answers)
    measured = "\n".join(
        f"    ({one.design!r}, {list(one.runs)!r})," for one in history.known.values() if one.source == "measured"
    )
    called = name.replace("\\", "/").replace('"', "'")
    return f'''"""The study {called}, made again from its {len(answers)} answers."""

import kappasharp as ks

space = {_literal(definition.space.definition())}
study = ks.create_study(
    space, storage="sqlite://", study_name={name!r}, {_options(definition)}
)
# Kind of question, its designs, the answer as `tell` takes it, who gave it.
answers = [
{rows}
]
for kind, designs, answer, voter in answers:
    study.enqueue(*designs, kind=kind)
    study.tell(study.ask(voter), answer)
{_changes(definition)}{_records(measured)}print(study.best if answers else study.ask())
'''


def _row(history: History, answer: Comparison) -> tuple[str, list[Design], Answer, str]:
    """An answer with what it was about; of a slider, that is its line."""
    if answer.pair is None or answer.kind != Kind.SLIDER.value:
        designs = [history.options[option] for option in answer.options]
    else:
        designs = history.asked[answer.pair][0].designs
    return answer.kind, designs, answer.answer, answer.voter


def _changes(definition: Definition) -> str:
    """What is open of each parameter, where that is not all."""
    calls = []
    for name, one in definition.space.bounds.items():
        given = one.plain()
        words = "lock" if "value" in given else "narrow"
        rest = (
            repr(given["value"]) if "value" in given else ", ".join(f"{key}={value!r}" for key, value in given.items())
        )
        calls.append(f"study.{words}({name!r}, {rest})\n")
    return "".join(calls)


def _records(measured: str) -> str:
    if not measured:
        return ""
    return f"""# Design, what was measured of it, run by run.
measured = [
{measured}
]
for design, runs in measured:
    for count, run in enumerate(runs):
        study.record(design, run, repeat=count > 0)
"""


def _options(definition: Definition) -> str:
    choice = definition.preset_choice
    beside = "".join(f", {name}=True" for name in ("use_seconds", "tell_apart") if getattr(definition, name))
    preset = repr(choice) if isinstance(choice, str) else f"ks.Preset(**{asdict(choice)!r})"
    return (
        f"seed={definition.seed}, method={definition.method_name!r}, preset={preset}, "
        f"first_pairs={definition.first_pairs}, question={definition.question!r}{beside}{_outcome_options(definition)}"
    )


def _outcome_options(definition: Definition) -> str:
    """What a study says of its outcomes and limits, as arguments; a function that has no name is left out."""
    limits = f",\n    limits={list(definition.limits)!r}" if definition.limits else ""
    outcomes = definition.outcomes
    if outcomes is None:
        return limits
    function = {} if outcomes.function is None else {"function": outcomes.function}
    return f",\n    outcomes={function | {one.name: one.plain() for one in outcomes.table}!r}{limits}"


def _literal(space: dict[str, Any]) -> str:
    lines = "\n".join(f"    {name!r}: {part!r}," for name, part in space.items())
    return f"{{\n{lines}\n}}"

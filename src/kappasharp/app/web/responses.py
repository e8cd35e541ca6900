"""A study as the page's plain data: its parameters, a pair, its history, and the Python that makes it again."""

import json
from dataclasses import asdict
from typing import Any

from kappasharp.app.web.jobs import Plain, Snapshot
from kappasharp.app.web.rendering import Card
from kappasharp.app.web.session import Desk
from kappasharp.study import diagnosis
from kappasharp.study.definition import Definition
from kappasharp.study.history import History, Pair
from kappasharp.study.study import Study


def study_data(study: Study, renderer: str | None) -> Plain:
    """What the page must know of a study before it shows anything."""
    definition = study.definition
    return {
        "id": study.record.uid,
        "name": study.name,
        "created": study.record.created,
        "method": definition.method_name,
        "preset": definition.preset_choice if isinstance(definition.preset_choice, str) else "its own",
        "seed": definition.seed,
        "first_pairs": definition.first_pairs,
        "parameters": [{"name": name} | part for name, part in definition.space.definition().items()],
        "has_pictures": renderer is not None,
    }


def card_data(card: Card, key: str) -> Plain:
    """A card without its bytes, and the key that they have in an address."""
    return {"kind": card.kind, "sentence": card.sentence, "key": key}


def pair_data(desk: Desk, pair: Pair) -> Plain:
    """A pair and how far its voter is. What the model expects is not in it: nobody should know before the vote."""
    history = desk.study.history
    numbers = history.numbers(pair)
    sides = {
        side: {"option": option, "params": design, "card": card_data(*desk.peek(design))}
        for side, option, design in zip("ab", numbers, (pair.a, pair.b), strict=True)
    }
    answers = list(history.comparisons.values())
    own = [one for one in answers if one.voter == pair.voter]
    return {
        "number": pair.number,
        "voter": pair.voter,
        "origin": pair.origin,
        **sides,
        "answers": sum(one.answer != "skip" for one in answers),
        "own_answers": len(own),
        "can_undo": bool(own),
    }


def history_data(at: Snapshot) -> Plain:
    """Every answer, the latest first, with the answers that it contradicts."""
    _, history = at.opened()
    counted = history.counted()
    against: dict[int, list[int]] = {}
    for earlier, later in diagnosis.opposite(counted):
        against.setdefault(earlier, []).append(later)
        against.setdefault(later, []).append(earlier)
    rows = [
        asdict(one) | {"contradicts": against.get(one.event, []), "origin": _origin(history, one.pair)}
        for one in reversed(history.comparisons.values())
    ]
    designs = {number: history.options[number] for row in rows for number in row["options"]}
    return {"rows": rows, "options": designs, "cycle": diagnosis.cycle(counted), "queue": len(history.queue)}


def _origin(history: History, pair: int | None) -> str:
    return "elsewhere" if pair is None else history.asked[pair][0].origin


def python(study: Study, at: Snapshot) -> str:
    """A program that makes the same study of the same answers."""
    definition, history = at.opened()
    answers = [
        (history.options[one.ordered[0]], history.options[one.ordered[1]], one.answer == "tie")
        for one in history.counted()
    ]
    rows = "\n".join(f"    ({winner!r}, {loser!r}, {tie})," for winner, loser, tie in answers)
    return f'''"""The study {_in_a_docstring(study.name)}, made again from its {len(answers)} answers."""

import kappasharp as ks

space = {_literal(definition.space.definition())}
study = ks.create_study(
    space, storage="sqlite://", study_name={study.name!r}, {_options(definition)}
)
# Winner, loser, whether it was a tie.
answers = [
{rows}
]
for winner, loser, tie in answers:
    study.add_comparison(winner, loser, tie=tie)
print(study.best if answers else study.ask())
'''


def _in_a_docstring(name: str) -> str:
    return name.replace("\\", "/").replace('"', "'")


def _options(definition: Definition) -> str:
    choice = definition.preset_choice
    preset = repr(choice) if isinstance(choice, str) else f"ks.Preset(**{asdict(choice)!r})"
    return (
        f"seed={definition.seed}, method={definition.method_name!r}, preset={preset}, "
        f"first_pairs={definition.first_pairs}"
    )


def _literal(space: dict[str, Any]) -> str:
    lines = "\n".join(f"    {name!r}: {part!r}," for name, part in space.items())
    return f"{{\n{lines}\n}}"


def text(data: Any) -> str:
    """Plain data as JSON; a text that UTF-8 cannot hold is written with escapes."""
    return json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))

"""Questions as functions of a definition and a history: each is asked from the history that was recorded before it.

So a last bit that differs does not add up over ten questions, and a difference is found where it begins.
"""

import hashlib
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import kappasharp as ks
from tests.recorded.differences import plain
from tests.recorded.functions import utility

Change = Callable[[Any], Any]
SIMULATE = "tests.recorded.functions:simulate"
PLANE: dict[str, Any] = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
GAINS: dict[str, Any] = {"kp": (0.2, 3.0), "ki": (0.0, 2.0)}
MIXED: dict[str, Any] = {
    "gain": ks.Float(1e-3, 2.0, log=True), "steps": ks.Int(1, 8), "mode": ["soft", "hard", "other"],
    "rate": ks.Fixed(7),
}  # fmt: skip
CUBE: dict[str, Any] = {"x": (0.0, 1.0), "y": ks.Float(-1.0, 1.0, jnd=0.02), "z": ks.Float(0.0, 2.0, step=0.25)}
QUESTIONS = 10
# Of two designs whose utilities are no further apart than this a person cannot say which is better.
CLOSE = 0.01


class Case(NamedTuple):
    """One study: its space, what it is made with, who answers, and what changes before which question."""

    space: dict[str, Any]
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    voters: tuple[str, ...] = ("me",)
    changes: dict[int, Change] = {}  # noqa: RUF012
    # By the question's number, what kind of it the voter wishes.
    kinds: dict[int, str] = {}  # noqa: RUF012


def _open_both(study: Any) -> None:
    """Another voter has a question open while the first is asked on."""
    study.ask("waiting")


def _measure(study: Any) -> None:
    """Give what was measured of the designs of the last answer."""
    for row in study.rows("options")[-2:]:
        design = {name: row[f"params_{name}"] for name in PLANE}
        study.record(design, {"comfort": design["x"] - design["y"] ** 2})


CASES: dict[str, Case] = {
    "pairs": Case(PLANE),
    "mixed": Case(MIXED, {"seed": 3, "first_pairs": 3}),
    "choice": Case(CUBE, {"question": "choice:4", "first_pairs": 2}),
    "order": Case(MIXED, {"question": "order:4", "first_pairs": 2}),
    "slider": Case(CUBE, {"question": "slider", "first_pairs": 2}),
    "straight": Case(PLANE, {"question": "slider:2", "first_pairs": 3}),
    "rating": Case(MIXED, {"question": "rating", "first_pairs": 3}),
    "auto": Case(PLANE, {"question": "auto"}),
    "wished": Case(CUBE, {"first_pairs": 2}, kinds={4: "rating", 5: "choice:3", 6: "order:3", 8: "slider:3"}),
    "two": Case(PLANE, {"first_pairs": 3}, ("anna", "ben"), {6: _open_both, 8: lambda s: s.weigh({"ben": 0.5})}),
    "three": Case(MIXED, {"first_pairs": 3, "tell_apart": True}, ("anna", "ben", "cleo")),
    "apart": Case(PLANE, {"first_pairs": 2, "tell_apart": True, "preset": "local"}, ("anna", "ben")),
    "adaptive": Case(CUBE, {"method": "adaptive", "preset": "paper", "first_pairs": 3}),
    "static": Case(PLANE, {"method": "static", "preset": "paper", "first_pairs": 2}),
    "connected": Case(PLANE, {"method": "connected", "first_pairs": 2}),
    "jitter": Case(MIXED, {"method": "jitter", "preset": "local", "first_pairs": 3}),
    "spectral": Case(PLANE, {"method": "auto", "preset": "dimension_scaled", "first_pairs": 2}),
    "ep": Case(PLANE, {"method": "ep", "preset": "local", "first_pairs": 3}),
    "limits": Case(CUBE, {"limits": ["x + y <= 1.2"], "use_seconds": True, "preset": "modern_0_2"}),
    "computed": Case(
        GAINS,
        {
            "outcomes": SIMULATE, "hints": [ks.Less("overshoot")], "limits": [ks.AtMost("settling", 3.5)],
            "first_pairs": 3,
        },
    ),
    "measured": Case(
        PLANE, {"outcomes": ["comfort"], "hints": [ks.More("comfort")], "first_pairs": 3},
        changes=dict.fromkeys(range(1, QUESTIONS), _measure),
    ),
    "changed": Case(
        CUBE, {"favourites": [{"x": 0.2, "y": 0.1, "z": 0.5}, {"x": 0.8, "y": -0.4, "z": 1.5}], "first_pairs": 3},
        changes={
            4: lambda s: s.narrow("x", 0.1, 0.7), 5: lambda s: s.lock("z", 0.5), 6: lambda s: s.undo(),
            7: lambda s: s.widen("y", -1.5, 1.0),
            8: lambda s: s.enqueue({"x": 0.3, "y": 0.0, "z": 1.0}, {"x": 0.6, "y": 0.2, "z": 1.0}),
            9: lambda s: s.settle(1),
        },
    ),
}  # fmt: skip


def answer(count: int, question: Any) -> Any:
    """What the hidden taste says of a question; the seventh is skipped."""
    if count == 7:
        return "skip"
    if question.kind == "slider":
        return max((place / 8 for place in range(9)), key=lambda place: utility(question.at(place)))
    values = [utility(design) for design in question.designs]
    ranked = sorted(range(len(values)), key=lambda place: -values[place])
    match question.kind:
        case "choice":
            return ranked[0]
        case "order":
            return [ranked[:2], *ranked[2:-1]]
        case "rating":
            return max(-3, min(3, round(3.0 * (values[0] - values[1]))))
    return "tie" if abs(values[0] - values[1]) < CLOSE else "ab"[ranked[0]]


def _live(case: Case, folder: Path) -> dict[str, Any]:
    """A study answered from its first question to its last, as its JSON file holds it."""
    study = ks.create_study(case.space, storage="sqlite://", study_name="recorded", **case.options)
    for count in range(QUESTIONS):
        if count in case.changes:
            case.changes[count](study)
        asked = study.ask(case.voters[count % len(case.voters)], kind=case.kinds.get(count))
        study.tell(asked, answer(count, asked), seconds=1.0 + count % 3)
    return _content(study, folder)


def _content(study: Any, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(study.export(folder / "study.json").read_text("utf-8"))
    return found


def through(history: dict[str, Any], events: int, folder: Path) -> Any:
    """The study as it was after so many events, made anew from its file."""
    data = {name: value for name, value in history.items() if name != "checksum"}
    data["events"] = history["events"][:events]
    # The checksum of the file, as its format has it.
    text = json.dumps([data], sort_keys=True, separators=(",", ":"))
    (folder / "part.json").write_text(
        json.dumps(data | {"checksum": hashlib.sha256(text.encode()).hexdigest()}), encoding="utf-8"
    )
    outcomes = data["definition"].get("outcomes", {}).get("function")
    return ks.import_json(folder / "part.json", storage="sqlite://", outcomes=outcomes)


def _asked(case: Case, history: dict[str, Any]) -> list[tuple[int, str, str | None]]:
    """Of every question that was asked: after how many events, of whom, and what kind of it they wished."""
    found, count = [], 0
    for place, event in enumerate(history["events"]):
        if event["kind"] == "asked":
            own = event["voter"] in case.voters
            found.append((place, event["voter"], case.kinds.get(count) if own else None))
            count += own
    return found


def _question(history: dict[str, Any], events: int, voter: str, kind: str | None, folder: Path) -> dict[str, Any]:
    """What is asked after so many events, and what is told of the best design before that."""
    study = through(history, events, folder)
    best = plain(study.best) if any(one["kind"] == "answered" for one in history["events"][:events]) else None
    asked = study.ask(voter, kind=kind)
    return {"voter": voter, "kind": asked.kind, "designs": plain(asked.designs), "best": best}


def _end(case: Case, history: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a study tells of itself after its last answer."""
    study = through(history, len(history["events"]), folder)
    designs = [{name: row[f"params_{name}"] for name in case.space} for row in study.rows("options")[:2]]
    told = {
        "best": study.best, "diagnostics": study.diagnostics(), "notes": study.notes(),
        "utility": [row["utility"] for row in study.rows("options")], "first wins": study.predict(*designs),
    }  # fmt: skip
    if len(case.voters) > 1:
        told |= {"agreement": study.agreement(), "best for": [study.best_for(voter) for voter in case.voters]}
    if "outcomes" in case.options:
        told |= {"tradeoffs": study.tradeoffs(), "taste": study.taste(), "directions": study.directions()}
    return plain(told)


def _scales(history: dict[str, Any]) -> dict[str, float]:
    space = history["definition"]["space"]
    return {name: one["high"] - one["low"] for name, one in space.items() if "low" in one}


def record() -> dict[str, Any]:
    """Every case answered live, and what every one of its questions is from its recorded history."""
    with tempfile.TemporaryDirectory() as folder:
        histories = {name: _live(case, Path(folder)) for name, case in CASES.items()}
    return again({name: {"history": history} for name, history in histories.items()})


def again(recorded: dict[str, Any], every: int = 1) -> dict[str, Any]:
    """The same cases asked now, from the histories that were recorded; or only every so many of their questions."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        folder, count = Path(name), 0
        for case, one in recorded.items():
            history = one["history"]
            found[case] = {"history": history, "scales": _scales(history), "questions": {}}
            for events, voter, kind in _asked(CASES[case], history):
                count += 1
                if count % every == 0:
                    asked = _question(history, events, voter, kind, folder)
                    found[case]["questions"][f"after {events}"] = asked
            if every == 1:
                found[case]["end"] = _end(CASES[case], history, folder)
    return found

"""The recorded files, one for each part: written on one version, compared on another."""

import json
from pathlib import Path
from typing import Any

from tests.recorded import exports, questions, requests, shell
from tests.recorded.differences import differences

FOLDER = Path(__file__).parent
# Of questions every so many, where it is to be brief: of all cases, and of their beginnings and ends alike.
EVERY = 7
PARTS = {"questions": questions, "exports": exports, "requests": requests, "shell": shell}


def read(part: str) -> dict[str, Any]:
    """What was recorded of a part."""
    found: dict[str, Any] = json.loads((FOLDER / f"{part}.json").read_text("utf-8"))
    return found


def record(part: str) -> int:
    """Write down how a part is now; how many questions, studies, requests or commands there are."""
    found = PARTS[part].record()
    # A line for each thing of the second level, so that a change of the files can be read.
    rows = (
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f" {json.dumps(key)}: {_line(value)}" for key, value in one.items())
        + "\n}"
        for name, one in found.items()
    )
    (FOLDER / f"{part}.json").write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
    return count(part, found)


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def count(part: str, found: dict[str, Any]) -> int:
    """How many of what a part is about are in a record."""
    if part == "questions":
        return sum(len(one["questions"]) for one in found.values())
    return len(found["answers"]) if part == "requests" else sum(map(len, found.values()))


def compare(part: str, *, exact: bool, briefly: bool = False) -> list[str]:
    """How a part differs now from what was recorded, line by line; briefly, as far as takes seconds."""
    recorded = read(part)
    if part == "questions":
        now = questions.again(recorded, EVERY if briefly else 1)
    else:
        now = PARTS[part].record(briefly=True) if briefly and part != "exports" else PARTS[part].record()
    # As JSON holds it: tuples are lists there, and names texts.
    now = json.loads(json.dumps(now))
    return of(part, _as_far_as(recorded, now) if briefly else recorded, now, exact=exact)


def _as_far_as(recorded: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """What was recorded of what there is now: the second level's names, and of questions the third's."""
    found = {}
    for name, one in now.items():
        there = recorded.get(name, {})
        found[name] = {key: there.get(key) for key in one}
        if "questions" in one:
            found[name]["questions"] = {key: there["questions"].get(key) for key in one["questions"]}
    return found


def of(part: str, recorded: dict[str, Any], now: dict[str, Any], *, exact: bool) -> list[str]:
    """The differences of two records of a part; of questions by the ranges of their parameters."""
    found = differences({}, {name: None for name in now if name not in recorded}, exact=exact, at=part)
    for name, one in recorded.items():
        scales = one.get("scales") if part == "questions" else None
        found += differences(one, now.get(name), exact=exact, scales=scales, at=f"{part}/{name}")
    return found

"""A study as JSON with every event and a checksum, and back; `journal/validation.py` says which events are taken."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kappasharp.errors import CorruptedError, InvalidValueError, StorageError
from kappasharp.journal import events, validation
from kappasharp.journal.definition import Definition, from_plain
from kappasharp.journal.events import Asked, Bounded, Joined, Judged, Queued, Remarked, Restored, Stored, Weighed
from kappasharp.store import schema
from kappasharp.store.storage import Record, Storage

# Version 1 had no checksum; version 3 has questions that are more than a pair, version 4 outcomes and limits, version 5
# the name of a renderer, favourites, changes of parameters and notes, version 6 voters that are programs, version 7
# weights of voters, version 8 older copies that were put back: each is written where there are any.
FORMAT, FORMAT_VERSION = "kappasharp study", 8
WEIGHTS_VERSION, PROGRAMS_VERSION, CHANGES_VERSION, OUTCOMES_VERSION, KINDS_VERSION, PAIRS_VERSION = 7, 6, 5, 4, 3, 2


def plain(record: Record, stored: list[Stored]) -> dict[str, Any]:
    """All of a study as plain data, with the checksum that `read_json` compares."""
    rows = [
        {"number": one.number, "voter": one.voter, "time": one.time, "kind": one.event.kind}
        | {"body": events.body(one.event)}
        for one in stored
    ]
    about = [one.event.form for one in stored if isinstance(one.event, Asked | Queued)]
    plain = "question" not in record.definition and all(form.is_pair for form in about)
    version = PAIRS_VERSION if plain else KINDS_VERSION
    if record.definition.keys() & {"outcomes", "limits"}:
        version = OUTCOMES_VERSION
    changed = any(isinstance(one.event, Bounded | Remarked) for one in stored)
    if changed or record.definition.keys() & {"render", "favourites"}:
        version = CHANGES_VERSION
    if any(isinstance(one.event, Joined | Judged) or getattr(one.event, "people", False) for one in stored):
        version = PROGRAMS_VERSION
    if any(isinstance(one.event, Weighed) for one in stored):
        version = WEIGHTS_VERSION
    if any(isinstance(one.event, Restored) for one in stored):
        version = FORMAT_VERSION
    head = {"format": FORMAT, "version": version, "name": record.name, "created": record.created}
    return sealed(head | {"definition": record.definition, "events": rows})


def sealed(data: dict[str, Any]) -> dict[str, Any]:
    """The same with its checksum."""
    rest = {name: value for name, value in data.items() if name != "checksum"}
    return rest | {"checksum": schema.digest(rest)}


def write_json(path: Path, content: Any) -> None:
    """Write plain data as JSON, indented."""
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n", "utf-8")


def read_json(
    path: Path,
    storage: Storage,
    name: str | None,
    *,
    check: Callable[[Definition], Definition],
    check_change: Callable[[Definition], None],
) -> str:
    """Make a study of a JSON file that `export` wrote; its name. Nothing is stored before everything was checked.

    Args:
        path: the file.
        storage: where the study goes.
        name: what to call it, if not as the file does.
        check: raises where no study could have this definition.
        check_change: raises where a change of a parameter leaves no designs that keep the limits.
    """
    data = _content(path)
    if data["version"] == 1:
        warnings.warn(
            f"{path} was written by an older kappasharp, without a checksum: whether its answers are as they were "
            "cannot be known.",
            stacklevel=3,
        )
    elif data.get("checksum") != sealed(data)["checksum"]:
        raise CorruptedError(
            f"{path} was changed since it was written: its checksum is another. Nothing was stored; export the study "
            "once more."
        )
    try:
        definition = check(from_plain(data["definition"]))
        happened = validation.happened(data["events"], definition, check_change)
        chosen = events.named_text("name", name or data["name"])
    except (KeyError, TypeError, ValueError, CorruptedError) as error:
        why = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error).removesuffix(".")
        raise CorruptedError(f"{path} cannot be read as a study: {why}. Nothing was stored.") from error
    return storage.create(chosen, definition.plain(), happened).name


def _content(path: Path) -> dict[str, Any]:
    """The JSON of the file, of a version that can be read."""
    try:
        data = json.loads(path.read_text("utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise CorruptedError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidValueError(f"{path} must be what `export` wrote, but it says nothing of a {FORMAT!r}.")
    if data.get("version") not in range(1, FORMAT_VERSION + 1):
        raise InvalidValueError(
            f"{path} must be of version 1 to {FORMAT_VERSION}, but got {data.get('version')!r}; a newer kappasharp "
            "reads it."
        )
    return data


def _no_number(word: str) -> None:
    raise ValueError(f"{word} is no number")

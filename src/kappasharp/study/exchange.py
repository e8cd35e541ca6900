"""Studies as tables and files: rows for dataframes, CSV, Parquet, and JSON that holds every event."""

import csv
import json
from pathlib import Path
from typing import Any

from kappasharp.errors import CorruptedError, InvalidValueError, StorageError, needed
from kappasharp.files import replacing
from kappasharp.study import events
from kappasharp.study.definition import from_plain
from kappasharp.study.events import Amended, Answered, Stored
from kappasharp.study.history import History
from kappasharp.study.questions import StudyModel
from kappasharp.study.space import Space
from kappasharp.study.storage import Record, Storage

FORMAT, FORMAT_VERSION = "kappasharp study", 1
Rows = list[dict[str, Any]]
TABLES = ("comparisons", "options")
# Entries of an event's body that hold a design.
DESIGNS = ("a", "b", "winner", "loser")


def options(history: History, model: StudyModel | None) -> Rows:
    """One row for each design; those that the model does not know have no utility."""
    counted = history.counted()
    utility: dict[int, float] = {}
    if model is not None:
        utility = dict(zip(model.options, model.surrogate.utility.tolist(), strict=True))
    rows = []
    for number, design in enumerate(history.options):
        met = [one for one in counted if number in one.options]
        wins = sum(one.answer != "tie" and one.ordered[0] == number for one in met)
        ties = sum(one.answer == "tie" for one in met)
        tally = {"comparisons": len(met), "wins": wins, "ties": ties, "utility": utility.get(number)}
        rows.append({"option": number} | tally | _prefixed("", design))
    return rows


def comparisons(history: History) -> Rows:
    """One row for each answer, skips included."""
    return [
        {
            "event": one.event,
            "pair": one.pair,
            "time": one.time,
            "voter": one.voter,
            "answer": one.answer,
            "seconds": one.seconds,
            "amended": one.amended,
            "a": one.options[0],
            "b": one.options[1],
        }
        | _prefixed("a_", history.options[one.options[0]])
        | _prefixed("b_", history.options[one.options[1]])
        for one in history.comparisons.values()
    ]


def _prefixed(prefix: str, design: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}params_{name}": value for name, value in design.items()}


def dataframe(rows: Rows) -> Any:
    """The rows as pandas has them."""
    return needed("pandas", "A dataframe", "dataframe").DataFrame(rows)


def check_path(path: Path) -> None:
    """The endings that can be written."""
    if path.suffix not in (".json", ".csv", ".parquet"):
        raise InvalidValueError(f"`path` must end in .json, .csv or .parquet, but got {str(path)!r}.")


def write(path: Path, content: dict[str, Any] | Rows) -> Path:
    """Write a whole study as JSON, or rows as the file's ending says: all of it or nothing."""
    check_path(path)
    writer = {".csv": _write_csv, ".parquet": _write_parquet}.get(path.suffix, _write_json)
    try:
        with replacing(path) as temporary:
            writer(temporary, content)  # type: ignore[arg-type]
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror or error}.") from error
    return path


def plain(record: Record, stored: list[Stored]) -> dict[str, Any]:
    """All of a study as plain data."""
    rows = [
        {"number": one.number, "voter": one.voter, "time": one.time, "kind": one.event.kind}
        | {"body": events.body(one.event)}
        for one in stored
    ]
    head = {"format": FORMAT, "version": FORMAT_VERSION, "name": record.name, "created": record.created}
    return head | {"definition": record.definition, "events": rows}


def _write_json(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n", "utf-8")


def _write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [])
        writer.writeheader()
        writer.writerows(rows)


def _write_parquet(path: Path, rows: Rows) -> None:
    pyarrow, parquet = (needed(name, "A Parquet file", "lab") for name in ("pyarrow", "pyarrow.parquet"))
    # Choices may mix kinds, which a Parquet column may not: such a column is written as text.
    names = list(rows[0]) if rows else []
    mixed = {name for name in names if len({type(row[name]) for row in rows if row[name] is not None}) > 1}
    plain_rows = [{k: str(v) if k in mixed and v is not None else v for k, v in row.items()} for row in rows]
    parquet.write_table(pyarrow.Table.from_pylist(plain_rows), path)


def read_json(path: Path, storage: Storage, name: str | None) -> str:
    """Make a study of a JSON file that `export` wrote; its name."""
    try:
        data = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise CorruptedError(f"{path} is not JSON: {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise InvalidValueError(f"{path} must be what `export` wrote, but it says nothing of a {FORMAT!r}.")
    if data.get("version") != FORMAT_VERSION:
        raise InvalidValueError(
            f"{path} must be of version {FORMAT_VERSION}, but got {data.get('version')!r}; a newer kappasharp reads it."
        )
    return _restore(data, path, storage, name)


def _event(row: dict[str, Any], space: Space) -> Stored:
    """An event of the file; a TypeError or ValueError where a study could not have stored it."""
    happened = events.read(row["kind"], row["body"])
    for design in (value for name, value in row["body"].items() if name in DESIGNS):
        if space.check(design).keys() != design.keys():
            raise ValueError(f"a design must name every parameter, but got {design}")
    if isinstance(happened, Answered | Amended) and happened.answer is not None:
        events.answer(happened.answer)
    if not isinstance(row["number"], int) or not isinstance(row["time"], str):
        raise TypeError(f"an event must have a number and a time, but got {row['number']!r}, {row['time']!r}")
    return Stored(row["number"], events.voter(row["voter"]), row["time"], happened)


def _restore(data: dict[str, Any], path: Path, storage: Storage, name: str | None) -> str:
    try:
        space = from_plain(data["definition"]).space
        happened = [_event(row, space) for row in list(data["events"])]
        # A study that cannot be folded is not stored.
        History("").extend(happened)
        complete = [one.number for one in happened] == list(range(1, len(happened) + 1))
        chosen = events.named_text("name", name or data["name"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__} {error}".removesuffix(".")
        raise CorruptedError(f"{path} cannot be read as a study: {why}.") from error
    if not complete:
        raise CorruptedError(f"{path} cannot be read as a study: its events are not numbered from 1 without a gap.")
    return storage.create(chosen, data["definition"], happened).name

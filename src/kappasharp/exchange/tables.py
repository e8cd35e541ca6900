"""A study's answers and designs as rows, and the files that hold them: CSV, Parquet and JSON, by the name's end."""

import csv
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kappasharp.errors import InvalidTypeError, InvalidValueError, StorageError, needed
from kappasharp.exchange.comparison_csv import LETTERS, defused
from kappasharp.exchange.study_json import write_json
from kappasharp.files import replacing
from kappasharp.journal.history import History
from kappasharp.journal.question import Comparison
from kappasharp.questions import kind
from kappasharp.questions.kind import Kind
from kappasharp.space.space import Design

Rows = list[dict[str, Any]]
TABLES = ("comparisons", "options")


def options(history: History, utility: Mapping[int, float], outcomes: Sequence[str] = ()) -> Rows:
    """One row for each design; those that the model does not know have no utility, and some may have no outcomes."""
    counted = history.counted()
    rows = []
    for number, design in enumerate(history.options):
        met = [one for one in counted if number in one.options]
        first = [one.first for one in met]
        wins = sum(one == (number,) for one in first)
        ties = sum(len(one) > 1 and number in one for one in first)
        tally = {"comparisons": len(met), "wins": wins, "ties": ties, "utility": utility.get(number)}
        recorded = history.outcomes(design)
        values = {} if recorded is None else recorded.values
        found = {f"outcomes_{name}": values.get(name) for name in outcomes}
        said = {"notes": _notes(history, design)} if any(history.remarks.values()) else {}
        rows.append({"option": number} | tally | _prefixed("", design) | found | said)
    return rows


def _notes(history: History, design: Design) -> str | None:
    """What was said of a design, in a line."""
    return "; ".join(f"{who}: {text}" for who, text in history.said_of(design).items()) or None


def comparisons(history: History, outcomes: Sequence[str] = ()) -> Rows:
    """One row for each answer, skips included.

    Where all are about pairs, A and B have columns. Otherwise `kind` says what was asked and there are columns for as
    many designs as the largest question showed, a, b, c …; `first` is the option that was put first, if it was one.
    Outcomes have columns after the parameters.
    """
    found = list(history.comparisons.values())
    plain = all(one.form.is_pair for one in found)
    most = max((one.form.designs for one in found), default=2)
    rows = [_row(history, one, LETTERS[:most], plain=plain) for one in found]
    return [row | _seen(history, one, LETTERS[:most], outcomes) for row, one in zip(rows, found, strict=True)]


def _seen(history: History, one: Comparison, letters: str, outcomes: Sequence[str]) -> dict[str, Any]:
    """The outcomes of an answer's designs, as far as they are known."""
    if not outcomes:
        return {}
    designs = _shown(history, one)
    known = {letter: history.outcomes(design) for letter, design in designs.items()}
    values = {letter: {} if found is None else found.values for letter, found in known.items()}
    return {f"{letter}_outcomes_{name}": values.get(letter, {}).get(name) for letter in letters for name in outcomes}


def _row(history: History, one: Comparison, letters: str, *, plain: bool) -> dict[str, Any]:
    designs = _shown(history, one)
    first = one.first[0] if len(one.first) == 1 else None
    # The designs of a slider's line are no options, though an option may happen to be the same design.
    numbers = () if one.form.kind is Kind.SLIDER else one.options
    options = dict.fromkeys(letters) | dict(zip(letters, numbers, strict=False))
    nothing = dict.fromkeys(designs["a"])
    columns = [_prefixed(f"{letter}_", designs.get(letter, nothing)) for letter in letters]
    return {
        "event": one.event,
        "pair": one.pair,
        "time": one.time,
        "voter": one.voter,
        **({"program": one.program} if history.programs.about else {}),
        **({} if plain else {"kind": one.kind}),
        "answer": kind.cell(one.answer),
        "seconds": one.seconds,
        "amended": one.amended,
        **({} if plain else {"first": first}),
        **options,
        **{name: value for part in columns for name, value in part.items()},
    }


def _shown(history: History, one: Comparison) -> dict[str, Design]:
    """The designs of an answer's question, by their letters; of a slider those of its line."""
    designs = history.asked[one.pair][0].designs if one.pair is not None else [history.options[i] for i in one.options]
    return dict(zip(LETTERS, designs, strict=False))


def _prefixed(prefix: str, design: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}params_{name}": value for name, value in design.items()}


def dataframe(rows: Rows) -> Any:
    """The rows as pandas has them."""
    return needed("pandas", "A dataframe", "dataframe").DataFrame(rows)


def path_of(given: Any) -> Path:
    """A path as somebody gives it, or a sentence."""
    if not isinstance(given, str | os.PathLike):
        raise InvalidTypeError(f"`path` must be a path, but got {given!r}.")
    return Path(given)


def check_path(path: Path) -> None:
    """The endings that can be written."""
    if path.suffix not in (".json", ".csv", ".parquet", ".html"):
        raise InvalidValueError(f"`path` must end in .json, .csv, .parquet or .html, but got {str(path)!r}.")


def write(path: Path, content: dict[str, Any] | Rows) -> Path:
    """Write a whole study as JSON, or rows as the file's ending says: all of it or nothing."""
    check_path(path)
    writer = {".csv": _write_csv, ".parquet": _write_parquet}.get(path.suffix, write_json)
    try:
        with replacing(path) as temporary:
            writer(temporary, content)  # type: ignore[arg-type]
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror or error}.") from error
    return path


def _write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(map(defused, rows[0]) if rows else [])
        writer.writerows(map(defused, row.values()) for row in rows)


def _write_parquet(path: Path, rows: Rows) -> None:
    pyarrow, parquet = (needed(name, "A Parquet file", "lab") for name in ("pyarrow", "kappasharp.parquet"))
    # Choices may mix kinds, which a Parquet column may not: such a column is written as text.
    names = list(rows[0]) if rows else []
    mixed = {name for name in names if len({type(row[name]) for row in rows if row[name] is not None}) > 1}
    plain_rows = [{k: str(v) if k in mixed and v is not None else v for k, v in row.items()} for row in rows]
    parquet.write_parquet(pyarrow.Table.from_pylist(plain_rows), path)

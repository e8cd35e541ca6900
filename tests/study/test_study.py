"""A study from outside: idempotent asks, answers that count once, undo, outside data, files, determinism."""

import copy
import inspect
import json
import math
import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import torch

import kappasharp as ks
from kappasharp.errors import (
    CorruptedError,
    DuplicateNameError,
    InvalidTypeError,
    InvalidValueError,
    KappaSharpError,
    StalePairError,
    StorageError,
    UnknownNameError,
)
from kappasharp.exchange import study_json
from kappasharp.store.storage import Storage

SPACE = {"kp": (0.2, 3.0), "ki": ks.Float(1e-3, 2.0, log=True), "n": ks.Int(1, 8), "mode": ["soft", "hard"]}


def score(design):
    return (
        -abs(design["kp"] - 1.2)
        - abs(math.log10(design["ki"] / 0.05))
        - abs(design["n"] - 6) / 4
        - (design["mode"] != "hard")
    )


def prefer(a, b):
    return "a" if score(a) > score(b) else "b"


def answered(study, count, voter="me"):
    for _ in range(count):
        pair = study.ask(voter)
        study.tell(pair, prefer(pair.a, pair.b))
    return study


@pytest.fixture
def study(url):
    return ks.create_study(SPACE, storage=url, study_name="pid", seed=3)


class TestAskAndTell:
    """The two verbs, over both databases."""

    def test_the_same_pair_until_it_is_answered(self, study, url):
        pair = study.ask()
        assert study.ask() == pair == ks.load_study("pid", storage=url).ask()
        study.tell(pair, "a")
        assert study.ask().number != pair.number

    def test_each_voter_has_a_pair_of_their_own(self, study):
        mine, yours = study.ask("me"), study.ask("you")
        assert mine.number != yours.number and (mine.a, mine.b) != (yours.a, yours.b)
        study.tell(yours, "b")
        assert study.ask("me") == mine
        assert [one.voter for one in study.history.comparisons.values()] == ["you"]

    def test_a_second_answer_is_refused_with_the_current_pair(self, study, url):
        pair = study.ask()
        other = ks.load_study("pid", storage=url)
        other.tell(pair, "a")
        with pytest.raises(StalePairError, match=r"answered 'a' already\. No pair is open now") as caught:
            study.tell(pair, "b")
        assert caught.value.current is None
        new = other.ask()
        with pytest.raises(StalePairError, match=f"Pair {new.number} is open now") as caught:
            study.tell(pair, "tie")
        assert caught.value.current == new
        assert [one.answer for one in study.history.comparisons.values()] == ["a"]

    def test_the_same_answer_again_is_the_first_one_again(self, study, url):
        pair = study.ask()
        first = study.tell(pair, "a", seconds=2.0)
        assert ks.load_study("pid", storage=url).tell(pair.number, "a", seconds=9.0) == first
        study.ask()
        before = study.history.number
        assert study.tell(pair, "a") == first and study.history.number == before
        study.undo()
        assert study.tell(pair, "a").event > first.event  # open again, so it is a new answer

    def test_a_pair_of_another_study_is_refused(self, study, url):
        other = ks.create_study(SPACE, storage=url, study_name="other", seed=3)
        pair = other.ask()
        study.ask()
        with pytest.raises(InvalidValueError, match="a pair of another study than 'pid'"):
            study.tell(pair, "a")
        assert study.history.comparisons == {} == other.history.comparisons

    def test_a_pair_may_be_named_by_its_number(self, study):
        pair = study.ask()
        assert study.tell(pair.number, "tie").answer == "tie"

    @pytest.mark.parametrize("bad", ["AB", "left", "", None, 1, math.nan])
    def test_an_answer_is_one_of_four(self, study, bad):
        with pytest.raises(InvalidValueError, match="'a', 'b', 'tie' or 'skip'"):
            study.tell(study.ask(), bad)

    @pytest.mark.parametrize("bad", [None, "1", 1.0, True])
    def test_a_pair_is_a_pair(self, study, bad):
        with pytest.raises(InvalidTypeError, match="what `ask` returned, or its number"):
            study.tell(bad, "a")

    def test_a_number_that_was_never_asked(self, study):
        with pytest.raises(InvalidValueError, match="there is no pair 77"):
            study.tell(77, "a")

    @pytest.mark.parametrize("bad", ["", "  ", "a\nb", "x" * 101, None, 3])
    def test_a_voter_has_a_name(self, study, bad):
        with pytest.raises(KappaSharpError, match="`voter` must be"):
            study.ask(bad)

    def test_spaces_around_a_name_make_nobody_else_of_it(self, study):
        pair = study.ask(" anna ")
        assert pair.voter == "anna" and study.ask("anna") == pair

    def test_seconds_are_kept(self, study):
        assert study.tell(study.ask(), "a", seconds=2.5).seconds == 2.5
        with pytest.raises(InvalidValueError, match="not be below 0"):
            study.tell(study.ask(), "a", seconds=-1.0)
        with pytest.raises(InvalidValueError, match="finite"):
            study.tell(study.ask(), "a", seconds=math.nan)

    def test_skips_leave_the_model_and_ties_enter_it(self):
        study = answered(ks.create_study(SPACE, storage="sqlite://"), 8)
        before = study.model().state.comparisons.shape
        study.tell(study.ask(), "skip")
        assert study.model().state.comparisons.shape == before and study.model().state.ties is None
        study.tell(study.ask(), "tie")
        state = study.model().state
        assert state.comparisons.shape[1] == before[1] + 1 and state.ties.tolist()[0][-1]
        assert state.preset.threshold > 0.0
        study.ask()


class TestUndo:
    """Taking back gives the same pair again."""

    def test_the_same_pair_is_open_again(self, study, url):
        pair = study.ask()
        study.tell(pair, "a")
        following = study.ask()
        assert study.undo() == pair == study.ask() == ks.load_study("pid", storage=url).ask()
        with pytest.raises(StalePairError, match="withdrawn"):
            study.tell(following, "a")
        study.tell(pair, "b")
        assert [one.answer for one in study.history.counted()] == ["b"]

    def test_undo_goes_back_as_far_as_there_are_answers(self, study):
        pairs = []
        for _ in range(4):
            pairs.append(study.ask())
            study.tell(pairs[-1], "a")
        assert [study.undo() for _ in range(4)] == pairs[::-1]
        with pytest.raises(InvalidValueError, match="nothing to undo"):
            study.undo()

    def test_only_ones_own(self, study):
        study.tell(study.ask("me"), "a")
        study.tell(study.ask("you"), "b")
        study.undo("me")
        assert [one.voter for one in study.history.counted()] == ["you"]

    def test_the_same_answer_again_leads_to_the_same_pair(self):
        study = answered(ks.create_study(SPACE, storage="sqlite://"), 9)
        before = study.ask()
        last = study.undo()
        study.tell(last, prefer(last.a, last.b))
        after = study.ask()
        assert {str(before.a), str(before.b)} == {str(after.a), str(after.b)}


class TestOtherEvents:
    """Outside data, wishes, corrections."""

    def test_an_outside_comparison_counts(self, study):
        winner, loser = {"kp": 1, "ki": 0.05, "n": 6, "mode": "hard"}, {"kp": 3, "ki": 2.0, "n": 1, "mode": "soft"}
        assert study.add_comparison(winner, loser).answer == "a"
        assert study.add_comparison(loser, winner, tie=True).answer == "tie"
        assert len(study.history.options) == 2 and study.best.option == 0
        assert study.undo() is None and len(study.history.counted()) == 1

    def test_enough_outside_data_and_the_model_asks(self, study):
        designs = [{"kp": 0.3 + 0.4 * i, "ki": 0.1, "n": 1 + i, "mode": "soft"} for i in range(6)]
        for one, other in pairwise(designs):
            study.add_comparison(one, other)
        assert study.ask().origin == "model"

    def test_a_wish_is_asked_next_and_once(self, study):
        a, b = {"kp": 1, "ki": 0.05, "n": 6, "mode": "hard"}, {"kp": 3, "ki": 2.0, "n": 1, "mode": "soft"}
        open_pair = study.ask()
        study.enqueue(a, b)
        assert study.ask() == open_pair
        study.tell(open_pair, "a")
        wished = study.ask()
        assert (wished.a, wished.b, wished.origin) == (a, b, "queue")
        assert study.ask("you").origin == "start"
        study.tell(wished, "a")
        assert study.ask().origin == "start"

    def test_an_old_pair_may_be_asked_again(self, study):
        pair = study.ask()
        study.tell(pair, "a")
        study.ask_again(pair)
        again = study.ask()
        assert (again.a, again.b, again.origin) == (pair.a, pair.b, "again")
        study.tell(again, "b")
        assert len(study.history.counted()) == 2
        assert study.diagnostics().opposite_answers == [(2, 5)]

    def test_an_answer_may_be_changed_or_taken_out(self, study):
        first = study.tell(study.ask(), "a")
        second = study.tell(study.ask(), "a")
        study.amend(first.event, "b")
        study.amend(second.event, None)
        assert [(one.answer, one.amended) for one in study.history.counted()] == [("b", True)]
        with pytest.raises(InvalidValueError, match="one that counts"):
            study.amend(second.event, None)
        # One that was taken out is put back where it stood, and one that reads as at first was not amended.
        third = study.tell(study.ask(), "tie")
        study.amend(second.event, "a")
        study.amend(first.event, "a")
        back = [(one.event, one.answer, one.amended) for one in study.history.counted()]
        assert back == [(first.event, "a", False), (second.event, "a", False), (third.event, "tie", False)]
        with pytest.raises(InvalidValueError, match="'a', 'b'"):
            study.amend(first.event, "c")

    def test_numbers_out_of_a_table_name_events_and_pairs(self, study, url):
        study.tell(np.int64(study.ask().number), "a")
        event = study.comparisons_dataframe()["event"].iloc[0]
        assert not isinstance(event, int)
        study.amend(event, "tie")
        study.ask_again(np.int64(1))
        study.settle(np.int64(2))
        stored = json.dumps(study.plain()["events"])
        assert [one["kind"] for one in json.loads(stored)] == ["asked", "answered", "amended", "queued", "settling"]
        then = ks.load_study("pid", storage=url, through=event)
        assert then.through == 2 and type(then.through) is int and then.history.counted()[0].answer == "a"
        for call in (study.ask_again, study.settle, lambda number: study.amend(number, "a")):
            for bad in (True, np.True_, 1.0, np.float64(1.0), "1"):
                with pytest.raises(InvalidTypeError):
                    call(bad)

    def test_numpys_true_in_designs(self, url):
        on, off = {"x": np.float32(0.3), "b": np.True_}, {"x": np.float32(0.1), "b": np.False_}
        study = ks.create_study({"x": (0.0, 1.0), "b": [True, False]}, storage=url, favourites=[on, off])
        study.add_comparison(on, off)
        added = study.plain()["events"][-1]["body"]["winner"]
        assert added == {"x": 0.3, "b": True} and added["b"] is True
        study.lock("b", np.True_)
        assert ks.load_study(study.name, storage=url).ask().a["b"] is True

    def test_bad_designs_are_refused_and_nothing_is_stored(self, study):
        good = {"kp": 1, "ki": 0.05, "n": 6, "mode": "hard"}
        for bad in (good | {"kp": 9.0}, good | {"kp": math.nan}, {"kp": 1}, good | {"x": 1}, None):
            with pytest.raises(KappaSharpError):
                study.add_comparison(good, bad)
            with pytest.raises(KappaSharpError):
                study.enqueue(bad, good)
        with pytest.raises(InvalidValueError, match="must be two designs"):
            study.enqueue(good, dict(good))
        with pytest.raises(InvalidValueError, match="`b` and `c` must be two designs"):
            study.enqueue(good, good | {"kp": 2}, good | {"kp": 2}, kind="order")
        with pytest.raises(InvalidValueError, match="must have 3 to 9 designs"):
            study.enqueue(good, good | {"kp": 2}, kind="choice")
        with pytest.raises(InvalidValueError, match="`designs` must be 2"):
            study.enqueue(good, good | {"kp": 2}, good | {"kp": 0.5})
        assert study.history.number == 0


class TestDoors:
    """Making, opening, listing, deleting."""

    def test_load_if_exists_goes_on(self, study, url):
        study.tell(study.ask(), "a")
        with pytest.raises(DuplicateNameError):
            ks.create_study(SPACE, storage=url, study_name="pid")
        again = ks.create_study(SPACE, storage=url, study_name="pid", load_if_exists=True, seed=9)
        assert len(again.history.counted()) == 1 and again.definition.seed == 3
        with pytest.raises(InvalidValueError, match="differ in kp"):
            ks.create_study(SPACE | {"kp": (0.2, 9.0)}, storage=url, study_name="pid", load_if_exists=True)

    @pytest.mark.parametrize(
        "other", [{"question": "order:4"}, {"question": "auto"}, {"use_seconds": True}, {"tell_apart": True}]
    )
    def test_what_a_stored_study_asks_is_not_changed_in_silence(self, study, url, other):
        (name,) = other
        with pytest.raises(InvalidValueError, match=f"`{name}` must be that of the stored study 'pid', .*leave it out"):
            ks.create_study(SPACE, storage=url, study_name="pid", load_if_exists=True, **other)
        made = ks.create_study(SPACE, storage=url, study_name="other", **other)
        for given in (other, {}):
            again = ks.create_study(SPACE, storage=url, study_name="other", load_if_exists=True, **given)
            assert again.definition.plain() == made.definition.plain()

    def test_a_study_without_a_name_gets_the_next_free_one(self, url):
        assert [ks.create_study(SPACE, storage=url).name for _ in range(3)] == ["study", "study-2", "study-3"]

    def test_deleting(self, study, url):
        ks.delete_study("pid", storage=url)
        with pytest.raises(UnknownNameError):
            ks.load_study("pid", storage=url)
        with pytest.raises(StorageError, match="somebody deleted it"):
            study.ask()
        with pytest.raises(StorageError, match="somebody deleted it"):
            study.plain()

    def test_the_environment_names_the_database(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("KAPPASHARP_STORAGE", f"sqlite:///{tmp_path / 'here.db'}")
        ks.create_study(SPACE, study_name="s")
        assert (tmp_path / "here.db").exists() and not (tmp_path / "kappasharp.db").exists()
        monkeypatch.delenv("KAPPASHARP_STORAGE")
        ks.create_study(SPACE, study_name="s")
        assert (tmp_path / "kappasharp.db").exists()

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"seed": -1}, "`seed` must be 0 or more"),
            ({"seed": 1.5}, "`seed` must be a whole number"),
            ({"first_pairs": 0}, "`first_pairs` must be 1 or more"),
            ({"method": "adaptve"}, "Did you mean 'adaptive'"),
            ({"method": ks.METHODS["static"]}, "a study outlives its process"),
            ({"preset": "moderne"}, "Did you mean 'modern'"),
            ({"study_name": ""}, "printable text"),
            ({"study_name": 3}, "must be a text"),
            ({"storage": 3}, "must be a URL"),
        ],
    )
    def test_bad_options(self, options, words):
        with pytest.raises(KappaSharpError, match=words):
            ks.create_study(SPACE, **({"storage": "sqlite://"} | options))

    def test_the_signature_says_every_option(self):
        for make in (ks.create_study, ks.optimize):
            parameters = inspect.signature(make).parameters.values()
            assert all(one.kind is not one.VAR_KEYWORD for one in parameters)
            assert {"seed", "method", "preset", "first_pairs"} <= {one.name for one in parameters}
        with pytest.raises(TypeError, match="sed"):
            ks.create_study(SPACE, storage="sqlite://", sed=1)

    def test_a_preset_of_ones_own_is_kept(self, url):
        own = replace(ks.PRESETS["modern"], threshold=0.3, nugget=1e-5)
        ks.create_study(SPACE, storage=url, study_name="s", preset=own)
        assert ks.load_study("s", storage=url).definition.preset == own

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda made: made["preset"].update(warp=2.0), "its preset has 'warp'"),
            (lambda made: made.update(drift=True, answers="graded"), "its definition has 'answers', 'drift'"),
        ],
    )
    def test_a_study_of_a_newer_version_is_no_other_study_here(self, tmp_path, change, words):
        own = replace(ks.PRESETS["modern"], nugget=1e-5)
        data = ks.create_study(SPACE, storage="sqlite://", preset=own).plain()
        change(data["definition"])
        (tmp_path / "newer.json").write_text(json.dumps(study_json.sealed(data)))
        storage = Storage(f"sqlite:///{tmp_path / 'a.db'}")
        with pytest.raises(StorageError, match=f"made by a newer kappasharp: {words}.*newer clone"):
            ks.import_json(tmp_path / "newer.json", storage=storage)
        storage.create("newer", data["definition"])
        with pytest.raises(StorageError, match=words):
            ks.load_study("newer", storage=storage)

    @pytest.mark.parametrize("take", [pickle.dumps, copy.copy, copy.deepcopy])
    def test_a_study_is_opened_elsewhere_and_not_sent(self, study, take):
        with pytest.raises(InvalidTypeError, match=r"'pid' was to be pickled or copied; `ks\.load_study\('pid', stor"):
            take(study)

    def test_as_it_was(self, study, url):
        answered(study, 7)
        then = ks.load_study("pid", storage=url, through=6)
        assert len(then.history.counted()) == 3 and then.best.n_comparisons == 3
        with pytest.raises(StorageError, match="may only be read"):
            then.ask()
        with pytest.raises(StorageError, match="may only be read"):
            then.undo()


class TestDeterminism:
    """The same events and seed give the same next pair, in whatever process, however they came about."""

    @pytest.mark.parametrize("method", ["baseline", "adaptive", "connected", "bridging", "ep_ei"])
    def test_two_studies_with_the_same_answers_ask_the_same(self, method):
        one, other = (ks.create_study(SPACE, storage="sqlite://", seed=5, method=method) for _ in range(2))
        for _ in range(9):
            first, second = one.ask(), other.ask()
            assert (first.a, first.b) == (second.a, second.b)
            for study, pair in ((one, first), (other, second)):
                study.tell(pair, prefer(pair.a, pair.b))
            assert other.best.params == other.best_params  # looking does not change anything

    def test_a_study_shows_two_designs(self):
        with pytest.raises(InvalidValueError, match=r"asks pairs, but got 'best_of_3'"):
            ks.create_study(SPACE, storage="sqlite://", method="best_of_3")

    def test_opening_it_again_asks_the_same(self, tmp_path):
        url = f"sqlite:///{tmp_path / 'a.db'}"
        answered(ks.create_study(SPACE, storage=url, study_name="s"), 10)
        expected = ks.load_study("s", storage=url).propose()
        study = ks.load_study("s", storage=url)
        assert study.best.params == study.best_params
        assert study.propose() == expected
        pair = study.ask()
        assert (pair.a, pair.b) == (expected.a, expected.b)

    def test_what_was_asked_can_be_asked_again_from_the_events(self):
        """Every pair follows from the events up to the one it says it rests on."""
        from kappasharp.journal.history import History  # noqa: PLC0415
        from kappasharp.planning import next_question  # noqa: PLC0415

        study = answered(ks.create_study(SPACE, storage="sqlite://", method="adaptive"), 12)
        stored = study.storage.read(study.stored)
        for one in (stored[8], stored[16], stored[22]):
            past = History(study.stored.uid, space=study.space)
            past.extend(event for event in stored if event.number <= one.event.after)
            assert next_question.next_question(study.definition, past) == one.event

    def test_another_seed_asks_otherwise(self):
        one, other = (ks.create_study(SPACE, storage="sqlite://", seed=seed).ask() for seed in (1, 2))
        assert (one.a, one.b) != (other.a, other.b)


class TestFiles:
    """Export and import."""

    def test_a_study_survives_json(self, study, tmp_path):
        answered(study, 6)
        study.tell(study.ask("you"), "skip")
        study.undo("me")
        path = study.export(tmp_path / "study.json")
        again = ks.import_json(path, storage="sqlite://", study_name="copy")
        head = {"name": "pid", "created": study.stored.created}
        assert study_json.sealed(again.plain() | head) == study.plain()
        assert again.rows("comparisons") == study.rows("comparisons")
        assert again.propose() == study.propose()
        with pytest.raises(DuplicateNameError):
            ks.import_json(path, storage=study.storage)

    def test_tables(self, study, tmp_path):
        answered(study, 6)
        frame = study.comparisons_dataframe()
        assert list(frame["answer"]) == [one.answer for one in study.history.comparisons.values()]
        options = study.options_dataframe()
        assert len(options) == 12 and options["wins"].sum() == 6 and options["comparisons"].sum() == 12
        assert options["utility"].idxmax() == study.best.option
        for table, rows in (("comparisons", frame), ("options", options)):
            for suffix, reader in ((".csv", pd.read_csv), (".parquet", pd.read_parquet)):
                path = study.export(tmp_path / f"{table}{suffix}", table=table)
                found = reader(path)
                assert list(found.columns) == list(rows.columns) and len(found) == len(rows)
                pd.testing.assert_series_equal(found.iloc[:, -2], rows.iloc[:, -2], check_dtype=False)

    def test_choices_of_mixed_kinds_fit_a_parquet_column(self, tmp_path):
        study = ks.create_study({"x": [1, "one", None], "y": (0.0, 1.0)}, storage="sqlite://", first_pairs=9)
        for _ in range(6):
            study.tell(study.ask(), "a")
        assert len(pd.read_parquet(study.export(tmp_path / "x.parquet"))) == 6

    def test_an_empty_study_can_be_written(self, tmp_path):
        study = ks.create_study(SPACE, storage="sqlite://")
        for name in ("a.json", "a.csv", "a.parquet"):
            assert study.export(tmp_path / name).exists()
        assert ks.import_json(tmp_path / "a.json", storage="sqlite://").history.number == 0

    def test_bad_paths_and_tables(self, study, tmp_path):
        with pytest.raises(InvalidValueError, match=r"end in .json, .csv, .parquet or .html"):
            study.export(tmp_path / "x.xlsx")
        with pytest.raises(StorageError, match="could not be written"):
            study.export(tmp_path / "no" / "x.json")
        with pytest.raises(UnknownNameError, match="Did you mean 'options'"):
            study.export(tmp_path / "x.csv", table="option")
        assert list(tmp_path.glob("*.part")) == []

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda data: data.pop("events"), "cannot be read as a study"),
            (lambda data: data["events"].pop(2), "numbered from 1"),
            (lambda data: data["events"][1]["body"].update(pair=99), "cannot be read as a study"),
            (lambda data: data["events"][1].update(kind="answerd"), "cannot be read as a study"),
            (lambda data: data["definition"].pop("space"), "definition cannot be read"),
            (lambda data: data.update(version=9), "a newer kappasharp"),
            (lambda data: data.update(format="other"), "says nothing of a 'kappasharp study'"),
        ],
    )
    def test_a_file_that_was_changed_is_refused_and_nothing_is_stored(self, tmp_path, change, words):
        study = answered(ks.create_study(SPACE, storage="sqlite://"), 3)
        data = study.plain()
        change(data)
        path = tmp_path / "x.json"
        path.write_text(json.dumps(study_json.sealed(data)))
        target = f"sqlite:///{tmp_path / 'a.db'}"
        with pytest.raises(KappaSharpError, match=words):
            ks.import_json(path, storage=target)
        with pytest.raises(UnknownNameError):
            ks.load_study("study", storage=target)

    def test_no_file_and_no_json(self, tmp_path):
        with pytest.raises(StorageError, match="could not be read"):
            ks.import_json(tmp_path / "no.json", storage="sqlite://")
        (tmp_path / "x.json").write_text("{")
        with pytest.raises(CorruptedError, match="is not JSON"):
            ks.import_json(tmp_path / "x.json", storage="sqlite://")


class TestOptimize:
    """A function that answers."""

    def test_it_finds_a_better_design(self):
        study = ks.optimize(SPACE, prefer, 20, seed=1)
        first = study.history.asked[1][0]
        assert score(study.best_params) > max(score(first.a), score(first.b))
        assert study.best.n_comparisons == 20

    def test_other_libraries_booleans_are_answers(self):
        for kind in (np.bool_, torch.tensor):
            study = ks.optimize({"x": (0.0, 1.0)}, lambda a, b, kind=kind: kind(a["x"] > b["x"]), 6)
            assert len(study.history.counted()) == 6

    def test_true_and_false_are_answers(self):
        study = ks.optimize({"x": (0.0, 1.0)}, lambda a, b: a["x"] > b["x"], 8)
        assert study.best_params["x"] > 0.7

    def test_bad_answers_and_counts(self):
        with pytest.raises(InvalidValueError, match="`prefer` must return"):
            ks.optimize(SPACE, lambda a, b: 0.5, 3)
        with pytest.raises(InvalidValueError, match="`n` must be"):
            ks.optimize(SPACE, prefer, 0)

    def test_the_function_cannot_change_the_study(self):
        def spoil(a, b):
            a.clear()
            b["kp"] = 77
            return "a"

        study = ks.optimize(SPACE, spoil, 3)
        assert all(set(design) == set(SPACE) and design["kp"] <= 3.0 for design in study.history.options)


def test_without_answers_there_is_no_best(study):
    with pytest.raises(InvalidValueError, match="has no answers yet"):
        _ = study.best
    with pytest.raises(InvalidValueError, match="has no answers yet"):
        study.diagnostics()


def test_a_hidden_ideal_is_found_on_the_lattice():
    """Integers and choices with their upper bounds: the ideal is a corner that careless rounding never reaches."""
    space = {"n": ks.Int(0, 2), "m": ks.Int(0, 2), "mode": ["x", "y", "z"]}
    study = ks.optimize(space, lambda a, b: worth(a) > worth(b), 14)
    assert study.best_params == {"n": 2, "m": 2, "mode": "z"}
    assert {type(design["n"]) for design in study.history.options} == {int}


def worth(design):
    return design["n"] + design["m"] + "xyz".index(design["mode"])

"""Parameters that are narrowed, locked and widened while a study runs; favourites, notes, names and lists."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, text

import kappasharp as ks
from kappasharp.errors import CorruptedError, DeletedError, DuplicateNameError, KappaSharpError, StalePairError
from kappasharp.exchange import study_json
from kappasharp.findings.best import sentences as reasons
from kappasharp.journal import staleness
from kappasharp.model import points
from kappasharp.space.parameters import SLACK
from kappasharp.store.storage import Storage
from kappasharp.study.collection import list_studies, rename_study

SPACE = {
    "width": (0.0, 5.0),
    "gain": ks.Float(0.01, 10.0, log=True),
    "depth": ks.Float(0.0, 1.0, step=0.1),
    "legs": ks.Int(2, 9),
    "wood": ["oak", "pine", "elm"],
    "oiled": [True, False],
}
MIDDLE = {"width": 2.0, "gain": 0.1, "depth": 0.4, "legs": 4, "wood": "oak", "oiled": True}
LIMIT = "width / 5 + depth <= 1"
KINDS = ("pair", "choice", "order", "slider", "rating")


def like(design):
    """Somebody who wants it wide, with few legs."""
    return design["width"] - 0.2 * design["legs"] + 0.3 * (design["wood"] == "oak")


def say(question):
    """What they answer, whatever the kind."""
    designs = [question.at(i / 10) for i in range(11)] if question.kind == "slider" else question.designs
    liked = [like(design) for design in designs]
    best = liked.index(max(liked))
    match question.kind:
        case "choice":
            return best
        case "order":
            return sorted(range(len(designs)), key=lambda i: -liked[i])
        case "slider":
            return best / 10
        case "rating":
            return 2 if best == 0 else -2
    return "a" if best == 0 else "b"


def answered(count, space=SPACE, **options):
    study = ks.create_study(space, storage="sqlite://", **options)
    for _ in range(count):
        question = study.ask()
        study.tell(question, say(question))
    return study


def narrowed(study):
    study.narrow("width", 1.0, 2.5)
    study.narrow("gain", high=0.3)
    study.narrow("depth", 0.25, 0.75)
    study.narrow("legs", 3, 6)
    study.narrow("wood", choices=["elm", "oak"])
    study.lock("oiled", True)


def is_open(design):
    inside = 1.0 <= design["width"] <= 2.5 and design["gain"] <= 0.3 and 3 <= design["legs"] <= 6
    return inside and design["depth"] in (0.3, 0.4, 0.5, 0.6, 0.7) and design["wood"] != "pine" and design["oiled"]


class TestBounds:
    @pytest.mark.parametrize(
        ("kind", "limits"), [*((kind, []) for kind in KINDS), *((kind, [LIMIT]) for kind in ("choice", "slider"))]
    )
    def test_every_question_keeps_them(self, kind, limits):
        """The first ones, those of the model, duels; and the best design is one of those that are open."""
        study = answered(4, limits=limits, first_pairs=6)
        narrowed(study)
        for _ in range(5):
            question = study.ask(kind=kind)
            shown = [question.at(i / 7) for i in range(8)] if kind == "slider" else question.designs
            assert all(is_open(design) for design in shown)
            assert all(design["width"] / 5 + design["depth"] <= 1 + 1e-9 for design in shown if limits)
            study.tell(question, say(question))
        assert is_open(study.best.params) and study.best.outside == ()
        study.settle(1)
        duel = study.ask()
        assert duel.origin == "settle" and all(is_open(design) for design in duel.designs)

    def test_in_many_dimensions_with_a_reach_and_with_methods_that_hold_a_design(self):
        names = [f"x{i}" for i in range(12)]
        for options in ({"preset": "local"}, {"method": "incumbent"}, {"method": "connected"}):
            study = ks.create_study({name: (0.0, 1.0) for name in names}, storage="sqlite://", **options)
            for turn in range(8):
                question = study.ask()
                assert turn < 6 or all(design["x0"] <= 0.1 and design["x1"] == 0.5 for design in question.designs)
                study.tell(question, "a" if question.a["x0"] > question.b["x0"] else "b")
                if turn == 5:
                    study.narrow("x0", 0.0, 0.1)
                    study.lock("x1", 0.5)

    def test_what_was_learnt_stays(self):
        """Narrowing leaves the model as it was; widening changes its coordinates, and hardly what it says."""
        study = answered(12)
        pairs = [(MIDDLE | {"width": 1.0}, MIDDLE | {"width": 4.0}), (MIDDLE | {"legs": 2}, MIDDLE | {"legs": 8})]
        before = [study.predict(*pair) for pair in pairs]
        study.narrow("width", 0.0, 3.0)
        assert [study.predict(*pair) for pair in pairs] == before
        study.widen("width", high=8.0)
        study.widen("wood", choices=["ash"])
        assert study.space.dimensions == 5 + 4 and len(study.history.counted()) == 12
        assert [study.predict(*pair) for pair in pairs] == pytest.approx(before, abs=0.1)
        widest = 0.0
        for _ in range(8):
            question = study.ask()
            widest = max(widest, *(design["width"] for design in question.designs))
            study.tell(question, say(question))
        assert widest > 5.5 and study.best.params["width"] > 5.0

    def test_a_slider_from_before_keeps_its_design(self):
        study = answered(3, question="slider")
        seen = list(study.history.options)
        study.widen("width", -3.0, 11.0)
        study.widen("legs", 1)
        again = ks.load_study(study.name, storage=study.storage)
        assert again.history.options[: len(seen)] == seen and study.model().options == again.model().options

    def test_undo_export_and_import(self, tmp_path):
        study = answered(6)
        narrowed(study)
        study.note(study.history.options[0], "too low")
        study.widen("width", high=9.0, voter="ann")
        copy = ks.import_json(study.export(tmp_path / "study.json"), storage="sqlite://", study_name="copy")
        assert json.loads((tmp_path / "study.json").read_text())["version"] == 5
        assert copy.space.bounds == study.space.bounds and copy.propose() == study.propose()
        assert copy.notes_on(study.history.options[0]) == {"me": "too low"}
        assert study.undo("ann") is None and study.space.open_to("width").high == 2.5
        for _ in range(6):
            assert study.undo() is None
        # What is open is what the study was made with, and so is the cube: nothing was asked while more was open.
        assert not study.space.bounds and study.space.tuned["width"].high == 5.0 and len(study.history.counted()) == 6
        assert study.undo().kind == "pair" and len(study.history.counted()) == 5

    def test_a_slip_that_is_taken_back_leaves_nothing_behind(self):
        study = answered(6)
        before, question = study.best, study.propose()
        study.widen("width", high=500.0)
        study.widen("legs", 1)
        assert study.best.beats_random != before.beats_random
        study.undo()
        study.undo()
        assert study.best == before and replace(study.propose(), after=question.after) == question

    def test_what_somebody_was_asked_about_stays_in_the_cube(self):
        study = answered(6)
        study.widen("width", high=9.0)
        study.ask("ann")
        study.undo()
        assert {name: str(one) for name, one in study.space.bounds.items()} == {"width": "0 to 5"}
        assert study.space.tuned["width"].high == 9.0

    def test_questions_that_wait_are_withdrawn_where_they_are_not_open(self):
        study = answered(2)
        mine, hers = study.ask("me"), study.ask("ann")
        study.lock("legs", mine.a["legs"], voter="bob")
        kept = mine.b["legs"] == mine.a["legs"]
        for question, stays in ((mine, kept), (hers, all(one["legs"] == mine.a["legs"] for one in hers.designs))):
            if stays:
                assert study.ask(question.voter).number == question.number
                continue
            with pytest.raises(StalePairError, match="withdrawn"):
                study.tell(question, "a")
            assert {design["legs"] for design in study.ask(question.voter).designs} == {mine.a["legs"]}
        # Somebody who computed a question before the change does not bring it in after it.
        late = ks.load_study(study.name, storage=study.storage)
        proposed = late.propose(voter="eve")
        study.lock("legs", 9 if mine.a["legs"] != 9 else 8, voter="bob")
        assert late.offer("eve", proposed) is None

    def test_an_answer_is_taken_back_whose_question_is_not_open_any_more(self, tmp_path):
        study = answered(1)
        ((number, (asked, _)),) = study.history.asked.items()
        study.ask()
        study.lock("legs", 9 if asked.a["legs"] != 9 else 8, voter="bob")
        assert study.undo() is None and not study.history.counted() and not study.history.open
        with pytest.raises(StalePairError, match="because a parameter was changed"):
            study.tell(number, "a")
        assert study.ask().number > number
        # Where the change was taken back before, the question is as open as ever; and so is one that was wished for.
        study.tell(study.ask(), "a")
        study.enqueue(MIDDLE, MIDDLE | {"width": 3.0})
        wished = study.ask()
        study.tell(wished, "a")
        assert study.undo() == wished
        study.undo("bob")
        study.tell(wished, "skip")
        ks.import_json(study.export(tmp_path / "study.json"), storage="sqlite://")

    def test_a_file_from_when_such_a_question_was_open_is_read(self, tmp_path):
        study = answered(1)
        number = next(iter(study.history.asked))
        study.lock("legs", 9 if study.history.asked[number][0].a["legs"] != 9 else 8, voter="bob")
        study.undo()
        data = json.loads(study.export(tmp_path / "study.json").read_text())
        late = {"number": 5, "kind": "answered", "body": {"pair": number, "answer": "b", "seconds": None}}
        events = [*data["events"], data["events"][1] | late]
        (tmp_path / "late.json").write_text(json.dumps(study_json.sealed(data | {"events": events})))
        assert len(ks.import_json(tmp_path / "late.json", storage="sqlite://").history.counted()) == 1
        # But once, and not while another is open.
        study.ask()
        asked = json.loads(study.export(tmp_path / "other.json").read_text())["events"][-1]
        for name, wrong in (
            ("twice", [*events, events[-1] | {"number": 6}]),
            ("beside", [*data["events"], asked, events[-1] | {"number": 6}]),
        ):
            (tmp_path / f"{name}.json").write_text(json.dumps(study_json.sealed(data | {"events": wrong})))
            with pytest.raises(CorruptedError, match="was not open"):
                ks.import_json(tmp_path / f"{name}.json", storage="sqlite://")

    def test_a_duel_that_a_change_overtakes_is_asked_with_other_designs(self):
        study = answered(6)
        study.settle(2)
        duel = study.ask()
        assert study.history.settling == 1
        study.lock("legs", 9 if duel.a["legs"] != 9 else 8, voter="bob")
        assert study.history.settling == 2

    def test_the_best_beyond_the_bounds_is_told(self):
        study = answered(10)
        best = study.best
        study.narrow("width", 0.0, 0.5)
        found = study.best
        assert found.params["width"] <= 0.5 or found.outside == ("width",)
        assert found.better_outside in (best.option, None) and found.notes
        for _ in range(3):
            question = study.ask()
            study.tell(question, say(question))
        found = study.best
        assert found.params["width"] <= 0.5 and found.better_outside is not None
        assert f"Option {found.better_outside} seems better still" in found.notes[0]
        (why,) = [
            one for one in reasons(study.definition, study.history, study.model(), found.option) if "holds" in one
        ]
        assert f"design {found.better_outside} to be as good or better" in why and why.endswith(
            "it is not open any more."
        )

    def test_the_edge_comes_with_the_call_that_widens_it(self):
        study = answered(14)
        assert study.best.params["width"] == 5.0
        (edge,) = [one for one in study.best.edges if one.name == "width"]
        assert edge.call == "study.widen('width', high=7.5)" and edge.call in str(study.diagnostics())
        exec(edge.call, {"study": study})
        assert not [one for one in study.best.edges if one.name == "width"]

    @pytest.mark.parametrize(
        ("value", "words"), [(12.0, "= 12, the highest that"), (11.986, "close to 12, the highest")]
    )
    def test_an_edge_is_close_where_it_is_not_there(self, value, words):
        study = ks.create_study({"x": (0.0, 12.0), "y": (0.0, 1.0)}, storage="sqlite://")
        study.add_comparison({"x": value, "y": 0.5}, {"x": value, "y": 0.1})
        assert words in study.best.notes[0] and study.best.edges[0].end == 12.0

    @pytest.mark.parametrize(
        ("part", "value", "call"),
        [
            (ks.Float(0.01, 1.0, log=True), 0.01, "low=0.001"),
            (ks.Float(1.0, 1e4, log=True), 1.0, "low=0.01"),
            (ks.Float(1e-300, 1e300, log=True), 1e300, None),
            (ks.Float(0.0, 1.0, step=0.15), 0.9, "high=1.35"),
            (ks.Int(2, 1000, log=True), 2, "low=1"),
            (ks.Int(1, 1000, log=True), 1, None),
            (ks.Int(10, 1000, log=True, step=5), 10, "low=5"),
            (ks.Int(0, 99_999), 0, None),
            (ks.Float(0.0, 1.0, step=0.1), 1.0, "high=1.5"),
            (ks.Int(1, 9), 1, "low=-3"),
            (ks.Int(0, 1), 1, None),
            (["a", "b"], "a", None),
        ],
    )
    def test_how_far_an_edge_moves(self, part, value, call):
        study = ks.create_study({"x": part, "y": (0.0, 1.0)}, storage="sqlite://")
        study.add_comparison({"x": value, "y": 0.5}, {"x": value, "y": 0.1})
        found = [one for one in study.best.edges if one.name == "x"]
        assert [one.call for one in found] == ([] if call is None else [f"study.widen('x', {call})"])
        for one in found:
            exec(one.call, {"study": study})

    def test_what_reaches_no_further_step_opens_nothing(self):
        study = ks.create_study({"x": ks.Float(0.0, 1.0, step=0.15), "y": (0.0, 1.0)}, storage="sqlite://")
        with pytest.raises(ks.KappaSharpError, match="must open something, but x is open"):
            study.widen("x", high=1.04)
        study.widen("x", high=1.05)
        assert study.space.open_to("x").high == 1.05

    @pytest.mark.parametrize(
        ("call", "why"),
        [
            (lambda s: s.narrow("width", 1.0, 9.0), "must stay within 0 to 5"),
            (lambda s: s.narrow("width", 3.0, 1.0), "low <= high"),
            (lambda s: s.narrow("width"), "must close something"),
            (lambda s: s.narrow("width", "wide"), "must be a number"),
            (lambda s: s.narrow("width", choices=[1.0]), "is a number"),
            (lambda s: s.narrow("depth", 0.41, 0.44), "none of its steps"),
            (lambda s: s.narrow("wood", choices=["ash"]), "must keep some of"),
            (lambda s: s.narrow("wood", choices=[]), "a list of values"),
            (lambda s: s.narrow("wood", 1.0), "is a choice"),
            (lambda s: s.narrow("widht", 1.0), "Did you mean 'width'"),
            (lambda s: s.narrow("maker", choices=["us"]), "is fixed at"),
            (lambda s: s.lock("legs", 2.5), "whole number"),
            (lambda s: s.lock("legs", 99), "`widen` opens more"),
            (lambda s: s.lock("wood", "ash"), "`widen` opens more"),
            (lambda s: s.widen("width", 1.0, 9.0), "must keep 0 to 5"),
            (lambda s: s.widen("gain", low=0.0), "zero has no logarithm"),
            (lambda s: s.widen("depth", low=-0.25), "-0.2 is the nearest|-0.3 is the nearest"),
            (lambda s: s.widen("legs", high=1e9), "more than 100000 values"),
            (lambda s: s.widen("wood"), "must open something"),
            (lambda s: s.note(MIDDLE, "  "), "printable text"),
            (lambda s: s.note({"width": 1.0}, "what"), "must name every parameter"),
        ],
    )
    def test_what_cannot_be_is_refused_and_nothing_is_stored(self, call, why):
        study = ks.create_study(SPACE | {"maker": {"value": "us"}}, storage="sqlite://")
        with pytest.raises(KappaSharpError, match=why):
            call(study)
        assert study.history.number == 0 and study.space.bounds == {}

    def test_something_is_left_to_ask_about(self):
        study = ks.create_study({"x": (0.0, 1.0), "n": ks.Int(1, 3)}, storage="sqlite://", question="slider")
        with pytest.raises(KappaSharpError, match="usually asks a slider"):
            study.lock("x", 0.5)
        pairs = ks.create_study({"x": (0.0, 1.0), "n": ks.Int(1, 3)}, storage="sqlite://", limits=["x + n >= 2"])
        with pytest.raises(KappaSharpError, match="none was found that meets"):
            pairs.narrow("x", 0.0, 0.5) or pairs.lock("n", 1)
        pairs.undo()
        pairs.lock("n", 2)
        with pytest.raises(KappaSharpError, match="two designs to compare"):
            pairs.lock("x", 0.25)


class TestFavourites:
    @pytest.mark.parametrize("kind", ["pair", "choice:4", "order:3", "slider", "rating", "auto"])
    def test_they_are_asked_about_first_and_may_be_best(self, kind):
        mine = [MIDDLE | {"width": 4.9, "legs": 2}, MIDDLE | {"width": 0.5}, MIDDLE | {"wood": "elm"}]
        study = ks.create_study(SPACE, storage="sqlite://", favourites=mine, question=kind)
        shown = []
        while any(one not in shown for one in mine):
            question = study.ask()
            shown += question.designs
            study.tell(question, 0.0 if kind == "slider" and question.a in mine else say(question))
            assert len(study.history.counted()) <= 3
        stored = ks.load_study(study.name, storage=study.storage).definition
        assert stored.favourites == tuple(mine) and stored.plain()["favourites"] == mine
        (row,) = [row for row in study.rows("options") if row["option"] == study.history.option(mine[0])]
        assert row["wins"] >= 1 and row["utility"] is not None

    def test_those_that_cannot_be_are_named(self):
        make = lambda *given, **more: ks.create_study(SPACE, storage="sqlite://", favourites=given, **more)  # noqa: E731
        with pytest.raises(KappaSharpError, match=r"favourites\[1\].*`width` must be from 0 to 5"):
            make(MIDDLE, MIDDLE | {"width": 7.0})
        with pytest.raises(KappaSharpError, match=r"cannot be told from `favourites\[0\]`"):
            make(MIDDLE, MIDDLE | {"width": 2.001})
        with pytest.raises(KappaSharpError, match="breaks 'width <= 1'"):
            make(MIDDLE, limits=["width <= 1"])
        with pytest.raises(KappaSharpError, match="`first_pairs` must be 2 or more"):
            make(*(MIDDLE | {"width": float(i)} for i in range(4)), first_pairs=1)
        study = make(MIDDLE, study_name="mine")
        again = {"storage": study.storage, "study_name": "mine", "load_if_exists": True}
        assert ks.create_study(SPACE, favourites=[MIDDLE], **again).stored.uid == study.stored.uid
        with pytest.raises(KappaSharpError, match="made without"):
            ks.create_study(SPACE, favourites=[MIDDLE | {"width": 1.0}], **again)


class TestNamesAndLists:
    def test_a_new_name_leaves_everything_else(self, url):
        """Under SQLite and PostgreSQL, while others hold the study and write to it."""
        study = ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="chair")
        for _ in range(3):
            study.tell(study.ask(), "a")
        other = ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="table")
        with pytest.raises(DuplicateNameError, match="'table' already"):
            rename_study("chair", "table", storage=url)
        with pytest.raises(KappaSharpError, match="printable text"):
            rename_study("chair", "\n", storage=url)
        renamed = rename_study("chair", "stool", storage=url)
        assert renamed.name == "stool" and renamed.history.comparisons == study.history.comparisons
        study.tell(study.ask(), "b")
        assert [len(ks.load_study("stool", storage=url).history.counted()), len(study.history.counted())] == [4, 4]
        found = list_studies(storage=url)
        assert [(one.name, one.answers, one.voters) for one in found] == [("stool", 4, 1), ("table", 0, 0)]
        assert found[0].last_answer > found[0].created and found[1].last_answer is None
        ks.delete_study("stool", storage=url)
        with pytest.raises(DeletedError, match="somebody deleted it"):
            study.ask()
        for one in (study, other, renamed):
            one.storage.close()

    def test_two_names_at_once_and_answers_meanwhile(self, url):
        study = ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="one", first_pairs=50)

        held = [ks.load_study("one", storage=Storage(url)) for _ in range(3)]

        def work(number):
            mine = held[number]
            for turn in range(4):
                if number == 0:
                    mine.storage.rename(mine.storage.latest(mine.stored), f"name {turn}")
                else:
                    mine.tell(mine.ask(f"voter {number}"), "a")
            mine.storage.close()

        with ThreadPoolExecutor(3) as pool:
            list(pool.map(work, range(3), timeout=120))
        study.refresh()
        assert len(ks.load_study("name 3", storage=url).history.counted()) == 8

    def test_a_damaged_study_is_not_written_anew(self, url):
        study = ks.create_study({"x": (0.0, 1.0)}, storage=url, study_name="chair")
        for _ in range(2):
            study.tell(study.ask(), "a")
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.execute(text("UPDATE kappasharp_events SET voter = 'eve' WHERE number = 2"))
        engine.dispose()
        with pytest.raises(CorruptedError, match="Event 2"):
            rename_study("chair", "stool", storage=url)
        (listed,) = list_studies(storage=url)
        assert listed.name == "chair" and listed.answers is None and "Event 2" in listed.trouble

    def test_notes_are_each_voters_own_and_exported(self):
        study = answered(2)
        first = study.history.options[0]
        study.note(first, "too low")
        study.note(first, "=fine", voter="ann")
        study.note(first, "much too low")
        assert study.notes_on(first) == {"ann": "=fine", "me": "much too low"}
        assert study.rows("options")[0]["notes"] == "ann: =fine; me: much too low"
        study.note(first, None, voter="ann")
        assert study.notes_on(first) == {"me": "much too low"} and study.undo().kind == "pair"


def test_what_a_search_takes_for_open_is_open():
    """On a log range the rounding of a point and that of a value differ: such a design was asked for ever."""
    study = ks.create_study({"x": ks.Float(1e-3, 1e3, log=True)}, storage="sqlite://", first_pairs=1)
    value = 900.0 + 5.0 * SLACK * 1000.0
    for other in (1.0, 0.01):
        study.add_comparison({"x": value}, {"x": other})
    study.add_comparison({"x": 30.0}, {"x": 0.01})
    study.narrow("x", high=900.0)
    assert not float(points.beyond(study.space, points.points(study.space, [{"x": value}])))
    study.settle(3)
    assert {"x": value} in study.ask().designs
    assert study.space.outside({"x": 901.0})


def test_a_question_that_is_refused_again_and_again_is_no_endless_loop(monkeypatch):
    study = ks.create_study(SPACE, storage="sqlite://")
    monkeypatch.setattr(staleness, "still_right", lambda *_, **__: None)
    with pytest.raises(KappaSharpError, match="No question can be put to 'me'"):
        study.ask()
    monkeypatch.undo()
    assert study.ask().number

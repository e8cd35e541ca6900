"""Studies with outcomes, over real databases: what is stored, what is learnt on, what is told."""

import json
import math
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import kappasharp as ks
from kappasharp.errors import CorruptedError, InvalidTypeError, InvalidValueError, StorageError, UnknownNameError
from kappasharp.exchange import study_json, study_toml
from kappasharp.exchange.study_json import sealed
from kappasharp.journal import validation
from kappasharp.journal.events import Asked, Recorded
from kappasharp.simulators import function, records
from kappasharp.store.storage import Storage
from kappasharp.study.creation import define
from tests.study import simulators
from tests.study.simulators import SPACE, liked

FUNCTION = "tests.study.simulators:simulate"
NAMES = ("overshoot", "settling")


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'studies.db'}"


def closure(function=simulators.simulate):
    """A function without a name: it runs in this process, and no worker has to start."""
    return partial(_call, function)


def _call(function, design):
    return function(design)


def computed(url, function=simulators.simulate, **more):
    return ks.create_study(SPACE, storage=url, study_name="pid", seed=3, outcomes=closure(function), **more)


def answer(study, question):
    """What somebody answers who looks at outcomes alone."""
    designs = [question.at(i / 20) for i in range(21)] if question.kind == "slider" else question.designs
    likes = [liked(simulators.simulate(design)) for design in designs]
    order = sorted(range(len(likes)), key=lambda i: -likes[i])
    return {
        "pair": "a" if order[0] == 0 else "b",
        "rating": 2 if order[0] == 0 else -2,
        "choice": order[0],
        "order": order,
        "slider": order[0] / 20,
    }[question.kind]


def answered(study, count, voter="me", **kind):
    for _ in range(count):
        question = study.ask(voter, **kind)
        study.tell(question, answer(study, question))
    return study


def events_of(study):
    return [stored.event for stored in study.storage.read(study.stored)]


class TestWhatIsSaid:
    """Functions, names, tables; hints and limits."""

    def test_a_function_of_a_module_is_stored_by_its_name(self, url):
        study = ks.create_study(SPACE, storage=url, outcomes=simulators.simulate)
        stored = json.loads(study.stored.text)["outcomes"]
        assert stored["table"] == {"overshoot": {}, "settling": {}} and stored["is_computed"] is True
        assert stored["function"] == FUNCTION and math.log2(stored["seconds"]).is_integer()
        assert ks.create_study(SPACE, storage=url, outcomes=FUNCTION).definition.outcomes.names == NAMES

    def test_a_closure_is_not_stored(self, url):
        stored = json.loads(computed(url).stored.text)["outcomes"]
        assert stored["function"] is None and stored["is_computed"] is True

    def test_names_alone_are_measured(self, url):
        study = ks.create_study(SPACE, storage=url, outcomes=["mass", "comfort"])
        assert study.definition.outcomes.names == ("mass", "comfort") and study.definition.simulator is None
        assert study.ask().number == 1 and study.outcomes({"kp": 1.0, "ki": 1.0}) is None

    def test_hints_and_limits(self, url):
        study = computed(
            url,
            hints=[ks.Less("overshoot")],
            limits=[ks.AtMost("overshoot", np.float32(0.2)), ks.AtLeast("settling", 1)],
        )
        again = ks.load_study("pid", storage=url).definition.outcomes
        assert again == study.definition.outcomes
        assert [one.plain() for one in again.table] == [{"better": "less", "at_most": 0.2}, {"at_least": 1}]
        measured = ks.create_study(SPACE, storage=url, outcomes={"mass": {"at_most": np.float32(0.1)}})
        assert measured.definition.outcomes.table[0].at_most == 0.1

    def test_a_study_file(self, tmp_path):
        path = tmp_path / "pid.toml"
        path.write_text(
            f'limits = ["kp + ki <= 3"]\n[parameters]\nkp = {{low = 0.2, high = 3.0}}\nki = {{low = 0.0, high = 2.0}}\n'
            f'[outcomes]\nfunction = "{FUNCTION}"\novershoot = {{better = "less", at_most = 0.4}}\n'
        )
        file = study_toml.read(path)
        definition = define(file.space, **file.options)
        assert [one.plain() for one in definition.outcomes.table] == [{"better": "less", "at_most": 0.4}, {}]
        assert definition.outcomes.function == FUNCTION and definition.limits == ("kp + ki <= 3",)
        path.write_text(
            path.read_text().replace(f'function = "{FUNCTION}"\n', "").replace("[outcomes]", "[outcomes]\nmass = {}")
        )
        assert define(study_toml.read(path).space, **study_toml.read(path).options).outcomes.names == (
            "mass",
            "overshoot",
        )

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({"outcomes": 3}, "must be a function, module:function, names"),
            ({"outcomes": []}, "must have 1 to 64 of them, but got 0"),
            ({"outcomes": ["a", "a"]}, "a name of its own"),
            ({"outcomes": ["kp"]}, "another name than every parameter"),
            ({"outcomes": ["a=b"]}, "no '='"),
            ({"outcomes": ["\n"]}, "printable text"),
            ({"outcomes": "nocolon"}, "must be module:function"),
            ({"outcomes": {"mass": {"beter": "less"}}}, "Did you mean 'better'"),
            ({"outcomes": {"mass": {"better": "fewer"}}}, "must be 'less' or 'more'"),
            ({"outcomes": {"mass": 3}}, "must be a table such as"),
            ({"outcomes": {"mass": {"at_most": "much"}}}, "must be a number"),
            ({"outcomes": {"mass": {"at_most": 1.0, "at_least": 2.0}}}, "leave something between them"),
            ({"outcomes": ["mass"], "hints": [ks.Less("mas")]}, "Did you mean 'mass'"),
            ({"outcomes": ["mass"], "hints": [ks.Less("mass"), ks.More("mass")]}, "better one way only"),
            ({"outcomes": ["mass"], "hints": ["mass"]}, "must hold ks.Less or ks.More"),
            ({"outcomes": ["mass"], "limits": [ks.AtMost("mass", math.nan)]}, "must be a finite number"),
            ({"outcomes": ["mass"], "limits": "kp < 1"}, "must be a list"),
            ({"hints": [ks.Less("mass")]}, "the study has none"),
            ({"limits": [ks.AtMost("mass", 1.0)]}, "the study has none"),
            ({"limits": ["kp + mass <= 1"]}, "mass"),
            ({"limits": ["kp <= 0"]}, "must leave a design to propose"),
        ],
    )
    def test_mistakes(self, given, words):
        with pytest.raises((InvalidValueError, InvalidTypeError, UnknownNameError), match=words):
            define(SPACE, **given)

    @pytest.mark.parametrize("function", [simulators.raising, simulators.nothing, simulators.renaming_above])
    def test_a_function_that_does_not_work_stores_nothing(self, function, url):
        with pytest.raises(InvalidValueError, match="Nothing was stored"):
            computed(url, function)
        assert Storage(url).studies() == []

    def test_a_text_that_limits_an_outcome_is_told_how(self):
        with pytest.raises(UnknownNameError, match=r"called 'mass'.*ks.AtMost and ks.AtLeast limit outcomes"):
            ks.create_study(SPACE, storage="sqlite://", outcomes=["mass"], limits=["mass <= 3"])

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"limits": ["kp <= 2"]}, "made without the limit 'kp <= 2';"),
            ({"limits": [ks.AtMost("mass", 3.0)]}, "made without at_most = 3.0 of 'mass';"),
            ({"hints": [ks.More("mass")]}, "made without better = more of 'mass';"),
            ({"outcomes": {"mass": {"at_least": 1.0}}}, "made without at_least = 1.0 of 'mass';"),
        ],
    )
    def test_a_stored_study_is_not_opened_with_other_hints_and_limits(self, more, words, url):
        said = {"outcomes": ["mass"], "hints": [ks.Less("mass")], "limits": ["ki <= kp", ks.AtMost("mass", 4.0)]}
        made = partial(ks.create_study, SPACE, storage=url, study_name="one", load_if_exists=True)
        made(**said)
        assert made(**said).name == made().name == "one"
        with pytest.raises(InvalidValueError, match=words):
            made(**more)


class TestEvents:
    """Outcomes are events like all others."""

    def test_those_of_designs_shown_are_stored(self, url):
        study = computed(url)
        pair = study.ask()
        asked, *recorded = events_of(study)
        assert isinstance(asked, Asked) and study.ask() == pair
        assert recorded == [Recorded(d, simulators.simulate(d), "simulated") for d in (pair.a, pair.b)]
        assert study.outcomes(pair.a) == simulators.simulate(pair.a)
        study.tell(pair, "a")
        assert len(events_of(study)) == 4
        study.undo()
        assert study.outcomes(pair.b) == simulators.simulate(pair.b) and study.ask() == pair

    def test_where_a_slider_was_left(self, url):
        study = computed(url)
        asked = study.ask(kind="slider")
        left = study.tell(asked, 0.35)
        at = study.history.options[left.options[0]]
        assert study.history.outcomes(at).values == simulators.simulate(at)

    def test_designs_from_elsewhere(self, url):
        study = computed(url)
        one, other = {"kp": 1.0, "ki": 0.1}, {"kp": 2.0, "ki": 0.1}
        study.add_comparison(one, other)
        assert [study.history.outcomes(d).values for d in (one, other)] == [
            simulators.simulate(d) for d in (one, other)
        ]

    def test_a_study_without_outcomes_stores_what_it_ever_stored(self, tmp_path):
        """The entries of its definition and of its events, in their order, are those of version 0.2."""
        study = ks.create_study(SPACE, storage="sqlite://", study_name="plain", seed=3)
        for _ in range(7):
            pair = study.ask()
            study.tell(pair, answer(study, pair))
        kinds = {type(event).__name__ for event in events_of(study)}
        assert kinds == {"Asked", "Answered"} and study.plain()["version"] == 2
        assert list(json.loads(study.stored.text)) == ["space", "seed", "method", "preset", "first_pairs"]
        bodies = [row["body"] for row in study.plain()["events"]]
        assert {tuple(body) for body in bodies} == {
            ("a", "b", "origin", "after", "memo"),
            ("pair", "answer", "seconds"),
        }
        memo = bodies[-2]["memo"]
        assert len(memo["theta"]) == 3 and memo.keys() == validation.MEMO | validation.LATER_MEMO

    def test_measured_ones(self, url):
        study = ks.create_study(SPACE, storage=url, study_name="pid", outcomes=["mass", "comfort"])
        design = {"kp": 1.0, "ki": 0.5}
        known = study.record(design, {"mass": 3, "comfort": 7.5}, voter="bench")
        assert known.values == {"mass": 3.0, "comfort": 7.5} and known.spread == {} and known.source == "measured"
        study.record(design, {"mass": 4.0})
        assert study.outcomes(design) == {"mass": 4.0, "comfort": 7.5}, "of each the last one counts"
        for mass in (5.0, 6.0):
            known = study.record(design, {"mass": mass}, repeat=True)
        assert known.values == {"mass": 5.0, "comfort": 7.5} and known.spread == {"mass": 1.0}
        again = ks.load_study("pid", storage=url)
        assert again.history.known == study.history.known and again.history.options == []
        assert study.record(design, None) is None and study.outcomes(design) is None
        assert [stored.voter for stored in study.storage.read(study.stored)] == ["bench", *["me"] * 4]

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            (({"kp": 1.0}, {"mass": 1.0}), "must name every parameter"),
            (({"kp": 9.0, "ki": 0.0}, {"mass": 1.0}), "kp"),
            (({"kp": 1.0, "ki": 0.0}, {"mas": 1.0}), "Did you mean 'mass'"),
            (({"kp": 1.0, "ki": 0.0}, {"mass": "much"}), "must be a number"),
            (({"kp": 1.0, "ki": 0.0}, {"mass": math.inf}), "must be a finite number"),
            (({"kp": 1.0, "ki": 0.0}, {}), "must name mass"),
            (({"kp": 1.0, "ki": 0.0}, 3.0), "must be a mapping"),
        ],
    )
    def test_records_that_are_none(self, given, words):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=["mass"])
        with pytest.raises((InvalidValueError, InvalidTypeError, UnknownNameError), match=words):
            study.record(*given)
        assert events_of(study) == []

    def test_a_record_of_nothing_is_told_that_some_outcomes_are_enough(self):
        study = ks.create_study(SPACE, storage="sqlite://", outcomes=["mass", "comfort"])
        with pytest.raises(InvalidValueError, match="name at least one of mass, comfort, but got"):
            study.record({"kp": 1.0, "ki": 0.0}, {})

    def test_a_study_without_outcomes_takes_no_records(self):
        with pytest.raises(InvalidValueError, match="this one has none"):
            ks.create_study(SPACE, storage="sqlite://").record({"kp": 1.0, "ki": 0.0}, {"mass": 1.0})

    def test_a_failure_is_recorded_and_the_study_goes_on(self, url):
        study = answered(computed(url, simulators.raises_above), 8)
        failed = [one for one in study.history.known.values() if one.failure is not None]
        assert failed and all("unstable" in one.failure and one.design["kp"] > 1.5 for one in failed)
        assert study.outcomes(failed[0].design) is None
        assert "designs have no outcomes. The last, {'kp': " in str(study.diagnostics())
        # With the function mended, what was missing is computed and stored.
        mended = ks.load_study("pid", storage=url, outcomes=closure())
        known = [mended.history.outcomes(one.design) for one in failed]
        assert [one.values for one in known] == [simulators.simulate(one.design) for one in failed]
        assert not any("no outcomes" in note for note in mended.notes())
        seen = {tuple(one.params.items()) for one in mended.tradeoffs()}
        assert all(tuple(one.design.items()) in seen for one in failed)

    def test_a_failure_is_tried_again_once_in_a_process_and_a_few_at_a_time(self, url, monkeypatch):
        study = answered(computed(url, simulators.raises_above), 10)
        failed = [one.design for one in study.history.known.values() if one.failure is not None]
        assert len(failed) >= 4
        calls = []

        def still(design):
            calls.append(design)
            return simulators.raises_above(design)

        monkeypatch.setattr(records, "MOST_AGAIN", 2)
        again = ks.load_study("pid", storage=url, outcomes=still)
        assert calls == failed[:-3:-1] and events_of(again) == events_of(study), "nothing that is no news is stored"
        again.try_again()
        assert calls == failed[:-5:-1]
        calls.clear()
        ks.load_study("pid", storage=url)
        ks.load_study("pid", storage=url, through=3, outcomes=still)
        assert calls == []

    def test_one_that_hung_is_tried_again_when_asked_for(self, url, monkeypatch):
        study = computed(url)
        design, calls = {"kp": 1.0, "ki": 0.5}, []
        hung = Recorded(design, None, "simulated", failure=function.in_a_line(function.too_long(30.0)))
        study._write("me", lambda _: hung)
        again = ks.load_study("pid", storage=url, outcomes=lambda one: calls.append(one) or simulators.simulate(one))
        assert calls == [] and again.history.outcomes(design).failure == hung.failure
        again.complete()
        assert calls == [design] and again.history.outcomes(design).values == simulators.simulate(design)

    def test_a_process_that_is_killed_loses_nothing_that_was_stored(self, url):
        code = (
            "import os, sys; import kappasharp as ks; from tests.study import simulators as s\n"
            f"study = ks.create_study(s.SPACE, storage={url!r}, study_name='pid', outcomes=lambda d: s.simulate(d))\n"
            "pair = study.ask(); study.tell(pair, 'a'); study.ask(); os._exit(9)"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 9
        study = ks.load_study("pid", storage=url, outcomes=closure())
        assert len(study.history.known) == 4 and study.history.open_pair("me") is not None
        assert all(known.values == simulators.simulate(known.design) for known in study.history.known.values())


class TestFiles:
    """Out and in again."""

    def test_there_and_back(self, url, tmp_path):
        study = answered(computed(url, limits=["kp + ki <= 4"]), 7)
        study.record({"kp": 1.0, "ki": 0.25}, {"overshoot": 0.2})
        path = study.export(tmp_path / "study.json")
        data = json.loads(path.read_text())
        assert data["version"] == study_json.OUTCOMES_VERSION == 4
        copy = ks.import_json(path, storage=url, study_name="copy")
        assert copy.history.known == study.history.known and copy.definition.outcomes == study.definition.outcomes
        copy = ks.import_json(path, storage="sqlite://", outcomes=closure())
        assert copy.best_params == study.best_params and copy.ask().designs == study.ask().designs

    def test_tables(self, url, tmp_path):
        study = answered(computed(url), 3)
        rows = pd.read_csv(study.export(tmp_path / "options.csv", table="options"))
        known = [simulators.simulate(design) for design in study.history.options]
        assert rows["outcomes_overshoot"].tolist() == pytest.approx([one["overshoot"] for one in known])
        parquet = pd.read_parquet(study.export(tmp_path / "options.parquet", table="options"))
        assert parquet["outcomes_settling"].tolist() == [one["settling"] for one in known]
        answers = study.comparisons_dataframe()
        assert answers["b_outcomes_overshoot"].tolist() == [known[i]["overshoot"] for i in answers["b"]]

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"outcomes": {"overshoot": 1.0}}, "must name settling"),
            ({"outcomes": {"overshoot": 1.0, "settling": "long"}}, "must be a number"),
            ({"outcomes": {"overshoot": 1.0, "mass": 1.0}}, "mass"),
            ({"source": "guessed"}, "guessed"),
            ({"repeat": True}, "only a measurement is repeated"),
            ({"repeat": 1}, "must be true or false"),
            ({"failure": "x"}, "a failure is a computation's, alone"),
            ({"failure": "x\n", "outcomes": None}, "printable"),
            ({"outcomes": None}, "a computation has a result"),
            ({"design": {"kp": 1.0}}, "every parameter"),
        ],
    )
    def test_events_that_could_not_have_happened(self, change, words, tmp_path):
        study = computed("sqlite://")
        study.ask()
        data = study.plain()
        data["events"][1]["body"] |= change
        path = tmp_path / "study.json"
        path.write_text(json.dumps(sealed(data)))
        with pytest.raises(CorruptedError, match=words):
            ks.import_json(path, storage="sqlite://")

    def test_no_records_without_outcomes(self, tmp_path):
        data = computed("sqlite://").plain()
        plain = ks.create_study(SPACE, storage="sqlite://").plain()
        study = computed("sqlite://")
        study.ask()
        path = tmp_path / "study.json"
        path.write_text(
            json.dumps(sealed(data | {"definition": plain["definition"], "events": study.plain()["events"]}))
        )
        with pytest.raises(CorruptedError, match="the study has no outcomes"):
            ks.import_json(path, storage="sqlite://")

    def test_an_older_version_would_refuse_the_definition(self, url):
        with pytest.raises((StorageError, CorruptedError), match="which this version does not know"):
            data = computed("sqlite://").plain()
            data["definition"]["outcomes"]["units"] = {}
            path = Path(url.removeprefix("sqlite:///")).with_name("study.json")
            path.write_text(json.dumps(sealed(data)))
            ks.import_json(path, storage=url)


def test_a_hint_and_a_correction_exclude_each_other():
    """The correction is calibrated on the answers alone: with beliefs beside them it has no meaning."""
    with pytest.raises(InvalidValueError, match="'static' and a hint about 'overshoot'; leave out one"):
        ks.create_study(
            simulators.SPACE, storage="sqlite://", outcomes=simulators.simulate, hints=[ks.Less("overshoot")],
            method="static",
        )  # fmt: skip
    study = ks.create_study(
        simulators.SPACE, storage="sqlite://", outcomes=simulators.simulate, method="static", first_pairs=2
    )
    for _ in range(10):
        pair = study.ask()
        liked = [simulators.liked(simulators.simulate(design)) for design in pair.designs]
        study.tell(pair, "a" if liked[0] > liked[1] else "b")
    assert study.best.status == "ok" and study.diagnostics().gate_open

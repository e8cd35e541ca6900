"""Voters told apart: what suits each and all, who is like whom, what they split on, and how much each counts."""

import json
import random
from dataclasses import asdict, replace

import pytest
import torch

import kappasharp as ks
from kappasharp import jobs
from kappasharp.errors import CorruptedError, InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.exchange.study_json import sealed
from kappasharp.findings import agreement, best
from kappasharp.results import agreement as results_agreement
from kappasharp.study.collection import import_json
from kappasharp.study.snapshot import snapshot
from kappasharp.views import team

SPACE = {"width": (0.0, 1.0), "depth": (0.0, 1.0), "colour": (0.0, 1.0)}
NARROW, BROAD = 0.1, 0.9
TWO_TASTES = {"anna": NARROW, "ben": BROAD, "cleo": NARROW, "dirk": BROAD, "eve": NARROW}


def answered(likes, turns=16, seed=0, often=None, **options):
    """A study whose voters like a width each, the middle of the depth, and no colour more than another.

    Each answers once in a turn, or as `often` has it.
    """
    study, chance = ks.create_study(SPACE, storage="sqlite://", seed=seed, **options), random.Random(seed)
    rows = ["voter,answer," + ",".join(f"{side}.{name}" for side in "ab" for name in SPACE)]
    for _ in range(turns):
        for voter, width in [one for one in likes.items() for _ in range((often or {}).get(one[0], 1))]:
            pair = [{name: round(chance.random(), 6) for name in SPACE} for _ in "ab"]
            off = [(one["width"] - width) ** 2 + 0.3 * (one["depth"] - 0.5) ** 2 for one in pair]
            values = ",".join(str(one[name]) for one in pair for name in SPACE)
            rows.append(f"{voter},{'a' if off[0] < off[1] else 'b'},{values}")
    study.import_text("\n".join(rows) + "\n", "me")
    return study


@pytest.fixture(scope="module")
def study():
    return answered(TWO_TASTES)


def test_two_tastes_are_found_and_what_they_split_on(study):
    found = study.agreement()
    assert [one.voters for one in found.groups] == [("anna", "cleo", "eve"), ("ben", "dirk")]
    assert all(one.alike > results_agreement.ALIKE for one in found.groups)
    assert found.alike[0][2] > results_agreement.ALIKE > found.alike[0][1]
    split = found.splits[0]
    assert split.parameter == "width" and split.share > 0.8 and split.sure > 0.9
    assert split.likes[0] < 0.4 and split.likes[1] > 0.6
    widths = {one.voter: one.best.params["width"] for one in found.voters}
    assert all((width < 0.4) == (TWO_TASTES[voter] == NARROW) for voter, width in widths.items())
    assert widths == {voter: study.best_for(voter).params["width"] for voter in TWO_TASTES}
    assert 0.0 < found.shared < 0.9 and found.status == "ok" and found.answers == 80
    # The minority is worst off with what suits most, and less so with the fairest.
    least = [
        min(found.voters, key=lambda one, which=which: getattr(one, which)) for which in ("likes_best", "likes_fairest")
    ]
    assert least[0].voter in ("ben", "dirk") and least[1].likes_fairest >= least[0].likes_best
    assert "They split most on width" in str(found) and "2 groups" in str(found)
    json.dumps(asdict(found), allow_nan=False)


def test_a_few_who_give_most_of_the_answers_are_said_to_be_leant_to():
    loud = {"anna": NARROW, "ben": NARROW, "cleo": BROAD}
    assert answered(loud, turns=10).agreement().leaning is None
    study = answered(loud, turns=14, often={"cleo": 3})
    found = study.agreement()
    assert found.leaning == 1 and found.groups[1].voters == ("cleo",)
    assert "Group 2 has 1 of 3 voters and gave 60% of the answers." in str(found)
    # What counts answers leans to her, what counts voters does not.
    assert study.best.params["width"] > found.best.params["width"] + 0.1
    study.weigh({"cleo": 0.9})
    assert study.agreement().leaning is None and study.best.params == found.best.params


def test_weights_move_the_common_best_and_stay_in_the_study(study, tmp_path):
    study = import_json(study.export(tmp_path / "one.json"), storage="sqlite://", study_name="weighed")
    alike, before = study.agreement().best.params["width"], study.best
    study.weigh(dict.fromkeys(TWO_TASTES, 2))
    assert study.best == before and before.weighed is None  # who all count the same count as ever
    study.weigh({"anna": 0, "cleo": 0, "eve": 0})
    found = study.agreement()
    # The best that everybody looks at is that of the weights, and says so.
    assert study.best == replace(found.best, weighed=study.best.weighed) and study.best_params == found.best.params
    assert study.best.notes[0].startswith("It is the best by the weights that are set: anna 0, cleo 0, eve 0;")
    at = snapshot(study)
    assert jobs.standing(at)["best"] == jobs.best_view(at)["best"] == asdict(study.best)
    assert jobs.stock(at, 1)[1] is None  # nobody's question waits for that fit
    assert best.course(study.definition, study.history)[-1].preferred == study.best.beats_random
    assert alike < 0.5 < found.best.params["width"] and found.fairest.params["width"] > 0.5
    assert {one.voter: one.weight for one in found.voters} == {"anna": 0, "ben": 1, "cleo": 0, "dirk": 1, "eve": 0}
    assert "Weights are set: anna 0, cleo 0, eve 0" in str(found)
    assert study.best.weighed.endswith("; the others count 1.") and "; the others count 1." in str(found)
    # Nobody is one of the others where everybody has a weight.
    study.weigh({name: 2 + 0.5 * (name == "ben") for name in TWO_TASTES})
    words = "by the weights that are set: anna 2, ben 2.5, cleo 2, dirk 2, eve 2."
    assert study.best.weighed.endswith(words) and "the others count" not in str(study.agreement())
    study.weigh({"anna": 3, "ben": 2.5})
    assert study.history.weights == {"anna": 3.0, "ben": 2.5}
    again = import_json(study.export(tmp_path / "two.json"), storage="sqlite://", study_name="again")
    assert again.history.weights == study.history.weights and again.agreement() == study.agreement()
    study.weigh(None)
    assert study.history.weights == {} and study.agreement().best.params["width"] == alike and study.best == before


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        ({"nora": 1}, UnknownNameError, "No voter is called 'nora'"),
        ({"anna": -1}, InvalidValueError, "from 0 to"),
        ({"anna": float("nan")}, InvalidValueError, "finite"),
        ({"anna": float("inf")}, InvalidValueError, "finite"),
        ({"anna": 1e9}, InvalidValueError, "from 0 to"),
        ({"anna": "2"}, InvalidTypeError, "must be a number"),
        (dict.fromkeys(TWO_TASTES, 0), InvalidValueError, "all of them have 0"),
        ([1, 2], InvalidTypeError, "a table of voters"),
        ({7: 1}, UnknownNameError, "No voter"),
    ],
)
def test_bad_weights_are_refused_and_nothing_is_kept(study, weights, error, words):
    before = study.history.number
    with pytest.raises(error, match=words):
        study.weigh(weights)
    assert study.history.number == before and study.history.weights == {}


def test_weights_in_a_file_are_checked_too(study, tmp_path):
    path = study.export(tmp_path / "one.json")
    data = json.loads(path.read_text())
    event = {"number": len(data["events"]) + 1, "voter": "me", "time": data["events"][-1]["time"], "kind": "weighed"}
    data["events"].append(event | {"body": {"weights": {"anna": -2}}})
    path.write_text(json.dumps(sealed(data)))
    with pytest.raises(CorruptedError, match="from 0 to"):
        import_json(path, storage="sqlite://")


def test_the_same_taste_is_one_group_and_opposite_ones_do_not_cancel_into_silence():
    same = answered(dict.fromkeys(("anna", "ben", "cleo"), 0.3)).agreement()
    assert [one.voters for one in same.groups] == [("anna", "ben", "cleo")] and same.splits == ()
    assert same.shared > 0.75 and same.best.option == same.fairest.option and "They agree" in str(same)
    opposite = answered({"anna": NARROW, "ben": BROAD}, turns=20).agreement()
    assert len(opposite.groups) == 2 and opposite.alike[0][1] < 0.5
    assert all(one.best.beats_random > 0.7 for one in opposite.voters)


def test_who_has_not_answered_is_predicted_and_said_to_be(study, tmp_path):
    study = import_json(study.export(tmp_path / "one.json"), storage="sqlite://", study_name="more")
    study.ask(voter="fred")
    study.tell(study.ask(voter="gina"), "skip")
    study.ask()  # nobody's name: who only looks is no voter
    study.join_as_program("judge", "a script")
    study.tell(study.ask(voter="judge"), "a")
    found = {one.voter: one for one in study.agreement().voters}
    assert list(found) == [*TWO_TASTES, "judge", "fred", "gina"]
    assert [name for name, one in found.items() if one.predicted] == ["fred", "gina"]
    assert found["gina"].answers == 0 and found["gina"].group is None and found["gina"].consistency is None
    assert found["judge"].program and not found["anna"].program and found["judge"].group is None
    words = str(study.agreement())
    assert "No answers yet: fred and gina. What they like is predicted" in words
    assert "Programs among the voters: judge." in words and "Too few answers to tell yet: those of judge." in words
    best = study.best_for("gina")
    assert (
        best.predicted_for == "gina" and "predicted" in best.notes[0] and study.best_for("anna").predicted_for is None
    )
    assert "there are no answers of theirs" in str(best.advice)
    assert best.advice.what == "not_enough_signal" and study.best_for("anna").advice.what != "not_enough_signal"
    # A stranger is predicted as well, and nobody without a name is anybody.
    assert study.best_for("zoe").params == best.params
    with pytest.raises(InvalidValueError, match="voter"):
        study.best_for(" ")


def test_one_voter_is_one():
    study = answered({"anna": NARROW}, turns=12)
    assert study.best_for("anna") == study.best
    found = study.agreement()
    assert found.best == found.fairest == study.best and found.shared == 1.0
    assert found.splits == found.groups == () and found.alike == ((1.0,),)
    assert str(found) == "One voter alone has answered, anna: there is nobody to agree with."


def test_who_answers_by_lot_agrees_with_nobody():
    """What the model believes of them is what it believes of everybody; that would look like agreement."""
    study, alone = answered({"anna": NARROW, "ben": NARROW}), answered({"anna": NARROW})
    chance = random.Random(1)
    for _ in range(16):
        pair = [{name: chance.random() for name in SPACE} for _ in "ab"]
        for one in (study, alone):
            one.add_comparison(*pair, tie=True, voter="lot")
    found = study.agreement()
    assert found.voters[2].is_careless and found.voters[2].group is None and found.alike[0][2] > results_agreement.ALIKE
    assert [one.voters for one in found.groups] == [("anna", "ben")]
    assert "They agree: anna and ben" in str(found) and "Too few" not in str(found) and "answers of lot." in str(found)
    assert any("close to chance" in str(mark.title) for mark in team.agreement_map(found).marks)
    assert alone.agreement().groups == () and str(alone.agreement()).startswith("Nobody can be told to agree")


def test_few_answers_are_said_to_tell_nothing():
    found = answered(TWO_TASTES, turns=3).agreement()
    assert found.groups == found.splits == () and "Too few answers to tell" in str(found)
    with pytest.raises(InvalidValueError, match="no answers yet"):
        ks.create_study(SPACE, storage="sqlite://").agreement()


def test_a_fit_without_its_certificate_is_said(study, monkeypatch):
    apart = study.moment().apart
    object.__setattr__(apart.surrogate, "status", ("fit_not_converged",))
    found = agreement.agreement(study.definition, study.history, apart)
    object.__setattr__(apart.surrogate, "status", ("ok",))
    assert found.status == "fit_not_converged" and "lacks its certificate (fit_not_converged)" in str(found)


def test_questions_are_as_they_were():
    looked, plain = answered(TWO_TASTES, turns=3), answered(TWO_TASTES, turns=3)
    assert looked.agreement().voters
    assert looked.ask(voter="anna").designs == plain.ask(voter="anna").designs


def test_a_study_that_tells_its_voters_apart_by_itself():
    found = answered(TWO_TASTES, tell_apart=True).agreement()
    assert [one.voters for one in found.groups] == [("anna", "cleo", "eve"), ("ben", "dirk")]
    alone = answered({"anna": NARROW}, turns=3, tell_apart=True).agreement()
    assert alone.shared == 1.0 and alone.best == alone.fairest


def test_a_corrected_study_says_that_it_cannot():
    study = answered(TWO_TASTES, turns=2, method="adaptive")
    with pytest.raises(InvalidValueError, match="plain method"):
        study.agreement()
    before = study.best
    study.weigh({"anna": 5})
    assert replace(study.best, weighed=None) == before and "all answers count alike" in study.best.notes[0]


@pytest.mark.parametrize("question", ["order:3", "slider"])
def test_of_other_kinds_too(question):
    study = ks.create_study(SPACE, question=question, storage="sqlite://")
    for turn in range(8):
        asked = study.ask(voter="anna" if turn % 2 else "ben")
        study.tell(asked, 0.3 if question == "slider" else [2, 0, 1])
    assert len(study.agreement().voters) == 2


def test_average_linkage_is_that_of_the_definition():
    alike = torch.tensor([[1.0, 0.9, 0.6, 0.0], [0.9, 1.0, 0.7, 0.1], [0.6, 0.7, 1.0, 0.2], [0.0, 0.1, 0.2, 1.0]])
    assert agreement.clusters(alike, 0.7) == [[0, 1], [2], [3]]
    assert agreement.clusters(alike, 0.64) == [[0, 1, 2], [3]]
    assert agreement.clusters(alike, 0.05) == [[0, 1, 2, 3]]


def test_a_study_that_tells_voters_apart_asks_each_about_their_own(tmp_path):
    likes = {"anna": NARROW, "ben": BROAD}
    own, pooled = (answered(likes, tell_apart=apart) for apart in (True, False))
    asked = {voter: own.ask(voter=voter).designs for voter in (*likes, "cleo")}
    assert asked["anna"] != pooled.ask(voter="anna").designs
    assert sum(one["width"] for one in asked["anna"]) / 2 < 0.5 < sum(one["width"] for one in asked["ben"]) / 2
    # Somebody who has not answered is asked too; no two are asked the same.
    assert len({frozenset(map(str, designs)) for designs in asked.values()}) == len(asked)
    for voter, width in likes.items():
        assert abs(own.best_for(voter).params["width"] - width) < 0.25
    path = own.export(tmp_path / "own.json")
    again = import_json(path, storage="sqlite://")
    assert again.definition.tell_apart and again.best.params == own.best.params


@pytest.mark.parametrize("options", [{"tell_apart": 1}, {"tell_apart": True, "method": "adaptive"}])
def test_telling_apart_is_yes_or_no_and_needs_the_plain_method(options):
    with pytest.raises((InvalidTypeError, InvalidValueError), match="`tell_apart`"):
        ks.create_study(SPACE, storage="sqlite://", **options)


def test_limits_that_the_common_best_or_a_better_one_breaks_are_said():
    kept = answered({"anna": BROAD, "ben": BROAD}, turns=8, limits=["width <= 0.5"])
    found = kept.agreement()
    assert found.best.params["width"] <= 0.5 and found.best.better_breaking is not None
    keys = [one.key for one in found.sentences]
    assert keys[keys.index("limit.better") - 1] in ("team.best", "team.both")
    assert found.sentences[keys.index("limit.better")] == kept.best.notes[0]
    # Where nobody compared a design that keeps the limits, what is told breaks one: each behind its own design.
    broken = answered({"anna": NARROW, "ben": BROAD}, turns=10, limits=["width >= 0.9999"]).agreement()
    keys = [one.key for one in broken.sentences]
    assert broken.best.breaks == broken.fairest.breaks == ("'width >= 0.9999'",)
    told = 1 if broken.best.option == broken.fairest.option else 2
    assert keys.count("limit.broken") == told and "This design breaks 'width >= 0.9999'" in str(broken)
    alone = answered({"anna": BROAD}, turns=8, limits=["width <= 0.5"]).agreement()
    assert [one.key for one in alone.sentences] == ["team.alone", "team.leads", "limit.better"]

"""Voters told apart: what suits each and all, who is like whom; and that one voter is one."""

import pytest

import kappasharp as ks
from kappasharp.errors import InvalidValueError

SPACE = {"width": (0.0, 1.0), "depth": (0.0, 1.0)}
LIKES = {"anna": 0.15, "ben": 0.85, "cleo": 0.15}


def answered(turns=10, likes=LIKES, **options):
    study = ks.create_study(SPACE, storage="sqlite://", **options)
    for _ in range(turns):
        for voter, width in likes.items():
            asked = study.ask(voter=voter)
            off = [abs(one["width"] - width) + abs(one["depth"] - 0.5) for one in (asked.a, asked.b)]
            study.tell(asked, "a" if off[0] < off[1] else "b")
    return study


@pytest.fixture(scope="module")
def study():
    return answered()


def test_each_has_a_best_of_their_own_and_who_is_alike_is_told(study):
    widths = {voter: study.best_for(voter).params["width"] for voter in LIKES}
    assert widths["anna"] < 0.4 and widths["cleo"] < 0.4 and widths["ben"] > 0.6
    team = study.team()
    assert [one.voter for one in team.voters] == list(LIKES)
    assert {one.voter: one.best["width"] for one in team.voters} == widths
    assert team.split == "width" and 0.0 < team.shared < 0.9
    (_, with_ben, with_cleo), *_ = team.alike
    assert with_cleo > 0.6 > with_ben
    assert study.best_for("dora").params == team.best
    # Who lies between minds less than the one at the far end.
    assert abs(team.fairest["width"] - 0.5) <= max(abs(width - 0.5) for width in widths.values())
    assert sum(one.answers for one in team.voters) == study.best.n_comparisons


def test_one_voter_is_one():
    study = answered(8, {"anna": 0.15})
    assert study.best_for("anna") == study.best
    team = study.team()
    assert team.best == team.fairest == study.best_params and team.shared == 1.0 and team.split is None


def test_questions_are_as_they_were(study):
    again = answered(3)
    assert again.team().voters
    plain = answered(3)
    assert (again.ask(voter="anna").a, again.ask(voter="anna").b) == (
        plain.ask(voter="anna").a,
        plain.ask(voter="anna").b,
    )


def test_a_corrected_study_says_that_it_cannot():
    study = answered(2, method="adaptive")
    with pytest.raises(InvalidValueError, match="plain method"):
        study.team()


@pytest.mark.parametrize("question", ["order:3", "slider"])
def test_of_other_kinds_too(question):
    study = ks.create_study(SPACE, question=question, storage="sqlite://")
    for turn in range(8):
        asked = study.ask(voter="anna" if turn % 2 else "ben")
        study.tell(asked, 0.3 if question == "slider" else [2, 0, 1])
    assert len(study.team().voters) == 2

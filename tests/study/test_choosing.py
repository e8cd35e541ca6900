"""What the model asks: as Algorithm 1 has it, or more quickly where many people wait."""

import pytest
import torch

import kappasharp as ks
from kappasharp.acquisition import maximize
from kappasharp.acquisition.maximize import MAXIMIZERS
from kappasharp.study import choosing, learning


def nearer(pair):
    worth = [-sum((value - 0.4) ** 2 for value in design.values()) for design in (pair.a, pair.b)]
    return "a" if worth[0] > worth[1] else "b"


def crowd(voters, answers, **more):
    study = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://", **more)
    for turn in range(answers):
        pair = study.ask(f"voter {turn % voters}")
        study.tell(pair, nearer(pair))
    return study


@pytest.mark.parametrize(("voters", "quick"), [(1, False), (4, False), (5, True)])
def test_only_where_many_answer_is_a_pair_searched_for_quickly(voters, quick, monkeypatch):
    study, used, search = crowd(voters, 20), [], maximize.propose
    monkeypatch.setattr(maximize, "propose", lambda *given: (used.append(given[1]), search(*given))[1])
    study.ask("voter 0")
    assert used == [MAXIMIZERS["quick" if quick else "default"]]


def test_a_quick_search_finds_nearly_the_same_eubo():
    study = crowd(5, 24)
    model = study.model()
    quick, usual = (way(model.state, model.learnt) for way in (choosing.quickly, choosing.usually))
    base = float(model.surrogate.utility.max())
    assert float(quick.acquisition) - base > 0.95 * (float(usual.acquisition) - base)
    assert quick.status == usual.status == "ok" and quick.hints.shape == usual.hints.shape


def test_what_holds_a_design_is_searched_for_as_usual():
    study = crowd(5, 10, method="ep_ei")
    model = study.model()
    one, other = (way(model.state, model.learnt) for way in (choosing.quickly, choosing.usually))
    assert torch.equal(one.question.points, other.question.points) and bool((one.question.known[:, 1] >= 0).all())


def test_many_voters_start_from_the_priors_mode_once_in_a_while():
    study = crowd(5, 20)
    history = study.history
    at = {n: learning._is_cold(history, {"answers": n - 5}, n) for n in (20, 63, 64, 66, 70, 130)}
    assert at == {20: False, 63: False, 64: True, 66: True, 70: False, 130: True}
    # One alone: at every answer of the first hundred, then whenever there are two in a hundred more.
    alone = crowd(1, 6).history
    assert [learning._is_cold(alone, {"answers": n - 1}, n) for n in (63, 64, 150, 151)] == [True, True, True, False]


def test_the_same_events_give_many_voters_the_same_pairs(tmp_path):
    """Whether the study was there all the time or was read again."""
    study = crowd(6, 30)
    for voter in range(3):
        study.ask(f"voter {voter}")
    study.export(tmp_path / "s.json")
    again = ks.import_json(tmp_path / "s.json", storage="sqlite://")
    assert study.propose() == again.propose()

"""A rehearsal says the truth of its simulated person, and asks them as a study asks."""

import pytest
import torch

import kappasharp as ks
from kappasharp import rehearsal
from kappasharp.planning.start import sobol
from kappasharp.problems import simulated_voters
from kappasharp.study.study import Study


def test_the_truth_is_true():
    definition = ks.create_study({"x": (0.0, 1.0), "mode": ["a", "b", "c"]}, storage="sqlite://").definition
    utility = rehearsal.taste(definition.space, 3)
    felt = torch.tensor([utility(design) for design in sobol(definition, 0, rehearsal.ORDINARY)])
    assert float(felt.std()) == pytest.approx(1.0, rel=0.05)  # drawn from another sequence than the scale was
    assert float(felt.max()) <= 0.0 and float(felt.max()) == pytest.approx(0.0, abs=0.05)


def test_a_row_compares_with_what_the_person_feels(monkeypatch):
    definition = ks.create_study({"x": (0.0, 1.0), "y": (0.0, 1.0)}, storage="sqlite://").definition
    seen, best = [], Study.best.fget
    monkeypatch.setattr(Study, "best", property(lambda study: seen.append(best(study)) or seen[-1]))
    rows = list(rehearsal.rehearse(definition, 12, simulated_voters.person("exact"), 0))
    utility = rehearsal.taste(definition.space, 0)
    everyone = [utility(design) for design in sobol(definition, 0, rehearsal.ORDINARY)]
    assert [row.answers for row in rows] == [5, 10, 12]
    for row, found in zip(rows, seen, strict=True):
        here = utility(found.params)
        assert row.preferred == found.beats_random and row.room_left == found.room_left
        below = sum(one < here for one in everyone) + 0.5 * sum(one == here for one in everyone)
        assert row.truly_preferred == pytest.approx(below / len(everyone))
        assert row.true_room_left == pytest.approx(here / (sum(everyone) / len(everyone)))
    assert rows[-1].truly_preferred > 0.8


def test_someone_who_hesitates_answers_ties(monkeypatch):
    told, tell = [], Study.tell
    monkeypatch.setattr(Study, "tell", lambda study, pair, answer: told.append(answer) or tell(study, pair, answer))
    definition = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://").definition
    list(rehearsal.rehearse(definition, 5, simulated_voters.Person(noise=0.0, just_noticeable=100.0), 0))
    assert told == ["tie"] * 5

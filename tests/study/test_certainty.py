"""Certainty that is true: what the model says of its best design, beside the truth that a simulated person hides."""

import math

import pytest
import torch

import kappasharp as ks
from kappasharp.findings import best as findings_best
from kappasharp.findings.best import advise
from kappasharp.inference.evidence import model_from
from kappasharp.model import points as model_points
from kappasharp.model.fit import leading
from kappasharp.planning.start import sobol
from kappasharp.results.best import Figures
from tests.study import answered

BOX = {f"x{i}": (0.0, 1.0) for i in range(3)}
MIXED = {"x": (0.0, 1.0), "n": ks.Int(1, 6), "mode": ["p", "q", "r"]}


def bowl(design):
    return -sum((value - 0.35) ** 2 for value in design.values())


def ridge(design):
    """One parameter matters, the others do not."""
    return -abs(design["x0"] - 0.8)


def two_peaks(design):
    x = list(design.values())
    near = [math.exp(-8.0 * sum((a - c) ** 2 for a in x)) for c in (0.25, 0.75)]
    return near[0] + 0.7 * near[1]


def mixed(design):
    return -2.0 * (design["x"] - 0.6) ** 2 - abs(design["n"] - 4) / 5 - 0.5 * "qpr".index(design["mode"])


PEOPLE = {"bowl": (BOX, bowl), "ridge": (BOX, ridge), "two peaks": (BOX, two_peaks), "mixed": (MIXED, mixed)}


def after(count):
    """A study that someone with the taste of a bowl has answered so often."""
    return answered.optimize(BOX, lambda a, b: bowl(a) > bowl(b), count)


def rows(name, seed, moments):
    """Said and true figures of one study."""
    space, worth = PEOPLE[name]
    study = ks.create_study(space, storage="sqlite://", seed=seed)
    everywhere = torch.tensor([worth(design) for design in sobol(study.definition, 0, 2048)])
    spread = float(everywhere.std())
    mood = torch.Generator().manual_seed(seed)
    found = {}
    for count in range(1, max(moments) + 1):
        pair = study.ask()
        noise = 0.1 * spread * torch.randn(2, generator=mood)
        study.tell(pair, "a" if worth(pair.a) + noise[0] > worth(pair.b) + noise[1] else "b")
        if count in moments:
            best = study.best
            here = worth(best.params)
            room = max(float(everywhere.max()) - here, 0.0) / (float(everywhere.max()) - float(everywhere.mean()))
            found[count] = (best.beats_random, float((everywhere < here).double().mean()), best.room_left, room)
    return found


@pytest.fixture(scope="module")
def calibration():
    moments = (6, 12, 18)
    found = [rows(name, seed, moments) for name in PEOPLE for seed in range(2)]
    return {count: torch.tensor([one[count] for one in found]).mean(0) for count in moments}


class TestCalibration:
    """Over four kinds of taste, two people each: not far off where little is known, close where much is."""

    def test_preferred_to_comes_close_to_the_truth(self, calibration):
        for count, bar in ((6, 0.1), (12, 0.05), (18, 0.05)):
            said, true, *_ = calibration[count]
            assert abs(said - true) < bar

    def test_room_left_is_not_understated_and_shrinks(self, calibration):
        for _, _, said, true in calibration.values():
            assert said >= true - 0.05
        assert calibration[18][2] < calibration[12][2] < calibration[6][2]
        assert calibration[18][2] - calibration[18][3] < 0.25

    def test_the_truth_is_good(self, calibration):
        assert calibration[18][1] > 0.9


def test_random_answers_are_not_taken_for_knowledge():
    """Someone who tosses a coin must not be told to stop: so few coins look like a taste, but not like a clear one."""
    said = []
    for seed in range(2):
        coin = torch.Generator().manual_seed(seed)
        study = ks.optimize(BOX, lambda a, b, coin=coin: bool(torch.rand(1, generator=coin) < 0.5), 15, seed=seed)
        said.append(study.best.beats_random)
        assert study.best.advice.what != "could_stop"
    assert sum(said) / 2 < findings_best.ENOUGH_PREFERRED


def test_both_figures_are_shares():
    for count in (1, 2, 6):
        best = after(count).best
        assert 0.0 <= best.beats_random <= 1.0 and 0.0 <= best.room_left <= 1.0 and best.status == "ok"


def test_preferred_to_agrees_with_joint_draws():
    """The closed form against sampling best and others together from the model's posterior, recalibrated alike."""
    study = after(10)
    model = study.model()
    place = int(model.surrogate.utility.argmax())
    pool = findings_best._pool(study.definition, model)[: findings_best.RANDOM]
    mean, cov = model.surrogate.posterior(torch.cat([model.state.points[0, place : place + 1], pool]))
    root = torch.linalg.cholesky(cov + 1e-8 * torch.eye(len(cov)))
    draws = mean + torch.randn(4000, len(cov), generator=torch.Generator().manual_seed(0)) @ root.mT
    sampled = float(findings_best.recalibrated((draws[:, :1] > draws[:, 1:]).double().mean(0)).mean())
    found, chance = findings_best.figures(study.definition, model, place), findings_best.without_taste(model)
    assert abs((1.0 - chance) * sampled + chance * 0.5 - found.preferred) < 0.01


def test_the_chance_that_there_is_no_taste_is_bayes_rule():
    """Nine to one for a taste, times the model's evidence over that of coins, one half for every answer."""
    for count in (4, 12):
        model = after(count).model()
        fit, chosen = model.learnt.fit, model_from(model.state.preset)
        evidence = math.exp(float(fit.hyper.value - chosen.priors.log_density(fit.hyper.theta)))
        expected = 0.5**count / (0.5**count + 9.0 * evidence)
        assert findings_best.without_taste(model) == pytest.approx(expected, rel=1e-9)


class TestAdvice:
    """Go on, stop, or what stands in the way."""

    def study(self):
        return after(12)

    def said(self, study, **figures):
        model = study.model()
        return advise(study.history, model, leading(model), Figures(**figures))

    def test_could_stop(self):
        advice = self.said(self.study(), preferred=0.97, ahead=1.0, gap=0.05)
        assert advice.what == "could_stop" and "97%" in str(advice) and "5%" in str(advice)

    def test_go_on(self):
        assert self.said(self.study(), preferred=0.97, ahead=1.0, gap=100.0).what == "go_on"

    def test_not_enough_signal(self):
        assert self.said(self.study(), preferred=0.5, ahead=0.1, gap=1.0).what == "not_enough_signal"
        assert ks.optimize(BOX, lambda a, b: True, 2).best.advice.what == "not_enough_signal"

    def test_two_groups_that_were_never_compared(self):
        """Two chains that nothing links, each with a clear winner: one comparison between the winners is worth most."""
        study = ks.create_study({"x": (0.0, 1.0)}, storage="sqlite://")
        for low in (0.0, 0.9):
            for i in range(4):
                winner, loser = {"x": low + 0.02 * (i + 1)}, {"x": low + 0.02 * i}
                for _ in range(3):
                    study.add_comparison(winner, loser)
        best = study.best
        advice = findings_best._unlinked_rival(study.model(), study.model().options.index(best.option), 1e-9)
        assert advice is not None
        groups = study.diagnostics().groups
        assert len(groups) == 2 and sorted(map(len, groups)) == [5, 5]
        model = study.model()
        place = model.options.index(best.option)
        said = advise(study.history, model, place, Figures(0.8, 1.0, 0.01))
        assert said.what == "link_groups" and said.link[0] == best.option
        one, other = said.link
        assert not any({one, other} <= set(group) for group in groups)
        assert f"One comparison of {one} with {other}" in str(said)
        study.enqueue(*(study.history.options[number] for number in said.link))
        pair = study.ask()
        study.tell(pair, "a")
        assert len(study.diagnostics().groups) == 1


def test_in_a_small_space_one_can_be_sure():
    """Three designs, thirty consistent answers: the best is preferred to both others, and nothing is left."""
    study = ks.optimize({"a": ["x", "y", "z"]}, lambda a, b: a["a"] > b["a"], 30)
    best = study.best
    assert best.params == {"a": "z"} and best.beats_random > 0.95 and best.room_left < 0.05
    assert best.advice.what == "could_stop"


def test_recalibration_sharpens_on_the_probit_scale():
    said = torch.tensor([0.0, 0.2, 0.5, 0.65, 0.9, 1.0], dtype=torch.float64)
    found = findings_best.recalibrated(said)
    # Φ(1.575 · Φ⁻¹(0.65)) and Φ(1.575 · Φ⁻¹(0.9)), from tables of the normal distribution.
    assert float(found[3]) == pytest.approx(0.7280, abs=1e-4)
    assert float(found[4]) == pytest.approx(0.9782, abs=1e-4)
    assert float(found[0]) == 0.0
    assert float(found[2]) == 0.5
    assert float(found[5]) == 1.0
    assert torch.allclose(findings_best.recalibrated(1.0 - said), 1.0 - found)
    assert torch.allclose(findings_best.recalibrated(said, 1.0), said)


def test_a_study_predicts_answers_and_is_surer_than_its_model():
    study = ks.create_study(MIXED, storage="sqlite://", seed=2)
    for _ in range(12):
        pair = study.ask()
        study.tell(pair, "a" if mixed(pair.a) > mixed(pair.b) else "b")
    good, bad = {"x": 0.6, "n": 4, "mode": "q"}, {"x": 0.05, "n": 1, "mode": "r"}
    chance = study.predict(good, bad)
    points = model_points.points(study.space, [good, bad])
    raw = float(study.model().surrogate.contrast(points[:1], points[1:]).preferred)
    assert chance > raw > 0.6
    assert study.predict(bad, good) == pytest.approx(1.0 - chance, abs=1e-9)
    with pytest.raises(ks.errors.InvalidValueError, match="two designs"):
        study.predict(good, good)


def test_of_very_many_designs_the_best_by_their_means_say_how_much_is_left(monkeypatch):
    """The others have lost so often that their spread does not bring them among the promising ones."""
    chance = torch.Generator().manual_seed(4)
    X = torch.rand(300, 3, generator=chance, dtype=torch.float64)
    utility = -(X - 0.35).square().sum(-1)
    pairs = torch.randperm(300, generator=chance).reshape(150, 2)
    won = torch.where((utility[pairs[:, :1]] > utility[pairs[:, 1:]]), pairs, pairs.flip(-1))
    model, pool = ks.fit(X, won), torch.rand(256, 3, generator=chance, dtype=torch.float64)
    gaps = []
    for most in (300, 200):
        monkeypatch.setattr(findings_best, "MOST_SEEN", most)
        gaps.append(findings_best._gap(model, X, int(model.utility.argmax()), pool, 5))
    assert gaps[0] > 0.0 and gaps[1] == pytest.approx(gaps[0], rel=0.02)

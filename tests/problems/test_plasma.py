"""Plasma-16D: its controller against a slow twin, its bookkeeping recomputed, its shape, and how it fails."""

import warnings
from functools import cache
from itertools import pairwise
from types import SimpleNamespace

import daqp
import numpy as np
import pytest
import torch

from kappasharp.problems import plasma, plasma_jet
from kappasharp.problems.registry import find_problem
from tests.reference.predictive import Plan, hold

ROW = find_problem("plasma-16d")
BEST = ROW.maximum.point
LOW, HIGH = np.array(ROW.low), np.array(ROW.high)
STATE, INPUT = np.array([33.306, 7.735758791165386]), np.array([1.5, 3.5])
# The first noise of every treatment.
PINNED_MEASURED, PINNED_DISTURBED = (
    [0.12582984320194854, -0.010560764995984321],
    [-0.07767564562908302, -0.2354668424430204],
)


def controllers(count, seed=0):
    """Random controllers; every other one in a corner of the box."""
    U = np.random.default_rng(seed).uniform(size=(count, 16))
    U[1::2] = U[1::2].round()
    return (LOW + (HIGH - LOW) * U).tolist()


class Recorded:
    """DAQP's model, with every program and its plan kept; the calls named in `fails` return no plan."""

    def __init__(self, kept, fails=()):
        self.model, self.kept, self.fails = daqp.Model(), kept, fails

    def setup(self, *program):
        return self.model.setup(*program)

    def update(self, **changed):
        return self.model.update(**changed)

    def solve(self):
        plan, cost, flag, info = self.model.solve()
        failed = len(self.kept) in self.fails
        self.kept.append(np.array(plan))
        return (np.full_like(plan, np.nan), np.nan, -1, info) if failed else (plan, cost, flag, info)


def watch(monkeypatch, fails=()):
    """Plans of every solve from now on."""
    kept = []
    monkeypatch.setattr(plasma_jet, "needed", lambda *_: SimpleNamespace(Model=lambda: Recorded(kept, fails)))
    return kept


def test_the_reference_is_a_state_in_which_the_plant_rests():
    x, u = plasma_jet.per_degree()
    assert np.allclose(plasma_jet.A @ x + plasma_jet.B @ u, x, rtol=0.0, atol=1e-12)
    assert x[0] == pytest.approx(1.0) and u[1] == 0.0
    state, power = hold(torch.tensor([1.0, 3.0]))
    assert np.allclose(state, np.outer([1.0, 3.0], x)) and np.allclose(power, np.outer([1.0, 3.0], u))


@pytest.mark.parametrize("case", [0, 1, 2, 4, 5])  # 3 is a corner where the twin takes seconds
def test_the_first_input_is_that_of_an_interior_point_method(case):
    """The uncondensed program, by another algorithm: cool and hot states, with and without the soft limit at work."""
    rng = np.random.default_rng(case)
    parameters = plasma.HAND_TUNED if case == 0 else controllers(6)[case]
    state = np.array([rng.uniform(0.0, 13.0), rng.uniform(-3.0, 20.0)])
    before = np.array([rng.uniform(0.0, 3.0), rng.uniform(-2.0, 1.5)])
    reference = rng.uniform(5.0, 12.0, size=plasma_jet.HORIZON)
    found = plasma_jet.Controller(parameters).next_input(state, before, reference)
    twin = Plan(parameters, state, before, reference).solve()
    assert np.allclose(found, twin[:2], rtol=0.0, atol=5e-5)  # as far as an interior point comes in such corners


def test_every_plan_of_a_treatment_is_optimal(monkeypatch):
    """Karush, Kuhn and Tucker at the solver's own plans, warm-started as they are, for the plant rolled out by hand."""
    kept = watch(monkeypatch)
    slack = []
    for parameters in [plasma.HAND_TUNED, BEST, *controllers(6, seed=1)]:
        kept.clear()
        treatment = plasma_jet.treat(parameters)
        seen = np.stack([treatment.temperature, treatment.intensity], 1) - STATE
        applied = np.stack([treatment.power, treatment.flow], 1) - INPUT
        path = np.interp(0.5 * np.arange(260), (0.0, 15.0, 30.0, 60.0), parameters[8:12]) - STATE[0]
        assert len(kept) == len(applied)
        for k in range(0, len(kept), 17):
            assert np.allclose(kept[k][:2], applied[k], rtol=0.0, atol=1e-12)
            before = applied[k - 1] if k else np.zeros(2)
            reference = path[k + 1 : k + 11] + parameters[15] * (1.0 - treatment.dose[k] / 1.5)
            assert treatment.reference[k] == pytest.approx(reference[0] + STATE[0], abs=1e-9)
            broken, unheld = Plan(parameters, seen[k], before, reference).optimality(kept[k])
            assert broken < 1e-8 and unheld < 1e-9, (parameters, k)
            slack.append(kept[k][-1])
    assert max(slack) > 0.1 and min(slack) < 1e-9  # the soft limit was at work, and was not


@pytest.fixture(scope="module")
def treatments():
    return [plasma_jet.treat(parameters) for parameters in [plasma.HAND_TUNED, BEST, *controllers(8, seed=2)]]


def test_the_plant_is_the_published_one(treatments):
    """States rolled forward from the recorded inputs, with the fixed noise, are those that were measured."""
    a = np.array([[0.9026835110216027, 0.0175440994095587], [0.13155242721345584, 0.24256853705415712]])
    b = np.array([[0.5814548071231862, -0.2204211764941687], [2.6736589103598822, -1.1310499080801515]])
    measured, disturbed = plasma_jet.noise()
    for treatment in treatments:
        x, seen = np.zeros(2), [measured[0]]
        for k, u in enumerate(np.stack([treatment.power, treatment.flow], 1)):
            x = a @ x + b @ (u - INPUT) + disturbed[k]
            seen.append(x + measured[k + 1])
        assert np.allclose(np.array(seen)[:, 0] + STATE[0], treatment.temperature, rtol=0.0, atol=1e-9)
        assert np.allclose(np.array(seen)[:, 1] + STATE[1], treatment.intensity, rtol=0.0, atol=1e-9)


def test_the_noise_is_the_published_kind_and_pinned():
    measured, disturbed = plasma_jet.noise()
    assert measured.shape == (241, 2) and disturbed.shape == (240, 2)
    assert measured.std() == pytest.approx(0.1, rel=4.0 / np.sqrt(2 * measured.size))
    assert abs(measured.mean()) < 4.0 * 0.1 / np.sqrt(measured.size)
    assert np.abs(disturbed).max() < 1.0 < 1.01 * np.abs(disturbed).max()
    assert disturbed.var() == pytest.approx(1.0 / 3.0, rel=0.2)
    # Whatever changes these changes every utility, and is a new version of the problem.
    assert measured[0].tolist() == pytest.approx(PINNED_MEASURED, abs=1e-12)
    assert disturbed[0].tolist() == pytest.approx(PINNED_DISTURBED, abs=1e-12)


def test_the_dose_follows_from_the_recorded_temperatures(treatments):
    for treatment in treatments:
        minutes = 0.55 ** (43.0 - treatment.temperature[1:]) * 0.5 / 60.0
        assert np.allclose(np.cumsum(minutes), treatment.dose[1:], rtol=1e-12)
        assert treatment.dose[0] == 0.0
        steps = len(treatment.power)
        assert (treatment.dose[:-1] <= 1.5).all()  # it goes on while the target is not passed
        assert treatment.dose[-1] > 1.5 or steps == 240  # and stops when it is, or after two minutes
        assert treatment.seconds.tolist() == [0.5 * k for k in range(steps + 1)]
        assert treatment.minutes == pytest.approx(treatment.seconds[-1] / 60.0)
    assert {len(treatment.power) == 240 for treatment in treatments} == {True, False}


def test_inputs_stay_between_their_limits(treatments):
    for treatment in treatments:
        assert treatment.failed_solves == 0
        for values in (treatment.power, treatment.flow):
            assert (values >= 1.5 - 1e-9).all() and (values <= 5.0 + 1e-9).all()
    eager = list(plasma.HAND_TUNED)
    eager[8:12], eager[13] = [46.0] * 4, 1.25
    assert plasma_jet.treat(eager).power.max() == pytest.approx(3.75, abs=1e-9)  # five watts less the back-off


def test_the_score_is_what_its_formula_says(treatments):
    for treatment in treatments:
        # All samples before the one in which the dose is reached; all, if it never is.
        counted = [(dose, T) for dose, T in zip(treatment.dose, treatment.temperature, strict=True) if dose <= 1.5]
        tracking = sum((dose - 1.5) ** 2 for dose, _ in counted)
        violation = sum(max(T - 44.5, 0.0) ** 2 for _, T in counted)
        power, flow = [1.5, *treatment.power], [3.5, *treatment.flow]
        chatter = sum((b - a) ** 2 for u in (power, flow) for a, b in pairwise(u))
        score = plasma_jet.score(treatment)
        assert score == pytest.approx((tracking, violation, len(treatment.power) / 120.0, chatter), rel=1e-9)
        wanted = -0.71 * (tracking + 5.0 * violation + 20.0 * len(treatment.power) / 120.0 + 0.5 * chatter)
        assert plasma.weighed(*score) == pytest.approx(wanted, rel=1e-9)
    assert max(plasma_jet.score(treatment).violation for treatment in treatments) > 0.0


def test_a_treatment_is_repeated_to_the_last_bit():
    first = [plasma_jet.treat(parameters) for parameters in controllers(4)]
    again = [plasma_jet.treat(parameters) for parameters in reversed(controllers(4))][::-1]
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.temperature, b.temperature) and np.array_equal(a.power, b.power)
        assert np.array_equal(a.dose, b.dose)


def test_a_failed_solve_is_counted_told_and_survived(monkeypatch):
    fails = (0, 3, 4, 10)
    watch(monkeypatch, fails)
    treatment = plasma_jet.treat(plasma.HAND_TUNED)
    assert treatment.failed_solves == len(fails)
    assert (treatment.power[0], treatment.flow[0]) == (1.5, 3.5)  # nothing before it: the plant's own steady input
    held = [k for k in range(1, 20) if treatment.power[k] == treatment.power[k - 1]]
    assert set(fails[1:]) <= set(held)
    assert treatment.flow[3] == treatment.flow[2] == treatment.flow[4]
    watch(monkeypatch, fails)
    with pytest.warns(
        RuntimeWarning, match=rf"of 4 of {len(treatment.power)} steps was not solved .* was held, for the"
    ):
        value = plasma.utility(plasma.HAND_TUNED)
    assert np.isfinite(value) and value == plasma.weighed(*plasma_jet.score(treatment))


def test_a_controller_whose_every_solve_fails_still_has_a_utility(monkeypatch):
    watch(monkeypatch, range(1000))
    with pytest.warns(RuntimeWarning, match="of 240 of 240 steps was not solved"):
        found = ROW.utility(plasma.HAND_TUNED)
    assert bool(found.isfinite())
    assert float(found) < ROW.maximum.value - 50.0


def test_a_sound_controller_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plasma.utility(BEST)


@pytest.fixture(scope="module")
def random_designs():
    U = torch.rand(150, 16, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    return U.numpy(), ROW.unit_utility(U).numpy()


def test_its_shape(random_designs):
    """Worse to better, clearly: an ordinary controller, the best of six, one tuned by hand, the best one known."""
    _, utilities = random_designs
    by_hand, best = plasma.utility(plasma.HAND_TUNED), plasma.utility(BEST)
    best_of_six = utilities.reshape(25, 6).max(1)
    assert np.median(utilities[:60]) < np.median(best_of_six) < by_hand < best
    assert by_hand - best_of_six.mean() > 10.0
    assert best - by_hand > 5.0
    assert by_hand == pytest.approx(-90.0, abs=2.0)
    assert utilities.max() < best


@pytest.mark.parametrize("parameter", range(16))
def test_no_half_of_its_box_is_flat(parameter, random_designs):
    U, utilities = random_designs
    for half in (utilities[U[:, parameter] < 0.5], utilities[U[:, parameter] >= 0.5]):
        assert len(half) > 50
        assert len(np.unique(half)) == len(half)  # no plateau on which designs share a value
        quarter, middle, three_quarters = np.percentile(half, (25, 50, 75))
        assert min(middle - quarter, three_quarters - middle) > 10.0


# The terminal weight of the intensity acts on one step of ten through one state of two: it is nearly inert, not dead.
INERT = 7
HALVES = [(i, half) for i in range(16) for half in ("low", "high")]


@cache
def moves(parameter):
    """How far the utilities of ten controllers move when this parameter goes from low to its middle, and on to high."""
    designs = np.repeat(LOW + (HIGH - LOW) * np.random.default_rng(23).uniform(size=(10, 1, 16)), 3, axis=1)
    designs[..., parameter] = LOW[parameter] + (HIGH - LOW)[parameter] * np.array([0.0, 0.5, 1.0])
    return np.abs(np.diff(ROW.utility(designs).numpy(), axis=1))


@pytest.mark.parametrize(("parameter", "half"), HALVES)
def test_every_parameter_matters_in_both_of_its_halves(parameter, half):
    """Moved alone across a half of its range it moves the utility of some controller by a unit or more."""
    assert moves(parameter)[:, 0 if half == "low" else 1].max() >= (0.1 if parameter == INERT else 1.0)

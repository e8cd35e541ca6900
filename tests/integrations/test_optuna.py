"""KappaSharpSampler in a real preferential study on SQLite: asked, answered, loaded again."""

import itertools
import math
import statistics
from dataclasses import replace

import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import InMemoryStorage
from optuna_dashboard.preferential import create_study

import kappasharp as ks
from kappasharp.acquisition import incumbent
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.integrations.optuna import KappaSharpSampler, _design, _joint, _parameter, _value
from kappasharp.space.space import Space
from tests.integrations import mixed_space

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::optuna.exceptions.ExperimentalWarning")


def sampler(**options):

    return KappaSharpSampler(**options)


@pytest.fixture
def storage(tmp_path):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return f"sqlite:///{tmp_path / 'taste.db'}"


def study_on(storage, **options):

    # The model from its first preference on: what is tested is what it proposes.
    chosen = sampler(**{"n_startup_trials": 0} | options)
    return create_study(n_generate=2, storage=storage, study_name="taste", sampler=chosen, load_if_exists=True)


def suggest(trial):
    return {
        "gain": trial.suggest_float("gain", 1e-3, 10.0, log=True),
        "shift": trial.suggest_float("shift", -1.0, 1.0),
        "size": trial.suggest_int("size", 1, 9, step=2),
        "grid": trial.suggest_float("grid", 0.0, 1.0, step=0.25),
    }


def utility(parameters):
    return (
        -((math.log10(parameters["gain"]) - 0.3) ** 2)
        - (parameters["shift"] - 0.4) ** 2
        - 0.05 * abs(parameters["size"] - 5)
        - abs(parameters["grid"] - 0.75)
    )


def play(study, rounds):
    """Two designs on the screen; the better stays."""
    trials = {}
    for _ in range(rounds):
        while study.should_generate():
            trial = study.ask()
            trials[trial.number] = suggest(trial)
        open_numbers = [number for number in trials if number not in play.lost]
        first, second = open_numbers[-2:]
        better, worse = (first, second) if utility(trials[first]) > utility(trials[second]) else (second, first)
        study.report_preference(study.trials[better], study.trials[worse])
        play.lost.add(worse)
    return trials


def test_a_study_on_sqlite_gets_better_and_goes_on_after_loading(storage):
    play.lost = set()
    trials = play(study_on(storage, seed=1), 20)
    first = max(utility(parameters) for number, parameters in trials.items() if number < 4)
    best = max(utility(parameters) for parameters in trials.values())
    assert best > first + 0.5 and best > -0.8
    again = study_on(storage, seed=1)
    (leader,) = again.best_trials
    assert utility(leader.params) == pytest.approx(best, abs=0.15)
    proposed = suggest(again.ask())
    assert utility(proposed) > -2.0


def test_values_are_on_their_grids_and_in_their_ranges(storage):
    play.lost = set()
    for parameters in play(study_on(storage, seed=3), 10).values():
        assert 1e-3 <= parameters["gain"] <= 10.0 and -1.0 <= parameters["shift"] <= 1.0
        assert isinstance(parameters["size"], int) and parameters["size"] in (1, 3, 5, 7, 9)
        assert parameters["grid"] in (0.0, 0.25, 0.5, 0.75, 1.0)


def test_the_same_seed_gives_the_same_designs(tmp_path):
    seen = []
    for folder in ("a", "b"):
        play.lost = set()
        seen.append(play(study_on(f"sqlite:///{tmp_path / folder}.db", seed=7), 6))
    assert seen[0] == seen[1]
    play.lost = set()
    assert play(study_on(f"sqlite:///{tmp_path / 'c'}.db", seed=8), 6) != seen[0]


def test_two_waiting_designs_differ(storage):
    play.lost = set()
    study = study_on(storage, seed=2)
    play(study, 5)
    first, second = suggest(study.ask()), suggest(study.ask())
    assert first != second


def test_constants_are_left_to_the_other_sampler(storage):
    study = study_on(storage, seed=0)
    numbers = []
    for _ in range(4):
        trial = study.ask()
        trial.suggest_float("x", 0.0, 1.0)
        trial.suggest_categorical("colour", ["red", "blue"])
        trial.suggest_float("fixed", 0.5, 0.5)
        numbers.append(trial.number)
    for better, worse in itertools.pairwise(numbers):
        study.report_preference(study.trials[better], study.trials[worse])
    space = study._study.sampler.infer_relative_search_space(study._study, study.trials[-1])
    assert sorted(space) == ["colour", "x"]


def test_categories_are_learnt():
    """What is proposed after thirty designs has better categories than they had; `mixed_space` compares samplers."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = create_study(n_generate=2, storage=InMemoryStorage(), sampler=sampler(seed=0, n_startup_trials=30))

    def liked(trial):
        design = mixed_space.suggest(trial)
        return mixed_space.utility(design | {"x": 0.3, "rate": 1e-2, "layers": 6}, "graded")

    worth = {trial.number: liked(trial) for trial in (study.ask() for _ in range(30))}
    for one, other in itertools.pairwise(worth):
        better, worse = (one, other) if worth[one] > worth[other] else (other, one)
        study.report_preference(study.trials[better], study.trials[worse])
    proposed = [liked(study.ask()) for _ in range(6)]
    assert statistics.mean(proposed) > statistics.mean(worth.values()) + 0.3


def test_every_distribution_is_modelled_and_comes_back_in_its_range():
    parts = {
        "float": FloatDistribution(-3.0, 5.0),
        "log": FloatDistribution(1e-4, 1e2, log=True),
        "step": FloatDistribution(0.0, 1.0, step=0.1),
        "int": IntDistribution(2, 11, step=3),
        "log int": IntDistribution(1, 1000, log=True),
        "many": IntDistribution(0, 10**9),
        "fine": FloatDistribution(0.0, 1.0, step=1e-7),
        "choice": CategoricalDistribution(mixed_space.CHOICES),
        "two": CategoricalDistribution([False, "no"]),
    }
    space = Space({name: _parameter(part) for name, part in parts.items()})
    for seed in range(5):
        point = torch.rand(space.dimensions, generator=torch.Generator().manual_seed(seed))
        found = {name: _value(part, space.decode(point.tolist())[name]) for name, part in parts.items()}
        for name, part in parts.items():
            assert part._contains(part.to_internal_repr(found[name])), name
        again = space.decode(space.encode(_design(found, parts)))
        assert {n: _value(part, again[n]) for n, part in parts.items()} == pytest.approx(found, nan_ok=False)


def test_a_sampler_without_a_seed_has_one_of_its_own():
    one, other = sampler(), sampler()
    assert one._seed != other._seed
    before = one._seed
    one.reseed_rng()
    assert one._seed != before


@pytest.mark.parametrize("waits", [False, True])
def test_reach_and_exploration_of_a_preset_shape_the_search(waits):
    points = torch.tensor([[0.1, 0.2], [0.8, 0.3], [0.5, 0.9], [0.3, 0.6], [0.9, 0.9]], dtype=torch.float64)

    def proposed(**changes):
        model = ks.fit(points, [[0, 1], [0, 2], [3, 4], [0, 4]], preset=replace(ks.PRESETS["modern"], **changes))
        return sampler(seed=0)._propose(model, points[1] if waits else None, 7, None), model

    far, model = proposed()
    low, high = incumbent.box_around(model.latent, 0.05)
    near, _ = proposed(reach=0.05)
    assert bool(((low <= near) & (near <= high)).all()) and not bool(((low <= far) & (far <= high)).all())
    timid, _ = proposed(exploration=0.1)
    assert not torch.allclose(timid, far, atol=1e-3)


def test_the_first_designs_are_the_other_samplers(storage):
    seen = []
    for startup in (5, 10):
        play.lost = set()
        seen.append(play(study_on(f"{storage}{startup}", seed=4, n_startup_trials=startup), 6))
    assert all(seen[0][number] == seen[1][number] for number in range(5)) and seen[0][5] != seen[1][5]
    for wrong in (-1, True, 2.0):
        with pytest.raises(InvalidValueError, match="`n_startup_trials` must be a whole number from 0"):
            sampler(n_startup_trials=wrong)


def test_a_wrong_method_is_refused():

    with pytest.raises(UnknownNameError, match="Did you mean 'adaptive'"):
        sampler(method="adaptve")


def test_where_a_range_was_changed_the_model_goes_on_over_both(storage):
    study = study_on(storage, seed=0)

    def asked(high):
        pair = study.ask(), study.ask()
        found = {one.number: one.suggest_float("x", 0.0, high) for one in pair}
        better, worse = sorted(found, key=lambda number: abs(found[number] - 0.3))
        study.report_preference(study.trials[better], study.trials[worse])
        return list(found.values())

    for _ in range(6):
        asked(1.0)
    wider = [value for _ in range(5) for value in asked(1.5)][4:]
    # By chance it would be 0.51.
    assert statistics.mean(abs(value - 0.3) for value in wider) < 0.4
    asked(0.6)
    assert all(value <= 0.6 for _ in range(3) for value in asked(0.6))


def test_ranges_whose_steps_differ_are_said_not_to_join(storage):
    study = study_on(storage, seed=0)
    for step in (0.25, 0.2):
        pair = study.ask(), study.ask()
        for one in pair:
            one.suggest_float("x", 0.0, 1.0, step=step), one.suggest_int("n", 1, 9, step=2)
        study.report_preference(*(study.trials[one.number] for one in pair))
    with pytest.warns(UserWarning, match="'x' do not join"):
        study.ask().suggest_int("n", 3, 11, step=2)
    apart = {"n": IntDistribution(1, 9, step=2)}, {"n": IntDistribution(2, 10, step=2)}
    assert _joint(apart) == {"n": None} and _joint([]) == {}
    assert _joint([{"n": IntDistribution(1, 9, step=2)}, {"n": IntDistribution(5, 13, step=2)}])["n"].high == 13


def test_a_preference_of_a_trial_over_itself_is_left_out_and_said(storage):
    study = study_on(storage, seed=0)
    for _ in range(3):
        study.ask().suggest_float("x", 0.0, 1.0)
    first, second, third = study.trials
    study.report_preference(first, second)
    study.report_preference([first, third], [third])
    with pytest.warns(UserWarning, match="over itself"):
        assert 0.0 <= study.ask().suggest_float("x", 0.0, 1.0) <= 1.0


@pytest.mark.parametrize(
    ("options", "words"), [({"seed": "a"}, "`seed`"), ({"independent_sampler": 3}, "`independent")]
)
def test_wrong_kinds_of_options_are_refused(options, words):
    with pytest.raises(InvalidTypeError, match=words):
        sampler(**options)

"""A preference experiment of Ax with KappaSharpGP as its surrogate: asked, answered, stored, loaded."""

import json
from dataclasses import replace

import pytest
import torch
from ax.adapter.registry import Cont_X_trans, Generators
from ax.adapter.torch import TorchAdapter
from ax.adapter.transforms.unit_x import UnitX
from ax.analysis.plotly import SensitivityAnalysisPlot
from ax.core import (
    Arm,
    Experiment,
    GeneratorRun,
    Metric,
    Objective,
    OptimizationConfig,
    ParameterType,
    RangeParameter,
)
from ax.core.auxiliary import AuxiliaryExperiment, AuxiliaryExperimentPurpose
from ax.core.optimization_config import PreferenceOptimizationConfig
from ax.core.search_space import SearchSpace
from ax.generation_strategy.generation_node import GenerationNode
from ax.generation_strategy.generation_strategy import GenerationStrategy
from ax.generation_strategy.generator_spec import GeneratorSpec
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from botorch.acquisition.preference import qExpectedUtilityOfBestOption
from botorch.models import ModelListGP
from botorch.posteriors.gpytorch import GPyTorchPosterior

import kappasharp as ks
from kappasharp.errors import KappaSharpError
from kappasharp.integrations.ax import KappaSharpSurrogate, bope_surrogate_spec, surrogate, surrogate_spec
from kappasharp.integrations.botorch import KappaSharpGP

NAME = "pairwise_pref_query"


def experiment():

    space = SearchSpace(
        [
            RangeParameter("x", ParameterType.FLOAT, 0.0, 10.0),
            RangeParameter("y", ParameterType.FLOAT, -1.0, 1.0),
        ]
    )
    return Experiment(
        name="taste",
        search_space=space,
        optimization_config=OptimizationConfig(Objective(expression=NAME, metric_name_to_signature={NAME: NAME})),
        tracking_metrics=[Metric(NAME)],
    )


def utility(parameters):
    return -((parameters["x"] - 7.0) ** 2) / 10.0 - (parameters["y"] - 0.2) ** 2


def answer(trial):
    first, second = trial.arms
    won = utility(first.parameters) > utility(second.parameters)
    trial.attach_batch_trial_data({first.name: {NAME: float(won)}, second.name: {NAME: float(not won)}})
    trial.mark_running(no_runner_required=True)
    trial.mark_completed()


def ask(study, **options):

    generator = BoTorchGenerator(surrogate_spec=surrogate_spec(**options))
    adapter = TorchAdapter(experiment=study, generator=generator, transforms=Cont_X_trans, fit_tracking_metrics=False)
    return adapter, adapter.gen(2)


@pytest.fixture
def started():

    study = experiment()
    sobol = Generators.SOBOL(experiment=study, seed=0)
    for _ in range(4):
        answer(study.new_batch_trial(generator_run=sobol.gen(2)))
    return study


def test_the_experiment_is_modelled_by_us_and_gets_better(started):

    torch.manual_seed(0)
    best_before = max(utility(arm.parameters) for arm in started.arms_by_name.values())
    for _ in range(5):
        adapter, asked = ask(started)
        answer(started.new_batch_trial(generator_run=asked))
    (model,) = adapter.generator.surrogate.model.models
    assert type(model) is KappaSharpGP and bool(model.converged)
    assert adapter.generator._botorch_acqf_class is qExpectedUtilityOfBestOption
    # Ax's scaling to the unit cube comes first.
    assert float(model.datapoints.min()) >= 0.0 and float(model.datapoints.max()) <= 1.0
    best = max(utility(arm.parameters) for arm in started.arms_by_name.values())
    assert best > best_before and best > -0.1
    assert float(model.covar_module.outputscale.detach()) != 1.0  # fitted


def test_options_reach_the_model(started):
    adapter, _ = ask(started, method="static", preset="paper")
    (model,) = adapter.generator.surrogate.model.models
    assert model.surrogate.preset.priors == "botorch_0_6" and model.surrogate.method.gate.rule.name == "ALWAYS"


VALUES = [
    {"preset": "modern"},
    {"preset": ks.Preset(nugget=1e-5, threshold=0.2, kernel="matern52")},
    {"method": ks.METHODS["adaptive"], "preset": ks.PRESETS["paper"], "nugget": 1e-4},
    {"method": replace(ks.METHODS["static"], design_cost=0.5)},
]


@pytest.mark.parametrize("options", VALUES)
def test_the_specification_is_stored_and_loaded(options):
    spec = surrogate_spec(**options)
    text = json.dumps(object_to_json(spec))
    assert object_from_json(json.loads(text)) == spec


@pytest.mark.parametrize(
    ("options", "words"),
    [({"method": "x"}, "method"), ({"preset": "x"}, "preset"), ({"nugget": -1.0}, "nugget")],
)
def test_what_cannot_be_is_refused_before_the_first_trial(options, words):
    with pytest.raises(KappaSharpError, match=words):
        surrogate_spec(**options)


def test_a_strategy_with_a_surrogate_is_stored_loaded_and_goes_on(started):
    options = {"surrogate": surrogate(**VALUES[1]), "transforms": Cont_X_trans, "fit_tracking_metrics": False}
    asked = GenerationNode("asked", [GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=options)])
    strategy = GenerationStrategy(name="taste", nodes=[asked])
    ((run,),) = strategy.gen(experiment=started, n=2)
    answer(started.new_batch_trial(generator_run=run))
    study, again = (object_from_json(json.loads(json.dumps(object_to_json(part)))) for part in (started, strategy))
    ((run,),) = again.gen(experiment=study, n=2)
    found = again.current_node.generator_spec_to_gen_from.fitted_adapter.generator.surrogate
    assert type(found) is KappaSharpSurrogate and found.surrogate_spec == surrogate_spec(**VALUES[1])
    assert type(found.model) is KappaSharpGP and found.model.n == 10 and len(run.arms) == 2


def fitted(study, **kind):
    generator = BoTorchGenerator(**kind)
    adapter = TorchAdapter(experiment=study, generator=generator, transforms=Cont_X_trans, fit_tracking_metrics=False)
    return adapter, generator.surrogate.model


def test_sensitivities_are_computed_and_a_list_of_one_predicts_as_the_model_itself(started):
    adapter, listed = fitted(started, surrogate_spec=surrogate_spec())
    card = SensitivityAnalysisPlot(metric_name=NAME, order="total").compute(experiment=started, adapter=adapter)
    shares = dict(zip(card.df["parameter_name"], card.df["sensitivity"].abs(), strict=True))
    assert set(shares) == {"x", "y"} and all(0.0 <= share <= 1.5 for share in shares.values())
    _, alone = fitted(started, surrogate=surrogate())
    assert type(listed) is ModelListGP and type(alone) is KappaSharpGP
    X = torch.rand(3, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    one, other = (model.posterior(X) for model in (listed, alone))
    assert type(one) is type(other) is GPyTorchPosterior  # which the plot insists on, whatever its order
    torch.testing.assert_close(one.distribution.covariance_matrix, other.distribution.covariance_matrix)
    torch.testing.assert_close(one.mean, other.mean)


def outcomes(parameters):
    x, y = parameters["x"], parameters["y"]
    return {"big": 400.0 * x + 50.0 * y, "small": 80.0 - 15.0 * x + 4.0 * (y - 2.0) ** 2}


def cost(seen):
    """x + y/2 + 0.8 (y − 2)² + 16."""
    return seen["big"] / 100.0 + seen["small"] / 5.0


def measured(study, run):
    trial = study.new_batch_trial(generator_run=run)
    trial.attach_batch_trial_data({arm.name: outcomes(arm.parameters) for arm in trial.arms})
    trial.mark_running(no_runner_required=True)
    trial.mark_completed()


@pytest.fixture
def bope():
    """Eight designs measured, and thirteen comparisons of their outcomes."""
    box = [RangeParameter("x", ParameterType.FLOAT, 0.5, 2.0), RangeParameter("y", ParameterType.FLOAT, 1.0, 3.0)]
    study = Experiment(name="made", search_space=SearchSpace(box), tracking_metrics=[Metric("big"), Metric("small")])
    measured(study, Generators.SOBOL(experiment=study, seed=0).gen(8))
    liked = Experiment(
        name="liked",
        search_space=SearchSpace(
            [
                RangeParameter("big", ParameterType.FLOAT, 200.0, 1000.0),
                RangeParameter("small", ParameterType.FLOAT, 40.0, 100.0),
            ]
        ),
        optimization_config=OptimizationConfig(Objective(expression=NAME, metric_name_to_signature={NAME: NAME})),
        tracking_metrics=[Metric(NAME)],
    )
    seen = [outcomes(arm.parameters) for arm in study.arms_by_name.values()]
    for step in (1, 2):
        for first, second in zip(seen, seen[step:], strict=False):
            trial = liked.new_batch_trial(generator_run=GeneratorRun([Arm(first), Arm(second)]))
            won = cost(first) < cost(second)
            one, other = trial.arms
            trial.attach_batch_trial_data({one.name: {NAME: float(won)}, other.name: {NAME: float(not won)}})
            trial.mark_running(no_runner_required=True)
            trial.mark_completed()
    study.add_auxiliary_experiment(AuxiliaryExperimentPurpose.PE_EXPERIMENT, AuxiliaryExperiment(liked))
    names = {"big": "big", "small": "small"}
    study.optimization_config = PreferenceOptimizationConfig(
        Objective(expression="big, small", metric_name_to_signature=names), preference_profile_name="liked"
    )
    return study


@pytest.mark.filterwarnings("ignore:A not p.d.")
# Where a line search of SciPy's ends on the last digits, BoTorch says so and starts again elsewhere.
@pytest.mark.filterwarnings("ignore:Optimization failed in `gen_candidates_scipy`:RuntimeWarning")
def test_preferences_among_outcomes_lead_to_what_is_liked(bope):
    """Outcomes in the hundreds, which no transform of Ax standardises here, are learnt all the same."""
    torch.manual_seed(0)
    options = {"surrogate_spec": bope_surrogate_spec(method="static"), "transforms": [UnitX]}
    search = {"model_gen_options": {"optimizer_kwargs": {"num_restarts": 4, "raw_samples": 64}}}  # two parameters
    specification = GeneratorSpec(Generators.BOTORCH_MODULAR, generator_kwargs=options, generator_gen_kwargs=search)
    node = GenerationNode(name="liked", generator_specs=[specification])
    strategy = GenerationStrategy(name="bope", nodes=[node])
    before = min(cost(outcomes(arm.parameters)) for arm in bope.arms_by_name.values())
    least = cost(outcomes({"x": 0.5, "y": 2.0 - 0.5 / 1.6}))
    for _ in range(2):
        ((run,),) = strategy.gen(experiment=bope, n=2)
        measured(bope, run)
    after = max(cost(outcomes(arm.parameters)) for arm in run.arms)
    assert least <= after < before and after - least < 0.5 * (before - least)
    submodels = node.generator_spec_to_gen_from.fitted_adapter.generator.surrogate._submodels
    liked = submodels[(NAME,)]
    assert type(liked) is KappaSharpGP and liked.surrogate.method.gate.rule.name == "ALWAYS" and bool(liked.converged)
    assert all(hasattr(submodels[(name,)], "outcome_transform") for name in ("big", "small"))


def test_the_specification_for_outcomes_is_stored_and_loaded():
    spec = bope_surrogate_spec(preset="paper")
    assert object_from_json(json.loads(json.dumps(object_to_json(spec)))) == spec

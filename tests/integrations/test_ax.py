"""A preference experiment of Ax with KappaSharpGP as its surrogate: asked, answered, stored, loaded."""

import json
from dataclasses import replace

import pytest
import torch
from ax.adapter.registry import Cont_X_trans, Generators
from ax.adapter.torch import TorchAdapter
from ax.analysis.plotly import SensitivityAnalysisPlot
from ax.core import Experiment, Metric, Objective, OptimizationConfig, ParameterType, RangeParameter
from ax.core.search_space import SearchSpace
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from botorch.acquisition.preference import qExpectedUtilityOfBestOption

import kappasharp as ks
from kappasharp.ax_surrogate import surrogate, surrogate_spec
from kappasharp.botorch_model import KappaSharpGP

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


def test_sensitivities_are_computed(started):
    generator = BoTorchGenerator(surrogate=surrogate())
    adapter = TorchAdapter(experiment=started, generator=generator, transforms=Cont_X_trans, fit_tracking_metrics=False)
    assert type(generator.surrogate.model) is KappaSharpGP and len(adapter.gen(2).arms) == 2
    card = SensitivityAnalysisPlot(metric_name=NAME, order="total").compute(experiment=started, adapter=adapter)
    shares = dict(zip(card.df["parameter_name"], card.df["sensitivity"].abs(), strict=True))
    assert set(shares) == {"x", "y"} and all(0.0 <= share <= 1.5 for share in shares.values())

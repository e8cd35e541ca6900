"""KappaSharpGP against PairwiseGP where that is right, against its own other forms and finite differences."""

import copy
import io
import itertools
import math

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model, ModelList
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize, Warp
from botorch.sampling.normal import IIDNormalSampler, SobolQMCNormalSampler
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch import settings
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, LogNormalPrior

import kappasharp as ks
from kappasharp.errors import InvalidValueError
from kappasharp.integrations.botorch.fit import KappaSharpMarginalLogLikelihood
from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import DEVICES, batch, ours, pairwise_gp, preferences, quiet

NEW = torch.rand(4, 5, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
KERNELS = {
    "rbf": lambda: ScaleKernel(RBFKernel(ard_num_dims=3)),
    "rbf, one length scale": lambda: ScaleKernel(RBFKernel()),
    "matern 5/2": lambda: ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=3)),
    "matern 3/2": lambda: ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=3)),
    "sum": lambda: ScaleKernel(RBFKernel() + MaternKernel(nu=1.5)),
    "some dimensions": lambda: ScaleKernel(RBFKernel(active_dims=(0, 2))),
}


def same(first, second, atol=1e-4):
    """The same posterior at NEW."""
    a, b = first.posterior(NEW), second.posterior(NEW)
    assert torch.allclose(a.mean, b.mean, rtol=0.0, atol=atol)
    assert torch.allclose(a.covariance_matrix, b.covariance_matrix, rtol=0.0, atol=atol)


# --- agreement ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputscale", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_is_pairwise_gps_where_that_is_right(seed, outputscale):
    X, P = preferences(seed)
    found = ours(X, P, 0.4, outputscale)
    assert float(found._held().known.map.dual.z.abs().max()) < 3.0
    same(pairwise_gp(X, P, 0.4, outputscale), found)
    same(pairwise_gp(X, P, 0.4, outputscale), ours(X, P, 0.4, outputscale, nugget=0.0), atol=1e-6)
    utility = pairwise_gp(X, P, 0.4, outputscale).unconsolidated_utility
    assert torch.allclose(found.utility, utility.detach(), rtol=0.0, atol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_given_kernel_is_honoured(kernel):
    X, P = preferences()
    module = KERNELS[kernel]()
    module.outputscale = 2.0
    with quiet():
        twin = PairwiseGP(X, P, covar_module=copy.deepcopy(module))
    found = KappaSharpGP(X, P, covar_module=module)
    assert found.covar_module is module
    same(twin, found)


def test_a_kernel_that_is_no_scale_kernel_is_supported():
    X, P = preferences()
    plain, scaled = KappaSharpGP(X, P, covar_module=RBFKernel()), KappaSharpGP(X, P, covar_module=KERNELS["rbf"]())
    scaled.covar_module.outputscale = 1.0
    same(plain, scaled, atol=1e-8)
    periodic = KappaSharpGP(X, P, covar_module=PeriodicKernel())
    shifted = periodic.posterior(NEW + periodic.covar_module.period_length.detach().squeeze())
    assert torch.allclose(periodic.posterior(NEW).mean, shifted.mean, atol=1e-6)


def test_the_two_ways_to_the_same_kernel_agree():
    """Our own kernel and GPyTorch's forward, for every part of the posterior and the evidence."""
    X, P = preferences()
    native = ours(X, P, 0.4, 3.0)
    foreign = KappaSharpGP(X, P, covar_module=ScaleKernel(_Subclass(ard_num_dims=3)))
    foreign.covar_module.outputscale, foreign.covar_module.base_kernel.lengthscale = 3.0, 0.4
    assert foreign._held().prior.family is None and native._held().prior.family == "rbf"
    same(native, foreign, atol=1e-9)
    assert torch.allclose(native.log_evidence(), foreign.log_evidence(), atol=1e-9)


class _Subclass(RBFKernel):
    """Not exactly an RBFKernel: its forward could be anything."""


# --- hyperparameters ------------------------------------------------------------------------------------------------


def parameters(model):
    return [p for p in model.parameters() if p.requires_grad]


@pytest.mark.parametrize("transform", [None, "warp"])
@pytest.mark.parametrize("kernel", ["rbf", "matern 5/2", "matern 3/2", "sum"])
def test_the_evidences_gradient_is_that_of_finite_differences(kernel, transform):
    X, P = preferences(2, n=10, m=14)
    warp = Warp(d=3, indices=[0, 1, 2]) if transform else None
    model = KappaSharpGP(X, P, covar_module=KERNELS[kernel](), input_transform=warp)
    mll = KappaSharpMarginalLogLikelihood(model.likelihood, model)
    evaluate = lambda: mll(model(model.datapoints), model.train_targets)  # noqa: E731
    gradients = torch.autograd.grad(evaluate(), parameters(model))
    for parameter, gradient in zip(parameters(model), gradients, strict=True):
        for index in range(parameter.numel()):
            values = []
            for step in (1e-5, -1e-5):
                with torch.no_grad():
                    parameter.reshape(-1)[index] += step
                values.append(float(evaluate().detach()))
                with torch.no_grad():
                    parameter.reshape(-1)[index] -= step
            expected = (values[0] - values[1]) / 2e-5
            assert float(gradient.reshape(-1)[index]) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def log_posterior(model):
    mll = KappaSharpMarginalLogLikelihood(model.likelihood, model)
    model.train()
    value = float(mll(model(model.datapoints), model.train_targets).detach())
    model.eval()
    return value


def botorchs(model, likelihood=KappaSharpMarginalLogLikelihood, **options):
    """The model, fitted by `fit_gpytorch_mll`: our search, or BoTorch's if there are options."""
    with quiet():
        fit_gpytorch_mll(likelihood(model.likelihood, model), **options)
    return model


def test_our_fit_is_not_worse_than_botorchs():
    for seed in range(1, 5):
        X, P = preferences(seed, n=24, m=30)
        theirs = KappaSharpGP(X, P)
        theirs.load_state_dict(botorchs(pairwise_gp(X, P), PairwiseLaplaceMarginalLogLikelihood).state_dict())
        slow = log_posterior(botorchs(KappaSharpGP(X, P), optimizer_kwargs={"method": "L-BFGS-B"}))
        reached = max(slow, log_posterior(theirs))
        assert slow >= log_posterior(theirs) - 1e-3
        for found in (KappaSharpGP(X, P).fit(), botorchs(KappaSharpGP(X, P))):
            assert log_posterior(found) >= reached - 1e-3


def test_our_fit_leaves_the_basin_that_a_long_first_step_ends_in():
    """From the prior's mode alone the search ends 2.5 nats lower on these data."""
    torch.manual_seed(0)
    X = torch.rand(30, 3)
    u = torch.sin(3 * X).sum(-1) * 2
    P = torch.stack([torch.randperm(30)[:2] for _ in range(40)])
    P = torch.where((u[P[:, 0]] + torch.randn(40) * 0.5 > u[P[:, 1]])[:, None], P, P.flip(-1))
    assert log_posterior(KappaSharpGP(X, P).fit()) >= log_posterior(botorchs(KappaSharpGP(X, P))) - 1e-3


@pytest.mark.parametrize("kernel", ["matern 3/2", "rbf, one length scale"])
def test_fit_falls_back_on_botorchs_for_what_our_search_cannot_do(kernel):
    X, P = preferences()
    model = KappaSharpGP(X, P, covar_module=KERNELS[kernel]())
    before = log_posterior(model)
    assert log_posterior(model.fit()) > before


def test_fit_respects_priors_constraints_and_what_is_frozen():
    X, P = preferences(1, n=24, m=40)
    tight = ScaleKernel(
        RBFKernel(ard_num_dims=3, lengthscale_constraint=Interval(0.2, 0.25)), outputscale_constraint=Interval(0.5, 0.6)
    )
    KappaSharpGP(X, P, covar_module=tight).fit()
    lengthscale, outputscale = tight.base_kernel.lengthscale.detach(), float(tight.outputscale.detach())
    assert 0.2 < float(lengthscale.min()) and float(lengthscale.max()) < 0.25 and 0.5 < outputscale < 0.6
    frozen = ScaleKernel(RBFKernel(ard_num_dims=3, lengthscale_prior=GammaPrior(2.4, 2.7)))
    frozen.outputscale = 3.0
    frozen.raw_outputscale.requires_grad_(False)
    KappaSharpGP(X, P, covar_module=frozen).fit()
    assert float(frozen.outputscale.detach()) == pytest.approx(3.0, abs=1e-12)
    for prior in (GammaPrior(200.0, 400.0), LogNormalPrior(math.log(0.5), 0.01)):  # both very sure of 0.5
        sure = ScaleKernel(RBFKernel(ard_num_dims=3, lengthscale_prior=prior))
        KappaSharpGP(X, P, covar_module=sure).fit()
        assert torch.allclose(sure.base_kernel.lengthscale, torch.tensor(0.5), atol=0.06)


def test_fit_is_the_front_doors_for_the_same_preset():
    X, P = preferences(0, n=24, m=30)
    model = KappaSharpGP(X, P, preset="modern").fit()
    found = ks.fit(X, P, preset="modern")
    lengthscale = model.covar_module.base_kernel.lengthscale.squeeze(-2)
    assert torch.allclose(lengthscale, found.lengthscale, rtol=0.05)
    assert torch.allclose(model.surrogate.posterior(X).covariance, found.posterior(X).covariance, rtol=0.05)
    assert model.surrogate.status == ("ok",)


@pytest.mark.parametrize("method", ["baseline", "static", "adaptive", "cov_only", "metric_only", "ep_ei"])
def test_methods_are_those_of_the_front_door(method):
    X, P = preferences(3, n=14, m=16)
    found = ks.fit(X, P, method=method, preset="paper")
    model = KappaSharpGP(X, P, method=method, preset="paper")
    model.covar_module.base_kernel.lengthscale = found.lengthscale.unsqueeze(-2)
    model.covar_module.outputscale = found.outputscale
    mean, covariance = found.posterior(NEW[0].clamp(0, 1))
    posterior = model.posterior(NEW[0])
    assert torch.allclose(posterior.mean.squeeze(-1), mean, atol=1e-6)
    assert torch.allclose(posterior.covariance_matrix, covariance, atol=1e-6)
    assert torch.allclose(model.utility, found.utility, atol=1e-6)


def test_a_correction_needs_one_of_our_kernels():
    X, P = preferences()
    with pytest.raises(UnsupportedError, match="must be a ScaleKernel around an RBFKernel"):
        KappaSharpGP(X, P, covar_module=KERNELS["sum"](), method="static")
    with pytest.raises(UnsupportedError, match="needs data and a ScaleKernel"):
        KappaSharpGP(X, P, covar_module=KERNELS["sum"]()).surrogate  # noqa: B018


# --- shapes, batches, gradients -------------------------------------------------------------------------------------


def test_it_is_a_botorch_model_with_pairwise_gps_attributes():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    assert isinstance(model, Model) and model.num_outputs == 1 and model.batch_shape == torch.Size()
    assert torch.equal(model.datapoints, X) and torch.equal(model.comparisons, P)
    assert model.utility.shape == (20,) and model.dim == 3
    assert torch.equal(model.utility, model.unconsolidated_utility) and (model.n, model.m) == (20, 25)
    assert torch.equal(model.train_inputs[0], X) and torch.equal(model.train_targets, P)
    assert isinstance(model.covar_module, ScaleKernel)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3), (2, 1, 3)])
def test_any_t_batch_is_its_parts_one_by_one(shape):
    X, P = preferences()
    model = ours(X, P, 0.4, 3.0)
    points = torch.rand(*shape, 2, 3)
    posterior = model.posterior(points)
    assert posterior.mean.shape == (*shape, 2, 1) and posterior.covariance_matrix.shape == (*shape, 2, 2)
    for index in itertools.product(*(range(size) for size in shape)):
        alone = model.posterior(points[index])
        assert torch.allclose(posterior.mean[index], alone.mean, atol=1e-12)
        assert torch.allclose(posterior.covariance_matrix[index], alone.covariance_matrix, atol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "matern 5/2", "sum"])
@pytest.mark.parametrize("shape", [(), (2,), (2, 2)])
def test_gradients_through_the_posterior_are_those_of_finite_differences(shape, kernel):
    X, P = preferences()
    model = KappaSharpGP(X, P, covar_module=KERNELS[kernel]())
    points = torch.rand(*shape, 2, 3, requires_grad=True)

    def both(x):
        posterior = model.posterior(x)
        return posterior.mean, posterior.covariance_matrix

    assert torch.autograd.gradcheck(both, points, atol=1e-6)


def test_a_batched_model_is_its_models_one_by_one():
    X, P = batch([0, 1, 2])
    model = KappaSharpGP(X, P).fit()
    assert model.batch_shape == (3,) and model.utility.shape == (3, 20)
    for run in range(3):
        alone = KappaSharpGP(X[run], P[run]).fit()
        lengthscale = model.covar_module.base_kernel.lengthscale[run]
        assert torch.allclose(lengthscale, alone.covar_module.base_kernel.lengthscale, rtol=2e-2)
        alone.load_state_dict({k: v[run] if v.dim() and len(v) == 3 else v for k, v in model.state_dict().items()})
        shared, single = model.posterior(NEW[0]), alone.posterior(NEW[0])
        assert torch.allclose(shared.mean[run], single.mean, atol=1e-8)
        assert torch.allclose(shared.covariance_matrix[run], single.covariance_matrix, atol=1e-8)
    assert model.posterior(NEW.unsqueeze(1)).mean.shape == (4, 3, 5, 1)
    assert torch.allclose(model.posterior(NEW.unsqueeze(1)).mean[0], model.posterior(NEW[0]).mean)


def test_a_batched_model_is_fitted_by_botorch_too():
    X, P = batch([0, 1])
    model = KappaSharpGP(X, P)
    before = log_posterior(model)
    fit_gpytorch_mll(KappaSharpMarginalLogLikelihood(model.likelihood, model))
    assert log_posterior(model) > before


@pytest.mark.parametrize("make", [Normalize, lambda d: Warp(d=d, indices=[0, 1, 2])])
def test_input_transforms_are_applied_to_data_and_candidates(make):
    X, P = preferences()
    wide = X * torch.tensor([10.0, 100.0, 2.0]) - 1.0 if make is Normalize else X * 0.9 + 0.05
    model = KappaSharpGP(wide, P, input_transform=make(d=3)).fit()
    transformed = model.transform_inputs(wide).detach()
    plain = KappaSharpGP(transformed, P)
    plain.load_state_dict(model.state_dict())
    candidates = wide[:4]
    assert torch.allclose(model.posterior(candidates).mean, plain.posterior(transformed[:4]).mean, atol=1e-8)
    assert torch.equal(model.datapoints, wide)
    further = model.condition_on_observations(candidates[:2] + 0.01, torch.tensor([[0, 1]]))
    again = KappaSharpGP(further.datapoints, further.comparisons, input_transform=copy.deepcopy(model.input_transform))
    again.eval().load_state_dict(model.state_dict())
    assert torch.allclose(further.posterior(candidates).mean, again.posterior(candidates).mean, atol=1e-6)


def test_other_data_and_another_state_find_the_transform_as_pairwise_gp_does():
    """In training mode Normalize learns its bounds again. In eval mode it keeps them; data outside are said."""
    X, P = preferences()
    new = 5.0 * X[:4]

    def means(kind):
        other, loaded = (kind(data, P, input_transform=Normalize(3)) for data in (X, 5.0 * X))
        other.set_train_data(5.0 * X, P)
        loaded.load_state_dict(kind(X, P, input_transform=Normalize(3)).state_dict())
        return torch.cat([model.posterior(new).mean for model in (other, loaded)]).detach()

    assert torch.allclose(means(KappaSharpGP), means(PairwiseGP), atol=1e-3)
    model = KappaSharpGP(X, P, input_transform=Normalize(3)).eval()
    with pytest.warns(InputDataWarning, match="not contained to the unit cube"):
        model.set_train_data(5.0 * X, P)


# --- data, state, copies --------------------------------------------------------------------------------------------


def test_data_that_are_put_in_the_place_of_others_are_heard():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    model.posterior(NEW)
    model.datapoints, model.comparisons = 0.5 * X, P.flip(-1)
    assert torch.allclose(model.posterior(NEW).mean, KappaSharpGP(0.5 * X, P.flip(-1)).posterior(NEW).mean, atol=1e-8)


def test_a_vector_is_so_many_points_of_one_dimension():
    """As in PairwiseGP: one point of three dimensions is refused."""
    X, pairs = torch.rand(8, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([[0, 1], [2, 1], [2, 3]])
    with pytest.raises(InvalidValueError, match="must have 3 dimensions like the datapoints, but got 1"):
        KappaSharpGP(X.double(), pairs).posterior(X[0].double())
    line = KappaSharpGP(X[:, :1].double(), pairs)
    along = line.posterior(X[:, 0].double()).mean
    assert along.shape == (8, 1) and torch.equal(along, line.posterior(X[:, :1].double()).mean)


def test_the_posterior_follows_every_change_of_a_hyperparameter():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    before = model.posterior(NEW).mean
    model.covar_module.outputscale = 5.0
    assert not torch.allclose(model.posterior(NEW).mean, before)
    same(model, ours(X, P, outputscale=5.0), atol=1e-9)
    with torch.no_grad():
        model.covar_module.base_kernel.raw_lengthscale.data.mul_(0.5)  # behind autograd's back
    lengthscale = model.covar_module.base_kernel.lengthscale.detach()
    same(model, ours(X, P, lengthscale, 5.0), atol=1e-6)  # from another start to the same certificate


def test_other_data_of_the_same_or_another_shape():
    X, P = preferences()
    model = KappaSharpGP(X[:10], torch.tensor([[0, 1]]))
    model.set_train_data(X, P)
    same(model, KappaSharpGP(X, P), atol=1e-9)
    model.set_train_data(X.flip(0))
    same(model, KappaSharpGP(X.flip(0), P), atol=1e-9)
    with pytest.raises(RuntimeError, match="Cannot modify shape of inputs"):
        model.set_train_data(X[:5], P, strict=True)
    with pytest.raises(InvalidValueError, match="must be given datapoints and comparisons"):
        KappaSharpGP(None, None).set_train_data(X)
    before = model.posterior(NEW).mean
    model.set_train_data()
    assert torch.equal(model.posterior(NEW).mean, before)


def test_the_state_dict_goes_to_disk_and_to_other_data():
    X, P = preferences()
    fitted, stored = KappaSharpGP(X, P).fit(), io.BytesIO()
    torch.save(fitted.state_dict(), stored)
    stored.seek(0)
    state = torch.load(stored, weights_only=True)
    assert not [name for name in state if "datapoints" in name or "comparisons" in name]
    again = KappaSharpGP(X, P)
    assert again.load_state_dict(state, strict=True).missing_keys == []
    same(fitted, again, atol=1e-9)
    fold = KappaSharpGP(X, P[:10])
    fold.load_state_dict(state)
    assert len(fold.comparisons) == 10
    assert torch.equal(fold.covar_module.outputscale, fitted.covar_module.outputscale)


def test_pairwise_gps_state_dict_is_understood():
    X, P = preferences()
    theirs = pairwise_gp(X, P, 0.35, 2.5)
    found = KappaSharpGP(X, P)
    found.load_state_dict(theirs.state_dict())
    same(theirs, found)


def test_a_deep_copy_is_its_own():
    X, P = preferences()
    model = KappaSharpGP(X, P).fit()
    model.posterior(NEW)
    twin = copy.deepcopy(model)
    same(model, twin, atol=1e-12)
    twin.covar_module.outputscale = 9.0
    assert float(model.covar_module.outputscale.detach()) != 9.0


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_it_moves_to_devices_and_precisions(device, dtype):
    X, P = preferences()
    expected = ours(X, P, 0.4, 3.0).posterior(NEW)
    model = ours(X, P, 0.4, 3.0).to(device=device, dtype=dtype)
    found = model.posterior(NEW.to(device, dtype))
    assert model.datapoints.dtype == dtype and model.comparisons.dtype == torch.long
    assert found.mean.device.type == device and found.mean.dtype == dtype
    atol = 1e-8 if dtype == torch.float64 else 1e-4
    assert torch.allclose(found.mean.cpu().double(), expected.mean, atol=atol)
    assert torch.allclose(found.covariance_matrix.cpu().double(), expected.covariance_matrix, atol=atol)
    further = model.condition_on_observations(NEW[0, :2].to(device, dtype), torch.tensor([[0, 1]], device=device))
    assert further.posterior(NEW.to(device, dtype)).mean.device.type == device


@pytest.mark.parametrize("device", DEVICES)
def test_fits_agree_across_devices(device):
    X, P = preferences()
    here, there = KappaSharpGP(X, P).fit(), KappaSharpGP(X.to(device), P.to(device)).fit()
    assert torch.allclose(
        here.covar_module.base_kernel.lengthscale, there.covar_module.base_kernel.lengthscale.cpu(), rtol=1e-2
    )


def test_inputs_from_a_ranking_dataset():
    X, P = preferences()
    flipped = torch.where(torch.arange(len(P)).unsqueeze(-1) % 2 == 0, P, P.flip(-1))
    order = torch.tensor([[0, 1], [1, 0]]).repeat(len(P) // 2 + 1, 1)[: len(P)]
    container = SliceContainer(values=X, indices=flipped, event_shape=torch.Size([6]))
    dataset = RankingDataset(X=container, Y=order, feature_names=["a", "b", "c"], outcome_names=["u"])
    inputs = KappaSharpGP.construct_inputs(dataset)
    assert torch.equal(inputs["datapoints"], X) and torch.equal(inputs["comparisons"], P)
    other = SupervisedDataset(X=X, Y=X[:, :1], feature_names=["a", "b", "c"], outcome_names=["u"])
    with pytest.raises(UnsupportedError, match="Only `RankingDataset` is supported"):
        KappaSharpGP.construct_inputs(other)


def test_one_output():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    assert model.subset_output([0]) is model and model.subset_output([-1]) is model
    assert torch.equal(model.posterior(NEW, output_indices=[0]).mean, model.posterior(NEW).mean)
    for wrong in ([1], [], [0, 0]):
        with pytest.raises(InvalidValueError, match=r"`idcs` must be \[0\]"):
            model.subset_output(wrong)
    both = ModelList(model, copy.deepcopy(model))
    assert torch.equal(both.subset_output([1]).posterior(NEW).mean, model.posterior(NEW).mean)


def test_prior_only_and_prior_mode():
    X, P = preferences()
    blank = KappaSharpGP(None, None)
    assert blank.utility is None and blank.batch_shape == torch.Size() and blank.num_outputs == 1
    posterior = blank.posterior(NEW)
    assert torch.equal(posterior.mean, torch.zeros(4, 5, 1))
    with pytest.raises(RuntimeError, match="must have data in training mode"):
        blank.train()(NEW)
    with pytest.raises(InvalidValueError, match=r"`fit\(\)` must have data"):
        blank.fit()
    filled = blank.condition_on_observations(X, P)
    assert filled.posterior(NEW).mean.abs().max() > 0.0 and blank.datapoints is None
    model = KappaSharpGP(X, P).eval()
    with settings.prior_mode(True):
        assert torch.equal(model.posterior(NEW).mean, torch.zeros(4, 5, 1))
    with pytest.raises(RuntimeError, match="Must train on training data"):
        model.train()(NEW[0])
    with pytest.raises(RuntimeError, match="Must train on training data"):
        KappaSharpMarginalLogLikelihood(model.likelihood, model)(model(model.datapoints), P.clone())


# --- further answers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"preset": "modern"}, {"method": "static", "preset": "paper"}, "sum"])
def test_conditioning_is_having_had_the_answers(options):
    X, P = preferences()
    options = {"covar_module": KERNELS["sum"]()} if options == "sum" else options
    model = KappaSharpGP(X, P, **options)
    further = model.condition_on_observations(NEW[0], torch.tensor([[0, 1], [4, 2]]))
    fresh = KappaSharpGP(torch.cat([X, NEW[0]]), torch.cat([P, torch.tensor([[20, 21], [24, 22]])]), **options)
    fresh.load_state_dict(model.state_dict())
    same(further, fresh, atol=1e-6)
    assert torch.equal(further.datapoints, fresh.datapoints) and torch.equal(further.comparisons, fresh.comparisons)
    assert torch.allclose(further.utility, fresh.utility, atol=1e-6)
    assert len(model.datapoints) == 20
    twice = further.condition_on_observations(NEW[1], torch.tensor([[3, 1]]))
    assert twice.datapoints.shape == (30, 3) and bool(twice.converged)


def test_conditioning_agrees_with_pairwise_gps():
    X, P = preferences()
    theirs = pairwise_gp(X, P, 0.4, 2.0).condition_on_observations(NEW[0], torch.tensor([[0, 1]]))
    same(theirs, ours(X, P, 0.4, 2.0).condition_on_observations(NEW[0], torch.tensor([[0, 1]])))


def test_the_conditioned_model_is_its_own():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    before = model.posterior(NEW).mean
    further = model.condition_on_observations(NEW[0], torch.tensor([[0, 1]]))
    further.covar_module.outputscale = 7.0
    further.float()
    further.load_state_dict(KappaSharpGP(X, P).fit().state_dict())
    assert torch.equal(model.posterior(NEW).mean, before)
    assert all(part.dtype == torch.float64 for part in (*model.parameters(), *model.covar_module.buffers()))


def test_conditioning_on_a_batch_is_one_by_one():
    X, P = preferences()
    model = KappaSharpGP(X, P)
    Y = torch.tensor([[[0, 1]], [[1, 0]], [[2, 3]], [[4, 0]]])
    many = model.condition_on_observations(NEW, Y)
    assert many.batch_shape == (4,)
    points = torch.rand(2, 3)
    for run in range(4):
        alone = model.condition_on_observations(NEW[run], Y[run])
        assert torch.allclose(many.posterior(points).mean[run], alone.posterior(points).mean, atol=1e-8)
    batched = KappaSharpGP(*batch([0, 1, 2]))
    assert batched.condition_on_observations(NEW[0], Y[0]).batch_shape == (3,)
    assert model.condition_on_observations(NEW[0], Y.unsqueeze(1)).batch_shape == (4, 1)


def test_values_are_not_comparisons():
    model = KappaSharpGP(*preferences())
    for Y in (torch.rand(5, 1), torch.rand(5, 2)):
        with pytest.raises(TypeError, match="must hold integer indices"):
            model.condition_on_observations(NEW[0], Y)
    with pytest.raises(InvalidValueError, match="takes X, Y and ties"):
        model.condition_on_observations(NEW[0], torch.tensor([[0, 1]]), noise=1.0)


def test_fantasies_answer_as_often_as_the_model_expects():
    X, P = preferences()
    model = ours(X, P, 0.4, 4.0)
    pair = NEW[0, :2]
    fantasies = model.fantasize(pair, IIDNormalSampler(torch.Size([400]), seed=0))
    assert fantasies.batch_shape == (400,)
    share = float((fantasies.comparisons[:, -1, 0] == 20).double().mean())
    expected = float(model.surrogate.contrast(pair[:1], pair[1:]).preferred)
    assert share == pytest.approx(expected, abs=4.0 * math.sqrt(0.25 / 400))
    # Averaged over the answers the posterior mean is the one before them, nearly: Laplace's method is not exact.
    mean = fantasies.posterior(pair).mean.mean(0)
    assert torch.allclose(mean, model.posterior(pair).mean, atol=0.15)


def test_fantasies_of_a_t_batch_and_of_more_than_two():
    model = KappaSharpGP(*preferences())
    fantasies = model.fantasize(NEW, SobolQMCNormalSampler(torch.Size([8]), seed=0))
    assert fantasies.batch_shape == (8, 4) and fantasies.comparisons.shape == (8, 4, 29, 2)
    added = fantasies.comparisons[..., -4:, :] - 20
    assert bool((added[..., 0] == added[..., :1, 0]).all())  # one winner
    assert added[0, 0].flatten().unique().tolist() == [0, 1, 2, 3, 4]
    assert fantasies.posterior(NEW).mean.shape == (8, 4, 5, 1)

"""What BoTorch's users pass by mistake: a warning of BoTorch's own kind, or a sentence that says what to do."""

import pytest
import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, UserInputWarning
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from botorch.models.transforms.input import Normalize
from botorch.sampling.normal import IIDNormalSampler
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import LinearMean

import kappasharp as ks
from kappasharp.errors import InvalidTypeError, InvalidValueError, UnknownNameError
from kappasharp.integrations.botorch.model import KappaSharpGP
from tests.integrations.botorch.examples import batch, preferences

X, P = preferences()


def test_single_precision_is_warned_about_as_in_botorch():
    with pytest.warns(InputDataWarning, match="strongly recommended to use double precision"):
        KappaSharpGP(X.float(), P)


def test_inputs_outside_the_unit_cube_are_warned_about_unless_they_are_scaled():
    with pytest.warns(InputDataWarning, match=r"not contained to the unit cube: it reaches from .* to .*Normalize"):
        KappaSharpGP(X * 10.0, P)
    KappaSharpGP(X * 10.0, P, input_transform=Normalize(d=3))


def test_comparisons_as_floats_are_converted_with_a_warning():
    with pytest.warns(InputDataWarning, match="are of type torch.float64; they are indices"):
        model = KappaSharpGP(X, P.double())
    assert model.comparisons.dtype == torch.long and torch.equal(model.comparisons, P)


def test_a_point_compared_with_itself_says_nothing():
    with pytest.warns(InputDataWarning, match="One of the comparisons has one point on both sides"):
        model = KappaSharpGP(X, torch.cat([P, torch.tensor([[3, 3]])]))
    assert torch.allclose(model.utility, KappaSharpGP(X, P).utility, atol=1e-7)


@pytest.mark.parametrize(
    ("points", "pairs", "error", "message"),
    [
        ((X * 10).long(), P, InvalidTypeError, r"`datapoints` must hold float64 .* but got torch.int64; .*double\(\)"),
        (X.tolist(), P, InvalidTypeError, "`datapoints` must be a tensor, but got list"),
        (X, P.tolist(), InvalidTypeError, "`comparisons` must be a tensor, but got list"),
        (X, P + 0.5, InvalidValueError, "but got fractions: utilities are not comparisons"),
        (X, P > 3, InvalidTypeError, "`comparisons` must hold integer indices"),
        (
            X,
            P + 1,
            InvalidValueError,
            "indices from 0 to 19 into `datapoints`, but got a minimum of .* and a maximum of 20",
        ),
        (X, P - 1, InvalidValueError, "indices from 0 to 19 into `datapoints`, but got a minimum of -1"),
        (X, P.T, InvalidValueError, r"must have the shape \(m, 2\) for datapoints of shape \(20, 3\)"),
        (X.expand(2, 20, 3), P, InvalidValueError, r"must have the shape \(2, m, 2\)"),
        (X.expand(2, 20, 3), P.expand(3, 25, 2), InvalidValueError, r"but got \(3, 25, 2\)"),
        (X[:, :0], P, InvalidValueError, r"none of them 0, but got \(20, 0\)"),
        (X.where(X > 0.5, torch.nan), P, InvalidValueError, "must be finite, but got nan at index"),
    ],
)
def test_what_cannot_be_meant_is_refused(points, pairs, error, message):
    with pytest.raises(error, match=message):
        KappaSharpGP(points, pairs)


def test_a_vector_is_a_column():
    assert torch.equal(KappaSharpGP(X[:, 0], P).datapoints, X[:, :1])


def test_another_likelihood_is_refused():
    given = PairwiseProbitLikelihood()
    assert KappaSharpGP(X, P, given).likelihood is given
    with pytest.raises(UnsupportedError, match="PairwiseLogitLikelihood or None, but got GaussianLikelihood"):
        KappaSharpGP(X, P, GaussianLikelihood())
    for options in ({"method": "static"}, {"preset": "modern"}, {"preset": ks.Preset(threshold=0.3)}):
        with pytest.raises(UnsupportedError, match="must be a probit for this `method` and `preset`"):
            KappaSharpGP(X, P, PairwiseLogitLikelihood(), **options)


def test_ties_need_a_threshold_and_one_boolean_for_each_comparison():
    ties = torch.zeros(len(P), dtype=torch.bool)
    assert KappaSharpGP(X, P, ties=ties).ties is None
    ties[3] = True
    with pytest.raises(InvalidValueError, match="`preset` must have a threshold above 0 for ties"):
        KappaSharpGP(X, P, ties=ties)
    for wrong in (ties[1:], ties.long(), ties.tolist()):
        with pytest.raises(InvalidTypeError, match=r"`ties` must be a tensor of booleans of shape \(25,\)"):
            KappaSharpGP(X, P, ties=wrong, preset=ks.Preset(threshold=0.3))


def test_a_mean_with_a_slope_is_refused():
    model = KappaSharpGP(X, P)
    model.mean_module = LinearMean(3)
    with pytest.raises(UnsupportedError, match="`mean_module` must be a ConstantMean, but got LinearMean"):
        model.posterior(X)


def test_one_design_is_no_question():
    with pytest.raises(InvalidValueError, match="at least two designs, which are compared, but got 1"):
        KappaSharpGP(X, P).fantasize(X[:1], IIDNormalSampler(torch.Size([2])))


def test_a_correction_has_no_gradient_in_the_points_it_learnt_from():
    model = KappaSharpGP(X, P, method="static", preset="paper")
    points = X[:2].clone().requires_grad_(True)
    with pytest.raises(UnsupportedError, match="`X` must not require a gradient for this `method`"):
        model.condition_on_observations(points, torch.tensor([[0, 1]]))


def test_pairwise_gps_own_settings_are_said_to_do_nothing():
    with pytest.warns(UserInputWarning, match="`jitter`, `maxfev` tuned PairwiseGP's solver"):
        KappaSharpGP(X, P, jitter=1e-4, maxfev=50)


def test_names_and_numbers_are_checked():
    with pytest.raises(UnknownNameError, match=r"is called 'metod'\. Did you mean 'method'"):
        KappaSharpGP(X, P, metod="baseline")
    with pytest.raises(UnknownNameError, match="Did you mean 'adaptive'"):
        KappaSharpGP(X, P, method="adaptve")
    with pytest.raises(InvalidValueError, match="`nugget` must be a finite number"):
        KappaSharpGP(X, P, nugget=-1.0)
    with pytest.raises(UnsupportedError, match="must have noise=1 in a BoTorch model, but got noise="):
        KappaSharpGP(X, P, preset=ks.Preset(noise=0.5))


def test_candidates_of_another_dimension_or_batch_are_refused():
    with pytest.raises(InvalidValueError, match="`X` must have 3 dimensions like the datapoints, but got 2"):
        KappaSharpGP(X, P).posterior(torch.rand(4, 2))
    with pytest.raises(RuntimeError):
        KappaSharpGP(*batch([0, 1, 2])).posterior(torch.rand(2, 4, 3))

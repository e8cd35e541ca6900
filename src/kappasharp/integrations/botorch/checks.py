"""What may come in from BoTorch's users: each mistake gets BoTorch's own warning, or a sentence."""

import math
import warnings
from collections.abc import Collection
from dataclasses import replace
from enum import Enum
from typing import Any, NamedTuple, TypedDict

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, UserInputWarning, _get_single_precision_warning
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from botorch.models.transforms.input import InputTransform
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from botorch.utils.probability.utils import log_ndtr
from gpytorch.kernels import Kernel
from gpytorch.likelihoods import Likelihood
from torch import Tensor

from kappasharp import settings
from kappasharp.algorithm import checks
from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.questions.kind import PAIR
from kappasharp.settings import Inference, Method, Preset, Weights, find_method, find_preset

OURS = ("method", "preset", "nugget", "ties")
# What PairwiseGP tunes its machinery with; there is nothing here that these could tune.
THEIRS = ("jitter", "xtol", "maxfev", "consolidate_rtol", "consolidate_atol")
# Nothing measured supports a correction as the default (docs/results); the curvature at the MAP is PairwiseGP's own.
DEFAULT_METHOD, DEFAULT_PRESET = "baseline", Preset()


class ModelOptions(TypedDict, total=False):
    """What `KappaSharpGP` may be told beside its data; the last five have no effect."""

    likelihood: Likelihood | None
    covar_module: Kernel | None
    input_transform: InputTransform | None
    method: str | Method
    preset: str | Preset
    nugget: float | None
    jitter: float
    xtol: float | None
    maxfev: int | None
    consolidate_rtol: float
    consolidate_atol: float


class Link(Enum):
    """How a difference of utilities becomes the probability of an answer."""

    PROBIT = "probit"
    LOGIT = "logit"


class Choices(NamedTuple):
    """The method, the preset and the likelihood's link of a model."""

    method: Method
    preset: Preset
    link: Link


class NotComparisonsError(InvalidTypeError, RuntimeError):
    """What a model is conditioned on is no comparison; a RuntimeError too, as PairwiseGP's is."""


class ExactProbitLikelihood(PairwiseProbitLikelihood):
    """BoTorch's probit likelihood without its clamp at |z| = 3: the one that the model is fitted with."""

    _zlim = math.inf  # type: ignore[assignment]

    def log_p(self, utility: Tensor, D: Tensor) -> Tensor:
        """log Φ, exact in both tails."""
        return log_ndtr(self._calc_z(utility, D))


def choices(
    method: str | Method, preset: str | Preset, nugget: float | None, likelihood: Likelihood, further: Collection[str]
) -> Choices:
    """Method and preset, with a nugget of its own if there is one; `further` are the names of all other arguments."""
    for name in further:
        named("argument of KappaSharpGP", name, dict.fromkeys((*OURS, *THEIRS)))
    if further:
        warnings.warn(
            f"`{'`, `'.join(further)}` tuned PairwiseGP's solver, jitter or merging of points and has no effect: "
            "KappaSharpGP solves to a certificate, merges nothing, and `nugget` is part of its model.",
            UserInputWarning,
            stacklevel=3,
        )
    chosen = find_preset(preset)
    if nugget is not None:
        chosen = settings.preset(replace(chosen, nugget=nugget))
    if chosen.noise != 1.0:
        raise UnsupportedError(
            f"`preset` must have noise=1 in a BoTorch model, but got noise={chosen.noise}: BoTorch's likelihoods have "
            "noise 1, the output scale carries the ratio; `kappasharp.fit` can do both."
        )
    link = Link.LOGIT if isinstance(likelihood, PairwiseLogitLikelihood) else Link.PROBIT
    found = Choices(find_method(method), chosen, link)
    if link is Link.LOGIT and not (is_plain(found.method) and chosen.curvature == "mode" and chosen.threshold == 0.0):
        raise UnsupportedError(
            "`likelihood` must be a probit for this `method` and `preset`, but got PairwiseLogitLikelihood: with it "
            "the method must be plain Laplace, such as 'baseline', the preset have curvature='mode' and threshold=0."
        )
    return found


def is_plain(method: Method) -> bool:
    """Whether the method's posterior is Laplace's, without a correction."""
    return method.inference is Inference.LAPLACE and method.correction.weights is Weights.NONE


def likelihood(given: Any) -> Likelihood:
    """BoTorch's probit or logit likelihood; others are refused."""
    if given is None:
        return ExactProbitLikelihood()
    if type(given) not in (PairwiseProbitLikelihood, PairwiseLogitLikelihood, ExactProbitLikelihood):
        raise UnsupportedError(
            f"`likelihood` must be a PairwiseProbitLikelihood, a PairwiseLogitLikelihood or None, but got "
            f"{type(given).__name__}: the exact tails, the evidence and the certificates are theirs."
        )
    return given


def points(value: Any, name: str = "datapoints") -> Tensor:
    """Points (…, n, d) as a float tensor, with BoTorch's warning about single precision."""
    if not isinstance(value, Tensor):
        raise InvalidTypeError(f"`{name}` must be a tensor, but got {type(value).__name__}.")
    X = value.unsqueeze(-1) if value.dim() == 1 else value
    if X.dtype not in (torch.float32, torch.float64):
        raise InvalidTypeError(
            f"`{name}` must hold float64 (or float32) numbers, but got {X.dtype}; `{name}.double()` converts them."
        )
    if X.dim() < checks.POINT_DIMS or 0 in X.shape:
        raise InvalidValueError(f"`{name}` must have the shape (…, n, d), none of them 0, but got {tuple(X.shape)}.")
    bad = ~X.isfinite()
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        raise InvalidValueError(f"`{name}` must be finite, but got {float(X[where].detach())} at index {where}.")
    return X


def warn_about_precision(X: Tensor) -> None:
    """BoTorch's word on single precision; what it costs here is the rounding of the inputs and results alone."""
    if X.dtype == torch.float32:
        warnings.warn(
            f"{_get_single_precision_warning(str(X.dtype))} KappaSharpGP solves in double precision; only its inputs "
            "and results are rounded.",
            InputDataWarning,
            stacklevel=3,
        )


def warn_about_scale(X: Tensor) -> None:
    """The length scales' prior is made for the unit cube; points outside it mean another model than intended."""
    low, high = float(X.min()), float(X.max())
    # A transform's rounding may leave the cube by a few units in the last place.
    slack = 1e-6
    if low < -slack or high > 1.0 + slack:
        warnings.warn(
            f"Data (input features) is not contained to the unit cube: it reaches from {low:.4g} to {high:.4g}. "
            "Please consider min-max scaling the input data, for example by `input_transform=Normalize(d)`.",
            InputDataWarning,
            stacklevel=3,
        )


def like(datapoints: Tensor, X: Tensor) -> Tensor:
    """Further points X of as many dimensions as the datapoints."""
    if X.shape[-1] != datapoints.shape[-1]:
        raise InvalidValueError(
            f"`X` must have {datapoints.shape[-1]} dimensions like the datapoints, but got {X.shape[-1]}."
        )
    return X


def comparisons(value: Any, X: Tensor, name: str = "comparisons") -> Tensor:
    """Comparisons (…, m, 2), winner first, as indices into the points; whole numbers given as floats are converted."""
    if not isinstance(value, Tensor):
        raise InvalidTypeError(f"`{name}` must be a tensor, but got {type(value).__name__}.")
    points = "datapoints" if name == "comparisons" else "X"
    if value.dim() < checks.POINT_DIMS or value.shape[-1] != PAIR or value.shape[:-2] != X.shape[:-2]:
        raise InvalidValueError(
            f"`{name}` must have the shape {checks.shape_of(X)} for {points} of shape {tuple(X.shape)}, "
            f"but got {tuple(value.shape)}."
        )
    P, n = _whole(value).to(X.device), X.shape[-2]
    if P.numel() and (int(P.min()) < 0 or int(P.max()) >= n):
        raise InvalidValueError(
            f"`{name}` must hold indices from 0 to {n - 1} into `{points}`, but got a minimum of {int(P.min())} "
            f"and a maximum of {int(P.max())}."
        )
    itself = int((P[..., 0] == P[..., 1]).sum())
    if itself:
        have = "One of the comparisons has" if itself == 1 else f"{itself} of the comparisons have"
        warnings.warn(
            f"{have} one point on both sides. That says nothing about the utility, and is kept without effect on it.",
            InputDataWarning,
            stacklevel=3,
        )
    return P


def ties(value: Any, P: Tensor, preset: Preset) -> Tensor | None:
    """Which of the comparisons (…, m, 2) were ties, (…, m); None where none was."""
    if value is None:
        return None
    if not isinstance(value, Tensor) or value.dtype is not torch.bool or value.shape != P.shape[:-1]:
        found = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InvalidTypeError(
            f"`ties` must be a tensor of booleans of shape {tuple(P.shape[:-1])}, one for each comparison, "
            f"but got {found}."
        )
    if not bool(value.any()):
        return None
    if preset.threshold <= 0.0:
        raise InvalidValueError(
            f"`preset` must have a threshold above 0 for ties, but got threshold={preset.threshold}: "
            "`preset=Preset(threshold=0.3)` calls noisy differences within ±0.3 a tie."
        )
    return value.to(P.device)


def further_comparisons(value: Any) -> Tensor:
    """Comparisons (…, l, 2) that a model is conditioned on, before they are held against their points."""
    whole = isinstance(value, Tensor) and not value.is_floating_point()
    if not whole or value.dim() < checks.POINT_DIMS or value.shape[-1] != PAIR:
        found = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise NotComparisonsError(
            f"`Y` must hold integer indices (…, l, 2) into X, winner first, but got {found}: "
            "the model learns from comparisons, not from values."
        )
    return value


def ranking(value: SupervisedDataset) -> RankingDataset:
    """A dataset of rankings; others are refused."""
    if not isinstance(value, RankingDataset):
        raise UnsupportedError(
            f"Only `RankingDataset` is supported as `training_data`, but got {type(value).__name__}: "
            "the model learns from comparisons."
        )
    return value


def neighbours(indices: Tensor, ranks: Tensor) -> tuple[Tensor, Tensor]:
    """Rankings (…, m, k) as comparisons (…, m (k − 1), 2), each rank with the next, and which of them are ties.

    The first against the third follows from the two between; as an answer of its own it would count their noise twice.
    """
    order = ranks.argsort(dim=-1, stable=True)
    placed, rank = indices.gather(-1, order), ranks.gather(-1, order)
    pairs = torch.stack([placed[..., :-1], placed[..., 1:]], -1)
    return pairs.flatten(-3, -2), (rank[..., :-1] == rank[..., 1:]).flatten(-2)


def same_kind(name: str, old: Tensor | None, new: Tensor) -> None:
    """Data that `strict` allows to replace these: of the same shape, precision and device."""
    for part in ("shape", "dtype", "device"):
        found = [getattr(old, part, None), getattr(new, part)]
        if found[0] != found[1]:
            raise RuntimeError(f"Cannot modify {part} of {name} (expected {found[0]}, found {found[1]}).")


def _whole(value: Tensor) -> Tensor:
    """Indices as 64-bit integers; floats only if they are whole numbers, and with a warning."""
    if value.is_complex() or value.dtype is torch.bool:
        raise InvalidTypeError(f"`comparisons` must hold integer indices (winner, loser), but got {value.dtype}.")
    if not value.is_floating_point():
        return value.long()
    if not bool((value == value.round()).all()):
        raise InvalidValueError(
            "`comparisons` must hold integer indices (winner, loser), but got fractions: utilities are not "
            "comparisons; the model learns from which of two points won."
        )
    warnings.warn(
        f"The comparisons are of type {value.dtype}; they are indices and have been converted by `.long()`.",
        InputDataWarning,
        stacklevel=4,
    )
    return value.long()

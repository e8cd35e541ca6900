"""What may come in from BoTorch's users: each mistake gets BoTorch's own warning, or a sentence."""

import warnings
from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, UserInputWarning
from botorch.models.likelihoods.pairwise import PairwiseProbitLikelihood
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from torch import Tensor

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.methods import checks
from kappasharp.methods.method import PAIR, Method, Preset
from kappasharp.methods.registry import find_method, find_preset

OURS = ("method", "preset", "nugget")
# What PairwiseGP tunes its machinery with; there is nothing here that these could tune.
THEIRS = ("jitter", "xtol", "maxfev", "consolidate_rtol", "consolidate_atol")
# Nothing measured supports a correction as the default (docs/results); the curvature at the MAP is PairwiseGP's own.
DEFAULT_METHOD, DEFAULT_PRESET = "baseline", Preset()


class Choices(NamedTuple):
    """The method and the preset of a model."""

    method: Method
    preset: Preset


def choices(method: str | Method, preset: str | Preset, nugget: float | None, further: Collection[str]) -> Choices:
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
        chosen = checks.preset(replace(chosen, nugget=nugget))
    if chosen.noise != 1.0 or chosen.threshold != 0.0:
        raise UnsupportedError(
            "`preset` must have noise=1 and threshold=0 in a BoTorch model, but got "
            f"noise={chosen.noise} and threshold={chosen.threshold}: BoTorch's probit likelihood has noise 1 (the "
            "output scale carries the ratio) and its comparisons cannot say tie; `kappasharp.fit` can do both."
        )
    return Choices(find_method(method), chosen)


def likelihood(given: Any) -> PairwiseProbitLikelihood:
    """BoTorch's probit likelihood; others are refused."""
    if given is None:
        return PairwiseProbitLikelihood()
    if type(given) is not PairwiseProbitLikelihood:
        raise UnsupportedError(
            f"`likelihood` must be a PairwiseProbitLikelihood or None, but got {type(given).__name__}: "
            "the exact tails, the evidence and the certificates are the probit's."
        )
    return given


def points(value: Any, name: str = "datapoints") -> Tensor:
    """Points (…, n, d) as a float tensor, with BoTorch's warning about single precision."""
    if not isinstance(value, Tensor):
        raise InvalidTypeError(f"`{name}` must be a tensor, but got {type(value).__name__}.")
    X = value.detach()
    X = X.unsqueeze(-1) if X.dim() == 1 else X
    if X.dtype not in (torch.float32, torch.float64):
        raise InvalidTypeError(
            f"`{name}` must hold float64 (or float32) numbers, but got {X.dtype}; `{name}.double()` converts them."
        )
    if X.dim() < checks.POINT_DIMS or 0 in X.shape:
        raise InvalidValueError(f"`{name}` must have the shape (…, n, d), none of them 0, but got {tuple(X.shape)}.")
    bad = ~X.isfinite()
    if bool(bad.any()):
        where = tuple(bad.nonzero()[0].tolist())
        raise InvalidValueError(f"`{name}` must be finite, but got {float(X[where])} at index {where}.")
    return X


def warn_about_precision(X: Tensor) -> None:
    """BoTorch's word on single precision; what it costs here is the rounding of the inputs and results alone."""
    if X.dtype == torch.float32:
        warnings.warn(
            f"The model inputs are of type {X.dtype}. It is strongly recommended to use double precision in BoTorch; "
            "KappaSharpGP solves in double precision and only its inputs and results are rounded.",
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


def comparisons(value: Any, X: Tensor, n_points: int | None = None) -> Tensor:
    """Comparisons (…, m, 2), winner first, as indices into the points; whole numbers given as floats are converted."""
    if not isinstance(value, Tensor):
        raise InvalidTypeError(f"`comparisons` must be a tensor, but got {type(value).__name__}.")
    if value.dim() < checks.POINT_DIMS or value.shape[-1] != PAIR or value.shape[:-2] != X.shape[:-2]:
        wanted = (*X.shape[:-2], "m", 2)
        raise InvalidValueError(
            f"`comparisons` must have the shape {wanted} for datapoints of shape {tuple(X.shape)}, "
            f"but got {tuple(value.shape)}."
        )
    P = _whole(value).to(X.device)
    n = X.shape[-2] if n_points is None else n_points
    if P.numel() and (int(P.min()) < 0 or int(P.max()) >= n):
        raise InvalidValueError(
            f"`comparisons` must hold indices from 0 to {n - 1}, but got a minimum of {int(P.min())} "
            f"and a maximum of {int(P.max())}."
        )
    itself = int((P[..., 0] == P[..., 1]).sum())
    if itself:
        warnings.warn(
            f"{itself} of the comparisons have one point on both sides. They say nothing about the utility and are "
            "kept without effect on it.",
            InputDataWarning,
            stacklevel=3,
        )
    return P


def further_comparisons(value: Any) -> Tensor:
    """Comparisons (…, l, 2) that a model is conditioned on, before they are held against their points."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.shape[-1] != PAIR:
        found = f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise InvalidTypeError(
            f"`Y` must hold integer indices (…, l, 2) into X, winner first, but got {found}: "
            "the model learns from comparisons, not from values."
        )
    return value


def ranking(value: SupervisedDataset) -> RankingDataset:
    """A dataset of comparisons; others are refused."""
    if not isinstance(value, RankingDataset):
        raise UnsupportedError(
            f"`training_data` must be a RankingDataset, but got {type(value).__name__}: "
            "the model learns from comparisons."
        )
    return value


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

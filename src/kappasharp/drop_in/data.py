"""What may come in from BoTorch's users: each mistake gets BoTorch's own warning, or a sentence."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.exceptions.warnings import InputDataWarning, UserInputWarning
from botorch.models.likelihoods.pairwise import PairwiseProbitLikelihood
from torch import Tensor

from kappasharp.errors import InvalidTypeError, InvalidValueError, named
from kappasharp.methods import checks
from kappasharp.methods.method import Method, Preset
from kappasharp.methods.registry import find_method, find_preset

OURS = ("method", "preset", "nugget")
# What PairwiseGP tunes its machinery with; there is nothing here that they could tune.
THEIRS = ("jitter", "xtol", "maxfev", "consolidate_rtol", "consolidate_atol")
# Nothing measured supports a correction as the default (docs/results); the curvature at the MAP is PairwiseGP's own.
DEFAULT = Preset()


class Choices(NamedTuple):
    """The method and the preset of a model."""

    method: Method
    preset: Preset


def choices(options: Mapping[str, Any]) -> Choices:
    """Method and preset from the keyword arguments beside PairwiseGP's first five."""
    for name in options:
        named("argument of KappaSharpGP", name, dict.fromkeys((*OURS, *THEIRS)))
    idle = [name for name in THEIRS if name in options]
    if idle:
        warnings.warn(
            f"`{'`, `'.join(idle)}` tuned PairwiseGP's solver, jitter or merging of points and has no effect: "
            "KappaSharpGP solves to a certificate, merges nothing, and `nugget` is part of its model.",
            UserInputWarning,
            stacklevel=3,
        )
    preset = find_preset(options.get("preset", DEFAULT))
    if "nugget" in options:
        preset = checks.preset(replace(preset, nugget=options["nugget"]))
    if preset.noise != 1.0 or preset.threshold != 0.0:
        raise UnsupportedError(
            "`preset` must have noise=1 and threshold=0 in a BoTorch model, but got "
            f"noise={preset.noise} and threshold={preset.threshold}: BoTorch's probit likelihood has noise 1 (the "
            "output scale carries the ratio) and its comparisons cannot say tie; `kappasharp.fit` can do both."
        )
    return Choices(find_method(options.get("method", "baseline")), preset)


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
    if value.dim() < checks.POINT_DIMS or value.shape[-1] != 2 or value.shape[:-2] != X.shape[:-2]:  # noqa: PLR2004
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

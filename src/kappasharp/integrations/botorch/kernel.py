"""GPyTorch kernels as priors of the surrogate: which are ours, their hyperparameters and priors, and all the others.

A ScaleKernel around an RBF or Matérn-5/2 kernel is one of our own: its hyperparameters are read from it and written
back. Any other kernel gives K by its own forward.
"""

import copy
import math
from collections import OrderedDict
from typing import Any, NamedTuple

import torch
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import Likelihood
from gpytorch.priors import GammaPrior, LogNormalPrior, Prior, SmoothedBoxPrior
from torch import Tensor, nn

from kappasharp.errors import InvalidValueError
from kappasharp.kernels.priors import PRIORS, DimensionScaledLogNormal, Gamma, LengthscalePrior, Priors, SharedLogNormal
from kappasharp.settings import Family, Preset

BASES: dict[Family, Any] = {"rbf": RBFKernel, "matern52": MaternKernel}
LONGEST = 1e3
SHORTEST = 1e-4
# Constraints with a sigmoid never reach their ends; the search stops this share before them.
MARGIN = 1e-6
# By what the priors' mode, its length scales and its output scale, is multiplied for a start of the search.
STARTS = ((1.0, 10.0), (0.3, 50.0), (0.6, 1.0), (4.0, 10.0), (1.0, 1.0), (2.0, 50.0), (2.0, 1.0), (0.3, 1.0))
CONSTANT = (Prior, Interval, Likelihood)
# Attributes that need no copy, and how a module says that it is made of its attributes.
PLAIN = (bool, int, float, str, torch.Size)
USUAL_STATES = tuple(getattr(kind, "__getstate__", None) for kind in (object, nn.Module, Kernel))


class Shape(NamedTuple):
    """Dimensions of the points (None: not known yet) and the batch in front."""

    dimension: int | None
    batch: torch.Size


def joint_batch(*batches: torch.Size) -> torch.Size:
    """The batch that all of these broadcast to; for the usual case of one batch without torch's own slow way."""
    return batches[0] if all(batch == batches[0] for batch in batches[1:]) else torch.broadcast_shapes(*batches)


def default(preset: Preset, shape: Shape) -> ScaleKernel:
    """The preset's kernel with its priors: for BoTorch 0.18's priors the one that PairwiseGP makes for itself.

    Every run of a batch has hyperparameters of its own, the output scale too (PairwiseGP shares it).
    """
    priors, d = PRIORS[preset.priors], shape.dimension
    low, high = priors.outputscale
    options = {"nu": 2.5} if preset.kernel == "matern52" else {}
    base = BASES[preset.kernel](
        ard_num_dims=d,
        batch_shape=shape.batch,
        lengthscale_prior=_prior(priors.lengthscale, d or 1),
        lengthscale_constraint=GreaterThan(
            priors.lengthscale_bounds[0], transform=None, initial_value=priors.lengthscale.mode(d or 1)
        ),
        **options,
    )
    return ScaleKernel(
        base,
        batch_shape=shape.batch,
        outputscale_prior=_outputscale_prior(priors),
        outputscale_constraint=Interval(0.5 * low, 2.0 * high, initial_value=min(max(1.0, low), high)),
    ).double()


def _prior(prior: LengthscalePrior, d: int) -> Any:
    if isinstance(prior, Gamma):
        return GammaPrior(prior.concentration, prior.rate)
    if isinstance(prior, SharedLogNormal):
        raise InvalidValueError("`preset` must have a prior that GPyTorch knows, but length scales in common are not.")
    return LogNormalPrior(prior.location + 0.5 * math.log(d), prior.scale)


def _outputscale_prior(priors: Priors) -> Any:
    if math.isinf(priors.outputscale_spread):
        return SmoothedBoxPrior(*priors.outputscale)
    return LogNormalPrior(math.log(priors.outputscale_median), priors.outputscale_spread)


def family(kernel: Kernel, d: int) -> Family | None:
    """Which of our kernels this one is, exactly; None if it is another."""
    if type(kernel) is not ScaleKernel or kernel.active_dims is not None:
        return None
    base = kernel.base_kernel
    if base.active_dims is not None or base.ard_num_dims not in (None, 1, d):
        return None
    if type(base) is RBFKernel:
        return "rbf"
    return "matern52" if type(base) is MaternKernel and base.nu == 2.5 else None  # noqa: PLR2004


def read(kernel: ScaleKernel, shape: Shape) -> Tensor:
    """Our theta (*batch, d + 1) of a kernel that is one of ours."""
    lengthscale = kernel.base_kernel.lengthscale.detach().squeeze(-2)
    outputscale = kernel.outputscale.detach()
    parts = [lengthscale.expand(*shape.batch, shape.dimension), outputscale.expand(shape.batch).unsqueeze(-1)]
    return torch.cat(parts, -1).double().log()


def write(kernel: ScaleKernel, theta: Tensor) -> None:
    """Give a kernel that is one of ours these hyperparameters; those that are frozen stay."""
    values = theta.exp()
    kernel.base_kernel.lengthscale = values[..., :-1].unsqueeze(-2).to(kernel.base_kernel.lengthscale)
    if kernel.raw_outputscale.requires_grad:
        kernel.outputscale = values[..., -1].to(kernel.outputscale)


def priors(kernel: ScaleKernel, shape: Shape) -> Priors | None:
    """The kernel's priors and constraints as ours; None where our search cannot honour them.

    It can where every dimension of every run has a length scale of its own, with a Gamma or log-normal prior or none,
    and the output scale has a smoothed box (its walls made hard: Departure 2), a log-normal prior, or none.
    """
    base, d = kernel.base_kernel, shape.dimension or 1
    own = base.lengthscale.shape == (*shape.batch, 1, d) and kernel.outputscale.shape == shape.batch
    named = set(kernel._priors) | set(base._priors)
    if not own or not base.raw_lengthscale.requires_grad or not named <= {"lengthscale_prior", "outputscale_prior"}:
        return None
    lengthscale, box = _lengthscale_prior(base, d), _box(kernel, shape)
    if lengthscale is None or box is None:
        return None
    low, high = _ends(base.raw_lengthscale_constraint)
    lengths = (max(low, SHORTEST), min(high, LONGEST))
    scale = _outputscale_of(kernel)
    if type(scale) is not LogNormalPrior:
        return Priors(lengthscale, box, lengths)
    return Priors(lengthscale, box, lengths, math.exp(float(scale.loc)), float(scale.scale))


def starts(priors: Priors, theta: Tensor, thorough: bool) -> list[Tensor]:
    """Where a search starts: beside the priors' mode, smoother and rougher; at theta, if that is not the mode.

    Evidences have several modes, most where designs lie in clusters. On 80 such data sets and 30 others one start
    missed the best of 23 ends in 12 to 24 of them; the two that are always taken together in 6, all of them clustered.
    `thorough` takes six more.
    """
    if isinstance(priors.lengthscale, Gamma) and priors.lengthscale.rate == 0.0:
        return [theta]  # flat: no mode
    mode = priors.start(theta.shape[-1] - 1).to(theta).expand_as(theta)
    low, high = priors.bounds(theta)
    own = [] if torch.allclose(mode, theta, rtol=0.0, atol=1e-6) else [theta]
    beside = [_beside(mode, *factors) for factors in (STARTS if thorough else STARTS[:2])]
    return own + [start.clamp(low, high) for start in beside]


def _beside(mode: Tensor, lengthscale: float, outputscale: float) -> Tensor:
    """The mode with its length scales and its output scale multiplied by these."""
    return torch.cat([mode[..., :-1] + math.log(lengthscale), mode[..., -1:] + math.log(outputscale)], -1)


def _lengthscale_prior(base: Kernel, d: int) -> Gamma | DimensionScaledLogNormal | None:
    prior = base._priors["lengthscale_prior"][0] if "lengthscale_prior" in base._priors else None
    if prior is None:
        return Gamma(1.0, 0.0)  # flat
    if type(prior) is GammaPrior and prior.concentration.numel() == prior.rate.numel() == 1:
        return Gamma(float(prior.concentration), float(prior.rate))
    if type(prior) is LogNormalPrior and prior.loc.numel() == prior.scale.numel() == 1:
        return DimensionScaledLogNormal(float(prior.loc) - 0.5 * math.log(d), float(prior.scale))
    return None


def _outputscale_of(kernel: ScaleKernel) -> Any:
    return kernel._priors["outputscale_prior"][0] if "outputscale_prior" in kernel._priors else None


def _box(kernel: ScaleKernel, shape: Shape) -> tuple[float, float] | None:
    low, high = _ends(kernel.raw_outputscale_constraint)
    prior = _outputscale_of(kernel)
    if type(prior) is SmoothedBoxPrior and prior.a.numel() == 1:
        low, high = max(low, float(prior.a)), min(high, float(prior.b))
    elif prior is not None and not (type(prior) is LogNormalPrior and prior.loc.numel() == prior.scale.numel() == 1):
        return None
    if kernel.raw_outputscale.requires_grad:
        # Without a prior or a constraint the evidence may rise for ever: the search needs an end.
        return max(low, 1e-6), min(high, 1e6)
    value = float(kernel.outputscale) if not shape.batch else None
    return None if value is None else (value, value)


def walls(kernel: Kernel) -> dict[str, tuple[float, float]]:
    """Ends of the raw output scales, by name, that keep them inside their smoothed boxes."""
    found = {}
    for name, part in kernel.named_modules():
        known = part._priors if type(part) is ScaleKernel else {}
        prior: Any = known["outputscale_prior"][0] if "outputscale_prior" in known else None
        if type(prior) is SmoothedBoxPrior and prior.a.numel() == 1:
            constraint = part.raw_outputscale_constraint
            low, high = _ends(constraint)
            ends = prior.a.new_tensor([max(low, float(prior.a)), min(high, float(prior.b))])
            raw = constraint.inverse_transform(ends).tolist()
            found[f"{name}.raw_outputscale".lstrip(".")] = (raw[0], raw[1])
    return found


def _ends(constraint: Interval) -> tuple[float, float]:
    """The constraint's interval, a little inside where its ends cannot be reached."""
    low, high = float(constraint.lower_bound), float(constraint.upper_bound)
    return (low, high) if not constraint.enforced else (low * (1.0 + MARGIN), high * (1.0 - MARGIN))


def evaluate(kernel: Kernel, X: Tensor, Y: Tensor | None = None) -> Tensor:
    """k(X, Y), or k(X, X) of the training points' own, by the kernel's forward, differentiable in all it depends on."""
    return kernel(X).to_dense() if Y is None else kernel(X, Y).to_dense()


def with_nugget(K: Tensor, nugget: float) -> Tensor:
    """K with the nugget on its diagonal, relative to the prior variance: for a kernel of ours the output scale."""
    size = nugget * K.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True)
    return K + torch.diag_embed(size.expand(K.shape[:-1]))


def copied(model: nn.Module) -> dict[str, nn.Module | None]:
    """The model's modules, its kernel among them, with tensors of their own.

    Priors, constraints and likelihoods are never changed but by a move or a state dict: until then they are shared.
    """
    parts = [part for part in model.modules() if part is not model]
    memo: dict[int, Any] = {id(part): part for part in parts if isinstance(part, CONSTANT)}
    own = [part for part in parts if not isinstance(part, CONSTANT) and _is_usual(type(part))]
    # All twins are there before any is filled: bound methods among the attributes are bound to them.
    memo |= {id(part): object.__new__(type(part)) for part in own}
    for part in own:
        vars(memo[id(part)]).update({name: _copied(value, memo) for name, value in vars(part).items()})
        if isinstance(part, Kernel):
            memo[id(part)].distance_module = None  # made anew when it is needed, as in GPyTorch's own copies
    return copy.deepcopy(model._modules, memo)


def _is_usual(kind: type[nn.Module]) -> bool:
    """Whether to copy such a module is to copy its attributes."""
    usual = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__getstate__ in USUAL_STATES
    return usual and not hasattr(kind, "__deepcopy__")


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    """What `copy.deepcopy` gives, without asking it for what is plain: a module has a dozen empty dictionaries."""
    if value is None or type(value) in PLAIN:
        return value
    return type(value)() if type(value) in (dict, OrderedDict, set) and not value else copy.deepcopy(value, memo)

"""A patient search for the maximum of a function on a box: ascents from many starts, random steps from one point."""

from collections.abc import Callable

import torch
from scipy.optimize import minimize
from torch import Tensor

Function = Callable[[Tensor], Tensor]


def climb(function: Function, low: Tensor, high: Tensor, starts: Tensor, rounds: int = 150) -> Tensor:
    """Where Adam's steps lead from each start (n, d), all at once; steps shrink from a tenth of the box to 1e-5."""
    U = ((starts - low) / (high - low)).clone().requires_grad_()
    adam = torch.optim.Adam([U], lr=0.1, maximize=True)
    for _ in range(rounds):
        adam.zero_grad()
        function(low + (high - low) * U).sum().backward()
        adam.step()
        adam.param_groups[0]["lr"] *= 1e-4 ** (1.0 / rounds)
        with torch.no_grad():
            U.clamp_(0.0, 1.0)
    return low + (high - low) * U.detach()


def polish(function: Function, low: Tensor, high: Tensor, starts: Tensor) -> tuple[float, Tensor]:
    """The best of SciPy's L-BFGS-B from each start, with torch's gradient."""

    def value_and_slope(x):
        X = torch.tensor(x, dtype=torch.float64, requires_grad=True)
        value = -function(X.unsqueeze(0)).sum()
        return value.item(), torch.autograd.grad(value, X)[0].numpy()

    box = list(zip(low.tolist(), high.tolist(), strict=True))
    settings = {"method": "L-BFGS-B", "bounds": box, "options": {"maxfun": 100}}
    runs = [minimize(value_and_slope, start.numpy(), jac=True, **settings) for start in starts]
    best = min(runs, key=lambda run: run.fun)
    return -best.fun, torch.tensor(best.x)


def ascend(function: Function, low: Tensor, high: Tensor, starts: Tensor) -> tuple[float, Tensor]:
    """The best of all ascents, and where it is: Adam from every start, L-BFGS-B from the two best ends."""
    ends = climb(function, low, high, starts)
    return polish(function, low, high, ends[function(ends).topk(2).indices])


def wander(function: Function, low: Tensor, high: Tensor, around: Tensor, steps: Tensor) -> float:
    """The best of random steps (n, d) from one point, at sizes from a third of the box down to its millionth."""
    sizes = torch.logspace(-0.5, -6.0, len(steps), dtype=torch.float64).unsqueeze(-1)
    return float(function((around + sizes * (high - low) * steps).clamp(low, high)).max())

"""What a method and its preset ask of the search for a question: which design it must hold, how far it may go."""

import torch
from torch import Tensor

from kappasharp.acquisition import improvement, region
from kappasharp.acquisition.maximize import Request
from kappasharp.core.posterior import Posterior
from kappasharp.methods.method import Acquisition, Method, Preset, Query


def best_seen(method: Method, fitted: Posterior) -> Tensor | None:
    """The index of the best design seen in every run, where the method asks against it."""
    against = method.acquisition is Acquisition.EXPECTED_IMPROVEMENT or method.query is Query.INCUMBENT
    return improvement.incumbent(fitted) if against else None


def request(method: Method, preset: Preset, fitted: Posterior, known: Tensor | None) -> Request:
    """What the method and the preset ask of a search, without its chance."""
    rows = torch.arange(len(fitted.X), device=fitted.X.device)
    return Request(
        [],
        variant="improvement" if method.acquisition is Acquisition.EXPECTED_IMPROVEMENT else preset.eubo,
        anchor=None if known is None else fitted.X[rows, known],
        exploration=preset.exploration,
        box=region.around_best(fitted, preset.reach),
    )

"""The door to Optuna: `KappaSharpSampler` for the preferential studies of Optuna's dashboard.

Optuna asks for one design at a time. The sampler gives it the one that promises most beside a design that is already
there: the newest that waits for its first comparison, or the best of those compared.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from optuna import Study
from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import IntersectionSearchSpace
from optuna.trial import FrozenTrial, TrialState
from optuna_dashboard.preferential import PreferentialStudy
from torch import Tensor

from kappasharp.acquisition import incumbent
from kappasharp.acquisition.maximize import MAXIMIZERS, Request, propose
from kappasharp.methods import asking
from kappasharp.methods.method import Method, Preset
from kappasharp.methods.registry import find_method, find_preset
from kappasharp.methods.surrogate import Surrogate, fit
from kappasharp.streams import stream

Numeric = FloatDistribution | IntDistribution
Space = Mapping[str, BaseDistribution]


class KappaSharpSampler(BaseSampler):
    """Designs for a preferential study, from a kappasharp model of its preferences.

    Floats and integers, with logarithms and steps, are modelled. Categories, parameters that not every trial has and
    those with a single value come from `independent_sampler`.

    Args:
        method: as in `kappasharp.fit`; which designs are compared is Optuna's business.
        preset: as in `kappasharp.fit`; its `exploration` and `reach` shape the search as in our own loop.
        independent_sampler: by default Optuna's RandomSampler.
        seed: None for a seed of its own.
    """

    def __init__(
        self,
        *,
        method: str | Method = "baseline",
        preset: str | Preset = "modern",
        independent_sampler: BaseSampler | None = None,
        seed: int | None = None,
    ) -> None:
        self._method, self._preset = find_method(method), find_preset(preset)
        self._seed = torch.Generator().seed() if seed is None else seed
        self._independent = independent_sampler or RandomSampler(seed=self._seed % 2**32)
        self._space = IntersectionSearchSpace()

    def reseed_rng(self) -> None:
        """A new seed, as Optuna asks for it where a study is copied to other processes."""
        self._seed = torch.Generator().seed()
        self._independent.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that the model is over: floats and integers of more than one value that every trial has."""
        del trial
        known = self._space.calculate(study)
        return {n: part for n, part in known.items() if isinstance(part, Numeric) and not part.single()}

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, Any]) -> dict[str, Any]:
        """The design that promises most; nothing, which leaves it to the other sampler, before the first preference."""
        found = PreferentialStudy(study).get_preferences(deepcopy=False)
        # The storage keeps no order among answers; without one of our own the same seed would round differently.
        preferences = sorted(found, key=lambda pair: (max(pair[0].number, pair[1].number), pair[0].number))
        if not preferences or not search_space:
            return {}
        compared = {one.number: one for pair in preferences for one in pair}
        index = {number: position for position, number in enumerate(compared)}
        points = torch.tensor([_to_unit(one.params, search_space) for one in compared.values()], dtype=torch.float64)
        pairs = torch.tensor([[index[better.number], index[worse.number]] for better, worse in preferences])
        model = fit(points, pairs, method=self._method, preset=self._preset)
        waiting = _waiting(study, trial, index, search_space)
        design = self._propose(model, waiting, trial.number)
        return {name: _from_unit(float(x), part) for x, (name, part) in zip(design, search_space.items(), strict=True)}

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value for a parameter outside the model."""
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def _propose(self, model: Surrogate, waiting: Tensor | None, number: int) -> Tensor:
        """The design with the largest EUBO beside the one that waits, or beside the best, as the preset searches."""
        latent = model.latent
        anchor = latent.X[:, int(incumbent.find(latent))] if waiting is None else waiting.unsqueeze(0)
        # By the trial's number, so that workers with one seed do not propose the same design.
        chance = Request([stream(self._seed, "optuna", str(number))], anchor=anchor)
        with torch.no_grad():
            request = asking.request(model.method, model.preset, latent, chance)
            return propose(latent, MAXIMIZERS[model.preset.maximizer], request).pair[0, 0]


def _waiting(study: Study, trial: FrozenTrial, compared: Mapping[int, int], space: Space) -> Tensor | None:
    """The newest other trial that has all parameters and no comparison yet."""
    open_trials = study.get_trials(deepcopy=False, states=(TrialState.RUNNING, TrialState.COMPLETE))
    for one in reversed(open_trials):
        if one.number != trial.number and one.number not in compared and set(space) <= set(one.params):
            return torch.tensor(_to_unit(one.params, space), dtype=torch.float64)
    return None


def _ends(part: Any) -> tuple[float, float]:
    return (math.log(part.low), math.log(part.high)) if part.log else (float(part.low), float(part.high))


def _to_unit(values: Mapping[str, Any], space: Space) -> list[float]:
    """A trial's parameters as a point of the unit cube."""
    point = []
    for name, part in space.items():
        low, high = _ends(part)
        value = math.log(values[name]) if getattr(part, "log", False) else float(values[name])
        point.append(min(max((value - low) / (high - low), 0.0), 1.0))
    return point


def _from_unit(x: float, part: Any) -> float | int:
    """The value at x of the unit interval: on the distribution's grid where it has one, never outside its range."""
    low, high = _ends(part)
    value = math.exp(low + x * (high - low)) if part.log else low + x * (high - low)
    if part.step is not None and not part.log:
        value = part.low + round((value - part.low) / part.step) * part.step
    value = min(max(value, part.low), part.high)
    return round(value) if isinstance(part, IntDistribution) else value
